//! Slots, the rate, and what is given back.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_hung_call_holds_its_slot_until_its_deadline_and_no_other() {
    let limits = Limits { concurrency: 2, ..Limits::default() };
    let (gate, _) = gate(limits);
    let (sender, mut sent) = mpsc::unbounded_channel();
    let hung: Vec<_> = (0..2).map(|tag| hang(&gate, change(), &sender, tag)).collect();
    settle().await;
    hung[1].abort();
    let start = Instant::now();
    answered(&gate).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "the slot that was given back is used at once");

    let third = hang(&gate, change(), &sender, 2);
    let fourth = hang(&gate, change(), &sender, 3);
    settle().await;
    assert_eq!(received(&mut sent), [0, 1, 2]);
    sleep(Deadlines::default().change).await;
    settle().await;
    assert_eq!(received(&mut sent), [3]);
    for call in [third, fourth] {
        assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::Indeterminate);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_sent_in_the_order_in_which_they_came() {
    let limits = Limits { concurrency: 1, qps: 5.0, burst: 1, ..Limits::default() };
    let (gate, _) = gate(limits);
    let order = Mutex::new(Vec::new());
    let calls = (0..20).map(|tag| {
        let (gate, order) = (&gate, &order);
        async move {
            gate.call(change(), |_| async {
                order.lock().unwrap().push(tag);
                sleep(SECOND / 100 * (tag % 7)).await;
                Ok(())
            })
            .await
        }
    });
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_gives_back_everything_and_counts_for_nothing() {
    let limits = Limits { concurrency: 1, per_host: 1, burst: 1, qps: 1.0, ..Limits::default() };
    let (gate, _) = gate(limits);
    let (sender, mut sent) = mpsc::unbounded_channel();
    let on = |host: &str| Call { host: Some(host.to_owned()), ..change() };
    let under_way = hang(&gate, on("a"), &sender, 0);
    let waits_for_host = hang(&gate, on("a"), &sender, 1);
    let waits_for_slot = hang(&gate, on("b"), &sender, 2);
    settle().await;
    assert_eq!((gate.stats().queued(), gate.stats().in_flight()), (2, 1));
    waits_for_host.abort();
    waits_for_slot.abort();
    under_way.abort();
    settle().await;
    let waits_for_token = hang(&gate, on("a"), &sender, 3);
    settle().await;
    waits_for_token.abort();
    let last = hang(&gate, on("a"), &sender, 4);
    settle().await;
    assert_eq!((gate.stats().queued(), gate.stats().in_flight()), (1, 0));
    advance(SECOND).await;
    settle().await;
    assert_eq!(received(&mut sent), [0, 4]);
    last.abort();
    settle().await;
    let stats = gate.stats();
    assert_eq!((stats.queued(), stats.in_flight()), (0, 0));
    let power = &stats.calls["power"];
    assert!(power.outcomes.is_empty() && power.attempts == 0 && power.unsent == 0, "{power:?}");
    assert!(gate.lock().bells.is_empty() && gate.lock().next_tokens.is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_lets_the_next_have_the_token() {
    let (gate, _) = gate(Limits { qps: 1.0, burst: 1, ..Limits::default() });
    answered(&gate).await.unwrap();
    let (sender, mut sent) = mpsc::unbounded_channel();
    let first = hang(&gate, change(), &sender, 1);
    let second = hang(&gate, change(), &sender, 2);
    settle().await;
    first.abort();
    sleep(SECOND * 2).await;
    assert_eq!(received(&mut sent), [2]);
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_panics_keeps_no_slot() {
    let (gate, _) = gate(Limits { concurrency: 1, ..Limits::default() });
    let inside = Arc::clone(&gate);
    let call =
        async move { inside.call(change(), |_| async { panic!("a bug") as Result<()> }).await };
    assert!(tokio::spawn(call).await.unwrap_err().is_panic());
    answered(&gate).await.unwrap();
    assert_eq!(gate.stats().in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_keep_to_the_rate() {
    let limits = Limits { qps: 10.0, burst: 20, concurrency: 0, ..Limits::default() };
    let (gate, _) = gate(limits);
    let start = Instant::now();
    join_all((0..20).map(|_| answered(&gate))).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    join_all((0..30).map(|_| answered(&gate))).await;
    assert_eq!(start.elapsed(), SECOND * 3);
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_wants_to_be_left_alone_is_by_everybody() {
    for kind in [ErrorKind::Exhausted, ErrorKind::Unavailable] {
        let (gate, _) = gate(Limits::default());
        let start = Instant::now();
        let error = fails(&gate, Error::new(kind, "slow down").retry_after(SECOND * 7)).await;
        assert_eq!(error.pause(), Some(SECOND * 7));
        join_all((0..3).map(|_| answered(&gate))).await;
        assert_eq!(start.elapsed(), SECOND * 7);
    }
    let (gate, _) = gate(Limits::default());
    let start = Instant::now();
    fails(&gate, Error::conflict("it is busy").retry_after(SECOND)).await;
    answered(&gate).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "that was about one machine");
}

#[tokio::test(start_paused = true)]
async fn what_went_through_is_counted() {
    let (gate, _) = gate(Limits { concurrency: 1, ..Limits::default() });
    let take = |seconds: u32, result: Result<()>| {
        gate.call(change(), move |_| {
            let result = result.clone();
            async move {
                sleep(SECOND * seconds).await;
                result
            }
        })
    };
    let (a, b, c) = tokio::join!(take(1, Ok(())), take(2, Ok(())), take(3, Err(down())));
    assert!(a.is_ok() && b.is_ok() && c.is_err());
    let stats = gate.stats();
    assert_eq!(stats.calls.keys().collect::<Vec<_>>(), [&"power"]);
    let power = &stats.calls["power"];
    assert_eq!((power.attempts, power.unsent, power.waited), (3, 0, SECOND * 4));
    let outcomes: Vec<_> = power
        .outcomes
        .iter()
        .map(|(outcome, tally)| (outcome.as_str(), tally.count, tally.time))
        .collect();
    assert_eq!(outcomes, [("OK", 2, SECOND * 3), ("Unavailable", 1, SECOND * 3)]);
}
