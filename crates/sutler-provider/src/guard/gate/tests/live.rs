//! Changes while calls wait.

use super::*;

#[tokio::test(start_paused = true)]
async fn other_limits_count_for_those_who_wait() {
    let tight = Limits { concurrency: 1, per_host: 1, ..Limits::default() };
    let (gate, _) = gate(tight.clone());
    let (sender, mut sent) = mpsc::unbounded_channel();
    let on = |host: &str| Call { host: Some(host.to_owned()), ..change() };
    let calls: Vec<_> = (0..4).map(|tag| hang(&gate, on("a"), &sender, tag)).collect();
    settle().await;
    assert_eq!(received(&mut sent), [0]);
    gate.set_limits(Limits { concurrency: 3, ..tight.clone() });
    settle().await;
    assert_eq!(received(&mut sent), NOTHING, "the host is busy");
    gate.set_limits(Limits { concurrency: 3, per_host: 0, ..tight.clone() });
    settle().await;
    assert_eq!(received(&mut sent), [1, 2]);

    // Those who have a slot and wait for a token give it back when there are fewer.
    let slow = Limits { concurrency: 0, per_host: 0, qps: 0.001, burst: 1, ..tight.clone() };
    gate.set_limits(slow.clone());
    settle().await;
    assert_eq!(received(&mut sent), NOTHING);
    gate.set_limits(Limits { concurrency: 3, qps: 10.0, ..slow.clone() });
    advance(SECOND).await;
    settle().await;
    assert_eq!(received(&mut sent), NOTHING);
    gate.set_limits(Limits { concurrency: 4, qps: 10.0, ..slow });
    settle().await;
    assert_eq!(received(&mut sent), [3]);
    calls.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_higher_rate_wakes_who_waits_for_a_token() {
    let slow = Limits { qps: 0.001, burst: 1, ..Limits::default() };
    let (gate, _) = gate(slow.clone());
    answered(&gate).await.unwrap();
    let inside = Arc::clone(&gate);
    let waiting = tokio::spawn(async move { answered(&inside).await });
    sleep(SECOND).await;
    assert!(!waiting.is_finished());
    gate.set_limits(Limits { qps: 1.0, ..slow });
    waiting.await.unwrap().unwrap();
    assert!(gate.clock.now() <= at(2));
}

#[tokio::test(start_paused = true)]
async fn later_calls_go_to_the_new_connection() {
    let (gate, _) = gate(Limits { concurrency: 1, ..Limits::default() });
    let inside = Arc::clone(&gate);
    let old = tokio::spawn(async move { inside.list().await });
    settle().await;
    let inside = Arc::clone(&gate);
    let waiting = tokio::spawn(async move { inside.validate().await });
    settle().await;
    let new = Fake::failing(Error::new(ErrorKind::Denied, "who are you?"));
    gate.set_provider(new.clone());
    let error = old.await.unwrap().unwrap_err();
    assert_eq!(error.message(), "list was not answered in time");
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(new.sent(), ["validate"]);
}
