//! Which Kubernetes node is a record's, and what is written onto it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode},
    names::labels,
};

use super::{
    discoverer::is_labelled,
    record::{Machine, Record},
};
use crate::cluster::{Index, Seen};

/// The node of a record: the one that it has, then the one at its machine's address, within the
/// cluster's network first, then the one of the name that it should have, then the one that calls itself
/// what its machine does. A node that another record has is never the one, nor is one that runs the
/// cluster.
pub fn node_of<'a>(
    record: &Record,
    group: &str,
    machine: Option<&Machine>,
    index: &'a Index,
) -> Option<&'a Seen> {
    let own = index.of_record(&record.key);
    // A claim that names no namespace was not made by us: only the machine proves whose it is.
    let sure = |seen: &&Seen| {
        seen.claim.as_ref().is_some_and(|(namespace, _)| namespace.is_some())
            || is_labelled(seen, &record.key, group)
    };
    if let Some(seen) = own.filter(sure) {
        return Some(seen);
    }
    let machine = machine.filter(|machine| machine.id.is_some())?;
    let free = |seen: &&Seen| seen.is_free() || seen.is_claimed_by(&record.key);
    let by_address = || machine.ips.iter().flat_map(|ip| index.at(ip)).find(free);
    let named =
        |name: &Option<String>| name.as_ref().and_then(|name| index.called(name).find(free));
    // What has another machine's address is not ours, whatever it is called: a dead one's object may be
    // left. Only of a machine that is ready is it known that its platform tells no address.
    let fits = |seen: &&Seen| {
        let known = seen.internal.iter().chain(&seen.external).count() > 0;
        let untold = machine.ips.is_empty() && machine.ready;
        !known || untold || machine.ips.iter().any(|ip| seen.has(ip))
    };
    by_address()
        .or_else(|| named(&record.wanted_node).filter(fits))
        .or_else(|| named(&machine.hostname).filter(fits))
}

impl Seen {
    /// Whether it has this address.
    pub(super) fn has(&self, ip: &str) -> bool {
        self.internal.iter().chain(&self.external).any(|own| own == ip)
    }
}

/// The label by which pods ask for nodes of a size. Whoever else knows the size may have set it.
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// The labels that a record's node carries.
pub fn wanted_labels(node: &VPSieNode, group: Option<&NodeGroup>) -> BTreeMap<String, String> {
    let mut wanted = group.map(|group| group.spec.labels.clone()).unwrap_or_default();
    let mut ours = |key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            wanted.insert(key.to_owned(), label_value(&value));
        }
    };
    ours(labels::MANAGED, Some("true".to_owned()));
    ours(labels::NODE_GROUP, Some(node.spec.node_group_name.clone()));
    ours(labels::NODE_GROUP_NAMESPACE, node.namespace());
    ours(labels::VPSIE_NODE, Some(node.name_any()));
    ours(labels::DATACENTER, node.spec.datacenter_id.clone());
    ours(labels::OFFERING, node.spec.instance_type.clone());
    ours(INSTANCE_TYPE, node.spec.instance_type.clone());
    wanted
}

/// The patch that makes a node ours, over exactly the version that was looked at: labels and taints in
/// one write; none where everything is right already.
pub fn claim(node: &Node, wanted: &BTreeMap<String, String>, taints: &[Taint]) -> Option<Value> {
    let lacks = |key: &str, value: &String| match node.labels().get(key) {
        Some(own) => own != value && key != INSTANCE_TYPE,
        None => true,
    };
    let missing: BTreeMap<&String, &String> =
        wanted.iter().filter(|(key, value)| lacks(key, value)).collect();
    let known = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let has = |wanted: &Taint| {
        known.iter().any(|taint| {
            taint.key == wanted.key && taint.effect == wanted.effect && taint.value == wanted.value
        })
    };
    let lacking: Vec<&Taint> = taints.iter().filter(|taint| !has(taint)).collect();
    if missing.is_empty() && lacking.is_empty() {
        return None;
    }
    let mut patch = json!({
        "metadata": {
            "resourceVersion": node.resource_version(),
            "uid": node.uid(),
            "labels": missing,
        },
    });
    if !lacking.is_empty() {
        let replaced = |taint: &&Taint| {
            !lacking.iter().any(|new| new.key == taint.key && new.effect == taint.effect)
        };
        let all: Vec<&Taint> = known.iter().filter(replaced).chain(lacking.clone()).collect();
        patch["spec"] = json!({ "taints": all });
    }
    Some(patch)
}

/// What of a text can be a label's value.
fn label_value(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let value: String = text.chars().map(|c| if plain(c) { c } else { '-' }).take(63).collect();
    value.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}
