//! A Node in the protobuf of Kubernetes.
//!
//! Kept by hand: of a template, cluster-autoscaler reads a dozen fields, whose numbers have been fixed
//! since the first release of Kubernetes. A crate with all of Kubernetes' messages takes longer to
//! compile than everything else here. A test compares with the encoder of the embedded API server,
//! which goes by the API's published numbers.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::api::resource::Quantity as ApiQuantity};
use prost::Message as _;

/// Name, labels, annotations, provider ID, taints, capacity, allocatable resources and conditions of a
/// Node, as `v1.Node` is marshalled: without the envelope that API servers put around it. The times of
/// conditions are left out.
pub fn encode_node(node: &Node) -> Vec<u8> {
    message(node).encode_to_vec()
}

fn message(node: &Node) -> NodeMessage {
    let spec = node.spec.as_ref();
    let status = node.status.as_ref();
    NodeMessage {
        metadata: Some(Metadata {
            name: node.metadata.name.clone(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            annotations: node.metadata.annotations.clone().unwrap_or_default(),
        }),
        spec: Some(Spec {
            provider_id: spec.and_then(|spec| spec.provider_id.clone()),
            taints: spec
                .and_then(|spec| spec.taints.as_ref())
                .into_iter()
                .flatten()
                .map(|taint| TaintMessage {
                    key: Some(taint.key.clone()),
                    value: taint.value.clone(),
                    effect: Some(taint.effect.clone()),
                })
                .collect(),
        }),
        status: Some(Status {
            capacity: quantities(status.and_then(|status| status.capacity.as_ref())),
            allocatable: quantities(status.and_then(|status| status.allocatable.as_ref())),
            conditions: status
                .and_then(|status| status.conditions.as_ref())
                .into_iter()
                .flatten()
                .map(|condition| Condition {
                    type_: Some(condition.type_.clone()),
                    status: Some(condition.status.clone()),
                    reason: condition.reason.clone(),
                    message: condition.message.clone(),
                })
                .collect(),
        }),
    }
}

fn quantities(of: Option<&BTreeMap<String, ApiQuantity>>) -> BTreeMap<String, Quantity> {
    let quantity = |text: &ApiQuantity| Quantity { string: Some(text.0.clone()) };
    of.into_iter().flatten().map(|(name, text)| (name.clone(), quantity(text))).collect()
}

#[derive(Clone, PartialEq, prost::Message)]
struct NodeMessage {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<Spec>,
    #[prost(message, optional, tag = "3")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Metadata {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Spec {
    #[prost(string, optional, tag = "3")]
    provider_id: Option<String>,
    #[prost(message, repeated, tag = "5")]
    taints: Vec<TaintMessage>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TaintMessage {
    #[prost(string, optional, tag = "1")]
    key: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
    #[prost(string, optional, tag = "3")]
    effect: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(btree_map = "string, message", tag = "1")]
    capacity: BTreeMap<String, Quantity>,
    #[prost(btree_map = "string, message", tag = "2")]
    allocatable: BTreeMap<String, Quantity>,
    #[prost(message, repeated, tag = "4")]
    conditions: Vec<Condition>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Quantity {
    #[prost(string, optional, tag = "1")]
    string: Option<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Condition {
    #[prost(string, optional, tag = "1")]
    type_: Option<String>,
    #[prost(string, optional, tag = "2")]
    status: Option<String>,
    #[prost(string, optional, tag = "5")]
    reason: Option<String>,
    #[prost(string, optional, tag = "6")]
    message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn fixture() -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "template-g",
                "labels": { "kubernetes.io/os": "linux", "a": "" },
                "annotations": { "note": "\u{e9}" },
            },
            "spec": {
                "providerID": "sutler://ns/n",
                "taints": [
                    { "key": "only", "value": "this", "effect": "NoSchedule" },
                    { "key": "bare", "effect": "NoExecute" },
                ],
            },
            "status": {
                "capacity": { "cpu": "4", "memory": "8589934592", "pods": "110" },
                "allocatable": { "cpu": "3900m", "memory": "8Gi" },
                "conditions": [
                    { "type": "Ready", "status": "True", "reason": "Template", "message": "m" },
                ],
            },
        })
    }

    fn typed() -> Node {
        serde_json::from_value(fixture()).unwrap()
    }

    /// The object in the envelope that the embedded API server reads and writes.
    fn envelope(raw: &[u8]) -> Vec<u8> {
        #[derive(Clone, PartialEq, prost::Message)]
        struct Unknown {
            #[prost(message, optional, tag = "1")]
            type_meta: Option<TypeMeta>,
            #[prost(bytes = "vec", tag = "2")]
            raw: Vec<u8>,
        }
        #[derive(Clone, PartialEq, prost::Message)]
        struct TypeMeta {
            #[prost(string, tag = "1")]
            api_version: String,
            #[prost(string, tag = "2")]
            kind: String,
        }
        let type_meta = Some(TypeMeta { api_version: "v1".into(), kind: "Node".into() });
        let mut bytes = b"k8s\0".to_vec();
        bytes.extend(Unknown { type_meta, raw: raw.to_vec() }.encode_to_vec());
        bytes
    }

    /// What is in the envelope.
    fn raw(enveloped: &[u8]) -> Vec<u8> {
        #[derive(Clone, PartialEq, prost::Message)]
        struct Raw {
            #[prost(bytes = "vec", tag = "2")]
            raw: Vec<u8>,
        }
        Raw::decode(enveloped.strip_prefix(b"k8s\0").unwrap()).unwrap().raw
    }

    /// An encoder that knows every field of the API reads ours as the same Node.
    #[test]
    fn ours_is_read_as_the_same_node() {
        let kind = sutler_builtin::lookup("", "v1", "Node").unwrap();
        let bytes = envelope(&encode_node(&typed()));
        let mut read = sutler_builtin::decode_protobuf(&bytes, Some(kind)).unwrap();
        // Decoders make something of fields that are not there.
        let read: Node = {
            read.as_object_mut().unwrap().entry("apiVersion").or_insert(json!("v1"));
            serde_json::from_value(read).unwrap()
        };
        assert_eq!(message(&read), message(&typed()));
        assert_eq!(read.metadata.name.as_deref(), Some("template-g"));
        assert_eq!(read.spec.unwrap().taints.unwrap().len(), 2);
    }

    /// The same Node by that encoder has every field where ours has it.
    #[test]
    fn the_known_encoding_is_read_by_ours() {
        let known = raw(&sutler_builtin::encode_protobuf(&fixture()).unwrap());
        let read = NodeMessage::decode(known.as_slice()).unwrap();
        assert_eq!(without_empty(read), without_empty(message(&typed())));
    }

    /// Kubernetes writes empty texts where ours leaves them out.
    fn without_empty(mut node: NodeMessage) -> NodeMessage {
        let drop_empty = |text: &mut Option<String>| {
            if text.as_deref() == Some("") {
                *text = None;
            }
        };
        if let Some(spec) = &mut node.spec {
            drop_empty(&mut spec.provider_id);
            for taint in &mut spec.taints {
                drop_empty(&mut taint.value);
            }
        }
        node
    }
}
