//! Cases, subject by subject.

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
    assert!(reports.is_empty(), "{}", reports.join("\n"));
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
