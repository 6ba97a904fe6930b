//! What an engine does for many callers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::FutureExt as _;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::JoinSet;

use super::{assert_compacted, bytes, facts, put, range, write};
use crate::engine::{Action, Change, Engine, Error, Expect, Range, Version, Write};

const WRITERS: u64 = 16;
const EACH: u64 = 20;

/// Starts writers, each of its own keys; they answer with the versions they were given.
fn writers<E: Engine>(engine: &Arc<E>, topic: &'static str) -> JoinSet<Vec<Version>> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let engine = engine.clone();
        writers.spawn(async move {
            let mut versions = Vec::new();
            for at in 0..EACH {
                let key = format!("{topic}/{writer}/{}", at % 3);
                versions.push(put(&*engine, &key, &at.to_string()).await);
            }
            versions
        });
    }
    writers
}

/// Versions of concurrent writers are unique and grow for each; subscribers get them in order,
/// none left out, and they are those of the log.
pub async fn versions_are_unique_and_published_in_order<E: Engine>(engine: Arc<E>) {
    let mut receiver = engine.subscribe("t/a");
    let heard = tokio::spawn(async move {
        let mut heard = Vec::new();
        while heard.len() < (WRITERS * EACH) as usize {
            match receiver.recv().await {
                Ok(change) => heard.push(facts(&change)),
                Err(RecvError::Lagged(missed)) => {
                    heard.extend((0..missed).map(|_| (0, "".into(), bytes(""), None, false)));
                }
                Err(RecvError::Closed) => break,
            }
        }
        heard
    });
    let mut all = BTreeSet::new();
    for versions in writers(&engine, "t/a").join_all().await {
        assert!(versions.is_sorted());
        all.extend(versions);
    }
    let expected: BTreeSet<Version> = (1..=WRITERS * EACH).collect();
    assert_eq!(all, expected);
    let heard = heard.await.expect("the subscriber ends");
    let (log, _) = engine.changes("t/a/", 0, 0).await.expect("history is read");
    let log: Vec<_> = log.iter().map(facts).collect();
    assert_eq!(log.iter().map(|change| change.0).collect::<BTreeSet<_>>(), expected);
    assert_eq!(heard.len(), log.len());
    for (heard, logged) in heard.iter().zip(&log).filter(|(heard, _)| heard.0 != 0) {
        assert_eq!(heard, logged);
    }
}

/// When a write is answered, its change is with its subscribers and counts as published.
pub async fn a_write_is_published_before_it_is_answered<E: Engine>(engine: Arc<E>) {
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let engine = engine.clone();
        tasks.spawn(async move {
            for at in 0..EACH {
                let mut receiver = engine.subscribe("t/a");
                let key = format!("t/a/{writer}");
                let version = put(&*engine, &key, &at.to_string()).await;
                assert!(engine.version() >= version);
                loop {
                    match receiver.try_recv() {
                        Ok(change) if change.version == version => break,
                        Ok(change) => assert!(change.version < version),
                        // Others were so fast meanwhile that it may be lost again.
                        Err(TryRecvError::Lagged(_)) => break,
                        Err(error) => assert_eq!(error.to_string(), "", "it was not published"),
                    }
                }
            }
        });
    }
    tasks.join_all().await;
}

/// A subscriber hears every change of its topic and none of another.
pub async fn subscribers_hear_their_topic_alone(engine: Arc<impl Engine>) {
    put(&*engine, "t/a/1", "before").await;
    let mut a = engine.subscribe("t/a");
    let mut second = engine.subscribe("t/a");
    let mut b = engine.subscribe("t/b");
    put(&*engine, "t/a/1", "1").await;
    put(&*engine, "t/b/1", "2").await;
    put(&*engine, "t/ab/1", "3").await;
    put(&*engine, "t/a", "4").await;
    let hear = |receiver: &mut Receiver<Arc<Change>>| {
        let mut heard = Vec::new();
        while let Ok(change) = receiver.try_recv() {
            heard.push(change.version);
        }
        heard
    };
    assert_eq!((hear(&mut a), hear(&mut second), hear(&mut b)), (vec![2, 5], vec![2, 5], vec![3]));
    // When nobody listens any more the topic is forgotten, and can be heard again.
    drop((a, second));
    put(&*engine, "t/a/1", "5").await;
    let mut again = engine.subscribe("t/a");
    put(&*engine, "t/a/1", "6").await;
    assert_eq!(hear(&mut again), [7]);
}

/// However much is written meanwhile, pages show one state: here, that each writer's keys tell of
/// one moment.
pub async fn pages_are_one_snapshot_under_writes<E: Engine>(engine: Arc<E>) {
    for at in 0..40 {
        put(&*engine, &format!("t/a/{at:02}"), "0").await;
    }
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let (engine, done) = (engine.clone(), done.clone());
        tasks.spawn(async move {
            let mut lists = 0;
            while !done.load(Ordering::Relaxed) || lists < 3 {
                let mut next = Range { limit: 7, ..range("t/a/") };
                let mut values = Vec::new();
                loop {
                    let page = engine.list(next.clone()).await.expect("a page is read");
                    // What a read shows was published.
                    assert!(page.version <= engine.version());
                    assert!(page.records.iter().all(|record| record.version <= page.version));
                    assert_eq!(next.at.unwrap_or(page.version), page.version);
                    values.extend(page.records.iter().map(|record| {
                        String::from_utf8_lossy(&record.value).parse().unwrap_or(u64::MAX)
                    }));
                    assert_eq!(page.remaining, 40 - values.len() as u64);
                    if page.remaining == 0 {
                        break;
                    }
                    next.after = page.records.last().map(|record| record.key.to_string());
                    next.at = Some(page.version);
                }
                // Keys are written round by round in order: a state is so many keys of one round,
                // then the rest of the round before.
                let (first, last) = (values[0], values[values.len() - 1]);
                assert!(values.is_sorted_by(|a, b| a >= b), "{values:?}");
                assert!(first - last <= 1, "{values:?}");
                lists += 1;
            }
        });
    }
    for round in 1..=8 {
        for at in 0..40 {
            put(&*engine, &format!("t/a/{at:02}"), &round.to_string()).await;
        }
    }
    done.store(true, Ordering::Relaxed);
    tasks.join_all().await;
}

/// To subscribe, then to read the log from a known version, misses nothing and repeats nothing
/// that versions do not tell apart.
pub async fn following_has_no_gap<E: Engine>(engine: Arc<E>) {
    let mut writers = writers(&engine, "t/a");
    let mut followers = JoinSet::new();
    for _ in 0..4 {
        let engine = engine.clone();
        followers.spawn(async move {
            let mut got: Vec<Version> = Vec::new();
            'subscribe: loop {
                let mut receiver = engine.subscribe("t/a");
                loop {
                    let after = got.last().copied().unwrap_or(0);
                    let (changes, read) =
                        engine.changes("t/a/", after, 10).await.expect("history is read");
                    got.extend(changes.iter().map(|change| change.version));
                    if changes.len() < 10 {
                        assert!(read >= after && read <= engine.version());
                        break;
                    }
                }
                while got.len() < (WRITERS * EACH) as usize {
                    match receiver.recv().await {
                        Ok(change) if got.last().is_none_or(|last| change.version > *last) => {
                            got.push(change.version);
                        }
                        Ok(_) => {}
                        Err(_) => continue 'subscribe,
                    }
                }
                return got;
            }
        });
    }
    while writers.join_next().await.is_some() {}
    for got in followers.join_all().await {
        assert_eq!(got, (1..=WRITERS * EACH).collect::<Vec<_>>());
    }
}

/// A subscriber that does not read loses changes and is told; writers go on; the log has them.
/// The channel holds 64.
pub async fn a_slow_subscriber_is_told_and_blocks_nobody(engine: Arc<impl Engine>) {
    let mut slow = engine.subscribe("t/a");
    for at in 0..200 {
        put(&*engine, "t/a/1", &at.to_string()).await;
    }
    match slow.recv().await {
        Err(RecvError::Lagged(missed)) => assert_eq!(missed, 200 - 64),
        other => assert_eq!(format!("{other:?}"), "", "it should have been told"),
    }
    assert_eq!(slow.recv().await.expect("the rest is there").version, 200 - 63);
    let (missed, _) = engine.changes("t/a/", 0, 0).await.expect("history is read");
    assert_eq!(missed.len(), 200);
}

/// A write that is dropped after it began is in the log, in the state and published, or nowhere.
pub async fn a_write_whose_caller_leaves_is_whole_or_nothing<E: Engine>(engine: Arc<E>) {
    let mut heard = Vec::new();
    let mut begun = 0;
    for at in 0..50 {
        let mut receiver = engine.subscribe("t/a");
        let key = format!("t/a/{at}");
        let write = Write {
            key: key.as_str().into(),
            expect: Expect::Absent,
            action: Action::Put(bytes("x")),
            also: Vec::new(),
        };
        let mut future = engine.write(write);
        if at % 5 > 0 {
            poll_fn(|context| {
                begun += usize::from(future.poll_unpin(context).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        drop(future);
        // Whatever was queued is done once a later write is.
        put(&*engine, "t/b/last", &at.to_string()).await;
        while let Ok(change) = receiver.try_recv() {
            heard.push(change.key.to_string());
        }
        if at % 5 == 0 {
            assert_eq!(engine.get(&key).await.expect("a key is read"), None);
        }
    }
    let page = engine.list(range("t/a/")).await.expect("a range is listed");
    let (log, _) = engine.changes("t/a/", 0, 0).await.expect("history is read");
    let logged: Vec<_> = log.iter().map(|change| change.key.to_string()).collect();
    assert_eq!(heard, logged);
    let listed: BTreeMap<_, _> =
        page.records.iter().map(|record| (record.key.to_string(), record.version)).collect();
    let logged: BTreeMap<_, _> =
        log.iter().map(|change| (change.key.to_string(), change.version)).collect();
    assert_eq!(listed, logged);
    assert!(begun == 0 || !logged.is_empty());
}

/// Of writers that expect the same, one succeeds, and the others are shown what it wrote.
pub async fn one_of_many_wins<E: Engine>(engine: Arc<E>) {
    for round in 0..EACH {
        let key = format!("t/a/{round}");
        let mut tasks = JoinSet::new();
        for writer in 0..WRITERS {
            let (engine, key) = (engine.clone(), key.clone());
            tasks.spawn(async move {
                let value = writer.to_string();
                (
                    value.clone(),
                    write(&*engine, &key, Expect::Absent, Action::Put(bytes(&value))).await,
                )
            });
        }
        let results = tasks.join_all().await;
        let won: Vec<_> = results.iter().filter(|(_, result)| result.is_ok()).collect();
        assert_eq!(won.len(), 1);
        let value = bytes(&won[0].0);
        for (_, result) in &results {
            match result {
                Ok(version) => assert_eq!(*version, round + 1),
                Err(Error::Conflict { found: Some(found), .. }) => {
                    assert_eq!((found.version, &found.value), (round + 1, &value));
                }
                Err(error) => assert_eq!(error.to_string(), "", "it should be a conflict"),
            }
        }
    }
}

/// Lists and followers that run while history is compacted get the truth or are refused.
pub async fn readers_keep_their_snapshot_through_compaction<E: Engine>(engine: Arc<E>) {
    let mut writers = writers(&engine, "t/a");
    let done = Arc::new(AtomicBool::new(false));
    let mut readers = JoinSet::new();
    for _ in 0..2 {
        let (engine, done) = (engine.clone(), done.clone());
        readers.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let at = engine.oldest();
                let whole = engine.list(Range { at: Some(at), ..range("t/a/") }).await;
                let again = engine.list(Range { at: Some(at), ..range("t/a/") }).await;
                match (whole, again) {
                    (Ok(whole), Ok(again)) => assert_eq!(whole.records, again.records),
                    (_, Err(Error::Compacted { oldest, .. })) => assert!(oldest > at),
                    (_, result) => assert!(result.is_ok(), "{result:?}"),
                }
                match engine.changes("t/a/", at, 0).await {
                    Ok((changes, read)) => {
                        let versions: Vec<_> =
                            changes.iter().map(|change| change.version).collect();
                        assert_eq!(versions, (at + 1..=read).collect::<Vec<_>>());
                    }
                    Err(Error::Compacted { oldest, .. }) => assert!(oldest > at),
                    Err(error) => assert_eq!(error.to_string(), "", "history should be read"),
                }
            }
        });
    }
    while let Some(result) = writers.join_next().await {
        result.expect("a writer ends");
        let newest = engine.version();
        engine.compact(newest.saturating_sub(3)).await.expect("it is in the log");
        engine.compact(newest.saturating_sub(9)).await.expect("it was compacted");
    }
    done.store(true, Ordering::Relaxed);
    readers.join_all().await;
    let newest = engine.version();
    assert_compacted(
        engine.changes("", newest + 1, 0).await,
        (newest + 1, engine.oldest(), newest),
    );
    assert_eq!(engine.count("t/a/").await.expect("a prefix is counted"), WRITERS * 3);
}
