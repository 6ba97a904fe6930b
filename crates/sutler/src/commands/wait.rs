//! `sutler wait`: until a condition holds, a field has a value, or an object is there or gone.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::Value;

use crate::{
    client::{
        api::{Api, JSON, METADATA_LIST, Query},
        discovery::Resource,
        errors,
        jsonpath::JsonPath,
        manifests,
        watch::{self, Event, Watch},
    },
    clock,
    commands::{apply, board::Board, get::Selection},
    error::Error,
    output::status,
    session::{Session, label},
    ui::Ui,
};

/// Flags of `wait`.
#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The objects of these files
    #[arg(short = 'f', long = "filename", value_name = "PATH")]
    pub(crate) filename: Vec<PathBuf>,
    /// Look into folders below folders too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Every object of the kind
    #[arg(long)]
    pub(crate) all: bool,
    /// ready, condition=NAME[=VALUE], jsonpath={PATH}[=VALUE], create or delete
    #[arg(long = "for", value_name = "WHAT", required = true, value_parser = str::parse::<Goal>)]
    pub(crate) goal: Goal,
    /// How long to wait; 0 is without end
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = clock::parse_duration)]
    pub(crate) timeout: Duration,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Goal {
    /// A condition has a status.
    Condition {
        /// Its type.
        name: String,
        /// The status.
        value: String,
    },
    /// A field has a value, or any.
    Field {
        /// Where it is, as typed.
        text: String,
        /// Where it is.
        path: JsonPath,
        /// What it is to be; absent is anything.
        value: Option<String>,
    },
    /// The object is there.
    Create,
    /// The object is gone.
    Delete,
}

impl std::str::FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("condition=") {
            let (name, value) = rest.split_once('=').unwrap_or((rest, "True"));
            if !name.is_empty() && !value.is_empty() {
                return Ok(Self::Condition { name: name.into(), value: value.into() });
            }
        }
        if let Some(rest) = text.strip_prefix("jsonpath=") {
            let (path, value) = split_path(rest);
            return Ok(Self::Field {
                text: path.to_owned(),
                path: JsonPath::parse(path).map_err(|e| e.to_string())?,
                value: value.map(|v| v.trim_matches(['"', '\'']).to_owned()),
            });
        }
        match text {
            "ready" | "Ready" => {
                Ok(Self::Condition { name: "Ready".into(), value: "True".into() })
            }
            "create" => Ok(Self::Create),
            "delete" => Ok(Self::Delete),
            _ => Err("write ready, condition=Ready, condition=Ready=False, jsonpath='{.status.phase}'=Running, create or delete".into()),
        }
    }
}

/// Cuts `{.a[?(@.b=="c")]}=value` behind the path.
fn split_path(text: &str) -> (&str, Option<&str>) {
    if text.trim_start().starts_with('{') {
        if let Some(end) = text.rfind('}') {
            return (&text[..=end], text[end + 1..].strip_prefix('='));
        }
        return (text, None);
    }
    match text.split_once('=') {
        Some((path, value)) => (path, Some(value)),
        None => (text, None),
    }
}

impl Goal {
    /// Whether an object is as wanted; where not, how it stands.
    pub(crate) fn check(&self, object: Option<&Value>) -> Result<(), String> {
        let Some(object) = object else {
            return match self {
                Self::Delete => Ok(()),
                _ => Err("not there".into()),
            };
        };
        match self {
            Self::Create => Ok(()),
            Self::Delete => Err(deletion(object)),
            Self::Condition { name, value } => {
                let Some(found) = condition(object, name) else {
                    return Err(format!("has no condition {name} yet"));
                };
                let status = found["status"].as_str().unwrap_or_default();
                let stale = match (
                    found["observedGeneration"].as_i64(),
                    object["metadata"]["generation"].as_i64(),
                ) {
                    (Some(seen), Some(now)) => seen < now,
                    _ => false,
                };
                if status.eq_ignore_ascii_case(value) && !stale {
                    return Ok(());
                }
                let text = |key: &str| found[key].as_str().unwrap_or_default();
                let mut state = format!("{name} is {status}");
                if stale {
                    state.push_str(" for an older generation");
                }
                if !text("reason").is_empty() {
                    state.push_str(&format!(" ({})", text("reason")));
                }
                if !text("message").is_empty() {
                    state.push_str(&format!(": {}", text("message").replace('\n', " ")));
                }
                Err(state)
            }
            Self::Field { text, path, value } => {
                let found = path.select(object);
                let have = path.text(object);
                match value {
                    None if !found.is_empty() => Ok(()),
                    Some(want) if !found.is_empty() && have == *want => Ok(()),
                    _ if found.is_empty() => Err(format!("{text} is not set")),
                    _ => Err(format!("{text} is {have:?}")),
                }
            }
        }
    }

    fn met(&self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Delete => "deleted",
            Self::Condition { .. } | Self::Field { .. } => "condition met",
        }
    }
}

/// How far a deletion is.
pub(crate) fn deletion(object: &Value) -> String {
    let metadata = &object["metadata"];
    let finalizers: Vec<&str> =
        metadata["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match (metadata["deletionTimestamp"].is_string(), finalizers.is_empty()) {
        (false, _) => "not being deleted".to_owned(),
        (true, true) => "being deleted".to_owned(),
        (true, false) => format!("being deleted, waits for finalizers {}", finalizers.join(", ")),
    }
}

/// A condition of an object, by its type.
pub(crate) fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"].as_str().is_some_and(|t| t.eq_ignore_ascii_case(name)))
}

/// One object to wait for.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Its kind.
    pub(crate) resource: Resource,
    /// Its namespace.
    pub(crate) namespace: Option<String>,
    /// Its name.
    pub(crate) name: String,
}

impl Subject {
    /// `virtualmachine.infra.virtrigaud.io/web`.
    pub(crate) fn label(&self) -> String {
        label(&self.resource, &self.name)
    }
}

/// Watches one object until `decide` has an answer. Nothing is polled.
pub(crate) async fn follow<T>(
    api: &Api,
    resource: &Resource,
    namespace: Option<&str>,
    name: &str,
    mut decide: impl FnMut(Option<&Value>) -> Option<T>,
) -> Result<T, errors::Error> {
    let path = resource.path(namespace);
    let query = Query::default().with("fieldSelector", format!("metadata.name={name}"));
    loop {
        let list = watch::list(api, &path, &query, JSON).await?;
        if let Some(answer) = decide(list["items"].get(0)) {
            return Ok(answer);
        }
        let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        let mut watch = Watch::new(api, &path, &query, JSON, version);
        loop {
            let answer = match watch.next().await? {
                Event::Present(object) => decide(Some(&object)),
                Event::Gone(_) => decide(None),
                Event::Expired => break,
            };
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }
}

/// Waits for everything that is selected.
pub(crate) async fn run(session: &Session, args: &WaitArgs, ui: &Ui) -> Result<(), Error> {
    let subjects = subjects(session, args).await?;
    if subjects.is_empty() {
        return match args.goal {
            Goal::Delete => Ok(()),
            _ => Err(Error::Failed("nothing to wait for: no object is selected".into())),
        };
    }
    let board = Board::default();
    let mut failed = false;
    let mut work = subjects
        .iter()
        .map(|subject| until(session, &args.goal, subject, &board, ui))
        .collect::<FuturesUnordered<_>>();
    let all = async {
        while let Some((subject, result)) = work.next().await {
            match result {
                Ok(()) => ui.line(&format!("{} {}", subject.label(), args.goal.met()))?,
                Err(error) => {
                    failed = true;
                    ui.error(&error.render());
                }
            }
        }
        Ok::<_, Error>(())
    };
    // Times pass on the screen too; the server is not asked for that.
    let ticks = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            board.tick(ui);
        }
    };
    let shown = async {
        tokio::select! {
            result = all => result,
            () = ticks => Ok(()),
        }
    };
    let in_time = match args.timeout.is_zero() {
        true => Some(shown.await),
        false => tokio::time::timeout(args.timeout, shown).await.ok(),
    };
    ui.clear_live();
    match in_time {
        None => Err(Error::Timeout(late(&board, args.timeout))),
        Some(Ok(())) if failed => Err(Error::Reported),
        Some(result) => result,
    }
}

fn late(board: &Board, timeout: Duration) -> String {
    let lines: Vec<String> =
        board.left().iter().map(|(label, state)| format!("  {label}: {state}")).collect();
    format!("not within {} s:\n{}", timeout.as_secs(), lines.join("\n"))
}

async fn until<'a>(
    session: &Session,
    goal: &Goal,
    subject: &'a Subject,
    board: &Board,
    ui: &Ui,
) -> (&'a Subject, Result<(), Error>) {
    let label = subject.label();
    // An object that was never there is a mistake, unless its coming or going is the point.
    let may_be_absent = matches!(goal, Goal::Create | Goal::Delete);
    let decide = |object: Option<&Value>| match goal.check(object) {
        Ok(()) => Some(Ok(())),
        Err(_) if object.is_none() && !may_be_absent => Some(Err(())),
        Err(state) => {
            board.set_object(ui, &label, &state, object);
            None
        }
    };
    let (resource, namespace) = (&subject.resource, subject.namespace.as_deref());
    let result = match follow(&session.api, resource, namespace, &subject.name, decide).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(())) => Err(Error::Failed(format!("{label} is not there"))),
        // The kind itself is gone, and its objects with it.
        Err(error) if error.is_not_found() && *goal == Goal::Delete => Ok(()),
        Err(error) => Err(Error::Failed(format!("{label}: {}", status::explain(&error, None)))),
    };
    board.done(&label);
    (subject, result)
}

async fn subjects(session: &Session, args: &WaitArgs) -> Result<Vec<Subject>, Error> {
    if args.filename.is_empty() {
        return select(session, "wait", &args.selection, args.all, None).await;
    }
    let (subjects, problems) = from_files(session, &args.filename, args.recursive).await?;
    if problems.is_empty() { Ok(subjects) } else { Err(Error::Failed(problems.join("\n"))) }
}

/// The objects of files, without asking whether they are there, and what is wrong with the rest.
pub(crate) async fn from_files(
    session: &Session,
    files: &[PathBuf],
    recursive: bool,
) -> Result<(Vec<Subject>, Vec<String>), Error> {
    let (documents, errors) = manifests::load(files, recursive);
    let mut problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let discovery = session.discovery().await?;
    let mut subjects = Vec::new();
    for document in &documents {
        let subject = || {
            let resource = discovery.of_kind(document.api_version(), document.kind())?;
            let namespace = apply::namespace_of(session, resource, document)?;
            Ok::<_, Error>(Subject {
                resource: resource.clone(),
                namespace: namespace.map(str::to_owned),
                name: document.name().to_owned(),
            })
        };
        match subject() {
            Ok(subject) => subjects.push(subject),
            Err(error) => problems.push(apply::explain(&error, document)),
        }
    }
    Ok((subjects, problems))
}

/// The objects that words, labels or `--all` name. Kinds alone are not enough: too much would
/// be meant by a slip.
pub(crate) async fn select(
    session: &Session,
    command: &'static str,
    selection: &Selection,
    all: bool,
    field_selector: Option<&str>,
) -> Result<Vec<Subject>, Error> {
    let targets = session.resolve(command, &selection.words).await?;
    let selected = all || selection.selector.is_some() || field_selector.is_some();
    let mut subjects = Vec::new();
    for target in targets {
        let scope = session.scope(&target.resource, selection.all_namespaces);
        match target.name {
            Some(_) if selected || selection.all_namespaces => {
                return Err(Error::Usage(
                    "name objects, or select them with -l or --all: not both".into(),
                ));
            }
            Some(name) => subjects.push(Subject {
                namespace: scope.map(str::to_owned),
                resource: target.resource,
                name,
            }),
            None if !selected => {
                return Err(Error::Usage(format!(
                    "say which {}: give names, -l SELECTOR or --all",
                    target.resource.plural
                )));
            }
            None => {
                let query = Query::default()
                    .maybe("labelSelector", selection.selector.clone())
                    .maybe("fieldSelector", field_selector);
                let path = target.resource.path(scope);
                let list = watch::list(&session.api, &path, &query, METADATA_LIST).await?;
                for item in list["items"].as_array().into_iter().flatten() {
                    let text = |key: &str| item["metadata"][key].as_str().map(str::to_owned);
                    subjects.push(Subject {
                        resource: target.resource.clone(),
                        namespace: text("namespace"),
                        name: text("name").unwrap_or_default(),
                    });
                }
            }
        }
    }
    Ok(subjects)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn goal(text: &str) -> Goal {
        text.parse().unwrap()
    }

    #[test]
    fn goals_are_read() {
        assert_eq!(
            goal("condition=Ready"),
            Goal::Condition { name: "Ready".into(), value: "True".into() }
        );
        assert_eq!(goal("delete"), Goal::Delete);
        let Goal::Field { text, value, .. } = goal("jsonpath={.a[?(@.b==\"c\")].d}=e") else {
            panic!()
        };
        assert_eq!((text.as_str(), value.as_deref()), ("{.a[?(@.b==\"c\")].d}", Some("e")));
        let Goal::Field { value, .. } = goal("jsonpath='{.a}'=Running".replace('\'', "").as_str())
        else {
            panic!()
        };
        assert_eq!(value.as_deref(), Some("Running"));
        assert_eq!(goal("ready"), goal("condition=Ready"));
        for text in ["", "condition=", "redy", "jsonpath={.a"] {
            assert!(text.parse::<Goal>().is_err(), "{text}");
        }
    }

    #[test]
    fn goals_are_met_or_say_how_it_stands() {
        let object = json!({"metadata": {"generation": 2, "finalizers": ["f"], "deletionTimestamp": "t"},
            "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "False", "reason": "Waiting", "message": "for an address"},
                {"type": "Old", "status": "True", "observedGeneration": 1}]}});
        let check = |text: &str| goal(text).check(Some(&object));
        assert_eq!(check("condition=ready=false"), Ok(()));
        assert_eq!(
            check("condition=Ready").unwrap_err(),
            "Ready is False (Waiting): for an address"
        );
        assert!(check("condition=Old").unwrap_err().contains("older generation"));
        assert!(check("condition=None").unwrap_err().contains("no condition"));
        assert_eq!(check("jsonpath={.status.phase}=Running"), Ok(()));
        assert_eq!(check("jsonpath={.status.phase}"), Ok(()));
        assert!(check("jsonpath={.status.phase}=Stopped").unwrap_err().contains("Running"));
        assert_eq!(check("delete").unwrap_err(), "being deleted, waits for finalizers f");
        assert_eq!(goal("delete").check(None), Ok(()));
        assert!(goal("create").check(None).is_err());
    }
}
