//! Keeps new pods off a node and asks those on it to leave, as their disruption budgets allow.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{EvictParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use sutler_api::names::{MANAGER, annotations};

use super::{Error, plan::Drain};
use crate::cluster::Cluster;

/// Pods that are asked at the same time.
const TOGETHER: usize = 8;

/// How long after its own time a pod on a node that does not answer is taken for gone.
const SILENCE: Duration = Duration::from_secs(60);

/// What is asked of the pods on a node.
#[derive(Debug, Default, PartialEq)]
pub struct Pods<'a> {
    /// Those that are to be asked to leave.
    pub ask: Vec<&'a Pod>,
    /// Those that are on their way.
    pub leaving: Vec<&'a Pod>,
}

/// Who has to leave a node. Pods of the node itself, those that every node has, and those that have
/// ended stay; on a node that does not answer, those stay that should have been gone for a while.
pub fn sort(pods: &[Pod], answers: bool, now: Timestamp) -> Pods<'_> {
    let mut sorted = Pods::default();
    for pod in pods {
        let owned_by_all = pod
            .owner_references()
            .iter()
            .any(|owner| owner.controller == Some(true) && owner.kind == "DaemonSet");
        let mirror = pod.annotations().contains_key("kubernetes.io/config.mirror");
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        if owned_by_all || mirror || matches!(phase, Some("Succeeded" | "Failed")) {
            continue;
        }
        match &pod.metadata.deletion_timestamp {
            None => sorted.ask.push(pod),
            // The time of deletion holds the pod's own time to end already.
            Some(gone) if !answers && now > gone.0.saturating_add(SILENCE).unwrap_or(gone.0) => {}
            Some(_) => sorted.leaving.push(pod),
        }
    }
    sorted
}

/// Takes one step of a drain.
pub(crate) async fn drain(
    client: &Client,
    name: &str,
    patience: Duration,
    now: Timestamp,
) -> Result<Drain, Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(node) = nodes.get_opt(name).await? else { return Ok(Drain::Done) };
    let began = node.annotations().get(annotations::DRAIN_START_TIME);
    let began: Option<Timestamp> = began.and_then(|at| at.parse().ok());
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    if !cordoned || began.is_none() {
        let body = json!({
            "metadata": {
                "resourceVersion": node.resource_version(),
                "uid": node.uid(),
                "annotations": {
                    annotations::DRAIN_START_TIME: began.unwrap_or(now).to_string(),
                    annotations::DRAIN_STATUS: "draining",
                },
            },
            "spec": { "unschedulable": true },
        });
        patch(&nodes, name, body).await?;
        return Ok(Drain::Waiting { left: 0, blocked: None, at: earlier(now) });
    }
    let api: Api<Pod> = Api::all(client.clone());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
    let pods = api.list(&on_node).await?.items;
    let answers = crate::cluster::Seen::read(&node).ready.is_ok();
    let sorted = sort(&pods, answers, now);
    let left = sorted.ask.len() + sorted.leaving.len();
    if left == 0 {
        return Ok(Drain::Done);
    }
    let asking: Vec<BoxFuture<'_, Option<String>>> =
        sorted.ask.iter().map(|pod| evict(client, pod).boxed()).collect();
    let asked: Vec<Option<String>> = stream::iter(asking).buffered(TOGETHER).collect().await;
    let blocked = asked.into_iter().flatten().next();
    let longest = pods.iter().filter_map(|pod| pod.spec.as_ref()?.termination_grace_period_seconds);
    let own = Duration::from_secs(longest.max().and_then(|s| u64::try_from(s).ok()).unwrap_or(30));
    let end = began.unwrap_or(now).saturating_add(patience + own).unwrap_or(Timestamp::MAX);
    if now < end {
        return Ok(Drain::Waiting { left, blocked, at: now });
    }
    let names: Vec<String> = sorted
        .ask
        .iter()
        .chain(&sorted.leaving)
        .take(3)
        .map(|pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()))
        .collect();
    let why = blocked.unwrap_or_else(|| "they did not end in their time".to_owned());
    let why = format!("{left} pods did not leave node {name} ({}…): {why}", names.join(", "));
    Ok(Drain::GivenUp { why })
}

/// A drain that has just begun is looked at again at once.
fn earlier(now: Timestamp) -> Timestamp {
    now.saturating_sub(Duration::from_secs(5)).unwrap_or(now)
}

/// Asks a pod to leave; what keeps it comes back.
async fn evict(client: &Client, pod: &Pod) -> Option<String> {
    let namespace = pod.namespace().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let name = pod.name_any();
    match api.evict(&name, &EvictParams::default()).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) if status.code == 404 => None,
        Err(kube::Error::Api(status)) => Some(format!("{namespace}/{name}: {}", status.message)),
        Err(error) => Some(format!("{namespace}/{name}: {error}")),
    }
}

/// Lets pods onto a node again that a drain of ours kept them off.
pub(crate) async fn uncordon(cluster: &Arc<Cluster>, name: &str) -> Result<(), Error> {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let Some(node) = nodes.get_opt(name).await? else { return Ok(()) };
    if !node.annotations().contains_key(annotations::DRAIN_START_TIME) {
        return Ok(());
    }
    let body = json!({
        "metadata": {
            "resourceVersion": node.resource_version(),
            "uid": node.uid(),
            "annotations": {
                annotations::DRAIN_START_TIME: null,
                annotations::DRAIN_STATUS: null,
            },
        },
        "spec": { "unschedulable": null },
    });
    patch(&nodes, name, body).await
}

/// Writes a node over exactly the version that was looked at. Where that has changed, the next look
/// tries again.
async fn patch(nodes: &Api<Node>, name: &str, body: serde_json::Value) -> Result<(), Error> {
    match nodes.patch(name, &PatchParams::apply(MANAGER), &Patch::Merge(body)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
