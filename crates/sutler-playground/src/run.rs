//! Caches of the API, and passes over what is in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Binding, Namespace, Node, ObjectReference, Pod, PodCondition},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
    runtime::{
        reflector::{self, Store},
        watcher,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use sutler_control::kit::{Watched, reflect};
use sutler_provider::Clock;
use sutler_scale::world::{self, Claims, Labels};
use sutler_sim::Sim;
use tokio::sync::{Notify, watch};

use crate::{
    join,
    nodes::{self, Played},
    pods::{self, Step, node_of},
    schedule::schedule,
    workloads,
};

/// The simulated platforms that there are, by name.
pub type Platforms = watch::Receiver<BTreeMap<String, Sim>>;

/// The pause after a pass that did not come to its end.
const AGAIN: Duration = Duration::from_secs(1);

/// Who writes.
const MANAGER: &str = "sutler-playground";

/// Plays the cluster until the future is dropped.
pub async fn run(client: Client, clock: Arc<dyn Clock>, platforms: Platforms) {
    let changed = Arc::new(Notify::new());
    let (nodes, node_events) = cache::<Node>(&client, &changed);
    let (pods, pod_events) = cache::<Pod>(&client, &changed);
    let (sets, set_events) = cache::<ReplicaSet>(&client, &changed);
    let (deployments, deployment_events) = cache::<Deployment>(&client, &changed);
    let (namespaces, namespace_events) = cache::<Namespace>(&client, &changed);
    let mut cluster = Cluster {
        client,
        clock,
        platforms: platforms.clone(),
        nodes,
        pods,
        sets,
        deployments,
        namespaces,
        assumed: BTreeMap::new(),
    };
    let watching = async {
        futures::join!(node_events, pod_events, set_events, deployment_events, namespace_events)
    };
    tokio::select! {
        biased;
        _ = watching => {}
        () = follow(platforms, &changed) => {}
        () = cluster.play(&changed) => {}
    }
}

/// A cache of a kind, and what keeps it up to date.
fn cache<K: Watched>(
    client: &Client,
    changed: &Arc<Notify>,
) -> (Store<K>, impl Future<Output = ()> + use<K>) {
    let (store, writer) = reflector::store();
    let events = reflect(Api::all(client.clone()), watcher::Config::default(), writer, |_| {});
    let changed = changed.clone();
    let watching = events.for_each(move |event| {
        match event {
            Ok(_) => changed.notify_one(),
            Err(error) => tracing::debug!(%error, "a watch of the played cluster begins anew"),
        }
        std::future::ready(())
    });
    (store, watching)
}

/// Tells of what happens on the platforms.
async fn follow(mut platforms: Platforms, changed: &Notify) {
    loop {
        let sims: Vec<_> = platforms.borrow_and_update().values().map(Sim::changes).collect();
        let each = sims.into_iter().map(|changes| {
            stream::unfold(changes, |mut changes| async move {
                changes.changed().await.ok()?;
                Some(((), changes))
            })
            .boxed()
        });
        let mut any = stream::select_all(each);
        changed.notify_one();
        loop {
            tokio::select! {
                more = platforms.changed() => match more {
                    Ok(()) => break,
                    // Whoever makes platforms is gone, and so are they.
                    Err(_) => return,
                },
                Some(()) = any.next() => changed.notify_one(),
            }
        }
    }
}

struct Cluster {
    client: Client,
    clock: Arc<dyn Clock>,
    platforms: Platforms,
    nodes: Store<Node>,
    pods: Store<Pod>,
    sets: Store<ReplicaSet>,
    deployments: Store<Deployment>,
    namespaces: Store<Namespace>,
    /// The nodes of pods, by UID, that were bound and that the cache does not show there yet.
    assumed: BTreeMap<String, String>,
}

impl Cluster {
    /// Looks at everything whenever something has changed.
    async fn play(&mut self, changed: &Notify) {
        let known = futures::join!(
            self.nodes.wait_until_ready(),
            self.pods.wait_until_ready(),
            self.sets.wait_until_ready(),
            self.deployments.wait_until_ready(),
            self.namespaces.wait_until_ready(),
        );
        if !matches!(known, (Ok(()), Ok(()), Ok(()), Ok(()), Ok(()))) {
            return;
        }
        loop {
            let Err(error) = self.pass().await else {
                changed.notified().await;
                continue;
            };
            tracing::debug!(%error, "the played cluster is looked at again");
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn pass(&mut self) -> Result<(), kube::Error> {
        self.play_nodes().await?;
        self.play_pods().await?;
        self.play_workloads().await?;
        self.play_scheduler().await
    }

    /// Nodes join, report and fall silent as their machines do.
    async fn play_nodes(&self) -> Result<(), kube::Error> {
        let now = self.clock.now();
        let api: Api<Node> = Api::all(self.client.clone());
        let mut played = Vec::new();
        let known: BTreeSet<String> = {
            let platforms = self.platforms.borrow();
            for (platform, sim) in platforms.iter() {
                for guest in sim.guests() {
                    let join = guest.user_data.as_deref().and_then(join::read);
                    played.extend(join.map(|join| Played::new(platform, guest, join)));
                }
            }
            platforms.keys().cloned().collect()
        };
        let alive: BTreeSet<&String> = played.iter().map(|played| &played.on).collect();
        for node in self.nodes.state() {
            let Some(on) = nodes::played_on(&node) else { continue };
            if let Some(taints) = nodes::taints(&node) {
                let meta = json!({ "resourceVersion": node.resource_version() });
                let body = json!({ "metadata": meta, "spec": { "taints": taints } });
                patch(&api, &node.name_any(), body).await?;
            }
            if alive.contains(on) {
                continue;
            }
            // A platform that is not there yet has not lost its machines.
            let there = on.split_once('/').is_some_and(|(platform, _)| known.contains(platform));
            if let Some(status) = nodes::silent(&node, now).filter(|_| there) {
                patch_status(&api, &node.name_any(), &status, Merge::Whole).await?;
            }
        }
        for one in &played {
            let node = self.nodes.get(&reflector::ObjectRef::new(&one.name));
            let Some(node) = node else {
                if let Some(made) = create(&api, &one.object()).await?
                    && let Some(status) = one.report(&made, now)
                {
                    patch_status(&api, &one.name, &status, Merge::Whole).await?;
                }
                continue;
            };
            match nodes::played_on(&node) {
                // Somebody else's node has the name: it is not ours to speak for.
                None => continue,
                Some(on) if *on == one.on => {}
                Some(_) => {
                    let annotations = one.object().metadata.annotations;
                    let body = json!({ "metadata": { "annotations": annotations } });
                    patch(&api, &one.name, body).await?;
                }
            }
            if let Some(status) = one.report(&node, now) {
                patch_status(&api, &one.name, &status, Merge::Whole).await?;
            }
        }
        Ok(())
    }

    /// Pods on nodes start and end.
    async fn play_pods(&self) -> Result<(), kube::Error> {
        for pod in self.pods.state() {
            let Some(name) = node_of(&pod) else {
                // Nothing runs that could end.
                if pod.metadata.deletion_timestamp.is_some() {
                    self.remove(&pod).await?;
                }
                continue;
            };
            let node = self.nodes.get(&reflector::ObjectRef::new(name));
            match pods::step(&pod, node.as_deref()) {
                Step::Rest => {}
                Step::Remove => self.remove(&pod).await?,
                Step::Start => {
                    let status = pods::running(&pod, self.clock.now());
                    patch_status(&self.api(&pod), &pod.name_any(), &status, Merge::Lists).await?;
                }
            }
        }
        Ok(())
    }

    /// Takes a pod away that has ended, if it is still that one.
    async fn remove(&self, pod: &Pod) -> Result<(), kube::Error> {
        let exactly = Preconditions { uid: pod.uid(), resource_version: None };
        let at_once = DeleteParams::default().grace_period(0).preconditions(exactly);
        tolerate(self.api(pod).delete(&pod.name_any(), &at_once).await).map(drop)
    }

    /// Sets and Deployments have as many pods as they should.
    async fn play_workloads(&self) -> Result<(), kube::Error> {
        let now = self.clock.now();
        let (pods, sets) = (self.pods.state(), self.sets.state());
        for deployment in self.deployments.state() {
            let near = sets.iter().filter(|set| set.namespace() == deployment.namespace());
            let near: Vec<&ReplicaSet> = near.map(AsRef::as_ref).collect();
            let rollout = workloads::rollout(&deployment, &near, now);
            let api: Api<ReplicaSet> = self.near(&deployment.namespace());
            if let Some(set) = &rollout.make {
                create(&api, set).await?;
            }
            for (name, size) in &rollout.scale {
                patch(&api, name, json!({ "spec": { "replicas": size } })).await?;
            }
            if deployment.status.as_ref() != Some(&rollout.status) {
                let api: Api<Deployment> = self.near(&deployment.namespace());
                patch_status(&api, &deployment.name_any(), &rollout.status, Merge::Whole).await?;
            }
        }
        for set in &sets {
            let near = pods.iter().filter(|pod| pod.namespace() == set.namespace());
            let near: Vec<&Pod> = near.map(AsRef::as_ref).collect();
            let replicas = workloads::replicas(set, &near);
            let api: Api<Pod> = self.near(&set.namespace());
            for pod in &replicas.make {
                create(&api, pod).await?;
            }
            for name in &replicas.delete {
                tolerate(api.delete(name, &DeleteParams::default()).await)?;
            }
            if set.status.as_ref() != Some(&replicas.status) {
                let api: Api<ReplicaSet> = self.near(&set.namespace());
                patch_status(&api, &set.name_any(), &replicas.status, Merge::Whole).await?;
            }
        }
        Ok(())
    }

    /// Pods that wait get a node, or a reason.
    async fn play_scheduler(&mut self) -> Result<(), kube::Error> {
        let all = self.pods.state();
        let uids: BTreeSet<String> = all.iter().filter_map(|pod| pod.uid()).collect();
        self.assumed.retain(|uid, _| uids.contains(uid));
        let mut nodes: Vec<world::Node> =
            self.nodes.state().iter().filter_map(|node| world::Node::read(node).ok()).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        let numbers: BTreeMap<&str, usize> =
            nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
        let (mut bound, mut waiting) = (Vec::new(), Vec::new());
        for pod in &all {
            let Ok(Some(read)) = world::Pod::read(pod, &Claims::new()) else { continue };
            let assumed = pod.uid().and_then(|uid| match node_of(pod) {
                // The cache has caught up.
                Some(_) => self.assumed.remove(&uid),
                None => self.assumed.get(&uid).cloned(),
            });
            match node_of(pod).or(assumed.as_deref()) {
                Some(node) => bound.extend(numbers.get(node).map(|at| (*at, read))),
                None if waits(pod) => waiting.push((pod.clone(), read)),
                None => {}
            }
        }
        // The most important first, and of these the oldest.
        waiting.sort_by_key(|(pod, read)| {
            let made = pod.creation_timestamp().map(|at| at.0);
            (std::cmp::Reverse(read.shape.priority), made, read.key.clone())
        });
        let namespaces: BTreeMap<String, Labels> = self
            .namespaces
            .state()
            .iter()
            .map(|namespace| (namespace.name_any(), namespace.labels().clone()))
            .collect();
        let (objects, shapes): (Vec<Arc<Pod>>, Vec<world::Pod>) = waiting.into_iter().unzip();
        let placed = schedule(&nodes, &bound, &shapes, &namespaces);
        for (pod, place) in objects.iter().zip(placed) {
            match place {
                Ok(node) => self.bind(pod, node).await?,
                Err(message) => self.hold(pod, message).await?,
            }
        }
        Ok(())
    }

    async fn bind(&mut self, pod: &Pod, node: String) -> Result<(), kube::Error> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: pod.metadata.name.clone(),
                namespace: pod.metadata.namespace.clone(),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(node.clone()),
                ..ObjectReference::default()
            },
        };
        let params = PostParams::default();
        let (api, name) = (self.api(pod), pod.name_any());
        let bound: Result<serde_json::Value, _> =
            api.create_subresource("binding", &name, &params, &binding).await;
        if tolerate(bound)?.is_some()
            && let Some(uid) = pod.uid()
        {
            self.assumed.insert(uid, node);
        }
        Ok(())
    }

    /// Says that there is no node for a pod.
    async fn hold(&self, pod: &Pod, message: String) -> Result<(), kube::Error> {
        let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
        let old = conditions.into_iter().flatten().find(|old| old.type_ == "PodScheduled");
        let old = old.filter(|old| old.status == "False");
        if old.is_some_and(|old| old.message.as_deref() == Some(message.as_str())) {
            return Ok(());
        }
        let since = old.and_then(|old| old.last_transition_time.clone());
        let condition = PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some("Unschedulable".to_owned()),
            message: Some(message),
            last_transition_time: since.or_else(|| Some(Time(self.clock.now()))),
            ..PodCondition::default()
        };
        let status = json!({ "conditions": [condition] });
        patch_status(&self.api(pod), &pod.name_any(), &status, Merge::Lists).await
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        self.near(&pod.namespace())
    }

    fn near<K>(&self, namespace: &Option<String>) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace.as_deref().unwrap_or("default"))
    }
}

/// Whether the scheduler should look at a pod that is on no node.
fn waits(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name == "default-scheduler");
    let gates = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gates && pod.metadata.deletion_timestamp.is_none()
}

/// How lists in a status are merged.
enum Merge {
    /// They are replaced.
    Whole,
    /// By their keys.
    Lists,
}

async fn patch_status<K, S>(
    api: &Api<K>,
    name: &str,
    status: &S,
    merge: Merge,
) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
    S: Serialize,
{
    let body = json!({ "status": status });
    let params = params();
    let patched = match merge {
        Merge::Whole => api.patch_status(name, &params, &Patch::Merge(body)).await,
        Merge::Lists => api.patch_status(name, &params, &Patch::Strategic(body)).await,
    };
    tolerate(patched).map(drop)
}

async fn patch<K>(api: &Api<K>, name: &str, body: serde_json::Value) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    tolerate(api.patch(name, &params(), &Patch::Merge(body)).await).map(drop)
}

async fn create<K>(api: &Api<K>, object: &K) -> Result<Option<K>, kube::Error>
where
    K: Clone + Serialize + DeserializeOwned + std::fmt::Debug,
{
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    tolerate(api.create(&params, object).await)
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() }
}

/// What has changed meanwhile, or can never be, is not tried again before something happens.
fn tolerate<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 404 | 409 | 422) => {
            tracing::debug!(message = status.message, "not done in the played cluster");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
