//! The controller of VMClones: makes the record of the copy's machine, follows it, and lets it go on
//! alone once it is ready.

mod plan;
mod status;
mod wish;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
    runtime::controller::Action,
};
use serde_json::json;
use sutler_api::{
    conditions,
    infra::{VMClone, VirtualMachine},
    names::{MANAGER, annotations, condition_types, finalizers, labels, reasons},
};

use crate::{
    context::Context,
    fleet::Key,
    links::Link,
    machine::Error,
    plan::{Blocker, Record as MachineRecord},
    snapshots,
};
use plan::{Copy, Inputs, Intent, Record, Retry, Step, Target};
use wish::Source;

/// The pause after which a copy is looked at even if nothing happened.
const RESYNC: Duration = Duration::from_secs(1800);

/// The pause after a write: what is there now is known by then.
const AGAIN: Duration = Duration::from_millis(100);

/// The pause after which something that is missing is looked for again, should no event tell of it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The next try after an error of the API.
pub(crate) fn error_policy(_: Arc<VMClone>, _: &Error, context: Arc<Context>) -> Action {
    context.counters.count_api_error();
    Action::requeue(Duration::from_secs(1))
}

/// What a copy hangs on.
pub(crate) fn links(clone: &VMClone) -> BTreeSet<Link> {
    let own = clone.namespace().unwrap_or_default();
    let of = |name: &str| Key::new(&own, name);
    let source = &clone.spec.source;
    let machine = source.vm_ref.as_ref().map(|vm| Link::Machine(of(&vm.name)));
    let snapshot = source.snapshot_ref.as_ref().map(|snapshot| Link::Snapshot(of(&snapshot.name)));
    let target = Link::Machine(of(&clone.spec.target.name));
    [target].into_iter().chain(machine).chain(snapshot).collect()
}

/// One VMClone.
struct Work {
    context: Arc<Context>,
    clone: Arc<VMClone>,
    key: Key,
    uid: String,
}

/// Looks at one VMClone.
pub(crate) async fn reconcile(clone: Arc<VMClone>, context: Arc<Context>) -> Result<Action, Error> {
    context.counters.count_reconcile("VMClone");
    if let Some(wait) = context.not_indexed() {
        return Ok(Action::requeue(wait));
    }
    let key = Key::new(clone.namespace().unwrap_or_default(), clone.name_any());
    let work = Work { uid: clone.uid().unwrap_or_default(), key, context, clone };
    let record = match read(&work.clone) {
        Ok(record) => record,
        Err(message) => {
            status::unreadable(&work, message).await?;
            return Ok(Action::await_change());
        }
    };
    let machine = work.machine(&record).await?;
    let target = match &machine {
        None => Target::Absent,
        Some(vm) if !work.made(vm) => Target::Theirs,
        Some(vm) => Target::Ours(copy(vm, &work.uid)),
    };
    // A copy whose record is there needs its source no more.
    let wished = match &target {
        Target::Absent if !record.done && !record.deleting => work.wished(),
        _ => Err(not_needed()),
    };
    let now = work.context.clock.now();
    let wish = wished.as_ref().map(|_| ());
    let next = plan::plan(&Inputs { record: &record, wish, target: &target, now });
    tracing::trace!(key = %work.key, step = ?next.step, reason = %next.report.reason, "planned");
    let wrote = match (&next.step, wished) {
        (Step::Rest | Step::Wait(_), _) | (Step::Make(_), Err(_)) => false,
        (Step::Intend(intent), _) => work.intend(*intent).await?,
        (Step::Make(name), Ok(spec)) => work.make(name, spec).await?,
        (Step::Release(uid), _) => work.release(machine.as_deref(), uid).await?,
        (Step::Undo(uid), _) => work.undo(uid).await?,
        (Step::Forget, _) => {
            work.forget().await?;
            return Ok(Action::requeue(AGAIN));
        }
    };
    let machine = machine.filter(|_| matches!(target, Target::Ours(_)));
    if wrote {
        // The cache shows it soon; what follows from it is decided then.
        return Ok(Action::requeue(AGAIN));
    }
    let due = status::publish(&work, &record, &next.report, machine.as_deref()).await?;
    let at = match next.step {
        Step::Wait(at) => Some(at),
        _ => None,
    };
    let pause = at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    let pause = pause.into_iter().chain(due).min().unwrap_or(RESYNC);
    Ok(Action::requeue(pause.clamp(AGAIN, RESYNC)))
}

fn not_needed() -> Blocker {
    Blocker { reason: String::new(), message: String::new(), retry: None, failed: false }
}

impl Work {
    /// Whether a machine's record is the one that was made for this copy.
    fn made(&self, vm: &VirtualMachine) -> bool {
        vm.labels().get(labels::CLONE_UID) == Some(&self.uid)
    }

    fn machines(&self) -> Api<VirtualMachine> {
        Api::namespaced(self.context.client.clone(), &self.key.namespace)
    }

    /// The record of the copy's name. That it is not there, or is another's, only the API can say: a cache
    /// that is behind may show the one that had the name before.
    async fn machine(&self, record: &Record) -> Result<Option<Arc<VirtualMachine>>, Error> {
        let key = Key::new(&self.key.namespace, &record.target);
        let cached = Context::cached(&self.context.machines, &key);
        let ours = cached.as_ref().is_some_and(|vm| self.made(vm));
        if ours || record.done || record.intent.is_none() && !record.deleting {
            return Ok(cached);
        }
        Ok(self.machines().get_opt(&record.target).await?.map(Arc::new))
    }

    /// The record that the copy gets, or what stands in the way of it.
    fn wished(&self) -> Result<sutler_api::infra::VirtualMachineSpec, Blocker> {
        let source = self.source()?;
        let spec = wish::spec(&self.clone, &source)?;
        if let Some(from) = &spec.clone_from {
            let reference = &spec.provider_ref;
            let provider = Key::new(reference.namespace_or(&self.key.namespace), &reference.name);
            let connection = self.context.fleet.get(&provider);
            let Some(able) = connection.and_then(|connection| connection.capabilities()) else {
                let message = format!("Provider {provider} is not ready");
                return Err(waits(reasons::PROVIDER_NOT_READY, message));
            };
            if !able.clones {
                return Err(Blocker::unsupported(
                    "spec.source",
                    "its provider cannot copy machines",
                ));
            }
            if from.linked && !able.linked_clones {
                let message = "the source's provider makes no linked copies";
                return Err(Blocker::unsupported("spec.options.type", message));
            }
        }
        Ok(spec)
    }

    fn source(&self) -> Result<Source, Blocker> {
        let source = &self.clone.spec.source;
        let own = &self.key.namespace;
        if let Some(image) = &source.image_ref {
            return Ok(Source::Image(image.clone()));
        }
        if source.template_ref.is_some() {
            // It is refused by its name with all else that is.
            return Ok(Source::Image(Default::default()));
        }
        let (name, snapshot, field) = match (&source.vm_ref, &source.snapshot_ref) {
            (Some(vm), _) => (vm.name.clone(), None, "spec.source.vmRef"),
            (None, Some(reference)) => {
                let field = "spec.source.snapshotRef";
                let key = Key::new(own, &reference.name);
                snapshots::usable(&self.context, field, &key, None)?;
                let snapshot = Context::cached(&self.context.snapshots, &key);
                let of = snapshot.map(|snapshot| snapshot.spec.vm_ref.name.clone());
                (of.unwrap_or_default(), Some(reference.name.clone()), field)
            }
            (None, None) => return Err(Blocker::invalid("spec.source", "say what is copied")),
        };
        let key = Key::new(own, &name);
        let Some(vm) = Context::cached(&self.context.machines, &key) else {
            let message = format!(
                "{field}: VirtualMachine {name} is not in namespace {own}: create it, or correct \
                 the name"
            );
            return Err(waits(reasons::REFERENCE_NOT_FOUND, message));
        };
        let made = MachineRecord::read(&vm).is_ok_and(|record| record.provisioned);
        if !made || vm.metadata.deletion_timestamp.is_some() {
            let message = format!("{field}: the machine of {name} is not there");
            return Err(waits(reasons::WAITING, message));
        }
        Ok(Source::Machine { name, spec: Box::new(vm.spec.clone()), snapshot })
    }

    /// Writes the intent, with the finalizer, over exactly the version that was planned on.
    async fn intend(&self, intent: Intent) -> Result<bool, Error> {
        let mut names = self.clone.finalizers().to_vec();
        if !names.iter().any(|name| name == finalizers::VM_CLONE) {
            names.push(finalizers::VM_CLONE.to_owned());
        }
        let mut note = serde_json::to_value(intent).unwrap_or_default();
        note["of"] = json!(self.uid);
        self.patch(json!({
            "finalizers": names, "annotations": { annotations::CLONE_INTENT: note.to_string() },
        }))
        .await
    }

    async fn forget(&self) -> Result<(), Error> {
        let names: Vec<&String> =
            self.clone.finalizers().iter().filter(|name| *name != finalizers::VM_CLONE).collect();
        self.patch(json!({ "finalizers": names })).await?;
        Ok(())
    }

    async fn patch(&self, mut metadata: serde_json::Value) -> Result<bool, Error> {
        metadata["uid"] = json!(self.uid);
        metadata["resourceVersion"] = json!(self.clone.resource_version());
        let api: Api<VMClone> = Api::namespaced(self.context.client.clone(), &self.key.namespace);
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        match api.patch(&self.key.name, &PatchParams::apply(MANAGER), &patch).await {
            Ok(_) => Ok(true),
            // Somebody else was first: what they wrote is seen soon.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the record of the copy's machine. It goes with the VMClone until it is ready.
    async fn make(
        &self,
        name: &str,
        spec: sutler_api::infra::VirtualMachineSpec,
    ) -> Result<bool, Error> {
        let target = &self.clone.spec.target;
        let mut marks = target.labels.clone();
        marks.insert(labels::CLONE_UID.to_owned(), self.uid.clone());
        // What upstream's users look for; a label holds 63 characters.
        if self.key.name.len() <= 63 {
            marks.insert(labels::CLONE.to_owned(), self.key.name.clone());
        }
        let from = spec.clone_from.as_ref().map(|from| from.vm_ref.name.clone());
        if let Some(from) = from.filter(|from| from.len() <= 63) {
            marks.insert(labels::CLONED_FROM.to_owned(), from);
        }
        let mut vm = VirtualMachine::new(name, spec);
        vm.metadata = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(self.key.namespace.clone()),
            labels: Some(marks),
            annotations: (!target.annotations.is_empty()).then(|| target.annotations.clone()),
            // From the start: a server that is asked to delete a record misses a finalizer that comes
            // meanwhile.
            finalizers: Some(vec![finalizers::VIRTUAL_MACHINE.to_owned()]),
            owner_references: Some(vec![OwnerReference {
                api_version: VMClone::api_version(&()).into_owned(),
                kind: VMClone::kind(&()).into_owned(),
                name: self.key.name.clone(),
                uid: self.uid.clone(),
                controller: None,
                block_owner_deletion: None,
            }]),
            ..ObjectMeta::default()
        };
        match self.machines().create(&PostParams::default(), &vm).await {
            Ok(_) => Ok(true),
            // Whose it is shows when it is looked at.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                status::refused(self, &status.message).await?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Lets the record go on without the VMClone.
    async fn release(&self, machine: Option<&VirtualMachine>, uid: &str) -> Result<bool, Error> {
        let Some(vm) = machine else { return Ok(false) };
        let others: Vec<&OwnerReference> =
            vm.owner_references().iter().filter(|owner| owner.uid != self.uid).collect();
        let patch = Patch::Merge(json!({ "metadata": {
            "uid": uid, "resourceVersion": vm.resource_version(), "ownerReferences": others,
        }}));
        match self.machines().patch(&vm.name_any(), &PatchParams::apply(MANAGER), &patch).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes the record, exactly the one that was made here.
    async fn undo(&self, uid: &str) -> Result<bool, Error> {
        let exactly = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams::default().preconditions(exactly);
        match self.machines().delete(&self.clone.spec.target.name, &params).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

fn waits(reason: &str, message: String) -> Blocker {
    Blocker::waits(reason, message, LOOK_AGAIN)
}

fn read(clone: &VMClone) -> Result<Record, String> {
    let options = clone.spec.options.clone().unwrap_or_default();
    let status = clone.status.as_ref();
    let text = clone.annotations().get(annotations::CLONE_INTENT);
    let bad =
        |error: serde_json::Error| format!("annotation {}: {error}", annotations::CLONE_INTENT);
    let note: Option<serde_json::Value> =
        text.map(|text| serde_json::from_str(text)).transpose().map_err(bad)?;
    // A manifest that was copied with its annotations brings another one's intent along.
    let note = note.filter(|note| note["of"].as_str() == clone.uid().as_deref());
    let intent: Option<Intent> = note.map(serde_json::from_value).transpose().map_err(bad)?;
    let seen = status.filter(|status| status.target_ref.is_some());
    let tries = |status: &sutler_api::infra::VMCloneStatus| {
        u32::try_from(status.retry_count.unwrap_or(0)).unwrap_or(0) + 1
    };
    Ok(Record {
        deleting: clone.metadata.deletion_timestamp.is_some(),
        finalizer: clone.finalizers().iter().any(|name| name == finalizers::VM_CLONE),
        paused: clone.annotations().get(annotations::PAUSED).is_some_and(|value| value == "true"),
        done: status.is_some_and(|status| status.completion_time.is_some()),
        intent,
        seen: seen.map(tries),
        target: clone.spec.target.name.clone(),
        timeout: options.timeout.to_std().unwrap_or(Duration::from_secs(1800)),
        retry: options.retry_policy.map_or(Retry::default(), |policy| Retry {
            most: u32::try_from(policy.max_retries).unwrap_or(0),
            pause: policy.retry_delay.to_std().unwrap_or_default(),
            factor: u32::try_from(policy.backoff_multiplier).unwrap_or(1),
        }),
    })
}

/// How the record of the copy's machine stands.
fn copy(vm: &VirtualMachine, clone: &str) -> Copy {
    let status = vm.status.clone().unwrap_or_default();
    let current = |type_: &str| {
        let found = conditions::find(&status.conditions, type_);
        found.filter(|found| {
            found.status == "True" && found.observed_generation >= vm.metadata.generation
        })
    };
    Copy {
        uid: vm.uid().unwrap_or_default(),
        deleting: vm.metadata.deletion_timestamp.is_some(),
        ready: current(condition_types::READY).is_some(),
        stalled: current(condition_types::STALLED)
            .map(|stalled| (stalled.reason.clone(), stalled.message.clone())),
        message: status.message.unwrap_or_else(|| "its machine is asked for".to_owned()),
        released: vm.owner_references().iter().all(|owner| owner.uid != clone),
    }
}
