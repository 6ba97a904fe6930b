//! Machines that carry our token and have no record: reported before anything is done to them.

use std::sync::Arc;

use sutler_api::infra::Orphan;

use crate::{
    context::Context,
    fleet::{Connection, State},
};

/// Looks for orphans in an inventory that has just become complete.
pub(crate) fn sweep(_context: &Arc<Context>, _connection: &Arc<Connection>) {}

/// The orphans of a platform, as its Provider reports them.
pub(crate) fn report(_state: &State) -> Vec<Orphan> {
    Vec::new()
}
