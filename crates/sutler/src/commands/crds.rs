//! `sutler crds`: the CustomResourceDefinitions of every kind, for a cluster.

use crate::{error::Error, ui::Ui};

/// Prints them as YAML.
pub(crate) fn run(ui: &Ui) -> Result<(), Error> {
    ui.print(&sutler_api::crd_yaml())?;
    Ok(())
}
