//! `provider.v1.Provider`: for managers written for VirtRigaud.

use std::time::Duration;

use sutler_provider::{
    CloneRequest, CreateRequest, DeleteRequest, DiskRef, Error, ErrorKind, HardwareUpgradeRequest,
    MachineId, PowerOp, PowerRequest, Proof, Provider as Contract, ReconfigureRequest,
    Result as Outcome, SnapshotId, SnapshotRequest, Started, TaskId, TaskState,
};
use tonic::{Request, Response, Status};

use super::{Service, refused};
use crate::{
    Malformed,
    base::{
        capabilities,
        identity::{owner, proof},
        kinds, machine,
        payload::{self, Payloads, Read},
        some, task_to, transfer,
    },
    pb::base::{self as pb, provider_server::Provider},
};

type Answer<T> = Result<Response<T>, Status>;

/// The time that a guest has to shut down where the caller gives none.
const SHUTDOWN: Duration = Duration::from_secs(60);

#[tonic::async_trait]
impl Provider for Service {
    async fn validate(&self, _: Request<pb::ValidateRequest>) -> Answer<pb::ValidateResponse> {
        let answer = match self.look("Validate", self.provider.validate()).await {
            Ok(()) => pb::ValidateResponse { ok: true, message: String::new() },
            Err(status) => pb::ValidateResponse { ok: false, message: status.message().to_owned() },
        };
        Ok(Response::new(answer))
    }

    async fn create(&self, request: Request<pb::CreateRequest>) -> Answer<pb::CreateResponse> {
        let request = create(request.into_inner()).map_err(refused)?;
        let provider = self.provider.clone();
        let done = self.change("Create", async move { provider.create(request).await }).await?;
        Ok(Response::new(pb::CreateResponse {
            id: done.id.map(|id| id.0).unwrap_or_default(),
            task: task_to(done.task),
        }))
    }

    async fn delete(&self, request: Request<pb::DeleteRequest>) -> Answer<pb::TaskResponse> {
        let pb::DeleteRequest { id, owner } = request.into_inner();
        let provider = self.provider.clone();
        self.start("Delete", async move {
            let id = MachineId(id);
            let Some(proof) = prove(&*provider, &id, owner.as_ref()).await? else {
                return Ok(Started::default());
            };
            provider.delete(DeleteRequest { id, proof }).await
        })
        .await
    }

    async fn power(&self, request: Request<pb::PowerRequest>) -> Answer<pb::TaskResponse> {
        let pb::PowerRequest { id, op, graceful_timeout_seconds, owner } = request.into_inner();
        let timeout = u64::try_from(graceful_timeout_seconds).ok().filter(|seconds| *seconds > 0);
        let op = match pb::PowerOp::try_from(op) {
            Ok(pb::PowerOp::On) => PowerOp::On,
            Ok(pb::PowerOp::Off) => PowerOp::Off,
            Ok(pb::PowerOp::Reboot) => PowerOp::Reboot,
            Ok(pb::PowerOp::ShutdownGraceful) => {
                PowerOp::Shutdown { timeout: timeout.map_or(SHUTDOWN, Duration::from_secs) }
            }
            Ok(pb::PowerOp::Unspecified) | Err(_) => {
                return Err(refused(Malformed::new("op", "it is not known")));
            }
        };
        let provider = self.provider.clone();
        self.start("Power", async move {
            let id = MachineId(id);
            let proof = proven(&*provider, &id, owner.as_ref()).await?;
            provider.power(PowerRequest { id, proof, op }).await
        })
        .await
    }

    async fn reconfigure(
        &self,
        request: Request<pb::ReconfigureRequest>,
    ) -> Answer<pb::TaskResponse> {
        let pb::ReconfigureRequest { id, desired_json, owner } = request.into_inner();
        let desired = Read::desired(&desired_json).map_err(refused)?;
        let provider = self.provider.clone();
        self.start("Reconfigure", async move {
            let id = MachineId(id);
            let proof = proven(&*provider, &id, owner.as_ref()).await?;
            let Read { class, image, nics, disks, placement, name, tags } = desired;
            let name = proof.name.clone().or(name).unwrap_or_default();
            let bare = CreateRequest::new(proof.owner.clone(), name);
            let desired = CreateRequest { class, image, nics, disks, placement, tags, ..bare };
            let (remove_disks, remove_nics) = (Vec::new(), Vec::new());
            let request = ReconfigureRequest { id, proof, desired, remove_disks, remove_nics };
            provider.reconfigure(request).await
        })
        .await
    }

    async fn hardware_upgrade(
        &self,
        request: Request<pb::HardwareUpgradeRequest>,
    ) -> Answer<pb::TaskResponse> {
        let pb::HardwareUpgradeRequest { id, target_version } = request.into_inner();
        let wrong = |_| refused(Malformed::new("target_version", "it is below zero"));
        let version = u32::try_from(target_version).map_err(wrong)?;
        let provider = self.provider.clone();
        self.start("HardwareUpgrade", async move {
            let id = MachineId(id);
            let proof = proven(&*provider, &id, None).await?;
            provider.hardware_upgrade(HardwareUpgradeRequest { id, proof, version }).await
        })
        .await
    }

    async fn describe(
        &self,
        request: Request<pb::DescribeRequest>,
    ) -> Answer<pb::DescribeResponse> {
        let id = request.into_inner().id.into();
        let found = self.look("Describe", self.provider.describe(&id)).await?;
        Ok(Response::new(machine::description_to(found)))
    }

    async fn task_status(
        &self,
        request: Request<pb::TaskStatusRequest>,
    ) -> Answer<pb::TaskStatusResponse> {
        let id = request.into_inner().task.map(|task| task.id).unwrap_or_default();
        let asking = async {
            let state = self.provider.task(&id.clone().into()).await?;
            machine::task_to(&id, state)
        };
        Ok(Response::new(self.look("TaskStatus", asking).await?))
    }

    async fn snapshot_create(
        &self,
        request: Request<pb::SnapshotCreateRequest>,
    ) -> Answer<pb::SnapshotCreateResponse> {
        let pb::SnapshotCreateRequest { vm_id, name_hint, include_memory, description } =
            request.into_inner();
        let provider = self.provider.clone();
        let taking = async move {
            let id = MachineId(vm_id);
            let proof = proven(&*provider, &id, None).await?;
            let request = SnapshotRequest {
                id,
                proof,
                name: name_hint,
                description: some(description),
                memory: include_memory,
                quiesce: false,
            };
            let mut done = provider.snapshot_create(request).await?;
            if done.id.is_none()
                && let Some(task) = &done.task
            {
                done.id = made(&*provider, task).await?.map(Into::into);
                done.task = done.task.filter(|_| done.id.is_none());
            }
            Ok(done)
        };
        let done = self.change("SnapshotCreate", taking).await?;
        Ok(Response::new(pb::SnapshotCreateResponse {
            snapshot_id: done.id.map(|id| id.0).unwrap_or_default(),
            task: task_to(done.task),
        }))
    }

    async fn snapshot_delete(
        &self,
        request: Request<pb::SnapshotDeleteRequest>,
    ) -> Answer<pb::TaskResponse> {
        let pb::SnapshotDeleteRequest { vm_id, snapshot_id } = request.into_inner();
        let provider = self.provider.clone();
        self.start("SnapshotDelete", async move {
            let id = MachineId(vm_id);
            let Some(proof) = prove(&*provider, &id, None).await? else {
                return Ok(Started::default());
            };
            provider.snapshot_delete(&id, &proof, &SnapshotId(snapshot_id)).await
        })
        .await
    }

    async fn snapshot_revert(
        &self,
        request: Request<pb::SnapshotRevertRequest>,
    ) -> Answer<pb::TaskResponse> {
        let pb::SnapshotRevertRequest { vm_id, snapshot_id } = request.into_inner();
        let provider = self.provider.clone();
        self.start("SnapshotRevert", async move {
            let id = MachineId(vm_id);
            let proof = proven(&*provider, &id, None).await?;
            provider.snapshot_revert(&id, &proof, &SnapshotId(snapshot_id)).await
        })
        .await
    }

    async fn clone(&self, request: Request<pb::CloneRequest>) -> Answer<pb::CloneResponse> {
        let request = copy(request.into_inner()).map_err(refused)?;
        let provider = self.provider.clone();
        let copying = async move { provider.clone_machine(request).await };
        let done = self.change("Clone", copying).await?;
        Ok(Response::new(pb::CloneResponse {
            target_vm_id: done.id.map(|id| id.0).unwrap_or_default(),
            task: task_to(done.task),
        }))
    }

    async fn image_prepare(
        &self,
        request: Request<pb::ImagePrepareRequest>,
    ) -> Answer<pb::ImagePrepareResponse> {
        let request = kinds::prepare_from(request.into_inner()).map_err(refused)?;
        let provider = self.provider.clone();
        let preparing = async move { provider.image_prepare(request).await };
        let done = self.change("ImagePrepare", preparing).await?;
        Ok(Response::new(pb::ImagePrepareResponse {
            task: task_to(done.task),
            prepared_image_id: done.id.unwrap_or_default(),
            prepared_image_path: done.path.unwrap_or_default(),
        }))
    }

    async fn get_capabilities(
        &self,
        _: Request<pb::GetCapabilitiesRequest>,
    ) -> Answer<pb::GetCapabilitiesResponse> {
        let can = self.look("GetCapabilities", self.provider.capabilities()).await?;
        Ok(Response::new(capabilities::to(can)))
    }

    async fn export_disk(
        &self,
        request: Request<pb::ExportDiskRequest>,
    ) -> Answer<pb::ExportDiskResponse> {
        let request = transfer::export_from(request.into_inner()).map_err(refused)?;
        let provider = self.provider.clone();
        let sending = async move { provider.disk_export(request).await };
        let done = self.change("ExportDisk", sending).await?;
        Ok(Response::new(pb::ExportDiskResponse {
            export_id: done.id,
            task: task_to(done.task),
            estimated_size_bytes: done.size_bytes.map_or(0, machine::long),
            checksum: done.checksum.unwrap_or_default(),
        }))
    }

    async fn import_disk(
        &self,
        request: Request<pb::ImportDiskRequest>,
    ) -> Answer<pb::ImportDiskResponse> {
        let request = transfer::import_from(request.into_inner()).map_err(refused)?;
        let provider = self.provider.clone();
        let bringing = async move { provider.disk_import(request).await };
        let done = self.change("ImportDisk", bringing).await?;
        Ok(Response::new(pb::ImportDiskResponse {
            disk_id: done.id,
            path: done.path.unwrap_or_default(),
            task: task_to(done.task),
            actual_size_bytes: done.size_bytes.map_or(0, machine::long),
            checksum: done.checksum.unwrap_or_default(),
        }))
    }

    async fn get_disk_info(
        &self,
        request: Request<pb::GetDiskInfoRequest>,
    ) -> Answer<pb::GetDiskInfoResponse> {
        let pb::GetDiskInfoRequest { vm_id, disk_id, snapshot_id } = request.into_inner();
        let disk = DiskRef {
            machine: vm_id.into(),
            disk: some(disk_id),
            snapshot: some(snapshot_id).map(Into::into),
        };
        let asking = async {
            let missing = || Error::not_found(format!("machine {} has no such disk", disk.machine));
            let info = self.provider.disk_info(&disk).await?.ok_or_else(missing)?;
            let machine = self.provider.describe(&disk.machine).await?;
            let snapshots = machine.and_then(|machine| machine.snapshots).unwrap_or_default();
            Ok(machine::disk_info_to(info, &snapshots))
        };
        Ok(Response::new(self.look("GetDiskInfo", asking).await?))
    }

    async fn list_v_ms(&self, _: Request<pb::ListVMsRequest>) -> Answer<pb::ListVMsResponse> {
        let listing = async {
            let listing = self.provider.list().await?;
            match listing.complete {
                true => Ok(listing.machines),
                // This wire cannot say that some are missing, and what is missing would be taken
                // for gone.
                false => Err(Error::unavailable("not all machines can be listed at the moment")),
            }
        };
        let machines = self.look("ListVMs", listing).await?;
        let vms = machines.into_iter().map(machine::info_to).collect();
        Ok(Response::new(pb::ListVMsResponse { vms }))
    }
}

impl Service {
    /// A change that answers with nothing but a task.
    async fn start(
        &self,
        call: &'static str,
        changing: impl Future<Output = Outcome<Started>> + Send + 'static,
    ) -> Answer<pb::TaskResponse> {
        let started = self.change(call, changing).await?;
        Ok(Response::new(pb::TaskResponse { task: task_to(started.task) }))
    }
}

/// The proof for a change of this machine, or none where it is not there. A machine that carries no
/// token gets the caller's, so that nobody else takes it.
async fn prove(
    provider: &dyn Contract,
    id: &MachineId,
    identity: Option<&pb::ObjectIdentity>,
) -> Outcome<Option<Proof>> {
    let Some(found) = provider.describe(id).await? else { return Ok(None) };
    let proof = proof(identity, &found)?;
    if found.token.is_none() && provider.capabilities().await?.token {
        match provider.adopt(id, &proof.owner).await {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(proof))
}

async fn proven(
    provider: &dyn Contract,
    id: &MachineId,
    identity: Option<&pb::ObjectIdentity>,
) -> Outcome<Proof> {
    let missing = || Error::not_found(format!("there is no machine {id}"));
    prove(provider, id, identity).await?.ok_or_else(missing)
}

/// What a task has made, once it has ended. On this wire an ID can only be told in the answer itself,
/// so whoever learns it later has to wait here.
async fn made(provider: &dyn Contract, task: &TaskId) -> Outcome<Option<String>> {
    let mut pause = Duration::from_millis(10);
    loop {
        match provider.task(task).await? {
            TaskState::Running { .. } => tokio::time::sleep(pause).await,
            TaskState::Done { id } => return Ok(id),
            TaskState::Failed(error) => return Err(error),
            TaskState::Unknown => return Ok(None),
        }
        pause = (pause * 2).min(Duration::from_secs(2));
    }
}

fn create(request: pb::CreateRequest) -> Result<CreateRequest, Malformed> {
    let pb::CreateRequest {
        name,
        user_data,
        class_json,
        image_json,
        networks_json,
        disks_json,
        placement_json,
        tags,
        meta_data,
        owner: identity,
    } = request;
    let payloads = Payloads { class_json, image_json, networks_json, disks_json, placement_json };
    let Read { class, image, nics, disks, placement, .. } = payload::read(&payloads)?;
    // It is switched on, as by every provider of this wire.
    let bare = CreateRequest::new(owner(identity.as_ref(), &name), name);
    Ok(CreateRequest {
        class,
        image,
        nics,
        disks,
        user_data: Some(user_data).filter(|data| !data.is_empty()),
        meta_data: Some(meta_data).filter(|data| !data.is_empty()),
        placement,
        tags,
        ..bare
    })
}

fn copy(request: pb::CloneRequest) -> Result<CloneRequest, Malformed> {
    let pb::CloneRequest {
        source_vm_id,
        target_name,
        linked,
        class_json,
        // It names a policy, of which a provider knows nothing.
        placement_json: _,
        customize_json,
    } = request;
    let target = CreateRequest {
        class: kinds::clone_class(&class_json)?,
        ..CreateRequest::new(owner(None, &target_name), target_name)
    };
    Ok(CloneRequest {
        source: source_vm_id.into(),
        snapshot: None,
        target,
        linked,
        customize: crate::json::map("customize_json", &customize_json)?,
    })
}
