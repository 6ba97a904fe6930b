//! Cases, subject by subject.

use std::collections::BTreeSet;

use sutler_parity::ours::{self, Form};
use sutler_parity::suite::{self, Subject};
use sutler_parity::{cases, peer};

/// A case that is not the same twice on the real server is a bad case.
#[test]
fn the_real_server_agrees_with_itself() {
    let Some(peer) = peer::shared() else { return };
    let mut reports = Vec::new();
    for subject in cases::SUBJECTS {
        let truth = suite::truth(subject);
        reports.extend(suite::report(&suite::run(&peer.target(), subject, "b"), truth));
    }
    assert!(reports.is_empty(), "{}", reports.join("\n"));
}

#[test]
fn the_real_server_accepts_our_crds() {
    let Some(peer) = peer::shared() else { return };
    assert!(peer.refused.is_empty(), "{}", peer.refused.join("\n"));
}

#[test]
fn there_are_enough_cases_and_their_names_differ() {
    let mut names: Vec<String> = cases::SUBJECTS
        .iter()
        .flat_map(|s| s.cases.iter().map(|case| format!("{}/{}", s.name, case.name)))
        .collect();
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count >= 200, "{count} cases");
}

fn compare(subject: &Subject, form: Form) {
    // The real server first: its slow cases then run while nobody else computes.
    let truth = suite::truth(subject);
    let outcomes = suite::run(&ours::shared(form).target(), subject, "a");
    let reports = suite::report(&outcomes, truth);
    println!(
        "{} on {form:?}: {} of {} cases as they should be",
        subject.name,
        outcomes.len() - reports.len(),
        outcomes.len()
    );
    if let Ok(folder) = std::env::var("SUTLER_PARITY_REPORTS") {
        let file = format!("{folder}/{}-{form:?}.txt", subject.name);
        std::fs::write(file, reports.join("\n")).expect("the folder for reports can be written");
    }
    let known = known(subject.name);
    let differing: BTreeSet<&str> = reports.iter().map(|report| name_of(report)).collect();
    let news: Vec<&str> = reports
        .iter()
        .filter(|report| !known.contains(name_of(report)))
        .map(String::as_str)
        .collect();
    assert!(news.is_empty(), "{}", news.join("\n"));
    let mended: Vec<&&str> = known.iter().filter(|name| !differing.contains(**name)).collect();
    assert!(mended.is_empty(), "no longer different, take them off the list: {mended:?}");
}

/// The case that a report is about.
fn name_of(report: &str) -> &str {
    report.lines().next().unwrap_or_default().trim_start_matches("case ").trim()
}

/// Cases of a subject in which ours is known to differ. A case may only be here with its reason,
/// and one that no longer differs must be taken off.
fn known(subject: &str) -> BTreeSet<&'static str> {
    include_str!("differences.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.split('/').next() == Some(subject))
        .collect()
}

/// One test per subject and form; a subject that is not named here is missed by the last test.
macro_rules! subjects {
    ($($subject:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($subject)),*];
        $(mod $subject {
            use super::*;

            fn subject() -> &'static Subject {
                cases::SUBJECTS
                    .iter()
                    .find(|subject| subject.name == stringify!($subject))
                    .expect("the subject exists")
            }

            #[test]
            fn memory() {
                compare(subject(), Form::Memory);
            }

            #[test]
            fn sqlite() {
                compare(subject(), Form::Sqlite);
            }

            #[test]
            fn tls() {
                compare(subject(), Form::Tls);
            }
        })*
    };
}

subjects!(
    read,
    list,
    watch,
    create,
    update,
    patch,
    apply,
    delete,
    subresource,
    collect,
    table,
    discovery,
    schema,
    media,
    access,
    builtin,
    pod,
    workload,
);

#[test]
fn every_subject_is_tested() {
    let names: Vec<&str> = cases::SUBJECTS.iter().map(|subject| subject.name).collect();
    assert_eq!(names, TESTED);
}
