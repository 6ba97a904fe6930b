//! What the tests of the guards share: a clock that follows the paused time, and a platform that does
//! the same to every call.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::{gate::Gate, limits::Limits};
use crate::{
    capabilities::Capabilities,
    clock::Clock,
    contract::{Console, EventStream, Provider},
    error::{Error, Result},
    identity::{DiskKey, MachineId, Owner, Proof, SnapshotId, TaskId},
    machine::{DiskInfo, Host, KeptDisk, Listing, Machine, TaskState, Template},
    request::{
        Accepted, CloneRequest, CreateRequest, DeleteRequest, DiskRef, ExportRequest, Exported,
        GuestCommand, GuestOutput, HardwareUpgradeRequest, ImportRequest, Imported, MigrateRequest,
        PowerRequest, PrepareRequest, Prepared, ReconfigureRequest, SnapshotRequest, Snapshotted,
        Started,
    },
};

/// The paused time as a clock, which can be put ahead.
pub(super) struct TestClock {
    start: Instant,
    ahead: AtomicI64,
}

impl TestClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), ahead: AtomicI64::new(0) })
    }

    pub(super) fn put_ahead(&self, by: Duration) {
        self.ahead.fetch_add(by.as_secs() as i64, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed));
        Timestamp::UNIX_EPOCH + self.start.elapsed() + ahead
    }
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A platform that gives every call the same answer, or none, and writes down what was sent when.
pub(super) struct Fake {
    pub(super) answer: Option<Error>,
    pub(super) sent: Mutex<Vec<&'static str>>,
}

impl Fake {
    /// One that never answers.
    pub(super) fn silent() -> Arc<Self> {
        Arc::new(Self { answer: None, sent: Mutex::default() })
    }

    /// One that answers every call with this error.
    pub(super) fn failing(error: Error) -> Arc<Self> {
        Arc::new(Self { answer: Some(error), sent: Mutex::default() })
    }

    pub(super) fn sent(&self) -> Vec<&'static str> {
        self.sent.lock().unwrap().clone()
    }

    async fn answer<T>(&self, name: &'static str) -> Result<T> {
        self.sent.lock().unwrap().push(name);
        match &self.answer {
            Some(error) => Err(error.clone()),
            None => std::future::pending().await,
        }
    }
}

pub(super) fn gate(limits: Limits) -> (Arc<Gate>, Arc<TestClock>) {
    let clock = TestClock::new();
    (Gate::new(Fake::silent(), limits, Arc::clone(&clock) as Arc<dyn Clock>, 7), clock)
}

#[async_trait]
impl Provider for Fake {
    async fn validate(&self) -> Result<()> {
        self.answer("validate").await
    }
    async fn capabilities(&self) -> Result<Capabilities> {
        self.answer("capabilities").await
    }
    async fn create(&self, _: CreateRequest) -> Result<Accepted> {
        self.answer("create").await
    }
    async fn delete(&self, _: DeleteRequest) -> Result<Started> {
        self.answer("delete").await
    }
    async fn power(&self, _: PowerRequest) -> Result<Started> {
        self.answer("power").await
    }
    async fn reconfigure(&self, _: ReconfigureRequest) -> Result<Started> {
        self.answer("reconfigure").await
    }
    async fn describe(&self, _: &MachineId) -> Result<Option<Machine>> {
        self.answer("describe").await
    }
    async fn task(&self, _: &TaskId) -> Result<TaskState> {
        self.answer("task").await
    }
    async fn list(&self) -> Result<Listing> {
        self.answer("list").await
    }
    async fn events(&self) -> Result<EventStream> {
        self.answer("events").await
    }
    async fn disown(&self, _: &MachineId, _: &Proof) -> Result<()> {
        self.answer("disown").await
    }
    async fn adopt(&self, _: &MachineId, _: &Owner) -> Result<()> {
        self.answer("adopt").await
    }
    async fn snapshot_create(&self, _: SnapshotRequest) -> Result<Snapshotted> {
        self.answer("snapshot_create").await
    }
    async fn snapshot_delete(&self, _: &MachineId, _: &Proof, _: &SnapshotId) -> Result<Started> {
        self.answer("snapshot_delete").await
    }
    async fn snapshot_revert(&self, _: &MachineId, _: &Proof, _: &SnapshotId) -> Result<Started> {
        self.answer("snapshot_revert").await
    }
    async fn clone_machine(&self, _: CloneRequest) -> Result<Accepted> {
        self.answer("clone").await
    }
    async fn image_prepare(&self, _: PrepareRequest) -> Result<Prepared> {
        self.answer("image_prepare").await
    }
    async fn image_remove(&self, _: &str) -> Result<Started> {
        self.answer("image_remove").await
    }
    async fn disk_info(&self, _: &DiskRef) -> Result<Option<DiskInfo>> {
        self.answer("disk_info").await
    }
    async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        self.answer("kept_disks").await
    }
    async fn kept_disk_remove(&self, _: &DiskKey) -> Result<Started> {
        self.answer("kept_disk_remove").await
    }
    async fn disk_export(&self, _: ExportRequest) -> Result<Exported> {
        self.answer("disk_export").await
    }
    async fn disk_import(&self, _: ImportRequest) -> Result<Imported> {
        self.answer("disk_import").await
    }
    async fn hardware_upgrade(&self, _: HardwareUpgradeRequest) -> Result<Started> {
        self.answer("hardware_upgrade").await
    }
    async fn migrate(&self, _: MigrateRequest) -> Result<Started> {
        self.answer("migrate").await
    }
    async fn console(&self, _: &MachineId, _: &Proof) -> Result<Console> {
        self.answer("console").await
    }
    async fn guest_exec(&self, _: GuestCommand) -> Result<GuestOutput> {
        self.answer("guest_exec").await
    }
    async fn templates(&self) -> Result<Vec<Template>> {
        self.answer("templates").await
    }
    async fn hosts(&self) -> Result<Vec<Host>> {
        self.answer("hosts").await
    }
}
