//! `sutler get`: objects as tables or in full, once or as they change.

use std::cmp::Ordering;

use clap::Args;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{
    client::{
        api::{JSON, METADATA, METADATA_LIST, Query, TABLE},
        discovery::Resource,
        errors,
        jsonpath::JsonPath,
        watch::{self, Event, Watch},
    },
    error::Error,
    output::{
        format::{Format, as_list, drop_managed_fields},
        status,
        table::{Table, View},
    },
    session::{Resolved, Session, label},
    ui::Ui,
};

/// Which objects are meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct Selection {
    /// KIND [NAME…], KIND/NAME…, or several kinds as KIND,KIND
    #[arg(value_name = "KIND[/NAME]")]
    pub(crate) words: Vec<String>,
    /// In all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels, as in app=web,tier!=db
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
}

/// Flags of `get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// table, wide, json, yaml, name or jsonpath=TEMPLATE
    #[arg(short = 'o', long, value_name = "FORMAT", default_value = "table", value_parser = str::parse::<Format>)]
    pub(crate) output: Format,
    /// Go on showing objects as they change
    #[arg(short = 'w', long)]
    pub(crate) watch: bool,
    /// Show changes only, not what is there already
    #[arg(long)]
    pub(crate) watch_only: bool,
    /// Only objects with these fields, as in metadata.name=web
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,
    /// Sort by a field, as in .metadata.creationTimestamp
    #[arg(long, value_name = "PATH", conflicts_with_all = ["watch", "watch_only"])]
    pub(crate) sort_by: Option<String>,
    /// No line with column names
    #[arg(long)]
    pub(crate) no_headers: bool,
    /// A column with all labels
    #[arg(long)]
    pub(crate) show_labels: bool,
    /// A column for each of these labels
    #[arg(short = 'L', long, value_name = "LABEL", value_delimiter = ',')]
    pub(crate) label_columns: Vec<String>,
    /// Keep metadata.managedFields in json and yaml
    #[arg(long)]
    pub(crate) show_managed_fields: bool,
    /// It is no error if a named object is not there
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
}

/// Shows what is selected.
pub(crate) async fn run(session: &Session, args: &GetArgs, ui: &Ui) -> Result<(), Error> {
    let targets = session.resolve("get", &args.selection.words).await?;
    check(&targets, args)?;
    if args.watch || args.watch_only {
        return follow(session, args, &targets, ui).await;
    }
    match args.output.is_table() {
        true => tables(session, args, &targets, ui).await,
        false => objects(session, args, &targets, ui).await,
    }
}

fn check(targets: &[Resolved], args: &GetArgs) -> Result<(), Error> {
    let named = targets.iter().any(|t| t.name.is_some());
    let selected = args.selection.selector.is_some() || args.field_selector.is_some();
    if named && selected {
        return Err(Error::Usage("name objects or select them with -l, not both".into()));
    }
    if named && args.selection.all_namespaces && targets.iter().any(|t| t.resource.namespaced) {
        return Err(Error::Usage(
            "an object's name counts in one namespace: leave -A out, or use --field-selector metadata.name=NAME".into(),
        ));
    }
    Ok(())
}

/// The path and query that one target stands for. A name becomes a selector where a collection
/// is needed.
struct Feed {
    resource: Resource,
    name: Option<String>,
    collection: String,
    single: String,
    query: Query,
}

impl Feed {
    fn new(session: &Session, args: &GetArgs, target: &Resolved) -> Self {
        let resource = target.resource.clone();
        let scope = session.scope(&resource, args.selection.all_namespaces);
        let include = args.sort_by.is_some().then_some("Object");
        Self {
            collection: resource.path(scope),
            single: resource.object_path(scope, target.name.as_deref().unwrap_or_default()),
            query: Query::default()
                .maybe("labelSelector", args.selection.selector.clone())
                .maybe("fieldSelector", args.field_selector.clone())
                .maybe("includeObject", include),
            name: target.name.clone(),
            resource,
        }
    }

    async fn read(&self, session: &Session, accept: &str) -> Result<Value, errors::Error> {
        match &self.name {
            Some(_) => session.api.get(&self.query.on(&self.single), accept).await,
            None => watch::list(&session.api, &self.collection, &self.query, accept).await,
        }
    }

    fn watch(&self, session: &Session, accept: &'static str, version: &str) -> Watch {
        let query = match &self.name {
            Some(name) => self.query.clone().with("fieldSelector", format!("metadata.name={name}")),
            None => self.query.clone(),
        };
        Watch::new(&session.api, &self.collection, &query, accept, version)
    }
}

/// Failures are reported where they happen, and the other targets go on.
struct Failures(usize);

impl Failures {
    fn add(&mut self, ui: &Ui, args: &GetArgs, error: errors::Error) -> Result<(), Error> {
        if error.is_connection() {
            return Err(error.into());
        }
        if !(args.ignore_not_found && error.is_not_found()) {
            ui.error(&status::explain(&error, None));
            self.0 += 1;
        }
        Ok(())
    }

    fn end(&self) -> Result<(), Error> {
        if self.0 > 0 { Err(Error::Reported) } else { Ok(()) }
    }
}

fn view(args: &GetArgs, resource: &Resource, many_kinds: bool, ui: &Ui) -> View {
    View {
        wide: args.output == Format::Wide,
        namespace: args.selection.all_namespaces && resource.namespaced,
        kind: many_kinds.then(|| resource.qualified()),
        labels: args.show_labels,
        label_columns: args.label_columns.clone(),
        no_headers: args.no_headers,
        color: ui.color,
    }
}

fn has_many_kinds(targets: &[Resolved]) -> bool {
    targets.windows(2).any(|pair| pair[0].resource != pair[1].resource)
}

async fn tables(
    session: &Session,
    args: &GetArgs,
    targets: &[Resolved],
    ui: &Ui,
) -> Result<(), Error> {
    let many = has_many_kinds(targets);
    let sort = args.sort_by.as_deref().map(JsonPath::parse).transpose()?;
    let mut failures = Failures(0);
    let mut printed = 0;
    let mut empty = Vec::new();
    // Names of one kind share one table.
    for group in targets.chunk_by(|a, b| a.resource == b.resource) {
        let resource = &group[0].resource;
        let mut whole = Value::Null;
        for target in group {
            match Feed::new(session, args, target).read(session, TABLE).await {
                Ok(answer) => merge(&mut whole, as_table(answer)),
                Err(error) => failures.add(ui, args, error)?,
            }
        }
        if let (Some(path), Some(rows)) = (&sort, whole["rows"].as_array_mut()) {
            rows.sort_by(|a, b| compare(&path.select(&a["object"]), &path.select(&b["object"])));
        }
        let text = Table::new(view(args, resource, many, ui)).render(&whole);
        if text.is_empty() {
            empty.push(resource);
            continue;
        }
        if printed > 0 {
            ui.line("")?;
        }
        ui.print(&text)?;
        printed += 1;
    }
    if printed == 0 && failures.0 == 0 {
        note_empty(session, args, &empty, ui);
    }
    failures.end()
}

fn note_empty(session: &Session, args: &GetArgs, empty: &[&Resource], ui: &Ui) {
    let kinds: Vec<&str> = empty.iter().map(|r| r.plural.as_str()).collect();
    let place = match empty.iter().any(|r| r.namespaced) && !args.selection.all_namespaces {
        true => format!(" in namespace {}", session.namespace),
        false => String::new(),
    };
    ui.note(&format!("no {} found{place}", kinds.join(", ")));
}

/// Servers that cannot make a table send objects: names and ages are what every object has.
fn as_table(answer: Value) -> Value {
    if answer["kind"] == "Table" {
        return answer;
    }
    let items = match answer.get("items").and_then(Value::as_array) {
        Some(items) => items.clone(),
        None => vec![answer.clone()],
    };
    let rows: Vec<Value> = items
        .into_iter()
        .map(|item| {
            json!({"cells": [item["metadata"]["name"], item["metadata"]["creationTimestamp"]], "object": item})
        })
        .collect();
    json!({"kind": "Table", "metadata": answer["metadata"], "rows": rows, "columnDefinitions": [
        {"name": "Name", "format": "name", "priority": 0}, {"name": "Created", "priority": 0}]})
}

fn merge(whole: &mut Value, mut table: Value) {
    match whole["rows"].as_array_mut() {
        Some(rows) => {
            if let Some(more) = table["rows"].as_array_mut() {
                rows.append(more);
            }
        }
        None => *whole = table,
    }
}

fn compare(a: &[&Value], b: &[&Value]) -> Ordering {
    match (a.first(), b.first()) {
        (Some(a), Some(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => crate::client::jsonpath::plain(a).cmp(&crate::client::jsonpath::plain(b)),
        },
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

async fn objects(
    session: &Session,
    args: &GetArgs,
    targets: &[Resolved],
    ui: &Ui,
) -> Result<(), Error> {
    let accept = |target: &Resolved| match (&args.output, &target.name) {
        (Format::Name, Some(_)) => METADATA,
        (Format::Name, None) => METADATA_LIST,
        _ => JSON,
    };
    let sort = args.sort_by.as_deref().map(JsonPath::parse).transpose()?;
    let mut failures = Failures(0);
    let mut found: Vec<(Resource, Value)> = Vec::new();
    for target in targets {
        match Feed::new(session, args, target).read(session, accept(target)).await {
            Ok(answer) => {
                let items = items_of(&target.resource, answer, target.name.is_some());
                found.extend(items.into_iter().map(|item| (target.resource.clone(), item)));
            }
            Err(error) => failures.add(ui, args, error)?,
        }
    }
    if let Some(path) = &sort {
        found.sort_by(|(_, a), (_, b)| compare(&path.select(a), &path.select(b)));
    }
    if args.output == Format::Name {
        for (resource, object) in &found {
            ui.line(&label(resource, object["metadata"]["name"].as_str().unwrap_or_default()))?;
        }
        return failures.end();
    }
    let mut items: Vec<Value> = found.into_iter().map(|(_, object)| object).collect();
    if !args.show_managed_fields {
        items.iter_mut().for_each(drop_managed_fields);
    }
    let single = matches!(targets, [only] if only.name.is_some());
    if single {
        if let Some(object) = items.first() {
            ui.print(&args.output.render(object)?)?;
        }
    } else if failures.0 == 0 || !items.is_empty() {
        ui.print(&args.output.render(&as_list(items))?)?;
    }
    failures.end()
}

/// The objects of an answer, each with its kind: lists of built-in kinds leave that out.
pub(crate) fn items_of(resource: &Resource, mut answer: Value, single: bool) -> Vec<Value> {
    if single {
        return vec![answer];
    }
    let Some(items) = answer["items"].as_array_mut() else { return Vec::new() };
    let mut items = std::mem::take(items);
    for item in &mut items {
        if item.get("kind").is_none() {
            item["apiVersion"] = resource.api_version().into();
            item["kind"] = resource.kind.clone().into();
        }
    }
    items
}

async fn follow(
    session: &Session,
    args: &GetArgs,
    targets: &[Resolved],
    ui: &Ui,
) -> Result<(), Error> {
    let accept = if args.output.is_table() { TABLE } else { JSON };
    let many = has_many_kinds(targets);
    let mut printers: Vec<Table> =
        targets.iter().map(|t| Table::new(view(args, &t.resource, many, ui))).collect();
    let feeds: Vec<Feed> = targets.iter().map(|t| Feed::new(session, args, t)).collect();
    let mut watches = stream::SelectAll::new();
    for (i, feed) in feeds.iter().enumerate() {
        let answer = feed.read(session, accept).await?;
        let version = answer["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let watch = feed.watch(session, accept, version);
        watches.push(events(i, watch).boxed_local());
        if !args.watch_only {
            show(args, feed, &mut printers[i], answer, false, ui)?;
        }
    }
    while let Some((i, event)) = watches.next().await {
        let feed = &feeds[i];
        match event? {
            Event::Present(object) | Event::Gone(object) => {
                show(args, feed, &mut printers[i], object, true, ui)?;
            }
            Event::Expired => {
                let answer = feed.read(session, accept).await?;
                let version = answer["metadata"]["resourceVersion"].as_str().unwrap_or_default();
                watches.push(events(i, feed.watch(session, accept, version)).boxed_local());
                show(args, feed, &mut printers[i], answer, false, ui)?;
            }
        }
    }
    Ok(())
}

/// The events of a watch, up to the first failure or the end of its history.
fn events(
    feed: usize,
    watch: Watch,
) -> impl futures::Stream<Item = (usize, Result<Event, errors::Error>)> {
    stream::unfold(Some(watch), move |watch| async move {
        let mut watch = watch?;
        let event = watch.next().await;
        let again = matches!(event, Ok(Event::Present(_) | Event::Gone(_)));
        Some(((feed, event), again.then_some(watch)))
    })
}

fn show(
    args: &GetArgs,
    feed: &Feed,
    printer: &mut Table,
    answer: Value,
    single: bool,
    ui: &Ui,
) -> Result<(), Error> {
    if args.output.is_table() {
        ui.print(&printer.render(&as_table(answer)))?;
        return Ok(());
    }
    for mut object in items_of(&feed.resource, answer, single || feed.name.is_some()) {
        if args.output == Format::Name {
            let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            ui.line(&label(&feed.resource, &name))?;
            continue;
        }
        if !args.show_managed_fields {
            drop_managed_fields(&mut object);
        }
        if args.output == Format::Yaml {
            ui.line("---")?;
        }
        ui.print(&args.output.render(&object)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_a_table_where_the_server_has_none() {
        let list = json!({"kind": "XList", "metadata": {"resourceVersion": "5"},
            "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]});
        let table = as_table(list);
        assert_eq!(table["rows"].as_array().unwrap().len(), 2);
        assert_eq!(table["metadata"]["resourceVersion"], "5");
        let one = as_table(json!({"kind": "X", "metadata": {"name": "a"}}));
        assert_eq!(one["rows"][0]["cells"][0], "a");
    }

    #[test]
    fn rows_sort_by_number_or_text_and_missing_ones_first() {
        let (two, ten, text) = (json!(2), json!(10), json!("b"));
        assert_eq!(compare(&[&two], &[&ten]), Ordering::Less);
        assert_eq!(compare(&[], &[&ten]), Ordering::Less);
        assert_eq!(compare(&[&text], &[&json!("a")]), Ordering::Greater);
    }

    #[test]
    fn listed_objects_get_their_kind() {
        let resource = Resource { version: "v1".into(), kind: "Pod".into(), ..Resource::default() };
        let items = items_of(&resource, json!({"items": [{"metadata": {}}]}), false);
        assert_eq!((&items[0]["kind"], &items[0]["apiVersion"]), (&json!("Pod"), &json!("v1")));
    }
}
