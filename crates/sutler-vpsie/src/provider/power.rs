//! Power of plain machines. VPSie looks after that of managed nodes.

use sutler_provider::{Error, ErrorKind, Power, PowerOp, PowerRequest, Result, Started};

use super::{Inner, id::Which, proof, tasks::Aim};
use crate::client::Action;

impl Inner {
    pub(super) async fn power(&self, request: &PowerRequest) -> Result<Started> {
        let PowerRequest { id, proof, op } = request;
        let (action, wanted) = match op {
            PowerOp::On => (Action::Start, Power::On),
            PowerOp::Off => (Action::Stop, Power::Off),
            PowerOp::Reboot => (Action::Restart, Power::On),
            PowerOp::Shutdown { .. } => {
                return Err(Error::unsupported("VPSie does not say that a guest is asked first"));
            }
            PowerOp::Pause | PowerOp::Resume => {
                return Err(Error::unsupported("VPSie cannot stop machines in the middle"));
            }
        };
        let vm = match Which::read(id) {
            Which::Vm(vm) => vm,
            Which::Nothing => return Err(missing(&id.0)),
            Which::Node { .. } => {
                return Err(Error::unsupported("VPSie looks after the power of managed nodes"));
            }
        };
        let machine = self.vm(&vm).await?.ok_or_else(|| missing(&vm))?;
        proof::check(&machine, proof)?;
        // Whoever switches it now decides.
        self.off.forget(&machine.name);
        if action != Action::Restart && machine.power == wanted {
            return Ok(Started::default());
        }
        let answer = self.api.act(&vm, action).await;
        let now = self.vm(&vm).await;
        let reached = matches!(&now, Ok(Some(machine)) if machine.power == wanted);
        match answer {
            // Somebody else may have done it in the meantime.
            Err(error)
                if action == Action::Restart
                    || !reached
                    || ![ErrorKind::Conflict, ErrorKind::Failed].contains(&error.kind()) =>
            {
                Err(error)
            }
            _ if reached => Ok(Started::default()),
            _ => {
                let aim = match wanted {
                    Power::Off => Aim::Off(id.clone()),
                    _ => Aim::On(id.clone()),
                };
                Ok(Started { task: Some(self.tasks.begin(&aim)) })
            }
        }
    }
}

fn missing(id: &str) -> Error {
    Error::not_found(format!("there is no machine {id}"))
}
