//! What is sent again, and when.

use super::*;

/// Fails this often with this error, then answers with how often it was sent.
async fn flaky(gate: &Gate, call: Call, failures: u32, error: Error) -> Result<u32> {
    let sent = AtomicU32::new(0);
    let result = gate
        .call(call, |_| async {
            match sent.fetch_add(1, Ordering::Relaxed) + 1 {
                count if count > failures => Ok(count),
                _ => Err(error.clone()),
            }
        })
        .await;
    let attempts = sent.load(Ordering::Relaxed);
    result.inspect(|count| assert_eq!(*count, attempts))
}

#[tokio::test(start_paused = true)]
async fn a_look_is_sent_again_after_a_pause() {
    let (gate, _) = gate(Limits { burst: 1, qps: 100.0, ..Limits::default() });
    let start = Instant::now();
    assert_eq!(flaky(&gate, look(), 2, down()).await, Ok(3));
    let (least, most) = (SECOND * 3 / 4, SECOND * 3 / 2);
    assert!((least..=most).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(gate.stats().calls["describe"].attempts, 3, "each of them took a token");
    assert_eq!(flaky(&gate, look(), 3, down()).await, Err(down()));
}

#[tokio::test(start_paused = true)]
async fn only_what_is_known_to_have_changed_nothing_is_sent_again() {
    for kind in ErrorKind::ALL {
        let (gate, _) = gate(Limits::default());
        let result = flaky(&gate, look(), 1, Error::new(kind, "?")).await;
        assert_eq!(result.is_ok(), kind == ErrorKind::Unavailable, "{kind}");
        assert!(flaky(&gate, change(), 1, Error::new(kind, "?")).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_says_when_is_asked_then_or_not_at_all() {
    let (gate, _) = gate(Limits::default());
    let start = Instant::now();
    assert_eq!(flaky(&gate, look(), 1, down().retry_after(SECOND * 10)).await, Ok(2));
    assert_eq!(start.elapsed(), SECOND * 10);
    assert_eq!(flaky(&gate, look(), 1, down().retry_after(SECOND * 11)).await, Err(down()));
    assert_eq!(start.elapsed(), SECOND * 10);
}

#[tokio::test(start_paused = true)]
async fn retries_keep_to_the_deadline_of_the_first() {
    let retry = RetryLimits { attempts: 100, factor: 1.0, ..RetryLimits::default() };
    let breaker = BreakerLimits { failures: 0, ..BreakerLimits::default() };
    let (gate, _) = gate(Limits { retry, breaker, ..Limits::default() });
    let call = Call { deadline: Some(SECOND * 3), ..look() };
    assert_eq!(flaky(&gate, call.clone(), 100, down()).await, Err(down()));
    assert!(gate.clock.now() <= at(3));
    // An attempt that hangs ends with the deadline of all.
    let sent = AtomicU32::new(0);
    let start = Instant::now();
    let result: Result<()> = gate
        .call(call.clone(), |_| async {
            if sent.fetch_add(1, Ordering::Relaxed) == 1 {
                pending::<()>().await;
            }
            Err(down())
        })
        .await;
    assert_eq!(result, Err(Error::unavailable("describe was not answered in time")));
    assert_eq!((start.elapsed(), sent.into_inner()), (SECOND * 3, 2));
    // So does one that cannot be sent again.
    let start = Instant::now();
    let other = Arc::clone(&gate);
    let result: Result<()> = gate
        .call(call, |_| {
            other.lock().bucket.hold(Instant::now(), SECOND * 100);
            async { Err(down()) }
        })
        .await;
    assert_eq!((result, start.elapsed()), (Err(down()), SECOND * 3));
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_neither_for_a_breaker_that_opened_nor_past_its_time() {
    let (gate, _) = gate(Limits::default());
    for _ in 0..4 {
        fails(&gate, down()).await;
    }
    assert_eq!(flaky(&gate, look(), 1, down()).await, Err(down()));
    assert!(matches!(gate.breaker(), BreakerState::Open { .. }));
    advance(SECOND * 60).await;
    let call = Call { not_after: Some(at(60)), ..look() };
    assert_eq!(flaky(&gate, call, 1, Error::not_found("?")).await, Err(Error::not_found("?")));
    let call = Call { not_after: Some(at(60)), ..look() };
    assert_eq!(flaky(&gate, call, 1, down()).await, Err(down()));
    assert_eq!(gate.clock.now(), at(60));
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_no_slot() {
    let (gate, _) = gate(Limits { concurrency: 1, ..Limits::default() });
    let start = Instant::now();
    let retried = flaky(&gate, look(), 1, down());
    let other = async {
        answered(&gate).await.unwrap();
        start.elapsed()
    };
    let (retried, other) = tokio::join!(retried, other);
    assert_eq!((retried, other), (Ok(2), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_pauses() {
    let mut pauses = Vec::new();
    for seed in [1, 1, 2] {
        let clock = crate::guard::testing::TestClock::new();
        let gate = Gate::new(Fake::silent(), Limits::default(), clock, seed);
        let start = Instant::now();
        flaky(&gate, look(), 2, down()).await.unwrap();
        pauses.push(start.elapsed());
    }
    assert_eq!(pauses[0], pauses[1]);
    assert_ne!(pauses[0], pauses[2]);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_comes_with_the_deadline_is_not_used() {
    let (gate, _) = gate(Limits { concurrency: 1, ..Limits::default() });
    let sent = AtomicU32::new(0);
    let call = Call { deadline: Some(SECOND * 3), ..look() };
    let retried = gate.call(call, |_| async {
        sent.fetch_add(1, Ordering::Relaxed);
        Err::<(), _>(down())
    });
    let other = async {
        // After the first has failed, and until it is out of time.
        tokio::task::yield_now().await;
        gate.call(change(), |_| async {
            sleep(SECOND * 3).await;
            Ok(())
        })
        .await
    };
    let (other, retried) = futures::future::join(other, retried).await;
    assert_eq!((other, retried), (Ok(()), Err(down())));
    assert_eq!(sent.into_inner(), 1);
}
