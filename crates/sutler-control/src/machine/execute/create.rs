//! Makes machines, and takes those that were made on record.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::json;
use sutler_api::{
    infra::VirtualMachine,
    names::{annotations, finalizers},
};
use sutler_provider::{CloneRequest, Error as ProviderError, Left, MachineId, Token};

use super::{Done, Error, Work};
use crate::{
    claims::{self, Claimed},
    context::Slot,
    fleet::lock,
    machine::facts::forget_machine,
    plan::{Attempt, Copy, Outcome, SEND_WINDOW},
    rules::{Rule, broken},
};

impl Work<'_> {
    pub(super) async fn create(&self, incarnation: u32) -> Result<Done, Error> {
        let Some(desired) = self.desired else { return Ok(Done::Nothing) };
        let now = self.context.clock.now();
        let token = Token::new(&self.record.uid, incarnation);
        let mut request = desired.request.clone();
        request.owner.token = token.clone();
        if broken(Rule::IntentBeforeAction) {
            self.send(request, desired.digest.clone(), now);
            let _ = self.intend(&token, now, &desired.request.name, &desired.placed).await?;
            return Ok(Done::Nothing);
        }
        let intent = self.intend(&token, now, &desired.request.name, &desired.placed);
        let fresh = match intent.await? {
            Some(fresh) => fresh,
            None => return Ok(Done::Void),
        };
        self.send(request, desired.digest.clone(), now);
        Ok(Done::Wrote(fresh))
    }

    /// Sends a create that was announced at `requested_at`.
    fn send(
        &self,
        request: sutler_provider::CreateRequest,
        digest: String,
        requested_at: Timestamp,
    ) {
        self.context.slot(&self.record.uid, |slot| {
            let memory = &mut slot.memory;
            memory.attempt = Some(Attempt { requested_at, outcome: Outcome::Unknown });
            memory.id_since = None;
            memory.described_at = None;
            memory.accepted.clear();
            memory.post_started = false;
            memory.task_percent = None;
            memory.create_digest.clone_from(&digest);
            slot.stages = Default::default();
        });
        let gate = self.connection.gate.clone();
        let clock = self.context.clock.clone();
        let not_after = requested_at.saturating_add(SEND_WINDOW).unwrap_or(Timestamp::MAX);
        let copy = self.desired.and_then(|desired| desired.copy.clone());
        self.call("create", async move {
            let result = match copy {
                None => gate.create(request, not_after).await,
                Some(Copy { source, snapshot, linked, customize }) => {
                    let target = request;
                    let request = CloneRequest { source, snapshot, target, linked, customize };
                    gate.clone_machine(request, not_after).await
                }
            };
            let now = clock.now();
            move |slot: &mut Slot| {
                let memory = &mut slot.memory;
                let outcome = match result {
                    Ok(accepted) => {
                        memory.succeed("create");
                        if accepted.id.is_some() {
                            memory.id_since = Some(now);
                        }
                        Outcome::Accepted { id: accepted.id, task: accepted.task, at: now }
                    }
                    Err(error) => {
                        memory.fail("create", error.clone(), &digest, now);
                        refused(error, now)
                    }
                };
                memory.attempt = Some(Attempt { requested_at, outcome });
            }
        });
    }

    /// Writes the intent, with the finalizer, over exactly the version that was planned on.
    async fn intend(
        &self,
        token: &Token,
        now: Timestamp,
        name: &str,
        placed: &Option<String>,
    ) -> Result<Option<Arc<VirtualMachine>>, Error> {
        let mut finalizers = self.vm.finalizers().to_vec();
        if !self.record.finalizer {
            finalizers.push(finalizers::VIRTUAL_MACHINE.to_owned());
        }
        let first = self.record.intent.as_ref().filter(|intent| &intent.token == token);
        let first = first.map_or(now, |intent| intent.first_requested_at);
        let members_since = self.record.group.as_ref().map(|group| {
            let timeout = self.connection.state().discovery_timeout;
            let over = now.saturating_sub(timeout).unwrap_or(Timestamp::MIN);
            let index = lock(&self.context.index);
            let waited = index.members_since(&self.connection.key, group, over);
            waited.map_or(first, |since| since.min(first)).to_string()
        });
        let notes = json!({
            annotations::MEMBERS_SINCE: members_since,
            annotations::TOKEN: token.to_string(),
            annotations::FIRST_REQUESTED_AT: first.to_string(),
            annotations::CREATE_REQUESTED_AT: now.to_string(),
            annotations::PLATFORM_NAME: name,
            annotations::PLACED: placed,
        });
        self.write(json!({ "metadata": { "finalizers": finalizers, "annotations": notes } })).await
    }

    pub(super) async fn restore(&self, incarnation: u32) -> Result<Done, Error> {
        let name = self.record.platform_name.clone();
        let name = name.or_else(|| self.desired.map(|desired| desired.request.name.clone()));
        let token = Token::new(&self.record.uid, incarnation);
        let now = self.context.clock.now();
        let placed = self.vm.annotations().get(annotations::PLACED).cloned();
        let written = self.intend(&token, now, &name.unwrap_or_default(), &placed).await?;
        Ok(written.map_or(Done::Void, Done::Wrote))
    }

    pub(super) async fn take_over(&self, asked_at: Timestamp) -> Result<Done, Error> {
        let Some(desired) = self.desired else { return Ok(Done::Nothing) };
        let token = Token::new(&self.record.uid, 1);
        let intent = self.intend(&token, asked_at, &desired.request.name, &desired.placed);
        Ok(intent.await?.map_or(Done::Void, Done::Wrote))
    }

    /// Writes down that a machine is this record's, where nothing on the machine itself says so.
    pub(super) async fn claim(&self, id: &MachineId) -> Result<Done, Error> {
        let incarnation = self.record.token().map_or(1, |token| token.incarnation);
        let provider = self.connection.key.clone();
        let seen = self.connection.inventory.read(|view| view.get(id).cloned());
        let created_at = seen.as_ref().and_then(|seen| seen.machine.created_at);
        let wanted = self.record.platform_name.as_ref();
        let made_for_it = self.record.has_name_of_its_own(self.connection.state().hashed)
            && seen.as_ref().is_some_and(|seen| Some(&seen.machine.name) == wanted);
        let claim = claims::Claim { provider: &provider, id, created_at, made_for_it };
        if let (Some(seen), Some(wanted)) = (&seen, wanted)
            && !broken(Rule::ExclusiveClaim)
            && self.record.said_id.is_none()
            && claims::is_anothers(self.context, &provider, &seen.machine, wanted, self.record)
                .await?
        {
            let why = format!("{} may be the name of another record's", seen.machine.name);
            return Ok(Done::Refused(format!("machine {id} is not claimed: {why}")));
        }
        match claims::claim(self.context, &claim, self.record).await? {
            Claimed::Ours => {}
            _ if broken(Rule::ExclusiveClaim) => {}
            // What is wanted in its place is planned at once, with that in mind.
            Claimed::Kept(_) if lock(&self.context.index).keep(&provider, id, created_at) => {
                return Ok(Done::Void);
            }
            Claimed::Kept(why) | Claimed::Theirs(why) => {
                return Ok(Done::Refused(format!("machine {id} is not claimed: {why}")));
            }
        }
        let mut new = self.vm.status.clone().unwrap_or_default();
        // What was known of a machine before it would pass for this one's own: a hook would be left
        // out or run elsewhere, a step be taken for done.
        let incarnation = i32::try_from(incarnation).ok();
        if new.id.is_some() || new.incarnation != incarnation {
            forget_machine(&mut new);
        }
        new.id = Some(id.0.clone());
        // By its address its node is known, even if it is removed the next moment.
        if let Some(seen) = &seen
            && !seen.machine.ips.is_empty()
        {
            new.ips.clone_from(&seen.machine.ips);
        }
        new.platform_name = seen.map(|seen| seen.machine.name.clone()).or(new.platform_name);
        new.incarnation = incarnation;
        new.created_at = created_at.map(Time);
        let written = self.write_status(&new).await?;
        Ok(written.map_or(Done::Void, Done::Wrote))
    }
}

/// What an error of a create means for the attempt.
fn refused(error: ProviderError, at: Timestamp) -> Outcome {
    match error.kind().left() {
        Left::Unknown => Outcome::Unknown,
        Left::Perhaps => Outcome::TaskFailed { error, at },
        Left::Nothing => Outcome::Refused(error),
    }
}
