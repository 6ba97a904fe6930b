//! Which Operations are about which machine, and which are the same request made twice.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use sutler_api::sutler::{Operation, OperationState};

use crate::fleet::Key;

/// What is known of all Operations without a search.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    known: BTreeMap<Key, Entry>,
    under_way: BTreeMap<Key, BTreeSet<Key>>,
    equal: BTreeMap<Word, BTreeSet<(bool, Timestamp, String)>>,
}

/// What two equal requests share: namespace, type and their own word.
type Word = (String, String, String);

#[derive(Debug)]
struct Entry {
    uid: String,
    target: Option<Key>,
    word: Option<(Word, (bool, Timestamp, String))>,
}

impl Operations {
    /// Takes an Operation in.
    pub(crate) fn put(&mut self, operation: &Operation) {
        let key = Key::new(operation.namespace().unwrap_or_default(), operation.name_any());
        self.remove(&key);
        let target = (!finished(operation)).then(|| target(operation)).flatten();
        let word = operation.spec.idempotency_key.as_ref().map(|word| {
            let word = (key.namespace.clone(), operation.spec.type_.to_string(), word.clone());
            let begun = operation.status.as_ref().is_some_and(|status| status.state.is_some());
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
        self.known.insert(key, Entry { uid, target, word });
    }

    /// Lets an Operation go, and tells its UID.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<String> {
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

    /// The keys of all Operations.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.known.keys()
    }

    /// Operations on an object that have not ended.
    pub(crate) fn under_way(&self, target: &Key) -> BTreeSet<Key> {
        self.under_way.get(target).cloned().unwrap_or_default()
    }

    /// The Operations that are the same request as this one, the first that was begun or made
    /// first.
    pub(crate) fn equal(&self, operation: &Operation) -> Vec<Key> {
        let Some(word) = &operation.spec.idempotency_key else { return Vec::new() };
        let namespace = operation.namespace().unwrap_or_default();
        let word = (namespace.clone(), operation.spec.type_.to_string(), word.clone());
        let equal = self.equal.get(&word).into_iter().flatten();
        equal.map(|(_, _, name)| Key::new(&namespace, name)).collect()
    }
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
pub(crate) fn target(operation: &Operation) -> Option<Key> {
    let own = operation.namespace().unwrap_or_default();
    let target = operation.spec.target_ref.as_ref()?;
    let same = target.namespace.as_ref().is_none_or(|namespace| *namespace == own);
    same.then(|| Key::new(own, &target.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation(name: &str, second: i64, state: Option<&str>) -> Operation {
        let at = Timestamp::from_second(second).unwrap().to_string();
        serde_json::from_value(json!({
            "apiVersion": "sutler.dev/v1alpha1", "kind": "Operation",
            "metadata": { "name": name, "namespace": "ns", "creationTimestamp": at },
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
        assert_eq!(index.under_way(&vm).len(), 2);
        index.put(&operation("a", 1, Some("Failed")));
        assert_eq!(index.under_way(&vm), BTreeSet::from([Key::new("ns", "b")]));
        index.remove(&Key::new("ns", "b"));
        assert!(index.under_way(&vm).is_empty() && index.under_way.is_empty());
    }

    #[test]
    fn of_equal_requests_the_one_that_was_begun_comes_first() {
        let mut index = Operations::default();
        index.put(&operation("a", 1, None));
        index.put(&operation("b", 2, None));
        let first = |index: &Operations| index.equal(&operation("b", 2, None))[0].name.clone();
        assert_eq!(first(&index), "a");
        index.put(&operation("b", 2, Some("Running")));
        assert_eq!(first(&index), "b");
    }

    #[test]
    fn an_object_elsewhere_is_not_the_target() {
        let mut operation = operation("a", 1, None);
        operation.spec.target_ref.as_mut().unwrap().namespace = Some("other".into());
        assert_eq!(target(&operation), None);
    }
}
