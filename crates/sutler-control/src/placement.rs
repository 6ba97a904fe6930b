//! Where machines go: a policy is resolved when a machine is made, into the host and datastore that
//! its request names. The decision is written with the intent, so it counts after a crash too.

mod decide;
mod ledger;
mod policy;
mod rules;
mod terms;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc, sync::Mutex, time::Duration};

use kube::{
    ResourceExt as _,
    runtime::reflector::{ObjectRef, Store},
};
use sutler_api::{
    infra::{VMPlacementPolicy, VirtualMachine},
    names::{annotations, reasons},
};
use sutler_provider::{Capabilities, Class, Disk, Host, Nic, Placement};
use tokio::sync::mpsc;

pub(crate) use decide::Placed;
use decide::{Subject, Surroundings, Unmet};
pub(crate) use policy::reconcile;
use terms::Neighbour;

use self::ledger::{FRESH, Ledger, Promise, STALE};
use crate::{
    context::Context,
    fleet::{Connection, Key, lock},
    index::Reference,
    plan::{Blocker, Record},
};

/// The pause after which a machine without a place is looked at again, should nothing happen.
const AGAIN: Duration = Duration::from_secs(30);

/// The pause while hosts are being listed.
const SOON: Duration = Duration::from_secs(5);

/// What placing shares with the rest.
pub(crate) struct Shared {
    store: Store<VMPlacementPolicy>,
    wakes: mpsc::UnboundedSender<ObjectRef<VMPlacementPolicy>>,
    ledger: Mutex<Ledger>,
}

impl Shared {
    pub(crate) fn new(
        store: Store<VMPlacementPolicy>,
        wakes: mpsc::UnboundedSender<ObjectRef<VMPlacementPolicy>>,
    ) -> Self {
        Self { store, wakes, ledger: Mutex::default() }
    }

    pub(crate) fn store(&self) -> Store<VMPlacementPolicy> {
        self.store.clone()
    }

    /// Has a policy looked at again.
    pub(crate) fn wake(&self, key: &Key) {
        // The receiver is gone only when the controllers stop.
        let _ = self.wakes.send(ObjectRef::new(&key.name).within(&key.namespace));
    }

    /// Lets a record's decision go, and tells who may have its place now.
    pub(crate) fn release(&self, uid: Option<&str>, provider: &Key) -> BTreeSet<Key> {
        let mut ledger = lock(&self.ledger);
        if let Some(uid) = uid {
            ledger.promises.remove(uid);
        }
        ledger.waiting.remove(provider).unwrap_or_default()
    }

    /// Whether a record has no place for now.
    fn waits(&self, provider: &Key, record: &Key) -> bool {
        lock(&self.ledger).waiting.get(provider).is_some_and(|waiting| waiting.contains(record))
    }
}

/// What is to be placed, as far as it is resolved.
pub(crate) struct Wish<'a> {
    pub(crate) base: Placement,
    pub(crate) class: Option<&'a Class>,
    pub(crate) disks: &'a [Disk],
    pub(crate) nics: &'a [Nic],
}

/// The place of a record's machine, and what is to be written down of it.
pub(crate) fn of(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    record: &Record,
    capabilities: &Capabilities,
    wish: Wish<'_>,
) -> Result<(Placement, Option<Placed>), Blocker> {
    let Some(reference) = &vm.spec.placement_ref else { return Ok((wish.base, None)) };
    let provider =
        Key::new(vm.spec.provider_ref.namespace_or(&record.namespace), &vm.spec.provider_ref.name);
    let before = decided(vm);
    let connection = context.fleet.get(&provider);
    let there = record.id.as_ref().is_some_and(|id| {
        connection.as_ref().is_some_and(|c| c.inventory.read(|view| view.get(id).is_some()))
    });
    if there {
        seen(context, &record.uid);
    }
    // A decision that is on record stays as long as the platform may have met it: only where it
    // could not, another is made.
    let failed = context.slot(&record.uid, |slot| slot.memory.failures.contains_key("create"));
    let asked = record.intent.is_some() && before.is_some() && !failed;
    if there || record.deleting || asked {
        let placement = before.as_ref().map_or(wish.base.clone(), |p| apply(wish.base, p));
        return Ok((placement, before));
    }
    let key = Key::new(&record.namespace, &reference.name);
    let policy = Context::cached(&context.placement.store, &key).ok_or_else(|| {
        let message = format!(
            "spec.placementRef: VMPlacementPolicy {} is not in namespace {}: create it, or correct \
             the name",
            key.name, key.namespace
        );
        Blocker::waits(reasons::REFERENCE_NOT_FOUND, message, AGAIN)
    })?;
    if !capabilities.hosts {
        let message = "spec.placementRef: this provider tells nothing of its hosts, so that no \
                       policy can be kept on it: name a place in spec.placement instead";
        return Err(Blocker::stops(reasons::UNSUPPORTED, message.to_owned()));
    }
    if let Some(wait) = context.not_indexed() {
        let message = "the other machines are not known yet".to_owned();
        return Err(Blocker::waits(reasons::WAITING, message, wait));
    }
    let own = Key::new(&record.namespace, &record.name);
    let mut ledger = lock(&context.placement.ledger);
    let hosts = match known_hosts(context, &mut ledger, connection.as_ref(), &provider) {
        Ok(hosts) => hosts,
        Err(blocker) => {
            ledger.wait(&provider, own);
            return Err(blocker);
        }
    };
    let subject = subject(vm, record, &wish);
    let around = Surroundings {
        hosts: hosts.to_vec(),
        neighbours: neighbours(context, &ledger, &provider, &key, record),
        promised: ledger.promised(&provider, &record.uid),
    };
    let promised = ledger.promises.get(&record.uid).map(|promise| promise.placed.clone());
    match decide::decide(&policy.spec, &subject, &around, promised.as_ref().or(before.as_ref())) {
        Ok(placed) => {
            let promise = Promise {
                provider,
                placed: placed.clone(),
                cpu: subject.cpu,
                memory_mib: subject.memory_mib,
                seen: None,
            };
            ledger.promises.insert(record.uid.clone(), promise);
            Ok((apply(wish.base, &placed), Some(placed)))
        }
        Err(unmet) => {
            ledger.promises.remove(&record.uid);
            ledger.wait(&provider, own);
            drop(ledger);
            context.placement.wake(&key);
            Err(refusal(&key, unmet))
        }
    }
}

fn refusal(policy: &Key, unmet: Unmet) -> Blocker {
    let name = &policy.name;
    match unmet {
        Unmet::Rules(rules) => {
            let message = format!("no host meets VMPlacementPolicy {name}: {rules}");
            Blocker::waits(reasons::PLACEMENT_NOT_MET, message, AGAIN)
        }
        Unmet::Invalid(field, why) => {
            let message = format!("VMPlacementPolicy {name}: {field}: {why}");
            Blocker::stops(reasons::INVALID, message)
        }
        Unmet::Unserved(field) => {
            let message = format!(
                "VMPlacementPolicy {name}: {field} is not served by this release: remove it"
            );
            Blocker::stops(reasons::NOT_YET_SERVED, message)
        }
    }
}

/// What was decided with a record's intent.
pub(crate) fn decided(vm: &VirtualMachine) -> Option<Placed> {
    let text = vm.annotations().get(annotations::PLACED)?;
    serde_json::from_str(text).ok()
}

fn apply(base: Placement, placed: &Placed) -> Placement {
    Placement {
        host: placed.host.clone().or(base.host),
        datastore: placed.datastore.clone().or(base.datastore),
        folder: placed.folder.clone().or(base.folder),
        resource_pool: placed.resource_pool.clone().or(base.resource_pool),
        ..base
    }
}

/// Notes that a record's machine is there: its host counts it from now on.
fn seen(context: &Context, uid: &str) {
    let now = context.clock.now();
    if let Some(promise) = lock(&context.placement.ledger).promises.get_mut(uid) {
        promise.seen.get_or_insert(now);
    }
}

fn subject(vm: &VirtualMachine, record: &Record, wish: &Wish<'_>) -> Subject {
    let root = wish.class.and_then(|class| class.root_gib).unwrap_or(0);
    Subject {
        namespace: record.namespace.clone(),
        labels: vm.labels().clone(),
        cpu: wish.class.map_or(0, |class| class.cpu),
        memory_mib: wish.class.map_or(0, |class| class.memory_mib),
        disk_gib: wish.disks.iter().fold(root, |sum, disk| sum.saturating_add(disk.size_gib)),
        wishes: wish.base.clone(),
        networks: wish.nics.iter().filter_map(|nic| nic.network.clone()).collect(),
    }
}

/// The hosts of a Provider, where the list is not too old; the next one is asked for in time, beside
/// everything else.
fn known_hosts(
    context: &Arc<Context>,
    ledger: &mut Ledger,
    connection: Option<&Arc<Connection>>,
    provider: &Key,
) -> Result<Arc<Vec<Host>>, Blocker> {
    let now = context.clock.now();
    let age = |at| Duration::try_from(now.duration_since(at)).unwrap_or_default();
    let hosts = ledger.hosts.entry(provider.clone()).or_default();
    let listed = hosts.list.as_ref().map(|(_, at)| age(*at));
    let lately = hosts.asked.is_some_and(|at| age(at) < SOON) && hosts.error.is_some();
    let old = listed.is_none_or(|age| age >= FRESH);
    if old
        && !hosts.asking
        && !lately
        && let Some(connection) = connection
    {
        hosts.asking = true;
        hosts.asked = Some(now);
        ask(context, connection.clone());
    }
    match &hosts.list {
        Some((list, at)) if age(*at) < STALE => Ok(list.clone()),
        _ => {
            let why = hosts.error.as_ref().map(|error| format!(": {}", error.message()));
            let message = format!(
                "the hosts of Provider {provider} are being listed{}",
                why.unwrap_or_default()
            );
            Err(Blocker::waits(reasons::WAITING, message, SOON))
        }
    }
}

/// Lists a Provider's hosts and wakes those who wait for them.
fn ask(context: &Arc<Context>, connection: Arc<Connection>) {
    let context_ = context.clone();
    context.tasks.spawn(async move {
        let begun = context_.clock.now();
        let answer = connection.gate.hosts().await;
        let waited = lock(&context_.placement.ledger).listed(&connection.key, begun, answer);
        context_.wake_all(&waited);
    });
}

/// The other machines on a Provider, and where they are or may be.
fn neighbours(
    context: &Context,
    ledger: &Ledger,
    provider: &Key,
    policy: &Key,
    record: &Record,
) -> Vec<Neighbour> {
    let others = lock(&context.index).users(&Reference::Provider(provider.clone()));
    let others = others.iter().filter_map(|key| Context::cached(&context.machines, key));
    others.filter_map(|vm| neighbour(context, ledger, policy, record, &vm)).collect()
}

fn neighbour(
    context: &Context,
    ledger: &Ledger,
    policy: &Key,
    record: &Record,
    vm: &VirtualMachine,
) -> Option<Neighbour> {
    let uid = vm.uid().unwrap_or_default();
    if uid == record.uid {
        return None;
    }
    let promised = ledger.promises.get(&uid).map(|promise| &promise.placed);
    let asked = vm.annotations().contains_key(annotations::TOKEN);
    if promised.is_none() && !asked {
        return None;
    }
    let status = vm.status.as_ref();
    let host = status.and_then(|status| status.host.clone());
    let decided = decided(vm).filter(|_| asked);
    // Where it is seen counts; until then, wherever it was sent or is about to be.
    let hosts: BTreeSet<String> = match host {
        Some(host) => {
            [Some(host), promised.and_then(|p| p.host.clone())].into_iter().flatten().collect()
        }
        None => {
            let decided = decided.as_ref().and_then(|placed| placed.host.clone());
            [decided, promised.and_then(|p| p.host.clone())].into_iter().flatten().collect()
        }
    };
    let namespace = vm.namespace().unwrap_or_default();
    let own = vm.spec.placement_ref.as_ref().map(|own| Key::new(&namespace, &own.name));
    let keeps_away = own
        .as_ref()
        .and_then(|own| Context::cached(&context.placement.store, own))
        .map(|own| rules::keeps_away(&own.spec, &namespace))
        .unwrap_or_default();
    let placed = promised.cloned().or(decided);
    Some(Neighbour {
        name: vm.name_any(),
        labels: vm.labels().clone(),
        hosts,
        datastore: placed.and_then(|placed| placed.datastore),
        same_policy: own.as_ref() == Some(policy),
        keeps_away,
        namespace,
    })
}
