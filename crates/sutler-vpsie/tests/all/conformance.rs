//! The rules that every provider keeps, on the stand-in, in both dialects.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use sutler_conformance::{Options, Outcome, run};
use sutler_vpsie::{Dialect, fake::Shape};

use crate::lab::Lab;

/// The suite asks every platform for a second disk, which VPSie's machines cannot have: it is refused by
/// name, and the suite has no capability for that.
const NO_SECOND_DISK: &str = "create.its_disks_are_there";

async fn kept(dialect: Dialect, word: &str, least: usize) {
    let lab = Lab::with(Shape { auto: true, ..Shape::new(dialect) }, json!({})).await;
    // What is somebody else's must not get in the way.
    lab.fake.add_cluster("c1", "other", 1);
    lab.fake.add_vm("somebody-elses");
    let options = Options {
        template: Some("debian-13".to_owned()),
        poll: Duration::from_millis(2),
        patience: Duration::from_secs(120),
        only: std::env::var("SUTLER_CASES").ok(),
        ..Options::new(word)
    };
    let report = run(Arc::new(lab.vpsie.clone()), &options).await;
    for result in &report.results {
        if let Outcome::Failed(failure) = &result.outcome {
            let known = result.name == NO_SECOND_DISK && failure.message.contains("Invalid");
            assert!(known, "{}", report.table());
        }
    }
    let (passed, ..) = report.counts();
    assert!(options.only.is_some() || passed >= least, "only {passed}: {}", report.table());
    assert_eq!(lab.fake.nodes("c1").len(), 1, "a master is gone");
    assert!(lab.fake.vms().iter().any(|vm| vm.hostname == "somebody-elses"));
}

#[tokio::test(flavor = "multi_thread")]
async fn govpsie() {
    kept(Dialect::Govpsie, "g1", 77).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v2() {
    kept(Dialect::V2, "v1", 65).await;
}
