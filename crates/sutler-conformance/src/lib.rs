//! The cases that every provider must pass: in process or over the wire, ours or not.
//!
//! [`run`] makes, changes and deletes machines of its own on a platform, and touches no others. Each
//! case checks one rule of the contract; what a platform does not report as a capability is not asked
//! of it, apart from saying so. A failure tells which rule was broken, what was sent and what came
//! back. [`Report`] prints as a table and as JUnit XML.

mod case;
mod cases;
mod context;
mod record;
mod report;
mod rules;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use sutler_provider::{Capabilities, Image, Provider};
use tokio::time::Instant;

pub use report::{CaseResult, Exchange, Failure, Outcome, Report};

use crate::{case::Case, context::Context, record::Recorder};

/// How the suite is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// A word that no other run has: machines get their names and tokens from it. Small letters and
    /// digits.
    pub run: String,
    /// The template that machines are made from; the first that the platform lists when absent.
    pub template: Option<String>,
    /// Whether machines share the template's disk rather than copy it.
    pub linked: bool,
    /// An image that the platform can bring in from outside; each case gives it a name of its own.
    pub image: Image,
    /// Where disks are sent to; each case adds a name of its own.
    pub export_to: String,
    /// Where a disk comes from.
    pub import_from: String,
    /// How long a platform may take for one step.
    pub patience: Duration,
    /// How often it is asked in the meantime.
    pub poll: Duration,
    /// Cases that run at the same time; one where the platform gives IDs again.
    pub parallel: usize,
    /// Only cases whose names contain this, or one of these with commas between them.
    pub only: Option<String>,
}

impl Options {
    /// The options of a run that has this word to itself.
    pub fn new(run: impl Into<String>) -> Self {
        Self {
            run: run.into(),
            template: None,
            linked: false,
            image: Image {
                url: Some("https://example.invalid/image.qcow2".to_owned()),
                ..Image::default()
            },
            export_to: "s3://conformance".to_owned(),
            import_from: "https://example.invalid/disk".to_owned(),
            patience: Duration::from_secs(120),
            poll: Duration::from_millis(200),
            parallel: 4,
            only: None,
        }
    }
}

/// Names of all cases, with the rule that each checks.
pub fn cases() -> Vec<(String, &'static str)> {
    cases::all().iter().map(|case| (case.full_name(), case.rule)).collect()
}

/// Runs all cases on a platform.
pub async fn run(provider: Arc<dyn Provider>, options: &Options) -> Report {
    let began = Instant::now();
    let capabilities = match tokio::time::timeout(options.patience, provider.capabilities()).await {
        Ok(Ok(capabilities)) => capabilities,
        Ok(Err(error)) => return Report::dead(format!("{:?}: {error}", error.kind())),
        Err(_) => return Report::dead("no answer".to_owned()),
    };
    let template = match &options.template {
        Some(template) => Some(template.clone()),
        None => provider.templates().await.ok().and_then(|all| Some(all.first()?.name.clone())),
    };
    let wanted = |case: &Case| {
        let names = |part: &str| case.full_name().contains(part);
        options.only.as_ref().is_none_or(|parts| parts.split(',').any(names))
    };
    // Where IDs are given again, a case could not tell its own machine's from a neighbour's.
    let parallel = if capabilities.reuses_ids { 1 } else { options.parallel.max(1) };
    let all: Vec<Case> = cases::all().into_iter().filter(wanted).collect();
    let results = stream::iter(all.into_iter().enumerate())
        .map(|(index, case)| {
            let (provider, template) = (provider.clone(), template.clone());
            let capabilities = &capabilities;
            async move { one(case, index, provider, capabilities, template, options).await }
        })
        .buffered(parallel)
        .collect()
        .await;
    Report { results, took: began.elapsed() }
}

async fn one(
    case: Case,
    index: usize,
    provider: Arc<dyn Provider>,
    capabilities: &Capabilities,
    template: Option<String>,
    options: &Options,
) -> CaseResult {
    let began = Instant::now();
    let result = |outcome| CaseResult {
        name: case.full_name(),
        rule: case.rule,
        outcome,
        took: began.elapsed(),
    };
    if let Some(why) = (case.needs)(capabilities) {
        return result(Outcome::Skipped(why.to_owned()));
    }
    let recorder = Recorder::new(provider);
    let context = Context::new(recorder.clone(), capabilities, template, options, index);
    // A case takes several steps, and none may hang for ever.
    let within = options.patience * 4;
    let checked = tokio::time::timeout(within, (case.run)(&context)).await;
    let message = match checked {
        Ok(Ok(())) => None,
        Ok(Err(broken)) => Some(broken.0),
        Err(_) => Some(format!("the case did not end within {within:?}")),
    };
    let exchanges = recorder.take();
    context.clean_up().await;
    result(match message {
        None => Outcome::Passed,
        Some(message) => Outcome::Failed(Failure { message, exchanges }),
    })
}
