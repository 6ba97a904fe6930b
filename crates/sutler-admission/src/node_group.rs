//! NodeGroups.

use std::collections::{BTreeMap, BTreeSet};

use sutler_api::{
    autoscaler::{
        Bootstrap, BootstrapKind, NodeGroup, NodeGroupSpec,
        records::{self, MOST},
        removal,
    },
    names::annotations,
};
use sutler_scale::world::Group;

use crate::{
    Refusal, Warnings, labels,
    ratchet::{Findings, Problem},
};

/// The longest name of a node.
const LONGEST: usize = 63;

/// What a group asks for that no controller can do, wherever it comes from. A group without any of it
/// is carried out; what else is refused is only kept out.
pub fn impossible(group: &NodeGroup) -> Vec<Refusal> {
    broken(group).into_iter().map(Problem::into_refusal).collect()
}

/// Everything that speaks against a group.
pub(crate) fn check(old: Option<&NodeGroup>, new: &NodeGroup) -> Findings {
    let mut problems = broken(new);
    problems.extend(unwise(new));
    if let Some(old) = old {
        problems.extend(fixed(old, &new.spec));
    }
    Findings { problems, warnings: warnings(old, new) }
}

/// What is said of the hours of a node that stand on something else.
pub(crate) fn misplaced_hours(notes: Option<&BTreeMap<String, String>>) -> Option<String> {
    let key = annotations::SCALE_DOWN_ALLOWED_HOURS;
    notes
        .is_some_and(|notes| notes.contains_key(key))
        .then(|| format!("{key} counts on Nodes only"))
}

/// What is wrong with a list of sizes.
pub(crate) fn listed(ids: &[String]) -> Option<String> {
    if ids.iter().any(|id| id.trim().is_empty()) {
        return Some("has an entry without a name: remove it".to_owned());
    }
    let mut seen = BTreeSet::new();
    let twice = ids.iter().find(|id| !seen.insert(*id))?;
    Some(format!("has {twice:?} twice: remove one"))
}

fn broken(group: &NodeGroup) -> Vec<Problem> {
    let spec = &group.spec;
    let mut problems = Vec::new();
    let mut add = |field: &str, message: String, about: &[&str]| {
        problems.push(Problem::new(field, message).about(about));
    };
    let (least, most) = (spec.min_nodes, spec.max_nodes);
    for (field, value) in [
        ("spec.minNodes", least),
        ("spec.maxNodes", most),
        ("spec.desiredNodes", spec.desired_nodes),
    ] {
        if value < 0 {
            add(field, format!("{value} is below 0"), &[field]);
        }
    }
    if least > most {
        let message = format!("{least} is above maxNodes {most}: lower it or raise maxNodes");
        add("spec.minNodes", message, &["spec.minNodes", "spec.maxNodes"]);
    }
    if i64::from(most) > i64::from(MOST) {
        let message = format!("{most} is too many: a group has at most {MOST} nodes");
        add("spec.maxNodes", message, &["spec.maxNodes"]);
    }
    let name = group.metadata.name.as_deref().unwrap_or_default();
    let longest = records::name_of(name, MOST).len();
    if longest > LONGEST {
        let message = format!(
            "names of nodes would have {longest} characters, and {LONGEST} is the most: choose one \
             with at most {}",
            LONGEST.saturating_sub(longest - name.len())
        );
        add("metadata.name", message, &["metadata.name"]);
    }
    problems.extend(labels::impossible("spec", &spec.labels, &spec.taints));
    problems
}

/// What would be clamped, overruled, left undone or never become a node.
fn unwise(group: &NodeGroup) -> Vec<Problem> {
    let spec = &group.spec;
    let joins =
        spec.bootstrap.as_ref().is_some_and(|bootstrap| bootstrap.kind != BootstrapKind::Custom);
    let mut problems = labels::reserved("spec", &spec.labels, joins);
    problems.extend(outside(spec));
    problems.extend(Group::policy_errors(spec).into_iter().map(of_policy));
    problems.extend(parts(spec));
    problems.extend(spec.bootstrap.as_ref().and_then(endpoint));
    if let Err(error) = removal::removing(group) {
        let message = format!("{:?} is no JSON array of VPSieNode names", error.found);
        problems.push(Problem::of_annotation(removal::REMOVING, message));
    }
    problems
}

/// A size that nobody can wish for. The default, 0, is none where minNodes is above it: nobody has
/// decided yet. Only the wish itself counts: bounds that are moved past it move it along.
fn outside(spec: &NodeGroupSpec) -> Option<Problem> {
    let (least, most, wish) = (spec.min_nodes, spec.max_nodes, spec.desired_nodes);
    if (least..=most).contains(&wish) || wish <= 0 {
        return None;
    }
    let message = format!("{wish} is not between minNodes {least} and maxNodes {most}");
    Some(Problem::new("spec.desiredNodes", message))
}

/// An error of a policy; the data centres of a spread may be the group's own.
fn of_policy(error: sutler_scale::world::MalformedError) -> Problem {
    let spread = error.field.starts_with("spec.multiRegion");
    let problem = Problem::from(error);
    match spread {
        true => problem.about(&["spec.multiRegion", "spec.datacenterID"]),
        false => problem,
    }
}

/// Parts that need each other, or exclude each other.
fn parts(spec: &NodeGroupSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |field: &str, message: &str, about: &[&str]| {
        problems.push(Problem::new(field, message).about(about));
    };
    let made_of = ["spec.providerRef", "spec.classRef", "spec.imageRef", "spec.bootstrap"];
    if spec.class_ref.is_some() && spec.provider_ref.is_none() {
        let message = "needs providerRef: without it VPSie makes the nodes, in its own sizes";
        add("spec.classRef", message, &made_of);
    }
    if spec.class_ref.is_some() && spec.image_ref.is_none() {
        add("spec.imageRef", "is missing: a group with classRef needs an image too", &made_of);
    }
    if spec.image_ref.is_some() && spec.class_ref.is_none() {
        let message = "needs classRef: managed Kubernetes chooses its own image; remove it or add \
             classRef";
        add("spec.imageRef", message, &made_of);
    }
    if spec.bootstrap.is_some() && spec.class_ref.is_none() {
        let message = "needs classRef and imageRef: managed Kubernetes installs its own nodes; remove \
             it or add both";
        add("spec.bootstrap", message, &made_of);
    }
    if spec.provider_ref.is_none() {
        for (field, value) in [
            ("spec.datacenterID", &spec.datacenter_id),
            ("spec.resourceIdentifier", &spec.resource_identifier),
            ("spec.project", &spec.project),
        ] {
            if value.as_ref().is_some_and(|value| value.trim().is_empty()) {
                add(field, "is empty, and VPSie needs it", &[field, "spec.providerRef"]);
            }
        }
    }
    if let Some(message) = listed(&spec.offering_ids) {
        add("spec.offeringIDs", &message, &["spec.offeringIDs"]);
    }
    let preferred = spec.preferred_instance_type.as_ref().filter(|_| !spec.offering_ids.is_empty());
    if let Some(preferred) = preferred.filter(|preferred| !spec.offering_ids.contains(preferred)) {
        let message = format!("{preferred:?} is not one of offeringIDs: add it there");
        let about = ["spec.preferredInstanceType", "spec.offeringIDs"];
        add("spec.preferredInstanceType", &message, &about);
    }
    problems
}

/// An address that no node can join at.
fn endpoint(bootstrap: &Bootstrap) -> Option<Problem> {
    let text = bootstrap.endpoint.as_deref().filter(|_| bootstrap.kind != BootstrapKind::Custom)?;
    let bare = text.trim_start_matches("https://").trim_end_matches('/');
    let spoilt = |text: &str| text.is_empty() || text.contains(['/', ' ', '\t', '\n']);
    let fits = match (bootstrap.kind, bare.rsplit_once(':')) {
        (BootstrapKind::Kubeadm, Some((host, port))) => {
            !spoilt(host) && port.parse::<u16>().is_ok_and(|port| port > 0)
        }
        (BootstrapKind::Kubeadm, None) => false,
        (BootstrapKind::K3s | BootstrapKind::Custom, _) => !spoilt(bare),
    };
    let message = || format!("{text:?} is no address to join at: write it as 10.0.0.10:6443");
    (!fits).then(|| Problem::new("spec.bootstrap.endpoint", message()))
}

/// What cannot be changed under nodes that are there: they are looked for in that cluster.
fn fixed(old: &NodeGroup, new: &NodeGroupSpec) -> Vec<Problem> {
    let nodes = old.status.as_ref().map_or(0, |status| status.current_nodes);
    if nodes <= 0 {
        return Vec::new();
    }
    let before = &old.spec;
    let changed = [
        ("spec.clusterRef", before.cluster_ref != new.cluster_ref),
        ("spec.resourceIdentifier", before.resource_identifier != new.resource_identifier),
    ];
    let changed = changed.into_iter().filter(|(_, changed)| *changed);
    changed
        .map(|(field, _)| {
            let message = format!(
                "cannot be changed while the group has nodes (it has {nodes}): they are in that \
                 cluster; make another group, or make this one empty first"
            );
            Problem::new(field, message)
        })
        .collect()
}

fn warnings(old: Option<&NodeGroup>, new: &NodeGroup) -> Warnings {
    let mut warnings = Warnings::new();
    if !removal::is_managed(new) && old.is_none_or(removal::is_managed) {
        let label = sutler_api::names::labels::MANAGED;
        warnings.push(format!("the group is left alone while it has no label {label}=true"));
    }
    let size = removal::target_size(new);
    if old.is_some() && outside(&new.spec).is_some() {
        let wish = new.spec.desired_nodes;
        warnings.push(format!(
            "spec.desiredNodes is {wish}, which minNodes and maxNodes no longer allow: the group will \
             have {size} nodes"
        ));
    }
    if let Some(old) = old.filter(|old| old.status.as_ref().is_some_and(|s| s.current_nodes > 0)) {
        let changed = of_new_nodes(&old.spec, &new.spec);
        if !changed.is_empty() {
            warnings.push(format!(
                "nodes that are there stay as they are; new ones follow spec.{}",
                changed.join(", spec.")
            ));
        }
    }
    warnings.extend(misplaced_hours(new.metadata.annotations.as_ref()));
    warnings
}

/// Fields that changed and that only nodes follow that are made from now on.
fn of_new_nodes(old: &NodeGroupSpec, new: &NodeGroupSpec) -> Vec<&'static str> {
    let all = [
        ("providerRef", old.provider_ref != new.provider_ref),
        ("classRef", old.class_ref != new.class_ref),
        ("imageRef", old.image_ref != new.image_ref),
        ("bootstrap", old.bootstrap != new.bootstrap),
        ("datacenterID", old.datacenter_id != new.datacenter_id),
        ("offeringIDs", old.offering_ids != new.offering_ids),
        ("preferredInstanceType", old.preferred_instance_type != new.preferred_instance_type),
        ("kubeSizeID", old.kube_size_id != new.kube_size_id),
        ("osImageID", old.os_image_id != new.os_image_id),
        ("kubernetesVersion", old.kubernetes_version != new.kubernetes_version),
    ];
    all.into_iter().filter(|(_, changed)| *changed).map(|(field, _)| field).collect()
}
