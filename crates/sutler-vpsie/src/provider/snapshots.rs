//! Snapshots of plain machines, in the one dialect that has them. VPSie takes two of one name, and tells no
//! ID, so is looked first, one at a time.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use sutler_provider::{
    Error, Machine, MachineId, Proof, Result, Snapshot, SnapshotId, SnapshotRequest, Snapshotted,
    Started,
};

use super::{Inner, id::Which, proof, tasks::Aim};
use crate::{client, settings::Dialect};

/// How long a snapshot that was asked for may take to be listed. Meanwhile it is not asked for again.
const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// Snapshots that were asked for and are not listed yet, by machine and name.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<BTreeMap<(String, String), Timestamp>>);

impl Asked {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<(String, String), Timestamp>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    pub(super) async fn snapshot_create(&self, request: &SnapshotRequest) -> Result<Snapshotted> {
        self.has_snapshots()?;
        let SnapshotRequest { id, proof, name, description, memory, quiesce } = request;
        if name.is_empty() {
            return Err(Error::invalid("spec.nameHint", "a snapshot needs a name"));
        }
        if *memory {
            return Err(Error::unsupported("VPSie's snapshots hold no memory"));
        }
        if *quiesce {
            return Err(Error::invalid(
                "spec.snapshotConfig.quiesce",
                "VPSie does not ask the guest to bring its files in order: set it to false",
            ));
        }
        let vm = self.home(id, proof).await?.ok_or_else(|| missing(id))?;
        let _turn = self.turns.at(format!("snapshots {vm}")).await?;
        if let Some(known) = self.snapshot_named(&vm, name).await? {
            return Ok(Snapshotted { id: Some(known.into()), task: None });
        }
        let task = Some(self.tasks.begin(&Aim::Snapshot(vm.clone(), name.clone())));
        let key = (vm.clone(), name.clone());
        let now = self.clock.now();
        let known = self.asked.with(|asked| {
            asked.retain(|_, until| *until > now);
            let until = now.saturating_add(PATIENCE).unwrap_or(Timestamp::MAX);
            match asked.contains_key(&key) {
                true => true,
                false => asked.insert(key.clone(), until).is_some(),
            }
        });
        if !known {
            let note = description.as_deref().unwrap_or_default();
            let answer = self.api.create_snapshot(&vm, name, note).await;
            if let Err(error) = answer {
                if error.kind().left() == sutler_provider::Left::Nothing {
                    self.asked.with(|asked| asked.remove(&key));
                }
                return Err(error);
            }
        }
        Ok(Snapshotted { id: None, task })
    }

    pub(super) async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        self.has_snapshots()?;
        let Some(vm) = self.home(id, proof).await? else { return Ok(Started::default()) };
        if self.is_of(&vm, snapshot).await? {
            self.api.delete_snapshot(&snapshot.0).await?;
        }
        Ok(Started::default())
    }

    pub(super) async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        self.has_snapshots()?;
        let vm = self.home(id, proof).await?.ok_or_else(|| missing(id))?;
        if !self.is_of(&vm, snapshot).await? {
            return Err(Error::not_found(format!("machine {id} has no snapshot {snapshot}")));
        }
        self.api.rollback_snapshot(&snapshot.0).await?;
        Ok(Started::default())
    }

    /// The ID of a machine's snapshot of this name, once it is listed.
    pub(super) async fn snapshot_named(&self, vm: &str, name: &str) -> Result<Option<String>> {
        let all = self.api.list_snapshots(vm).await?;
        let named = all.into_iter().find(|one| one.name.as_deref() == Some(name));
        let id = named.and_then(|one| one.identifier);
        if id.is_some() {
            self.asked.with(|asked| asked.remove(&(vm.to_owned(), name.to_owned())));
        }
        Ok(id)
    }

    /// A machine with its snapshots, where VPSie tells them.
    pub(super) async fn with_snapshots(&self, machine: Machine) -> Machine {
        let Which::Vm(vm) = Which::read(&machine.id) else { return machine };
        if self.has_snapshots().is_err() {
            return machine;
        }
        // What is not told just now is not known, which is not the same as none.
        let snapshots = self.api.list_snapshots(&vm).await.ok();
        let snapshots = snapshots.map(|all| all.into_iter().filter_map(show).collect());
        Machine { snapshots, ..machine }
    }

    fn has_snapshots(&self) -> Result<()> {
        match self.settings.dialect {
            Dialect::Govpsie => Ok(()),
            Dialect::V2 => Err(Error::unsupported("the dialect v2 has no snapshots")),
        }
    }

    /// The plain machine that an ID names, if it is there and the owner's.
    async fn home(&self, id: &MachineId, proof: &Proof) -> Result<Option<String>> {
        let vm = match Which::read(id) {
            Which::Vm(vm) => vm,
            Which::Nothing => return Ok(None),
            Which::Node { .. } => {
                return Err(Error::unsupported("VPSie takes no snapshots of managed nodes"));
            }
        };
        let Some(machine) = self.vm(&vm).await? else { return Ok(None) };
        proof::check(&machine, proof)?;
        Ok(Some(vm))
    }

    async fn is_of(&self, vm: &str, snapshot: &SnapshotId) -> Result<bool> {
        let all = self.api.list_snapshots(vm).await?;
        Ok(all.iter().any(|one| one.identifier.as_deref() == Some(&snapshot.0)))
    }
}

fn show(snapshot: client::Snapshot) -> Option<Snapshot> {
    Some(Snapshot {
        id: snapshot.identifier?.into(),
        name: snapshot.name.unwrap_or_default(),
        created_at: snapshot.created_on,
        description: snapshot.note,
        size_bytes: snapshot.backup_size.and_then(|size| u64::try_from(size).ok()),
        memory: false,
    })
}

fn missing(id: &MachineId) -> Error {
    Error::not_found(format!("there is no machine {id}"))
}
