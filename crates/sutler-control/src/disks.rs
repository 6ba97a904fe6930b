//! The controller of VMDisks: gives each to one machine at a time, keeps it while it has no machine,
//! and removes it with its record.

mod look;
mod plan;
mod remove;

use std::{sync::Arc, time::Duration};

use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::controller::Action,
};
use serde_json::{Value, json};
use sutler_api::{
    conditions,
    infra::VirtualMachine,
    names::{MANAGER, condition_types, finalizers, reasons},
    sutler::{DiskPhase, DiskUser, VMDisk, VMDiskStatus},
};
use sutler_provider::DiskKey;

use crate::{
    context::{Context, SPACING},
    fleet::{Key, lock},
    index::Reference,
    machine::{Error, status_difference},
    rules::{Rule, broken},
};
pub(crate) use look::Looks;
use plan::{Disk, Holder, Plan, Step, User};

/// The pause after which a disk is looked at even if nothing happened.
const RESYNC: Duration = Duration::from_secs(1800);

/// The pause after which a machine is looked at that had a disk and names it no more.
const LETTING_GO: Duration = Duration::from_secs(5);

/// The pause after a write that somebody else was ahead of.
const OVERTAKEN: Duration = Duration::from_millis(500);

/// What a platform knows the disk of the record with this UID by.
pub(crate) fn key_of(uid: &str) -> DiskKey {
    DiskKey(format!("sutler-{uid}"))
}

/// What of a disk is of use to machines: whose it is.
pub(crate) fn useful(disk: &VMDisk) -> String {
    let user = disk.status.as_ref().and_then(|status| status.vm_ref.as_ref());
    let deleting = disk.metadata.deletion_timestamp.is_some();
    format!("{} {user:?} {deleting}", disk.uid().unwrap_or_default())
}

/// The next try after an error of the API.
pub(crate) fn error_policy(_: Arc<VMDisk>, error: &Error, context: Arc<Context>) -> Action {
    let Error::Api(source) = error;
    context.counters.count_api_error();
    tracing::debug!(error = source as &dyn std::error::Error, "a disk is tried again");
    Action::requeue(Duration::from_secs(2))
}

/// Looks at one disk.
pub(crate) async fn reconcile(disk: Arc<VMDisk>, context: Arc<Context>) -> Result<Action, Error> {
    context.counters.count_reconcile("VMDisk");
    if let Some(wait) = context.not_indexed() {
        return Ok(Action::requeue(wait));
    }
    let work = Work::new(disk, context);
    let (holder, users) = (work.holder().await?, work.users());
    let letting_go = matches!(&holder, Holder::There(user) if !user.names);
    if matches!(&holder, Holder::There(user) if user.names && !user.stalled) {
        // Its machine may be on its way, and the disk be made with it.
        look::forget(&work);
    }
    let inputs = Disk {
        made: work.status().size_gib,
        deleting: work.disk.metadata.deletion_timestamp.is_some(),
        finalizer: work.disk.finalizers().iter().any(|name| name == finalizers::VM_DISK),
        holder,
        users,
        looked: look::looked(&work),
    };
    let plan = plan::plan(&inputs);
    let pause = if letting_go { LETTING_GO } else { RESYNC };
    match &plan.step {
        Step::Rest if inputs.deleting && !inputs.finalizer => Ok(Action::await_change()),
        Step::Rest => work.publish(&plan, plan.message.clone(), pause).await,
        Step::Hold => Ok(again(work.hold(true).await?)),
        Step::Look => {
            let pause = look::take(&work);
            work.publish(&plan, plan.message.clone(), pause).await
        }
        Step::Give(user) => Ok(again(work.assign(&plan, Some(user.clone())).await?)),
        Step::Take => Ok(again(work.assign(&plan, None).await?)),
        Step::Remove if broken(Rule::KeptDisksLeaveNothing) => work.forget().await,
        Step::Remove => match remove::step(&work).await? {
            remove::Stand::Gone => work.forget().await,
            remove::Stand::Waiting(message, pause) => work.publish(&plan, message, pause).await,
        },
    }
}

/// After a write of our own its event leads on; after one that came too late the cache has to catch
/// up first.
fn again(written: bool) -> Action {
    match written {
        true => Action::requeue(RESYNC),
        false => Action::requeue(OVERTAKEN),
    }
}

/// A disk that is worked on.
struct Work {
    context: Arc<Context>,
    disk: Arc<VMDisk>,
    key: Key,
    uid: String,
    provider: Key,
}

impl Work {
    fn new(disk: Arc<VMDisk>, context: Arc<Context>) -> Self {
        let own = disk.namespace().unwrap_or_default();
        let reference = &disk.spec.provider_ref;
        Self {
            key: Key::new(&own, disk.name_any()),
            uid: disk.uid().unwrap_or_default(),
            provider: Key::new(reference.namespace_or(&own), &reference.name),
            context,
            disk,
        }
    }

    fn status(&self) -> VMDiskStatus {
        self.disk.status.clone().unwrap_or_default()
    }

    /// Whom the disk was given to. A record that the cache does not show is asked for: it may be new.
    async fn holder(&self) -> Result<Holder, Error> {
        let Some(given) = self.status().vm_ref else { return Ok(Holder::Nobody) };
        let key = Key::new(&self.key.namespace, &given.name);
        let same = |vm: &VirtualMachine| vm.uid().as_deref() == Some(given.uid.as_str());
        if let Some(vm) = Context::cached(&self.context.machines, &key).filter(|vm| same(vm)) {
            return Ok(Holder::There(self.user(&vm)));
        }
        let api: Api<VirtualMachine> = Api::namespaced(self.context.client.clone(), &key.namespace);
        let vm = api.get_opt(&key.name).await?.filter(same);
        Ok(vm.map_or(Holder::Gone, |vm| Holder::There(self.user(&vm))))
    }

    /// The records that name the disk, the eldest first.
    fn users(&self) -> Vec<User> {
        let keys = lock(&self.context.index).users(&Reference::Disk(self.key.clone()));
        let cached = |key| Context::cached(&self.context.machines, key);
        let mut vms: Vec<Arc<VirtualMachine>> = keys.iter().filter_map(cached).collect();
        vms.sort_by_key(|vm| (vm.creation_timestamp().map(|at| at.0), vm.name_any()));
        vms.iter().map(|vm| self.user(vm)).collect()
    }

    fn user(&self, vm: &VirtualMachine) -> User {
        let names = vm.spec.disks.iter().filter_map(|disk| disk.disk_ref.as_ref());
        let names = names.into_iter().any(|reference| reference.name == self.key.name);
        let reference = &vm.spec.provider_ref;
        let provider = Key::new(reference.namespace_or(&self.key.namespace), &reference.name);
        let status = vm.status.as_ref();
        let disk = key_of(&self.uid);
        let shown = status.into_iter().flat_map(|status| &status.disks);
        let shown = shown.into_iter().find(|shown| shown.key.as_ref() == Some(&disk.0));
        let is = |type_| status.is_some_and(|s| conditions::is_true(&s.conditions, type_));
        let current = status.is_some_and(|s| s.observed_generation == vm.metadata.generation);
        let settled = current && is(condition_types::READY);
        User {
            id: DiskUser { name: vm.name_any(), uid: vm.uid().unwrap_or_default() },
            names: names && provider == self.provider,
            leaving: vm.metadata.deletion_timestamp.is_some(),
            shows: shown.map(|shown| shown.size_gib.unwrap_or_default()),
            settled,
            stalled: is(condition_types::STALLED),
        }
    }

    /// Gives the disk to a record, or takes it back.
    async fn assign(&self, plan: &Plan, user: Option<DiskUser>) -> Result<bool, Error> {
        let mut new = self.next(plan, &plan.message);
        new.vm_ref = user;
        let written = self.write(&new).await?;
        if written {
            look::forget(self);
        }
        Ok(written)
    }

    fn next(&self, plan: &Plan, message: &str) -> VMDiskStatus {
        let mut new = self.status();
        let generation = self.disk.metadata.generation;
        new.phase = Some(plan.phase);
        new.message = Some(message.to_owned());
        new.size_gib = plan.size;
        new.key = Some(key_of(&self.uid).0);
        new.observed_generation = generation;
        let (holds, reason) = match plan.phase {
            DiskPhase::Attached | DiskPhase::Detached => (true, reasons::READY),
            DiskPhase::Pending => (false, reasons::PENDING),
            DiskPhase::Deleting => (false, reasons::DELETING),
        };
        let (list, now) = (&mut new.conditions, self.context.clock.now());
        let type_ = condition_types::READY;
        conditions::set(list, type_, holds.into(), reason, message, generation, now);
        new
    }

    async fn publish(
        &self,
        plan: &Plan,
        message: String,
        pause: Duration,
    ) -> Result<Action, Error> {
        let new = self.next(plan, &message);
        if status_difference(&self.status(), &new).is_none() {
            return Ok(Action::requeue(pause));
        }
        if let Some(wait) = self.context.too_soon(&self.uid, SPACING) {
            return Ok(Action::requeue(wait));
        }
        let written = self.write(&new).await?;
        Ok(Action::requeue(if written { pause } else { OVERTAKEN }))
    }

    /// Writes the status over exactly the version that was looked at.
    async fn write(&self, new: &VMDiskStatus) -> Result<bool, Error> {
        let patch = status_difference(&self.status(), new).unwrap_or_else(|| json!({}));
        let body = self.exactly(json!({ "status": patch }));
        let params = PatchParams::apply(MANAGER);
        let result = self.api().patch_status(&self.key.name, &params, &Patch::Merge(body)).await;
        self.context.wrote(&self.uid);
        written(result)
    }

    /// Has the record wait for us before it goes, or no more.
    async fn hold(&self, wanted: bool) -> Result<bool, Error> {
        let mut names: Vec<String> = self.disk.finalizers().to_vec();
        names.retain(|name| name != finalizers::VM_DISK);
        if wanted {
            names.push(finalizers::VM_DISK.to_owned());
        }
        let body = self.exactly(json!({ "metadata": { "finalizers": names } }));
        let params = PatchParams::apply(MANAGER);
        written(self.api().patch(&self.key.name, &params, &Patch::Merge(body)).await)
    }

    async fn forget(&self) -> Result<Action, Error> {
        let done = self.hold(false).await?;
        if done {
            remove::forget(self);
        }
        Ok(again(done))
    }

    fn exactly(&self, mut body: Value) -> Value {
        body["metadata"]["resourceVersion"] = json!(self.disk.resource_version());
        body["metadata"]["uid"] = json!(self.disk.meta().uid);
        body
    }

    fn api(&self) -> Api<VMDisk> {
        Api::namespaced(self.context.client.clone(), &self.key.namespace)
    }
}

/// Whether a write went through; somebody else may have been first.
fn written(result: Result<VMDisk, kube::Error>) -> Result<bool, Error> {
    match result {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
