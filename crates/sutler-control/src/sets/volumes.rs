//! Disks of a set's machines that outlive them: one VMDisk per template and number, which the next
//! machine of that number gets, and what becomes of it when the set shrinks or goes.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use sutler_api::{
    infra::{
        DiskSpec, VMSet, VMSetSpec, VirtualMachine, VolumeClaimTemplate, VolumeRetentionPolicy,
    },
    names::{MANAGER, labels, reasons},
    quantity::Quantity,
    refs::LocalObjectRef,
    sutler::{VMDisk, VMDiskSpec},
};

use super::{
    Trouble,
    act::LABEL_LIMIT,
    members,
    wanted::{Refusal, invalid},
};
use crate::{
    context::Context,
    fleet::Key,
    machine::Error,
    rules::{Rule, broken},
};

const GIB: u64 = 1 << 30;

/// The largest disk that a record can name.
const MOST_GIB: u64 = 65_536;

/// A disk that each machine of a set has, and that stays when the machine goes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Volume {
    /// Its name within the machine.
    name: String,
    size_gib: i32,
    storage: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    finalizers: Vec<String>,
}

/// The disks that outlive a set's machines, or the field that makes no sense.
pub(crate) fn volumes(spec: &VMSetSpec) -> Result<Vec<Volume>, Refusal> {
    let mut all: Vec<Volume> = Vec::new();
    for (index, template) in spec.volume_claim_templates.iter().enumerate() {
        let field = format!("spec.volumeClaimTemplates[{index}]");
        let volume = volume(template, &field)?;
        let taken = all.iter().any(|other| other.name == volume.name)
            || spec.template.spec.disks.iter().any(|disk| disk.name == volume.name);
        if taken {
            let message = format!("another disk of the machines is called {}", volume.name);
            return Err(invalid(&format!("{field}.metadata.name"), message));
        }
        all.push(volume);
    }
    Ok(all)
}

fn volume(template: &VolumeClaimTemplate, field: &str) -> Result<Volume, Refusal> {
    let metadata = template.metadata.clone().unwrap_or_default();
    let Some(name) = metadata.name.filter(|name| !name.is_empty()) else {
        return Err(invalid(&format!("{field}.metadata.name"), "name the disk"));
    };
    let spec = &template.spec;
    let once = ["ReadWriteOnce", "ReadWriteOncePod"];
    if let Some(mode) = spec.access_modes.iter().find(|mode| !once.contains(&mode.as_str())) {
        let message = format!("{mode} cannot be had: a disk is one machine's: say ReadWriteOnce");
        return Err(invalid(&format!("{field}.spec.accessModes"), message));
    }
    if spec.volume_mode.as_deref().is_some_and(|mode| mode != "Block") {
        let message = "the machine gets the bare disk: say Block, or leave it out";
        return Err(invalid(&format!("{field}.spec.volumeMode"), message));
    }
    let unserved = [
        ("selector", spec.selector.is_some()),
        ("volumeName", spec.volume_name.is_some()),
        ("dataSource", spec.data_source.is_some()),
        ("dataSourceRef", spec.data_source_ref.is_some()),
        ("volumeAttributesClassName", spec.volume_attributes_class_name.is_some()),
    ];
    if let Some((which, _)) = unserved.iter().find(|(_, is_set)| *is_set) {
        let message = format!("{field}.spec.{which} is not served by this release: remove it");
        return Err(Refusal { reason: reasons::NOT_YET_SERVED, message });
    }
    let resources = spec.resources.clone().unwrap_or_default();
    if resources.limits.is_some_and(|limits| !limits.is_empty()) {
        let message = "a disk has one size: give it in requests.storage";
        return Err(invalid(&format!("{field}.spec.resources.limits"), message));
    }
    let size = resources.requests.unwrap_or_default().remove("storage");
    let field = format!("{field}.spec.resources.requests.storage");
    let Some(size) = size else { return Err(invalid(&field, "say how large the disk is")) };
    let bytes = Quantity(size.0).to_u64().map_err(|error| invalid(&field, error))?;
    let gib = bytes.div_ceil(GIB);
    let size_gib = i32::try_from(gib).ok().filter(|_| (1..=MOST_GIB).contains(&gib));
    let Some(size_gib) = size_gib else {
        return Err(invalid(&field, format!("a disk has 1 to {MOST_GIB} GiB")));
    };
    Ok(Volume {
        name,
        size_gib,
        storage: spec.storage_class_name.clone().filter(|name| !name.is_empty()),
        labels: metadata.labels,
        annotations: metadata.annotations,
        finalizers: metadata.finalizers,
    })
}

impl Volume {
    /// The name of the record of a number's disk.
    fn disk_name(&self, set: &str, number: u32) -> String {
        format!("{}-{}", self.name, members::name(set, number))
    }

    /// Whether a number's disk is known to be on record.
    pub(super) fn is_on_record(&self, context: &Context, set: &VMSet, number: u32) -> bool {
        let name = self.disk_name(&set.name_any(), number);
        let key = Key::new(set.namespace().unwrap_or_default(), name);
        Context::cached(&context.disks, &key).is_some()
    }

    /// The disk as a number's machine names it.
    pub(super) fn disk(&self, set: &str, number: u32) -> DiskSpec {
        DiskSpec {
            name: self.name.clone(),
            size_gib: self.size_gib,
            storage_class: self.storage.clone(),
            disk_ref: Some(LocalObjectRef::new(self.disk_name(set, number))),
            ..DiskSpec::default()
        }
    }

    fn record(&self, set: &VMSet, number: u32) -> VMDisk {
        let mut marks = self.labels.clone();
        if set.name_any().len() <= LABEL_LIMIT {
            marks.insert(labels::VM_SET.to_owned(), set.name_any());
        }
        let spec = VMDiskSpec { provider_ref: set.spec.template.spec.provider_ref.clone() };
        let mut disk = VMDisk::new(&self.disk_name(&set.name_any(), number), spec);
        disk.metadata = ObjectMeta {
            name: disk.metadata.name,
            namespace: set.namespace(),
            labels: Some(marks),
            annotations: Some(self.annotations.clone()).filter(|notes| !notes.is_empty()),
            finalizers: Some(self.finalizers.clone()).filter(|names| !names.is_empty()),
            owner_references: Some(owners(set, None)).filter(|owners| !owners.is_empty()),
            ..ObjectMeta::default()
        };
        disk
    }
}

/// Sees to it that the disks of a number are on record before its machine names them. Those that an
/// earlier machine left are taken with what is on them.
pub(super) async fn ensure(
    context: &Context,
    set: &VMSet,
    volumes: &[Volume],
    number: u32,
) -> Result<Option<Trouble>, Error> {
    let api = api(context, set);
    for volume in volumes {
        let record = volume.record(set, number);
        let name = record.name_any();
        let key = Key::new(set.namespace().unwrap_or_default(), &name);
        let there = match Context::cached(&context.disks, &key) {
            Some(known) => Some(known),
            None => match api.create(&PostParams::default(), &record).await {
                Ok(_) => None,
                Err(kube::Error::Api(status)) if status.code == 409 => {
                    api.get_opt(&name).await?.map(Arc::new)
                }
                Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                    let message = format!("VMDisk {name} cannot be made: {}", status.message);
                    let refused = status.code == 403;
                    let reason = if refused { reasons::DENIED } else { reasons::INVALID };
                    return Ok(Some(Trouble { reason, message, stalled: !refused }));
                }
                Err(error) => return Err(error.into()),
            },
        };
        if there.is_some_and(|disk| disk.metadata.deletion_timestamp.is_some()) {
            let message =
                format!("VMDisk {name} is being deleted: the next one of its name is made");
            return Ok(Some(Trouble { reason: reasons::WAITING, message, stalled: false }));
        }
    }
    Ok(None)
}

/// Ties the disks of a number to what they are to go with: to its machine, where that one goes for
/// good and disks go with it; to the set, where they go with that; or to nothing.
pub(super) async fn tie(
    context: &Context,
    set: &VMSet,
    volumes: &[Volume],
    number: u32,
    for_good: bool,
) -> Result<bool, Error> {
    let own = set.namespace().unwrap_or_default();
    let member = members::name(&set.name_any(), number);
    let vm = Context::cached(&context.machines, &Key::new(&own, &member));
    let owners = owners(set, vm.as_deref().filter(|_| for_good));
    let mut tied = true;
    for volume in volumes {
        let key = Key::new(&own, volume.disk_name(&set.name_any(), number));
        let Some(disk) = Context::cached(&context.disks, &key) else { continue };
        let now = disk.metadata.owner_references.clone().unwrap_or_default();
        let of_us = |owner: &OwnerReference| match owner.kind.as_str() {
            "VMSet" => owner.name == set.name_any(),
            "VirtualMachine" => owner.name == member,
            _ => false,
        };
        let mut wanted: Vec<_> = now.iter().filter(|owner| !of_us(owner)).cloned().collect();
        wanted.extend(owners.iter().cloned());
        if wanted == now {
            continue;
        }
        let body = json!({ "metadata": {
            "ownerReferences": wanted,
            "resourceVersion": disk.resource_version(),
            "uid": disk.uid(),
        }});
        let params = PatchParams::apply(MANAGER);
        match api(context, set).patch(&key.name, &params, &Patch::Merge(body)).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => tied = false,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(tied)
}

/// What a disk goes with, where its machine goes for good or not.
fn owners(set: &VMSet, going: Option<&VirtualMachine>) -> Vec<OwnerReference> {
    let policy = set.spec.persistent_volume_claim_retention_policy.clone().unwrap_or_default();
    let goes = |policy| policy == VolumeRetentionPolicy::Delete;
    let heedless = broken(Rule::KeptDisksStay);
    match going {
        Some(vm) if goes(policy.when_scaled) || heedless => vm.owner_ref(&()).into_iter().collect(),
        _ if goes(policy.when_deleted) => set.owner_ref(&()).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn api(context: &Context, set: &VMSet) -> Api<VMDisk> {
    Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn set(change: impl FnOnce(&mut Value)) -> VMSet {
        let mut set = json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VMSet",
            "metadata": { "name": "web", "namespace": "ns", "uid": "set-uid" },
            "spec": {
                "selector": { "matchLabels": { "app": "web" } },
                "template": {
                    "metadata": { "labels": { "app": "web" } },
                    "spec": { "providerRef": { "name": "sim" }, "disks": [{ "name": "scratch", "sizeGiB": 1 }] },
                },
                "volumeClaimTemplates": [{
                    "metadata": {
                        "name": "data", "labels": { "tier": "db" }, "finalizers": ["a.b/c"],
                    },
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "fast",
                        "resources": { "requests": { "storage": "1500Mi" } },
                    },
                }],
            },
        });
        change(&mut set);
        serde_json::from_value(set).unwrap()
    }

    #[test]
    fn a_template_becomes_a_disk_of_each_number() {
        let set = set(|_| {});
        let volumes = volumes(&set.spec).unwrap();
        let disk = volumes[0].disk("web", 3);
        assert_eq!((disk.name.as_str(), disk.size_gib), ("data", 2));
        assert_eq!(disk.storage_class.as_deref(), Some("fast"));
        assert_eq!(disk.disk_ref.unwrap().name, "data-web-3");
        let record = volumes[0].record(&set, 3);
        assert_eq!(record.name_any(), "data-web-3");
        assert_eq!(record.labels().get("tier").map(String::as_str), Some("db"));
        assert_eq!(record.spec.provider_ref.name, "sim");
        assert_eq!(record.finalizers(), ["a.b/c"]);
        assert!(record.metadata.owner_references.is_none());
    }

    #[test]
    fn what_cannot_be_had_is_named() {
        let template = |set: &mut Value| set["spec"]["volumeClaimTemplates"][0].take();
        type Case = (&'static str, fn(&mut Value), &'static str);
        let cases: [Case; 8] = [
            ("/metadata/name", |t| t["metadata"] = json!({}), reasons::INVALID),
            ("/metadata/name", |t| t["metadata"]["name"] = json!("scratch"), reasons::INVALID),
            (
                "/spec/accessModes",
                |t| t["spec"]["accessModes"] = json!(["ReadWriteMany"]),
                reasons::INVALID,
            ),
            (
                "/spec/volumeMode",
                |t| t["spec"]["volumeMode"] = json!("Filesystem"),
                reasons::INVALID,
            ),
            ("/spec/volumeName", |t| t["spec"]["volumeName"] = json!("v"), reasons::NOT_YET_SERVED),
            (
                "/spec/resources/limits",
                |t| t["spec"]["resources"]["limits"] = json!({ "storage": "4Gi" }),
                reasons::INVALID,
            ),
            (
                "/spec/resources/requests/storage",
                |t| t["spec"]["resources"] = json!({}),
                reasons::INVALID,
            ),
            (
                "/spec/resources/requests/storage",
                |t| t["spec"]["resources"]["requests"]["storage"] = json!("0"),
                reasons::INVALID,
            ),
        ];
        for (field, change, reason) in cases {
            let set = set(|set| {
                let mut one = template(set);
                change(&mut one);
                set["spec"]["volumeClaimTemplates"][0] = one;
            });
            let refusal = volumes(&set.spec).unwrap_err();
            let field = format!("spec.volumeClaimTemplates[0]{}", field.replace('/', "."));
            assert!(refusal.message.starts_with(&field), "{field}: {}", refusal.message);
            assert_eq!(refusal.reason, reason, "{}", refusal.message);
        }
    }

    #[test]
    fn disks_go_with_what_the_policy_says() {
        let vm: VirtualMachine = serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": { "name": "web-3", "namespace": "ns", "uid": "vm-uid" },
            "spec": { "providerRef": { "name": "sim" } },
        }))
        .unwrap();
        let owner = |deleted: &str, scaled: &str, going: bool| -> Vec<String> {
            let set = set(|set| {
                set["spec"]["persistentVolumeClaimRetentionPolicy"] =
                    json!({ "whenDeleted": deleted, "whenScaled": scaled });
            });
            owners(&set, Some(&vm).filter(|_| going)).into_iter().map(|owner| owner.kind).collect()
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(owner("Retain", "Retain", true), none);
        assert_eq!(owner("Retain", "Retain", false), none);
        assert_eq!(owner("Delete", "Retain", true), ["VMSet"]);
        assert_eq!(owner("Delete", "Retain", false), ["VMSet"]);
        assert_eq!(owner("Retain", "Delete", true), ["VirtualMachine"]);
        assert_eq!(owner("Retain", "Delete", false), none);
        assert_eq!(owner("Delete", "Delete", true), ["VirtualMachine"]);
        assert_eq!(owner("Delete", "Delete", false), ["VMSet"]);
    }
}
