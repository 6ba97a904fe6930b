//! Payloads in the form of the kinds: images to be prepared, and copies.

use serde_json::{Map, Value, json};
use sutler_provider::{Class, CloneRequest, Firmware, Image, PrepareRequest};

use super::{payload, some};
use crate::{
    json::{self as text, Fields},
    malformed::Malformed,
    pb::base as pb,
};

/// Kinds of sources of an image that may hold a template, a path or a URL.
const SOURCES: [&str; 6] = ["vsphere", "libvirt", "proxmox", "http", "registry", "custom"];

/// An image to be prepared.
pub(crate) fn prepare_to(request: &PrepareRequest) -> pb::ImagePrepareRequest {
    let image = &request.image;
    let mut source = image.source.clone();
    if !SOURCES.iter().any(|kind| source.contains_key(*kind)) {
        let (kind, value) = match (&image.template, &image.path, &image.url) {
            (Some(template), ..) => ("vsphere", json!({"templateName": template})),
            (None, Some(path), _) => ("libvirt", json!({"path": path, "format": image.format})),
            (None, None, url) => ("http", json!({"url": url, "format": image.format})),
        };
        source.insert(kind.to_owned(), value);
    }
    let mut spec = Map::from_iter([("source".to_owned(), Value::Object(source))]);
    if !request.options.is_empty() {
        spec.insert("prepare".to_owned(), Value::Object(request.options.clone()));
    }
    pb::ImagePrepareRequest {
        image_json: Value::Object(spec).to_string(),
        target_name: request.target.clone(),
        storage_hint: image.storage.clone().unwrap_or_default(),
    }
}

/// Reads an image to be prepared.
pub(crate) fn prepare_from(request: pb::ImagePrepareRequest) -> Result<PrepareRequest, Malformed> {
    let pb::ImagePrepareRequest { image_json, target_name, storage_hint } = request;
    let value = text::parse("image_json", &image_json)?;
    let spec = Fields::of("image_json", &value)?.ok_or_else(|| Malformed::missing("image_json"))?;
    let mut image = Image { storage: some(storage_hint), ..Image::default() };
    if let Some(source) = spec.object("source")? {
        for kind in SOURCES {
            let Some(fields) = source.object(kind)? else { continue };
            // A number is how Proxmox names its templates.
            let number = fields.get("templateID").and_then(Value::as_u64);
            image.template =
                fields.text("templateName")?.or_else(|| number.map(|number| number.to_string()));
            image.path = fields.text("path")?;
            let url = fields.text("url")?;
            image.url = if url.is_some() { url } else { fields.text("ovaURL")? };
            image.format = fields.text("format")?;
            let how = fields.text("checksumType")?.unwrap_or_else(|| "sha256".to_owned());
            image.checksum = fields.text("checksum")?.map(|checksum| (checksum, how));
            break;
        }
        image.source = spec.get("source").and_then(Value::as_object).cloned().unwrap_or_default();
    }
    let named = [&image.template, &image.path, &image.url].into_iter().flatten().next();
    image.name = named.cloned().unwrap_or_else(|| target_name.clone());
    let options = spec.get("prepare").and_then(Value::as_object).cloned().unwrap_or_default();
    Ok(PrepareRequest { image, target: target_name, options, ..PrepareRequest::default() })
}

/// A copy. From a snapshot it cannot be asked for.
pub(crate) fn clone_to(request: &CloneRequest) -> pb::CloneRequest {
    pb::CloneRequest {
        source_vm_id: request.source.0.clone(),
        target_name: request.target.name.clone(),
        linked: request.linked,
        class_json: request.target.class.as_ref().map(class_spec).unwrap_or_default(),
        placement_json: String::new(),
        customize_json: text::text(&request.customize),
    }
}

/// The class of a copy, if one is named.
pub(crate) fn clone_class(class_json: &str) -> Result<Option<Class>, Malformed> {
    let value = text::parse("class_json", class_json)?;
    let Some(fields) = Fields::of("class_json", &value)? else { return Ok(None) };
    let class = payload::class(&fields)?;
    // One without a size leaves the copy as its source is.
    Ok(Some(class).filter(|class| class.cpu > 0 && class.memory_mib > 0))
}

fn class_spec(class: &Class) -> String {
    let mut spec = json!({
        "cpu": class.cpu,
        "memory": format!("{}Mi", class.memory_mib),
        "firmware": match class.firmware {
            Firmware::Bios => "BIOS",
            Firmware::Uefi => "UEFI",
        },
    });
    if let Some(size) = class.root_gib {
        spec["diskDefaults"] = json!({"size": format!("{size}Gi"), "type": class.disk_type});
    }
    for (name, value) in &class.profiles {
        spec[name.as_str()] = value.clone();
    }
    if !class.extra.is_empty() {
        spec["extraConfig"] = json!(class.extra);
    }
    spec.to_string()
}
