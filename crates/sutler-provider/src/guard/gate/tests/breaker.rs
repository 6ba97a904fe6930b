//! The breaker, as callers see it.

use super::*;

#[tokio::test(start_paused = true)]
async fn an_open_breaker_refuses_at_once_and_says_for_how_long() {
    let (gate, _) = gate(Limits::default());
    open(&gate).await;
    assert_eq!(gate.breaker(), BreakerState::Open { until: at(60) });
    advance(SECOND * 18).await;
    let error = gate.call(look(), |_| async { unreachable!("sent") as Result<()> }).await;
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.pause(), Some(SECOND * 42));
    assert!(error.message().contains("connection refused"), "{error}");
    assert_eq!(gate.breaker(), BreakerState::Open { until: at(60) });
}

#[tokio::test(start_paused = true)]
async fn the_first_call_after_the_pause_decides() {
    let (gate, _) = gate(Limits::default());
    open(&gate).await;
    advance(SECOND * 60).await;
    assert_eq!(gate.breaker(), BreakerState::HalfOpen);
    fails(&gate, down()).await;
    assert_eq!(gate.breaker(), BreakerState::Open { until: at(120) });
    advance(SECOND * 60).await;
    answered(&gate).await.unwrap();
    assert_eq!(gate.breaker(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn only_one_call_goes_through_as_the_probe() {
    let (gate, _) = gate(Limits::default());
    open(&gate).await;
    advance(SECOND * 60).await;
    let (sender, mut sent) = mpsc::unbounded_channel();
    let probes: Vec<_> = (0..5).map(|tag| hang(&gate, change(), &sender, tag)).collect();
    settle().await;
    assert_eq!(received(&mut sent), [0]);
    for (tag, probe) in probes.into_iter().enumerate() {
        if tag == 0 {
            assert!(!probe.is_finished());
            // Its caller goes away, and the next one may try.
            probe.abort();
            settle().await;
            assert_eq!(gate.breaker(), BreakerState::HalfOpen);
        } else {
            let error = probe.await.unwrap().unwrap_err();
            assert_eq!((error.kind(), error.pause()), (ErrorKind::Unavailable, Some(SECOND)));
        }
    }
    answered(&gate).await.unwrap();
    assert_eq!(gate.breaker(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn every_kind_counts_as_what_it_says_of_the_platform() {
    for kind in ErrorKind::ALL {
        let (gate, _) = gate(Limits { qps: 0.0, ..Limits::default() });
        for _ in 0..4 {
            fails(&gate, down()).await;
        }
        fails(&gate, Error::new(kind, "?")).await;
        assert_eq!(gate.breaker() == BreakerState::Closed, !kind.is_outage(), "{kind}");
        if !kind.is_outage() {
            for _ in 0..4 {
                fails(&gate, down()).await;
            }
            assert_eq!(gate.breaker(), BreakerState::Closed, "{kind} begins the count anew");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silence_counts_as_a_failure() {
    let (gate, _) = gate(Limits::default());
    for _ in 0..5 {
        assert_eq!(gate.breaker(), BreakerState::Closed);
        gate.call(change(), |_| pending::<Result<()>>()).await.unwrap_err();
    }
    assert!(matches!(gate.breaker(), BreakerState::Open { .. }));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_when_the_breaker_opens_is_refused() {
    let limits = Limits { concurrency: 6, per_host: 1, burst: 100, ..Limits::default() };
    let (gate, _) = gate(limits);
    let (sender, mut sent) = mpsc::unbounded_channel();
    let on_host = || Call { host: Some("a".to_owned()), ..change() };
    let hung = hang(&gate, on_host(), &sender, 0);
    settle().await;
    let failing = (0..5).map(|_| {
        gate.call(once(), |_| async {
            sleep(SECOND).await;
            Err::<(), _>(down())
        })
    });
    let waiting = [on_host(), change()].map(|call| hang(&gate, call, &sender, 1));
    // The failing ones come first, since nobody else was polled yet.
    join_all(failing).await;
    for call in waiting {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.pause()), (ErrorKind::Unavailable, Some(SECOND * 60)));
    }
    assert_eq!(received(&mut sent), [0]);
    assert_eq!(gate.clock.now(), at(1));
    hung.abort();
}
