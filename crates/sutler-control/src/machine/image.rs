//! What a machine's root disk is made from, in the words of its provider.

use std::time::Duration;

use serde_json::{Map, Value};
use sutler_api::{
    infra::{VMImage, VirtualMachine},
    names::reasons,
};
use sutler_provider::{Capabilities, Image};

use super::resolve::to_map;
use crate::{
    context::Context,
    fleet::{Key, State},
    images,
    plan::{Blocker, Record},
};

/// The pause after which an image that is not ready is looked at again, should no event tell of it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The image of a record's machine; none for a node that its platform installs.
pub(super) fn of(
    context: &Context,
    vm: &VirtualMachine,
    record: &Record,
    provider: &State,
    capabilities: &Capabilities,
) -> Result<Option<Image>, Blocker> {
    if let Some(disk) = &vm.spec.imported_disk {
        return Ok(Some(Image {
            name: disk.disk_id.clone(),
            id: Some(disk.disk_id.clone()),
            path: disk.path.clone(),
            format: Some(disk.format.as_str().to_owned()),
            take_over: true,
            ..Image::default()
        }));
    }
    let Some(reference) = &vm.spec.image_ref else { return Ok(None) };
    let key = Key::new(reference.namespace_or(&record.namespace), &reference.name);
    let image = Context::cached(&context.images, &key)
        .ok_or_else(|| Blocker::missing("VMImage", "spec.imageRef", &key))?;
    let mut source = source_for(&image, &provider.type_)
        .map_err(|message| Blocker::invalid("spec.imageRef", &message))?;
    if !capabilities.image_import || record.id.is_some() {
        return Ok(Some(source));
    }
    if image.metadata.deletion_timestamp.is_some() && record.intent.is_none() {
        let message = format!(
            "spec.imageRef: VMImage {} is being deleted: name another, or make it anew",
            key.name
        );
        return Err(Blocker::waits(reasons::IMAGE_NOT_READY, message, LOOK_AGAIN));
    }
    // The platform takes images in, so this one is brought there first, once for all machines.
    let provider_key =
        Key::new(vm.spec.provider_ref.namespace_or(&record.namespace), &vm.spec.provider_ref.name);
    let name = images::status_key(&key, &provider_key);
    let status = image.status.as_ref().and_then(|status| status.provider_status.get(&name));
    match status {
        Some(there) if there.available => {
            source.id = there.id.clone();
            source.path = there.path.clone().or(source.path);
            Ok(Some(source))
        }
        other => {
            let detail = other.and_then(|status| status.message.clone());
            let detail = detail.unwrap_or_else(|| "its preparation has not begun".to_owned());
            let message = format!("VMImage {} is not ready on {provider_key}: {detail}", key.name);
            Err(Blocker::waits(reasons::IMAGE_NOT_READY, message, LOOK_AGAIN))
        }
    }
}

/// An image as a provider of this type takes it.
pub(crate) fn source_for(image: &VMImage, provider: &str) -> Result<Image, String> {
    let source = to_map(&image.spec.source);
    let name = image.metadata.name.clone().unwrap_or_default();
    let choices: &[&str] = match provider {
        "libvirt" | "qemu" => &["libvirt", "http"],
        "vsphere" => &["vsphere", "http"],
        "proxmox" => &["proxmox", "http"],
        "kubevirt" => &["dataVolume", "registry", "http"],
        "sim" => &["custom", "libvirt", "vsphere", "proxmox", "http", "registry", "dataVolume"],
        _ => &["custom", "http", "registry"],
    };
    let found = choices.iter().find_map(|choice| match source.get(*choice) {
        Some(Value::Object(found)) => Some((*choice, found.clone())),
        _ => None,
    });
    let Some((choice, found)) = found else {
        return Err(format!(
            "VMImage {name} has no source for a provider of type {provider}: add one of spec.source.{}",
            choices.join(", spec.source.")
        ));
    };
    Ok(convert(name, choice, found))
}

fn convert(name: String, choice: &str, source: Map<String, Value>) -> Image {
    let text = |names: &[&str]| {
        names.iter().find_map(|name| source.get(*name)).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    let checksum = text(&["checksum"])
        .map(|sum| (sum, text(&["checksumType"]).unwrap_or_else(|| "sha256".to_owned())));
    Image {
        name,
        id: None,
        template: text(&["templateName", "templateID", "template"]),
        path: text(&["path"]),
        url: text(&["url", "ovaURL", "image"]),
        format: text(&["format"]),
        checksum,
        storage: text(&["storagePool", "storage"]),
        linked: source.get("fullClone").and_then(Value::as_bool).is_some_and(|full| !full),
        take_over: false,
        source: Map::from_iter([(choice.to_owned(), Value::Object(source))]),
    }
}
