//! Remembers what was sent and what came back.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use sutler_provider::*;

use crate::report::Exchange;

/// The most that is kept of one message.
const LONGEST: usize = 600;

/// The most exchanges that are kept of one case, the last ones.
const MOST: usize = 40;

/// A provider, with a memory.
#[derive(Clone)]
pub(crate) struct Recorder {
    inner: Arc<dyn Provider>,
    log: Arc<Mutex<Vec<Exchange>>>,
}

impl Recorder {
    pub(crate) fn new(inner: Arc<dyn Provider>) -> Self {
        Self { inner, log: Arc::default() }
    }

    /// What was sent and what came back so far.
    pub(crate) fn take(&self) -> Vec<Exchange> {
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn note<T: Debug>(
        &self,
        sent: String,
        call: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let sent = short(sent);
        let place = {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            if log.len() >= MOST {
                log.remove(0);
            }
            // A caller that is gone leaves it so.
            log.push(Exchange { sent: sent.clone(), received: "(no answer)".to_owned() });
            log.len() - 1
        };
        let result = call.await;
        let received = short(match &result {
            Ok(answer) => format!("{answer:?}"),
            Err(error) => format!("{}: {error}", error.kind()),
        });
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let own =
            |exchange: &&mut Exchange| exchange.sent == sent && exchange.received == "(no answer)";
        let at = log.get_mut(place).filter(|exchange| exchange.sent == sent);
        match at {
            Some(exchange) => exchange.received = received,
            None => {
                if let Some(exchange) = log.iter_mut().find(own) {
                    exchange.received = received;
                }
            }
        }
        result
    }
}

fn short(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Calls with one argument that is taken as it is, by value.
macro_rules! forward {
    ($self:ident.$call:ident($($argument:expr),*)) => {{
        let sent = [stringify!($call).to_owned(), $(format!("{:?}", $argument)),*].join(" ");
        $self.note(sent, $self.inner.$call($($argument),*)).await
    }};
}

#[async_trait]
impl Provider for Recorder {
    async fn validate(&self) -> Result<()> {
        forward!(self.validate())
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        forward!(self.capabilities())
    }

    async fn create(&self, request: CreateRequest) -> Result<Accepted> {
        forward!(self.create(request))
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Started> {
        forward!(self.delete(request))
    }

    async fn power(&self, request: PowerRequest) -> Result<Started> {
        forward!(self.power(request))
    }

    async fn reconfigure(&self, request: ReconfigureRequest) -> Result<Started> {
        forward!(self.reconfigure(request))
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        forward!(self.describe(id))
    }

    async fn task(&self, id: &TaskId) -> Result<TaskState> {
        forward!(self.task(id))
    }

    async fn list(&self) -> Result<Listing> {
        forward!(self.list())
    }

    async fn events(&self) -> Result<EventStream> {
        self.note("events".to_owned(), async { self.inner.events().await.map(Stream) })
            .await
            .map(|stream| stream.0)
    }

    async fn disown(&self, id: &MachineId, proof: &Proof) -> Result<()> {
        forward!(self.disown(id, proof))
    }

    async fn adopt(&self, id: &MachineId, owner: &Owner) -> Result<()> {
        forward!(self.adopt(id, owner))
    }

    async fn snapshot_create(&self, request: SnapshotRequest) -> Result<Snapshotted> {
        forward!(self.snapshot_create(request))
    }

    async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        forward!(self.snapshot_delete(id, proof, snapshot))
    }

    async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        forward!(self.snapshot_revert(id, proof, snapshot))
    }

    async fn clone_machine(&self, request: CloneRequest) -> Result<Accepted> {
        forward!(self.clone_machine(request))
    }

    async fn image_prepare(&self, request: PrepareRequest) -> Result<Prepared> {
        forward!(self.image_prepare(request))
    }

    async fn image_remove(&self, target: &str) -> Result<Started> {
        forward!(self.image_remove(target))
    }

    async fn disk_info(&self, disk: &DiskRef) -> Result<Option<DiskInfo>> {
        forward!(self.disk_info(disk))
    }

    async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        forward!(self.kept_disks())
    }

    async fn kept_disk_remove(&self, key: &DiskKey) -> Result<Started> {
        forward!(self.kept_disk_remove(key))
    }

    async fn disk_export(&self, request: ExportRequest) -> Result<Exported> {
        forward!(self.disk_export(request))
    }

    async fn disk_import(&self, request: ImportRequest) -> Result<Imported> {
        forward!(self.disk_import(request))
    }

    async fn hardware_upgrade(&self, request: HardwareUpgradeRequest) -> Result<Started> {
        forward!(self.hardware_upgrade(request))
    }

    async fn migrate(&self, request: MigrateRequest) -> Result<Started> {
        forward!(self.migrate(request))
    }

    async fn console(&self, id: &MachineId, proof: &Proof) -> Result<Console> {
        forward!(self.console(id, proof))
    }

    async fn guest_exec(&self, command: GuestCommand) -> Result<GuestOutput> {
        forward!(self.guest_exec(command))
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        forward!(self.templates())
    }

    async fn hosts(&self) -> Result<Vec<Host>> {
        forward!(self.hosts())
    }
}

/// A stream, of which there is nothing to print.
struct Stream(EventStream);

impl Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a stream")
    }
}
