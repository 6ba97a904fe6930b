//! Disks that are sent out and brought in, in the words of `provider.v1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sutler_provider::{Credentials, DiskRef, Error, ExportRequest, ImportRequest};

use super::some;
use crate::{json, malformed::Malformed, pb::base as pb};

/// A disk to be sent out.
pub(crate) fn export_to(request: ExportRequest) -> Result<pb::ExportDiskRequest, Error> {
    let ExportRequest { disk, destination, format, compress, credentials, storage } = request;
    let DiskRef { machine, disk, snapshot } = disk;
    Ok(pb::ExportDiskRequest {
        vm_id: machine.0,
        disk_id: disk.unwrap_or_default(),
        snapshot_id: snapshot.map(|snapshot| snapshot.0).unwrap_or_default(),
        backend_type: backend(&storage, &destination),
        destination_url: destination,
        format: format.unwrap_or_default(),
        compress,
        credentials: texts(&credentials)?,
        transfer_mode: mode(&storage),
        storage_options_json: json::text(&storage),
    })
}

/// Reads a disk to be sent out.
pub(crate) fn export_from(request: pb::ExportDiskRequest) -> Result<ExportRequest, Malformed> {
    let pb::ExportDiskRequest {
        vm_id,
        disk_id,
        snapshot_id,
        destination_url,
        format,
        compress,
        credentials,
        backend_type,
        transfer_mode,
        storage_options_json,
    } = request;
    Ok(ExportRequest {
        disk: DiskRef {
            machine: vm_id.into(),
            disk: some(disk_id),
            snapshot: some(snapshot_id).map(Into::into),
        },
        destination: destination_url,
        format: some(format),
        compress,
        credentials: credentials.into_iter().map(|(k, v)| (k, v.into_bytes())).collect(),
        storage: storage(&storage_options_json, backend_type, transfer_mode)?,
    })
}

/// A disk to be brought in.
pub(crate) fn import_to(request: ImportRequest) -> Result<pb::ImportDiskRequest, Error> {
    let ImportRequest { source, target, format, storage_hint, checksum, credentials, storage } =
        request;
    Ok(pb::ImportDiskRequest {
        backend_type: backend(&storage, &source),
        source_url: source,
        storage_hint: storage_hint.unwrap_or_default(),
        format: format.unwrap_or_default(),
        target_name: target,
        verify_checksum: checksum.is_some(),
        expected_checksum: checksum.unwrap_or_default(),
        credentials: texts(&credentials)?,
        transfer_mode: mode(&storage),
        storage_options_json: json::text(&storage),
    })
}

/// Reads a disk to be brought in.
pub(crate) fn import_from(request: pb::ImportDiskRequest) -> Result<ImportRequest, Malformed> {
    let pb::ImportDiskRequest {
        source_url,
        storage_hint,
        format,
        target_name,
        verify_checksum,
        expected_checksum,
        credentials,
        backend_type,
        transfer_mode,
        storage_options_json,
    } = request;
    Ok(ImportRequest {
        source: source_url,
        target: target_name,
        format: some(format),
        storage_hint: some(storage_hint),
        checksum: some(expected_checksum).filter(|_| verify_checksum),
        credentials: credentials.into_iter().map(|(k, v)| (k, v.into_bytes())).collect(),
        storage: storage(&storage_options_json, backend_type, transfer_mode)?,
    })
}

fn storage(options: &str, backend: String, mode: String) -> Result<Map<String, Value>, Malformed> {
    let mut storage = json::map("storage_options_json", options)?;
    for (key, value) in [("backend", backend), ("transferMode", mode)] {
        if !value.is_empty() && !storage.contains_key(key) {
            storage.insert(key.to_owned(), value.into());
        }
    }
    Ok(storage)
}

/// The kind of storage in between: as it is said, or as the address has it.
fn backend(storage: &Map<String, Value>, url: &str) -> String {
    let said = storage.get("backend").and_then(Value::as_str);
    let scheme = || url.split_once("://").map(|(scheme, _)| scheme);
    said.or_else(scheme).unwrap_or_default().to_owned()
}

fn mode(storage: &Map<String, Value>) -> String {
    storage.get("transferMode").and_then(Value::as_str).unwrap_or("relay").to_owned()
}

fn texts(credentials: &Credentials) -> Result<BTreeMap<String, String>, Error> {
    let text = |key: &str, value: &[u8]| {
        String::from_utf8(value.to_vec()).map(|text| (key.to_owned(), text)).map_err(|_| {
            Error::invalid(
                key.to_owned(),
                "provider.v1 carries credentials as text, and this is none",
            )
        })
    };
    credentials.iter().map(|(key, value)| text(key, value.expose())).collect()
}
