//! The controller of VMSnapshots: takes them, keeps them as long as they should be kept, deletes
//! them; and makes those of a schedule.

mod cron;
mod execute;
mod home;
pub(crate) mod hook;
pub(crate) mod operation;
mod plan;
mod repeat;
mod retain;
mod schedule;
mod status;
mod wish;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::{Api, ResourceExt as _, runtime::controller::Action};
use sutler_api::{
    infra::{VMSnapshot, VirtualMachine},
    names::{annotations, finalizers, labels, reasons},
};
use sutler_provider::{SnapshotId, TaskId};

use crate::{
    context::Context,
    fleet::{Key, lock},
    kit::version_of,
    links::Link,
    machine::Error,
    plan::Blocker,
};
use plan::{Home, Inputs, Intent, Memory, Record, Wish};

/// The pause after which a snapshot is looked at even if nothing happened.
const RESYNC: Duration = Duration::from_secs(1800);

/// The pause after a write that came too late: what is there now is known by then.
const AGAIN: Duration = Duration::from_millis(100);

/// The pause after something was found that no cache shows yet.
const SEEN_LATE: Duration = Duration::from_secs(1);

/// The pause after a delete, which shows by itself: only one that was lost is repeated.
const DELETED: Duration = Duration::from_secs(10);

/// What this process knows of all snapshots, by their UIDs.
#[derive(Default)]
pub(crate) struct Desk(BTreeMap<String, Entry>);

/// What this process knows of one snapshot.
#[derive(Default)]
struct Entry {
    memory: Memory,
    /// The object as our last write left it, until the cache has caught up.
    written: Option<Arc<VMSnapshot>>,
    gone: bool,
}

impl Desk {
    /// Forgets a snapshot that is gone.
    pub(crate) fn remove(&mut self, uid: &str) {
        self.0.remove(uid);
    }
}

/// The next try after an error of the API.
pub(crate) fn error_policy(_: Arc<VMSnapshot>, _: &Error, context: Arc<Context>) -> Action {
    context.counters.count_api_error();
    Action::requeue(Duration::from_secs(1))
}

/// Whether an object stands for a schedule rather than for a snapshot.
pub(crate) fn is_schedule(snapshot: &VMSnapshot) -> bool {
    let schedule = snapshot.spec.schedule.as_ref();
    schedule.is_some_and(|schedule| schedule.enabled || schedule.cron_spec.is_some())
}

/// What a snapshot hangs on.
pub(crate) fn links(snapshot: &VMSnapshot) -> BTreeSet<Link> {
    let own = snapshot.namespace().unwrap_or_default();
    let machine = Link::Machine(Key::new(own, &snapshot.spec.vm_ref.name));
    let schedule = snapshot.labels().get(labels::SCHEDULE_UID).cloned().map(Link::Schedule);
    [machine].into_iter().chain(schedule).collect()
}

/// What of a machine's record is of use to its snapshots.
pub(crate) fn useful(vm: &VirtualMachine) -> String {
    let status = vm.status.as_ref();
    let provisioned = status.and_then(|status| status.stages.last()).map(|stage| stage.state);
    let snapshots: Vec<&String> =
        status.into_iter().flat_map(|status| &status.snapshots).map(|found| &found.id).collect();
    format!(
        "{:?} {:?} {:?} {:?} {provisioned:?} {:?} {snapshots:?}",
        vm.uid(),
        vm.metadata.deletion_timestamp.is_some(),
        vm.annotations().get(annotations::TOKEN),
        status.and_then(|status| status.id.as_ref()),
        vm.annotations().get(annotations::PAUSED),
    )
}

/// What of a snapshot is of use to machines and copies.
pub(crate) fn useful_to_machines(snapshot: &VMSnapshot) -> String {
    let status = snapshot.status.as_ref();
    let ready = status.and_then(|status| status.phase);
    let id = status.and_then(|status| status.snapshot_id.as_ref());
    format!("{:?} {ready:?} {id:?}", snapshot.uid())
}

/// The snapshot that a record of this namespace may use: it is there, of this machine and of this
/// incarnation of it.
pub(crate) fn usable(
    context: &Context,
    field: &str,
    key: &Key,
    token: Option<&sutler_provider::Token>,
) -> Result<SnapshotId, Blocker> {
    let waits = |message: String| {
        Blocker::waits(reasons::WAITING, format!("{field}: {message}"), Duration::from_secs(300))
    };
    let snapshot = Context::cached(&context.snapshots, key)
        .ok_or_else(|| Blocker::missing("VMSnapshot", field, key))?;
    if is_schedule(&snapshot) {
        let message = format!("VMSnapshot {} is a schedule: name one of its snapshots", key.name);
        return Err(Blocker::invalid(field, &message));
    }
    let id = snapshot.status.as_ref().and_then(|status| status.snapshot_id.clone());
    let (Some(id), Ok(Some(intent))) = (id, read_intent(&snapshot)) else {
        let message = format!("VMSnapshot {} is not ready", key.name);
        return Err(waits(message));
    };
    if token.is_some_and(|token| *token != intent.token) {
        let message = format!("VMSnapshot {} is not of this machine", key.name);
        return Err(Blocker::invalid(field, &message));
    }
    if snapshot.metadata.deletion_timestamp.is_some() {
        let message = format!("VMSnapshot {} is being deleted", key.name);
        return Err(waits(message));
    }
    Ok(SnapshotId(id))
}

/// One snapshot.
pub(crate) struct Work {
    pub(crate) context: Arc<Context>,
    pub(crate) snapshot: Arc<VMSnapshot>,
    pub(crate) key: Key,
    pub(crate) uid: String,
}

impl Work {
    fn new(context: Arc<Context>, snapshot: Arc<VMSnapshot>) -> Self {
        let key = Key::new(snapshot.namespace().unwrap_or_default(), snapshot.name_any());
        Self { uid: snapshot.uid().unwrap_or_default(), key, context, snapshot }
    }

    fn api(&self) -> Api<VMSnapshot> {
        Api::namespaced(self.context.client.clone(), &self.key.namespace)
    }

    fn entry<R>(&self, read: impl FnOnce(&mut Entry) -> R) -> R {
        read(lock(&self.context.desk).0.entry(self.uid.clone()).or_default())
    }
}

/// Looks at one snapshot.
pub(crate) async fn reconcile(
    cached: Arc<VMSnapshot>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    context.counters.count_reconcile("VMSnapshot");
    if let Some(wait) = context.not_indexed() {
        return Ok(Action::requeue(wait));
    }
    let mut work = Work::new(context, cached);
    if work.entry(|entry| entry.gone) {
        return Ok(Action::await_change());
    }
    work.snapshot = work.entry(|entry| freshest(entry, work.snapshot.clone()));
    if is_schedule(&work.snapshot) && work.snapshot.metadata.deletion_timestamp.is_none() {
        return repeat::reconcile(&work).await;
    }
    // What is written down is acted upon at once: it is not good for long.
    for _ in 0..3 {
        match look(&work).await? {
            Next::Again(fresh) => work.snapshot = fresh,
            Next::Later(action) => return Ok(action),
        }
    }
    Ok(Action::requeue(AGAIN))
}

enum Next {
    Again(Arc<VMSnapshot>),
    Later(Action),
}

async fn look(work: &Work) -> Result<Next, Error> {
    let snapshot = &work.snapshot;
    let intent = match read_intent(snapshot) {
        Ok(intent) => intent,
        Err(message) => {
            status::publish(work, &status::unreadable(message), None, None).await?;
            return Ok(Next::Later(Action::await_change()));
        }
    };
    let record = read(snapshot, intent);
    let site = home::find(&work.context, snapshot, record.intent.as_ref());
    if site.record_gone
        && let Some(intent) = &record.intent
        && home::is_there(&work.context, snapshot, intent).await?
    {
        return Ok(Next::Later(Action::requeue(SEEN_LATE)));
    }
    if site.record_gone
        && record.intent.is_some()
        && !record.deleting
        && retain::goes_with_its_machine(snapshot)
    {
        let message = "its VirtualMachine is gone, and the snapshot with it";
        retain::delete(work, reasons::DELETING, message).await?;
        return Ok(Next::Later(Action::requeue(DELETED)));
    }
    let wish = wanted(work, &site.home);
    let now = work.context.clock.now();
    let memory = work.entry(|entry| entry.memory.clone());
    let next = plan::plan(&Inputs {
        record: &record,
        wish: wish.as_ref(),
        home: &site.home,
        memory: &memory,
        now,
    });
    tracing::trace!(key = %work.key, step = ?next.step, reason = %next.report.reason, "planned");
    let looking = matches!(memory.in_flight, Some("describe" | "task"));
    if looking && snapshot.status.as_ref().is_some_and(|status| status.phase.is_some()) {
        // A look is no news: what comes of it is said when it is there.
        return Ok(Next::Later(Action::requeue(RESYNC)));
    }
    let kept = retain::term(snapshot, &next.report, now);
    let wake = match &next.step {
        plan::Step::Wait(at) => Some(*at),
        _ => None,
    };
    match execute::execute(work, &record, wish.as_ref().ok(), site.reach.as_ref(), &next).await? {
        execute::Done::Wrote(fresh) => return Ok(Next::Again(fresh)),
        execute::Done::Void => return Ok(Next::Later(Action::requeue(AGAIN))),
        execute::Done::Gone => return Ok(Next::Later(Action::await_change())),
        execute::Done::Nothing => {}
    }
    let provider = site.reach.as_ref().map(|reach| reach.connection.key.clone());
    let due = status::publish(work, &next.report, kept.as_ref(), provider.as_ref()).await?;
    if kept.as_ref().is_some_and(|kept| kept.over) {
        let message = "its time and its grace period are over";
        retain::delete(work, reasons::EXPIRED, message).await?;
        return Ok(Next::Later(Action::requeue(DELETED)));
    }
    let at = wake.into_iter().chain(kept.and_then(|kept| kept.next)).min();
    let pause = at.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    let pause = pause.into_iter().chain(due).min().unwrap_or(RESYNC);
    Ok(Next::Later(Action::requeue(pause.clamp(Duration::from_millis(5), RESYNC))))
}

/// What is asked for, if its platform can do it and nobody else has its name.
fn wanted(work: &Work, home: &Home) -> Result<Wish, Blocker> {
    let wish = wish::read(&work.snapshot)?;
    if let Home::Here { capabilities, .. } = home {
        wish::check(&wish, capabilities)?;
    }
    if let Some(older) = wish.exact.then(|| namesake(work, &wish)).flatten() {
        let message = format!(
            "spec.snapshotConfig.name: VMSnapshot {} of this machine has this name: choose another \
             one",
            older.name
        );
        return Err(Blocker::waits(reasons::CONFLICT, message, Duration::from_secs(300)));
    }
    Ok(wish)
}

/// An older VMSnapshot of the same machine that wants the same name.
fn namesake(work: &Work, wish: &Wish) -> Option<Key> {
    let machine = Key::new(&work.key.namespace, &work.snapshot.spec.vm_ref.name);
    let others = lock(&work.context.snapshot_links).users(&Link::Machine(machine));
    let age = |snapshot: &VMSnapshot| {
        let made = snapshot.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (made, snapshot.uid())
    };
    others.into_iter().find(|key| {
        let other = Context::cached(&work.context.snapshots, key);
        other.is_some_and(|other| {
            let name = other.spec.snapshot_config.as_ref().and_then(|config| config.name.as_ref());
            name == Some(&wish.name) && !is_schedule(&other) && age(&other) < age(&work.snapshot)
        })
    })
}

fn read(snapshot: &VMSnapshot, intent: Option<Intent>) -> Record {
    let notes = snapshot.annotations();
    let flag = |key: &str| notes.get(key).is_some_and(|value| value == "true");
    let status = snapshot.status.as_ref();
    Record {
        deleting: snapshot.metadata.deletion_timestamp.is_some(),
        finalizer: snapshot.finalizers().iter().any(|name| name == finalizers::VM_SNAPSHOT),
        paused: flag(annotations::PAUSED),
        forget: flag(annotations::FORGET) || flag(annotations::FORCE_DELETE),
        id: status.and_then(|status| status.snapshot_id.clone()).map(SnapshotId),
        task: status.and_then(|status| status.task_ref.clone()).map(TaskId),
        intent,
    }
}

/// The intent on record. One that cannot be read is an error: it must never be taken for none.
fn read_intent(snapshot: &VMSnapshot) -> Result<Option<Intent>, String> {
    let Some(text) = snapshot.annotations().get(annotations::SNAPSHOT_INTENT) else {
        return Ok(None);
    };
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| format!("annotation {}: {error}", annotations::SNAPSHOT_INTENT))?;
    // A manifest that was copied with its annotations brings another snapshot's intent along.
    if value["of"].as_str() != snapshot.uid().as_deref() {
        return Ok(None);
    }
    serde_json::from_value(value)
        .map(Some)
        .map_err(|error| format!("annotation {}: {error}", annotations::SNAPSHOT_INTENT))
}

/// The newer of the cached object and the one that our last write left.
fn freshest(entry: &mut Entry, cached: Arc<VMSnapshot>) -> Arc<VMSnapshot> {
    match &entry.written {
        Some(written) if version_of(&**written) > version_of(&*cached) => written.clone(),
        Some(_) => {
            entry.written = None;
            cached
        }
        None => cached,
    }
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}
