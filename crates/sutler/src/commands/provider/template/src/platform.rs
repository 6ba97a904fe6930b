//! A stand-in for Acme: machines in memory. Put the calls of the real platform here, one method for
//! each, with a deadline and without policy.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use sutler_provider::{
    CreateRequest, Credentials, DiskInfo, Error, Machine, MachineId, Power, Result,
};

/// A connection to the platform.
#[derive(Debug, Default)]
pub struct Platform {
    state: Mutex<State>,
}

/// What is on it.
#[derive(Debug, Default)]
pub struct State {
    /// All machines.
    pub machines: BTreeMap<MachineId, Machine>,
    made: u64,
}

impl Platform {
    /// Connects. Credentials are never printed, logged or put into an error's text.
    pub fn connect(_endpoint: Option<&str>, _credentials: &Credentials) -> Result<Self> {
        Ok(Self::default())
    }

    /// Whether it is there and knows us.
    pub async fn ping(&self) -> Result<()> {
        Ok(())
    }

    /// What is on it. A real platform has calls instead: what is checked before a change then has to
    /// be part of the change, or be checked again by the platform.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Makes a machine. A platform that takes its time answers with a task, and so does the provider.
    pub fn make(&mut self, request: &CreateRequest) -> MachineId {
        self.made += 1;
        let id = MachineId(format!("acme-{}", self.made));
        let power = if request.power_on { Power::On } else { Power::Off };
        let mut machine = Machine::new(id.clone(), request.name.clone(), power);
        machine.token = Some(request.owner.token.clone());
        machine.installation = Some(request.owner.installation.clone());
        machine.hostname = Some(request.hostname.clone());
        machine.cpu = request.class.as_ref().map(|class| class.cpu);
        machine.memory_mib = request.class.as_ref().map(|class| class.memory_mib);
        let root = request.class.as_ref().and_then(|class| class.root_gib).unwrap_or(10);
        let disks = request.disks.iter().map(|disk| (disk.name.clone(), disk.size_gib));
        let disks = [("root".to_owned(), root)].into_iter().chain(disks);
        machine.disks = Some(
            disks
                .map(|(name, size_gib)| DiskInfo { name, size_gib, ..DiskInfo::default() })
                .collect(),
        );
        machine.tags.clone_from(&request.tags);
        machine.created_at = Some(Timestamp::now());
        self.machines.insert(id.clone(), machine);
        id
    }

    /// A machine that must be there.
    pub fn get(&mut self, id: &MachineId) -> Result<&mut Machine> {
        let missing = || Error::not_found(format!("machine {id} is not there"));
        self.machines.get_mut(id).ok_or_else(missing)
    }
}
