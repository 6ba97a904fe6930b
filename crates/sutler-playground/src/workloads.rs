//! What keeps pods coming: ReplicaSets, and the ReplicaSets of Deployments.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hasher as _},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{
            Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, ReplicaSetSpec,
            ReplicaSetStatus,
        },
        core::v1::{Pod, PodTemplateSpec},
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Resource, ResourceExt as _, api::ObjectMeta};

use crate::pods::{is_over, node_of, serves};

/// The label by which the pods of one state of a Deployment are known.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// What a ReplicaSet lacks or has too much of.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    pub(crate) make: Vec<Pod>,
    /// Pods to delete, by name.
    pub(crate) delete: Vec<String>,
    /// Its status.
    pub(crate) status: ReplicaSetStatus,
}

/// What is to be done for a ReplicaSet; `pods` are those of its namespace. The lowest free names are made, so
/// that a cache that is behind makes none twice.
pub(crate) fn replicas(set: &ReplicaSet, pods: &[&Pod]) -> Replicas {
    let wanted = wanted(set);
    let own: Vec<&Pod> = pods.iter().copied().filter(|pod| is_of(set, *pod)).collect();
    let mut live: Vec<&Pod> = own
        .iter()
        .copied()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none() && !is_over(pod))
        .collect();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let ready = number(live.iter().filter(|pod| serves(pod)).count());
    let status = ReplicaSetStatus {
        replicas: number(live.len()),
        fully_labeled_replicas: Some(number(live.len())),
        ready_replicas: Some(ready),
        available_replicas: Some(ready),
        observed_generation: set.metadata.generation,
        ..ReplicaSetStatus::default()
    };
    let mut replicas = Replicas { status, ..Replicas::default() };
    if set.metadata.deletion_timestamp.is_some() {
        return replicas;
    }
    if live.len() > wanted {
        // Those that serve nobody go first, and of these the youngest.
        live.sort_by_key(|pod| {
            let made = pod.creation_timestamp().map(|at| at.0);
            (node_of(pod).is_some(), serves(pod), std::cmp::Reverse((made, pod.name_any())))
        });
        let excess = live.len() - wanted;
        replicas.delete = live.iter().take(excess).map(|pod| pod.name_any()).collect();
        return replicas;
    }
    let taken: BTreeSet<String> = pods.iter().map(|pod| pod.name_any()).collect();
    let names = (0u32..).map(|number| pod_name(set, number));
    let names = names.filter(|name| !taken.contains(name)).take(wanted - live.len());
    replicas.make = names.map(|name| pod_of(set, name)).collect();
    replicas
}

fn wanted(set: &ReplicaSet) -> usize {
    let wanted = set.spec.as_ref().map_or(1, |spec| spec.replicas.unwrap_or(1));
    usize::try_from(wanted).unwrap_or_default()
}

/// Whether an object's controller is this one.
fn is_of<O: Resource<DynamicType = ()>, K: Resource>(owner: &O, object: &K) -> bool {
    let mut owners = object.owner_references().iter();
    owners.any(|other| {
        other.controller == Some(true) && Some(&other.uid) == owner.meta().uid.as_ref()
    })
}

fn pod_name(set: &ReplicaSet, number: u32) -> String {
    // Longer names are cut so that the whole stays a name that hosts may have.
    let base: String = set.name_any().chars().take(57).collect();
    format!("{base}-{}", word(&(set.uid(), number), 5))
}

fn pod_of(set: &ReplicaSet, name: String) -> Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let metadata = template.metadata.unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: set.namespace(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            owner_references: set.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

/// What is to be done for a Deployment.
#[derive(Debug, Default)]
pub(crate) struct Rollout {
    /// The ReplicaSet of its present state, where it is not there.
    pub(crate) make: Option<ReplicaSet>,
    /// ReplicaSets that are to have another size.
    pub(crate) scale: Vec<(String, i32)>,
    /// Its status.
    pub(crate) status: DeploymentStatus,
}

/// What is to be done for a Deployment; `sets` are the ReplicaSets of its namespace. Old pods go when as many
/// new ones serve, however the update is to go.
pub(crate) fn rollout(deployment: &Deployment, sets: &[&ReplicaSet], now: Timestamp) -> Rollout {
    let Some(spec) = &deployment.spec else { return Rollout::default() };
    let wanted = spec.replicas.unwrap_or(1);
    let hash = word(&serde_json::to_string(&spec.template).unwrap_or_default(), 10);
    let base: String = deployment.name_any().chars().take(46).collect();
    let name = format!("{base}-{hash}");
    let own: Vec<&ReplicaSet> =
        sets.iter().copied().filter(|set| is_of(deployment, *set)).collect();
    let present = own.iter().find(|set| set.name_any() == name);
    let status = |set: &ReplicaSet| set.status.clone().unwrap_or_default();
    let serving = |set: &ReplicaSet| status(set).ready_replicas.unwrap_or(0);
    let fresh = present.map_or(0, |set| serving(set));
    let ready: i32 = own.iter().map(|set| serving(set)).sum();
    let available = ready >= wanted;
    let known = deployment.status.as_ref().and_then(|status| status.conditions.as_ref());
    let condition = |type_: &str, well: bool, reason: &str| {
        let status = if well { "True" } else { "False" };
        let old = known.into_iter().flatten().find(|condition| condition.type_ == type_);
        match old.filter(|old| old.status == status && old.reason.as_deref() == Some(reason)) {
            Some(old) => old.clone(),
            None => DeploymentCondition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                last_transition_time: Some(Time(now)),
                last_update_time: Some(Time(now)),
                ..DeploymentCondition::default()
            },
        }
    };
    let progress = if fresh >= wanted { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" };
    let enough = if available { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" };
    let mut rollout = Rollout {
        status: DeploymentStatus {
            replicas: Some(own.iter().map(|set| status(set).replicas).sum()),
            updated_replicas: Some(present.map_or(0, |set| status(set).replicas)),
            ready_replicas: Some(ready),
            available_replicas: Some(ready),
            unavailable_replicas: Some((wanted - ready).max(0)),
            observed_generation: deployment.metadata.generation,
            conditions: Some(vec![
                condition("Available", available, enough),
                condition("Progressing", true, progress),
            ]),
            ..DeploymentStatus::default()
        },
        ..Rollout::default()
    };
    if deployment.metadata.deletion_timestamp.is_some() {
        return rollout;
    }
    match present {
        None => rollout.make = Some(set_of(deployment, name.clone(), &hash, wanted)),
        Some(set) if size(set) != wanted => rollout.scale.push((name.clone(), wanted)),
        Some(_) => {}
    }
    if present.is_some() && fresh >= wanted {
        let old = own.iter().filter(|set| set.name_any() != name && size(set) != 0);
        rollout.scale.extend(old.map(|set| (set.name_any(), 0)));
    }
    rollout
}

fn size(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().map_or(1, |spec| spec.replicas.unwrap_or(1))
}

fn set_of(deployment: &Deployment, name: String, hash: &str, wanted: i32) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let mark = |labels: &mut Option<std::collections::BTreeMap<String, String>>| {
        labels.get_or_insert_default().insert(TEMPLATE_HASH.to_owned(), hash.to_owned());
    };
    let mut template: PodTemplateSpec = spec.template;
    let metadata = template.metadata.get_or_insert_default();
    mark(&mut metadata.labels);
    let labels = metadata.labels.clone();
    let mut selector = spec.selector;
    mark(&mut selector.match_labels);
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: deployment.namespace(),
            labels,
            owner_references: deployment.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(wanted),
            selector,
            template: Some(template),
            ..ReplicaSetSpec::default()
        }),
        status: None,
    }
}

/// A word of this length for a thing, always the same: letters and digits that make no words of a language.
fn word(thing: &impl std::hash::Hash, length: usize) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    let mut rest = hasher.finish();
    let many = LETTERS.len() as u64;
    let mut letter = || {
        let at = usize::try_from(rest % many).unwrap_or_default();
        rest /= many;
        char::from(LETTERS[at])
    };
    (0..length).map(|_| letter()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn template() -> Value {
        json!({"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}})
    }

    fn set(wanted: i32) -> ReplicaSet {
        serde_json::from_value(
            json!({"metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": {"replicas": wanted, "selector": {"matchLabels": {"app": "web"}},
                "template": template()}}),
        )
        .unwrap()
    }

    #[test]
    fn a_set_makes_what_it_lacks_once_and_replaces_what_goes() {
        let first = replicas(&set(2), &[]);
        assert_eq!(first.make.len(), 2);
        let again = replicas(&set(2), &[]);
        let names = |pods: &[Pod]| pods.iter().map(|pod| pod.name_any()).collect::<Vec<_>>();
        assert_eq!(names(&first.make), names(&again.make), "a stale view asks for the same");
        let mut pods = first.make.clone();
        assert!(replicas(&set(2), &pods.iter().collect::<Vec<_>>()).make.is_empty());
        pods[0].metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let replaced = replicas(&set(2), &pods.iter().collect::<Vec<_>>());
        assert_eq!(replaced.make.len(), 1);
        assert!(!names(&pods).contains(&replaced.make[0].name_any()), "its name is not free yet");
        assert_eq!(replaced.status.replicas, 1);
    }

    #[test]
    fn a_set_that_is_too_large_lets_those_go_that_serve_nobody() {
        let mut pods = replicas(&set(2), &[]).make;
        pods[0].spec.as_mut().unwrap().node_name = Some("n".to_owned());
        let smaller = replicas(&set(1), &pods.iter().collect::<Vec<_>>());
        assert_eq!(smaller.delete, [pods[1].name_any()]);
        let foreign: Pod = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
        assert!(replicas(&set(0), &[&foreign]).delete.is_empty());
    }

    #[test]
    fn a_deployment_has_a_set_for_each_state_and_old_ones_go_once_the_new_one_serves() {
        let mut deployment: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "d"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                "template": template()}}))
        .unwrap();
        let now = Timestamp::UNIX_EPOCH;
        let mut old = rollout(&deployment, &[], now).make.unwrap();
        let labels = old.spec.clone().unwrap().selector.match_labels.unwrap();
        assert!(labels.contains_key(TEMPLATE_HASH) && labels["app"] == "web");
        let serving = |number| {
            Some(ReplicaSetStatus {
                replicas: number,
                ready_replicas: Some(number),
                ..ReplicaSetStatus::default()
            })
        };
        old.status = serving(2);
        let rest = rollout(&deployment, &[&old], now);
        assert!(rest.make.is_none() && rest.scale.is_empty());
        assert_eq!(rest.status.conditions.unwrap()[0].status, "True");
        let spec = deployment.spec.as_mut().unwrap();
        spec.template.spec.as_mut().unwrap().containers[0].image = Some("newer".to_owned());
        let mut new = rollout(&deployment, &[&old], now).make.unwrap();
        assert_ne!(new.name_any(), old.name_any());
        assert!(rollout(&deployment, &[&old, &new], now).scale.is_empty());
        new.status = serving(2);
        let scale = rollout(&deployment, &[&old, &new], now).scale;
        assert_eq!(scale, [(old.name_any(), 0)]);
    }
}
