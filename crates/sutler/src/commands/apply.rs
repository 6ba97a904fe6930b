//! `sutler apply`: server-side apply of every object in files, folders or standard input.

use std::path::PathBuf;

use clap::Args;
use http::StatusCode;
use serde_json::Value;

use crate::{
    client::{
        api::{METADATA, Query},
        discovery::Resource,
        fields,
        manifests::{self, Document},
        openapi,
    },
    commands::wait,
    error::Error,
    output::{
        format::{Format, drop_managed_fields},
        status::{self, Advice},
    },
    session::{Session, label},
    ui::Ui,
};

/// Who owns the fields that `apply` sets.
pub(crate) const FIELD_MANAGER: &str = "sutler";

/// How long a new kind may take until it is served.
const ESTABLISH: std::time::Duration = std::time::Duration::from_secs(15);

/// Flags of `apply`.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// A file, a folder, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "PATH", required_unless_present = "paths")]
    pub(crate) filename: Vec<PathBuf>,
    /// Files and folders, as with -f
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Look into folders below folders too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Take over fields that other managers own
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// Let the server check everything and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Apply on the server, which this command always does
    #[arg(long)]
    pub(crate) server_side: bool,
    /// Print json, yaml, name or jsonpath=… instead of what was done
    #[arg(short = 'o', long, value_name = "FORMAT", value_parser = str::parse::<Format>)]
    pub(crate) output: Option<Format>,
}

/// What became of one object.
enum Outcome {
    Created,
    Configured,
    Unchanged,
}

/// Applies everything that can be applied, and reports each object.
pub(crate) async fn run(session: &Session, args: &ApplyArgs, ui: &Ui) -> Result<(), Error> {
    let paths: Vec<PathBuf> = args.filename.iter().chain(&args.paths).cloned().collect();
    let (mut documents, broken) = manifests::load(&paths, args.recursive);
    let mut failed = broken.len();
    for error in &broken {
        ui.error(&error.to_string());
    }
    if documents.is_empty() && failed == 0 {
        return Err(Error::Failed("nothing to apply: the files hold no object".into()));
    }
    // What others live in, or are kinds of, comes first; the rest keeps its order.
    documents.sort_by_key(|d| !is_base(d));
    let mut kinds_changed = false;
    for document in &documents {
        match apply(session, args, document, &mut kinds_changed).await {
            Ok((resource, outcome, object)) => report(args, ui, &resource, &outcome, object)?,
            Err(error) => {
                if let Error::Api(inner) = &error
                    && inner.is_connection()
                {
                    return Err(error);
                }
                failed += 1;
                let advice = advice(session, &error, document).await;
                ui.error(&explain_with(&error, document, &advice));
            }
        }
    }
    if failed > 0 {
        let total = documents.len() + broken.len();
        if total > 1 {
            ui.note(&format!("{failed} of {total} failed"));
        }
        return Err(Error::Reported);
    }
    Ok(())
}

fn is_base(document: &Document) -> bool {
    matches!(
        (document.api_version(), document.kind()),
        ("v1", "Namespace") | ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    )
}

async fn apply(
    session: &Session,
    args: &ApplyArgs,
    document: &Document,
    kinds_changed: &mut bool,
) -> Result<(Resource, Outcome, Value), Error> {
    let resource = resource_of(session, document, kinds_changed).await?;
    let mut body = document.value.clone();
    drop_managed_fields(&mut body);
    let namespace = namespace_of(session, &resource, document)?;
    if let Some(namespace) = namespace {
        body["metadata"]["namespace"] = namespace.into();
    }
    let path = resource.object_path(namespace, document.name());
    let before = match session.api.get(&path, METADATA).await {
        Ok(object) => Some(object["metadata"]["resourceVersion"].clone()),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    let url = Query::default()
        .with("fieldManager", FIELD_MANAGER)
        .with("fieldValidation", "Strict")
        .maybe("force", args.force_conflicts.then_some("true"))
        .maybe("dryRun", args.dry_run.then_some("All"))
        .on(&path);
    let (code, object) = session.api.patch(&url, "application/apply-patch+yaml", &body).await?;
    *kinds_changed |= document.kind() == "CustomResourceDefinition" && !args.dry_run;
    let outcome = match before {
        _ if code == StatusCode::CREATED => Outcome::Created,
        Some(version) if version == object["metadata"]["resourceVersion"] && !args.dry_run => {
            Outcome::Unchanged
        }
        None => Outcome::Created,
        Some(_) => Outcome::Configured,
    };
    Ok((resource, outcome, object))
}

/// The kind of a document. A kind that this very run brought may take a moment to be served.
async fn resource_of(
    session: &Session,
    document: &Document,
    kinds_changed: &mut bool,
) -> Result<Resource, Error> {
    let (api_version, kind) = (document.api_version(), document.kind());
    let unknown = match session.discovery().await?.of_kind(api_version, kind) {
        Ok(resource) => return Ok(resource.clone()),
        Err(unknown) => unknown,
    };
    if !std::mem::take(kinds_changed) {
        return Err(unknown.into());
    }
    let crds = session.discovery().await?;
    let crds = crds.of_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let found = session.api.get(&crds.path(None), crate::client::api::JSON).await?;
    let name = found["items"].as_array().into_iter().flatten().find_map(|crd| {
        let fits = crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind;
        fits.then(|| crd["metadata"]["name"].as_str()).flatten().map(str::to_owned)
    });
    if let Some(name) = name {
        let established = |crd: Option<&Value>| {
            crd.and_then(|crd| wait::condition(crd, "Established"))
                .filter(|c| c["status"] == "True")
                .map(|_| ())
        };
        let watching = wait::follow(&session.api, crds, None, &name, established);
        match tokio::time::timeout(ESTABLISH, watching).await {
            Ok(result) => result?,
            Err(_) => {
                return Err(Error::Timeout(format!("{name} is not served after {ESTABLISH:?}")));
            }
        }
    }
    Ok(session.rediscover().await?.of_kind(api_version, kind)?.clone())
}

/// The namespace of a document: its own, or the one we work in. Two that differ are a mistake.
pub(crate) fn namespace_of<'a>(
    session: &'a Session,
    resource: &Resource,
    document: &'a Document,
) -> Result<Option<&'a str>, Error> {
    if !resource.namespaced {
        return Ok(None);
    }
    match document.namespace() {
        Some(own) if session.namespace_given && own != session.namespace => {
            Err(manifests::Error::Object {
                place: document.place("metadata.namespace"),
                message: format!(
                    "metadata.namespace: the manifest says {own:?} and the command says {:?}: leave one out",
                    session.namespace
                ),
            }
            .into())
        }
        Some(own) => Ok(Some(own)),
        None => Ok(Some(&session.namespace)),
    }
}

/// An error with the document's place and name in front.
pub(crate) fn explain(error: &Error, document: &Document) -> String {
    explain_with(error, document, &Advice::new())
}

fn explain_with(error: &Error, document: &Document, advice: &Advice) -> String {
    match error {
        Error::Api(error) => {
            let text = status::explain_with(error, Some(document), advice);
            let quoted = format!("\"{}\"", document.name());
            let who = match text.lines().next().unwrap_or_default().contains(&quoted) {
                true => String::new(),
                false => format!("{} {quoted}: ", document.kind()),
            };
            format!("{}: {who}{text}", document.place(""))
        }
        Error::UnknownKind(error) => format!("{}: {error}", document.place("kind")),
        other => other.render(),
    }
}

/// What was probably meant by fields that the kind does not have.
async fn advice(session: &Session, error: &Error, document: &Document) -> Advice {
    let mut advice = Advice::new();
    let Error::Api(error) = error else { return advice };
    let unknown: Vec<String> = error
        .status()
        .map(fields::complaints)
        .unwrap_or_default()
        .into_iter()
        .filter(|complaint| complaint.message == fields::UNKNOWN)
        .map(|complaint| complaint.field)
        .collect();
    if unknown.is_empty() {
        return advice;
    }
    let Ok(discovery) = session.discovery().await else { return advice };
    let Ok(resource) = discovery.of_kind(document.api_version(), document.kind()) else {
        return advice;
    };
    let Some(schema) = openapi::fetch(&session.api, resource).await else { return advice };
    for field in unknown {
        if let Some(text) = openapi::advise(&schema, resource, &field) {
            advice.insert(field, text);
        }
    }
    advice
}

fn report(
    args: &ApplyArgs,
    ui: &Ui,
    resource: &Resource,
    outcome: &Outcome,
    mut object: Value,
) -> Result<(), Error> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let label = label(resource, &name);
    match &args.output {
        Some(Format::Name) => ui.line(&label)?,
        Some(format) if !format.is_table() => {
            drop_managed_fields(&mut object);
            if *format == Format::Yaml {
                ui.line("---")?;
            }
            ui.print(&format.render(&object)?)?;
        }
        _ => {
            let word = match outcome {
                Outcome::Created => "created",
                Outcome::Configured => "configured",
                Outcome::Unchanged => "unchanged",
            };
            let note = if args.dry_run { " (dry run)" } else { "" };
            ui.line(&format!("{label} {word}{note}"))?;
        }
    }
    Ok(())
}
