//! Random operations, compared with a model that keeps every state whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::{Facts, facts};
use crate::engine::{Action, Engine, Error, Expect, Range, Record, Version, Write};

/// Few enough that operations meet.
const KEYS: [&str; 6] = ["t/a/1", "t/a/2", "t/a/20", "t/b/1", "s", "t/a/2/x"];
const PREFIXES: [&str; 6] = ["", "t/", "t/a/", "t/a/2", "s", "none"];

/// Runs random operations on engines and on the model, and compares every answer.
///
/// `make` gives a guard that outlives the engine and an empty engine; `reopen` closes an engine and
/// opens it again.
pub fn check<G, E: Engine>(make: impl Fn() -> (G, E), reopen: impl Fn(&G, E) -> E) {
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let operations = proptest::collection::vec(operation(), 1..60);
    let result = TestRunner::new(config).run(&operations, |operations| {
        let (guard, mut engine) = make();
        let mut model = Model::new();
        for operation in operations {
            if let Operation::Reopen = operation {
                engine = reopen(&guard, engine);
            } else {
                runtime.block_on(model.step(&engine, &operation))?;
            }
            prop_assert_eq!((engine.version(), engine.oldest()), (model.newest(), model.oldest));
        }
        Ok(())
    });
    if let Err(failure) = result {
        assert_eq!(failure.to_string(), "", "the engine and the model disagree");
    }
}

#[derive(Debug, Clone)]
enum Operation {
    Write {
        key: usize,
        expect: Hope,
        delete: bool,
        value: u8,
        also: Option<(usize, Hope)>,
    },
    Get(usize),
    Count(usize),
    /// Versions are given as steps back from the newest; -1 is one that is not yet there.
    List {
        prefix: usize,
        after: Option<usize>,
        limit: usize,
        back: Option<i8>,
    },
    Changes {
        prefix: usize,
        back: i8,
        limit: usize,
    },
    Compact(i8),
    Reopen,
}

/// An expectation, before it is known what is there.
#[derive(Debug, Clone, Copy)]
enum Hope {
    Absent,
    Present,
    Right,
    Off(i8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let hope = prop_oneof![
        Just(Hope::Absent),
        Just(Hope::Present),
        Just(Hope::Right),
        (-3i8..=3).prop_map(Hope::Off),
    ];
    let write = (
        0..KEYS.len(),
        hope.clone(),
        prop::bool::weighted(0.3),
        any::<u8>(),
        prop::option::weighted(0.2, (0..KEYS.len(), hope)),
    );
    let back = -2i8..12;
    let prefix = 0..PREFIXES.len();
    prop_oneof![
        10 => write.prop_map(|(key, expect, delete, value, also)| {
            Operation::Write { key, expect, delete, value, also }
        }),
        2 => (0..KEYS.len()).prop_map(Operation::Get),
        1 => prefix.clone().prop_map(Operation::Count),
        4 => (
            prefix.clone(),
            prop::option::of(0..KEYS.len()),
            0usize..4,
            prop::option::of(back.clone()),
        )
            .prop_map(|(prefix, after, limit, back)| {
                Operation::List { prefix, after, limit, back }
            }),
        3 => (prefix, back.clone(), 0usize..4)
            .prop_map(|(prefix, back, limit)| Operation::Changes { prefix, back, limit }),
        1 => back.prop_map(Operation::Compact),
        1 => Just(Operation::Reopen),
    ]
}

type State = BTreeMap<Arc<str>, Record>;

struct Model {
    /// The state at each version.
    states: Vec<State>,
    /// The change that led to each version but the first.
    log: Vec<Facts>,
    oldest: Version,
}

impl Model {
    fn new() -> Self {
        Self { states: vec![State::new()], log: Vec::new(), oldest: 0 }
    }

    fn newest(&self) -> Version {
        self.log.len() as Version
    }

    fn back(&self, steps: i8) -> Version {
        self.newest().saturating_add_signed(-i64::from(steps))
    }

    fn state(&self) -> &State {
        &self.states[self.log.len()]
    }

    fn check(&self, asked: Version) -> Result<(), Refusal> {
        if (self.oldest..=self.newest()).contains(&asked) {
            return Ok(());
        }
        Err(Refusal::Compacted(asked, self.oldest, self.newest()))
    }

    async fn step(
        &mut self,
        engine: &impl Engine,
        operation: &Operation,
    ) -> Result<(), TestCaseError> {
        match *operation {
            Operation::Write { key, expect, delete, value, also } => {
                let value = Bytes::from(vec![value]);
                let action = if delete { Action::Delete(value) } else { Action::Put(value) };
                let write = Write {
                    key: KEYS[key].into(),
                    expect: self.expect(key, expect),
                    action,
                    also: also
                        .map(|(key, hope)| (KEYS[key].into(), self.expect(key, hope)))
                        .into_iter()
                        .collect(),
                };
                let expected = self.write(&write);
                prop_assert_eq!(engine.write(write).await.map_err(Refusal::from), expected);
            }
            Operation::Get(key) => {
                let got = engine.get(KEYS[key]).await.map_err(Refusal::from);
                prop_assert_eq!(got, Ok(self.state().get(KEYS[key]).cloned()));
            }
            Operation::Count(prefix) => {
                let got = engine.count(PREFIXES[prefix]).await.map_err(Refusal::from);
                let all = self.state().keys();
                let count = all.filter(|key| key.starts_with(PREFIXES[prefix])).count();
                prop_assert_eq!(got, Ok(count as u64));
            }
            Operation::List { prefix, after, limit, back } => {
                let range = Range {
                    prefix: PREFIXES[prefix].to_owned(),
                    after: after.map(|key| KEYS[key].to_owned()),
                    limit,
                    at: back.map(|steps| self.back(steps)),
                };
                let expected = self.list(&range);
                let got = engine.list(range).await.map_err(Refusal::from);
                prop_assert_eq!(
                    got.map(|page| (page.records, page.version, page.remaining)),
                    expected
                );
            }
            Operation::Changes { prefix, back, limit } => {
                let after = self.back(back);
                let got = engine.changes(PREFIXES[prefix], after, limit).await;
                let got = got
                    .map(|(changes, read)| (changes.iter().map(facts).collect::<Vec<_>>(), read));
                prop_assert_eq!(
                    got.map_err(Refusal::from),
                    self.changes(PREFIXES[prefix], after, limit)
                );
            }
            Operation::Compact(back) => {
                let before = self.back(back);
                let expected = if before > self.newest() { self.check(before) } else { Ok(()) };
                prop_assert_eq!(engine.compact(before).await.map_err(Refusal::from), expected);
                if before <= self.newest() {
                    self.oldest = self.oldest.max(before);
                }
            }
            Operation::Reopen => {}
        }
        Ok(())
    }

    fn expect(&self, key: usize, hope: Hope) -> Expect {
        let version = self.state().get(KEYS[key]).map_or(0, |record| record.version);
        match hope {
            Hope::Absent => Expect::Absent,
            Hope::Present => Expect::Present,
            Hope::Right => Expect::At(version),
            Hope::Off(by) => Expect::At(version.saturating_add_signed(by.into())),
        }
    }

    fn write(&mut self, write: &Write) -> Result<Version, Refusal> {
        let own = (write.key.clone(), write.expect);
        for (key, expect) in [own].iter().chain(&write.also) {
            let found = self.state().get(key);
            let holds = match expect {
                Expect::Absent => found.is_none(),
                Expect::Present => found.is_some(),
                Expect::At(version) => found.is_some_and(|found| found.version == *version),
            };
            if !holds {
                return Err(Refusal::Conflict(key.clone(), found.cloned()));
            }
        }
        let mut state = self.state().clone();
        let key = write.key.clone();
        let version = self.newest() + 1;
        let (value, before) = match &write.action {
            Action::Put(value) => {
                let record = Record { key: key.clone(), version, value: value.clone() };
                (value, state.insert(key.clone(), record))
            }
            Action::Delete(value) => {
                let before = state.remove(&key);
                if before.is_none() {
                    return Err(Refusal::Conflict(key, None));
                }
                (value, before)
            }
        };
        let deleted = matches!(write.action, Action::Delete(_));
        let before = before.map(|record| record.value);
        self.log.push((version, key, value.clone(), before, deleted));
        self.states.push(state);
        Ok(version)
    }

    fn list(&self, range: &Range) -> Result<(Vec<Record>, Version, u64), Refusal> {
        let version = range.at.unwrap_or(self.newest());
        self.check(version)?;
        let mut records: Vec<Record> = self.states[version as usize]
            .values()
            .filter(|record| record.key.starts_with(&range.prefix))
            .filter(|record| range.after.as_deref().is_none_or(|after| &*record.key > after))
            .cloned()
            .collect();
        let keep = if range.limit == 0 { records.len() } else { range.limit.min(records.len()) };
        let remaining = records.split_off(keep).len() as u64;
        Ok((records, version, remaining))
    }

    fn changes(
        &self,
        prefix: &str,
        after: Version,
        limit: usize,
    ) -> Result<(Vec<Facts>, Version), Refusal> {
        self.check(after)?;
        let mut changes: Vec<_> = self
            .log
            .iter()
            .filter(|change| change.0 > after && change.1.starts_with(prefix))
            .cloned()
            .collect();
        if limit > 0 {
            changes.truncate(limit);
        }
        let read = match changes.last() {
            Some(last) if changes.len() == limit => last.0,
            _ => self.newest(),
        };
        Ok((changes, read))
    }
}

/// An error that can be compared.
#[derive(Debug, PartialEq)]
enum Refusal {
    Conflict(Arc<str>, Option<Record>),
    Compacted(Version, Version, Version),
    Other(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Conflict { key, found } => Self::Conflict(key, found),
            Error::Compacted { asked, oldest, newest } => Self::Compacted(asked, oldest, newest),
            other => Self::Other(other.to_string()),
        }
    }
}
