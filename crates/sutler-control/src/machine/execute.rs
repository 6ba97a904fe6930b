//! Carries one step out: what has to be on record is written first, and the provider is asked in a
//! task of its own, which wakes the record when the answer is there.

use std::sync::Arc;

use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use sutler_api::{
    infra::VirtualMachine,
    names::{MANAGER, annotations, finalizers},
};
use sutler_provider::{
    CloneRequest, DeleteRequest, Error as ProviderError, ErrorKind, MachineId, Owner, PowerOp,
    PowerRequest, Proof, ReconfigureRequest, Started, TaskId, TaskState, Token,
};

use super::{Error, hooks};
use crate::{
    claims,
    context::{Context, Slot},
    fleet::{Connection, Key, lock},
    plan::{
        Attempt, Copy, DeleteWhy, Desired, Difference, ForgetWhy, Outcome, Plan, PowerStep, Record,
        Report, Revert, SEND_WINDOW, Step,
    },
    rules::{Rule, broken},
};

/// What a step did to the record.
pub(super) enum Done {
    /// Nothing.
    Nothing,
    /// It was written.
    Wrote(Arc<VirtualMachine>),
    /// It was not as the plan supposed.
    Void,
    /// Another record has what it wanted.
    Refused,
    /// It is off the books.
    Gone,
}

/// One record, its platform, and what the step works on.
struct Work<'a> {
    context: &'a Arc<Context>,
    vm: &'a Arc<VirtualMachine>,
    record: &'a Record,
    desired: Option<&'a Desired>,
    connection: &'a Arc<Connection>,
}

/// Carries a step out.
pub(super) async fn execute(
    context: &Arc<Context>,
    vm: &Arc<VirtualMachine>,
    record: &Record,
    desired: Option<&Desired>,
    connection: Option<&Arc<Connection>>,
    Plan { step, report }: &Plan,
) -> Result<Done, Error> {
    if let Step::Forget(why) = step {
        return forget(context, vm, record, *why).await;
    }
    let Some(connection) = connection else { return Ok(Done::Nothing) };
    let work = Work { context, vm, record, desired, connection };
    match step {
        Step::Rest | Step::Wait(_) | Step::Forget(_) => {}
        Step::Look(since) | Step::LookUntil(since, _) => {
            let mut lookers = lock(&context.lookers);
            lookers.entry(connection.key.clone()).or_default().insert(work.key());
            drop(lookers);
            if broken(Rule::OneInventory) {
                work.list_alone();
            }
            connection.inventory.want(*since);
        }
        Step::Create { incarnation } => return work.create(*incarnation).await,
        Step::Restore { incarnation } => return work.restore(*incarnation).await,
        Step::Claim(id) => return work.claim(id).await,
        Step::Describe(id) => work.describe(id),
        Step::Task(task) => work.task(task),
        Step::Power(id, step) => work.power(id, *step),
        Step::Restart(id, request) => return work.restart(id, request, report).await,
        Step::Revert(id, revert) => return work.revert(id, revert).await,
        Step::Reverted(name) => return work.reverted(name, report).await,
        Step::Reconfigure(id, difference) => work.reconfigure(id, difference),
        Step::PostStart(id) => work.hook(id, hooks::Moment::PostStart),
        Step::PreStop(id) => work.hook(id, hooks::Moment::PreStop),
        Step::Delete(id, why) => work.delete(id, *why),
        Step::Disown(id) => work.disown(id),
    }
    Ok(Done::Nothing)
}

impl Work<'_> {
    fn key(&self) -> Key {
        Key::new(&self.record.namespace, &self.record.name)
    }

    fn owner(&self) -> Owner {
        Owner {
            token: self.record.token().cloned().unwrap_or_else(|| Token::new(&self.record.uid, 1)),
            installation: self.context.installation.clone(),
            namespace: self.record.namespace.clone(),
            name: self.record.name.clone(),
        }
    }

    /// What must hold of a machine before it is changed: the token, or where none can be carried the
    /// name that was decided with it.
    fn proof(&self, token: Option<Token>) -> Proof {
        let mut owner = self.owner();
        if let Some(token) = token {
            owner.token = token;
        }
        let name = match self.record.adopted {
            true => None,
            false => self.claimed_name().or_else(|| self.record.platform_name.clone()),
        };
        Proof { owner, name }
    }

    /// The name of the machine that the record claimed, where the platform put something behind the
    /// name that it was given.
    fn claimed_name(&self) -> Option<String> {
        let (id, given) = (self.record.id.as_ref()?, self.record.platform_name.as_ref()?);
        let seen = self.connection.inventory.read(|view| view.get(id).cloned())?;
        let rest = seen.machine.name.strip_prefix(given.as_str())?;
        rest.starts_with(['-', '.']).then(|| seen.machine.name.clone())
    }

    /// Runs a call beside everything else; when it ends, `note` says what is remembered of it, and
    /// the record is looked at again.
    fn call<F, N>(&self, what: &'static str, call: F)
    where
        F: Future<Output = N> + Send + 'static,
        N: FnOnce(&mut Slot) + Send + 'static,
    {
        let (context, key, uid) = (self.context.clone(), self.key(), self.record.uid.clone());
        context.slot(&uid, |slot| slot.memory.in_flight = Some(what));
        let guard = InFlight { context: context.clone(), key, uid: uid.clone() };
        let work = async move {
            let note = call.await;
            context.slot(&uid, note);
            drop(guard);
        };
        match broken(Rule::NobodyBlocksTheNeighbour) {
            true => lock(&self.context.held_up).push(Box::pin(work)),
            false => self.context.tasks.spawn(work),
        }
    }

    /// A list of its own for every record that waits: what must never be.
    fn list_alone(&self) {
        let gate = self.connection.gate.clone();
        self.context.tasks.spawn(async move {
            let _ = gate.list().await;
        });
    }

    async fn create(&self, incarnation: u32) -> Result<Done, Error> {
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
        let notes = json!({
            annotations::TOKEN: token.to_string(),
            annotations::FIRST_REQUESTED_AT: first.to_string(),
            annotations::CREATE_REQUESTED_AT: now.to_string(),
            annotations::PLATFORM_NAME: name,
            annotations::PLACED: placed,
        });
        self.write(json!({ "metadata": { "finalizers": finalizers, "annotations": notes } })).await
    }

    async fn restore(&self, incarnation: u32) -> Result<Done, Error> {
        let name = self.record.platform_name.clone();
        let name = name.or_else(|| self.desired.map(|desired| desired.request.name.clone()));
        let token = Token::new(&self.record.uid, incarnation);
        let now = self.context.clock.now();
        let placed = self.vm.annotations().get(annotations::PLACED).cloned();
        let written = self.intend(&token, now, &name.unwrap_or_default(), &placed).await?;
        Ok(written.map_or(Done::Void, Done::Wrote))
    }

    /// Writes down that a machine is this record's, where nothing on the machine itself says so.
    async fn claim(&self, id: &MachineId) -> Result<Done, Error> {
        let incarnation = self.record.token().map_or(1, |token| token.incarnation);
        let provider = self.connection.key.clone();
        let seen = self.connection.inventory.read(|view| view.get(id).cloned());
        let created_at = seen.as_ref().and_then(|seen| seen.machine.created_at);
        let claim = claims::Claim { provider: &provider, id, created_at };
        let (uid, wanted) = (&self.record.uid, self.record.platform_name.as_ref());
        if let (Some(seen), Some(wanted)) = (&seen, wanted)
            && !broken(Rule::ExclusiveClaim)
            && claims::is_anothers(self.context, &provider, &seen.machine, wanted, uid).await?
        {
            return Ok(Done::Refused);
        }
        if !claims::claim(self.context, &claim, self.record).await? && !broken(Rule::ExclusiveClaim)
        {
            return Ok(Done::Refused);
        }
        let status = json!({
            "id": id, "incarnation": incarnation, "createdAt": created_at.map(|at| at.to_string()),
            // That of the machine before it would pass for its own, and its hook be left out.
            "powerState": Value::Null,
        });
        let body = json!({
            "metadata": { "resourceVersion": self.vm.resource_version() },
            "status": status,
        });
        let written = patch_status(self.context, self.vm, body).await?;
        Ok(written.map_or(Done::Void, Done::Wrote))
    }

    async fn restart(&self, id: &MachineId, request: &str, report: &Report) -> Result<Done, Error> {
        // Written down before it is sent: a restart is done at most once. That the machine is not
        // ready meanwhile comes with it, or who waits would take it for restarted.
        let old = self.vm.status.clone().unwrap_or_default();
        let mut new = super::status::assess(self.context, self.vm, self.desired, report);
        new.restart_handled = Some(request.to_owned());
        let body = json!({
            "metadata": { "resourceVersion": self.vm.resource_version() },
            "status": super::status_difference(&old, &new),
        });
        let Some(fresh) = patch_status(self.context, self.vm, body).await? else {
            return Ok(Done::Void);
        };
        let request = PowerRequest { id: id.clone(), proof: self.proof(None), op: PowerOp::Reboot };
        let gate = self.connection.gate.clone();
        let digest = format!("restart {}", self.context.clock.now());
        self.change("power", digest, async move { gate.power(request, None).await });
        Ok(Done::Wrote(fresh))
    }

    fn describe(&self, id: &MachineId) {
        let (gate, clock) = (self.connection.gate.clone(), self.context.clock.clone());
        let (inventory, id) = (self.connection.inventory.clone(), id.clone());
        self.call("describe", async move {
            let begun = clock.now();
            let result = gate.describe(&id).await;
            let outcome = result.map(|found| {
                inventory.note(&id, found, begun);
            });
            let now = clock.now();
            move |slot: &mut Slot| match outcome {
                Ok(()) => {
                    slot.memory.succeed("describe");
                    slot.memory.described_at = Some(begun);
                }
                Err(error) => slot.memory.fail("describe", error, id.as_ref(), now),
            }
        });
    }

    fn task(&self, task: &TaskId) {
        let (gate, clock) = (self.connection.gate.clone(), self.context.clock.clone());
        let task = task.clone();
        self.call("task", async move {
            let result = gate.task(&task).await;
            let now = clock.now();
            move |slot: &mut Slot| note_task(slot, &task, result, now)
        });
    }

    fn power(&self, id: &MachineId, step: PowerStep) {
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

    async fn revert(&self, id: &MachineId, revert: &Revert) -> Result<Done, Error> {
        let now = self.context.clock.now();
        // Written down first, over what was planned on: a view that is behind puts nothing back that
        // was put back already, and who comes after a crash knows how long this one may take.
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
        let not_after = now.saturating_add(SEND_WINDOW).unwrap_or(Timestamp::MAX);
        let call = async move { gate.snapshot_revert(&id, &proof, &snapshot, not_after).await };
        self.change("revert", digest, call);
        Ok(Done::Wrote(fresh))
    }

    /// Writes down that the machine went back. Until then it is put back again after a crash.
    async fn reverted(&self, name: &str, report: &Report) -> Result<Done, Error> {
        let old = self.vm.status.clone().unwrap_or_default();
        let mut new = super::status::assess(self.context, self.vm, self.desired, report);
        new.reverted_to = Some(name.to_owned());
        let body = json!({
            "metadata": { "resourceVersion": self.vm.resource_version() },
            "status": super::status_difference(&old, &new),
        });
        let written = patch_status(self.context, self.vm, body).await?;
        if let Some(fresh) = &written {
            self.context.slot(&self.record.uid, |slot| slot.memory.accepted.remove("revert"));
            let message = format!("it went back to VMSnapshot {name}");
            self.context.recorder.note(fresh.as_ref(), "Reverted", &message).await;
            self.context.wake(&self.key());
        }
        Ok(written.map_or(Done::Void, Done::Wrote))
    }

    fn reconfigure(&self, id: &MachineId, difference: &Difference) {
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

    fn delete(&self, id: &MachineId, why: DeleteWhy) {
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
        let not_after = self.context.clock.now().saturating_add(SEND_WINDOW);
        let not_after = not_after.unwrap_or(Timestamp::MAX);
        let call = async move { gate.delete(request, not_after).await };
        self.change(what, id.0.clone(), call);
    }

    fn disown(&self, id: &MachineId) {
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

    fn hook(&self, id: &MachineId, moment: hooks::Moment) {
        let run = hooks::Hook {
            moment,
            gate: self.connection.gate.clone(),
            web: self.context.outside.web.clone(),
            id: id.clone(),
            proof: self.proof(None),
            lifecycle: self.vm.spec.lifecycle.clone().unwrap_or_default(),
            context: self.context.clone(),
            vm: self.vm.clone(),
            addresses: self.vm.status.as_ref().map(|s| s.ips.clone()).unwrap_or_default(),
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

    /// Writes the record over the version that was planned on; none when it has changed since.
    async fn write(&self, mut body: Value) -> Result<Option<Arc<VirtualMachine>>, Error> {
        if !broken(Rule::StaleReadsAreNotTrusted) {
            body["metadata"]["resourceVersion"] = json!(self.vm.resource_version());
        }
        body["metadata"]["uid"] = json!(self.record.uid);
        let api: Api<VirtualMachine> =
            Api::namespaced(self.context.client.clone(), &self.record.namespace);
        let patch = Patch::Merge(body);
        let result = api.patch(&self.record.name, &PatchParams::apply(MANAGER), &patch).await;
        written(self.context, &api, &self.record.name, &self.record.uid, result).await
    }
}

/// Takes the finalizer off.
async fn forget(
    context: &Arc<Context>,
    vm: &Arc<VirtualMachine>,
    record: &Record,
    why: ForgetWhy,
) -> Result<Done, Error> {
    if why == ForgetWhy::Forced {
        let who = vm.annotations().get(annotations::REQUESTED_BY);
        let who = who.map_or("somebody who may edit the record", String::as_str);
        tracing::warn!(
            namespace = record.namespace, name = record.name, uid = record.uid, id = ?record.id,
            requested_by = who, "a record is forgotten without a look at its machine"
        );
        let message = format!(
            "forgotten at the request of {who}; machine {} was not looked at",
            record.id.as_ref().map_or("(no ID)", |id| &id.0)
        );
        context.recorder.warn(vm.as_ref(), "Forgotten", &message).await;
    }
    crate::operations::finish_now(context, vm, &record.uid).await;
    claims::release(context, record).await?;
    let finalizers: Vec<&String> =
        vm.finalizers().iter().filter(|name| *name != finalizers::VIRTUAL_MACHINE).collect();
    let body = json!({ "metadata": {
        "finalizers": finalizers,
        "resourceVersion": vm.resource_version(),
        "uid": record.uid,
    }});
    let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), &record.namespace);
    let result = api.patch(&record.name, &PatchParams::apply(MANAGER), &Patch::Merge(body)).await;
    let written = written(context, &api, &record.name, &record.uid, result).await?;
    Ok(written.map_or(Done::Void, |_| Done::Gone))
}

/// Writes a record's status.
pub(super) async fn patch_status(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    body: Value,
) -> Result<Option<Arc<VirtualMachine>>, Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let uid = vm.uid().unwrap_or_default();
    let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), &namespace);
    let params = PatchParams::apply(MANAGER);
    let result = api.patch_status(&vm.name_any(), &params, &Patch::Merge(body)).await;
    written(context, &api, &vm.name_any(), &uid, result).await
}

/// What a write left, which is newer than any cache; none when somebody else was first. What they
/// wrote is read at once: a cache that lags would only lead to the same again.
async fn written(
    context: &Context,
    api: &Api<VirtualMachine>,
    name: &str,
    uid: &str,
    result: Result<VirtualMachine, kube::Error>,
) -> Result<Option<Arc<VirtualMachine>>, Error> {
    let (newest, wrote) = match result {
        Ok(vm) => (Some(vm), true),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            (api.get_opt(name).await?.filter(|vm| vm.uid().as_deref() == Some(uid)), false)
        }
        Err(error) => return Err(error.into()),
    };
    let newest = newest.map(|mut vm| {
        vm.metadata.managed_fields = None;
        Arc::new(vm)
    });
    context.slot(uid, |slot| {
        slot.gone = newest.is_none();
        slot.written.clone_from(&newest);
    });
    Ok(newest.filter(|_| wrote))
}

/// What an error of a create means for the attempt.
fn refused(error: ProviderError, at: Timestamp) -> Outcome {
    match error.kind() {
        ErrorKind::Indeterminate | ErrorKind::Internal => Outcome::Unknown,
        // It was tried: something may be left over.
        ErrorKind::Failed => Outcome::TaskFailed { error, at },
        ErrorKind::Invalid
        | ErrorKind::Denied
        | ErrorKind::NotFound
        | ErrorKind::Conflict
        | ErrorKind::Unsupported
        | ErrorKind::Exhausted
        | ErrorKind::Unavailable => Outcome::Refused(error),
    }
}

/// What a task's state means for what is remembered.
fn note_task(
    slot: &mut Slot,
    task: &TaskId,
    result: Result<TaskState, ProviderError>,
    now: Timestamp,
) {
    let memory = &mut slot.memory;
    memory.polled_at = Some(now);
    let state = match result {
        Ok(state) => state,
        Err(error) => return memory.fail("task", error, task.as_ref(), now),
    };
    memory.succeed("task");
    memory.task_percent = match &state {
        TaskState::Running { percent, .. } => *percent,
        _ => None,
    };
    if matches!(state, TaskState::Running { .. }) {
        return;
    }
    memory.lost_task = Some(task.clone());
    // The machine shows what the task did: only that counts.
    for (what, accepted) in &mut memory.accepted {
        if accepted.task.as_ref() == Some(task) {
            accepted.task = None;
            accepted.at = now;
            if let TaskState::Failed(error) = &state {
                let (what, error, digest) = (*what, error.clone(), accepted.digest.clone());
                memory.accepted.remove(what);
                memory.fail(what, error, &digest, now);
                return;
            }
        }
    }
    if let Some(Attempt { outcome, .. }) = &mut memory.attempt
        && let Outcome::Accepted { task: running, id, at } = outcome
        && running.as_ref() == Some(task)
    {
        *running = None;
        *at = now;
        match state {
            TaskState::Done { id: Some(made) } => {
                id.get_or_insert(MachineId(made));
                memory.id_since.get_or_insert(now);
            }
            TaskState::Failed(error) => {
                let digest = memory.create_digest.clone();
                *outcome = Outcome::TaskFailed { error: error.clone(), at: now };
                memory.fail("create", error, &digest, now);
            }
            // A task that nobody knows proves nothing.
            TaskState::Unknown => *outcome = Outcome::Unknown,
            TaskState::Done { id: None } | TaskState::Running { .. } => {}
        }
    }
}

/// Wakes the record when its call has ended, however it ended.
struct InFlight {
    context: Arc<Context>,
    key: Key,
    uid: String,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.context.slot(&self.uid, |slot| slot.memory.in_flight = None);
        self.context.wake(&self.key);
    }
}
