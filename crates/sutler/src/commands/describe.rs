//! `sutler describe`: everything about objects, on one page each.

use clap::Args;
use serde_json::Value;

use crate::{
    client::{
        api::{JSON, Query},
        watch,
    },
    clock,
    commands::get::{Selection, items_of},
    error::Error,
    output::{describe, events},
    session::Session,
    ui::Ui,
};

/// Flags of `describe`.
#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Leave the events out
    #[arg(long)]
    pub(crate) no_events: bool,
}

/// Describes what is selected.
pub(crate) async fn run(session: &Session, args: &DescribeArgs, ui: &Ui) -> Result<(), Error> {
    let selection = &args.selection;
    let mut objects = Vec::new();
    let mut failed = false;
    for target in session.resolve("describe", &selection.words).await? {
        let resource = &target.resource;
        match &target.name {
            Some(name) => match session.object(resource, name).await {
                Ok(object) => objects.push(object),
                Err(error @ Error::Api(_)) if !is_connection(&error) => {
                    ui.error(&error.render());
                    failed = true;
                }
                Err(error) => return Err(error),
            },
            None => {
                let path = resource.path(session.scope(resource, selection.all_namespaces));
                let query = Query::default().maybe("labelSelector", selection.selector.clone());
                let list = watch::list(&session.api, &path, &query, JSON).await?;
                objects.extend(items_of(resource, list, false));
            }
        }
    }
    if objects.is_empty() && !failed {
        ui.note("nothing found");
    }
    for (i, object) in objects.iter().enumerate() {
        let events = match args.no_events {
            true => Some(Vec::new()),
            false => events_of(session, object).await,
        };
        if i > 0 {
            ui.line("\n")?;
        }
        ui.print(&describe::describe(object, events.as_deref(), clock::now(), ui.color))?;
    }
    if failed { Err(Error::Reported) } else { Ok(()) }
}

fn is_connection(error: &Error) -> bool {
    matches!(error, Error::Api(error) if error.is_connection())
}

/// The events of an object, oldest first; those of cluster-wide objects are in `default`.
/// Somebody who may see the object may not see its events: that is said, and is no failure.
async fn events_of(session: &Session, object: &Value) -> Option<Vec<Value>> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    let path = format!("/api/v1/namespaces/{}/events", crate::client::api::encode(namespace));
    let query = Query::default().with("fieldSelector", describe::event_selector(object));
    let mut list = watch::list(&session.api, &path, &query, JSON).await.ok()?;
    let mut items = std::mem::take(list["items"].as_array_mut()?);
    events::sort(&mut items);
    Some(items)
}
