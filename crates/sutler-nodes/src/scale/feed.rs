//! What is known of a cluster for its scaling, kept up to date object by object.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::StreamExt as _;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod},
    policy::v1::PodDisruptionBudget,
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt as _,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use sutler_control::kit::{Steady, Watched, lock};
use sutler_scale::world::{self, Budget, Claims, Key, VolumeNeed, World};

use super::Scaler;
use crate::cluster::Cluster;

/// The kinds that have to be known before anything is decided.
const KINDS: usize = 8;

/// What is known of a cluster.
#[derive(Default)]
pub(super) struct Feed {
    pub(super) world: World,
    /// Nodes whose objects are being deleted.
    pub(super) going: BTreeSet<String>,
    /// Pods whose claims may have changed what they ask for.
    pods: BTreeMap<Key, Arc<Pod>>,
    volumes: BTreeMap<String, PersistentVolume>,
    claims: BTreeMap<Key, PersistentVolumeClaim>,
    classes: BTreeMap<String, StorageClass>,
    claims_changed: bool,
    listed: BTreeSet<&'static str>,
}

impl Feed {
    /// Reads pods anew whose claims have changed.
    pub(super) fn catch_up(&mut self) {
        if !std::mem::take(&mut self.claims_changed) {
            return;
        }
        let claims = self.needs();
        let pods: Vec<Arc<Pod>> = self.pods.values().cloned().collect();
        for pod in pods {
            self.put_pod(&pod, &claims);
        }
    }

    /// What claims ask of the nodes of their pods.
    fn needs(&self) -> Claims {
        let mut needs = Claims::new();
        for (key, claim) in &self.claims {
            let spec = claim.spec.clone().unwrap_or_default();
            let volume = spec.volume_name.as_ref().and_then(|name| self.volumes.get(name));
            let class = spec.storage_class_name.as_ref().and_then(|name| self.classes.get(name));
            let need = match (volume, class) {
                (Some(volume), _) => VolumeNeed::bound(volume),
                (None, Some(class)) => VolumeNeed::unbound(class),
                (None, None) => VolumeNeed::Unmet { why: "has no volume and no class".to_owned() },
            };
            needs.insert((key.namespace.clone(), key.name.clone()), need);
        }
        needs
    }

    fn put_pod(&mut self, pod: &Arc<Pod>, claims: &Claims) {
        let key = key_of(pod.as_ref());
        match world::Pod::read(pod, claims) {
            Ok(Some(read)) => self.world.set_pod(read),
            Ok(None) => {
                self.world.remove_pod(&key);
            }
            Err(error) => {
                tracing::debug!(%key, %error, "a pod is left out of the reckoning");
                self.world.remove_pod(&key);
            }
        }
    }
}

/// Something that happened to an object.
enum Change<'a, K> {
    Come(&'a K),
    Gone(&'a Key),
}

fn key_of<K: kube::Resource>(object: &K) -> Key {
    Key::new(&object.namespace().unwrap_or_default(), &object.name_any())
}

/// Waits until everything is known once.
pub(super) async fn ready(scaler: &Scaler) {
    while lock(&scaler.feed).listed.len() < KINDS {
        scaler.changed.notified().await;
    }
    // Whoever waits for a change gets the one that this took.
    scaler.changed.notify_one();
}

/// Keeps everything up to date until the future is dropped.
pub(super) async fn watch(cluster: &Arc<Cluster>, scaler: &Arc<Scaler>) {
    futures::join!(
        each::<Node>(
            cluster,
            scaler,
            "nodes",
            |_| {},
            |feed, change| match change {
                Change::Come(node) => {
                    let name = node.name_any();
                    match node.metadata.deletion_timestamp {
                        Some(_) => feed.going.insert(name.clone()),
                        None => feed.going.remove(&name),
                    };
                    match world::Node::read(node) {
                        Ok(read) => feed.world.set_node(read),
                        Err(error) => {
                            tracing::debug!(node = name, %error, "a node is left out");
                            feed.world.remove_node(&name);
                        }
                    }
                }
                Change::Gone(key) => {
                    feed.going.remove(&key.name);
                    feed.world.remove_node(&key.name);
                }
            }
        ),
        each::<Pod>(cluster, scaler, "pods", trim_pod, |feed, change| match change {
            Change::Come(pod) => {
                let pod = Arc::new(pod.clone());
                let has_claims = pod.spec.as_ref().is_some_and(|spec| {
                    let volumes = spec.volumes.iter().flatten();
                    let mut volumes = volumes
                        .filter(|v| v.persistent_volume_claim.is_some() || v.ephemeral.is_some());
                    volumes.next().is_some()
                });
                let claims = match has_claims {
                    true => {
                        feed.pods.insert(key_of(pod.as_ref()), pod.clone());
                        feed.needs()
                    }
                    false => Claims::new(),
                };
                feed.put_pod(&pod, &claims);
            }
            Change::Gone(key) => {
                feed.pods.remove(key);
                feed.world.remove_pod(key);
            }
        }),
        each::<PodDisruptionBudget>(
            cluster,
            scaler,
            "budgets",
            |_| {},
            |feed, change| {
                match change {
                    Change::Come(budget) => match Budget::read(budget) {
                        Ok(read) => {
                            feed.world.budgets.insert(key_of(budget), read);
                        }
                        Err(error) => {
                            tracing::debug!(budget = budget.name_any(), %error, "a budget is left out");
                        }
                    },
                    Change::Gone(key) => {
                        feed.world.budgets.remove(key);
                    }
                }
            }
        ),
        each::<Namespace>(
            cluster,
            scaler,
            "namespaces",
            |_| {},
            |feed, change| match change {
                Change::Come(space) => {
                    feed.world.namespaces.insert(space.name_any(), space.labels().clone());
                }
                Change::Gone(key) => {
                    feed.world.namespaces.remove(&key.name);
                }
            }
        ),
        each::<DaemonSet>(
            cluster,
            scaler,
            "daemons",
            |_| {},
            |feed, change| match change {
                Change::Come(set) => {
                    let key = key_of(set);
                    feed.world.daemons.remove(&key);
                    if let Some(spec) = &set.spec
                        && let Ok(shape) =
                            world::Pod::daemon(&key.namespace, &key.name, &spec.template)
                    {
                        feed.world.daemons.insert(key, Arc::new(shape));
                    }
                }
                Change::Gone(key) => {
                    feed.world.daemons.remove(key);
                }
            }
        ),
        each::<PersistentVolumeClaim>(
            cluster,
            scaler,
            "claims",
            |_| {},
            |feed, change| {
                feed.claims_changed = true;
                match change {
                    Change::Come(claim) => {
                        feed.claims.insert(key_of(claim), claim.clone());
                    }
                    Change::Gone(key) => {
                        feed.claims.remove(key);
                    }
                }
            }
        ),
        each::<PersistentVolume>(
            cluster,
            scaler,
            "volumes",
            |_| {},
            |feed, change| {
                feed.claims_changed = true;
                match change {
                    Change::Come(volume) => {
                        feed.volumes.insert(volume.name_any(), volume.clone());
                    }
                    Change::Gone(key) => {
                        feed.volumes.remove(&key.name);
                    }
                }
            }
        ),
        each::<StorageClass>(
            cluster,
            scaler,
            "classes",
            |_| {},
            |feed, change| {
                feed.claims_changed = true;
                match change {
                    Change::Come(class) => {
                        feed.classes.insert(class.name_any(), class.clone());
                    }
                    Change::Gone(key) => {
                        feed.classes.remove(&key.name);
                    }
                }
            }
        ),
    );
}

/// Watches one kind.
async fn each<K: Watched>(
    cluster: &Arc<Cluster>,
    scaler: &Arc<Scaler>,
    kind: &'static str,
    trim: fn(&mut K),
    take: fn(&mut Feed, Change<'_, K>),
) {
    let api: Api<K> = Api::all(cluster.client.clone());
    let events = watcher(api, watcher::Config::default()).backoff(Steady::default()).modify(trim);
    let mut events = std::pin::pin!(events);
    let mut known: BTreeSet<Key> = BTreeSet::new();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    while let Some(event) = events.next().await {
        let mut feed = lock(&scaler.feed);
        match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.insert(key_of(&object));
                take(&mut feed, Change::Come(&object));
                continue;
            }
            Ok(Event::Apply(object)) => {
                known.insert(key_of(&object));
                take(&mut feed, Change::Come(&object));
            }
            Ok(Event::Delete(object)) => {
                known.remove(&key_of(&object));
                take(&mut feed, Change::Gone(&key_of(&object)));
            }
            Ok(Event::InitDone) => {
                for gone in known.difference(&listed) {
                    take(&mut feed, Change::Gone(gone));
                }
                known = std::mem::take(&mut listed);
                feed.listed.insert(kind);
            }
            Err(error) => {
                tracing::debug!(%error, kind, "a watch for scaling begins anew");
                continue;
            }
        }
        drop(feed);
        scaler.changed.notify_one();
    }
}

/// What is of no use here and takes memory.
fn trim_pod(pod: &mut Pod) {
    if let Some(status) = &mut pod.status {
        status.container_statuses = None;
        status.init_container_statuses = None;
        status.ephemeral_container_statuses = None;
    }
}
