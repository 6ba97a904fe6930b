//! The contract: what a platform must be able to do, and what it may be able to do.

use async_trait::async_trait;
use futures::stream::BoxStream;
use tokio::sync::mpsc;

use crate::{
    capabilities::Capabilities,
    error::{Error, Result},
    identity::{DiskKey, MachineId, Owner, Proof, SnapshotId, TaskId},
    machine::{DiskInfo, Event, Host, KeptDisk, Listing, Machine, TaskState, Template},
    request::{
        Accepted, CloneRequest, CreateRequest, DeleteRequest, DiskRef, ExportRequest, Exported,
        GuestCommand, GuestOutput, HardwareUpgradeRequest, ImportRequest, Imported, MigrateRequest,
        PowerRequest, PrepareRequest, Prepared, ReconfigureRequest, SnapshotRequest, Snapshotted,
        Started,
    },
};

/// Changes on the platform, as they happen. The stream ends when the platform goes away; one that
/// begins anew says nothing of what happened in between.
pub type EventStream = BoxStream<'static, Event>;

/// A text console of a machine, open until either end is dropped.
pub struct Console {
    /// What the machine prints.
    pub output: BoxStream<'static, Vec<u8>>,
    /// What is typed.
    pub input: mpsc::Sender<Vec<u8>>,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Console")
    }
}

/// A hypervisor or cloud. Every call may be dropped by its caller at any time; what it asked for goes
/// on all the same.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Whether the platform is there, knows us and is well.
    async fn validate(&self) -> Result<()>;

    /// What it can do. The answer may change with the platform's version.
    async fn capabilities(&self) -> Result<Capabilities>;

    /// Makes a machine. One that carries the same token already is the one that was asked for; one of
    /// the same name that does not is a [`Conflict`](crate::ErrorKind::Conflict).
    async fn create(&self, request: CreateRequest) -> Result<Accepted>;

    /// Destroys a machine, if it is proven to be the owner's. One that is not there is no error. Its
    /// disks go with it, except for those that have a key.
    async fn delete(&self, request: DeleteRequest) -> Result<Started>;

    /// Changes a machine's power. In the state that is asked for, nothing happens, except for a
    /// reboot.
    async fn power(&self, request: PowerRequest) -> Result<Started>;

    /// Changes a machine until it is as desired.
    async fn reconfigure(&self, request: ReconfigureRequest) -> Result<Started>;

    /// What a machine is like, or none where it is not there.
    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>>;

    /// How far a task has come.
    async fn task(&self, id: &TaskId) -> Result<TaskState>;

    /// All machines, ours or not.
    async fn list(&self) -> Result<Listing> {
        Err(lacks("list machines"))
    }

    /// Changes as they happen. Events that follow its return are not missed.
    async fn events(&self) -> Result<EventStream> {
        Err(lacks("tell of changes"))
    }

    /// Takes the token off a machine that is kept without a record.
    async fn disown(&self, _id: &MachineId, _proof: &Proof) -> Result<()> {
        Err(lacks("take an ownership token off a machine"))
    }

    /// Writes a token onto a machine that has none, so that it becomes the owner's.
    async fn adopt(&self, _id: &MachineId, _owner: &Owner) -> Result<()> {
        Err(lacks("write an ownership token onto a machine"))
    }

    /// Takes a snapshot.
    async fn snapshot_create(&self, _request: SnapshotRequest) -> Result<Snapshotted> {
        Err(lacks("take snapshots"))
    }

    /// Deletes a snapshot. One that is not there is no error.
    async fn snapshot_delete(
        &self,
        _id: &MachineId,
        _proof: &Proof,
        _snapshot: &SnapshotId,
    ) -> Result<Started> {
        Err(lacks("delete snapshots"))
    }

    /// Puts a machine back to a snapshot.
    async fn snapshot_revert(
        &self,
        _id: &MachineId,
        _proof: &Proof,
        _snapshot: &SnapshotId,
    ) -> Result<Started> {
        Err(lacks("go back to snapshots"))
    }

    /// Copies a machine; the rules are those of [`Provider::create`].
    async fn clone_machine(&self, _request: CloneRequest) -> Result<Accepted> {
        Err(lacks("copy machines"))
    }

    /// Brings an image to the platform, or says that it is there.
    async fn image_prepare(&self, _request: PrepareRequest) -> Result<Prepared> {
        Err(lacks("bring in images"))
    }

    /// Removes an image that [`Provider::image_prepare`] brought and no machine uses.
    async fn image_remove(&self, _target: &str) -> Result<Started> {
        Err(lacks("remove images"))
    }

    /// What a disk is like, or none where it is not there.
    async fn disk_info(&self, _disk: &DiskRef) -> Result<Option<DiskInfo>> {
        Err(lacks("describe disks"))
    }

    /// All disks that have a key, whether or not a machine has them.
    async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        Err(lacks("list disks that outlive their machines"))
    }

    /// Destroys a disk by its key. One that is not there is no error; one that a machine has is a
    /// [`Conflict`](crate::ErrorKind::Conflict).
    async fn kept_disk_remove(&self, _key: &DiskKey) -> Result<Started> {
        Err(lacks("remove disks that outlive their machines"))
    }

    /// Sends a disk out.
    async fn disk_export(&self, _request: ExportRequest) -> Result<Exported> {
        Err(lacks("send disks out"))
    }

    /// Brings a disk in.
    async fn disk_import(&self, _request: ImportRequest) -> Result<Imported> {
        Err(lacks("bring disks in"))
    }

    /// Gives a machine's virtual hardware a newer version.
    async fn hardware_upgrade(&self, _request: HardwareUpgradeRequest) -> Result<Started> {
        Err(lacks("upgrade virtual hardware"))
    }

    /// Moves a machine to another host while it runs. One that is there already stays.
    async fn migrate(&self, _request: MigrateRequest) -> Result<Started> {
        Err(lacks("move machines between hosts"))
    }

    /// Opens a machine's text console.
    async fn console(&self, _id: &MachineId, _proof: &Proof) -> Result<Console> {
        Err(lacks("open consoles"))
    }

    /// Runs a command in a guest and waits for its end.
    async fn guest_exec(&self, _command: GuestCommand) -> Result<GuestOutput> {
        Err(lacks("run commands in guests"))
    }

    /// Templates that machines can be made from.
    async fn templates(&self) -> Result<Vec<Template>> {
        Err(lacks("list templates"))
    }

    /// Hosts that machines run on.
    async fn hosts(&self) -> Result<Vec<Host>> {
        Err(lacks("list hosts"))
    }
}

fn lacks(what: &str) -> Error {
    Error::unsupported(format!("this provider cannot {what}"))
}
