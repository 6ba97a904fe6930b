//! Machines to be made or changed.

use std::time::Duration;

use sutler_provider::{
    Accepted, Class, CloneRequest, CreateRequest, DeleteRequest, Disk, Firmware, GuestCommand,
    GuestOutput, HardwareUpgradeRequest, Image, ManagedNode, MigrateRequest, Nic, Placement,
    PowerOp, PowerRequest, ReconfigureRequest, SnapshotRequest, Snapshotted, Started,
};

use super::{identity::proof, narrow, required};
use crate::{json, malformed::Malformed, pb::extended as pb, status::millis};

impl From<Class> for pb::Class {
    fn from(class: Class) -> Self {
        let Class {
            cpu,
            memory_mib,
            gpu,
            firmware,
            root_gib,
            disk_type,
            storage,
            iops,
            guest_tools,
            profiles,
            extra,
        } = class;
        let firmware = match firmware {
            Firmware::Bios => pb::Firmware::Bios,
            Firmware::Uefi => pb::Firmware::Uefi,
        };
        Self {
            cpu,
            memory_mib,
            gpu: gpu.map(|(count, model, memory_mib)| pb::Gpu { count, model, memory_mib }),
            firmware: firmware.into(),
            root_gib,
            disk_type,
            storage,
            iops,
            guest_tools,
            profiles_json: json::text(&profiles),
            extra,
        }
    }
}

impl TryFrom<pb::Class> for Class {
    type Error = Malformed;

    fn try_from(class: pb::Class) -> Result<Self, Malformed> {
        let pb::Class {
            cpu,
            memory_mib,
            gpu,
            firmware,
            root_gib,
            disk_type,
            storage,
            iops,
            guest_tools,
            profiles_json,
            extra,
        } = class;
        let firmware = match pb::Firmware::try_from(firmware) {
            Ok(pb::Firmware::Bios) => Firmware::Bios,
            Ok(pb::Firmware::Uefi) => Firmware::Uefi,
            Err(_) => return Err(Malformed::new("class.firmware", "it is not known")),
        };
        Ok(Self {
            cpu,
            memory_mib,
            gpu: gpu.map(|pb::Gpu { count, model, memory_mib }| (count, model, memory_mib)),
            firmware,
            root_gib,
            disk_type,
            storage,
            iops,
            guest_tools,
            profiles: json::map("class.profiles_json", &profiles_json)?,
            extra,
        })
    }
}

impl From<Image> for pb::Image {
    fn from(image: Image) -> Self {
        let Image {
            name,
            id,
            template,
            path,
            url,
            format,
            checksum,
            storage,
            linked,
            take_over,
            source,
        } = image;
        Self {
            name,
            id,
            template,
            path,
            url,
            format,
            checksum: checksum.map(|(value, r#type)| pb::Checksum { value, r#type }),
            storage,
            linked,
            take_over,
            source_json: json::text(&source),
        }
    }
}

impl TryFrom<pb::Image> for Image {
    type Error = Malformed;

    fn try_from(image: pb::Image) -> Result<Self, Malformed> {
        let pb::Image {
            name,
            id,
            template,
            path,
            url,
            format,
            checksum,
            storage,
            linked,
            take_over,
            source_json,
        } = image;
        Ok(Self {
            name,
            id,
            template,
            path,
            url,
            format,
            checksum: checksum.map(|pb::Checksum { value, r#type }| (value, r#type)),
            storage,
            linked,
            take_over,
            source: json::map("image.source_json", &source_json)?,
        })
    }
}

impl From<Nic> for pb::Nic {
    fn from(nic: Nic) -> Self {
        let Nic { name, network, bridge, vlan, model, mac, ip, prefix, gateway, dns, mtu, config } =
            nic;
        Self {
            name,
            network,
            bridge,
            vlan: vlan.map(u32::from),
            model,
            mac,
            ip,
            prefix: prefix.map(u32::from),
            gateway,
            dns,
            mtu,
            config_json: json::text(&config),
        }
    }
}

impl TryFrom<pb::Nic> for Nic {
    type Error = Malformed;

    fn try_from(nic: pb::Nic) -> Result<Self, Malformed> {
        let pb::Nic {
            name,
            network,
            bridge,
            vlan,
            model,
            mac,
            ip,
            prefix,
            gateway,
            dns,
            mtu,
            config_json,
        } = nic;
        Ok(Self {
            name,
            network,
            bridge,
            vlan: narrow("nics.vlan", vlan)?,
            model,
            mac,
            ip,
            prefix: narrow("nics.prefix", prefix)?,
            gateway,
            dns,
            mtu,
            config: json::map("nics.config_json", &config_json)?,
        })
    }
}

impl From<Disk> for pb::Disk {
    fn from(disk: Disk) -> Self {
        let Disk { name, size_gib, type_, storage, grow_online, scsi, kept } = disk;
        Self {
            name,
            size_gib,
            r#type: type_,
            storage,
            grow_online,
            scsi_json: json::text(&scsi),
            kept: kept.map(|key| key.0),
        }
    }
}

impl TryFrom<pb::Disk> for Disk {
    type Error = Malformed;

    fn try_from(disk: pb::Disk) -> Result<Self, Malformed> {
        let pb::Disk { name, size_gib, r#type, storage, grow_online, scsi_json, kept } = disk;
        let scsi = json::map("disks.scsi_json", &scsi_json)?;
        let kept = kept.map(Into::into);
        Ok(Self { name, size_gib, type_: r#type, storage, grow_online, scsi, kept })
    }
}

impl From<Placement> for pb::Placement {
    fn from(placement: Placement) -> Self {
        let Placement {
            cluster,
            host,
            datastore,
            storage_pod,
            folder,
            resource_pool,
            region,
            zone,
        } = placement;
        Self { cluster, host, datastore, storage_pod, folder, resource_pool, region, zone }
    }
}

impl From<pb::Placement> for Placement {
    fn from(placement: pb::Placement) -> Self {
        let pb::Placement {
            cluster,
            host,
            datastore,
            storage_pod,
            folder,
            resource_pool,
            region,
            zone,
        } = placement;
        Self { cluster, host, datastore, storage_pod, folder, resource_pool, region, zone }
    }
}

impl From<CreateRequest> for pb::CreateRequest {
    fn from(request: CreateRequest) -> Self {
        let CreateRequest {
            owner,
            name,
            hostname,
            class,
            image,
            nics,
            disks,
            user_data,
            ignition,
            meta_data,
            placement,
            tags,
            power_on,
            managed_node,
        } = request;
        Self {
            owner: Some(owner.into()),
            name,
            hostname,
            class: class.map(Into::into),
            image: image.map(Into::into),
            nics: nics.into_iter().map(Into::into).collect(),
            disks: disks.into_iter().map(Into::into).collect(),
            user_data,
            ignition,
            meta_data,
            placement: Some(placement.into()),
            tags,
            power_on,
            managed_node: managed_node.map(|ManagedNode { cluster, group, size }| {
                pb::ManagedNode { cluster, group, size }
            }),
        }
    }
}

impl TryFrom<pb::CreateRequest> for CreateRequest {
    type Error = Malformed;

    fn try_from(request: pb::CreateRequest) -> Result<Self, Malformed> {
        let pb::CreateRequest {
            owner,
            name,
            hostname,
            class,
            image,
            nics,
            disks,
            user_data,
            ignition,
            meta_data,
            placement,
            tags,
            power_on,
            managed_node,
        } = request;
        Ok(Self {
            owner: required("owner", owner)?.try_into()?,
            name,
            hostname,
            class: class.map(TryInto::try_into).transpose()?,
            image: image.map(TryInto::try_into).transpose()?,
            nics: nics.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            disks: disks.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?,
            user_data,
            ignition,
            meta_data,
            placement: placement.map(Into::into).unwrap_or_default(),
            tags,
            power_on,
            managed_node: managed_node.map(|pb::ManagedNode { cluster, group, size }| {
                ManagedNode { cluster, group, size }
            }),
        })
    }
}

impl From<Accepted> for pb::CreateResponse {
    fn from(Accepted { id, task }: Accepted) -> Self {
        Self { id: id.map(|id| id.0), task: task.map(|task| task.0) }
    }
}

impl From<pb::CreateResponse> for Accepted {
    fn from(pb::CreateResponse { id, task }: pb::CreateResponse) -> Self {
        Self { id: id.map(Into::into), task: task.map(Into::into) }
    }
}

impl From<Started> for pb::Started {
    fn from(Started { task }: Started) -> Self {
        Self { task: task.map(|task| task.0) }
    }
}

impl From<pb::Started> for Started {
    fn from(pb::Started { task }: pb::Started) -> Self {
        Self { task: task.map(Into::into) }
    }
}

impl From<CloneRequest> for pb::CloneRequest {
    fn from(request: CloneRequest) -> Self {
        let CloneRequest { source, snapshot, target, linked, customize } = request;
        Self {
            source: source.0,
            snapshot: snapshot.map(|snapshot| snapshot.0),
            target: Some(target.into()),
            linked,
            customize_json: json::text(&customize),
        }
    }
}

impl TryFrom<pb::CloneRequest> for CloneRequest {
    type Error = Malformed;

    fn try_from(request: pb::CloneRequest) -> Result<Self, Malformed> {
        let pb::CloneRequest { source, snapshot, target, linked, customize_json } = request;
        Ok(Self {
            source: source.into(),
            snapshot: snapshot.map(Into::into),
            target: required("target", target)?.try_into()?,
            linked,
            customize: json::map("customize_json", &customize_json)?,
        })
    }
}

impl From<DeleteRequest> for pb::DeleteRequest {
    fn from(DeleteRequest { id, proof }: DeleteRequest) -> Self {
        Self { id: id.0, proof: Some(proof.into()) }
    }
}

impl TryFrom<pb::DeleteRequest> for DeleteRequest {
    type Error = Malformed;

    fn try_from(request: pb::DeleteRequest) -> Result<Self, Malformed> {
        Ok(Self { id: request.id.into(), proof: proof(request.proof)? })
    }
}

impl From<PowerRequest> for pb::PowerRequest {
    fn from(PowerRequest { id, proof, op }: PowerRequest) -> Self {
        let (op, timeout_ms) = match op {
            PowerOp::On => (pb::PowerOp::On, 0),
            PowerOp::Off => (pb::PowerOp::Off, 0),
            PowerOp::Reboot => (pb::PowerOp::Restart, 0),
            PowerOp::Shutdown { timeout } => (pb::PowerOp::Shutdown, millis(timeout)),
            PowerOp::Pause => (pb::PowerOp::Pause, 0),
            PowerOp::Resume => (pb::PowerOp::Resume, 0),
        };
        Self { id: id.0, proof: Some(proof.into()), op: op.into(), timeout_ms }
    }
}

impl TryFrom<pb::PowerRequest> for PowerRequest {
    type Error = Malformed;

    fn try_from(request: pb::PowerRequest) -> Result<Self, Malformed> {
        let timeout = Duration::from_millis(request.timeout_ms);
        let op = match pb::PowerOp::try_from(request.op) {
            Ok(pb::PowerOp::On) => PowerOp::On,
            Ok(pb::PowerOp::Off) => PowerOp::Off,
            Ok(pb::PowerOp::Restart) => PowerOp::Reboot,
            Ok(pb::PowerOp::Shutdown) => PowerOp::Shutdown { timeout },
            Ok(pb::PowerOp::Pause) => PowerOp::Pause,
            Ok(pb::PowerOp::Resume) => PowerOp::Resume,
            Ok(pb::PowerOp::Unspecified) | Err(_) => {
                return Err(Malformed::new("op", "it is not known"));
            }
        };
        Ok(Self { id: request.id.into(), proof: proof(request.proof)?, op })
    }
}

impl From<ReconfigureRequest> for pb::ReconfigureRequest {
    fn from(request: ReconfigureRequest) -> Self {
        let ReconfigureRequest { id, proof, desired, remove_disks, remove_nics } = request;
        Self {
            id: id.0,
            proof: Some(proof.into()),
            desired: Some(desired.into()),
            remove_disks,
            remove_nics,
        }
    }
}

impl TryFrom<pb::ReconfigureRequest> for ReconfigureRequest {
    type Error = Malformed;

    fn try_from(request: pb::ReconfigureRequest) -> Result<Self, Malformed> {
        let pb::ReconfigureRequest { id, proof: given, desired, remove_disks, remove_nics } =
            request;
        Ok(Self {
            id: id.into(),
            proof: proof(given)?,
            desired: required("desired", desired)?.try_into()?,
            remove_disks,
            remove_nics,
        })
    }
}

impl From<HardwareUpgradeRequest> for pb::HardwareUpgradeRequest {
    fn from(HardwareUpgradeRequest { id, proof, version }: HardwareUpgradeRequest) -> Self {
        Self { id: id.0, proof: Some(proof.into()), version }
    }
}

impl TryFrom<pb::HardwareUpgradeRequest> for HardwareUpgradeRequest {
    type Error = Malformed;

    fn try_from(request: pb::HardwareUpgradeRequest) -> Result<Self, Malformed> {
        let pb::HardwareUpgradeRequest { id, proof: given, version } = request;
        Ok(Self { id: id.into(), proof: proof(given)?, version })
    }
}

impl From<MigrateRequest> for pb::MigrateRequest {
    fn from(MigrateRequest { id, proof, host }: MigrateRequest) -> Self {
        Self { id: id.0, proof: Some(proof.into()), host }
    }
}

impl TryFrom<pb::MigrateRequest> for MigrateRequest {
    type Error = Malformed;

    fn try_from(request: pb::MigrateRequest) -> Result<Self, Malformed> {
        let pb::MigrateRequest { id, proof: given, host } = request;
        Ok(Self { id: id.into(), proof: proof(given)?, host })
    }
}

impl From<SnapshotRequest> for pb::SnapshotCreateRequest {
    fn from(request: SnapshotRequest) -> Self {
        let SnapshotRequest { id, proof, name, description, memory, quiesce } = request;
        Self { id: id.0, proof: Some(proof.into()), name, description, memory, quiesce }
    }
}

impl TryFrom<pb::SnapshotCreateRequest> for SnapshotRequest {
    type Error = Malformed;

    fn try_from(request: pb::SnapshotCreateRequest) -> Result<Self, Malformed> {
        let pb::SnapshotCreateRequest { id, proof: given, name, description, memory, quiesce } =
            request;
        Ok(Self { id: id.into(), proof: proof(given)?, name, description, memory, quiesce })
    }
}

impl From<Snapshotted> for pb::SnapshotCreateResponse {
    fn from(Snapshotted { id, task }: Snapshotted) -> Self {
        Self { id: id.map(|id| id.0), task: task.map(|task| task.0) }
    }
}

impl From<pb::SnapshotCreateResponse> for Snapshotted {
    fn from(pb::SnapshotCreateResponse { id, task }: pb::SnapshotCreateResponse) -> Self {
        Self { id: id.map(Into::into), task: task.map(Into::into) }
    }
}

impl From<GuestCommand> for pb::GuestExecRequest {
    fn from(GuestCommand { id, proof, command, timeout }: GuestCommand) -> Self {
        Self { id: id.0, proof: Some(proof.into()), command, timeout_ms: millis(timeout) }
    }
}

impl TryFrom<pb::GuestExecRequest> for GuestCommand {
    type Error = Malformed;

    fn try_from(request: pb::GuestExecRequest) -> Result<Self, Malformed> {
        let pb::GuestExecRequest { id, proof: given, command, timeout_ms } = request;
        let timeout = Duration::from_millis(timeout_ms);
        Ok(Self { id: id.into(), proof: proof(given)?, command, timeout })
    }
}

impl From<GuestOutput> for pb::GuestExecResponse {
    fn from(GuestOutput { exit_code, stdout, stderr }: GuestOutput) -> Self {
        Self { exit_code, stdout, stderr }
    }
}

impl From<pb::GuestExecResponse> for GuestOutput {
    fn from(output: pb::GuestExecResponse) -> Self {
        let pb::GuestExecResponse { exit_code, stdout, stderr } = output;
        Self { exit_code, stdout, stderr }
    }
}
