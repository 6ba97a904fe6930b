//! The controller of VMSets: fetch, plan, write down what is replaced, carry out, say so.

mod act;
mod members;
mod plan;
mod revisions;
mod status;
mod volumes;
mod wanted;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::{
        controller::Action,
        reflector::{ObjectRef, Store},
    },
};
use serde_json::{Value, json};
use sutler_api::{
    conditions,
    infra::{VMSet, VMSetStatus, VirtualMachine},
    names::{MANAGER, condition_types, finalizers, reasons},
};
use tokio::sync::mpsc;

use crate::{
    context::{Context, SPACING},
    fleet::{Key, lock},
    kit::version_of,
    machine::{AGAIN, Error, status_difference},
};

/// The pause after which a set is looked at even if nothing happened.
const RESYNC: Duration = Duration::from_secs(1800);

/// The pause after something that a person or another object stands in the way of.
const BLOCKED: Duration = Duration::from_secs(15);

/// The pause between two writes that tell of progress alone.
const PROGRESS: Duration = Duration::from_secs(1);

/// The pause after which a cache that still shows what is gone is asked again.
const BEHIND: Duration = Duration::from_secs(1);

/// The finalizer by which the API server is asked to leave members alone.
const ORPHAN: &str = "orphan";

/// What the controller of sets shares with the rest.
pub(crate) struct Shared {
    store: Store<VMSet>,
    wakes: mpsc::UnboundedSender<ObjectRef<VMSet>>,
    members: Mutex<members::Members>,
    memory: Mutex<BTreeMap<String, Memory>>,
}

/// What this process knows of one set. Forgetting it is safe.
#[derive(Default)]
struct Memory {
    /// The record as our last write left it, until the cache has caught up.
    written: Option<Arc<VMSet>>,
    /// The revision that is known to be kept.
    kept: Option<String>,
}

impl Shared {
    pub(crate) fn new(store: Store<VMSet>, wakes: mpsc::UnboundedSender<ObjectRef<VMSet>>) -> Self {
        Self { store, wakes, members: Mutex::default(), memory: Mutex::default() }
    }

    pub(crate) fn store(&self) -> Store<VMSet> {
        self.store.clone()
    }

    /// Takes a machine's record in, and wakes its set if that is of use to it.
    pub(crate) fn put(&self, vm: &VirtualMachine) {
        let changed = lock(&self.members).put(vm);
        self.wake(changed);
    }

    /// Takes in a record that was just made: its set need not wait for the watch to see it.
    fn put_made(&self, vm: &VirtualMachine) {
        let changed = lock(&self.members).put_made(vm);
        self.wake(changed);
    }

    /// Lets go the records that a whole list does not show.
    pub(crate) fn keep(&self, listed: &BTreeSet<Key>) {
        let changed = lock(&self.members).keep(listed);
        self.wake(changed);
    }

    /// Lets a machine's record go.
    pub(crate) fn remove(&self, key: &Key) {
        let changed = lock(&self.members).remove(key);
        self.wake(changed);
    }

    /// Wakes the sets that these machines are of.
    pub(crate) fn wake_of(&self, machines: &BTreeSet<Key>) {
        let members = lock(&self.members);
        let sets: BTreeSet<Key> =
            machines.iter().filter_map(|key| members.set_of(key).cloned()).collect();
        drop(members);
        self.wake(sets);
    }

    fn wake(&self, sets: impl IntoIterator<Item = Key>) {
        for set in sets {
            // The receiver is gone only when the controllers stop.
            let _ = self.wakes.send(ObjectRef::new(&set.name).within(&set.namespace));
        }
    }

    fn memory<R>(&self, uid: &str, read: impl FnOnce(&mut Memory) -> R) -> R {
        read(lock(&self.memory).entry(uid.to_owned()).or_default())
    }
}

/// What stands in a set's way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trouble {
    reason: &'static str,
    message: String,
    /// Whether only a person can help.
    stalled: bool,
}

/// The next try after an error of the API.
pub(crate) fn error_policy(_: Arc<VMSet>, error: &Error, context: Arc<Context>) -> Action {
    let Error::Api(source) = error;
    context.counters.count_api_error();
    tracing::debug!(error = source as &dyn std::error::Error, "a set is tried again");
    Action::requeue(Duration::from_secs(2))
}

/// Looks at one set.
pub(crate) async fn reconcile(cached: Arc<VMSet>, context: Arc<Context>) -> Result<Action, Error> {
    context.counters.count_reconcile("VMSet");
    if let Some(wait) = context.not_indexed() {
        return Ok(Action::requeue(wait));
    }
    let set = freshest(&context, cached);
    let key = Key::new(set.namespace().unwrap_or_default(), set.name_any());
    if set.metadata.deletion_timestamp.is_some() {
        return drain(&context, &set, &key).await;
    }
    let wanted = match wanted::wanted(&set) {
        Ok(wanted) => wanted,
        Err(refusal) => {
            let trouble =
                Trouble { reason: refusal.reason, message: refusal.message, stalled: true };
            return refuse(&context, &set, &trouble).await;
        }
    };
    match has_finalizer(&set) {
        true => pursue(&context, set, &key, wanted).await,
        false => match set_finalizer(&context, &set, true).await? {
            Some(fresh) => pursue(&context, fresh, &key, wanted).await,
            None => Ok(Action::requeue(behind(&context, &set))),
        },
    }
}

/// Brings a set a step closer to what is wanted.
async fn pursue(
    context: &Arc<Context>,
    set: Arc<VMSet>,
    key: &Key,
    mut wanted: plan::Wanted,
) -> Result<Action, Error> {
    let uid = set.uid().unwrap_or_default();
    let members = lock(&context.sets.members).of_set(key, &uid);
    let current = set.status.as_ref().and_then(|status| status.current_revision.clone());
    let in_use = || -> BTreeSet<String> {
        members
            .values()
            .filter_map(|member| member.revision.clone())
            .chain(current.clone())
            .collect()
    };
    let (revision, collisions) = revisions::keep(context, &set, in_use).await?;
    wanted.current = current.unwrap_or_else(|| revision.clone());
    wanted.revision = revision;
    let replacing = status::read_replacing(&set);
    let now = context.clock.now();
    let mut next = plan::plan(&wanted, &members, &replacing, now);
    act::recall(context, key, &mut next).await?;
    let say = |trouble: Option<&Trouble>, again: Option<Timestamp>| {
        let said = status::Said {
            set: &set,
            wanted: &wanted,
            members: &members,
            plan: &next,
            collisions,
            trouble,
            next: again,
            now,
        };
        let vm = |name: &str| Context::cached(&context.machines, &Key::new(&key.namespace, name));
        status::next(&said, vm)
    };
    // What an update removes is on record before it is removed, over exactly what was planned on.
    let fresh = match next.replacing == replacing {
        true => set.clone(),
        false => match write(context, &set, &say(None, next.next)).await? {
            Some(fresh) => fresh,
            None => return Ok(Action::requeue(behind(context, &set))),
        },
    };
    // Who is behind would make machines of a set that is gone, or that asks for others by now.
    if !next.create.is_empty() && !is_newest(context, &fresh).await? {
        return Ok(Action::requeue(behind(context, &fresh)));
    }
    let trouble = act::carry_out(context, &set, key, &wanted, &members, &next).await?;
    let again = match &trouble {
        Some(_) => Some(now + BLOCKED),
        None => next.next,
    };
    let said = say(trouble.as_ref(), again);
    let wait = publish(context, &fresh, &said).await?;
    let again = again.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    let pause = [wait, again].into_iter().flatten().min().unwrap_or(RESYNC);
    Ok(Action::requeue(pause.max(Duration::from_millis(1)).min(RESYNC)))
}

/// Lets a set's machines go, and then the set.
async fn drain(context: &Arc<Context>, set: &Arc<VMSet>, key: &Key) -> Result<Action, Error> {
    if !has_finalizer(set) {
        return Ok(Action::await_change());
    }
    let uid = set.uid().unwrap_or_default();
    let members = lock(&context.sets.members).of_set(key, &uid);
    let orphan = set.finalizers().iter().any(|name| name == ORPHAN);
    if orphan || members.is_empty() {
        return match set_finalizer(context, set, false).await? {
            Some(_) => {
                lock(&context.sets.memory).remove(&uid);
                Ok(Action::await_change())
            }
            None => Ok(Action::requeue(behind(context, set))),
        };
    }
    // A set that makes no sense any more goes as carefully as one that does.
    let ordered = wanted::wanted(set).map_or(true, |wanted| wanted.ordered);
    for (number, member) in plan::drain(&members, ordered) {
        act::remove(context, key, number, &member, None).await?;
    }
    let mut new = set.status.clone().unwrap_or_default();
    let left = members.len();
    new.replicas = i32::try_from(left).ok();
    let message = format!("{left} machines are still there");
    say_not_ready(&mut new, set, reasons::DELETING, &message, false, context.clock.now());
    let wait = publish(context, set, &new).await?;
    Ok(Action::requeue(wait.unwrap_or(RESYNC)))
}

/// Says why nothing is done for a set.
async fn refuse(
    context: &Arc<Context>,
    set: &Arc<VMSet>,
    trouble: &Trouble,
) -> Result<Action, Error> {
    let mut new = set.status.clone().unwrap_or_default();
    let now = context.clock.now();
    say_not_ready(&mut new, set, trouble.reason, &trouble.message, true, now);
    let wait = publish(context, set, &new).await?;
    Ok(wait.map_or_else(Action::await_change, Action::requeue))
}

fn say_not_ready(
    status: &mut VMSetStatus,
    set: &VMSet,
    reason: &str,
    message: &str,
    stalled: bool,
    now: Timestamp,
) {
    let generation = set.metadata.generation;
    status.observed_generation = generation;
    let list = &mut status.conditions;
    list.retain(|condition| {
        [condition_types::READY, condition_types::STALLED].contains(&condition.type_.as_str())
    });
    conditions::set(list, condition_types::READY, false.into(), reason, message, generation, now);
    let other = match stalled {
        true => condition_types::STALLED,
        false => condition_types::RECONCILING,
    };
    conditions::set(list, other, true.into(), reason, message, generation, now);
}

/// Writes a status when it is time to, and tells when that is.
async fn publish(
    context: &Arc<Context>,
    set: &Arc<VMSet>,
    new: &VMSetStatus,
) -> Result<Option<Duration>, Error> {
    let old = set.status.clone().unwrap_or_default();
    if status_difference(&old, new).is_none() {
        return Ok(None);
    }
    let ready = |status: &VMSetStatus| {
        let ready = conditions::find(&status.conditions, condition_types::READY);
        ready.map(|ready| (ready.status.clone(), ready.reason.clone()))
    };
    let pause = if ready(&old) == ready(new) { PROGRESS } else { SPACING };
    if let Some(wait) = context.too_soon(&set.uid().unwrap_or_default(), pause) {
        return Ok(Some(wait));
    }
    let before = ready(&old);
    match write(context, set, new).await? {
        None => Ok(Some(behind(context, set))),
        Some(fresh) => {
            tell(context, &fresh, before).await;
            Ok(None)
        }
    }
}

/// Tells people about turning points.
async fn tell(context: &Context, set: &VMSet, before: Option<(String, String)>) {
    let status = set.status.as_ref();
    let ready = status.and_then(|s| conditions::find(&s.conditions, condition_types::READY));
    let Some(ready) = ready else { return };
    if before.is_some_and(|(status, reason)| status == ready.status && reason == ready.reason) {
        return;
    }
    let failing = status.is_some_and(|status| {
        conditions::is_true(&status.conditions, condition_types::REPLICA_FAILURE)
            || conditions::is_true(&status.conditions, condition_types::STALLED)
    });
    match failing {
        true => context.recorder.warn(set, &ready.reason, &ready.message).await,
        false => context.recorder.note(set, &ready.reason, &ready.message).await,
    }
}

/// Writes a status over exactly the version that it was made from; none when that has changed.
async fn write(
    context: &Arc<Context>,
    set: &Arc<VMSet>,
    new: &VMSetStatus,
) -> Result<Option<Arc<VMSet>>, Error> {
    let old = set.status.clone().unwrap_or_default();
    let Some(patch) = status_difference(&old, new) else { return Ok(Some(set.clone())) };
    let body = json!({
        "metadata": { "resourceVersion": set.resource_version(), "uid": set.uid() },
        "status": patch,
    });
    let api: Api<VMSet> = api(context, set);
    let params = PatchParams::apply(MANAGER);
    let result = api.patch_status(&set.name_any(), &params, &Patch::Merge(body)).await;
    context.wrote(&set.uid().unwrap_or_default());
    written(context, set, result).await
}

async fn set_finalizer(
    context: &Arc<Context>,
    set: &VMSet,
    wanted: bool,
) -> Result<Option<Arc<VMSet>>, Error> {
    let mut names: Vec<String> = set.finalizers().to_vec();
    names.retain(|name| name != finalizers::VM_SET);
    if wanted {
        names.push(finalizers::VM_SET.to_owned());
    }
    let body: Value = json!({ "metadata": {
        "finalizers": names,
        "resourceVersion": set.resource_version(),
        "uid": set.uid(),
    }});
    let params = PatchParams::apply(MANAGER);
    let result = api(context, set).patch(&set.name_any(), &params, &Patch::Merge(body)).await;
    written(context, set, result).await
}

/// What a write left, which is newer than any cache; none when somebody else was first. Then the next look
/// is at what that left: the cache may be behind for long.
async fn written(
    context: &Context,
    set: &VMSet,
    result: Result<VMSet, kube::Error>,
) -> Result<Option<Arc<VMSet>>, Error> {
    match result {
        Ok(fresh) => Ok(Some(remember(context, fresh))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            is_newest(context, set).await?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Asks the API whether this is how the set is now, and keeps what it is instead.
async fn is_newest(context: &Context, set: &VMSet) -> Result<bool, Error> {
    let Some(live) = api(context, set).get_opt(&set.name_any()).await? else { return Ok(false) };
    let same = live.uid() == set.uid();
    let newest = same && live.resource_version() == set.resource_version();
    if same && !newest {
        remember(context, live);
    }
    Ok(newest)
}

/// The pause after a write that came too late: short where what it came too late for is known, and until
/// the cache can have caught up where the set is gone.
fn behind(context: &Context, set: &VMSet) -> Duration {
    context.sets.memory(&set.uid().unwrap_or_default(), |memory| match &memory.written {
        Some(written) if version_of(&**written) > version_of(set) => AGAIN,
        _ => BEHIND,
    })
}

/// Keeps what the API answered until the cache has caught up.
fn remember(context: &Context, mut fresh: VMSet) -> Arc<VMSet> {
    fresh.metadata.managed_fields = None;
    let fresh = Arc::new(fresh);
    let uid = fresh.uid().unwrap_or_default();
    context.sets.memory(&uid, |memory| memory.written = Some(fresh.clone()));
    fresh
}

/// The newer of the cached record and the one that our last write left.
fn freshest(context: &Context, cached: Arc<VMSet>) -> Arc<VMSet> {
    context.sets.memory(&cached.uid().unwrap_or_default(), |memory| match &memory.written {
        Some(written) if version_of(&**written) > version_of(&*cached) => written.clone(),
        _ => {
            memory.written = None;
            cached
        }
    })
}

fn has_finalizer(set: &VMSet) -> bool {
    set.finalizers().iter().any(|name| name == finalizers::VM_SET)
}

fn api(context: &Context, set: &VMSet) -> Api<VMSet> {
    Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default())
}
