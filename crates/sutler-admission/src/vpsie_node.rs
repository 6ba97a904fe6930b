//! VPSieNodes: claims to nodes.

use std::net::{Ipv4Addr, Ipv6Addr};

use sutler_api::{
    autoscaler::{VPSieNode, VPSieNodeSpec},
    names::annotations,
};

use crate::{
    Who,
    ratchet::{Findings, Problem},
    syntax,
};

/// Everything that speaks against a record.
pub(crate) fn check(old: Option<&VPSieNode>, new: &VPSieNode, who: &Who<'_>) -> Findings {
    // What is known of the machine is written by Sutler, in the platform's own words.
    if who.sutler {
        return Findings::default();
    }
    let mut problems = malformed(&new.spec);
    if let Some(old) = old {
        problems.extend(fixed(old, &new.spec));
    }
    let mut warnings = Vec::new();
    if let Some(warning) = crate::node_group::misplaced_hours(new.metadata.annotations.as_ref()) {
        warnings.push(warning);
    }
    Findings { problems, warnings }
}

fn malformed(spec: &VPSieNodeSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |field: &str, message: String| problems.push(Problem::new(field, message));
    if !syntax::is_name(&spec.node_group_name) {
        let message = format!("{:?} is no name of a NodeGroup", spec.node_group_name);
        add("spec.nodeGroupName", message);
    }
    for (field, id) in [
        ("spec.vpsieInstanceID", spec.vpsie_instance_id),
        ("spec.vpsieGroupID", spec.vpsie_group_id),
    ] {
        if let Some(id) = id.filter(|id| *id < 0) {
            add(field, format!("{id} is below 0: write 0 while it is not known"));
        }
    }
    let address = spec.ip_address.as_deref().filter(|ip| !ip.is_empty());
    if let Some(ip) = address.filter(|ip| ip.parse::<Ipv4Addr>().is_err()) {
        add("spec.ipAddress", format!("{ip:?} is no IPv4 address"));
    }
    let address = spec.ipv6_address.as_deref().filter(|ip| !ip.is_empty());
    if let Some(ip) = address.filter(|ip| ip.parse::<Ipv6Addr>().is_err()) {
        add("spec.ipv6Address", format!("{ip:?} is no IPv6 address"));
    }
    problems
}

/// What has been decided by the time that a record is as it is.
fn fixed(old: &VPSieNode, new: &VPSieNodeSpec) -> Vec<Problem> {
    let mut problems = Vec::new();
    let before = &old.spec;
    if before.node_group_name != new.node_group_name {
        problems.push(Problem::new(
            "spec.nodeGroupName",
            format!(
                "cannot be changed from {:?}: a node stays in its group; delete the VPSieNode, and make \
                 the other group larger",
                before.node_group_name
            ),
        ));
    }
    let known = before.vpsie_instance_id.unwrap_or_default();
    if known != 0 && new.vpsie_instance_id != before.vpsie_instance_id {
        problems.push(Problem::new(
            "spec.vpsieInstanceID",
            format!("cannot be changed from {known}: it is the machine that the platform told of"),
        ));
    }
    if !is_asked_for(old) {
        return problems;
    }
    // Written out, so that a new field is decided on here too.
    let VPSieNodeSpec {
        node_group_name: _,
        provider_ref,
        class_ref,
        image_ref,
        vpsie_instance_id: _,
        vpsie_group_id: _,
        vpsie_node_identifier: _,
        instance_type,
        datacenter_id,
        resource_identifier,
        project,
        os_image_id,
        kubernetes_version,
        ssh_key_ids,
        node_name: _,
        ip_address: _,
        ipv6_address: _,
    } = before;
    for (field, changed) in [
        ("providerRef", *provider_ref != new.provider_ref),
        ("classRef", *class_ref != new.class_ref),
        ("imageRef", *image_ref != new.image_ref),
        ("instanceType", *instance_type != new.instance_type),
        ("datacenterID", *datacenter_id != new.datacenter_id),
        ("resourceIdentifier", *resource_identifier != new.resource_identifier),
        ("project", *project != new.project),
        ("osImageID", *os_image_id != new.os_image_id),
        ("kubernetesVersion", *kubernetes_version != new.kubernetes_version),
        ("sshKeyIDs", *ssh_key_ids != new.ssh_key_ids),
    ] {
        if changed {
            problems.push(Problem::new(
                &format!("spec.{field}"),
                "cannot be changed once the machine was asked for: change the NodeGroup and delete \
                 this VPSieNode, and another is made as the group says",
            ));
        }
    }
    problems
}

/// Whether a record's machine was asked for, or is there.
fn is_asked_for(record: &VPSieNode) -> bool {
    let noted = record.metadata.annotations.as_ref();
    let flag = |key: &str| noted.is_some_and(|notes| notes.contains_key(key));
    flag(annotations::CREATION_REQUESTED)
        || flag(annotations::CREATION_REQUESTED_AT)
        || record.spec.vpsie_instance_id.unwrap_or_default() != 0
        || record.status.as_ref().is_some_and(|status| status.vm_ref.is_some())
}
