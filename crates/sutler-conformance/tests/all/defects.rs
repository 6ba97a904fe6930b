//! Every defect is caught, by a case that names it.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use sutler_conformance::{Options, run};

use crate::{
    defective::{Defect, Defective},
    sim::{options, platform},
};

/// The defects, each with the cases that must fail of it.
const CAUGHT: [(Defect, &str); 26] = [
    (Defect::DoublesOnRetry, "create.a_second_request_finds_the_first"),
    (Defect::ForgetsTasks, "create.its_task_can_be_asked_after"),
    (Defect::TaskChangesItsEnd, "create.its_task_can_be_asked_after"),
    (Defect::LiesAboutSnapshots, "platform.snapshots_are_as_reported"),
    (Defect::HidesPause, "platform.pausing_is_as_reported"),
    (Defect::SuccessBeforeDone, "power.off_is_off"),
    (Defect::DeletesByName, "delete.the_id_counts_and_not_the_name"),
    (Defect::DeletesForAnybody, "delete.for_somebody_else_it_is_refused"),
    (Defect::IgnoresInstallation, "delete.for_another_installation_it_is_refused"),
    (Defect::DeleteOfNothingFails, "unknown.deleting_what_is_not_there_is_done"),
    (Defect::AbsenceIsAnError, "unknown.a_machine_that_is_not_there_is_none"),
    (Defect::LosesTokens, "platform.tokens_are_as_reported"),
    (Defect::ListsTooFew, "create.what_was_made_can_be_seen"),
    (Defect::ListsTwice, "inventory.every_machine_is_listed_once"),
    (Defect::TakesAnything, "bad_input.no_cpu"),
    (Defect::WrongKind, "bad_input.a_name_that_is_no_name"),
    (Defect::NamesClash, "create.somebody_elses_name_is_taken"),
    (Defect::SnapshotsDouble, "snapshots.a_second_of_the_same_name_is_the_first"),
    (Defect::SilentEvents, "inventory.a_machine_that_is_made_is_told_of"),
    (Defect::CopiesTheName, "copies.a_copy_is_a_machine_of_its_own"),
    (Defect::SwitchesForAnybody, "power.a_stranger_does_not_switch"),
    (Defect::StealsByAdoption, "identity.somebody_elses_is_not_adopted"),
    (Defect::ReconfiguresNothing, "reconfigure.cpu_and_memory_change"),
    (Defect::DeletesKeptDisks, "kept.it_outlives_its_machine"),
    (Defect::MakesKeptDisksAnew, "kept.it_comes_back_to_another_machine"),
    (Defect::ErrorsAreAbsence, "create.what_was_made_can_be_seen"),
];

fn impatient() -> Options {
    Options { patience: Duration::from_millis(700), ..options() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_defect_is_caught_by_a_case_that_names_it() {
    for (defect, case) in CAUGHT {
        let shape = match defect {
            Defect::ForgetsTasks | Defect::TaskChangesItsEnd => json!({"work": {"create": "5ms"}}),
            _ => json!({}),
        };
        let bad = Defective { inner: platform(shape), defect, count: Arc::default() };
        // What is caught in one place may stop other cases too; only this one is waited for.
        let only = if defect == Defect::ErrorsAreAbsence { None } else { Some(case.to_owned()) };
        let report = run(Arc::new(bad), &Options { only, parallel: 4, ..impatient() }).await;
        let failures: Vec<_> = report.failures().collect();
        if defect == Defect::ErrorsAreAbsence {
            assert!(!failures.is_empty(), "{defect:?} was not caught");
            continue;
        }
        let found = failures.iter().find(|(result, _)| result.name == case);
        let Some((result, failure)) = found else {
            panic!("{defect:?} was not caught by {case}:\n{}", report.table())
        };
        assert!(!failure.exchanges.is_empty(), "{defect:?}: nothing is said of what was sent");
        assert!(!result.rule.is_empty() && !failure.message.is_empty());
    }
}

#[tokio::test]
async fn a_failure_tells_what_was_sent_what_came_back_and_which_rule_it_breaks() {
    let defect = Defect::DeletesForAnybody;
    let bad = Defective { inner: platform(json!({})), defect, count: Arc::default() };
    let only = Some("delete.for_somebody_else".to_owned());
    let report = run(Arc::new(bad), &Options { only, ..impatient() }).await;
    let table = report.table();
    for part in [
        "delete.for_somebody_else_it_is_refused  FAILED",
        "rule: A machine is changed only for its owner",
        "sent: delete DeleteRequest",
        "back: Started",
        "0 passed, 0 skipped, 1 failed",
    ] {
        assert!(table.contains(part), "{part}\n{table}");
    }
    let xml = report.junit();
    for part in [
        "<testsuites tests=\"1\" failures=\"1\"",
        "<testcase classname=\"delete\" name=\"for_somebody_else_it_is_refused\"",
        "<failure type=\"A machine is changed only for its owner",
        "&quot;",
    ] {
        assert!(xml.contains(part), "{part}\n{xml}");
    }
    assert!(!xml.contains("DeleteRequest { id: MachineId(\""), "{xml}");
}
