//! Images and disks that are brought in and sent out.

use std::collections::BTreeMap;

use sutler_provider::{
    Credentials, DiskRef, ExportRequest, Exported, ImportRequest, Imported, PrepareRequest,
    Prepared,
};

use super::required;
use crate::{json, malformed::Malformed, pb::extended as pb};

fn exposed(credentials: &Credentials) -> BTreeMap<String, Vec<u8>> {
    credentials.iter().map(|(key, value)| (key.to_owned(), value.expose().to_vec())).collect()
}

impl From<PrepareRequest> for pb::ImagePrepareRequest {
    fn from(request: PrepareRequest) -> Self {
        let PrepareRequest { image, target, force, verify, options, credentials } = request;
        Self {
            image: Some(image.into()),
            target,
            force,
            verify,
            options_json: json::text(&options),
            credentials: exposed(&credentials),
        }
    }
}

impl TryFrom<pb::ImagePrepareRequest> for PrepareRequest {
    type Error = Malformed;

    fn try_from(request: pb::ImagePrepareRequest) -> Result<Self, Malformed> {
        let pb::ImagePrepareRequest { image, target, force, verify, options_json, credentials } =
            request;
        Ok(Self {
            image: required("image", image)?.try_into()?,
            target,
            force,
            verify,
            options: json::map("options_json", &options_json)?,
            credentials: credentials.into_iter().collect(),
        })
    }
}

impl From<Prepared> for pb::ImagePrepareResponse {
    fn from(Prepared { id, path, task, size_bytes }: Prepared) -> Self {
        Self { id, path, task: task.map(|task| task.0), size_bytes }
    }
}

impl From<pb::ImagePrepareResponse> for Prepared {
    fn from(answer: pb::ImagePrepareResponse) -> Self {
        let pb::ImagePrepareResponse { id, path, task, size_bytes } = answer;
        Self { id, path, task: task.map(Into::into), size_bytes }
    }
}

impl From<DiskRef> for pb::DiskRef {
    fn from(DiskRef { machine, disk, snapshot }: DiskRef) -> Self {
        Self { machine: machine.0, disk, snapshot: snapshot.map(|snapshot| snapshot.0) }
    }
}

impl From<pb::DiskRef> for DiskRef {
    fn from(pb::DiskRef { machine, disk, snapshot }: pb::DiskRef) -> Self {
        Self { machine: machine.into(), disk, snapshot: snapshot.map(Into::into) }
    }
}

impl From<ExportRequest> for pb::ExportDiskRequest {
    fn from(request: ExportRequest) -> Self {
        let ExportRequest { disk, destination, format, compress, credentials, storage } = request;
        Self {
            disk: Some(disk.into()),
            destination,
            format,
            compress,
            credentials: exposed(&credentials),
            storage_json: json::text(&storage),
        }
    }
}

impl TryFrom<pb::ExportDiskRequest> for ExportRequest {
    type Error = Malformed;

    fn try_from(request: pb::ExportDiskRequest) -> Result<Self, Malformed> {
        let pb::ExportDiskRequest {
            disk,
            destination,
            format,
            compress,
            credentials,
            storage_json,
        } = request;
        Ok(Self {
            disk: required("disk", disk)?.into(),
            destination,
            format,
            compress,
            credentials: credentials.into_iter().collect(),
            storage: json::map("storage_json", &storage_json)?,
        })
    }
}

impl From<Exported> for pb::ExportDiskResponse {
    fn from(Exported { id, task, size_bytes, checksum }: Exported) -> Self {
        Self { id, task: task.map(|task| task.0), size_bytes, checksum }
    }
}

impl From<pb::ExportDiskResponse> for Exported {
    fn from(answer: pb::ExportDiskResponse) -> Self {
        let pb::ExportDiskResponse { id, task, size_bytes, checksum } = answer;
        Self { id, task: task.map(Into::into), size_bytes, checksum }
    }
}

impl From<ImportRequest> for pb::ImportDiskRequest {
    fn from(request: ImportRequest) -> Self {
        let ImportRequest { source, target, format, storage_hint, checksum, credentials, storage } =
            request;
        Self {
            source,
            target,
            format,
            storage_hint,
            checksum,
            credentials: exposed(&credentials),
            storage_json: json::text(&storage),
        }
    }
}

impl TryFrom<pb::ImportDiskRequest> for ImportRequest {
    type Error = Malformed;

    fn try_from(request: pb::ImportDiskRequest) -> Result<Self, Malformed> {
        let pb::ImportDiskRequest {
            source,
            target,
            format,
            storage_hint,
            checksum,
            credentials,
            storage_json,
        } = request;
        Ok(Self {
            source,
            target,
            format,
            storage_hint,
            checksum,
            credentials: credentials.into_iter().collect(),
            storage: json::map("storage_json", &storage_json)?,
        })
    }
}

impl From<Imported> for pb::ImportDiskResponse {
    fn from(Imported { id, path, task, size_bytes, checksum }: Imported) -> Self {
        Self { id, path, task: task.map(|task| task.0), size_bytes, checksum }
    }
}

impl From<pb::ImportDiskResponse> for Imported {
    fn from(answer: pb::ImportDiskResponse) -> Self {
        let pb::ImportDiskResponse { id, path, task, size_bytes, checksum } = answer;
        Self { id, path, task: task.map(Into::into), size_bytes, checksum }
    }
}
