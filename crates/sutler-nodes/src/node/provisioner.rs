//! The record of a node's machine.

use std::collections::BTreeMap;

use kube::{Resource as _, ResourceExt as _, api::ObjectMeta};
use sutler_api::{
    autoscaler::{NodeGroup, VPSieNode},
    infra::{
        GuestData, ManagedNode, Placement, PowerState, UserData, VirtualMachine, VirtualMachineSpec,
    },
    names::{annotations, finalizers, labels},
    refs::{LocalObjectRef, ObjectRef},
};

use super::record::{Asked, Record};

/// The namespace and name of the Provider that stands for VPSie where a group names none.
pub const IMPLICIT_PROVIDER: (&str, &str) = ("kube-system", "vpsie");

/// The VirtualMachine of a node's record. Its name is the record's own, so that it cannot be made twice.
pub fn machine_of(
    node: &VPSieNode,
    record: &Record,
    group: Option<&NodeGroup>,
    bootstrap: Option<String>,
) -> VirtualMachine {
    let spec = &node.spec;
    let managed = spec.class_ref.is_none();
    let mut notes = BTreeMap::from([(annotations::MADE_ONCE.to_owned(), "true".to_owned())]);
    if let Asked::Elsewhere(id) = record.asked {
        notes.insert(annotations::ASKED_AT.to_owned(), record.asked_at.to_string());
        if id != 0 {
            notes.insert(annotations::SAID_ID.to_owned(), id.to_string());
        }
    }
    let own = BTreeMap::from([
        (labels::MANAGED.to_owned(), "true".to_owned()),
        (labels::NODE_GROUP.to_owned(), spec.node_group_name.clone()),
        (labels::VPSIE_NODE.to_owned(), node.name_any()),
    ]);
    let managed_node = managed.then(|| ManagedNode {
        cluster: spec.resource_identifier.clone().unwrap_or_default(),
        group: spec.node_group_name.clone(),
        size: size_of(node, group),
    });
    VirtualMachine {
        metadata: ObjectMeta {
            name: Some(node.name_any()),
            namespace: node.namespace(),
            labels: Some(own),
            annotations: Some(notes),
            // A cluster's API server that is asked to delete what had no finalizer when it looked removes it
            // at once, even if one came in between, and with it the intent that came in the same write.
            finalizers: Some(vec![finalizers::VIRTUAL_MACHINE.to_owned()]),
            owner_references: node.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: VirtualMachineSpec {
            provider_ref: spec.provider_ref.clone().unwrap_or_else(|| ObjectRef {
                name: IMPLICIT_PROVIDER.1.to_owned(),
                namespace: Some(IMPLICIT_PROVIDER.0.to_owned()),
            }),
            class_ref: spec.class_ref.clone(),
            image_ref: spec.image_ref.clone(),
            managed_node,
            power_state: Some(PowerState::On),
            placement: region_of(node, group)
                .map(|region| Placement { region: Some(region), ..Placement::default() }),
            // A group of VPSie's own takes none, and its status says so.
            tags: group
                .filter(|_| !managed)
                .map(|group| group.spec.tags.clone())
                .unwrap_or_default(),
            user_data: bootstrap.map(|secret| UserData {
                cloud_init: Some(GuestData {
                    secret_ref: Some(LocalObjectRef::new(secret)),
                    ..GuestData::default()
                }),
                ..UserData::default()
            }),
            ..VirtualMachineSpec::default()
        },
        status: None,
    }
}

/// The size of a managed node in the platform's words.
fn size_of(node: &VPSieNode, group: Option<&NodeGroup>) -> Option<String> {
    let of_group = group.and_then(|group| group.spec.kube_size_id).map(|size| size.to_string());
    of_group.or_else(|| node.spec.instance_type.clone())
}

/// Where the machine is to be, in a group that is spread over several places. Else the Provider's own
/// default counts: a group's data centre is VPSie's word for where the group is.
fn region_of(node: &VPSieNode, group: Option<&NodeGroup>) -> Option<String> {
    let spread = group.and_then(|group| group.spec.multi_region.as_ref());
    spread.filter(|spread| spread.enabled).and(node.spec.datacenter_id.clone())
}
