//! The calls of a provider, each with what the gate must know of it.

use std::time::Duration;

use jiff::Timestamp;

use super::gate::Gate;
use crate::{
    capabilities::{Capabilities, Deadlines},
    contract::{Console, EventStream},
    error::{Error, Result},
    identity::{DiskKey, MachineId, Owner, Proof, SnapshotId, TaskId},
    machine::{DiskInfo, Host, KeptDisk, Listing, Machine, TaskState, Template},
    request::{
        Accepted, CloneRequest, CreateRequest, DeleteRequest, DiskRef, ExportRequest, Exported,
        GuestCommand, GuestOutput, HardwareUpgradeRequest, Image, ImportRequest, Imported,
        MigrateRequest, PowerOp, PowerRequest, PrepareRequest, Prepared, ReconfigureRequest,
        SnapshotRequest, Snapshotted, Started,
    },
};

/// What a call does, and so how long it may take and what its silence means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallClass {
    /// Looks at one thing.
    Look,
    /// Looks at everything.
    List,
    /// Makes or rebuilds something.
    Make,
    /// Changes something.
    Change,
    /// Moves a disk.
    Transfer,
}

impl CallClass {
    /// Whether it may change something, so that silence leaves the outcome open.
    pub const fn is_mutating(self) -> bool {
        match self {
            Self::Look | Self::List => false,
            Self::Make | Self::Change | Self::Transfer => true,
        }
    }

    /// How long it may take.
    pub const fn deadline(self, deadlines: &Deadlines) -> Duration {
        match self {
            Self::Look => deadlines.look,
            Self::List => deadlines.list,
            Self::Make => deadlines.make,
            Self::Change => deadlines.change,
            Self::Transfer => deadlines.transfer,
        }
    }
}

/// What a gate must know of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its name, for metrics and messages.
    pub name: &'static str,
    /// What it does.
    pub class: CallClass,
    /// Whether it is sent again after a failure that is known to have changed nothing.
    pub idempotent: bool,
    /// The template that it keeps busy.
    pub template: Option<String>,
    /// The host that it keeps busy.
    pub host: Option<String>,
    /// When it is too late to send it.
    pub not_after: Option<Timestamp>,
    /// How long it may take, where that is not the class's own deadline. It counts from when it is
    /// sent, over all attempts.
    pub deadline: Option<Duration>,
}

impl Call {
    /// A look that may be sent again, or a change that may not.
    pub fn new(name: &'static str, class: CallClass) -> Self {
        Self {
            name,
            class,
            idempotent: !class.is_mutating(),
            template: None,
            host: None,
            not_after: None,
            deadline: None,
        }
    }

    fn under(mut self, terms: Terms) -> Self {
        self.host = terms.host.or(self.host);
        self.not_after = terms.not_after;
        self
    }

    /// How long it may still be sent; none when it is too late.
    pub(super) fn time_left(&self, now: Timestamp) -> Option<Duration> {
        match self.not_after {
            Some(not_after) => now.duration_until(not_after).try_into().ok(),
            None => Some(Duration::MAX),
        }
    }

    pub(super) fn late(&self) -> Error {
        Error::unavailable(format!("{} was not sent in time", self.name))
    }

    pub(super) fn unanswered(&self) -> Error {
        if self.class.is_mutating() {
            Error::indeterminate(format!("{} was sent and not answered in time", self.name))
        } else {
            Error::unavailable(format!("{} was not answered in time", self.name))
        }
    }
}

/// Under which terms a change is sent. `None` and a time can stand for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    /// When it is too late to send it.
    pub not_after: Option<Timestamp>,
    /// The host that it keeps busy, where the request does not name it.
    pub host: Option<String>,
}

impl Terms {
    /// The same terms, on this host.
    pub fn on(mut self, host: Option<String>) -> Self {
        self.host = host;
        self
    }
}

impl From<Option<Timestamp>> for Terms {
    fn from(not_after: Option<Timestamp>) -> Self {
        Self { not_after, host: None }
    }
}

impl From<Timestamp> for Terms {
    fn from(not_after: Timestamp) -> Self {
        Some(not_after).into()
    }
}

/// The looks.
impl Gate {
    /// [`Provider::validate`](crate::Provider::validate).
    pub async fn validate(&self) -> Result<()> {
        self.call(Call::new("validate", CallClass::Look), |provider| async move {
            provider.validate().await
        })
        .await
    }

    /// [`Provider::capabilities`](crate::Provider::capabilities).
    pub async fn capabilities(&self) -> Result<Capabilities> {
        self.call(Call::new("capabilities", CallClass::Look), |provider| async move {
            provider.capabilities().await
        })
        .await
    }

    /// [`Provider::describe`](crate::Provider::describe).
    pub async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        self.call(Call::new("describe", CallClass::Look), |provider| async move {
            provider.describe(id).await
        })
        .await
    }

    /// [`Provider::task`](crate::Provider::task).
    pub async fn task(&self, id: &TaskId) -> Result<TaskState> {
        self.call(
            Call::new("task", CallClass::Look),
            |provider| async move { provider.task(id).await },
        )
        .await
    }

    /// [`Provider::list`](crate::Provider::list).
    pub async fn list(&self) -> Result<Listing> {
        self.call(
            Call::new("list", CallClass::List),
            |provider| async move { provider.list().await },
        )
        .await
    }

    /// [`Provider::events`](crate::Provider::events): the gate guards the beginning of the stream and
    /// not what it carries.
    pub async fn events(&self) -> Result<EventStream> {
        self.call(Call::new("events", CallClass::Look), |provider| async move {
            provider.events().await
        })
        .await
    }

    /// [`Provider::console`](crate::Provider::console): the gate guards its opening and not what is
    /// typed and printed.
    pub async fn console(&self, id: &MachineId, proof: &Proof) -> Result<Console> {
        self.call(Call::new("console", CallClass::Look), |provider| async move {
            provider.console(id, proof).await
        })
        .await
    }

    /// [`Provider::disk_info`](crate::Provider::disk_info).
    pub async fn disk_info(&self, disk: &DiskRef) -> Result<Option<DiskInfo>> {
        self.call(Call::new("disk_info", CallClass::Look), |provider| async move {
            provider.disk_info(disk).await
        })
        .await
    }

    /// [`Provider::kept_disks`](crate::Provider::kept_disks).
    pub async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        self.call(Call::new("kept_disks", CallClass::List), |provider| async move {
            provider.kept_disks().await
        })
        .await
    }

    /// [`Provider::templates`](crate::Provider::templates).
    pub async fn templates(&self) -> Result<Vec<Template>> {
        self.call(Call::new("templates", CallClass::List), |provider| async move {
            provider.templates().await
        })
        .await
    }

    /// [`Provider::hosts`](crate::Provider::hosts).
    pub async fn hosts(&self) -> Result<Vec<Host>> {
        self.call(
            Call::new("hosts", CallClass::List),
            |provider| async move { provider.hosts().await },
        )
        .await
    }
}

/// The changes, none of which is ever sent twice.
impl Gate {
    /// [`Provider::create`](crate::Provider::create), one at a time for as many as the template and
    /// the host allow.
    pub async fn create(
        &self,
        request: CreateRequest,
        terms: impl Into<Terms>,
    ) -> Result<Accepted> {
        let call = Call {
            template: request.image.as_ref().and_then(template_key),
            host: request.placement.host.clone(),
            ..Call::new("create", CallClass::Make)
        };
        self.call(call.under(terms.into()), |provider| {
            let request = request.clone();
            async move { provider.create(request).await }
        })
        .await
    }

    /// [`Provider::clone_machine`](crate::Provider::clone_machine); the source is what a template is
    /// to a create.
    pub async fn clone_machine(
        &self,
        request: CloneRequest,
        terms: impl Into<Terms>,
    ) -> Result<Accepted> {
        let call = Call {
            template: Some(format!("machine {}", request.source)),
            host: request.target.placement.host.clone(),
            ..Call::new("clone", CallClass::Make)
        };
        self.call(call.under(terms.into()), |provider| {
            let request = request.clone();
            async move { provider.clone_machine(request).await }
        })
        .await
    }

    /// [`Provider::delete`](crate::Provider::delete).
    pub async fn delete(&self, request: DeleteRequest, terms: impl Into<Terms>) -> Result<Started> {
        let call = Call::new("delete", CallClass::Change).under(terms.into());
        self.call(call, |provider| {
            let request = request.clone();
            async move { provider.delete(request).await }
        })
        .await
    }

    /// [`Provider::power`](crate::Provider::power). A shutdown may take as long as the guest may on
    /// top.
    pub async fn power(&self, request: PowerRequest, terms: impl Into<Terms>) -> Result<Started> {
        let deadline = match request.op {
            PowerOp::Shutdown { timeout } => {
                Some(self.limits().deadlines.change.saturating_add(timeout))
            }
            PowerOp::On | PowerOp::Off | PowerOp::Reboot | PowerOp::Pause | PowerOp::Resume => None,
        };
        let call = Call { deadline, ..Call::new("power", CallClass::Change) };
        self.call(call.under(terms.into()), |provider| {
            let request = request.clone();
            async move { provider.power(request).await }
        })
        .await
    }

    /// [`Provider::reconfigure`](crate::Provider::reconfigure).
    pub async fn reconfigure(
        &self,
        request: ReconfigureRequest,
        terms: impl Into<Terms>,
    ) -> Result<Started> {
        let call = Call {
            host: request.desired.placement.host.clone(),
            ..Call::new("reconfigure", CallClass::Make)
        };
        self.call(call.under(terms.into()), |provider| {
            let request = request.clone();
            async move { provider.reconfigure(request).await }
        })
        .await
    }

    /// [`Provider::hardware_upgrade`](crate::Provider::hardware_upgrade).
    pub async fn hardware_upgrade(
        &self,
        request: HardwareUpgradeRequest,
        terms: impl Into<Terms>,
    ) -> Result<Started> {
        let call = Call::new("hardware_upgrade", CallClass::Make).under(terms.into());
        self.call(call, |provider| {
            let request = request.clone();
            async move { provider.hardware_upgrade(request).await }
        })
        .await
    }

    /// [`Provider::migrate`](crate::Provider::migrate). The host that it goes to is kept busy, unless
    /// the terms name another.
    pub async fn migrate(
        &self,
        request: MigrateRequest,
        terms: impl Into<Terms>,
    ) -> Result<Started> {
        let host = Some(request.host.clone());
        let call = Call { host, ..Call::new("migrate", CallClass::Make) };
        self.call(call.under(terms.into()), |provider| {
            let request = request.clone();
            async move { provider.migrate(request).await }
        })
        .await
    }

    /// [`Provider::guest_exec`](crate::Provider::guest_exec). It may take as long as the command may,
    /// and a look on top.
    pub async fn guest_exec(
        &self,
        command: GuestCommand,
        terms: impl Into<Terms>,
    ) -> Result<GuestOutput> {
        let deadline = Some(self.limits().deadlines.look.saturating_add(command.timeout));
        let call = Call { deadline, ..Call::new("guest_exec", CallClass::Change) };
        self.call(call.under(terms.into()), |provider| {
            let command = command.clone();
            async move { provider.guest_exec(command).await }
        })
        .await
    }

    /// [`Provider::disown`](crate::Provider::disown).
    pub async fn disown(
        &self,
        id: &MachineId,
        proof: &Proof,
        terms: impl Into<Terms>,
    ) -> Result<()> {
        let call = Call::new("disown", CallClass::Change).under(terms.into());
        self.call(call, |provider| async move { provider.disown(id, proof).await }).await
    }

    /// [`Provider::adopt`](crate::Provider::adopt).
    pub async fn adopt(
        &self,
        id: &MachineId,
        owner: &Owner,
        terms: impl Into<Terms>,
    ) -> Result<()> {
        let call = Call::new("adopt", CallClass::Change).under(terms.into());
        self.call(call, |provider| async move { provider.adopt(id, owner).await }).await
    }

    /// [`Provider::snapshot_create`](crate::Provider::snapshot_create).
    pub async fn snapshot_create(
        &self,
        request: SnapshotRequest,
        terms: impl Into<Terms>,
    ) -> Result<Snapshotted> {
        let call = Call::new("snapshot_create", CallClass::Make).under(terms.into());
        self.call(call, |provider| {
            let request = request.clone();
            async move { provider.snapshot_create(request).await }
        })
        .await
    }

    /// [`Provider::snapshot_delete`](crate::Provider::snapshot_delete).
    pub async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
        terms: impl Into<Terms>,
    ) -> Result<Started> {
        let call = Call::new("snapshot_delete", CallClass::Make).under(terms.into());
        self.call(
            call,
            |provider| async move { provider.snapshot_delete(id, proof, snapshot).await },
        )
        .await
    }

    /// [`Provider::snapshot_revert`](crate::Provider::snapshot_revert).
    pub async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
        terms: impl Into<Terms>,
    ) -> Result<Started> {
        let call = Call::new("snapshot_revert", CallClass::Make).under(terms.into());
        self.call(
            call,
            |provider| async move { provider.snapshot_revert(id, proof, snapshot).await },
        )
        .await
    }

    /// [`Provider::image_prepare`](crate::Provider::image_prepare).
    pub async fn image_prepare(
        &self,
        request: PrepareRequest,
        terms: impl Into<Terms>,
    ) -> Result<Prepared> {
        let call = Call::new("image_prepare", CallClass::Make).under(terms.into());
        self.call(call, |provider| {
            let request = request.clone();
            async move { provider.image_prepare(request).await }
        })
        .await
    }

    /// [`Provider::image_remove`](crate::Provider::image_remove).
    pub async fn image_remove(&self, target: &str, terms: impl Into<Terms>) -> Result<Started> {
        let call = Call::new("image_remove", CallClass::Change).under(terms.into());
        self.call(call, |provider| async move { provider.image_remove(target).await }).await
    }

    /// [`Provider::kept_disk_remove`](crate::Provider::kept_disk_remove).
    pub async fn kept_disk_remove(
        &self,
        key: &DiskKey,
        terms: impl Into<Terms>,
    ) -> Result<Started> {
        let call = Call::new("kept_disk_remove", CallClass::Change).under(terms.into());
        self.call(call, |provider| async move { provider.kept_disk_remove(key).await }).await
    }

    /// [`Provider::disk_export`](crate::Provider::disk_export).
    pub async fn disk_export(
        &self,
        request: ExportRequest,
        terms: impl Into<Terms>,
    ) -> Result<Exported> {
        let call = Call::new("disk_export", CallClass::Transfer).under(terms.into());
        self.call(call, |provider| {
            let request = request.clone();
            async move { provider.disk_export(request).await }
        })
        .await
    }

    /// [`Provider::disk_import`](crate::Provider::disk_import).
    pub async fn disk_import(
        &self,
        request: ImportRequest,
        terms: impl Into<Terms>,
    ) -> Result<Imported> {
        let call = Call::new("disk_import", CallClass::Transfer).under(terms.into());
        self.call(call, |provider| {
            let request = request.clone();
            async move { provider.disk_import(request).await }
        })
        .await
    }
}

/// What an image is to the platform: the most certain name that is known of it.
fn template_key(image: &Image) -> Option<String> {
    let known = image.id.as_ref().or(image.template.as_ref()).or(image.path.as_ref());
    known.or(image.url.as_ref()).or(Some(&image.name)).filter(|key| !key.is_empty()).cloned()
}

#[cfg(test)]
mod tests;
