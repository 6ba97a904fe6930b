//! Which Operations are about which machine, and which are the same request made twice.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use sutler_api::{
    names::labels,
    sutler::{Operation, OperationResult, OperationState, OperationStatus},
};

use super::report::Failure;
use crate::fleet::Key;

/// What is known of all Operations without a search.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    known: BTreeMap<Key, Entry>,
    under_way: BTreeMap<Target, BTreeSet<Key>>,
    equal: BTreeMap<Word, BTreeSet<(bool, Timestamp, String)>>,
    memos: BTreeMap<String, Memo>,
    /// Operations whose end was written, and is not in the cache yet.
    ended: BTreeSet<Key>,
}

/// What this process remembers of an Operation that it carries out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memo {
    /// It was begun by this process, so what it asks for was asked by nobody before.
    pub(crate) announced: bool,
    /// What it asks for was asked for.
    pub(crate) acted: bool,
    /// The generation and version that its target had then.
    pub(crate) generation: i64,
    pub(crate) version: u64,
    /// What came of its call.
    pub(crate) outcome: Option<Result<OperationResult, Failure>>,
    /// When its progress was last written.
    pub(crate) written: Option<Timestamp>,
    /// It has ended, whatever the cache says.
    pub(crate) ended: bool,
}

/// Kind, and namespace and name, of what an Operation is about.
type Target = (String, Key);

/// What two equal requests share: namespace, type and their own word.
type Word = (String, String, String);

#[derive(Debug)]
struct Entry {
    uid: String,
    /// Whether a person made it.
    asked: bool,
    target: Option<Target>,
    word: Option<(Word, (bool, Timestamp, String))>,
}

impl Operations {
    /// Takes an Operation in.
    pub(crate) fn put(&mut self, operation: &Operation) {
        let key = Key::new(operation.namespace().unwrap_or_default(), operation.name_any());
        self.unlink(&key);
        if finished(operation) {
            self.ended.remove(&key);
        }
        let target = target(operation).filter(|_| !finished(operation));
        let word = operation.spec.idempotency_key.as_ref().map(|word| {
            let word = (key.namespace.clone(), operation.spec.type_.to_string(), word.clone());
            let state = operation.status.as_ref().and_then(|status| status.state);
            let begun = state.is_some_and(|state| state != OperationState::Pending);
            let made = operation.metadata.creation_timestamp.as_ref();
            let made = made.map_or(Timestamp::MIN, |Time(at)| *at);
            (word, (!begun, made, key.name.clone()))
        });
        if let Some(target) = &target {
            self.under_way.entry(target.clone()).or_default().insert(key.clone());
        }
        if let Some((word, place)) = &word {
            self.equal.entry(word.clone()).or_default().insert(place.clone());
        }
        let uid = operation.uid().unwrap_or_default();
        let asked = !is_own(operation);
        self.known.insert(key, Entry { uid, asked, target, word });
    }

    /// Lets an Operation go.
    pub(crate) fn remove(&mut self, key: &Key) {
        self.ended.remove(key);
        if let Some(uid) = self.unlink(key) {
            self.memos.remove(&uid);
        }
    }

    fn unlink(&mut self, key: &Key) -> Option<String> {
        let entry = self.known.remove(key)?;
        if let Some(target) = entry.target
            && let Some(others) = self.under_way.get_mut(&target)
        {
            others.remove(key);
            if others.is_empty() {
                self.under_way.remove(&target);
            }
        }
        if let Some((word, place)) = entry.word
            && let Some(others) = self.equal.get_mut(&word)
        {
            others.remove(&place);
            if others.is_empty() {
                self.equal.remove(&word);
            }
        }
        Some(entry.uid)
    }

    /// Notes that the end of an Operation was written.
    pub(crate) fn end(&mut self, key: &Key) {
        if self.known.get(key).is_some_and(|entry| entry.target.is_some()) {
            self.ended.insert(key.clone());
        }
    }

    /// Whether this process has begun the Operation with this UID.
    pub(crate) fn announced(&self, uid: &str) -> bool {
        self.memos.get(uid).is_some_and(|memo| memo.announced)
    }

    /// What this process remembers of the Operation with this UID.
    pub(crate) fn memo(&mut self, uid: &str) -> &mut Memo {
        self.memos.entry(uid.to_owned()).or_default()
    }

    /// The keys of all Operations.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.known.keys()
    }

    /// Operations on an object that have not ended.
    pub(crate) fn under_way(&self, kind: &str, object: &Key) -> BTreeSet<Key> {
        let target = (kind.to_owned(), object.clone());
        let all = self.under_way.get(&target).into_iter().flatten();
        all.filter(|key| !self.ended.contains(*key)).cloned().collect()
    }

    /// Those of them that people made.
    pub(crate) fn asked(&self, kind: &str, object: &Key) -> Vec<Key> {
        let mut all: Vec<Key> = self.under_way(kind, object).into_iter().collect();
        all.retain(|key| self.known.get(key).is_some_and(|entry| entry.asked));
        all
    }

    /// Makes this Operation the one of its word that is carried out, or tells which one is. Of
    /// several, it is the one that was begun, and otherwise the one that was made first.
    pub(crate) fn claim(&mut self, operation: &Operation) -> Result<(), Key> {
        let namespace = operation.namespace().unwrap_or_default();
        let name = operation.name_any();
        if let Some(word) = &operation.spec.idempotency_key {
            let word = (namespace.clone(), operation.spec.type_.to_string(), word.clone());
            let equal = self.equal.get(&word).into_iter().flatten();
            let equal: Vec<&String> = equal.map(|(_, _, name)| name).collect();
            let begun = equal.iter().find(|other| {
                let entry = self.known.get(&Key::new(&namespace, other.as_str()));
                let memo = entry.and_then(|entry| self.memos.get(&entry.uid));
                memo.is_some_and(|memo| memo.announced)
            });
            if let Some(first) = begun.or(equal.first())
                && **first != name
            {
                return Err(Key::new(namespace, first.as_str()));
            }
        }
        self.memo(&operation.uid().unwrap_or_default()).announced = true;
        Ok(())
    }
}

/// Takes off what nobody asks a finished change of ours for: there are as many as there are machines.
/// One that another may have to copy is kept whole.
pub(crate) fn trim(operation: &mut Operation) {
    if !finished(operation) || !is_own(operation) || operation.spec.idempotency_key.is_some() {
        return;
    }
    operation.spec.params = None;
    let Some(status) = &mut operation.status else { return };
    *status = OperationStatus {
        state: status.state,
        finished_at: status.finished_at.take(),
        ..OperationStatus::default()
    };
}

/// Whether an Operation has come to its end.
pub(crate) fn finished(operation: &Operation) -> bool {
    let state = operation.status.as_ref().and_then(|status| status.state);
    match state {
        None | Some(OperationState::Pending | OperationState::Running) => false,
        Some(
            OperationState::Completed
            | OperationState::Partial
            | OperationState::Failed
            | OperationState::Cancelled,
        ) => true,
    }
}

/// The object that an Operation is about: it is in the same namespace, or it is none of the
/// Operation's business.
fn target(operation: &Operation) -> Option<Target> {
    let own = operation.namespace().unwrap_or_default();
    let target = operation.spec.target_ref.as_ref()?;
    let same = target.namespace.as_ref().is_none_or(|namespace| *namespace == own);
    same.then(|| (target.kind.clone(), Key::new(own, &target.name)))
}

/// Whether an Operation tells of a change that nobody made an Operation for.
pub(crate) fn is_own(operation: &Operation) -> bool {
    operation.labels().contains_key(labels::CHANGE_OF)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation(name: &str, second: i64, state: Option<&str>) -> Operation {
        let at = Timestamp::from_second(second).unwrap().to_string();
        serde_json::from_value(json!({
            "apiVersion": "sutler.dev/v1alpha1", "kind": "Operation",
            "metadata": {
                "name": name, "namespace": "ns", "uid": name, "creationTimestamp": at,
            },
            "spec": {
                "type": "start", "idempotencyKey": "k",
                "targetRef": { "kind": "VirtualMachine", "name": "vm" },
            },
            "status": { "state": state },
        }))
        .unwrap()
    }

    #[test]
    fn what_has_ended_is_no_longer_under_way() {
        let mut index = Operations::default();
        index.put(&operation("a", 1, None));
        index.put(&operation("b", 2, Some("Running")));
        let vm = Key::new("ns", "vm");
        let under_way = |index: &Operations| index.under_way("VirtualMachine", &vm);
        assert_eq!(under_way(&index).len(), 2);
        index.end(&Key::new("ns", "a"));
        index.put(&operation("a", 1, Some("Running")));
        assert_eq!(under_way(&index).len(), 1, "the cache is behind");
        index.put(&operation("a", 1, Some("Failed")));
        assert!(index.ended.is_empty());
        assert_eq!(under_way(&index), BTreeSet::from([Key::new("ns", "b")]));
        index.remove(&Key::new("ns", "b"));
        assert!(under_way(&index).is_empty() && index.under_way.is_empty());
    }

    #[test]
    fn of_equal_requests_the_one_that_was_begun_is_carried_out() {
        let mut index = Operations::default();
        let (a, b) = (operation("a", 1, None), operation("b", 1, None));
        index.put(&b);
        assert_eq!(index.claim(&b), Ok(()));
        // It came later in the same second, and its name is before the other's.
        index.put(&a);
        assert_eq!(index.claim(&a), Err(Key::new("ns", "b")));
        assert_eq!(index.claim(&b), Ok(()));

        // Another process knows only what was written.
        let mut index = Operations::default();
        index.put(&a);
        index.put(&operation("b", 1, Some("Running")));
        assert_eq!(index.claim(&a), Err(Key::new("ns", "b")));
        index.remove(&Key::new("ns", "b"));
        assert_eq!(index.claim(&a), Ok(()));
    }

    #[test]
    fn an_object_elsewhere_is_not_the_target() {
        let mut operation = operation("a", 1, None);
        operation.spec.target_ref.as_mut().unwrap().namespace = Some("other".into());
        assert_eq!(target(&operation), None);
    }
}
