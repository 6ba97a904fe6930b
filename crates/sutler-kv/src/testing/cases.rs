//! What an engine does for one caller.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use super::{
    assert_compacted, assert_conflict, bytes, delete, facts, keys, put, range, record, write,
};
use crate::engine::{Action, Engine, Expect, Range, Version, Write};

/// An empty store is at 0; every write that succeeds takes the next version, others none.
pub async fn versions_start_at_one_and_count_writes(engine: Arc<impl Engine>) {
    assert_eq!((engine.version(), engine.oldest()), (0, 0));
    let page = engine.list(range("")).await.expect("an empty store is listed");
    assert_eq!((page.records.len(), page.version, page.remaining), (0, 0, 0));
    assert_eq!(put(&*engine, "t/a/1", "x").await, 1);
    assert_eq!(engine.version(), 1);
    let refused = write(&*engine, "t/a/1", Expect::Absent, Action::Put(bytes("y"))).await;
    assert_conflict(refused, "t/a/1", Some(record("t/a/1", 1, "x")));
    assert_eq!(engine.version(), 1);
    assert_eq!(put(&*engine, "t/a/1", "y").await, 2);
    assert_eq!(delete(&*engine, "t/a/1", "z").await, 3);
    assert_eq!((engine.version(), engine.oldest()), (3, 0));
}

/// Each expectation, against a key that exists, never did, and does no longer.
pub async fn expectations_decide(engine: Arc<impl Engine>) {
    for (at, expect) in (0u64..).zip([
        Expect::Absent,
        Expect::Present,
        Expect::At(0),
        Expect::At(1),
        Expect::At(Version::MAX),
    ]) {
        for (state, deleting) in [(0, false), (1, false), (2, false), (1, true)] {
            let key = format!("t/{at}/{state}{deleting}");
            let version = if state >= 1 { put(&*engine, &key, "old").await } else { 0 };
            if state == 2 {
                delete(&*engine, &key, "last").await;
            }
            let exists = state == 1;
            // "At 1" stands for the version that is there.
            let expect = if expect == Expect::At(1) { Expect::At(version) } else { expect };
            let holds = match expect {
                Expect::Absent => !exists,
                Expect::Present => exists,
                Expect::At(expected) => exists && expected == version,
            };
            let action =
                if deleting { Action::Delete(bytes("new")) } else { Action::Put(bytes("new")) };
            let newest = engine.version();
            let result = write(&*engine, &key, expect, action).await;
            let found = exists.then(|| record(&key, version, "old"));
            let after = engine.get(&key).await.expect("a key is read");
            if holds && (exists || !deleting) {
                assert_eq!(result.expect("it holds"), newest + 1, "{expect:?} {state}");
                assert_eq!(after, (!deleting).then(|| record(&key, newest + 1, "new")));
            } else {
                assert_conflict(result, &key, found.clone());
                assert_eq!((after, engine.version()), (found, newest));
            }
        }
    }
}

/// Expectations of other keys are checked in the same step, after the key's own.
pub async fn expectations_of_other_keys_decide(engine: Arc<impl Engine>) {
    let namespace = put(&*engine, "ns/x/here", "ns").await;
    let attempt = async |expect, also: &[(&str, Expect)]| {
        let also = also.iter().map(|(key, expect)| ((*key).into(), *expect)).collect();
        let action = Action::Put(bytes("v"));
        engine.write(Write { key: "t/a/1".into(), expect, action, also }).await
    };
    let here = Some(record("ns/x/here", namespace, "ns"));
    let gone = attempt(Expect::Absent, &[("ns/x/gone", Expect::Present)]).await;
    assert_conflict(gone, "ns/x/gone", None);
    let stale = attempt(Expect::Absent, &[("ns/x/here", Expect::At(99))]).await;
    assert_conflict(stale, "ns/x/here", here.clone());
    let second = [("ns/x/here", Expect::Present), ("ns/x/gone", Expect::Present)];
    assert_conflict(attempt(Expect::Absent, &second).await, "ns/x/gone", None);
    let own_first = attempt(Expect::Present, &[("ns/x/gone", Expect::Present)]).await;
    assert_conflict(own_first, "t/a/1", None);
    assert_eq!(engine.get("t/a/1").await.expect("a key is read"), None);
    assert_eq!(engine.version(), namespace);
    let also = [("ns/x/here", Expect::At(namespace)), ("ns/x/gone", Expect::Absent)];
    assert_eq!(attempt(Expect::Absent, &also).await.expect("all hold"), namespace + 1);
}

/// A removal of nothing is a conflict whatever is expected.
pub async fn a_key_that_does_not_exist_cannot_be_removed(engine: Arc<impl Engine>) {
    for expect in [Expect::Absent, Expect::Present, Expect::At(1)] {
        let result = write(&*engine, "t/a/1", expect, Action::Delete(Bytes::new())).await;
        assert_conflict(result, "t/a/1", None);
    }
    assert_eq!(engine.version(), 0);
}

/// Keys sort by their bytes, and a prefix is no pattern.
pub async fn lists_are_sorted_and_bounded_by_their_prefix(engine: Arc<impl Engine>) {
    let all = [
        "",
        "!",
        "-2",
        "a",
        "a%b",
        "a/b",
        "a/b-c",
        "a/b.c",
        "a/b/",
        "a/b/c",
        "a/b0",
        "a/ä",
        "a/日",
        "a/\u{10ffff}",
        "a/\u{10ffff}z",
        "a0",
        "b'\"",
        "b\u{0}c",
        "\u{10ffff}",
    ];
    for key in all.iter().rev() {
        put(&*engine, key, key).await;
    }
    for prefix in all.iter().chain(&["a/", "a/b_", "zz", "a/\u{10fffe}"]) {
        let mut expected: Vec<&str> =
            all.iter().copied().filter(|key| key.starts_with(prefix)).collect();
        expected.sort_unstable();
        assert_eq!(keys(&*engine, range(prefix)).await, expected, "{prefix:?}");
        let count = engine.count(prefix).await.expect("a prefix is counted");
        assert_eq!(count, expected.len() as u64, "{prefix:?}");
        for after in all {
            let after_it: Vec<_> = expected.iter().copied().filter(|key| *key > after).collect();
            let range = Range { after: Some(after.to_owned()), ..range(prefix) };
            assert_eq!(keys(&*engine, range).await, after_it, "{prefix:?} after {after:?}");
        }
    }
    for key in all {
        let found = engine.get(key).await.expect("a key is read").expect("it is there");
        assert_eq!((&*found.key, &found.value), (key, &bytes(key)));
    }
}

/// Pages join without a gap or a repeat, and each says exactly what follows it, also when it is
/// asked for twice, out of order, or while the state moves on.
pub async fn pages_continue_and_count_what_follows(engine: Arc<impl Engine>) {
    let mut expected = Vec::new();
    for at in 0..10 {
        let key = format!("t/a/{at}");
        put(&*engine, &key, "x").await;
        expected.push(key);
    }
    put(&*engine, "t/b/0", "x").await;
    let version = engine.version();
    for limit in 1..=11 {
        let mut got = Vec::new();
        let mut next = Range { limit, ..range("t/a/") };
        loop {
            let page = engine.list(next.clone()).await.expect("a page is read");
            let again = engine.list(Range { at: Some(version), ..next.clone() }).await;
            let again = again.expect("a page is read again");
            assert_eq!((&page.records, page.remaining), (&again.records, again.remaining));
            assert_eq!(page.version, version);
            got.extend(page.records.iter().map(|record| record.key.to_string()));
            assert_eq!(page.remaining, (expected.len() - got.len()) as u64, "limit {limit}");
            if page.remaining == 0 {
                break;
            }
            next.after = got.last().cloned();
            next.at = Some(page.version);
        }
        assert_eq!(got, expected);
    }
    delete(&*engine, "t/a/9", "x").await;
    put(&*engine, "t/a/95", "x").await;
    put(&*engine, "t/a/96", "x").await;
    for (at, remaining) in [(Some(version), 5), (None, 6)] {
        for _ in 0..2 {
            let after = Some("t/a/2".to_owned());
            let next = Range { after, limit: 2, at, ..range("t/a/") };
            assert_eq!(engine.list(next).await.expect("a page is read").remaining, remaining);
        }
    }
    let narrower = Range { after: Some("t/a/2".to_owned()), limit: 2, ..range("t/") };
    assert_eq!(engine.list(narrower).await.expect("a page is read").remaining, 7);
}

/// Every past state can be read until it is compacted.
pub async fn lists_show_the_state_at_a_version(engine: Arc<impl Engine>) {
    put(&*engine, "t/a/1", "one").await;
    put(&*engine, "t/a/2", "two").await;
    put(&*engine, "t/a/1", "uno").await;
    delete(&*engine, "t/a/2", "gone").await;
    put(&*engine, "t/a/2", "due").await;
    let expected = [
        vec![],
        vec![record("t/a/1", 1, "one")],
        vec![record("t/a/1", 1, "one"), record("t/a/2", 2, "two")],
        vec![record("t/a/1", 3, "uno"), record("t/a/2", 2, "two")],
        vec![record("t/a/1", 3, "uno")],
        vec![record("t/a/1", 3, "uno"), record("t/a/2", 5, "due")],
    ];
    for (at, expected) in (0..).zip(expected) {
        let page = engine.list(Range { at: Some(at), ..range("t/") }).await;
        let page = page.expect("a past state is read");
        assert_eq!((page.records, page.version), (expected, at));
    }
}

/// Changes carry what was before, in order, for a prefix; the answer says how far it read.
pub async fn changes_tell_the_history(engine: Arc<impl Engine>) {
    put(&*engine, "t/a/1", "one").await;
    put(&*engine, "t/b/1", "other").await;
    put(&*engine, "t/a/1", "uno").await;
    delete(&*engine, "t/a/1", "last").await;
    put(&*engine, "t/a/1", "again").await;
    put(&*engine, "t/b/2", "other").await;
    let change = |version, value: &str, before: Option<&str>, deleted| {
        (version, "t/a/1".into(), bytes(value), before.map(bytes), deleted)
    };
    let expected = [
        change(1, "one", None, false),
        change(3, "uno", Some("one"), false),
        change(4, "last", Some("uno"), true),
        change(5, "again", None, false),
    ];
    for after in 0..=6 {
        let expected: Vec<_> = expected.iter().filter(|change| change.0 > after).cloned().collect();
        let (all, read) = engine.changes("t/a/", after, 0).await.expect("history is read");
        assert_eq!((all.iter().map(facts).collect::<Vec<_>>(), read), (expected.clone(), 6));
        for limit in 1..=5 {
            let (some, read) = engine.changes("t/a/", after, limit).await.expect("history is read");
            let cut = expected.len().min(limit);
            assert_eq!(some.iter().map(facts).collect::<Vec<_>>(), expected[..cut]);
            assert_eq!(read, if cut == limit { expected[cut - 1].0 } else { 6 });
        }
    }
    let (everything, _) = engine.changes("", 0, 0).await.expect("history is read");
    assert_eq!(everything.len(), 6);
}

/// The history of one prefix is found among many changes of others.
pub async fn changes_reach_far_back(engine: Arc<impl Engine>) {
    let mut expected = Vec::new();
    for round in 0..10 {
        // By turns, and not in the order of their names.
        let key = format!("t/a/{}", 1 - round % 2);
        expected.push(put(&*engine, &key, &round.to_string()).await);
        let noise = (0..500).map(|at| {
            let key = format!("t/b/{at}-{round}");
            let engine = &engine;
            async move { put(&**engine, &key, "noise").await }
        });
        join_all(noise).await;
    }
    for limit in [0, 3] {
        let (mut got, mut after) = (Vec::new(), 0);
        loop {
            let (changes, read) =
                engine.changes("t/a/", after, limit).await.expect("history is read");
            for change in &changes {
                assert_eq!(change.before.is_some(), change.version > expected[1]);
                got.push(change.version);
            }
            if changes.is_empty() || limit == 0 {
                assert_eq!(read, engine.version());
                break;
            }
            after = read;
        }
        assert_eq!(got, expected);
    }
}

/// What can be asked for is exactly what lies between the oldest and the newest version.
pub async fn compaction_bounds_are_exact(engine: Arc<impl Engine>) {
    for round in 0..10 {
        put(&*engine, &format!("t/a/{}", round % 3), &round.to_string()).await;
    }
    assert_compacted(engine.compact(11).await, (11, 0, 10));
    for (mark, oldest) in [(0, 0), (4, 4), (3, 4), (0, 4), (4, 4), (9, 9), (10, 10)] {
        engine.compact(mark).await.expect("a mark in the log is compacted");
        assert_eq!((engine.oldest(), engine.version()), (oldest, 10));
        for asked in (0..=12).chain([Version::MAX - 1, Version::MAX]) {
            let page = engine.list(Range { at: Some(asked), ..range("t/") }).await;
            let changes = engine.changes("t/", asked, 0).await;
            if (oldest..=10).contains(&asked) {
                assert_eq!(page.expect("it is in the log").version, asked);
                let (changes, read) = changes.expect("it is in the log");
                assert_eq!((changes.len() as u64, read), (10 - asked, 10));
            } else {
                assert_compacted(page, (asked, oldest, 10));
                assert_compacted(changes, (asked, oldest, 10));
            }
        }
    }
}

/// Compaction takes nothing that can still be asked for.
pub async fn compaction_keeps_what_is_needed(engine: Arc<impl Engine>) {
    put(&*engine, "t/a/kept", "kept").await; // 1
    put(&*engine, "t/a/old", "old").await; // 2
    put(&*engine, "t/a/gone", "gone").await; // 3
    put(&*engine, "t/a/old", "newer").await; // 4
    delete(&*engine, "t/a/gone", "last").await; // 5
    put(&*engine, "t/a/late", "late").await; // 6
    engine.compact(5).await.expect("5 is in the log");
    put(&*engine, "t/a/old", "newest").await; // 7
    delete(&*engine, "t/a/late", "last").await; // 8
    delete(&*engine, "t/a/kept", "last").await; // 9
    let at_5 = engine.list(Range { at: Some(5), ..range("t/") }).await.expect("5 is kept");
    assert_eq!(at_5.records, [record("t/a/kept", 1, "kept"), record("t/a/old", 4, "newer")]);
    let (changes, _) = engine.changes("t/", 5, 0).await.expect("5 is kept");
    let before: Vec<_> = changes.iter().map(|change| change.before.clone()).collect();
    let expected = [None, Some("newer"), Some("late"), Some("kept")];
    assert_eq!(before, expected.map(|before| before.map(bytes)));
    engine.compact(9).await.expect("9 is in the log");
    assert_eq!(keys(&*engine, range("t/")).await, ["t/a/old"]);
    assert_eq!(engine.count("t/").await.expect("a prefix is counted"), 1);
}

/// A store that was emptied and compacted to its end still knows its version.
pub async fn versions_go_on_after_everything_is_removed(engine: Arc<impl Engine>) {
    for round in 0..3u64 {
        put(&*engine, "t/a/1", "x").await;
        let last = delete(&*engine, "t/a/1", "y").await;
        assert_eq!(last, 2 * round + 2);
        engine.compact(last).await.expect("the newest version is compacted");
        assert_eq!((engine.version(), engine.oldest()), (last, last));
        assert!(keys(&*engine, range("")).await.is_empty());
        let (changes, read) = engine.changes("", last, 0).await.expect("it is in the log");
        assert_eq!((changes.len(), read), (0, last));
    }
}

/// Values are bytes: none, many, and any.
pub async fn values_are_opaque(engine: Arc<impl Engine>) {
    let values =
        [Bytes::new(), (0..=255).collect(), vec![0; 3 << 20].into(), Bytes::from_static(b"\0'")];
    for (at, value) in values.iter().enumerate() {
        let key = format!("t/a/{at}");
        let action = Action::Put(value.clone());
        let version = write(&*engine, &key, Expect::Absent, action).await.expect("it is written");
        let found = engine.get(&key).await.expect("a key is read").expect("it is there");
        assert_eq!((found.version, &found.value), (version, value));
    }
    let page = engine.list(range("t/")).await.expect("a range is listed");
    assert!(page.records.iter().map(|record| &record.value).eq(&values));
}
