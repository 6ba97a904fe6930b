//! What the store says has happened, and whether that can be.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The annotation that makes every write one of its kind.
pub(crate) const MARK: &str = "robust/mark";
/// The annotation that follows from the mark: a write that is not whole does not have it.
pub(crate) const BULK: &str = "robust/bulk";

/// A kind that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Plain.
    ConfigMap,
    /// Encrypted at rest.
    Secret,
    /// One of ours.
    VmClass,
}

/// All of them.
pub(crate) const KINDS: [Kind; 3] = [Kind::ConfigMap, Kind::Secret, Kind::VmClass];

impl Kind {
    /// Where its objects are.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::ConfigMap => "/api/v1/namespaces/default/configmaps",
            Self::Secret => "/api/v1/namespaces/default/secrets",
            Self::VmClass => "/apis/infra.virtrigaud.io/v1beta1/namespaces/default/vmclasses",
        }
    }

    /// An object with a mark.
    pub(crate) fn object(self, name: &str, mark: &str) -> Value {
        let metadata = json!({"name": name, "namespace": "default", "annotations": marks(mark)});
        match self {
            Self::ConfigMap => json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            }),
            Self::Secret => json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}),
            Self::VmClass => json!({
                "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMClass",
                "metadata": metadata, "spec": {"cpu": 1, "memory": "1Gi"},
            }),
        }
    }
}

/// The annotations of a write.
pub(crate) fn marks(mark: &str) -> Value {
    json!({MARK: mark, BULK: bulk(mark)})
}

/// A few bytes to a few pages, by the mark.
fn bulk(mark: &str) -> String {
    let sum = mark.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let length = if sum % 16 == 0 { sum % 20_000 } else { sum % 600 };
    mark.chars().cycle().take(length as usize).collect()
}

/// One thing that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// ADDED, MODIFIED or DELETED.
    pub(crate) what: String,
    /// At which version.
    pub(crate) version: u64,
    /// The object's name.
    pub(crate) name: String,
    /// Its identity.
    pub(crate) uid: String,
    /// Whose write it is.
    pub(crate) mark: String,
}

impl Event {
    /// Reads a line of a watch; the object must be whole.
    pub(crate) fn read(line: &[u8]) -> Self {
        let line: Value = serde_json::from_slice(line).expect("a line of a watch is JSON");
        let what = line["type"].as_str().unwrap_or_default().to_owned();
        Self::of(what, &line["object"])
    }

    /// What an object says of its last write.
    pub(crate) fn of(what: String, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mark = text(&metadata["annotations"][MARK]);
        assert_eq!(metadata["annotations"][BULK], bulk(&mark), "not whole: {what} {object}");
        let version = text(&metadata["resourceVersion"]);
        let version =
            version.parse().unwrap_or_else(|_| panic!("{what} without version: {object}"));
        Self { what, version, name: text(&metadata["name"]), uid: text(&metadata["uid"]), mark }
    }
}

/// A write that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    /// The kind.
    pub(crate) kind: Kind,
    /// The object.
    pub(crate) name: String,
    /// What must be in the history.
    pub(crate) done: Done,
}

/// What was acknowledged.
#[derive(Debug, Clone)]
pub(crate) enum Done {
    /// A write with this mark, at this version, on top of that one if it was named.
    Written { version: u64, mark: String, on: Option<u64> },
    /// The end of the object with this identity.
    Deleted { uid: String },
}

/// All that happened to one kind, from the log.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// By version.
    pub(crate) events: BTreeMap<u64, Event>,
    /// The objects that are there, with their last events.
    pub(crate) state: BTreeMap<String, Event>,
}

impl History {
    /// Adds what was read of the log; each event must follow from those before.
    pub(crate) fn add(&mut self, event: Event) {
        let newest = self.events.last_key_value().map_or(0, |(version, _)| *version);
        assert!(event.version > newest, "after {newest} comes {event:?}");
        let before = self.state.get(&event.name);
        match event.what.as_str() {
            "ADDED" => assert!(before.is_none(), "{event:?} is there already: {before:?}"),
            "MODIFIED" | "DELETED" => {
                let uid = before.map(|before| &before.uid);
                assert_eq!(uid, Some(&event.uid), "{event:?} is not there");
            }
            other => panic!("{other}: {event:?}"),
        }
        if event.what == "DELETED" {
            self.state.remove(&event.name);
        } else {
            self.state.insert(event.name.clone(), event.clone());
        }
        self.events.insert(event.version, event);
    }

    /// What was acknowledged must have happened, just so.
    pub(crate) fn check(&self, write: &Acknowledged) {
        match &write.done {
            Done::Written { version, mark, on } => {
                let event = self.events.get(version);
                let found = event.map(|event| (&event.name, &event.mark));
                assert_eq!(found, Some((&write.name, mark)), "lost: {write:?}");
                if let Some(on) = on {
                    let mut earlier = self.events.range(..version).rev();
                    let before = earlier.find(|(_, event)| event.name == write.name);
                    let before = before.map(|(version, _)| *version);
                    assert_eq!(before, Some(*on), "written over: {write:?}");
                }
            }
            Done::Deleted { uid } => {
                let mut events = self.events.values().rev();
                let last = events.find(|event| event.uid == *uid).map(|event| event.what.as_str());
                assert_eq!(last, Some("DELETED"), "still there: {write:?}");
            }
        }
    }
}

/// The checks above are worth something only if they can fail.
mod tests {
    use super::*;
    use crate::watcher::Watcher;

    fn event(what: &str, version: u64, mark: &str) -> Event {
        let [name, uid] = ["a", "u"].map(str::to_owned);
        Event { what: what.to_owned(), version, name, uid, mark: mark.to_owned() }
    }

    fn history() -> History {
        let mut history = History::default();
        history.add(event("ADDED", 3, "one"));
        history.add(event("MODIFIED", 5, "two"));
        history
    }

    fn written(version: u64, mark: &str, on: Option<u64>) -> Acknowledged {
        let done = Done::Written { version, mark: mark.to_owned(), on };
        Acknowledged { kind: Kind::ConfigMap, name: "a".to_owned(), done }
    }

    #[test]
    fn what_happened_is_found() {
        history().check(&written(3, "one", None));
        history().check(&written(5, "two", Some(3)));
    }

    #[test]
    #[should_panic(expected = "lost")]
    fn a_lost_write_is_noticed() {
        history().check(&written(4, "three", None));
    }

    #[test]
    #[should_panic(expected = "lost")]
    fn a_version_given_to_another_write_is_noticed() {
        history().check(&written(5, "three", None));
    }

    #[test]
    #[should_panic(expected = "written over")]
    fn a_write_between_is_noticed() {
        history().check(&written(5, "two", Some(2)));
    }

    #[test]
    #[should_panic(expected = "still there")]
    fn a_delete_that_came_to_nothing_is_noticed() {
        let done = Done::Deleted { uid: "u".to_owned() };
        history().check(&Acknowledged { kind: Kind::Secret, name: "a".to_owned(), done });
    }

    #[test]
    #[should_panic(expected = "is there already")]
    fn an_event_twice_is_noticed() {
        history().add(event("ADDED", 6, "one"));
    }

    #[test]
    #[should_panic(expected = "from 2 to 5")]
    fn a_gap_in_a_watch_is_noticed() {
        let mut watcher = Watcher::new(Kind::ConfigMap, 5, 1);
        watcher.seen.push(event("MODIFIED", 5, "two"));
        watcher.compare(2, &history());
    }

    #[test]
    #[should_panic(expected = "not whole")]
    fn half_a_write_is_noticed() {
        let mut object = Kind::ConfigMap.object("a", "mark");
        object["metadata"]["resourceVersion"] = "7".into();
        object["metadata"]["annotations"][MARK] = "other".into();
        Event::of("ADDED".to_owned(), &object);
    }
}
