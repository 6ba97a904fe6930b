//! Runs the controllers: caches of the API, and who is woken by what.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture};
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt as _,
        reflector::{self, store::Writer},
        watcher::{self, Event},
    },
};
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode},
    infra::VirtualMachine,
    names::labels,
};
use sutler_control::kit::{Key, Recorder, Watched, control, lock, reflect};
use sutler_provider::Clock;
use tokio::sync::mpsc;

use crate::{
    cluster::ClusterConnector,
    config,
    context::{Context, Settings, Tasks, key_of},
    group, node,
};

/// Runs the controllers of nodes until the future is dropped.
pub async fn run(
    client: Client,
    settings: Settings,
    clock: Arc<dyn Clock>,
    connector: Arc<dyn ClusterConnector>,
) {
    let (groups, groups_writer) = reflector::store();
    let (records, records_writer) = reflector::store();
    let (machines, machines_writer) = reflector::store();
    let (configs, configs_writer) = reflector::store();
    let (classes, classes_writer) = reflector::store();
    let (wake_groups, woken_groups) = mpsc::unbounded_channel();
    let (wake_records, woken_records) = mpsc::unbounded_channel();
    let concurrency = settings.concurrency;
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), clock.clone()),
        client,
        clock,
        connector,
        settings,
        groups,
        records,
        machines,
        configs,
        classes,
        scaling: Mutex::default(),
        groups_changed: Default::default(),
        clusters: Default::default(),
        members: Mutex::default(),
        memory: Mutex::default(),
        written_groups: Mutex::default(),
        group_paces: Mutex::default(),
        waiting: Mutex::default(),
        addresses: Mutex::default(),
        wake_groups,
        wake_records,
        tasks: Tasks::default(),
    });
    let _guard = StopTasks(context.clone());
    // What is not cached yet must not be taken for missing: machines come before records, and records
    // before the groups that count them.
    let group_events = group_events(&context, groups_writer);
    let record_events = record_events(&context, records_writer);
    let config_events = plain(&context, configs_writer);
    let class_events = plain(&context, classes_writer);
    let groups = async {
        if context.records.wait_until_ready().await.is_err() {
            return;
        }
        control(
            &context,
            concurrency,
            group_events,
            context.groups.clone(),
            woken_groups,
            group::reconcile,
            group::error_policy,
        )
        .await;
    };
    let records = async {
        let known = futures::future::join(
            context.machines.wait_until_ready(),
            context.configs.wait_until_ready(),
        );
        if !matches!(known.await, (Ok(()), Ok(()))) {
            return;
        }
        control(
            &context,
            concurrency,
            record_events,
            context.records.clone(),
            woken_records,
            node::reconcile,
            node::error_policy,
        )
        .await;
    };
    let work: Vec<BoxFuture<'_, ()>> = vec![
        groups.boxed(),
        records.boxed(),
        machine_events(&context, machines_writer).boxed(),
        config_events
            .for_each(|config| {
                let context = context.clone();
                async move {
                    if let Ok(config) = config {
                        context.groups_changed.notify_waiters();
                        config::tell(&context, &config).await;
                    }
                }
            })
            .boxed(),
        class_events
            .for_each(|_| {
                // Sizes are classes.
                context.groups_changed.notify_waiters();
                std::future::ready(())
            })
            .boxed(),
    ];
    futures::future::join_all(work).await;
}

/// Ends what the controllers began when they end.
struct StopTasks(Arc<Context>);

impl Drop for StopTasks {
    fn drop(&mut self) {
        self.0.tasks.stop();
    }
}

fn plain<K: Watched>(
    context: &Context,
    writer: Writer<K>,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K> {
    let api = Api::<K>::all(context.client.clone());
    reflect(api, watcher::Config::default(), writer, |_| {}).touched_objects()
}

/// Events of groups, which wake the records that are to leave, or are to stay after all.
fn group_events(
    context: &Arc<Context>,
    writer: Writer<NodeGroup>,
) -> impl Stream<Item = Result<NodeGroup, watcher::Error>> + Send + use<> {
    let context_ = context.clone();
    let api = Api::<NodeGroup>::all(context.client.clone());
    reflect(api, watcher::Config::default(), writer, |_| {})
        .inspect(move |event| {
            context_.groups_changed.notify_waiters();
            if let Ok(Event::Apply(group) | Event::InitApply(group)) = event {
                let key = key_of(group);
                for name in lock(&context_.members).of_group(&key).keys() {
                    context_.wake_record(&Key::new(&key.namespace, name));
                }
            }
        })
        .touched_objects()
}

/// Events of records, which keep the index of who is in which group and wake the groups.
fn record_events(
    context: &Arc<Context>,
    writer: Writer<VPSieNode>,
) -> impl Stream<Item = Result<VPSieNode, watcher::Error>> + Send + use<> {
    let context_ = context.clone();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    let api = Api::<VPSieNode>::all(context.client.clone());
    reflect(api, watcher::Config::default(), writer, |_| {})
        .inspect(move |event| {
            let woken: Vec<Key> = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    Vec::new()
                }
                Ok(Event::InitApply(record)) => {
                    listed.insert(key_of(record));
                    lock(&context_.members).put(record).into_iter().collect()
                }
                Ok(Event::Apply(record)) => {
                    lock(&context_.members).put(record).into_iter().collect()
                }
                Ok(Event::Delete(record)) => {
                    lock(&context_.members).delete(record).into_iter().collect()
                }
                Ok(Event::InitDone) => lock(&context_.members).keep(&listed),
                Err(error) => {
                    tracing::debug!(%error, "the watch of nodes' records begins anew");
                    Vec::new()
                }
            };
            if !woken.is_empty() {
                context_.groups_changed.notify_waiters();
            }
            for group in woken {
                context_.wake_group(&group);
            }
        })
        .touched_objects()
}

/// Keeps the machines of nodes, and wakes their records. Other machines are not watched.
async fn machine_events(context: &Arc<Context>, writer: Writer<VirtualMachine>) {
    let api = Api::<VirtualMachine>::all(context.client.clone());
    let config = watcher::Config::default().labels(labels::VPSIE_NODE);
    let events = reflect(api, config, writer, |_| {});
    let mut events = std::pin::pin!(events);
    let mut known: BTreeSet<Key> = BTreeSet::new();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(vm)) => {
                listed.insert(key_of(&vm));
                known.insert(key_of(&vm));
                context.wake_record(&key_of(&vm));
            }
            Ok(Event::Apply(vm)) => {
                known.insert(key_of(&vm));
                context.wake_record(&key_of(&vm));
            }
            Ok(Event::Delete(vm)) => {
                known.remove(&key_of(&vm));
                context.wake_record(&key_of(&vm));
            }
            Ok(Event::InitDone) => {
                for gone in known.difference(&listed) {
                    context.wake_record(gone);
                }
                known.clone_from(&listed);
            }
            Err(error) => tracing::debug!(%error, "the watch of nodes' machines begins anew"),
        }
    }
}
