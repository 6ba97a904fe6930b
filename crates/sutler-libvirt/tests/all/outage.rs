//! Hosts that hang, and hosts that go and come back.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, future::join_all};
use serde_json::json;
use sutler_provider::{ErrorKind, Event, Provider as _};

use crate::{
    lab,
    remote::{Tls, until},
};

/// As many calls as one connection may have under way.
const CALLS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_hangs_or_goes_holds_up_nobody_else_and_is_found_again() {
    if lab::guest().is_none() {
        return;
    }
    let mut tls = Tls::start();
    let host = tls.host(&tls.authority, &[&tls.authority]);
    let neighbour = lab::provider("qemu:///system", json!({ "pool": lab::pool() }));
    let mut events = host.events().await.unwrap();
    host.list().await.unwrap();
    neighbour.list().await.unwrap();

    tls.signal("STOP");
    let begun = Instant::now();
    let stuck: Vec<_> = (0..CALLS)
        .map(|_| {
            let host = host.clone();
            tokio::spawn(async move { (host.list().await, begun.elapsed()) })
        })
        .collect();
    for _ in 0..CALLS {
        neighbour.list().await.unwrap();
    }
    let neighbours = begun.elapsed();
    for answer in join_all(stuck).await {
        let (answer, after) = answer.unwrap();
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(after > neighbours, "nobody waited: {after:?} and {neighbours:?}");
        // What asks whether the other end is there notices long before the deadline of a list.
        assert!(after < Duration::from_secs(60), "{after:?}");
    }
    tls.signal("CONT");
    until("it answers again", async || host.list().await.ok()).await;
    let lost = tokio::time::timeout(Duration::from_secs(60), events.next()).await;
    assert!(matches!(lost, Ok(Some(Event::Lost))), "{lost:?}");

    tls.end();
    let error = until("it is seen to be gone", async || host.list().await.err()).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    tls.start_again();
    until("it is back", async || host.list().await.ok()).await;
}
