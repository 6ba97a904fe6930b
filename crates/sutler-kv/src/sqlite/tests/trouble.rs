//! What happens when the disk does not play along, and between writers and long work.

use futures::FutureExt as _;
use futures::future::join_all;

use super::*;

const KB: usize = 1000;

#[tokio::test]
async fn a_full_disk_refuses_and_recovers() {
    let size = 400_000;
    let (folder, store) = make(Options { size_max: Some(size), ..Options::default() });
    let mut receiver = store.subscribe("t/a");
    let mut last = 0;
    let refused = loop {
        match put(&store, "t/a/1", &"x".repeat(10 * KB)).await {
            Ok(version) => last = version,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, Error::Unavailable(why) if why.contains("full")), "{refused}");
    assert!(last > 10);
    // Nothing of it is seen, and what is there can be read.
    assert_eq!((store.version(), store.failure()), (last, None));
    let mut heard = 0;
    while let Ok(change) = receiver.try_recv() {
        heard = change.version;
    }
    assert_eq!(heard, last);
    assert_eq!(store.get("t/a/1").await.unwrap().unwrap().version, last);
    // Room is made, and writing goes on with a version that nobody was given before.
    store.compact(last).await.unwrap();
    let next = put(&store, "t/a/1", "small").await.unwrap();
    assert!(next > last);
    assert_eq!(store.version(), next);
    drop(store);
    let store = Sqlite::open(&path(&folder), Options::default()).unwrap();
    assert_eq!(store.version(), next);
    assert_eq!(value(&store, "t/a/1").await.unwrap().as_deref(), Some("small"));
}

#[tokio::test]
async fn a_commit_that_fails_fails_all_who_share_it() {
    let (_folder, store) = make(Options { size_max: Some(400_000), ..Options::default() });
    let small = (0..10).map(|at| format!("t/a/{at}")).collect::<Vec<_>>();
    let big = Action::Put(vec![0; 1_000_000].into());
    let huge = Write { key: "t/b".into(), expect: Expect::Absent, action: big, also: Vec::new() };
    // Queued before the writer takes the first: the runtime has one thread, which is here.
    let write = |key: &String| {
        let action = Action::Put(Bytes::from_static(b"x"));
        let expect = Expect::Absent;
        store.write(Write { key: key.as_str().into(), expect, action, also: Vec::new() })
    };
    let (huge, small) = tokio::join!(store.write(huge), join_all(small.iter().map(write)));
    assert!(matches!(huge, Err(Error::Unavailable(_))));
    // Which of them were in that commit is not known; each is there if and only if it was told so.
    let page = store.list(Range { prefix: "t/a/".to_owned(), ..Range::default() }).await.unwrap();
    let there: Vec<Version> = page.records.iter().map(|record| record.version).collect();
    let told: Vec<Version> = small.into_iter().filter_map(Result::ok).collect();
    assert_eq!(there, told);
    assert_eq!(store.version(), told.last().copied().unwrap_or(0));
}

#[tokio::test]
async fn a_value_that_is_too_large_is_refused_alone() {
    let (_folder, store) = make(Options::default());
    let action = Action::Put(vec![0; VALUE_MAX + 1].into());
    let write = Write { key: "t/a".into(), expect: Expect::Absent, action, also: Vec::new() };
    let (refused, written) = tokio::join!(store.write(write), put(&store, "t/b", "x"));
    assert!(matches!(refused, Err(Error::Unavailable(why)) if why.contains("too large")));
    assert_eq!(written.unwrap(), 1);
}

#[tokio::test]
async fn writes_pass_long_compaction_by() {
    let (_folder, store) = make(Options::default());
    // Where this thread has to wait for a processor meanwhile, a compaction may be over by itself.
    for _ in 0..20 {
        for _ in 0..10 {
            join_all((0..500).map(|at| {
                let store = &store;
                async move { put(store, &format!("t/a/{at}"), "x").await.unwrap() }
            }))
            .await;
        }
        let newest = store.version();
        let mut compaction = store.compact(newest);
        let begun = (&mut compaction).now_or_never().is_none();
        // The first may be taken along with the order to compact; the second comes after it.
        put(&store, "t/b/1", "x").await.unwrap();
        put(&store, "t/b/1", "x").await.unwrap();
        assert_eq!(store.oldest(), newest);
        if begun && (&mut compaction).now_or_never().is_none() {
            return compaction.await.unwrap();
        }
    }
    panic!("each write waited for all of it");
}

#[tokio::test]
async fn dropping_the_store_ends_what_is_queued() {
    let (folder, store) = make(Options::default());
    let mut futures: Vec<_> = (0..100)
        .map(|at| {
            let key = format!("t/a/{at}").into();
            let action = Action::Put(Bytes::new());
            store.write(Write { key, expect: Expect::Absent, action, also: Vec::new() })
        })
        .collect();
    for future in &mut futures {
        future.now_or_never();
    }
    drop(futures);
    drop(store);
    let store = Sqlite::open(&path(&folder), Options::default()).unwrap();
    assert_eq!(store.version(), 100);
}

#[tokio::test]
async fn readers_wait_until_what_they_see_is_published() {
    let (folder, store) = make(Options::default());
    let held = store.shared.topics.hold();
    let mut writing = Box::pin(put(&store, "t/a/1", "x"));
    assert!((&mut writing).now_or_never().is_none());
    // Committed, and kept from being published.
    while rows(&folder) == 0 {
        std::thread::yield_now();
    }
    let mut get = store.get("t/a/1");
    let mut list = store.list(Range::default());
    let mut count = store.count("t/");
    let mut changes = store.changes("t/", 0, 0);
    // A read through a thread pool answers whenever it likes; the answer must not come before.
    for _ in 0..100 {
        assert!((&mut get).now_or_never().is_none());
        assert!((&mut list).now_or_never().is_none());
        assert!((&mut count).now_or_never().is_none());
        assert!((&mut changes).now_or_never().is_none());
        assert!((&mut writing).now_or_never().is_none());
        assert_eq!(store.version(), 0);
        rows(&folder);
    }
    drop(held);
    assert_eq!(get.await.unwrap().unwrap().version, 1);
    assert_eq!(list.await.unwrap().version, 1);
    assert_eq!(count.await.unwrap(), 1);
    assert_eq!(changes.await.unwrap().1, 1);
    assert_eq!(writing.await.unwrap(), 1);
}

/// What one write of a transaction does to a key is seen by those after it that expect something
/// of that key.
#[tokio::test]
async fn expectations_hold_within_a_commit() {
    let (folder, store) = make(Options::default());
    let namespace = put(&store, "ns/x/a", "x").await.unwrap();
    let held = store.shared.topics.hold();
    let mut first = Box::pin(put(&store, "t/a/0", "x"));
    assert!((&mut first).now_or_never().is_none());
    // Committed and kept from being published: what comes now is one commit.
    while rows(&folder) < 2 {
        std::thread::yield_now();
    }
    let create = |name: &str, expect| {
        let also = vec![("ns/x/a".into(), expect)];
        let action = Action::Put(Bytes::new());
        store.write(Write { key: name.into(), expect: Expect::Absent, action, also })
    };
    let remove = Write {
        key: "ns/x/a".into(),
        expect: Expect::At(namespace),
        action: Action::Delete(Bytes::new()),
        also: Vec::new(),
    };
    let again = Write {
        key: "ns/x/a".into(),
        expect: Expect::Absent,
        action: Action::Put(Bytes::new()),
        also: Vec::new(),
    };
    let mut writes = vec![
        create("t/a/1", Expect::At(namespace)),
        store.write(remove),
        create("t/a/2", Expect::At(namespace)),
        create("t/a/2", Expect::Absent),
        store.write(again),
        create("t/a/3", Expect::At(namespace)),
        create("t/a/3", Expect::At(namespace + 5)),
    ];
    for write in &mut writes {
        assert!(write.now_or_never().is_none());
    }
    drop(held);
    first.await.unwrap();
    let mut outcomes = Vec::new();
    for write in writes {
        outcomes.push(write.await.ok());
    }
    let after = |n| Some(namespace + n);
    assert_eq!(outcomes, [after(2), after(3), None, after(4), after(5), None, after(6)]);
    let stats = store.stats();
    assert_eq!((stats.writes(), stats.refused(), stats.batches().sum()), (7, 2, 7));
    let batches: Vec<u64> = stats.batches().buckets().map(|(_, count)| count).collect();
    assert_eq!(batches, [2, 0, 1, 0, 0, 0]);
    store.compact(3).await.unwrap();
    assert_eq!((stats.compactions(), stats.failed()), (1, 0));
}

#[tokio::test]
async fn the_write_ahead_log_stays_short() {
    let (folder, store) = make(Options::default());
    let value = "x".repeat(100 * KB);
    for at in 0..400 {
        put(&store, &format!("t/a/{}", at % 7), &value).await.unwrap();
    }
    let wal = folder.path().join("store.db-wal");
    let size = std::fs::metadata(wal).unwrap().len();
    assert!(size < 20_000_000, "{size} bytes after 40 MB were written");
}
