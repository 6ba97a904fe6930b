//! The contract, call by call: the Extensions where they are there, the base service where not.

use async_trait::async_trait;
use sutler_provider::{
    Accepted, CallClass, Capabilities, CloneRequest, Console, CreateRequest, DeleteRequest,
    DiskInfo, DiskKey, DiskRef, Error, ErrorKind, EventStream, ExportRequest, Exported,
    GuestCommand, GuestOutput, HardwareUpgradeRequest, Host, ImportRequest, Imported, KeptDisk,
    Listing, Machine, MachineId, MigrateRequest, Owner, PowerOp, PowerRequest, PrepareRequest,
    Prepared, Proof, Provider, ReconfigureRequest, Result, SnapshotId, SnapshotRequest,
    Snapshotted, Started, TaskId, TaskState, Template,
};

use super::{
    Remote,
    call::{Base, Extended, Method, lacks},
};
use crate::{
    Malformed,
    base::{self, identity::identity, kinds, machine, payload, some, task_from, transfer},
    pb::{base as wire, extended as pb},
};

/// Sends one message to a method of a client.
macro_rules! to {
    ($client:ty, $method:ident) => {
        |mut client: $client, request| async move { <$client>::$method(&mut client, request).await }
    };
}

fn sense<T>(read: Result<T, Malformed>) -> Result<T> {
    read.map_err(|error| error.into_answer_error(false))
}

#[async_trait]
impl Provider for Remote {
    async fn validate(&self) -> Result<()> {
        let request = pb::ValidateRequest {};
        let send = to!(Extended, validate);
        if self.extended(Method::Validate, CallClass::Look, &request, send).await?.is_some() {
            return Ok(());
        }
        let request = wire::ValidateRequest {};
        let wire::ValidateResponse { ok, message } =
            self.base(CallClass::Look, &request, to!(Base, validate)).await?;
        match ok {
            true => Ok(()),
            false => Err(Error::unavailable(match message.as_str() {
                "" => "the provider says that its platform is not well".to_owned(),
                message => message.to_owned(),
            })),
        }
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        // Another version of the provider may answer now.
        self.0.absent.store(0, std::sync::atomic::Ordering::Relaxed);
        let request = pb::GetCapabilitiesRequest {};
        let send = to!(Extended, get_capabilities);
        let answer = self.extended(Method::Capabilities, CallClass::Look, &request, send).await?;
        if let Some(answer) = answer {
            let capabilities: Capabilities = sense(answer.try_into())?;
            self.set_deadlines(capabilities.deadlines);
            self.set_keeps(capabilities.kept_disks);
            return Ok(capabilities);
        }
        self.set_deadlines(self.0.options.deadlines);
        self.set_keeps(false);
        let request = wire::GetCapabilitiesRequest {};
        let answer = self.base(CallClass::Look, &request, to!(Base, get_capabilities)).await?;
        // Nothing says whether there is a list, on which all depends: only asking for one does.
        let list = match self.list().await {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::Unsupported => false,
            Err(error) => return Err(error),
        };
        let mut capabilities = base::capabilities::from(answer, self.0.options.unique_by, list);
        capabilities.deadlines = self.0.options.deadlines;
        capabilities.list_lag = self.0.options.list_lag;
        Ok(capabilities)
    }

    async fn create(&self, request: CreateRequest) -> Result<Accepted> {
        self.carries_kept(&request).await?;
        let message = pb::CreateRequest::from(request.clone());
        let send = to!(Extended, create);
        if let Some(answer) = self.extended(Method::Create, CallClass::Make, &message, send).await?
        {
            return Ok(answer.into());
        }
        payload::uncarried(&request)?;
        let payloads = payload::write(&request);
        let CreateRequest { owner, name, user_data, meta_data, tags, .. } = request;
        let message = wire::CreateRequest {
            name,
            user_data: user_data.unwrap_or_default(),
            class_json: payloads.class_json,
            image_json: payloads.image_json,
            networks_json: payloads.networks_json,
            disks_json: payloads.disks_json,
            placement_json: payloads.placement_json,
            tags,
            meta_data: meta_data.unwrap_or_default(),
            owner: Some(identity(&owner)),
        };
        let wire::CreateResponse { id, task } =
            self.base(CallClass::Make, &message, to!(Base, create)).await?;
        Ok(Accepted { id: some(id).map(Into::into), task: task_from(task) })
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Started> {
        let message = pb::DeleteRequest::from(request.clone());
        let send = to!(Extended, delete);
        if let Some(answer) =
            self.extended(Method::Delete, CallClass::Change, &message, send).await?
        {
            return Ok(answer.into());
        }
        let DeleteRequest { id, proof } = request;
        if !self.is_still(&id, &proof).await? {
            return Ok(Started::default());
        }
        let message = wire::DeleteRequest { id: id.0, owner: Some(identity(&proof.owner)) };
        match self.base(CallClass::Change, &message, to!(Base, delete)).await {
            Ok(answer) => Ok(Started { task: task_from(answer.task) }),
            // Some servers say so of a machine that is gone, which is what was asked for.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Started::default()),
            Err(error) => Err(error),
        }
    }

    async fn power(&self, request: PowerRequest) -> Result<Started> {
        let message = pb::PowerRequest::from(request.clone());
        let send = to!(Extended, power);
        if let Some(answer) =
            self.extended(Method::Power, CallClass::Change, &message, send).await?
        {
            return Ok(answer.into());
        }
        let PowerRequest { id, proof, op } = request;
        let (op, timeout) = match op {
            PowerOp::On => (wire::PowerOp::On, 0),
            PowerOp::Off => (wire::PowerOp::Off, 0),
            PowerOp::Reboot => (wire::PowerOp::Reboot, 0),
            PowerOp::Shutdown { timeout } => (wire::PowerOp::ShutdownGraceful, timeout.as_secs()),
            PowerOp::Pause | PowerOp::Resume => return Err(lacks("stop machines in the middle")),
        };
        let message = wire::PowerRequest {
            id: id.0,
            op: op.into(),
            graceful_timeout_seconds: i32::try_from(timeout).unwrap_or(i32::MAX),
            owner: Some(identity(&proof.owner)),
        };
        let answer = self.base(CallClass::Change, &message, to!(Base, power)).await?;
        Ok(Started { task: task_from(answer.task) })
    }

    async fn reconfigure(&self, request: ReconfigureRequest) -> Result<Started> {
        self.carries_kept(&request.desired).await?;
        let message = pb::ReconfigureRequest::from(request.clone());
        let send = to!(Extended, reconfigure);
        if let Some(answer) =
            self.extended(Method::Reconfigure, CallClass::Make, &message, send).await?
        {
            return Ok(answer.into());
        }
        payload::uncarried(&request.desired)?;
        if !request.remove_disks.is_empty() || !request.remove_nics.is_empty() {
            return Err(lacks("take disks or network cards away"));
        }
        let message = wire::ReconfigureRequest {
            id: request.id.0,
            desired_json: payload::desired(&request.desired),
            owner: Some(identity(&request.proof.owner)),
        };
        let answer = self.base(CallClass::Make, &message, to!(Base, reconfigure)).await?;
        Ok(Started { task: task_from(answer.task) })
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        let request = pb::DescribeRequest { id: id.0.clone() };
        let send = to!(Extended, describe);
        if let Some(answer) =
            self.extended(Method::Describe, CallClass::Look, &request, send).await?
        {
            return sense(answer.machine.map(TryInto::try_into).transpose());
        }
        let request = wire::DescribeRequest { id: id.0.clone(), owner: None };
        let answer = match self.base(CallClass::Look, &request, to!(Base, describe)).await {
            Ok(answer) => answer,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some((mut found, name)) = machine::description_from(&id.0, answer) else {
            return Ok(None);
        };
        if name.is_some() {
            return Ok(Some(found));
        }
        // The message has no name, and the name is what proves whose it is. One that was seen
        // earlier may have been another machine's, so only a list of now will do.
        match self.list().await {
            Ok(listing) => match listing.machines.into_iter().find(|listed| listed.id == *id) {
                Some(listed) => {
                    let Machine { power, ips, console_url, raw, .. } = found;
                    Ok(Some(Machine { power, ips, console_url, raw, ..listed }))
                }
                None => Err(Error::unavailable(format!(
                    "machine {id} is described and not listed: it is not certain which one it is"
                ))),
            },
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                found.name = id.0.clone();
                Ok(Some(found))
            }
            Err(error) => Err(error),
        }
    }

    async fn task(&self, id: &TaskId) -> Result<TaskState> {
        let request = pb::TaskStatusRequest { id: id.0.clone() };
        let send = to!(Extended, task_status);
        if let Some(answer) =
            self.extended(Method::TaskStatus, CallClass::Look, &request, send).await?
        {
            return sense(answer.try_into());
        }
        let request = wire::TaskStatusRequest { task: Some(wire::TaskRef { id: id.0.clone() }) };
        match self.base(CallClass::Look, &request, to!(Base, task_status)).await {
            Ok(answer) => Ok(machine::task_from(answer)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(TaskState::Unknown),
            Err(error) => Err(error),
        }
    }

    async fn list(&self) -> Result<Listing> {
        if let Some(listing) = self.list_pages().await? {
            return Ok(listing);
        }
        let request = wire::ListVMsRequest {};
        let answer = self.base(CallClass::List, &request, to!(Base, list_v_ms)).await?;
        let count = answer.vms.len();
        let sound = |info| machine::info_from(info).inspect_err(|error| self.complain(error)).ok();
        let machines: Vec<Machine> = answer.vms.into_iter().filter_map(sound).collect();
        let complete = machines.len() == count;
        Ok(Listing { machines, complete })
    }

    async fn events(&self) -> Result<EventStream> {
        self.event_stream().await?.ok_or_else(|| lacks("tell of changes"))
    }

    async fn disown(&self, id: &MachineId, proof: &Proof) -> Result<()> {
        let request = pb::DisownRequest { id: id.0.clone(), proof: Some(proof.clone().into()) };
        let send = to!(Extended, disown);
        let answer = self.extended(Method::Disown, CallClass::Change, &request, send).await?;
        answer.map(|_| ()).ok_or_else(|| lacks("take an ownership token off a machine"))
    }

    async fn adopt(&self, id: &MachineId, owner: &Owner) -> Result<()> {
        let request = pb::AdoptRequest { id: id.0.clone(), owner: Some(owner.clone().into()) };
        let send = to!(Extended, adopt);
        let answer = self.extended(Method::Adopt, CallClass::Change, &request, send).await?;
        answer.map(|_| ()).ok_or_else(|| lacks("write an ownership token onto a machine"))
    }

    async fn snapshot_create(&self, request: SnapshotRequest) -> Result<Snapshotted> {
        let message = pb::SnapshotCreateRequest::from(request.clone());
        let send = to!(Extended, snapshot_create);
        if let Some(answer) =
            self.extended(Method::SnapshotCreate, CallClass::Make, &message, send).await?
        {
            return Ok(answer.into());
        }
        let SnapshotRequest { id, proof: _, name, description, memory, quiesce } = request;
        if quiesce {
            return Err(lacks("bring a guest to rest for a snapshot"));
        }
        let message = wire::SnapshotCreateRequest {
            vm_id: id.0,
            name_hint: name,
            include_memory: memory,
            description: description.unwrap_or_default(),
        };
        let answer = self.base(CallClass::Make, &message, to!(Base, snapshot_create)).await?;
        let wire::SnapshotCreateResponse { snapshot_id, task } = answer;
        Ok(Snapshotted { id: some(snapshot_id).map(Into::into), task: task_from(task) })
    }

    async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        let message = snapshot_request(id, proof, snapshot);
        let send = to!(Extended, snapshot_delete);
        if let Some(answer) =
            self.extended(Method::SnapshotDelete, CallClass::Change, &message, send).await?
        {
            return Ok(answer.into());
        }
        let message =
            wire::SnapshotDeleteRequest { vm_id: id.0.clone(), snapshot_id: snapshot.0.clone() };
        match self.base(CallClass::Change, &message, to!(Base, snapshot_delete)).await {
            Ok(answer) => Ok(Started { task: task_from(answer.task) }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Started::default()),
            Err(error) => Err(error),
        }
    }

    async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        let message = snapshot_request(id, proof, snapshot);
        let send = to!(Extended, snapshot_revert);
        if let Some(answer) =
            self.extended(Method::SnapshotRevert, CallClass::Make, &message, send).await?
        {
            return Ok(answer.into());
        }
        let message =
            wire::SnapshotRevertRequest { vm_id: id.0.clone(), snapshot_id: snapshot.0.clone() };
        let answer = self.base(CallClass::Make, &message, to!(Base, snapshot_revert)).await?;
        Ok(Started { task: task_from(answer.task) })
    }

    async fn clone_machine(&self, request: CloneRequest) -> Result<Accepted> {
        self.carries_kept(&request.target).await?;
        let message = pb::CloneRequest::from(request.clone());
        let send = to!(Extended, clone);
        if let Some(answer) = self.extended(Method::Clone, CallClass::Make, &message, send).await? {
            return Ok(answer.into());
        }
        payload::uncarried(&request.target)?;
        if request.snapshot.is_some() {
            return Err(lacks("copy a snapshot"));
        }
        let message = kinds::clone_to(&request);
        let wire::CloneResponse { target_vm_id, task } =
            self.base(CallClass::Make, &message, to!(Base, clone)).await?;
        Ok(Accepted { id: some(target_vm_id).map(Into::into), task: task_from(task) })
    }

    async fn image_prepare(&self, request: PrepareRequest) -> Result<Prepared> {
        let message = pb::ImagePrepareRequest::from(request.clone());
        let send = to!(Extended, image_prepare);
        if let Some(answer) =
            self.extended(Method::ImagePrepare, CallClass::Make, &message, send).await?
        {
            return Ok(answer.into());
        }
        if !request.credentials.is_empty() {
            return Err(lacks("log in where an image is downloaded"));
        }
        let message = kinds::prepare_to(&request);
        let answer = self.base(CallClass::Make, &message, to!(Base, image_prepare)).await?;
        let wire::ImagePrepareResponse { task, prepared_image_id, prepared_image_path } = answer;
        Ok(Prepared {
            id: some(prepared_image_id),
            path: some(prepared_image_path),
            task: task_from(task),
            size_bytes: None,
        })
    }

    async fn image_remove(&self, target: &str) -> Result<Started> {
        let request = pb::ImageRemoveRequest { target: target.to_owned() };
        let send = to!(Extended, image_remove);
        let answer = self.extended(Method::ImageRemove, CallClass::Change, &request, send).await?;
        answer.map(Into::into).ok_or_else(|| lacks("remove images"))
    }

    async fn disk_info(&self, disk: &DiskRef) -> Result<Option<DiskInfo>> {
        let request = pb::DiskRef::from(disk.clone());
        let send = to!(Extended, get_disk_info);
        if let Some(answer) =
            self.extended(Method::DiskInfo, CallClass::Look, &request, send).await?
        {
            return Ok(answer.disk.map(Into::into));
        }
        let DiskRef { machine: of, disk, snapshot } = disk.clone();
        let request = wire::GetDiskInfoRequest {
            vm_id: of.0,
            disk_id: disk.unwrap_or_default(),
            snapshot_id: snapshot.map(|snapshot| snapshot.0).unwrap_or_default(),
        };
        match self.base(CallClass::Look, &request, to!(Base, get_disk_info)).await {
            Ok(answer) => Ok(Some(machine::disk_info_from(answer))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        let request = pb::ListKeptDisksRequest {};
        let send = to!(Extended, list_kept_disks);
        let answer = self.extended(Method::KeptDisks, CallClass::List, &request, send).await?;
        let answer = answer.ok_or_else(|| lacks("list disks that outlive their machines"))?;
        sense(answer.disks.into_iter().map(TryInto::try_into).collect())
    }

    async fn kept_disk_remove(&self, key: &DiskKey) -> Result<Started> {
        let request = pb::KeptDiskRemoveRequest { key: key.0.clone() };
        let send = to!(Extended, kept_disk_remove);
        let answer =
            self.extended(Method::KeptDiskRemove, CallClass::Change, &request, send).await?;
        answer.map(Into::into).ok_or_else(|| lacks("remove disks that outlive their machines"))
    }

    async fn disk_export(&self, request: ExportRequest) -> Result<Exported> {
        let message = pb::ExportDiskRequest::from(request.clone());
        let send = to!(Extended, export_disk);
        if let Some(answer) =
            self.extended(Method::DiskExport, CallClass::Transfer, &message, send).await?
        {
            return Ok(answer.into());
        }
        let message = transfer::export_to(request)?;
        let answer = self.base(CallClass::Transfer, &message, to!(Base, export_disk)).await?;
        let wire::ExportDiskResponse { export_id, task, estimated_size_bytes, checksum } = answer;
        Ok(Exported {
            id: export_id,
            task: task_from(task),
            size_bytes: machine::size(estimated_size_bytes),
            checksum: some(checksum),
        })
    }

    async fn disk_import(&self, request: ImportRequest) -> Result<Imported> {
        let message = pb::ImportDiskRequest::from(request.clone());
        let send = to!(Extended, import_disk);
        if let Some(answer) =
            self.extended(Method::DiskImport, CallClass::Transfer, &message, send).await?
        {
            return Ok(answer.into());
        }
        let message = transfer::import_to(request)?;
        let answer = self.base(CallClass::Transfer, &message, to!(Base, import_disk)).await?;
        let wire::ImportDiskResponse { disk_id, path, task, actual_size_bytes, checksum } = answer;
        Ok(Imported {
            id: disk_id,
            path: some(path),
            task: task_from(task),
            size_bytes: machine::size(actual_size_bytes),
            checksum: some(checksum),
        })
    }

    async fn hardware_upgrade(&self, request: HardwareUpgradeRequest) -> Result<Started> {
        let message = pb::HardwareUpgradeRequest::from(request);
        let send = to!(Extended, hardware_upgrade);
        let answer =
            self.extended(Method::HardwareUpgrade, CallClass::Make, &message, send).await?;
        // The base service has this call, and no word for whether it is served: most do not, and
        // what is not reported is not done.
        answer.map(Into::into).ok_or_else(|| lacks("upgrade virtual hardware"))
    }

    async fn migrate(&self, request: MigrateRequest) -> Result<Started> {
        let message = pb::MigrateRequest::from(request);
        let send = to!(Extended, migrate);
        let answer = self.extended(Method::Migrate, CallClass::Make, &message, send).await?;
        answer.map(Into::into).ok_or_else(|| lacks("move machines between hosts"))
    }

    async fn console(&self, id: &MachineId, proof: &Proof) -> Result<Console> {
        self.open_console(id, proof).await?.ok_or_else(|| lacks("open consoles"))
    }

    async fn guest_exec(&self, command: GuestCommand) -> Result<GuestOutput> {
        let deadline = CallClass::Change.deadline(&self.deadlines()) + command.timeout;
        let message = pb::GuestExecRequest::from(command);
        let send = to!(Extended, guest_exec);
        let answer =
            self.extended_within(Method::GuestExec, true, deadline, &message, send).await?;
        answer.map(Into::into).ok_or_else(|| lacks("run commands in guests"))
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        let request = pb::ListTemplatesRequest {};
        let send = to!(Extended, list_templates);
        let answer = self.extended(Method::Templates, CallClass::Look, &request, send).await?;
        let answer = answer.ok_or_else(|| lacks("list templates"))?;
        Ok(answer.templates.into_iter().map(Into::into).collect())
    }

    async fn hosts(&self) -> Result<Vec<Host>> {
        let request = pb::ListHostsRequest {};
        let send = to!(Extended, list_hosts);
        let answer = self.extended(Method::Hosts, CallClass::Look, &request, send).await?;
        let answer = answer.ok_or_else(|| lacks("list hosts"))?;
        Ok(answer.hosts.into_iter().map(Into::into).collect())
    }
}

impl Remote {
    /// Whether a machine is there just before it is destroyed, and an error where it is another one: this wire
    /// has no place for the name that proves whose it is, and what was seen a while ago may be a dead
    /// machine, whose ID was given to somebody else's.
    async fn is_still(&self, id: &MachineId, proof: &Proof) -> Result<bool> {
        let Some(wanted) = &proof.name else { return Ok(true) };
        match self.describe(id).await {
            Ok(None) => Ok(false),
            // Where machines cannot be listed either, nobody knows its name.
            Ok(Some(found)) if found.name == *wanted || found.name == id.0 => Ok(true),
            Ok(Some(found)) => Err(Error::conflict(format!(
                "machine {id} is not ours: it is called {:?}, not {wanted:?}",
                found.name
            ))),
            Err(error) => match error.kind() {
                ErrorKind::Unsupported => Ok(true),
                // The machine was not touched, whatever became of the question.
                ErrorKind::Indeterminate => Err(Error::unavailable(error.message().to_owned())),
                _ => Err(error),
            },
        }
    }
}

fn snapshot_request(id: &MachineId, proof: &Proof, snapshot: &SnapshotId) -> pb::SnapshotRequest {
    pb::SnapshotRequest {
        id: id.0.clone(),
        proof: Some(proof.clone().into()),
        snapshot: snapshot.0.clone(),
    }
}
