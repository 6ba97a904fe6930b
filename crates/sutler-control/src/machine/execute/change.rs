//! Changes machines: their power, their shape, what they go back to, and their end.

use jiff::Timestamp;
use kube::Api;
use serde_json::json;
use sutler_api::{infra::VMSnapshot, names::annotations};
use sutler_provider::{
    DeleteRequest, Error as ProviderError, Left, MachineId, PowerOp, PowerRequest,
    ReconfigureRequest, Started,
};

use super::{Done, Error, Work};
use crate::{
    context::Slot,
    machine::hooks,
    plan::{DeleteWhy, Difference, PowerStep, Report, Revert, SEND_WINDOW},
    rules::{Rule, broken},
};

impl Work<'_> {
    pub(super) async fn restart(
        &self,
        id: &MachineId,
        request: &str,
        report: &Report,
    ) -> Result<Done, Error> {
        // Written down before it is sent: a restart is done at most once. That the machine is not
        // ready meanwhile comes with it, or who waits would take it for restarted.
        let mut new = crate::machine::status::assess(self.context, self.vm, self.desired, report);
        new.restart_handled = Some(request.to_owned());
        let Some(fresh) = self.write_status(&new).await? else {
            return Ok(Done::Void);
        };
        let request = PowerRequest { id: id.clone(), proof: self.proof(None), op: PowerOp::Reboot };
        let gate = self.connection.gate.clone();
        let digest = format!("restart {}", self.context.clock.now());
        self.change("power", digest, async move { gate.power(request, None).await });
        Ok(Done::Wrote(fresh))
    }

    pub(super) fn power(&self, id: &MachineId, step: PowerStep) {
        let timeout = self.desired.map(|desired| desired.shutdown_timeout).unwrap_or_default();
        let op = match step {
            PowerStep::On => PowerOp::On,
            PowerStep::Off => PowerOp::Off,
            PowerStep::Shutdown => PowerOp::Shutdown { timeout },
        };
        let now = self.context.clock.now();
        self.context.slot(&self.record.uid, |slot| match step {
            PowerStep::On => {
                slot.memory.post_started = false;
                slot.memory.pre_stopped = false;
                slot.memory.shutdown_since = None;
            }
            PowerStep::Off => slot.memory.shutdown_since = None,
            PowerStep::Shutdown => {
                slot.memory.shutdown_since.get_or_insert(now);
            }
        });
        let request = PowerRequest { id: id.clone(), proof: self.proof(None), op };
        let gate = self.connection.gate.clone();
        self.change("power", format!("{step:?}"), async move { gate.power(request, None).await });
    }

    pub(super) async fn revert(&self, id: &MachineId, revert: &Revert) -> Result<Done, Error> {
        let now = self.context.clock.now();
        // Written down first, over what was planned on: a view that is behind puts nothing back that
        // was put back already, who comes after a crash knows how long this one may take, and who
        // removes the snapshot waits for that.
        let note = json!({ annotations::REVERT_REQUESTED_AT: now.to_string() });
        let body = json!({ "metadata": { "annotations": note } });
        let Some(fresh) = self.write(body).await? else { return Ok(Done::Void) };
        let gate = self.connection.gate.clone();
        let (id, proof, snapshot) = (id.clone(), self.proof(None), revert.snapshot.clone());
        let digest = snapshot.0.clone();
        self.context.slot(&self.record.uid, |slot| {
            slot.memory.revert_requested_at = Some(now);
            // What is to be done after a start is done after this one too.
            slot.memory.post_started = false;
        });
        // The cache may show a snapshot that is gone, and another may have its ID by now. Who deleted it
        // since then has seen what was just written, and waits.
        if !self.is_still_there(revert).await? {
            let error = ProviderError::not_found(format!("VMSnapshot {} is deleted", revert.name));
            self.context.slot(&self.record.uid, |slot| {
                slot.memory.fail("revert", error, &digest, now);
            });
            return Ok(Done::Wrote(fresh));
        }
        let not_after = now.saturating_add(SEND_WINDOW).unwrap_or(Timestamp::MAX);
        let call = async move { gate.snapshot_revert(&id, &proof, &snapshot, not_after).await };
        self.change("revert", digest, call);
        Ok(Done::Wrote(fresh))
    }

    async fn is_still_there(&self, revert: &Revert) -> Result<bool, Error> {
        let api: Api<VMSnapshot> =
            Api::namespaced(self.context.client.clone(), &self.key().namespace);
        let there = api.get_opt(&revert.name).await?;
        Ok(there.is_some_and(|snapshot| {
            let id = snapshot.status.as_ref().and_then(|status| status.snapshot_id.as_ref());
            snapshot.metadata.deletion_timestamp.is_none() && id == Some(&revert.snapshot.0)
        }))
    }

    /// Writes down that the machine went back. Until then it is put back again after a crash.
    pub(super) async fn reverted(&self, name: &str, report: &Report) -> Result<Done, Error> {
        let mut new = crate::machine::status::assess(self.context, self.vm, self.desired, report);
        new.reverted_to = Some(name.to_owned());
        let written = self.write_status(&new).await?;
        if let Some(fresh) = &written {
            self.context.slot(&self.record.uid, |slot| slot.memory.accepted.remove("revert"));
            let message = format!("it went back to VMSnapshot {name}");
            self.context.recorder.note(fresh.as_ref(), "Reverted", &message).await;
            self.context.wake(&self.key());
        }
        Ok(written.map_or(Done::Void, Done::Wrote))
    }

    pub(super) fn reconfigure(&self, id: &MachineId, difference: &Difference) {
        let Some(desired) = self.desired else { return };
        let request = ReconfigureRequest {
            id: id.clone(),
            proof: self.proof(None),
            desired: desired.request.clone(),
            remove_disks: difference.remove_disks.clone(),
            remove_nics: difference.remove_nics.clone(),
        };
        let gate = self.connection.gate.clone();
        let call = async move { gate.reconfigure(request, None).await };
        self.change("reconfigure", difference.text(), call);
    }

    pub(super) async fn delete(&self, id: &MachineId, why: DeleteWhy) -> Result<Done, Error> {
        let now = self.context.clock.now();
        let proven = self.connection.capabilities().is_some_and(|able| able.token)
            || self.record.has_name_of_its_own(self.connection.state().hashed);
        if proven || why == DeleteWhy::Extra {
            self.send_delete(id, why, now, None);
            return Ok(Done::Nothing);
        }
        // Written down first: the next machine of this name may be given this ID, and whoever takes the
        // record off the books has to know how long this removal could still meet that one.
        let note = json!({ annotations::DELETE_REQUESTED_AT: now.to_string() });
        let written = self.write(json!({ "metadata": { "annotations": note } })).await?;
        let Some(fresh) = written else { return Ok(Done::Void) };
        let open = self.context.slot(&self.record.uid, |slot| {
            let open = slot.memory.removal.open(self.record.delete_requested_at);
            slot.memory.removal.ask(now);
            open
        });
        self.send_delete(id, why, now, Some(open));
        Ok(Done::Wrote(fresh))
    }

    /// Asks for a removal. Where that is on record, `open` is the last one before it that may still have an
    /// effect.
    fn send_delete(
        &self,
        id: &MachineId,
        why: DeleteWhy,
        now: Timestamp,
        open: Option<Option<Timestamp>>,
    ) {
        // A machine of an earlier incarnation is proven by the token of that one.
        let seen = self.connection.inventory.read(|view| view.get(id).cloned());
        let token = seen.and_then(|seen| seen.machine.token.clone());
        let token = match broken(Rule::DeleteOnlyOurs) {
            true => token,
            false => token.filter(|token| token.uid == self.record.uid),
        };
        let mut proof = self.proof(token);
        if broken(Rule::DeleteOnlyOurs) {
            proof.name = None;
        }
        let request = DeleteRequest { id: id.clone(), proof };
        let gate = self.connection.gate.clone();
        let what = match why {
            DeleteWhy::Goal => "delete",
            DeleteWhy::Extra => "reap",
        };
        let not_after = now.saturating_add(SEND_WINDOW).unwrap_or(Timestamp::MAX);
        let (context, uid) = (self.context.clone(), self.record.uid.clone());
        let call = async move {
            let result = gate.delete(request, not_after).await;
            let known = match &result {
                Ok(_) => true,
                Err(error) => error.kind().left() != Left::Unknown,
            };
            if let (Some(open), true) = (open, known) {
                context.slot(&uid, |slot| slot.memory.removal.open = open);
            }
            result
        };
        self.change(what, id.0.clone(), call);
    }

    pub(super) fn disown(&self, id: &MachineId) {
        let (gate, proof) = (self.connection.gate.clone(), self.proof(None));
        let (inventory, id) = (self.connection.inventory.clone(), id.clone());
        let clock = self.context.clock.clone();
        self.call("disown", async move {
            let result = gate.disown(&id, &proof, None).await;
            let begun = clock.now();
            // What the platform now shows of it decides whether it is ours.
            let found = gate.describe(&id).await;
            if let Ok(found) = found {
                inventory.note(&id, found, begun);
            }
            move |slot: &mut Slot| match result {
                Ok(()) => slot.memory.succeed("disown"),
                Err(error) => slot.memory.fail("disown", error, id.as_ref(), begun),
            }
        });
    }

    pub(super) fn hook(&self, id: &MachineId, moment: hooks::Moment) {
        let run = hooks::Hook {
            moment,
            gate: self.connection.gate.clone(),
            web: self.context.outside.web.clone(),
            id: id.clone(),
            proof: self.proof(None),
            lifecycle: self.vm.spec.lifecycle.clone().unwrap_or_default(),
            context: self.context.clone(),
            vm: self.vm.clone(),
            addresses: hooks::addresses(self.vm, self.record, id),
        };
        let digest = self.desired.map(|desired| desired.digest.clone()).unwrap_or_default();
        let seen = self.connection.inventory.read(|view| view.get(id).cloned());
        let found = seen.map(|seen| seen.machine.ips.clone()).unwrap_or_default();
        let clock = self.context.clock.clone();
        let (context, vm) = (self.context.clone(), self.vm.clone());
        self.call(moment.as_str(), async move {
            let result = run.run(found).await;
            if let Err(error) = &result {
                context.recorder.warn(vm.as_ref(), "HookFailed", error.message()).await;
            }
            let now = clock.now();
            move |slot: &mut Slot| hooks::note(slot, moment, result, &digest, now)
        });
    }

    /// Sends a change and remembers that it was accepted, or why not.
    fn change<F>(&self, what: &'static str, digest: String, call: F)
    where
        F: Future<Output = Result<Started, ProviderError>> + Send + 'static,
    {
        let clock = self.context.clock.clone();
        let begun = clock.now();
        self.call(what, async move {
            let result = call.await;
            let now = clock.now();
            move |slot: &mut Slot| {
                let memory = &mut slot.memory;
                memory.polled_at = None;
                match result {
                    Ok(started) => {
                        memory.succeed(what);
                        // What was seen before the call was sent says nothing of its effect.
                        let at = if started.task.is_some() { now } else { begun };
                        let accepted = crate::plan::Accepted { at, task: started.task, digest };
                        memory.accepted.insert(what, accepted);
                    }
                    Err(error) => {
                        memory.accepted.remove(what);
                        match what {
                            "delete" | "power" => memory.fail_stop(what, error, &digest, now),
                            _ => memory.fail(what, error, &digest, now),
                        }
                    }
                }
            }
        });
    }
}
