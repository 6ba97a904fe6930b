//! A provider with one defect at a time.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::StreamExt as _;
use sutler_provider::*;
use sutler_sim::Sim;

/// What a provider does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// A create that is sent again makes another machine.
    DoublesOnRetry,
    /// Tasks are not known once they were answered.
    ForgetsTasks,
    /// A failed task is a done one the next time.
    TaskChangesItsEnd,
    /// It says that it takes snapshots, and does not.
    LiesAboutSnapshots,
    /// It says nothing of its pauses.
    HidesPause,
    /// It says that it switched off, and did not.
    SuccessBeforeDone,
    /// A delete goes by the name.
    DeletesByName,
    /// A delete asks nobody.
    DeletesForAnybody,
    /// A delete does not look at the installation.
    IgnoresInstallation,
    /// A delete that finds nothing is an error.
    DeleteOfNothingFails,
    /// A machine that is not there is an error.
    AbsenceIsAnError,
    /// A machine that cannot be seen is one that is not there.
    ErrorsAreAbsence,
    /// Machines carry no tokens, although it says so.
    LosesTokens,
    /// A list is short of a machine, and says that it is complete.
    ListsTooFew,
    /// A list has a machine twice.
    ListsTwice,
    /// Requests that make no sense are carried out.
    TakesAnything,
    /// A wrong request is one that may be tried again.
    WrongKind,
    /// Names are not unique, although it says so.
    NamesClash,
    /// A second snapshot of one name is another one.
    SnapshotsDouble,
    /// No event is told of.
    SilentEvents,
    /// A copy carries its source's name.
    CopiesTheName,
    /// Anybody may switch a machine.
    SwitchesForAnybody,
    /// An adoption takes machines from others.
    StealsByAdoption,
    /// Nothing is changed by a reconfiguration that is said to be done.
    ReconfiguresNothing,
    /// A delete destroys the kept disks too.
    DeletesKeptDisks,
    /// A kept disk that is asked for again is made anew.
    MakesKeptDisksAnew,
}

/// A platform behind a provider with a defect.
pub(crate) struct Defective {
    pub(crate) inner: Sim,
    pub(crate) defect: Defect,
    pub(crate) count: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Defective {
    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }

    fn number(&self, what: &str) -> u32 {
        let mut count = self.count.lock().unwrap();
        let number = count.entry(what.to_owned()).or_default();
        *number += 1;
        *number
    }

    /// The proof that the machine itself would give.
    async fn any_proof(&self, id: &MachineId, proof: Proof) -> Result<Proof> {
        let Some(machine) = self.inner.describe(id).await? else { return Ok(proof) };
        let mut owner = proof.owner;
        owner.token = machine.token.unwrap_or(owner.token);
        owner.installation = machine.installation.unwrap_or(owner.installation);
        Ok(Proof { owner, name: Some(machine.name) })
    }

    fn show(&self, mut machine: Machine) -> Machine {
        if self.has(Defect::LosesTokens) {
            machine.token = None;
        }
        if self.has(Defect::DoublesOnRetry) || self.has(Defect::NamesClash) {
            // Behind the names that it shows, it has others.
            if let Some((shown, _)) = machine.name.split_once(".x") {
                machine.name = shown.to_owned();
            }
            if let Some(token) = &mut machine.token
                && let Some((uid, _)) = token.uid.split_once("-x")
            {
                token.uid = uid.to_owned();
            }
        }
        machine
    }
}

#[async_trait]
impl Provider for Defective {
    async fn validate(&self) -> Result<()> {
        self.inner.validate().await
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        let mut can = self.inner.capabilities().await?;
        if self.has(Defect::HidesPause) {
            can.pause = false;
        }
        Ok(can)
    }

    async fn create(&self, mut request: CreateRequest) -> Result<Accepted> {
        match self.defect {
            Defect::DoublesOnRetry => {
                let number = self.number(&request.owner.token.uid);
                if number > 1 {
                    request.name = format!("{}.x{number}", request.name);
                    request.owner.token.uid = format!("{}-x{number}", request.owner.token.uid);
                }
            }
            Defect::NamesClash => {
                let token = request.owner.token.clone();
                let machines = self.inner.list().await?.machines;
                let taken = |machine: &Machine| {
                    machine.name == request.name && machine.token.as_ref() != Some(&token)
                };
                if machines.iter().any(taken) {
                    request.name = format!("{}.x1", request.name);
                }
            }
            Defect::TakesAnything => {
                request.disks.retain(|disk| disk.size_gib > 0);
                request.disks.dedup_by(|a, b| a.name == b.name);
                request.class.iter_mut().for_each(|class| class.cpu = class.cpu.max(1));
            }
            Defect::MakesKeptDisksAnew => {
                for key in request.disks.iter().filter_map(|disk| disk.kept.as_ref()) {
                    // One that a machine has stays with it.
                    drop(self.inner.kept_disk_remove(key).await);
                }
            }
            _ => {}
        }
        let answer = self.inner.create(request).await;
        match answer {
            Err(error) if self.has(Defect::WrongKind) && error.kind() == ErrorKind::Invalid => {
                Err(Error::unavailable(error.message()))
            }
            answer => answer,
        }
    }

    async fn delete(&self, mut request: DeleteRequest) -> Result<Started> {
        match self.defect {
            Defect::DeletesByName => {
                let machines = self.inner.list().await?.machines;
                let named = |machine: &&Machine| Some(&machine.name) == request.proof.name.as_ref();
                if let Some(machine) = machines.iter().find(named) {
                    request.id = machine.id.clone();
                    request.proof = self.any_proof(&request.id, request.proof).await?;
                }
            }
            Defect::DeletesForAnybody => {
                request.proof = self.any_proof(&request.id, request.proof).await?;
            }
            Defect::IgnoresInstallation => {
                let real = self.any_proof(&request.id, request.proof.clone()).await?;
                request.proof.owner.installation = real.owner.installation;
            }
            Defect::DeleteOfNothingFails if self.inner.describe(&request.id).await?.is_none() => {
                return Err(Error::not_found("there is no such machine"));
            }
            Defect::DeletesKeptDisks => {
                let found = self.inner.describe(&request.id).await?;
                let disks = found.and_then(|machine| machine.disks).unwrap_or_default();
                let started = self.inner.delete(request).await?;
                for key in disks.iter().filter_map(|disk| disk.kept.as_ref()) {
                    self.inner.kept_disk_remove(key).await?;
                }
                return Ok(started);
            }
            _ => {}
        }
        self.inner.delete(request).await
    }

    async fn power(&self, mut request: PowerRequest) -> Result<Started> {
        if self.has(Defect::SuccessBeforeDone) && request.op == PowerOp::Off {
            return Ok(Started::default());
        }
        if self.has(Defect::SwitchesForAnybody) {
            request.proof = self.any_proof(&request.id, request.proof).await?;
        }
        self.inner.power(request).await
    }

    async fn reconfigure(&self, request: ReconfigureRequest) -> Result<Started> {
        if self.has(Defect::ReconfiguresNothing) {
            return Ok(Started::default());
        }
        self.inner.reconfigure(request).await
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        let found = self.inner.describe(id).await?.map(|machine| self.show(machine));
        match (self.defect, found) {
            (Defect::AbsenceIsAnError, None) => Err(Error::not_found("there is no such machine")),
            (Defect::ErrorsAreAbsence, Some(_)) if self.number("looks").is_multiple_of(3) => {
                Ok(None)
            }
            (_, found) => Ok(found),
        }
    }

    async fn task(&self, id: &TaskId) -> Result<TaskState> {
        match self.defect {
            Defect::ForgetsTasks => Ok(TaskState::Unknown),
            Defect::TaskChangesItsEnd => match self.inner.task(id).await? {
                TaskState::Done { .. } if self.number(&id.0) > 1 => {
                    Ok(TaskState::Failed(Error::new(ErrorKind::Failed, "after all")))
                }
                state => Ok(state),
            },
            _ => self.inner.task(id).await,
        }
    }

    async fn list(&self) -> Result<Listing> {
        let mut listing = self.inner.list().await?;
        match self.defect {
            Defect::ListsTooFew => drop(listing.machines.pop()),
            Defect::ListsTwice => listing.machines.extend(listing.machines.first().cloned()),
            _ => {}
        }
        listing.machines = listing.machines.into_iter().map(|machine| self.show(machine)).collect();
        Ok(listing)
    }

    async fn events(&self) -> Result<EventStream> {
        match self.has(Defect::SilentEvents) {
            true => Ok(futures::stream::pending().boxed()),
            false => self.inner.events().await,
        }
    }

    async fn disown(&self, id: &MachineId, proof: &Proof) -> Result<()> {
        self.inner.disown(id, proof).await
    }

    async fn adopt(&self, id: &MachineId, owner: &Owner) -> Result<()> {
        if self.has(Defect::StealsByAdoption)
            && let Some(machine) = self.inner.describe(id).await?
            && let (Some(token), Some(installation)) = (machine.token, machine.installation)
        {
            let proof = Proof { owner: Owner { token, installation, ..owner.clone() }, name: None };
            self.inner.disown(id, &proof).await?;
        }
        self.inner.adopt(id, owner).await
    }

    async fn snapshot_create(&self, mut request: SnapshotRequest) -> Result<Snapshotted> {
        if self.has(Defect::LiesAboutSnapshots) {
            return Err(Error::unsupported("not on this platform"));
        }
        if self.has(Defect::SnapshotsDouble) && !request.name.is_empty() {
            request.name = format!("{}{}", request.name, self.number("snapshots"));
        }
        self.inner.snapshot_create(request).await
    }

    async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        self.inner.snapshot_delete(id, proof, snapshot).await
    }

    async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        self.inner.snapshot_revert(id, proof, snapshot).await
    }

    async fn clone_machine(&self, mut request: CloneRequest) -> Result<Accepted> {
        if self.has(Defect::CopiesTheName)
            && let Some(source) = self.inner.describe(&request.source).await?
        {
            request.target.name = format!("{}.copy{}", source.name, self.number("copies"));
        }
        self.inner.clone_machine(request).await
    }

    async fn image_prepare(&self, request: PrepareRequest) -> Result<Prepared> {
        self.inner.image_prepare(request).await
    }

    async fn image_remove(&self, target: &str) -> Result<Started> {
        self.inner.image_remove(target).await
    }

    async fn disk_info(&self, disk: &DiskRef) -> Result<Option<DiskInfo>> {
        self.inner.disk_info(disk).await
    }

    async fn kept_disks(&self) -> Result<Vec<KeptDisk>> {
        self.inner.kept_disks().await
    }

    async fn kept_disk_remove(&self, key: &DiskKey) -> Result<Started> {
        self.inner.kept_disk_remove(key).await
    }

    async fn disk_export(&self, request: ExportRequest) -> Result<Exported> {
        self.inner.disk_export(request).await
    }

    async fn disk_import(&self, request: ImportRequest) -> Result<Imported> {
        self.inner.disk_import(request).await
    }

    async fn hardware_upgrade(&self, request: HardwareUpgradeRequest) -> Result<Started> {
        self.inner.hardware_upgrade(request).await
    }

    async fn guest_exec(&self, command: GuestCommand) -> Result<GuestOutput> {
        self.inner.guest_exec(command).await
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        self.inner.templates().await
    }

    async fn hosts(&self) -> Result<Vec<Host>> {
        self.inner.hosts().await
    }
}
