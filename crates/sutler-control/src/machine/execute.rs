//! Carries one step out: what has to be on record is written first, and the provider is asked in a
//! task of its own, which wakes the record when the answer is there.

mod change;
mod create;
mod look;

use std::sync::Arc;

use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use sutler_api::{
    infra::{VirtualMachine, VirtualMachineStatus},
    names::{MANAGER, annotations, finalizers},
};
use sutler_provider::{Owner, Proof, Token};

use super::{Error, hooks};
use crate::{
    claims,
    context::{Context, Slot},
    fleet::{Connection, Key, lock},
    plan::{Desired, ForgetWhy, Plan, Record, Step},
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
    /// Another record has what it wanted; which one, for people.
    Refused(String),
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
        Step::TakeOver { asked_at } => return work.take_over(*asked_at).await,
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
        Step::Delete(id, why) => return work.delete(id, *why).await,
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
        if self.record.machine_name.as_ref() == Some(&seen.machine.name) {
            return self.record.machine_name.clone();
        }
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
        let provider = self.connection.key.clone();
        context.slot(&uid, |slot| slot.memory.in_flight = Some(what));
        let guard = InFlight { context: context.clone(), key, uid: uid.clone() };
        let work = async move {
            let note = call.await;
            let failed = context.slot(&uid, |slot| {
                let before = slot.memory.failures.clone();
                note(slot);
                slot.memory.failures_since(&before)
            });
            for (call, error) in failed {
                tracing::warn!(record = %guard.key, %provider, call, %error, "a call failed");
            }
            drop(guard);
        };
        match broken(Rule::NobodyBlocksTheNeighbour) {
            true => lock(&self.context.held_up).push(Box::pin(work)),
            false => self.context.tasks.spawn(work),
        }
    }

    /// Writes what is other in the status, over the version that was planned on.
    async fn write_status(
        &self,
        new: &VirtualMachineStatus,
    ) -> Result<Option<Arc<VirtualMachine>>, Error> {
        let old = self.vm.status.clone().unwrap_or_default();
        let body = json!({
            "metadata": { "resourceVersion": self.vm.resource_version() },
            "status": super::status_difference(&old, new).unwrap_or_else(|| json!({})),
        });
        patch_status(self.context, self.vm, body).await
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
    claims::release(context, record, why == ForgetWhy::Retained).await?;
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
        slot.gone = newest.as_deref().is_none_or(is_last);
        slot.written.clone_from(&newest);
    });
    Ok(newest.filter(|_| wrote))
}

/// Whether nothing held a record any more, which was deleted: it is gone, at a version that need not be
/// newer than what a cache shows.
fn is_last(vm: &VirtualMachine) -> bool {
    vm.metadata.deletion_timestamp.is_some() && vm.finalizers().is_empty()
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
