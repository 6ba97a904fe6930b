//! Deadlines, and what is too late.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_is_too_late_is_not_sent() {
    let (gate, clock) = gate(Limits { concurrency: 1, ..Limits::default() });
    let late = |seconds| Call { not_after: Some(at(seconds)), ..change() };
    let send = |call| gate.call(call, |_| async { Ok(()) });
    send(late(0)).await.unwrap();
    assert_eq!(send(late(-1)).await, Err(Error::unavailable("power was not sent in time")));

    // Who waits gives up when the time has come, and not when the slot is free.
    let (sender, mut sent) = mpsc::unbounded_channel();
    let hung = hang(&gate, Call { deadline: Some(SECOND * 30), ..change() }, &sender, 0);
    settle().await;
    let start = Instant::now();
    assert_eq!(send(late(5)).await, Err(Error::unavailable("power was not sent in time")));
    assert_eq!(start.elapsed(), SECOND * 5);

    // The clock may have jumped meanwhile: it is asked again before sending.
    let waiting = hang(&gate, late(100), &sender, 1);
    settle().await;
    clock.put_ahead(SECOND * 100);
    assert_eq!(hung.await.unwrap().unwrap_err().kind(), ErrorKind::Indeterminate);
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(start.elapsed(), SECOND * 30);
    assert_eq!(received(&mut sent), [0]);
    assert_eq!(gate.stats().calls["power"].unsent, 3);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_token_gives_up_in_time() {
    let (gate, _) = gate(Limits { qps: 0.01, burst: 1, ..Limits::default() });
    answered(&gate).await.unwrap();
    let call = Call { not_after: Some(at(3)), ..change() };
    assert_eq!(
        gate.call(call, |_| async { Ok(()) }).await,
        Err(Error::unavailable("power was not sent in time")),
    );
    assert_eq!(gate.clock.now(), at(3));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_from_when_a_call_is_sent() {
    let (gate, _) = gate(Limits { qps: 0.01, burst: 1, ..Limits::default() });
    answered(&gate).await.unwrap();
    let answer = gate.call(look(), |_| async {
        sleep(SECOND * 29).await;
        Ok(5)
    });
    assert_eq!(answer.await, Ok(5));
    assert_eq!(gate.clock.now(), at(129));
    let endless = Call { deadline: Some(Duration::MAX), ..change() };
    assert_eq!(gate.call(endless, |_| async { Ok(6) }).await, Ok(6));
}
