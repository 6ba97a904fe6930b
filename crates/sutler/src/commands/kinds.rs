//! `sutler kinds`: what the server serves.

use clap::Args;

use crate::{error::Error, output::table, session::Session, ui::Ui};

/// Flags of `kinds`.
#[derive(Debug, Args)]
pub(crate) struct KindsArgs {
    /// Only kinds of this group
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// wide shows verbs and categories too; name shows names alone
    #[arg(short = 'o', long, value_name = "FORMAT", value_parser = ["table", "wide", "name"], default_value = "table")]
    pub(crate) output: String,
}

/// Lists kinds.
pub(crate) async fn run(session: &Session, args: &KindsArgs, ui: &Ui) -> Result<(), Error> {
    let discovery = session.discovery().await?;
    let mut found: Vec<_> = discovery
        .resources
        .iter()
        .filter(|r| r.preferred && args.group.as_ref().is_none_or(|g| *g == r.group))
        .collect();
    found.sort_by(|a, b| (&a.group, &a.plural).cmp(&(&b.group, &b.plural)));
    if args.output == "name" {
        for resource in found {
            let dot = if resource.group.is_empty() { "" } else { "." };
            ui.line(&format!("{}{dot}{}", resource.plural, resource.group))?;
        }
        return Ok(());
    }
    let wide = args.output == "wide";
    let mut header = vec!["NAME", "SHORT NAMES", "API VERSION", "NAMESPACED", "KIND"];
    if wide {
        header.extend(["VERBS", "CATEGORIES"]);
    }
    let rows = found
        .into_iter()
        .map(|r| {
            let mut row = vec![
                r.plural.clone(),
                r.short_names.join(","),
                r.api_version(),
                r.namespaced.to_string(),
                r.kind.clone(),
            ];
            if wide {
                row.extend([r.verbs.join(","), r.categories.join(",")]);
            }
            row
        })
        .collect();
    ui.print(&table::simple(&header, rows, ui.color))?;
    Ok(())
}
