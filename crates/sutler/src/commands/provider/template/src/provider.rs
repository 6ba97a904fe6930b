//! Acme behind the contract. What a call must keep to is written at [`Provider`] and checked by the
//! conformance suite; what is not here is answered as Unsupported by the contract itself.

use async_trait::async_trait;
use sutler_provider::{
    Accepted, Capabilities, CreateRequest, DeleteRequest, Error, Listing, Machine, MachineId,
    Owner, Power, PowerOp, PowerRequest, Proof, Provider, ReconfigureRequest, Result, Started,
    TaskId, TaskState, UniqueBy,
};

use crate::{check, platform::Platform};

/// Acme as a provider.
#[derive(Debug)]
pub struct AcmeProvider {
    platform: Platform,
}

impl AcmeProvider {
    /// A provider of this platform's machines.
    pub fn new(platform: Platform) -> Self {
        Self { platform }
    }
}

/// A change is made for the owner of a machine and for nobody else: the token that it carries, and
/// the control plane that wrote it, must be those of the caller.
fn proven(machine: &Machine, owner: &Owner) -> Result<()> {
    let carried = machine.token.as_ref() == Some(&owner.token)
        && machine.installation.as_ref() == Some(&owner.installation);
    match carried {
        true => Ok(()),
        false => Err(Error::conflict(format!("machine {} is not the caller's", machine.id))),
    }
}

#[async_trait]
impl Provider for AcmeProvider {
    async fn validate(&self) -> Result<()> {
        self.platform.ping().await
    }

    /// Report only what works: nothing else is asked for. Deadlines are how long a call may take
    /// until its outcome counts as unknown.
    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(Capabilities {
            unique_by: UniqueBy::Token,
            token: true,
            list: true,
            returns_id: true,
            reuses_ids: false,
            name_limit: check::NAME_LIMIT,
            version: Some("1".to_owned()),
            ..Capabilities::default()
        })
    }

    /// The same token again is the same machine: after a lost answer the request comes again.
    async fn create(&self, request: CreateRequest) -> Result<Accepted> {
        check::machine(&request)?;
        let mut state = self.platform.state();
        let there = state.machines.values();
        let known = there.clone().find(|machine| proven(machine, &request.owner).is_ok());
        if let Some(machine) = known {
            return Ok(Accepted { id: Some(machine.id.clone()), task: None });
        }
        if let Some(other) = there.clone().find(|machine| machine.name == request.name) {
            let what = format!("machine {} is called {:?} already", other.id, request.name);
            return Err(Error::conflict(what));
        }
        Ok(Accepted { id: Some(state.make(&request)), task: None })
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Started> {
        let mut state = self.platform.state();
        // One that is not there is what was asked for.
        if let Some(machine) = state.machines.get(&request.id) {
            proven(machine, &request.proof.owner)?;
            state.machines.remove(&request.id);
        }
        Ok(Started::default())
    }

    async fn power(&self, request: PowerRequest) -> Result<Started> {
        let mut state = self.platform.state();
        let machine = state.get(&request.id)?;
        proven(machine, &request.proof.owner)?;
        machine.power = match request.op {
            PowerOp::On | PowerOp::Reboot => Power::On,
            PowerOp::Off => Power::Off,
            PowerOp::Shutdown { .. } => return Err(Error::unsupported("guests are not asked")),
            PowerOp::Pause | PowerOp::Resume => {
                return Err(Error::unsupported("nothing is paused"));
            }
        };
        Ok(Started::default())
    }

    async fn reconfigure(&self, _request: ReconfigureRequest) -> Result<Started> {
        Err(Error::unsupported("machines stay as they were made"))
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        Ok(self.platform.state().machines.get(id).cloned())
    }

    /// Everything is done when it is answered, so there are no tasks. Where there are, each is known
    /// from its answer to its end, and for a while after that.
    async fn task(&self, _id: &TaskId) -> Result<TaskState> {
        Ok(TaskState::Unknown)
    }

    /// A list that lacks something says so with `complete: false`: what is missing from a complete
    /// one counts as gone.
    async fn list(&self) -> Result<Listing> {
        let machines = self.platform.state().machines.values().cloned().collect();
        Ok(Listing { machines, complete: true })
    }

    async fn disown(&self, id: &MachineId, proof: &Proof) -> Result<()> {
        let mut state = self.platform.state();
        let machine = state.get(id)?;
        proven(machine, &proof.owner)?;
        (machine.token, machine.installation) = (None, None);
        Ok(())
    }

    async fn adopt(&self, id: &MachineId, owner: &Owner) -> Result<()> {
        let mut state = self.platform.state();
        let machine = state.get(id)?;
        if machine.token.is_some() {
            return proven(machine, owner);
        }
        machine.token = Some(owner.token.clone());
        machine.installation = Some(owner.installation.clone());
        Ok(())
    }
}
