//! The end of machines: of the right one, and seen.

use sutler_provider::{DeleteRequest, Error, ErrorKind, MachineId, Power, Proof, Result, Started};

use super::{
    Inner,
    id::Which,
    inventory::{Found, Member},
    proof,
    tasks::Aim,
};
use crate::client::Action;

impl Inner {
    pub(super) async fn delete(&self, request: &DeleteRequest) -> Result<Started> {
        let DeleteRequest { id, proof } = request;
        let asked = match Which::read(id) {
            Which::Nothing => false,
            Which::Vm(vm) => self.delete_vm(&vm, proof).await?,
            Which::Node { cluster, key } => self.delete_node(id, &cluster, &key, proof).await?,
        };
        let task = asked.then(|| self.tasks.begin(&Aim::Gone(id.clone())));
        Ok(Started { task })
    }

    /// Asks for a plain machine's end, and tells whether there was one.
    async fn delete_vm(&self, vm: &str, proof: &Proof) -> Result<bool> {
        let Some(machine) = self.vm(vm).await? else { return Ok(false) };
        proof::check(&machine, proof)?;
        match self.api.delete_vm(vm).await {
            // Some machines have to be off first.
            Err(error) if error.kind() == ErrorKind::Conflict && machine.power == Power::On => {
                self.api.act(vm, Action::Stop).await?;
                self.api.delete_vm(vm).await
            }
            other => other,
        }
    }

    /// Asks for a worker's end, and tells whether there was one.
    async fn delete_node(
        &self,
        id: &MachineId,
        cluster: &str,
        key: &str,
        proof: &Proof,
    ) -> Result<bool> {
        // Nodes come and go one at a time, so that what was counted is still so.
        let _turn = self.turns.at(format!("cluster {cluster}")).await?;
        let member = match self.worker(cluster, key).await? {
            Found::Nowhere => return Ok(false),
            Found::Worker(member) => member,
        };
        proof::check(&member.machine, proof)?;
        let node = &member.worker.node;
        let identifier = node.identifier.clone();
        let identifier = identifier.or_else(|| member.worker.vm.as_ref()?.identifier.clone());
        match identifier {
            // That it is not there is seen, and not concluded from an answer.
            Some(identifier) => self.api.delete_k8s_node(cluster, &identifier).await.map(|_| true),
            None => self.reduce(id, cluster, &member).await.map(|()| true),
        }
    }

    /// Makes a group smaller, which takes whichever node VPSie likes: only where there is no other.
    async fn reduce(&self, id: &MachineId, cluster: &str, member: &Member) -> Result<()> {
        let group = member.group.as_ref().filter(|group| group.nodes_count == Some(1));
        match group.and_then(|group| group.id) {
            Some(group) if member.fellows == 1 && self.is_settled(cluster, group) => {
                self.api.reduce_k8s_node_group(cluster, group).await
            }
            _ => Err(Error::conflict(format!(
                "VPSie tells no UUID of {id}, and would remove any node of its group: it can go once it \
                 is the group's last, or is listed with its UUID"
            ))),
        }
    }

    /// Whether no worker can still be on its way to a group that was asked for here.
    fn is_settled(&self, cluster: &str, group: i64) -> bool {
        let until = self.added.last(cluster, group);
        let until = until.map(|at| at.saturating_add(self.settings.list_lag));
        until.is_none_or(|until| until.is_ok_and(|until| until < self.clock.now()))
    }
}
