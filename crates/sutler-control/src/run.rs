//! Runs the controllers: caches of the API, and who is woken by what.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, ready},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    core::PartialObjectMeta,
    runtime::{
        Controller, WatchStreamExt as _,
        controller::Config,
        reflector::{self, ObjectRef, store::Writer},
        utils::Backoff,
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use sutler_api::{
    infra::{VMImage, VirtualMachine},
    sutler::Operation,
};
use tokio::sync::mpsc;

use crate::{
    classes,
    context::{Context, Outside, Settings, Wakes},
    events::Recorder,
    fleet::{Key, lock},
    images,
    index::Reference,
    machine, networks, operations, providers, unserved,
};

/// What is told once everything is set up.
pub type Start = Box<dyn FnOnce(Arc<Context>) + Send>;

/// Runs the controllers until the future is dropped. Nothing of what they began outlives that,
/// except at the providers.
pub async fn run(
    client: Client,
    settings: Settings,
    outside: Outside,
    start: Start,
) -> Result<(), kube::Error> {
    let installation = installation(&client).await?;
    let (machines, machines_writer) = reflector::store();
    let (provider_store, providers_writer) = reflector::store();
    let (classes, classes_writer) = reflector::store();
    let (images, images_writer) = reflector::store();
    let (networks, networks_writer) = reflector::store();
    let (operations, operations_writer) = reflector::store();
    let (wake_machines, woken_machines) = mpsc::unbounded_channel();
    let (wake_providers, woken_providers) = mpsc::unbounded_channel();
    let (wake_classes, woken_classes) = mpsc::unbounded_channel();
    let (wake_images, woken_images) = mpsc::unbounded_channel();
    let (wake_networks, woken_networks) = mpsc::unbounded_channel();
    let (wake_operations, woken_operations) = mpsc::unbounded_channel();
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), outside.clock.clone()),
        clock: outside.clock.clone(),
        client: client.clone(),
        settings,
        outside,
        installation,
        fleet: Default::default(),
        machines,
        providers: provider_store,
        classes,
        images,
        networks,
        operations,
        slots: Default::default(),
        index: Default::default(),
        indexed: Default::default(),
        operations_index: Default::default(),
        imports: Default::default(),
        removals: Default::default(),
        writes: Default::default(),
        secrets: Default::default(),
        targets: Default::default(),
        provider_status_at: Default::default(),
        lookers: Default::default(),
        wakes: Wakes {
            machines: wake_machines,
            providers: wake_providers,
            classes: wake_classes,
            images: wake_images,
            networks: wake_networks,
            operations: wake_operations,
        },
        tasks: Default::default(),
        counters: Default::default(),
    });
    start(context.clone());
    let _guard = StopTasks(context.clone());

    // What machines refer to is known before the first of them is looked at: what is not cached yet
    // must not be taken for missing.
    let known = futures::future::join_all([
        context.classes.wait_until_ready().map(|ready| ready.is_ok()).boxed(),
        context.images.wait_until_ready().map(|ready| ready.is_ok()).boxed(),
        context.networks.wait_until_ready().map(|ready| ready.is_ok()).boxed(),
    ]);
    let machines = async {
        if !known.await.into_iter().all(|known| known) {
            return;
        }
        control(
            &context,
            machine_events(&context, machines_writer),
            context.machines.clone(),
            woken_machines,
            machine::reconcile,
            machine::error_policy,
        )
        .await;
    };
    let work: Vec<BoxFuture<'_, ()>> = vec![
        machines.boxed(),
        control(
            &context,
            plain_events(&context, providers_writer),
            context.providers.clone(),
            woken_providers,
            providers::reconcile,
            providers::error_policy,
        )
        .boxed(),
        control(
            &context,
            used_events(&context, classes_writer, Reference::Class, generation),
            context.classes.clone(),
            woken_classes,
            classes::reconcile,
            classes::error_policy,
        )
        .boxed(),
        control(
            &context,
            used_events(&context, images_writer, Reference::Image, generation_and_places),
            context.images.clone(),
            woken_images,
            images::reconcile,
            images::error_policy,
        )
        .boxed(),
        control(
            &context,
            used_events(&context, networks_writer, Reference::Network, generation),
            context.networks.clone(),
            woken_networks,
            networks::reconcile,
            networks::error_policy,
        )
        .boxed(),
        control(
            &context,
            operation_events(&context, operations_writer),
            context.operations.clone(),
            woken_operations,
            operations::control::reconcile,
            operations::control::error_policy,
        )
        .boxed(),
        unserved::run(&context).boxed(),
        secrets(&context).boxed(),
    ];
    futures::future::join_all(work).await;
    Ok(())
}

/// Which control plane this is: the one whose API server this is.
async fn installation(client: &Client) -> Result<String, kube::Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    Ok(namespaces.get("kube-system").await?.uid().unwrap_or_default())
}

/// Ends what the controllers began when they end.
struct StopTasks(Arc<Context>);

impl Drop for StopTasks {
    fn drop(&mut self) {
        self.0.tasks.stop();
    }
}

/// Runs one controller.
async fn control<K, R, Fut>(
    context: &Arc<Context>,
    events: impl Stream<Item = Result<K, watcher::Error>> + Send + 'static,
    store: reflector::Store<K>,
    woken: mpsc::UnboundedReceiver<ObjectRef<K>>,
    reconcile: R,
    error_policy: fn(Arc<K>, &machine::Error, Arc<Context>) -> kube::runtime::controller::Action,
) where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
    R: FnMut(Arc<K>, Arc<Context>) -> Fut,
    Fut:
        Future<Output = Result<kube::runtime::controller::Action, machine::Error>> + Send + 'static,
{
    let wakes =
        stream::unfold(woken, |mut woken| async move { Some((woken.recv().await?, woken)) });
    Controller::for_stream(events, store)
        .with_config(Config::default().concurrency(context.settings.concurrency))
        .trigger_backoff(Steady::default())
        .reconcile_on(wakes)
        .run(reconcile, error_policy, context.clone())
        .for_each(|_| ready(()))
        .await;
}

/// Events of a kind, kept in its cache. Who owns which field is of no use here and takes memory.
fn reflect<K>(
    client: &Client,
    writer: Writer<K>,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    watcher(Api::<K>::all(client.clone()), watcher::Config::default())
        .backoff(Steady::default())
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
}

fn plain_events<K>(
    context: &Arc<Context>,
    writer: Writer<K>,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    reflect(&context.client, writer).touched_objects()
}

/// Events of VirtualMachines, which also keep the index of what they use.
fn machine_events(
    context: &Arc<Context>,
    writer: Writer<VirtualMachine>,
) -> impl Stream<Item = Result<VirtualMachine, watcher::Error>> + Send + use<> {
    let context_ = context.clone();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    reflect(&context.client, writer)
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
                context_.indexed.store(true, Ordering::Relaxed);
            }
            Ok(Event::Apply(vm)) => index(&context_, vm),
            Ok(Event::Delete(vm)) => drop_machine(&context_, &key_of(vm), vm.uid()),
            Err(error) => tracing::debug!(%error, "the watch of machines begins anew"),
        })
        .touched_objects()
}

/// Events of Operations, which also keep the index of what they are about.
fn operation_events(
    context: &Arc<Context>,
    writer: Writer<Operation>,
) -> impl Stream<Item = Result<Operation, watcher::Error>> + Send + use<> {
    let context_ = context.clone();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    reflect(&context.client, writer)
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
    wake_operations(context, "VirtualMachine", &key_of(vm));
}

fn drop_machine(context: &Context, key: &Key, uid: Option<String>) {
    let (changed, known) = {
        let mut index = lock(&context.index);
        let known = index.uid_of(key).map(str::to_owned);
        (index.remove(key), known)
    };
    if let Some(uid) = uid.or(known) {
        lock(&context.slots).remove(&uid);
    }
    tell_users_changed(context, changed);
    wake_operations(context, "VirtualMachine", key);
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
            Reference::Provider(key) => {
                let provider = Context::cached(&context.providers, &key);
                if provider.is_some_and(|p| p.metadata.deletion_timestamp.is_some()) {
                    context.wake_provider(&key);
                }
            }
            Reference::Secret(_)
            | Reference::Machine(..)
            | Reference::Name(..)
            | Reference::Uid(_) => {}
        }
    }
}

fn reference_to<K: Resource<DynamicType = ()>>(key: &Key) -> ObjectRef<K> {
    ObjectRef::new(&key.name).within(&key.namespace)
}

/// Events of what machines refer to, which wake the machines that use it when something changed that
/// is of use to them: not when only the number of its users is another one.
fn used_events<K>(
    context: &Arc<Context>,
    writer: Writer<K>,
    reference: fn(Key) -> Reference,
    useful: fn(&K) -> String,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K>
where
    K: Resource<DynamicType = ()>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let context_ = context.clone();
    let mut known: BTreeMap<Key, String> = BTreeMap::new();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    let wake = move |key: &Key| {
        let reference = reference(key.clone());
        wake_users(&context_, &reference);
        if matches!(reference, Reference::Image(_)) {
            wake_operations(&context_, "VMImage", key);
        }
    };
    reflect(&context.client, writer)
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
fn generation<K: Resource>(object: &K) -> String {
    let generation = object.meta().generation.unwrap_or_default();
    format!("{} {generation}", object.uid().unwrap_or_default())
}

/// What of an image is of use to machines: also where it is.
fn generation_and_places(image: &VMImage) -> String {
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
async fn secrets(context: &Arc<Context>) {
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
            let used = provider.spec.credential_secret_ref.as_ref().is_some_and(|reference| {
                reference.name == key.name && reference.namespace_or(&own) == key.namespace
            });
            if used {
                context.wake_provider(&Key::new(own, provider.name_any()));
            }
        }
    }
}

fn key_of<K: Resource>(object: &K) -> Key {
    Key::new(object.namespace().unwrap_or_default(), object.name_any())
}

/// The pause between two tries at a watch: it grows, and holds no chance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steady(u32);

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = Duration::from_millis(100) * 2u32.pow(self.0.min(8));
        self.0 = self.0.saturating_add(1);
        Some(pause.min(Duration::from_secs(15)))
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {
        self.0 = 0;
    }
}
