//! Nodes of Kubernetes that a VPSieNode stands behind.

use serde_json::Value;
use sutler_api::names::{annotations, labels};
use sutler_scale::shrink::Hours;

use crate::{
    Refusal, Warnings, Who,
    ratchet::{Findings, Problem},
};

/// The deletion of a Node. Its machine would run on, paid for and without a node, until the record
/// notices; whoever wants the node gone wants its record gone.
///
/// Programs of the cluster, all of which have names that begin with `system:`, delete Nodes whose
/// machines are gone, and must not be held up.
pub(crate) fn delete(node: &Value, who: &Who<'_>) -> Result<Warnings, Vec<Refusal>> {
    let of = |map: &str, key: &str| {
        let value = node.get("metadata")?.get(map)?.get(key)?.as_str()?;
        (!value.is_empty()).then_some(value)
    };
    let Some(record) = of("labels", labels::VPSIE_NODE) else { return Ok(Warnings::new()) };
    let program = who.user.starts_with("system:") && who.user != "system:admin";
    let allowed = of("annotations", annotations::ALLOW_DELETION) == Some("true");
    let going = node.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null());
    if who.sutler || program || allowed || going {
        return Ok(Warnings::new());
    }
    let space = of("labels", labels::NODE_GROUP_NAMESPACE);
    let space = space.map(|space| format!(" -n {space}")).unwrap_or_default();
    let message = format!(
        "VPSieNode {record} keeps this node, and its machine would run on without it: delete the \
         VPSieNode (kubectl delete vpsienode {record}{space}) or make its NodeGroup smaller, which \
         drains the node and removes its machine; to delete the Node alone, annotate it with {}=true",
        annotations::ALLOW_DELETION
    );
    Err(vec![Refusal { field: format!("metadata.labels[{}]", labels::VPSIE_NODE), message }])
}

/// A change of a Node: of all that is in it, only what people write for Sutler is looked at.
pub(crate) fn update(node: &Value) -> Findings {
    let key = annotations::SCALE_DOWN_ALLOWED_HOURS;
    let noted = node.get("metadata").and_then(|meta| meta.get("annotations")?.get(key)?.as_str());
    match noted {
        Some(text) if Hours::read(text).is_none() => Findings::from(Problem::of_annotation(
            key,
            format!(
                "{text:?} is not hours of the day: write HH:MM-HH:MM in UTC, such as 22:00-06:00"
            ),
        )),
        _ => Findings::default(),
    }
}
