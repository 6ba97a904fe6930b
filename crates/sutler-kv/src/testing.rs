//! The conformance suite of [`Engine`]: what every engine must do, for the engines here and those
//! in other crates.
//!
//! [`engine_conformance!`](crate::engine_conformance) makes a test of each case.

pub mod cases;
pub mod concurrency;
pub mod model;

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Action, Change, Engine, Error, Expect, Range, Record, Version, Write};

/// Makes tests of an engine: `make` gives a guard that outlives the engine (a folder) and an empty
/// engine whose subscribers may fall behind by so many changes; `reopen` closes one and opens it
/// again.
#[macro_export]
macro_rules! engine_conformance {
    ($make:expr, $reopen:expr) => {
        $crate::engine_conformance!(@cases $make, cases: [
            versions_start_at_one_and_count_writes,
            expectations_decide,
            expectations_of_other_keys_decide,
            a_key_that_does_not_exist_cannot_be_removed,
            lists_are_sorted_and_bounded_by_their_prefix,
            pages_continue_and_count_what_follows,
            lists_show_the_state_at_a_version,
            changes_tell_the_history,
            changes_reach_far_back,
            compaction_bounds_are_exact,
            compaction_keeps_what_is_needed,
            versions_go_on_after_everything_is_removed,
            values_are_opaque,
        ]);
        $crate::engine_conformance!(@cases $make, concurrency: [
            versions_are_unique_and_published_in_order,
            a_write_is_published_before_it_is_answered,
            subscribers_hear_their_topic_alone,
            pages_are_one_snapshot_under_writes,
            following_has_no_gap,
            a_slow_subscriber_is_told_and_blocks_nobody,
            a_write_whose_caller_leaves_is_whole_or_nothing,
            one_of_many_wins,
            readers_keep_their_snapshot_through_compaction,
        ]);

        #[test]
        fn random_operations_match_the_model() {
            $crate::testing::model::check(|| ($make)(1024), $reopen);
        }
    };
    (@cases $make:expr, $module:ident: [$($case:ident),* $(,)?]) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let (_guard, engine) = ($make)(64);
                $crate::testing::$module::$case(std::sync::Arc::new(engine)).await;
            }
        )*
    };
}

/// Writes a value, where nothing is expected to be in the way.
async fn put(engine: &impl Engine, key: &str, value: &str) -> Version {
    let expect = match engine.get(key).await.expect("a key is read") {
        Some(record) => Expect::At(record.version),
        None => Expect::Absent,
    };
    write(engine, key, expect, Action::Put(bytes(value))).await.expect("a value is written")
}

/// Removes a key that exists.
async fn delete(engine: &impl Engine, key: &str, last: &str) -> Version {
    write(engine, key, Expect::Present, Action::Delete(bytes(last)))
        .await
        .expect("a key is removed")
}

async fn write(
    engine: &impl Engine,
    key: &str,
    expect: Expect,
    action: Action,
) -> Result<Version, Error> {
    engine.write(Write { key: key.into(), expect, action, also: Vec::new() }).await
}

fn bytes(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

fn record(key: &str, version: Version, value: &str) -> Record {
    Record { key: key.into(), version, value: bytes(value) }
}

fn range(prefix: &str) -> Range {
    Range { prefix: prefix.to_owned(), ..Range::default() }
}

async fn keys(engine: &impl Engine, range: Range) -> Vec<String> {
    let page = engine.list(range).await.expect("a range is listed");
    page.records.iter().map(|record| record.key.to_string()).collect()
}

/// The parts of a change that can be compared: version, key, value, value before, removed.
type Facts = (Version, Arc<str>, Bytes, Option<Bytes>, bool);

fn facts(change: &Change) -> Facts {
    let Change { version, key, value, before, deleted, encoded: _ } = change;
    (*version, key.clone(), value.clone(), before.clone(), *deleted)
}

fn assert_compacted<T: std::fmt::Debug>(
    result: Result<T, Error>,
    expected: (Version, Version, Version),
) {
    match result {
        Err(Error::Compacted { asked, oldest, newest }) => {
            assert_eq!((asked, oldest, newest), expected);
        }
        other => assert!(false_for(&other), "expected {expected:?} to be refused, got {other:?}"),
    }
}

fn assert_conflict<T: std::fmt::Debug>(
    result: Result<T, Error>,
    expected_key: &str,
    expected: Option<Record>,
) {
    match result {
        Err(Error::Conflict { key, found }) => {
            assert_eq!((&*key, found), (expected_key, expected));
        }
        other => assert!(false_for(&other), "expected a conflict on {expected_key}, got {other:?}"),
    }
}

/// An assertion that fails, as `panic!` is kept for tests proper.
fn false_for<T>(_: &T) -> bool {
    false
}
