//! Schedules: VMSnapshots that make others at their times, and delete those that are too many.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, PostParams},
    runtime::controller::Action,
};
use sutler_api::{
    conditions,
    infra::{SnapshotPhase as Phase, SnapshotSchedule, VMSnapshot, VMSnapshotSpec},
    names::{annotations, condition_types, labels, reasons},
    progress::Waiting,
};

use super::{
    AGAIN, RESYNC, Work,
    cron::Schedule,
    retain,
    schedule::{self, Child, Decision, Inputs, Limits, State, run_name, surplus},
    status, wish,
};
use crate::{
    context::Context,
    fleet::{Key, lock},
    links::Link,
    machine::Error,
};

/// What a schedule says of itself.
struct Standing {
    ready: bool,
    reason: &'static str,
    message: String,
    stalled: bool,
    next: Option<Timestamp>,
    last: Option<Timestamp>,
}

pub(super) async fn reconcile(work: &Work) -> Result<Action, Error> {
    let now = work.context.clock.now();
    let own = work.snapshot.spec.schedule.clone().unwrap_or_default();
    let last = known(work);
    let at_rest = |reason, message: String, stalled: bool| Standing {
        ready: false,
        reason,
        message,
        stalled,
        next: None,
        last,
    };
    let children = children(work);
    retire(work, &children).await?;
    if !own.enabled {
        let message = "spec.schedule.enabled is false: no snapshots are taken".to_owned();
        let standing = Standing { ready: true, ..at_rest(reasons::SUSPENDED, message, false) };
        return say(work, &standing, now).await;
    }
    let schedule = match read(&own) {
        Ok(schedule) => schedule,
        Err(message) => return say(work, &at_rest(reasons::INVALID, message, true), now).await,
    };
    if let Err(blocker) = wish::read(&work.snapshot) {
        let standing = at_rest(reasons::NOT_YET_SERVED, blocker.message, true);
        return say(work, &standing, now).await;
    }
    let vm = Key::new(&work.key.namespace, &work.snapshot.spec.vm_ref.name);
    let there = Context::cached(&work.context.machines, &vm);
    if there.is_none_or(|vm| vm.metadata.deletion_timestamp.is_some()) {
        let message =
            format!("spec.vmRef: VirtualMachine {} is not in namespace {}", vm.name, vm.namespace);
        return say(work, &at_rest(reasons::REFERENCE_NOT_FOUND, message, false), now).await;
    }
    let anchor = work.snapshot.metadata.creation_timestamp.as_ref().map_or(now, |Time(at)| *at);
    let uid = work.uid.as_str();
    let under_way: Vec<&Child> = children
        .iter()
        .filter(|child| schedule::is_own(child, &work.key.name, uid))
        .filter(|child| child.state == State::UnderWay)
        .collect();
    let decision = schedule::decide(&Inputs {
        schedule: &schedule,
        anchor,
        last,
        suspended: own.suspend,
        policy: own.concurrency_policy,
        under_way: &under_way,
        now,
    });
    let next = schedule.next(now, anchor).filter(|_| !own.suspend);
    let standing = |reason, message: String, last| Standing {
        ready: true,
        reason,
        message,
        stalled: false,
        next,
        last,
    };
    match decision {
        Decision::Take(run, replaced) => {
            for name in replaced {
                remove(work, &name).await?;
            }
            make(work, run).await?;
            let message = format!("the snapshot of {run} is {}", run_name(&work.key.name, run));
            say(work, &standing(reasons::SCHEDULED, message, Some(run)), now).await
        }
        Decision::Hold(run) => {
            let message = format!("the run of {run} waits for the one that is under way");
            say(work, &standing(reasons::WAITING, message, last), now).await
        }
        Decision::Wait(_) if own.suspend => {
            let message = "spec.schedule.suspend is true: no snapshots are taken".to_owned();
            say(work, &standing(reasons::SUSPENDED, message, last), now).await
        }
        Decision::Wait(Some(next)) => {
            let message = format!("the next snapshot is taken at {next}");
            say(work, &standing(reasons::SCHEDULED, message, last), now).await
        }
        Decision::Wait(None) => {
            let message = "spec.schedule.cronSpec: there is no next time".to_owned();
            say(work, &at_rest(reasons::INVALID, message, true), now).await
        }
    }
}

fn read(own: &SnapshotSchedule) -> Result<Schedule, String> {
    let cron = own.cron_spec.as_deref();
    let cron = cron.ok_or_else(|| "spec.schedule.cronSpec: say when".to_owned())?;
    Schedule::read(cron, &own.timezone)
}

/// The run that was taken last, as the status and the snapshots that are there tell.
fn known(work: &Work) -> Option<Timestamp> {
    let status = work.snapshot.status.as_ref();
    status.and_then(|status| status.last_schedule_time.as_ref()).map(|Time(at)| *at)
}

/// The snapshots that carry the mark of this schedule.
fn children(work: &Work) -> Vec<Child> {
    let link = Link::Schedule(work.uid.clone());
    let keys = lock(&work.context.snapshot_links).users(&link);
    let cached = keys.iter().filter_map(|key| Context::cached(&work.context.snapshots, key));
    cached
        .filter(|child| child.namespace().as_ref() == Some(&work.key.namespace))
        .map(|child| read_child(&child))
        .collect()
}

fn read_child(child: &VMSnapshot) -> Child {
    let status = child.status.clone().unwrap_or_default();
    let run = child.annotations().get(annotations::SCHEDULED_AT);
    let state = match (child.metadata.deletion_timestamp.is_some(), status.phase) {
        (true, _) => State::Leaving,
        (_, Some(Phase::Ready | Phase::Expired)) => State::Good,
        (_, Some(Phase::Failed)) => State::Bad,
        _ => State::UnderWay,
    };
    Child {
        name: child.name_any(),
        schedule: child.labels().get(labels::SCHEDULE_UID).cloned().unwrap_or_default(),
        run: run.and_then(|run| run.parse().ok()),
        state,
        pinned: retain::is_pinned(child),
    }
}

/// Deletes what is too many.
async fn retire(work: &Work, children: &[Child]) -> Result<(), Error> {
    for name in surplus(children, &work.key.name, &work.uid, limits(&work.snapshot)) {
        let message = format!("{name} is one more than are kept");
        work.context.recorder.note(work.snapshot.as_ref(), "Retired", &message).await;
        remove(work, &name).await?;
    }
    Ok(())
}

/// How many are kept: as many as the retention says; where it says nothing, as many as the history.
fn limits(snapshot: &VMSnapshot) -> Limits {
    let own = snapshot.spec.schedule.clone().unwrap_or_default();
    let policy = snapshot.spec.retention_policy.clone().unwrap_or_default();
    let number = |number: i32| usize::try_from(number).unwrap_or(0);
    Limits {
        good: match (policy.max_count, &policy.max_age) {
            (Some(count), _) => Some(number(count)),
            // Each goes when its own time is over.
            (None, Some(_)) => None,
            (None, None) => Some(number(own.successful_jobs_history_limit)),
        },
        bad: number(own.failed_jobs_history_limit),
        keep_pinned: policy.preserve_pinned,
    }
}

async fn remove(work: &Work, name: &str) -> Result<(), Error> {
    let child = Context::cached(&work.context.snapshots, &Key::new(&work.key.namespace, name));
    let Some(child) = child else { return Ok(()) };
    retain::delete_exactly(work, name, child.uid()).await
}

/// Makes the snapshot of a run. One of its name is that of the same run, made before a crash.
async fn make(work: &Work, run: Timestamp) -> Result<(), Error> {
    let name = run_name(&work.key.name, run);
    let mut spec: VMSnapshotSpec = work.snapshot.spec.clone();
    spec.schedule = None;
    if let Some(policy) = &mut spec.retention_policy {
        policy.max_count = None;
    }
    if let Some(config) = &mut spec.snapshot_config
        && let Some(name) = &mut config.name
    {
        *name = format!("{name}-{}", run.as_second());
    }
    let mut child = VMSnapshot::new(&name, spec);
    child.metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(work.key.namespace.clone()),
        labels: Some([(labels::SCHEDULE_UID.to_owned(), work.uid.clone())].into()),
        annotations: Some(
            [
                (annotations::SCHEDULED_AT.to_owned(), run.to_string()),
                (annotations::SCHEDULED_BY.to_owned(), work.key.name.clone()),
            ]
            .into(),
        ),
        ..ObjectMeta::default()
    };
    let api: Api<VMSnapshot> = work.api();
    match api.create(&PostParams::default(), &child).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let found = api.get_opt(&name).await?;
            let ours = found
                .is_some_and(|found| found.labels().get(labels::SCHEDULE_UID) == Some(&work.uid));
            if !ours {
                let message = format!("{run}: a VMSnapshot called {name} is there and not ours");
                work.context
                    .recorder
                    .warn(work.snapshot.as_ref(), reasons::CONFLICT, &message)
                    .await;
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Says how a schedule stands.
async fn say(work: &Work, standing: &Standing, now: Timestamp) -> Result<Action, Error> {
    let old = work.snapshot.status.clone().unwrap_or_default();
    let mut new = old.clone();
    let generation = work.snapshot.metadata.generation;
    let message: String = standing.message.chars().take(1024).collect();
    new.phase = Some(match (standing.ready, standing.stalled) {
        (true, _) => Phase::Ready,
        (false, true) => Phase::Failed,
        (false, false) => Phase::Pending,
    });
    new.message = Some(message.clone());
    new.last_schedule_time = standing.last.map(Time);
    new.next_schedule_time = standing.next.map(Time);
    new.observed_generation = generation;
    let waits = !standing.ready || standing.reason == reasons::WAITING;
    let before = old.waiting.as_ref().filter(|waiting| waiting.reason == standing.reason);
    new.waiting = waits.then(|| Waiting {
        reason: standing.reason.to_owned(),
        message: Some(message.clone()),
        since: before.and_then(|waiting| waiting.since.clone()).or(Some(Time(now))),
        next_attempt: None,
    });
    let idle = wish::without_effect(&work.snapshot, None);
    let mut write = conditions::Writer {
        conditions: &mut new.conditions,
        observed_generation: generation,
        now,
    };
    write.set(condition_types::READY, standing.ready, standing.reason, &message);
    write.set_while(standing.stalled, condition_types::STALLED, standing.reason, &message);
    let moving = !standing.ready && !standing.stalled;
    write.set_while(moving, condition_types::RECONCILING, standing.reason, &message);
    let without = idle.join("; ");
    write.deny_while(!idle.is_empty(), condition_types::SUPPORTED, reasons::UNSUPPORTED, &without);
    let due = status::write(work, &old, new, standing.stalled).await?;
    let next =
        standing.next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    let pause = next.into_iter().chain(due).min().unwrap_or(RESYNC);
    Ok(Action::requeue(pause.clamp(AGAIN / 10, RESYNC)))
}
