//! `sutler delete`: ask for deletion, then watch until the objects are gone.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};

use crate::{
    clock,
    commands::{
        board::Board,
        get::Selection,
        wait::{self, Subject, deletion, follow},
    },
    error::Error,
    output::status,
    session::Session,
    ui::Ui,
};

/// How many deletions are asked for at once.
const AT_ONCE: usize = 8;

/// Flags of `delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// The objects of a file, a folder, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "PATH", conflicts_with_all = ["words", "selector", "all"])]
    pub(crate) filename: Vec<PathBuf>,
    /// Look into folders below folders too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Every object of the kind
    #[arg(long)]
    pub(crate) all: bool,
    /// Only objects with these fields, as in metadata.name=web
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,
    /// What becomes of the objects that these own
    #[arg(long, value_name = "HOW", default_value = "background")]
    pub(crate) cascade: Cascade,
    /// Wait until the objects are gone
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub(crate) wait: bool,
    /// How long to wait; 0 is without end
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = clock::parse_duration)]
    pub(crate) timeout: Duration,
    /// Seconds that the object is given to end
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace_period: Option<u32>,
    /// It is no error if an object is not there
    #[arg(long)]
    pub(crate) ignore_not_found: bool,
    /// Let the server check everything and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// name prints names alone
    #[arg(short = 'o', long, value_name = "FORMAT", value_parser = ["name"])]
    pub(crate) output: Option<String>,
}

/// What becomes of owned objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cascade {
    /// They are deleted afterwards
    Background,
    /// They are deleted first
    Foreground,
    /// They stay
    Orphan,
}

impl Cascade {
    fn policy(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// Deletes what is selected.
pub(crate) async fn run(session: &Session, args: &DeleteArgs, ui: &Ui) -> Result<(), Error> {
    let (subjects, problems) = if args.filename.is_empty() {
        let fields = args.field_selector.as_deref();
        let found = wait::select(session, "delete", &args.selection, args.all, fields).await?;
        (found, Vec::new())
    } else {
        wait::from_files(session, &args.filename, args.recursive).await?
    };
    problems.iter().for_each(|problem| ui.error(problem));
    if subjects.is_empty() && problems.is_empty() {
        ui.note("nothing to delete");
        return Ok(());
    }
    let board = Board::default();
    let mut failed = problems.len();
    let work = async {
        let mut results = stream::iter(&subjects)
            .map(|subject| {
                let deletion = delete(session, args, subject, &board, ui);
                async move { (subject, deletion.await) }
            })
            // Waiting must not keep other deletions from being asked for.
            .buffer_unordered(if args.wait { subjects.len().max(AT_ONCE) } else { AT_ONCE });
        while let Some((subject, result)) = results.next().await {
            match result {
                Ok(Some(word)) => match args.output {
                    Some(_) => ui.line(&subject.label())?,
                    None => ui.line(&format!("{} {word}", subject.label()))?,
                },
                Ok(None) => {}
                Err(error @ Error::Output(_)) => return Err(error),
                Err(error) => {
                    failed += 1;
                    ui.error(&error.render());
                }
            }
        }
        Ok(())
    };
    if args.timeout.is_zero() {
        work.await?;
    } else if let Ok(result) = tokio::time::timeout(args.timeout, work).await {
        result?;
    } else {
        ui.clear_live();
        let left: Vec<String> =
            board.left().iter().map(|(label, state)| format!("  {label}: {state}")).collect();
        return Err(Error::Timeout(format!(
            "not gone within {} s:\n{}",
            args.timeout.as_secs(),
            left.join("\n")
        )));
    }
    ui.clear_live();
    if failed > 0 { Err(Error::Reported) } else { Ok(()) }
}

/// Deletes one object; the word says how it stands now, and there is none where it was not there
/// and that is fine.
async fn delete(
    session: &Session,
    args: &DeleteArgs,
    subject: &Subject,
    board: &Board,
    ui: &Ui,
) -> Result<Option<&'static str>, Error> {
    let Subject { resource, namespace, name } = subject;
    let path = resource.object_path(namespace.as_deref(), name);
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1",
        "propagationPolicy": args.cascade.policy()});
    if let Some(seconds) = args.grace_period {
        options["gracePeriodSeconds"] = seconds.into();
    }
    if args.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    let answer = match session.api.delete(&path, &options).await {
        Ok(answer) => answer,
        Err(error) if error.is_not_found() && args.ignore_not_found => return Ok(None),
        Err(error) if error.is_connection() => return Err(error.into()),
        Err(error) => {
            return Err(Error::Failed(status::explain(&error, None)));
        }
    };
    if args.dry_run {
        return Ok(Some("deleted (dry run)"));
    }
    if !is_pending(&answer) {
        return Ok(Some("deleted"));
    }
    if !args.wait {
        return Ok(Some("is being deleted"));
    }
    let label = subject.label();
    let uid = answer["metadata"]["uid"].clone();
    board.set(ui, &label, &deletion(&answer));
    let gone = |object: Option<&Value>| match object {
        Some(object) if object["metadata"]["uid"] == uid => {
            board.set(ui, &label, &deletion(object));
            None
        }
        // Gone, or another object took the name.
        _ => Some(()),
    };
    match follow(&session.api, resource, namespace.as_deref(), name, gone).await {
        // The kind itself may go while we look.
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => board.done(&label),
    }
    Ok(Some("deleted"))
}

/// Whether a deletion was asked for but is not done: the answer is then the object itself.
fn is_pending(answer: &Value) -> bool {
    answer["kind"] != "Status" && answer["metadata"]["deletionTimestamp"].is_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_that_wait_are_pending() {
        assert!(!is_pending(&json!({"kind": "Status", "status": "Success"})));
        assert!(!is_pending(&json!({"kind": "VM", "metadata": {}})));
        assert!(is_pending(&json!({"kind": "VM", "metadata": {"deletionTimestamp": "t"}})));
    }
}
