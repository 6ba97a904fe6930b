//! The contract between whoever decides on the size of a NodeGroup and the controller that carries
//! it out.
//!
//! A group is made larger or smaller by `spec.desiredNodes` alone. Whoever wants certain nodes to go
//! names their VPSieNodes in [`REMOVING`], in the same write that lowers `spec.desiredNodes`: so no
//! moment shows the one without the other. The controller deletes the records that are named, and
//! takes a name off once its record is gone. A name that is on the list, and a record that is being
//! deleted, are no longer part of the group's size.

use std::collections::BTreeSet;

use kube::ResourceExt as _;

use crate::{
    autoscaler::{NodeGroup, VPSieNode},
    names::labels,
};

/// Annotation of a NodeGroup: the VPSieNodes that are to leave it, as a JSON array of names, sorted
/// and without duplicates. Absent when there are none.
pub const REMOVING: &str = "autoscaler.vpsie.com/removing";

/// What [`provider_id`] begins with.
pub const PROVIDER_ID_SCHEME: &str = "sutler://";

/// Why [`REMOVING`] cannot be read. Nothing may be removed or counted before somebody repairs it, so
/// there is no use in trying again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {REMOVING} is {found:?}: write a JSON array of VPSieNode names, or remove it")]
pub struct UnreadableRemoving {
    /// What is there instead.
    pub found: String,
}

/// The VPSieNodes that are to leave the group.
pub fn removing(group: &NodeGroup) -> Result<BTreeSet<String>, UnreadableRemoving> {
    let Some(text) = group.annotations().get(REMOVING) else { return Ok(BTreeSet::new()) };
    serde_json::from_str(text).map_err(|_| UnreadableRemoving { found: text.clone() })
}

/// Writes down which VPSieNodes are to leave the group.
pub fn set_removing(group: &mut NodeGroup, names: &BTreeSet<String>) {
    if names.is_empty() {
        group.annotations_mut().remove(REMOVING);
    } else {
        let list = names.iter().map(String::as_str).collect::<Vec<_>>();
        let text = serde_json::Value::from(list).to_string();
        group.annotations_mut().insert(REMOVING.to_owned(), text);
    }
}

/// How many nodes a group is to have, those included that are not there yet: `spec.desiredNodes`
/// within minNodes and maxNodes.
///
/// `spec.desiredNodes` has the default 0. Where minNodes is above that, 0 cannot have been wished for
/// and means that nobody has decided yet: then `status.desiredNodes` counts, which systems without
/// the field in the spec wrote, and else minNodes.
pub fn target_size(group: &NodeGroup) -> i32 {
    let (least, most) = (group.spec.min_nodes, group.spec.max_nodes);
    let wish = match group.spec.desired_nodes {
        0 if least > 0 => group.status.as_ref().map_or(least, |status| status.desired_nodes),
        wish => wish,
    };
    // Not `clamp`, which panics when a group from before our rules has them the wrong way round.
    wish.min(most).max(least)
}

/// Whether somebody outside of Sutler's own rules may decide on the group's size.
pub fn is_managed(group: &NodeGroup) -> bool {
    group.labels().get(labels::MANAGED).is_some_and(|value| value == "true")
}

/// What a group is called where one word must do: `namespace/name`.
pub fn group_id(group: &NodeGroup) -> String {
    format!("{}/{}", group.namespace().unwrap_or_default(), group.name_any())
}

/// Whether the record is one of the group's.
pub fn is_of(record: &VPSieNode, group: &NodeGroup) -> bool {
    record.namespace() == group.namespace() && record.spec.node_group_name == group.name_any()
}

/// Whether the record no longer counts for its group's size, or soon will not: it is being deleted,
/// or it is on the group's list, which is `removing`.
pub fn is_leaving(record: &VPSieNode, removing: &BTreeSet<String>) -> bool {
    record.metadata.deletion_timestamp.is_some() || removing.contains(&record.name_any())
}

/// The `spec.providerID` of a Node to which no platform gives one: `sutler://namespace/name` of its
/// VPSieNode. It is known before the node joins, so whoever waits for the node can know it by this.
pub fn provider_id(record: &VPSieNode) -> String {
    format!("{PROVIDER_ID_SCHEME}{}/{}", record.namespace().unwrap_or_default(), record.name_any())
}

/// Namespace and name of the VPSieNode that a [`provider_id`] speaks of.
pub fn from_provider_id(id: &str) -> Option<(&str, &str)> {
    let (namespace, name) = id.strip_prefix(PROVIDER_ID_SCHEME)?.split_once('/')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autoscaler::{NodeGroupStatus, VPSieNodeSpec};

    fn group(least: i32, most: i32, desired: i32, told: Option<i32>) -> NodeGroup {
        let spec = serde_json::json!({
            "minNodes": least, "maxNodes": most, "desiredNodes": desired,
        });
        let mut group = NodeGroup::new("g", serde_json::from_value(spec).unwrap());
        group.metadata.namespace = Some("ns".to_owned());
        group.status = told
            .map(|desired_nodes| NodeGroupStatus { desired_nodes, ..NodeGroupStatus::default() });
        group
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_list_is_written_and_read() {
        let mut group = group(0, 3, 2, None);
        assert_eq!(removing(&group), Ok(BTreeSet::new()));
        set_removing(&mut group, &names(&["b", "a"]));
        assert_eq!(group.annotations()[REMOVING], r#"["a","b"]"#);
        assert_eq!(removing(&group), Ok(names(&["a", "b"])));
        set_removing(&mut group, &BTreeSet::new());
        assert_eq!(group.annotations().get(REMOVING), None);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_not_an_empty_one() {
        for text in ["", "a,b", "{}", "[1]", "null"] {
            let mut group = group(0, 3, 2, None);
            group.annotations_mut().insert(REMOVING.to_owned(), text.to_owned());
            let error = removing(&group).unwrap_err();
            assert_eq!(error.found, text);
            assert!(error.to_string().contains(REMOVING));
        }
    }

    #[test]
    fn the_size_is_the_wish_within_its_bounds() {
        for (least, most, desired, told, size) in [
            (1, 5, 3, Some(2), 3),
            (1, 5, 0, Some(2), 2),
            (1, 5, 0, Some(0), 1),
            (2, 5, 0, None, 2),
            // Zero that can be wished for is a wish.
            (0, 5, 0, Some(2), 0),
            (0, 5, 9, None, 5),
            (2, 5, 1, None, 2),
            (4, 2, 3, None, 4),
        ] {
            assert_eq!(target_size(&group(least, most, desired, told)), size, "{least} {desired}");
        }
    }

    #[test]
    fn an_id_leads_back_to_its_record() {
        let mut record = VPSieNode::new("n-1", VPSieNodeSpec::default());
        record.metadata.namespace = Some("ns".to_owned());
        assert_eq!(provider_id(&record), "sutler://ns/n-1");
        assert_eq!(from_provider_id("sutler://ns/n-1"), Some(("ns", "n-1")));
        for other in ["", "sutler://", "sutler://ns", "sutler:///n", "sutler://a/b/c", "aws:///x/y"]
        {
            assert_eq!(from_provider_id(other), None, "{other}");
        }
    }

    #[test]
    fn records_belong_by_namespace_and_group() {
        let group = group(0, 3, 1, None);
        let spec = VPSieNodeSpec { node_group_name: "g".to_owned(), ..VPSieNodeSpec::default() };
        let mut record = VPSieNode::new("n", spec);
        record.metadata.namespace = Some("ns".to_owned());
        assert!(is_of(&record, &group));
        assert!(!is_leaving(&record, &names(&["m"])));
        assert!(is_leaving(&record, &names(&["n"])));
        record.metadata.namespace = Some("other".to_owned());
        assert!(!is_of(&record, &group));
    }
}
