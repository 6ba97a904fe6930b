//! Which snapshots and copies hang on which objects, so that a change finds them without a search.

use std::collections::{BTreeMap, BTreeSet};

use crate::fleet::Key;

/// What an object hangs on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Link {
    /// A VirtualMachine.
    Machine(Key),
    /// A VMSnapshot.
    Snapshot(Key),
    /// The VMSnapshot with this UID, whose schedule made it.
    Schedule(String),
}

/// What objects of one kind hang on.
#[derive(Debug, Default)]
pub(crate) struct Links {
    of: BTreeMap<Key, BTreeSet<Link>>,
    users: BTreeMap<Link, BTreeSet<Key>>,
    /// What was last known of those that are hung on.
    seen: BTreeMap<Link, String>,
}

impl Links {
    /// Takes an object in.
    pub(crate) fn put(&mut self, key: &Key, links: BTreeSet<Link>) {
        if self.of.get(key) == Some(&links) {
            return;
        }
        self.remove(key);
        for link in &links {
            self.users.entry(link.clone()).or_default().insert(key.clone());
        }
        self.of.insert(key.clone(), links);
    }

    /// Lets an object go, and tells what it hung on.
    pub(crate) fn remove(&mut self, key: &Key) -> BTreeSet<Link> {
        let links = self.of.remove(key).unwrap_or_default();
        for link in &links {
            let Some(users) = self.users.get_mut(link) else { continue };
            users.remove(key);
            if users.is_empty() {
                self.users.remove(link);
                self.seen.remove(link);
            }
        }
        links
    }

    /// The objects that hang on this.
    pub(crate) fn users(&self, link: &Link) -> BTreeSet<Key> {
        self.users.get(link).cloned().unwrap_or_default()
    }

    /// Those of them that have to know of a change: none when `now` is what was known before.
    pub(crate) fn changed(&mut self, link: &Link, now: &str) -> BTreeSet<Key> {
        let Some(users) = self.users.get(link) else { return BTreeSet::new() };
        match self.seen.insert(link.clone(), now.to_owned()) {
            Some(before) if before == now => BTreeSet::new(),
            _ => users.clone(),
        }
    }

    /// The keys of all objects.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.of.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_on_something_is_found_while_it_does() {
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let machine = Link::Machine(Key::new("ns", "vm"));
        let mut links = Links::default();
        links.put(&a, BTreeSet::from([machine.clone()]));
        links.put(&b, BTreeSet::from([machine.clone(), Link::Schedule("u".into())]));
        assert_eq!(links.changed(&machine, "x").len(), 2);
        assert!(links.changed(&machine, "x").is_empty(), "nothing has changed");
        links.put(&b, BTreeSet::from([Link::Schedule("u".into())]));
        assert_eq!(links.users(&machine), BTreeSet::from([a.clone()]));
        links.remove(&a);
        links.remove(&b);
        assert!(links.users.is_empty() && links.of.is_empty() && links.seen.is_empty());
    }
}
