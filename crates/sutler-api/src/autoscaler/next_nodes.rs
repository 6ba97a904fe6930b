//! What the next nodes of a group are to be, where whoever made it larger has decided that.
//!
//! A group is made larger by `spec.desiredNodes`. Whoever also knows of which size or in which place the new
//! nodes should be names that in [`NEXT_NODES`], in the same write: by the names of the VPSieNodes that are
//! made next, which are the lowest free ones. The controller makes a record as it is named there, and else as
//! the group says, and takes a name off once its record is there or is no longer wanted. It is a wish: where
//! the names have changed in between, a node is as the group says, and it is decided anew.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

use crate::{autoscaler::NodeGroup, names::annotations::NEXT_NODES};

/// What one node is to be; what is absent is as the group says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NextNode {
    /// Its size: one of the group's `offeringIDs`, or its class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Its place: one of the group's data centres.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// What the next nodes are to be, by the names of their records. What cannot be read is no wish.
pub fn next_nodes(group: &NodeGroup) -> BTreeMap<String, NextNode> {
    let text = group.annotations().get(NEXT_NODES);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The value of the annotation; null where there is nothing to say.
pub fn annotation(nodes: &BTreeMap<String, NextNode>) -> serde_json::Value {
    match nodes.is_empty() {
        true => serde_json::Value::Null,
        false => serde_json::to_string(nodes).map_or(serde_json::Value::Null, Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nonsense_is_no_wish() {
        let spec = serde_json::json!({"minNodes": 0, "maxNodes": 3});
        let mut group = NodeGroup::new("g", serde_json::from_value(spec).unwrap());
        assert!(next_nodes(&group).is_empty());
        let large = NextNode { size: Some("large".to_owned()), place: None };
        let wishes = BTreeMap::from([("g-0001".to_owned(), large)]);
        let text = annotation(&wishes);
        assert_eq!(text, r#"{"g-0001":{"size":"large"}}"#);
        group.annotations_mut().insert(NEXT_NODES.to_owned(), text.as_str().unwrap().to_owned());
        assert_eq!(next_nodes(&group), wishes);
        group.annotations_mut().insert(NEXT_NODES.to_owned(), "[]".to_owned());
        assert!(next_nodes(&group).is_empty());
        assert!(annotation(&BTreeMap::new()).is_null());
    }
}
