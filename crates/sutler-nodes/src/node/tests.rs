//! Tests of what is decided for one node: which node it is, what is written onto it, and which step is
//! next.

mod joining;
mod leaving;
mod life;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use sutler_api::autoscaler::{VPSieNode, VpsieNodePhase as Phase};
use sutler_control::kit::Key;

use super::*;
use crate::cluster::Index;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

/// A node with this address, and what `more` says besides.
fn node(name: &str, ip: &str, more: Value) -> Node {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": "7",
            "creationTimestamp": at(50).to_string(), "labels": {} },
        "spec": {},
        "status": {
            "addresses": [{ "type": "InternalIP", "address": ip }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    });
    merge(&mut object, more);
    serde_json::from_value(object).unwrap()
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn labelled(record: &str) -> Value {
    json!({ "metadata": { "labels": {
        "autoscaler.vpsie.com/vpsienode": record,
        "autoscaler.vpsie.com/nodegroup": "web",
        "autoscaler.vpsie.com/nodegroup-namespace": "ns",
    }}})
}

fn index(nodes: &[Node]) -> Index {
    let mut index = Index::default();
    for node in nodes {
        index.put(node);
    }
    index
}

/// A record of group `web` whose machine was asked for at second 0.
fn record() -> Record {
    Record {
        key: Key::new("ns", "web-0001"),
        uid: "u-1".to_owned(),
        deleting: false,
        finalizer: true,
        forced: false,
        asked: Asked::Here,
        asked_at: at(0),
        made: true,
        phase: Some(Phase::Provisioning),
        claimed: None,
        wanted_node: None,
        node: None,
        provisioned_at: None,
        joined_at: None,
        ready_at: None,
        unready_since: None,
    }
}

/// Its machine, which runs.
fn machine() -> Machine {
    Machine {
        uid: "vm-uid".to_owned(),
        ready: true,
        id: Some("4711".to_owned()),
        hostname: Some("web-0001".to_owned()),
        ips: vec!["10.0.0.1".to_owned()],
        ..Machine::default()
    }
}

/// What a plan is made from, at second 100.
struct Case {
    record: Record,
    machine: MachineRecord,
    node: Option<Seen>,
    in_sight: bool,
    node_gone: bool,
    labelled: bool,
    removing: bool,
    drain: Drain,
    hints: Option<Vec<String>>,
    now: i64,
}

impl Case {
    /// Its machine runs, and its node has not joined.
    fn joining() -> Self {
        Self {
            record: Record { provisioned_at: Some(at(60)), ..record() },
            machine: MachineRecord::Ours(Box::new(machine())),
            node: None,
            in_sight: true,
            node_gone: false,
            labelled: false,
            removing: false,
            drain: Drain::Unknown,
            hints: None,
            now: 100,
        }
    }

    /// Its node has joined and takes pods.
    fn ready() -> Self {
        let node = node("k-1", "10.0.0.1", labelled("web-0001"));
        let mut case = Self { node: Some(Seen::read(&node)), labelled: true, ..Self::joining() };
        case.record.node = Some("k-1".to_owned());
        case.record.claimed = Some("k-1".to_owned());
        case.record.joined_at = Some(at(70));
        case.record.phase = Some(Phase::Ready);
        case
    }

    fn change(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn machine(self, change: impl FnOnce(&mut Machine)) -> Self {
        let mut changed = machine();
        change(&mut changed);
        Self { machine: MachineRecord::Ours(Box::new(changed)), ..self }
    }

    fn plan(&self) -> Plan {
        plan(&Inputs {
            record: &self.record,
            machine: &self.machine,
            node: self.node.as_ref(),
            in_sight: self.in_sight,
            node_gone: self.node_gone,
            labelled: self.labelled,
            removing: self.removing,
            drain: &self.drain,
            hints: self.hints.as_deref(),
            limits: Limits {
                provisioning: Duration::from_secs(900),
                joining: Duration::from_secs(900),
            },
            now: at(self.now),
        })
    }
}

/// A record as the API has it.
fn object(more: Value) -> VPSieNode {
    let mut object = json!({
        "apiVersion": "autoscaler.vpsie.com/v1alpha1", "kind": "VPSieNode",
        "metadata": { "name": "web-0001", "namespace": "ns", "uid": "u-1",
            "creationTimestamp": at(-10).to_string() },
        "spec": { "nodeGroupName": "web", "vpsieInstanceID": 0, "instanceType": "small",
            "datacenterID": "dc/1", "resourceIdentifier": "c", "project": "p",
            "kubernetesVersion": "v1.34.1" },
    });
    merge(&mut object, more);
    serde_json::from_value(object).unwrap()
}
