//! `sutler orphans`: machines that carry our token and have no record, as their Providers tell; or those
//! that are not of this control plane at all.

use clap::Args;
use serde_json::{Value, json};
use sutler_api::names::annotations;

use crate::{
    client::{
        api::{JSON, Query},
        watch,
    },
    clock,
    error::Error,
    output::{
        format::{Format, as_list},
        table,
    },
    session::Session,
    ui::Ui,
};

/// Flags of `orphans`.
#[derive(Debug, Args)]
pub(crate) struct OrphansArgs {
    /// What to do with them: only `list` for now, which may be left out
    #[arg(value_name = "list", value_parser = ["list"], default_value = "list")]
    pub(crate) action: String,
    /// Machines that are not of this control plane instead, which it never touches
    #[arg(long)]
    pub(crate) unmanaged: bool,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// table, wide, json, yaml, name or jsonpath=TEMPLATE
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "table", value_parser = str::parse::<Format>)]
    pub(crate) output: Format,
}

/// Shows them, and how to have them removed.
pub(crate) async fn run(session: &Session, args: &OrphansArgs, ui: &Ui) -> Result<(), Error> {
    let discovery = session.discovery().await?;
    let resource = discovery.of_kind("infra.virtrigaud.io/v1beta1", "Provider")?;
    let path = resource.path(session.scope(resource, args.all_namespaces));
    let list = watch::list(&session.api, &path, &Query::default(), JSON).await?;
    let providers: Vec<&Value> = list["items"].as_array().into_iter().flatten().collect();
    let which = if args.unmanaged { UNMANAGED } else { ORPHANS };
    let found: Vec<Value> =
        providers.iter().flat_map(|provider| machines(provider, which)).collect();
    match &args.output {
        Format::Table | Format::Wide => {}
        Format::Name => {
            for orphan in &found {
                ui.line(&format!("{}/{}", cell(&orphan["provider"]), cell(&orphan["id"])))?;
            }
            return Ok(());
        }
        other => return Ok(ui.print(&other.render(&as_list(found))?)?),
    }
    if found.is_empty() {
        ui.note(match args.unmanaged {
            true => "no other machines: everything there is of this control plane",
            false => "no orphans: every machine that carries our token has its record",
        });
        return Ok(());
    }
    if args.unmanaged {
        let header = ["PROVIDER", "ID", "NAME", "HOST", "INSTALLATION"];
        let rows = found.iter().map(unmanaged_row).collect();
        return Ok(ui.print(&table::simple(&header, rows, ui.color))?);
    }
    let wide = args.output == Format::Wide;
    let mut header = vec!["PROVIDER", "ID", "NAME", "HOST", "FIRST SEEN", "SIGHTINGS"];
    if wide {
        header.push("WHY");
    }
    let rows = found.iter().map(|orphan| row(orphan, wide)).collect();
    ui.print(&table::simple(&header, rows, ui.color))?;
    for provider in providers.iter().filter(|provider| machines(provider, which).next().is_some()) {
        ui.note(&hint(provider));
    }
    Ok(())
}

/// Where a Provider's status tells of them.
const ORPHANS: &str = "orphans";
const UNMANAGED: &str = "unmanaged";

/// The machines that a Provider tells of, each with the Provider's name.
fn machines(provider: &Value, which: &str) -> impl Iterator<Item = Value> + use<> {
    let metadata = &provider["metadata"];
    let (namespace, name) = (metadata["namespace"].clone(), metadata["name"].clone());
    let found = provider["status"][which].as_array().cloned().unwrap_or_default();
    found.into_iter().map(move |mut orphan| {
        orphan["provider"] = name.clone();
        orphan["namespace"] = namespace.clone();
        orphan
    })
}

fn row(orphan: &Value, wide: bool) -> Vec<String> {
    let seen = clock::age_of(orphan["firstSeen"].as_str(), clock::now());
    let provider = format!("{}/{}", cell(&orphan["namespace"]), cell(&orphan["provider"]));
    let mut row = vec![
        provider,
        cell(&orphan["id"]),
        cell(&orphan["name"]),
        cell(&orphan["host"]),
        format!("{seen} ago"),
        cell(&orphan["sightings"]),
    ];
    if wide {
        row.push(cell(&orphan["message"]));
    }
    row
}

fn unmanaged_row(machine: &Value) -> Vec<String> {
    let provider = format!("{}/{}", cell(&machine["namespace"]), cell(&machine["provider"]));
    let told = ["id", "name", "host", "installation"].map(|field| cell(&machine[field]));
    std::iter::once(provider).chain(told).collect()
}

fn hint(provider: &Value) -> String {
    let metadata = &provider["metadata"];
    let (namespace, name) = (cell(&metadata["namespace"]), cell(&metadata["name"]));
    if metadata["annotations"][annotations::REAP_ORPHANS] == json!("true") {
        return format!("{namespace}/{name} removes them, ten at a time, each after two sightings");
    }
    format!(
        "they are left alone; to have them removed: kubectl annotate -n {namespace} provider {name} \
         {}=true",
        annotations::REAP_ORPHANS
    )
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphans_carry_their_provider_and_the_hint_fits_it() {
        let mut provider = json!({"metadata": {"namespace": "lab", "name": "sim"},
            "status": {"orphans": [{"id": "7", "name": "web-abcde", "sightings": 2}],
                "unmanaged": [{"id": "8", "name": "db"}]}});
        let found: Vec<Value> = machines(&provider, ORPHANS).collect();
        assert_eq!(row(&found[0], false)[..3], ["lab/sim", "7", "web-abcde"]);
        assert!(hint(&provider).contains("-n lab provider sim sutler.dev/reap-orphans=true"));
        provider["metadata"]["annotations"] = json!({"sutler.dev/reap-orphans": "true"});
        assert!(hint(&provider).contains("two sightings"));
        assert_eq!(machines(&json!({}), ORPHANS).count(), 0);
        let found: Vec<Value> = machines(&provider, UNMANAGED).collect();
        assert_eq!(unmanaged_row(&found[0]), ["lab/sim", "8", "db", "", ""]);
    }
}
