//! The contract: each call's way in.

use async_trait::async_trait;
use sutler_provider::{
    Accepted, Capabilities, CloneRequest, CreateRequest, DeleteRequest, DiskInfo, DiskKey, DiskRef,
    Error, EventStream, ExportRequest, Exported, GuestCommand, GuestOutput, HardwareUpgradeRequest,
    Host, ImportRequest, Imported, KeptDisk, Listing, Machine, MachineId, Owner, PowerRequest,
    PrepareRequest, Prepared, Proof, Provider, ReconfigureRequest, Result, SnapshotId,
    SnapshotRequest, Snapshotted, Started, TaskId, TaskState, Template,
};

use crate::{
    capabilities, create,
    faults::{Call, Fault},
    guest, hosts, images, inventory, kept, lifecycle,
    pipeline::About,
    reconfigure,
    settings::{Feature, TemplateSettings},
    sim::Sim,
    snapshots, transfer,
    txn::Txn,
    work,
};

impl Sim {
    fn needs(&self, feature: Feature) -> Result<()> {
        match self.0.settings.can(feature) {
            true => Ok(()),
            false => Err(Error::unsupported(format!("this platform lacks {feature:?}"))),
        }
    }
}

#[async_trait]
impl Provider for Sim {
    async fn validate(&self) -> Result<()> {
        self.look(Call::Validate, About::default(), |_| Ok(())).await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        let settings = &self.0.settings;
        self.look(Call::Capabilities, About::default(), |_| Ok(capabilities::of(settings))).await
    }

    async fn create(&self, request: CreateRequest) -> Result<Accepted> {
        let (name, owner) = (request.name.clone(), request.owner.clone());
        let job = move |txn: &mut Txn<'_>| create::create(txn, &request);
        self.change(Call::Create, About::name(&name), Some(&owner), job).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Started> {
        let (id, owner) = (request.id.clone(), request.proof.owner.clone());
        let job = move |txn: &mut Txn<'_>| lifecycle::delete(txn, &request);
        self.change(Call::Delete, About::id(&id), Some(&owner), job).await
    }

    async fn power(&self, request: PowerRequest) -> Result<Started> {
        let (id, owner) = (request.id.clone(), request.proof.owner.clone());
        let job = move |txn: &mut Txn<'_>| lifecycle::power(txn, &request);
        self.change(Call::Power, About::id(&id), Some(&owner), job).await
    }

    async fn reconfigure(&self, request: ReconfigureRequest) -> Result<Started> {
        self.needs(Feature::Reconfigure)?;
        let (id, owner) = (request.id.clone(), request.proof.owner.clone());
        let job = move |txn: &mut Txn<'_>| reconfigure::begin(txn, &request);
        self.change(Call::Reconfigure, About::id(&id), Some(&owner), job).await
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        let settings = &self.0.settings;
        self.look(Call::Describe, About::id(id), |core| {
            let Some(row) = core.state.machines.get(id).filter(|row| !row.hidden) else {
                return Ok(None);
            };
            match row.machine.host.as_ref().filter(|host| core.offline.contains(*host)) {
                Some(host) => Err(Error::unavailable(format!("host {host:?} does not answer"))),
                None => Ok(Some(inventory::show(settings, row))),
            }
        })
        .await
    }

    async fn task(&self, id: &TaskId) -> Result<TaskState> {
        self.look(Call::Task, About::name(&id.0), |core| Ok(work::task(core, id))).await
    }

    async fn list(&self) -> Result<Listing> {
        self.needs(Feature::List)?;
        let taken = self.0.take(Call::List, &About::default()).await?;
        if taken.fault == Some(Fault::LostReply) {
            std::future::pending::<()>().await;
        }
        // What is listed is what was there when the list began.
        let listing = inventory::list(&self.0.settings, &mut self.0.lock(), taken.fault.as_ref());
        if !taken.delay.is_zero() {
            tokio::time::sleep(taken.delay).await;
        }
        Ok(listing)
    }

    async fn events(&self) -> Result<EventStream> {
        self.needs(Feature::Events)?;
        self.look(Call::Events, About::default(), |core| Ok(core.listeners.listen())).await
    }

    async fn disown(&self, id: &MachineId, proof: &Proof) -> Result<()> {
        let (machine, given) = (id.clone(), proof.clone());
        let job = move |txn: &mut Txn<'_>| lifecycle::disown(txn, &machine, &given);
        self.change(Call::Disown, About::id(id), Some(&proof.owner), job).await
    }

    async fn adopt(&self, id: &MachineId, owner: &Owner) -> Result<()> {
        let (machine, by) = (id.clone(), owner.clone());
        let job = move |txn: &mut Txn<'_>| lifecycle::adopt(txn, &machine, &by);
        self.change(Call::Adopt, About::id(id), Some(owner), job).await
    }

    async fn snapshot_create(&self, request: SnapshotRequest) -> Result<Snapshotted> {
        self.needs(Feature::Snapshots)?;
        let (id, owner) = (request.id.clone(), request.proof.owner.clone());
        let job = move |txn: &mut Txn<'_>| snapshots::begin_take(txn, &request);
        self.change(Call::SnapshotCreate, About::id(&id), Some(&owner), job).await
    }

    async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        self.needs(Feature::Snapshots)?;
        let (machine, given, which) = (id.clone(), proof.clone(), snapshot.clone());
        let job = move |txn: &mut Txn<'_>| snapshots::begin_delete(txn, &machine, &given, &which);
        self.change(Call::SnapshotDelete, About::id(id), Some(&proof.owner), job).await
    }

    async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        self.needs(Feature::Snapshots)?;
        let (machine, given, which) = (id.clone(), proof.clone(), snapshot.clone());
        let job = move |txn: &mut Txn<'_>| snapshots::begin_revert(txn, &machine, &given, &which);
        self.change(Call::SnapshotRevert, About::id(id), Some(&proof.owner), job).await
    }

    async fn clone_machine(&self, request: CloneRequest) -> Result<Accepted> {
        self.needs(Feature::Clones)?;
        let (name, owner) = (request.target.name.clone(), request.target.owner.clone());
        let job = move |txn: &mut Txn<'_>| create::clone(txn, &request);
        self.change(Call::CloneMachine, About::name(&name), Some(&owner), job).await
    }

    async fn image_prepare(&self, request: PrepareRequest) -> Result<Prepared> {
        self.needs(Feature::ImageImport)?;
        let name = request.target.clone();
        let job = move |txn: &mut Txn<'_>| images::prepare(txn, &request);
        self.change(Call::ImagePrepare, About::name(&name), None, job).await
    }

    async fn image_remove(&self, target: &str) -> Result<Started> {
        self.needs(Feature::ImageImport)?;
        let name = target.to_owned();
        let job = move |txn: &mut Txn<'_>| images::remove(txn, &name);
        self.change(Call::ImageRemove, About::name(target), None, job).await
    }

    async fn disk_info(&self, disk: &DiskRef) -> Result<Option<DiskInfo>> {
        let about = About::id(&disk.machine);
        self.look(Call::DiskInfo, about, |core| Ok(transfer::info(core, disk))).await
    }

    async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        self.needs(Feature::KeptDisks)?;
        self.look(Call::KeptDisks, About::default(), |core| Ok(kept::list(&core.state))).await
    }

    async fn kept_disk_remove(&self, key: &DiskKey) -> Result<Started> {
        self.needs(Feature::KeptDisks)?;
        let disk = key.clone();
        let job = move |txn: &mut Txn<'_>| kept::remove(txn, &disk);
        self.change(Call::KeptDiskRemove, About::name(&key.0), None, job).await
    }

    async fn disk_export(&self, request: ExportRequest) -> Result<Exported> {
        self.needs(Feature::DiskExport)?;
        let id = request.disk.machine.clone();
        let job = move |txn: &mut Txn<'_>| transfer::export(txn, &request);
        self.change(Call::DiskExport, About::id(&id), None, job).await
    }

    async fn disk_import(&self, request: ImportRequest) -> Result<Imported> {
        self.needs(Feature::DiskImport)?;
        let name = request.target.clone();
        let job = move |txn: &mut Txn<'_>| transfer::import(txn, &request);
        self.change(Call::DiskImport, About::name(&name), None, job).await
    }

    async fn hardware_upgrade(&self, request: HardwareUpgradeRequest) -> Result<Started> {
        self.needs(Feature::HardwareUpgrade)?;
        let HardwareUpgradeRequest { id, proof, version } = request;
        let (machine, owner) = (id.clone(), proof.owner.clone());
        let job = move |txn: &mut Txn<'_>| lifecycle::upgrade(txn, &id, &proof, version);
        self.change(Call::HardwareUpgrade, About::id(&machine), Some(&owner), job).await
    }

    async fn guest_exec(&self, command: GuestCommand) -> Result<GuestOutput> {
        self.needs(Feature::GuestCommands)?;
        let (id, owner) = (command.id.clone(), command.proof.owner.clone());
        let job = move |txn: &mut Txn<'_>| guest::exec(txn, &command);
        self.change(Call::GuestExec, About::id(&id), Some(&owner), job).await?
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        self.needs(Feature::Templates)?;
        let templates = &self.0.settings.templates;
        let all = || templates.iter().map(TemplateSettings::shown).collect();
        self.look(Call::Templates, About::default(), |_| Ok(all())).await
    }

    async fn hosts(&self) -> Result<Vec<Host>> {
        self.needs(Feature::Hosts)?;
        let settings = &self.0.settings;
        self.look(Call::Hosts, About::default(), |core| {
            Ok(hosts::show(settings, &core.state, &|host| core.offline.contains(host)))
        })
        .await
    }
}
