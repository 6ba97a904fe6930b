//! Every rule of the contract, for what the provider reports.

use std::{sync::Arc, time::Duration};

use provider_acme::{AcmeProvider, Platform};
use sutler_conformance::{Options, run};

#[tokio::test]
async fn every_rule_is_kept() {
    let provider = Arc::new(AcmeProvider::new(Platform::default()));
    let options = Options { poll: Duration::from_millis(5), ..Options::new("test") };
    let report = run(provider, &options).await;
    assert!(report.is_ok(), "{}", report.table());
}
