//! Running cases, many at once, and comparing what they saw.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::Semaphore;

use crate::case::{Call, Case};
use crate::diff::diff;
use crate::target::{Target, runtime};
use crate::transcript::normalise;
use crate::{cases, peer};

/// How many cases run at once.
const AT_ONCE: usize = 8;

/// Cases that take longer are named.
const SLOW: Duration = Duration::from_secs(5);

/// One case of the suite.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// Its name within its subject.
    pub name: &'static str,
    /// What it does.
    pub run: fn(&Case),
    /// Whether it disturbs others, and so runs after them and alone.
    pub alone: bool,
}

/// The cases of one subject.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Its name.
    pub name: &'static str,
    /// Its cases.
    pub cases: &'static [Definition],
}

/// Declares functions of a module as the cases of a subject; those after `alone` run by themselves.
macro_rules! subject {
    ($name:literal: $($case:ident),* $(,)? $(; alone: $($alone:ident),* $(,)?)?) => {
        /// The cases of this subject.
        pub(crate) const SUBJECT: $crate::suite::Subject = $crate::suite::Subject {
            name: $name,
            cases: &[
                $($crate::suite::Definition { name: stringify!($case), run: $case, alone: false },)*
                $($($crate::suite::Definition { name: stringify!($alone), run: $alone, alone: true },)*)?
            ],
        };
    };
}
pub(crate) use subject;

/// What one case left on one server.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The normalised transcript.
    pub lines: Vec<String>,
    /// Checks that failed.
    pub failures: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// Runs one case in a namespace that is made for it.
pub fn run_case(target: &Arc<dyn Target>, ns: &str, run: impl FnOnce(&Case)) -> Outcome {
    run_in(target, ns, |case| {
        let namespace = json!({"metadata": {"name": ns}});
        case.call(&Call::new("POST", "ns").json(&namespace).quiet()).is(201);
        run(case);
    })
}

/// Runs one case in a namespace that is there.
pub fn run_in(target: &Arc<dyn Target>, ns: &str, run: impl FnOnce(&Case)) -> Outcome {
    let begun = Instant::now();
    let case = Case::new(target.clone(), runtime().handle().clone(), ns.to_owned());
    run(&case);
    let record = case.finish();
    Outcome {
        lines: normalise(&record.entries, ns),
        failures: record.failures,
        took: begun.elapsed(),
    }
}

/// Runs the cases of a subject whose name contains `SUTLER_CASES`, several at once. `round` tells
/// the namespaces of two runs on one server apart.
pub fn run(target: &Arc<dyn Target>, subject: &Subject, round: &str) -> BTreeMap<String, Outcome> {
    let filter = std::env::var("SUTLER_CASES").unwrap_or_default();
    let chosen: Vec<(String, Definition)> = subject
        .cases
        .iter()
        .map(|case| (format!("{}/{}", subject.name, case.name), *case))
        .filter(|(name, _)| name.contains(&filter))
        .collect();
    let outcomes = Arc::new(Mutex::new(BTreeMap::new()));
    let (alone, together): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|(_, c)| c.alone);
    for (batch, at_once) in [(together, AT_ONCE), (alone, 1)] {
        let places = Arc::new(Semaphore::new(at_once));
        runtime().block_on(async {
            let mut running = Vec::new();
            for (name, case) in batch {
                let place = places.clone().acquire_owned().await;
                let (target, outcomes) = (target.clone(), outcomes.clone());
                let ns = namespace(&name, round);
                running.push(tokio::task::spawn_blocking(move || {
                    let outcome = run_case(&target, &ns, case.run);
                    lock(&outcomes).insert(name, outcome);
                    drop(place);
                }));
            }
            for task in running {
                task.await.expect("a case notes its failures and does not panic");
            }
        });
    }
    let outcomes = std::mem::take(&mut *lock(&outcomes));
    dump(target.name(), &outcomes);
    for (name, outcome) in &outcomes {
        if outcome.took > SLOW {
            println!("{name} on {}: {:.1} s", target.name(), outcome.took.as_secs_f32());
        }
    }
    outcomes
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock panics")
}

/// A namespace's name, made of the case's; never longer than a label may be.
fn namespace(case: &str, round: &str) -> String {
    let mut name = case.replace(['/', '_'], "-");
    name.truncate(40);
    format!("p-{}-{round}", name.trim_end_matches('-'))
}

/// Writes transcripts where `SUTLER_TRANSCRIPTS` says, for reading.
fn dump(target: &str, outcomes: &BTreeMap<String, Outcome>) {
    let Some(folder) = std::env::var_os("SUTLER_TRANSCRIPTS") else { return };
    for (name, outcome) in outcomes {
        let file = std::path::Path::new(&folder).join(target).join(format!("{name}.txt"));
        let written = file
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&file, outcome.lines.join("\n") + "\n"));
        if let Err(error) = written {
            println!("{}: {error}", file.display());
        }
    }
}

/// What the real server answers to a subject's cases, asked once in this process; `None` where there
/// is none.
pub fn truth(subject: &Subject) -> Option<&'static BTreeMap<String, Outcome>> {
    type Asked = OnceLock<Option<BTreeMap<String, Outcome>>>;
    static TRUTH: OnceLock<BTreeMap<&'static str, Asked>> = OnceLock::new();
    let all = TRUTH.get_or_init(|| {
        cases::SUBJECTS.iter().map(|subject| (subject.name, OnceLock::new())).collect()
    });
    all.get(subject.name)?
        .get_or_init(|| Some(run(&peer::shared()?.target(), subject, "a")))
        .as_ref()
}

/// The reports of a subject on one server: checks that failed and differences from the truth. Empty
/// when all is well.
pub fn report(
    outcomes: &BTreeMap<String, Outcome>,
    truth: Option<&BTreeMap<String, Outcome>>,
) -> Vec<String> {
    let mut reports = Vec::new();
    for (name, outcome) in outcomes {
        let mut report = String::new();
        for failure in &outcome.failures {
            report.push_str(&format!(" ! {failure}\n"));
        }
        if let Some(real) = truth.and_then(|truth| truth.get(name)) {
            report.push_str(&diff(&real.lines, &outcome.lines));
        }
        if !report.is_empty() {
            reports.push(format!("case {name}\n{report}"));
        }
    }
    reports
}
