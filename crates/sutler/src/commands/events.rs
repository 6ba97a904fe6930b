//! `sutler events`: what happened in a namespace, or to one object.

use clap::Args;
use serde_json::Value;

use crate::{
    client::{
        api::{JSON, Query},
        watch::{self, Event, Watch},
    },
    clock,
    error::Error,
    output::{events, table},
    session::Session,
    ui::Ui,
};

/// Flags of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The object whose events are meant: KIND NAME or KIND/NAME
    #[arg(value_name = "KIND[/NAME]")]
    pub(crate) words: Vec<String>,
    /// The object whose events are meant, as KIND/NAME
    #[arg(long = "for", value_name = "KIND/NAME", conflicts_with = "words")]
    pub(crate) object: Option<String>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Go on showing events as they come
    #[arg(short = 'w', long)]
    pub(crate) watch: bool,
    /// Only events of this type: Normal or Warning
    #[arg(long = "types", value_name = "TYPE", value_delimiter = ',')]
    pub(crate) types: Vec<String>,
}

/// Shows events, oldest first.
pub(crate) async fn run(session: &Session, args: &EventsArgs, ui: &Ui) -> Result<(), Error> {
    let (selector, cluster_wide) = selector(session, args).await?;
    let namespace = if cluster_wide { "default" } else { session.namespace.as_str() };
    let path = match args.all_namespaces {
        true => "/api/v1/events".to_owned(),
        false => format!("/api/v1/namespaces/{}/events", crate::client::api::encode(namespace)),
    };
    let query = Query::default().with("fieldSelector", selector);
    let mut list = watch::list(&session.api, &path, &query, JSON).await?;
    let mut found = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    found.retain(|event| wanted(args, event));
    events::sort(&mut found);
    if found.is_empty() && !args.watch {
        ui.note("no events found");
        return Ok(());
    }
    let rows = found.iter().map(|event| row(args, event)).collect();
    ui.print(&table::simple(&header(args), rows, ui.color))?;
    if !args.watch {
        return Ok(());
    }
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let mut watch = Watch::new(&session.api, &path, &query, JSON, version);
    loop {
        match watch.next().await? {
            Event::Present(event) if wanted(args, &event) => {
                ui.line(&row(args, &event).join("   "))?;
            }
            Event::Present(_) | Event::Gone(_) => {}
            Event::Expired => {
                let list = watch::list(&session.api, &path, &query, JSON).await?;
                let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                watch = Watch::new(&session.api, &path, &query, JSON, version);
            }
        }
    }
}

async fn selector(session: &Session, args: &EventsArgs) -> Result<(String, bool), Error> {
    let words: Vec<String> = args.object.iter().chain(&args.words).cloned().collect();
    if words.is_empty() {
        return Ok((String::new(), false));
    }
    let targets = session.resolve("events", &words).await?;
    let [target] = targets.as_slice() else {
        return Err(Error::Usage("name one object, or none for all of a namespace".into()));
    };
    let mut selector = format!("involvedObject.kind={}", target.resource.kind);
    if let Some(name) = &target.name {
        selector.push_str(&format!(",involvedObject.name={name}"));
    }
    Ok((selector, !target.resource.namespaced))
}

fn wanted(args: &EventsArgs, event: &Value) -> bool {
    let kind = event["type"].as_str().unwrap_or_default();
    args.types.is_empty() || args.types.iter().any(|t| t.eq_ignore_ascii_case(kind))
}

fn header(args: &EventsArgs) -> Vec<&'static str> {
    let mut header = events::HEADER.to_vec();
    if args.all_namespaces {
        header.insert(0, "NAMESPACE");
    }
    header
}

fn row(args: &EventsArgs, event: &Value) -> Vec<String> {
    let mut row = events::row(event, clock::now());
    if args.all_namespaces {
        row.insert(0, event["metadata"]["namespace"].as_str().unwrap_or_default().to_owned());
    }
    row
}
