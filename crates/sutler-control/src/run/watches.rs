//! What is watched, and who is woken by it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Resource, ResourceExt as _,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt as _,
        reflector::{ObjectRef, store::Writer},
        watcher::{self, Event, watcher},
    },
};
use sutler_api::{
    infra::{VMClone, VMImage, VMSnapshot, VirtualMachine},
    names::annotations,
    sutler::Operation,
};

use crate::{
    clones,
    context::Context,
    fleet::{Key, lock},
    index::Reference,
    kit::{self, Steady, Watched},
    links::Link,
    operations, snapshots,
};

/// All objects of a kind.
fn reflect<K>(
    context: &Context,
    writer: Writer<K>,
    trim: fn(&mut K),
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + use<K>
where
    K: Watched,
{
    let api = Api::<K>::all(context.client.clone());
    kit::reflect(api, watcher::Config::default(), writer, trim)
}

pub(super) fn plain_events<K>(
    context: &Arc<Context>,
    writer: Writer<K>,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K>
where
    K: Watched,
{
    reflect(context, writer, |_| {}).touched_objects()
}

/// Events of VirtualMachines, which also keep the index of what they use.
pub(super) fn machine_events(
    context: &Arc<Context>,
    writer: Writer<VirtualMachine>,
) -> impl Stream<Item = Result<VirtualMachine, watcher::Error>> + Send + use<> {
    let context_ = context.clone();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    reflect(context, writer, |_| {})
        .inspect(move |event| match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(vm)) => {
                listed.insert(key_of(vm));
                index(&context_, vm);
            }
            Ok(Event::InitDone) => {
                let gone: Vec<Key> = lock(&context_.index)
                    .keys()
                    .filter(|key| !listed.contains(*key))
                    .cloned()
                    .collect();
                for key in gone {
                    drop_machine(&context_, &key, None);
                }
                context_.sets.keep(&listed);
                context_.indexed.store(true, Ordering::Relaxed);
            }
            Ok(Event::Apply(vm)) => index(&context_, vm),
            Ok(Event::Delete(vm)) => drop_machine(&context_, &key_of(vm), vm.uid()),
            Err(error) => tracing::debug!(%error, "the watch of machines begins anew"),
        })
        .touched_objects()
}

/// Events of Operations, which also keep the index of what they are about.
pub(super) fn operation_events(
    context: &Arc<Context>,
    writer: Writer<Operation>,
) -> impl Stream<Item = Result<Operation, watcher::Error>> + Send + use<> {
    let context_ = context.clone();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    reflect(context, writer, operations::trim)
        .inspect(move |event| {
            let mut index = lock(&context_.operations_index);
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(operation)) => {
                    listed.insert(key_of(operation));
                    index.put(operation);
                }
                Ok(Event::InitDone) => {
                    let gone: Vec<Key> =
                        index.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                    for key in gone {
                        index.remove(&key);
                    }
                }
                Ok(Event::Apply(operation)) => index.put(operation),
                Ok(Event::Delete(operation)) => {
                    index.remove(&key_of(operation));
                }
                Err(error) => tracing::debug!(%error, "the watch of operations begins anew"),
            }
        })
        .touched_objects()
}

fn index(context: &Context, vm: &VirtualMachine) {
    let changed = lock(&context.index).put(vm);
    tell_users_changed(context, changed);
    context.sets.put(vm);
    // Whether its machine shows them is news to its disks.
    for disk in vm.spec.disks.iter().filter_map(|disk| disk.disk_ref.as_ref()) {
        context.wake_disk(&Key::new(vm.namespace().unwrap_or_default(), &disk.name));
    }
    wake_operations(context, "VirtualMachine", &key_of(vm));
    wake_dependants(context, &key_of(vm), &snapshots::useful(vm));
}

fn drop_machine(context: &Context, key: &Key, uid: Option<String>) {
    let (changed, known) = {
        let mut index = lock(&context.index);
        let known = index.uid_of(key).map(str::to_owned);
        (index.remove(key), known)
    };
    let uid = uid.or(known);
    if let Some(uid) = &uid {
        lock(&context.slots).remove(uid);
    }
    // What waits for a place may have this one now.
    for reference in &changed {
        if let Reference::Provider(provider) = reference {
            context.wake_all(&context.placement.release(uid.as_deref(), provider));
        }
    }
    tell_users_changed(context, changed);
    context.sets.remove(key);
    wake_operations(context, "VirtualMachine", key);
    wake_dependants(context, key, "");
}

/// Wakes the snapshots and copies that hang on a machine's record, and those that are to become its
/// copies.
fn wake_dependants(context: &Context, key: &Key, useful: &str) {
    let link = Link::Machine(key.clone());
    for snapshot in lock(&context.snapshot_links).changed(&link, useful) {
        context.wake_snapshot(&snapshot);
    }
    for clone in lock(&context.clone_links).users(&link) {
        context.wake_clone(&clone);
    }
    wake_users(context, &Reference::Source(key.clone()));
}

/// Events of VMSnapshots, which keep the index of what they hang on, and wake who uses them.
pub(super) fn snapshot_events(
    context: &Arc<Context>,
    writer: Writer<VMSnapshot>,
) -> impl Stream<Item = Result<VMSnapshot, watcher::Error>> + Send + use<> {
    let context_ = context.clone();
    let mut known: BTreeMap<Key, String> = BTreeMap::new();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    let tell = move |key: &Key, snapshot: Option<&VMSnapshot>, useful: bool| {
        let context = &context_;
        let links = match snapshot {
            Some(snapshot) => {
                let links = snapshots::links(snapshot);
                lock(&context.snapshot_links).put(key, links.clone());
                links
            }
            None => lock(&context.snapshot_links).remove(key),
        };
        for operation in lock(&context.operations_index).under_way("VMSnapshot", key) {
            context.wake_operation(&operation);
        }
        if !useful {
            return;
        }
        wake_users(context, &Reference::Snapshot(key.clone()));
        for clone in lock(&context.clone_links).users(&Link::Snapshot(key.clone())) {
            context.wake_clone(&clone);
        }
        for link in links {
            // The schedule that made it keeps count.
            let by = snapshot.and_then(|found| found.annotations().get(annotations::SCHEDULED_BY));
            if let (Link::Schedule(_), Some(by)) = (link, by) {
                context.wake_snapshot(&Key::new(&key.namespace, by));
            }
        }
    };
    let desk = context.clone();
    reflect(context, writer, |_| {})
        .inspect(move |event| match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let key = key_of(object);
                listed.insert(key.clone());
                let now = snapshots::useful_to_machines(object);
                let news = known.insert(key.clone(), now.clone()) != Some(now);
                tell(&key, Some(object), news);
            }
            Ok(Event::Delete(object)) => {
                let key = key_of(object);
                known.remove(&key);
                lock(&desk.desk).remove(&object.uid().unwrap_or_default());
                tell(&key, Some(object), true);
                tell(&key, None, true);
            }
            Ok(Event::InitDone) => {
                let gone: Vec<Key> =
                    known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for key in gone {
                    known.remove(&key);
                    tell(&key, None, true);
                }
            }
            Err(error) => tracing::debug!(%error, "the watch of snapshots begins anew"),
        })
        .touched_objects()
}

/// Events of VMClones, which keep the index of what they hang on.
pub(super) fn clone_events(
    context: &Arc<Context>,
    writer: Writer<VMClone>,
) -> impl Stream<Item = Result<VMClone, watcher::Error>> + Send + use<> {
    let context_ = context.clone();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    reflect(context, writer, |_| {})
        .inspect(move |event| {
            let mut links = lock(&context_.clone_links);
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::Apply(clone) | Event::InitApply(clone)) => {
                    listed.insert(key_of(clone));
                    links.put(&key_of(clone), clones::links(clone));
                }
                Ok(Event::Delete(clone)) => {
                    links.remove(&key_of(clone));
                }
                Ok(Event::InitDone) => {
                    let gone: Vec<Key> =
                        links.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                    for key in gone {
                        links.remove(&key);
                    }
                }
                Err(error) => tracing::debug!(%error, "the watch of copies begins anew"),
            }
        })
        .touched_objects()
}

/// Classes, images and networks say how many machines use them; a Provider that goes waits for its
/// machines.
fn tell_users_changed(context: &Context, changed: Vec<Reference>) {
    for reference in changed {
        match reference {
            Reference::Class(key) => {
                let _ = context.wakes.classes.send(reference_to(&key));
            }
            Reference::Image(key) => {
                let _ = context.wakes.images.send(reference_to(&key));
            }
            Reference::Network(key) => {
                let _ = context.wakes.networks.send(reference_to(&key));
            }
            Reference::Policy(key) => context.placement.wake(&key),
            Reference::Disk(key) => context.wake_disk(&key),
            Reference::Provider(key) => {
                let provider = Context::cached(&context.providers, &key);
                if provider.is_some_and(|p| p.metadata.deletion_timestamp.is_some()) {
                    context.wake_provider(&key);
                }
            }
            Reference::Secret(_)
            | Reference::Snapshot(_)
            | Reference::Source(_)
            | Reference::Machine(..)
            | Reference::Name(..)
            | Reference::Waits(..)
            | Reference::Uid(_) => {}
        }
    }
}

fn reference_to<K: Resource<DynamicType = ()>>(key: &Key) -> ObjectRef<K> {
    ObjectRef::new(&key.name).within(&key.namespace)
}

/// Events of what machines refer to, which wake the machines that use it when something changed that
/// is of use to them: not when only the number of its users is another one.
pub(super) fn used_events<K>(
    context: &Arc<Context>,
    writer: Writer<K>,
    reference: fn(Key) -> Reference,
    useful: fn(&K) -> String,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K>
where
    K: Watched,
{
    let context_ = context.clone();
    let mut known: BTreeMap<Key, String> = BTreeMap::new();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    let wake = move |key: &Key| {
        let reference = reference(key.clone());
        wake_users(&context_, &reference);
        match reference {
            Reference::Image(_) => wake_operations(&context_, "VMImage", key),
            // A disk that is gone is made again by the set whose machine waits for it.
            Reference::Disk(_) => context_.sets.wake_of(&lock(&context_.index).users(&reference)),
            _ => {}
        }
    };
    reflect(context, writer, |_| {})
        .inspect(move |event| match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                let key = key_of(object);
                listed.insert(key.clone());
                let now = useful(object);
                if known.insert(key.clone(), now.clone()) != Some(now) {
                    wake(&key);
                }
            }
            Ok(Event::Delete(object)) => {
                known.remove(&key_of(object));
                wake(&key_of(object));
            }
            Ok(Event::InitDone) => {
                let gone: Vec<Key> =
                    known.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for key in gone {
                    known.remove(&key);
                    wake(&key);
                }
            }
            Err(error) => tracing::debug!(%error, "a watch begins anew"),
        })
        .touched_objects()
}

/// What of an object changes when its spec does.
pub(super) fn generation<K: Resource>(object: &K) -> String {
    let generation = object.meta().generation.unwrap_or_default();
    format!("{} {generation}", object.uid().unwrap_or_default())
}

/// What of an image is of use to machines: also where it is.
pub(super) fn generation_and_places(image: &VMImage) -> String {
    let places = image.status.as_ref().map(|status| &status.provider_status);
    let places: Vec<_> = places
        .into_iter()
        .flatten()
        .map(|(name, there)| (name, there.available, &there.id, &there.path, &there.message))
        .collect();
    format!("{} {places:?}", generation(image))
}

/// Wakes the Operations that people made on an object.
fn wake_operations(context: &Context, kind: &str, key: &Key) {
    let asked = lock(&context.operations_index).asked(kind, key);
    for operation in asked {
        context.wake_operation(&operation);
    }
}

fn wake_users(context: &Context, reference: &Reference) {
    let users = lock(&context.index).users(reference);
    context.wake_all(&users);
}

/// Forgets Secrets that changed, and wakes those who use them. Only their metadata is watched: what
/// they hold is read by those who need it.
pub(super) async fn secrets(context: &Arc<Context>) {
    let secrets: Api<PartialObjectMeta<Secret>> = Api::all(context.client.clone());
    let events =
        watcher(secrets, watcher::Config::default()).backoff(Steady::default()).touched_objects();
    let mut events = std::pin::pin!(events);
    while let Some(event) = events.next().await {
        let Ok(secret) = event else { continue };
        let key = Key::new(secret.namespace().unwrap_or_default(), secret.name_any());
        lock(&context.secrets).remove(&key);
        wake_users(context, &Reference::Secret(key.clone()));
        for provider in context.providers.state() {
            let own = provider.namespace().unwrap_or_default();
            let logs_in = provider.spec.credential_secret_ref.as_ref().is_some_and(|reference| {
                reference.name == key.name && reference.namespace_or(&own) == key.namespace
            });
            let shows = own == key.namespace
                && crate::providers::certificates_of(&provider) == Some(key.name.as_str());
            if logs_in || shows {
                context.wake_provider(&Key::new(own, provider.name_any()));
            }
        }
    }
}

fn key_of<K: Resource>(object: &K) -> Key {
    Key::new(object.namespace().unwrap_or_default(), object.name_any())
}
