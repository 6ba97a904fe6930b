//! The contract: each call's way in.

use async_trait::async_trait;
use sutler_provider::{
    Accepted, Capabilities, CloneRequest, Console, CreateRequest, DeleteRequest, DiskInfo, DiskKey,
    DiskRef, EventStream, ExportRequest, Exported, GuestCommand, GuestOutput, Host, ImportRequest,
    Imported, KeptDisk, Listing, Machine, MachineId, Owner, PowerRequest, PrepareRequest, Prepared,
    Proof, Provider, ReconfigureRequest, Result, SnapshotId, SnapshotRequest, Snapshotted, Started,
    TaskId, TaskState, Template,
};

use crate::{
    console, copies, create, guest,
    host::{Driver, Libvirt},
    images, ownership, plan, power, reconfigure, remove, snapshots, transfer,
};

const KEEP: &str = "keep disks beyond their machines";

impl Libvirt {
    /// Refuses what the driver for tests has nothing for.
    async fn needs_guests(&self, what: &str) -> Result<()> {
        match self.facts().await?.driver {
            Driver::Qemu => Ok(()),
            Driver::Test => {
                let why = format!("libvirt's driver for tests cannot {what}");
                Err(sutler_provider::Error::unsupported(why))
            }
        }
    }
}

#[async_trait]
impl Provider for Libvirt {
    async fn validate(&self) -> Result<()> {
        self.facts().await?;
        self.0.link.look(|connect| Ok(connect.lib_version().map(drop)?)).await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        self.can().await
    }

    async fn create(&self, request: CreateRequest) -> Result<Accepted> {
        if request.disks.iter().any(|disk| disk.kept.is_some()) {
            self.needs_guests(KEEP).await?;
        }
        let host = self.clone();
        self.carry(async move { create::create(&host, request).await }).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Started> {
        let host = self.clone();
        self.carry(async move { remove::delete(&host, request).await }).await
    }

    async fn power(&self, request: PowerRequest) -> Result<Started> {
        let host = self.clone();
        self.carry(async move { power::switch(&host, request).await }).await
    }

    async fn reconfigure(&self, request: ReconfigureRequest) -> Result<Started> {
        self.needs_guests("change machines").await?;
        let host = self.clone();
        self.carry(async move { reconfigure::change(&host, request).await }).await
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        self.show(id).await
    }

    async fn task(&self, id: &TaskId) -> Result<TaskState> {
        Ok(self.0.tasks.state(id))
    }

    async fn list(&self) -> Result<Listing> {
        Libvirt::list(self).await
    }

    async fn events(&self) -> Result<EventStream> {
        let events = self.0.watch.listen();
        // Without a connection nothing is told.
        self.0.link.look(|_| Ok(())).await?;
        Ok(events)
    }

    async fn disown(&self, id: &MachineId, proof: &Proof) -> Result<()> {
        let (host, id, proof) = (self.clone(), id.clone(), proof.clone());
        self.carry(async move { ownership::disown(&host, &id, &proof).await }).await
    }

    async fn adopt(&self, id: &MachineId, owner: &Owner) -> Result<()> {
        let (host, id, owner) = (self.clone(), id.clone(), owner.clone());
        self.carry(async move { ownership::adopt(&host, &id, &owner).await }).await
    }

    async fn snapshot_create(&self, request: SnapshotRequest) -> Result<Snapshotted> {
        let host = self.clone();
        self.carry(async move { snapshots::take(&host, request).await }).await
    }

    async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        let (host, id, proof, snapshot) =
            (self.clone(), id.clone(), proof.clone(), snapshot.clone());
        self.carry(async move { snapshots::delete(&host, &id, &proof, &snapshot).await }).await
    }

    async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        let (host, id, proof, snapshot) =
            (self.clone(), id.clone(), proof.clone(), snapshot.clone());
        self.carry(async move { snapshots::revert(&host, &id, &proof, &snapshot).await }).await
    }

    async fn clone_machine(&self, request: CloneRequest) -> Result<Accepted> {
        self.needs_guests("copy machines").await?;
        let host = self.clone();
        self.carry(async move { copies::copy(&host, request).await }).await
    }

    async fn image_prepare(&self, request: PrepareRequest) -> Result<Prepared> {
        self.needs_guests("hold images").await?;
        let host = self.clone();
        self.carry(async move { images::prepare(&host, request).await }).await
    }

    async fn image_remove(&self, target: &str) -> Result<Started> {
        self.needs_guests("hold images").await?;
        images::remove(self, target).await
    }

    async fn disk_info(&self, disk: &DiskRef) -> Result<Option<DiskInfo>> {
        let Some(machine) = self.show(&disk.machine).await? else { return Ok(None) };
        let name = disk.disk.as_deref().unwrap_or(plan::ROOT);
        Ok(machine.disks.unwrap_or_default().into_iter().find(|disk| disk.name == name))
    }

    async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        self.needs_guests(KEEP).await?;
        self.kept().await
    }

    async fn kept_disk_remove(&self, key: &DiskKey) -> Result<Started> {
        self.needs_guests(KEEP).await?;
        let (host, key) = (self.clone(), key.clone());
        self.carry(async move { host.remove_kept(&key).await }).await
    }

    async fn disk_export(&self, request: ExportRequest) -> Result<Exported> {
        self.needs_guests("send disks out").await?;
        let host = self.clone();
        self.carry(async move { transfer::export(&host, request).await }).await
    }

    async fn disk_import(&self, request: ImportRequest) -> Result<Imported> {
        self.needs_guests("bring disks in").await?;
        let host = self.clone();
        self.carry(async move { transfer::import(&host, request).await }).await
    }

    async fn console(&self, id: &MachineId, proof: &Proof) -> Result<Console> {
        self.needs_guests("open consoles").await?;
        console::open(self, id, proof).await
    }

    async fn guest_exec(&self, command: GuestCommand) -> Result<GuestOutput> {
        self.needs_guests("run commands in guests").await?;
        guest::exec(self, command).await
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        Libvirt::templates(self).await
    }

    async fn hosts(&self) -> Result<Vec<Host>> {
        Libvirt::hosts(self).await
    }
}
