//! Which records use what, so that a change finds them without a search.

mod rows;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use sutler_api::{infra::VirtualMachine, names::annotations};
use sutler_provider::{Machine, MachineId};

use kube::ResourceExt as _;

use crate::fleet::Key;
use rows::Shared;

/// What a record refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// A Provider.
    Provider(Key),
    /// A VMClass.
    Class(Key),
    /// A VMImage.
    Image(Key),
    /// A VMNetworkAttachment.
    Network(Key),
    /// A VMSnapshot.
    Snapshot(Key),
    /// A VirtualMachine that it is to be a copy of.
    Source(Key),
    /// A VMPlacementPolicy.
    Policy(Key),
    /// A VMDisk.
    Disk(Key),
    /// A Secret.
    Secret(Key),
    /// A machine on a Provider.
    Machine(Key, MachineId),
    /// A name on a Provider, in lower case.
    Name(Key, String),
    /// A managed group on a Provider, a member of which it waits for.
    Waits(Key, String),
    /// The record's UID.
    Uid(String),
}

impl Reference {
    /// Whether it tells what a record has, waits for, or is called on a Provider.
    fn claims_on(&self, at: &Key) -> bool {
        match self {
            Self::Machine(provider, _) | Self::Name(provider, _) | Self::Waits(provider, _) => {
                provider == at
            }
            _ => false,
        }
    }
}

/// What is known of one record.
#[derive(Debug, Default)]
struct Entry {
    uid: String,
    /// When its machine was made, to the second.
    made: Option<i64>,
    /// When its machine was first asked for, where it waits for one of its group.
    asked: Option<Timestamp>,
    /// Since when members of its group may be its own.
    since: Option<Timestamp>,
    /// Whether it is on its way out.
    deleting: bool,
    /// In their order.
    references: Box<[Arc<Reference>]>,
}

/// The records that use something: mostly one, as of a machine, or many, as of a class.
#[derive(Debug)]
enum Users {
    One(Key),
    Many(BTreeSet<Key>),
}

impl Users {
    fn insert(&mut self, key: Key) {
        match self {
            Self::One(user) if *user == key => {}
            Self::One(user) => *self = Self::Many(BTreeSet::from([user.clone(), key])),
            Self::Many(users) => {
                users.insert(key);
            }
        }
    }
}

/// Which records use what.
#[derive(Debug, Default)]
pub struct Index {
    users: BTreeMap<Arc<Reference>, Users>,
    /// On which Providers a class, image or network is used, and by how many records.
    providers: BTreeMap<Reference, BTreeMap<Key, usize>>,
    references: BTreeMap<Key, Entry>,
    /// How members of groups are shared out: by Provider, group, and whether for one that goes.
    rows: BTreeMap<(Key, String, bool), Shared>,
    /// Machines that records which are gone have left in place, and when each was made, to the second: as
    /// far as somebody wanted one of them.
    kept: BTreeMap<(Key, MachineId), Option<i64>>,
}

impl Index {
    /// Takes a record in, and tells what it began or ceased to use.
    pub fn put(&mut self, vm: &VirtualMachine) -> Vec<Reference> {
        let key = Key::new(vm.namespace().unwrap_or_default(), vm.name_any());
        let uid = vm.uid().unwrap_or_default();
        let mut new: Vec<Arc<Reference>> = references(vm).into_iter().map(Arc::new).collect();
        let made = vm.status.as_ref().and_then(|status| status.created_at.as_ref());
        let made = made.map(|at| at.0.as_second());
        let old = match self.references.get_mut(&key) {
            None => Box::default(),
            Some(entry) => std::mem::take(&mut entry.references),
        };
        let gone: Vec<Arc<Reference>> =
            old.iter().filter(|old| new.binary_search(old).is_err()).cloned().collect();
        let mut come = Vec::new();
        for reference in &mut new {
            match old.binary_search(reference) {
                // What is known already is kept once.
                Ok(known) => *reference = old[known].clone(),
                Err(_) => come.push(reference.clone()),
            }
        }
        if !gone.is_empty() || !come.is_empty() {
            self.count_providers(&old, false);
            self.count_providers(&new, true);
        }
        for gone in &gone {
            self.unlink(gone, &key);
        }
        for come in &come {
            match self.users.get_mut(come) {
                Some(users) => users.insert(key.clone()),
                None => {
                    self.users.insert(come.clone(), Users::One(key.clone()));
                }
            }
        }
        let asked = vm.annotations().get(annotations::FIRST_REQUESTED_AT);
        let asked = asked.and_then(|at| at.parse().ok());
        let since = vm.annotations().get(annotations::MEMBERS_SINCE);
        let since = since.and_then(|at| at.parse().ok()).or(asked);
        let deleting = vm.metadata.deletion_timestamp.is_some();
        let entry = Entry { uid, made, asked, since, deleting, references: new.into() };
        self.review_rows(&key, &entry, &gone, &come);
        self.references.insert(key, entry);
        gone.iter().chain(&come).map(|changed| (**changed).clone()).collect()
    }

    /// Lets a record go, and tells what it used.
    pub(crate) fn remove(&mut self, key: &Key) -> Vec<Reference> {
        let Some(Entry { references: old, .. }) = self.references.remove(key) else {
            return Vec::new();
        };
        self.count_providers(&old, false);
        self.rows.retain(|(provider, ..), _| !old.iter().any(|old| old.claims_on(provider)));
        for gone in &old {
            self.unlink(gone, key);
        }
        old.iter().map(|old| (**old).clone()).collect()
    }

    /// The records that use this.
    pub(crate) fn users(&self, reference: &Reference) -> BTreeSet<Key> {
        self.using(reference).cloned().collect()
    }

    /// How many records use this.
    pub(crate) fn count(&self, reference: &Reference) -> usize {
        match self.users.get(reference) {
            None => 0,
            Some(Users::One(_)) => 1,
            Some(Users::Many(many)) => many.len(),
        }
    }

    /// The Providers that records use this on, in their order.
    pub(crate) fn providers(&self, reference: &Reference) -> Vec<Key> {
        self.providers.get(reference).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    fn count_providers(&mut self, references: &[Arc<Reference>], come: bool) {
        let provider = references.iter().find_map(|reference| match &**reference {
            Reference::Provider(provider) => Some(provider.clone()),
            _ => None,
        });
        let Some(provider) = provider else { return };
        for reference in references {
            if !matches!(
                **reference,
                Reference::Class(_)
                    | Reference::Image(_)
                    | Reference::Network(_)
                    | Reference::Policy(_)
            ) {
                continue;
            }
            let counts = self.providers.entry((**reference).clone()).or_default();
            let count = counts.entry(provider.clone()).or_default();
            *count = if come { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                counts.remove(&provider);
            }
            if counts.is_empty() {
                self.providers.remove(&**reference);
            }
        }
    }

    /// The records on a Provider.
    pub(crate) fn of_provider(&self, provider: &Key) -> BTreeSet<Key> {
        self.users(&Reference::Provider(provider.clone()))
    }

    /// The record with this UID.
    pub(crate) fn of_uid(&self, uid: &str) -> Option<Key> {
        self.using(&Reference::Uid(uid.to_owned())).next().cloned()
    }

    /// The records whose name is `found` or a beginning of it that ends before `-` or `.`.
    pub(crate) fn of_name(&self, provider: &Key, found: &str) -> BTreeSet<Key> {
        let found = found.to_lowercase();
        beginnings(&found)
            .flat_map(|name| self.users(&Reference::Name(provider.clone(), name.to_owned())))
            .collect()
    }

    /// Whether another record than `uid` has this machine: its ID, and made when it was.
    pub fn claimed(&self, provider: &Key, machine: &Machine, uid: &str) -> bool {
        self.claimants(provider, machine, uid).next().is_some()
    }

    /// Whether another record than `uid` has this machine, and is itself called otherwise: platforms give
    /// the ID of a dead machine to the next one, even within the second.
    pub fn misclaimed(&self, provider: &Key, machine: &Machine, uid: &str) -> bool {
        let name = Reference::Name(provider.clone(), machine.name.to_lowercase());
        self.claimants(provider, machine, uid)
            .any(|entry| !entry.references.iter().any(|reference| **reference == name))
    }

    /// Whether another record than `uid` is called just as this machine is, and asked for one before it
    /// was made.
    pub fn meant(&self, provider: &Key, machine: &Machine, uid: &str) -> bool {
        let name = Reference::Name(provider.clone(), machine.name.to_lowercase());
        self.using(&name).filter_map(|key| self.references.get(key)).any(|entry| {
            let before =
                |(asked, made): (Timestamp, Timestamp)| asked.as_second() <= made.as_second();
            entry.uid != uid && entry.asked.zip(machine.created_at).is_some_and(before)
        })
    }

    /// Takes note that a record which is gone has left a machine in place, and tells whether that is news.
    pub(crate) fn keep(&mut self, provider: &Key, id: &MachineId, made: Option<Timestamp>) -> bool {
        let made = made.map(|at| at.as_second());
        let news = self.kept.insert((provider.clone(), id.clone()), made) != Some(made);
        if news {
            self.rows.retain(|(of, ..), _| of != provider);
        }
        news
    }

    /// Whether a machine is known to have been left in place by a record that is gone.
    pub fn kept(&self, provider: &Key, machine: &Machine) -> bool {
        if self.kept.is_empty() {
            return false;
        }
        let known = self.kept.get(&(provider.clone(), machine.id.clone()));
        known.is_some_and(|made| *made == machine.created_at.map(|at| at.as_second()))
    }

    /// Other records than `uid` that have a machine: its ID, and made when it was.
    fn claimants(
        &self,
        provider: &Key,
        machine: &Machine,
        uid: &str,
    ) -> impl Iterator<Item = &Entry> {
        let machine_of = Reference::Machine(provider.clone(), machine.id.clone());
        let made = machine.created_at.map(|at| at.as_second());
        self.using(&machine_of).filter_map(|key| self.references.get(key)).filter(move |entry| {
            entry.uid != uid && (entry.made.is_none() || made.is_none() || entry.made == made)
        })
    }

    /// Whether another record than `uid` has a name that `found` matches better than it matches
    /// `wanted`: one that is equal to it, or a longer beginning of it.
    pub fn better(&self, provider: &Key, found: &str, wanted: &str, uid: &str) -> bool {
        let found = found.to_lowercase();
        beginnings(&found).filter(|name| name.len() > wanted.len()).any(|name| {
            let name = Reference::Name(provider.clone(), name.to_owned());
            self.using(&name).any(|key| self.uid_of(key) != Some(uid))
        })
    }

    /// Since when members of a group may be those that somebody waits for, where somebody does who was
    /// asked for after `over`: others have had their time.
    pub(crate) fn members_since(
        &self,
        provider: &Key,
        group: &str,
        over: Timestamp,
    ) -> Option<Timestamp> {
        let waits = Reference::Waits(provider.clone(), group.to_owned());
        let waiting = self.using(&waits).filter_map(|key| self.references.get(key));
        let open = waiting.filter(|entry| entry.asked.is_some_and(|asked| asked > over));
        open.filter_map(|entry| entry.since).filter(|since| *since > over).min()
    }

    /// The keys of all records.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.references.keys()
    }

    /// The UID of the record with this key.
    pub(crate) fn uid_of(&self, key: &Key) -> Option<&str> {
        self.references.get(key).map(|entry| entry.uid.as_str())
    }

    fn unlink(&mut self, reference: &Reference, key: &Key) {
        let last = match self.users.get_mut(reference) {
            None => false,
            Some(Users::One(user)) => user == key,
            Some(Users::Many(users)) => {
                users.remove(key);
                users.is_empty()
            }
        };
        if last {
            self.users.remove(reference);
        }
    }

    fn using<'a>(&'a self, reference: &Reference) -> impl Iterator<Item = &'a Key> + use<'a> {
        let (one, many) = match self.users.get(reference) {
            None => (None, None),
            Some(Users::One(key)) => (Some(key), None),
            Some(Users::Many(keys)) => (None, Some(keys)),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

/// A name, and what of it ends before a `-` or `.`.
fn beginnings(name: &str) -> impl Iterator<Item = &str> {
    let separators = name.char_indices().filter(|(_, c)| matches!(c, '-' | '.'));
    separators.map(|(at, _)| at).chain([name.len()]).map(|end| &name[..end])
}

fn references(vm: &VirtualMachine) -> BTreeSet<Reference> {
    let own = vm.namespace().unwrap_or_default();
    let of = |reference: &sutler_api::refs::ObjectRef| {
        Key::new(reference.namespace_or(&own), &reference.name)
    };
    let secret = |data: &Option<sutler_api::infra::GuestData>| {
        let secret = data.as_ref().and_then(|data| data.secret_ref.as_ref());
        secret.map(|secret| Reference::Secret(Key::new(&own, &secret.name)))
    };
    let provider = of(&vm.spec.provider_ref);
    let mut found = BTreeSet::from([
        Reference::Provider(provider.clone()),
        Reference::Uid(vm.uid().unwrap_or_default()),
    ]);
    found.extend(vm.spec.class_ref.as_ref().map(|class| Reference::Class(of(class))));
    found.extend(vm.spec.image_ref.as_ref().map(|image| Reference::Image(of(image))));
    let policy = vm.spec.placement_ref.as_ref();
    found.extend(policy.map(|policy| Reference::Policy(Key::new(&own, &policy.name))));
    let disks = vm.spec.disks.iter().filter_map(|disk| disk.disk_ref.as_ref());
    found.extend(disks.map(|disk| Reference::Disk(Key::new(&own, &disk.name))));
    let networks = vm.spec.networks.iter().filter_map(|nic| nic.network_ref.as_ref());
    found.extend(networks.map(|network| Reference::Network(of(network))));
    if let Some(data) = &vm.spec.user_data {
        found.extend(secret(&data.cloud_init));
        found.extend(secret(&data.ignition));
    }
    found.extend(vm.spec.meta_data.as_ref().and_then(|data| secret(&data.cloud_init)));
    let status = vm.status.as_ref();
    let local = |name: &sutler_api::refs::LocalObjectRef| Key::new(&own, &name.name);
    let revert = vm.spec.snapshot.as_ref().and_then(|snapshot| snapshot.revert_to_ref.as_ref());
    found.extend(revert.map(|snapshot| Reference::Snapshot(local(snapshot))));
    // What a machine is copied from matters until it is made.
    let made = status.is_some_and(|status| status.id.is_some());
    if let Some(from) = vm.spec.clone_from.as_ref().filter(|_| !made) {
        found.insert(Reference::Source(local(&from.vm_ref)));
        found.extend(from.snapshot_ref.as_ref().map(|key| Reference::Snapshot(local(key))));
    }
    // What was never asked for claims nothing.
    if vm.annotations().contains_key(annotations::TOKEN) {
        let name = vm.annotations().get(annotations::PLATFORM_NAME);
        let name = name.or_else(|| status.and_then(|status| status.platform_name.as_ref()));
        found.extend(name.map(|name| Reference::Name(provider.clone(), name.to_lowercase())));
        let group = vm.spec.managed_node.as_ref().map(|node| node.group.clone());
        let group = group.filter(|_| status.is_none_or(|status| status.id.is_none()));
        found.extend(group.map(|group| Reference::Waits(provider.clone(), group)));
        let id = status.and_then(|status| status.id.clone());
        found.extend(id.map(|id| Reference::Machine(provider, MachineId(id))));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn vm(name: &str, provider: &str) -> VirtualMachine {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": { "name": name, "namespace": "ns", "uid": name },
            "spec": { "providerRef": { "name": provider }, "imageRef": { "name": "i" } },
        }))
        .unwrap()
    }

    #[test]
    fn providers_are_counted_with_those_who_use_them() {
        let mut index = Index::default();
        let image = Reference::Image(Key::new("ns", "i"));
        for (name, provider) in [("a", "p"), ("b", "p"), ("c", "q"), ("c", "q")] {
            index.put(&vm(name, provider));
        }
        assert_eq!(index.providers(&image), [Key::new("ns", "p"), Key::new("ns", "q")]);
        assert_eq!(index.count(&image), 3);
        index.remove(&Key::new("ns", "a"));
        index.put(&vm("c", "p"));
        assert_eq!(index.providers(&image), [Key::new("ns", "p")]);
        index.remove(&Key::new("ns", "b"));
        index.remove(&Key::new("ns", "c"));
        assert!(index.providers(&image).is_empty() && index.providers.is_empty());
    }

    #[test]
    fn what_was_left_in_place_is_known_by_its_id_and_when_it_was_made() {
        let (at, id) = (Key::new("ns", "p"), MachineId::from("1"));
        let made = |second| Timestamp::from_second(second).ok();
        let machine = |second| {
            let mut machine = Machine::new("1", "web", sutler_provider::Power::On);
            machine.created_at = made(second);
            machine
        };
        let mut index = Index::default();
        assert!(!index.kept(&at, &machine(5)));
        assert!(index.keep(&at, &id, made(5)));
        assert!(!index.keep(&at, &id, made(5)), "that is no news");
        assert!(index.kept(&at, &machine(5)));
        assert!(!index.kept(&at, &machine(6)), "another has its ID");
        assert!(!index.kept(&Key::new("ns", "q"), &machine(5)));
        assert!(index.keep(&at, &id, made(6)) && !index.kept(&at, &machine(5)));
    }
}
