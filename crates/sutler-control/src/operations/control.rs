//! The controller of Operations: carries out those that people make, and lets those go whose time is
//! over.
//!
//! An Operation is written down as running before anything is asked for. What may not be done twice
//! is therefore known after a crash to have been begun, and is reported as such instead.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Preconditions},
    runtime::controller::Action,
};
use sutler_api::{
    conditions,
    infra::VMSnapshot,
    names::{condition_types, labels, reasons},
    progress::Waiting,
    sutler::{ErrorKind, Operation, OperationState, OperationStatus, OperationType},
};

use super::{
    act::{self, Next},
    change::completed,
    index::{Memo, finished, is_own},
    report::{End, Failure, cut, ended, write},
    request::{self, Request},
};
use crate::{
    context::Context,
    fleet::{Key, lock},
    machine::Error,
    snapshots,
};

/// The pause between two writes that only tell of progress.
const PROGRESS: Duration = Duration::from_secs(5);

/// The pause after which a cache that is behind is looked at again.
const CATCH_UP: Duration = Duration::from_millis(200);

/// The pause after which an Operation is looked at even if nothing happened.
const RESYNC: Duration = Duration::from_secs(60);

/// The next try after an error of the API.
pub(crate) fn error_policy(_: Arc<Operation>, _: &Error, context: Arc<Context>) -> Action {
    context.counters.count_api_error();
    Action::requeue(Duration::from_secs(1))
}

/// Looks at one Operation.
pub(crate) async fn reconcile(
    operation: Arc<Operation>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    context.counters.count_reconcile("Operation");
    if operation.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    if finished(&operation) {
        return expire(&context, &operation).await;
    }
    if is_own(&operation) {
        return look_after(&context, &operation).await;
    }
    let work = Work::new(&context, &operation);
    if work.memo().ended {
        return Ok(Action::requeue(RESYNC));
    }
    work.carry_out().await
}

/// One Operation that a person made.
pub(crate) struct Work<'a> {
    pub(crate) context: &'a Arc<Context>,
    pub(crate) operation: &'a Arc<Operation>,
    pub(crate) key: Key,
    pub(crate) uid: String,
}

impl<'a> Work<'a> {
    fn new(context: &'a Arc<Context>, operation: &'a Arc<Operation>) -> Self {
        let key = Key::new(operation.namespace().unwrap_or_default(), operation.name_any());
        Self { context, operation, key, uid: operation.uid().unwrap_or_default() }
    }

    /// What this process remembers of it.
    pub(crate) fn memo(&self) -> Memo {
        lock(&self.context.operations_index).memo(&self.uid).clone()
    }

    /// Remembers something of it.
    pub(crate) fn remember(&self, change: impl FnOnce(&mut Memo)) {
        change(lock(&self.context.operations_index).memo(&self.uid));
    }

    fn status(&self) -> OperationStatus {
        self.operation.status.clone().unwrap_or_default()
    }

    /// Whether it is on record as begun.
    fn begun(&self) -> bool {
        self.operation.status.as_ref().is_some_and(|s| s.state == Some(OperationState::Running))
    }

    /// When it began, or was made.
    pub(crate) fn since(&self) -> Timestamp {
        let status = self.operation.status.as_ref();
        let started = status.and_then(|status| status.started_at.as_ref());
        let made = self.operation.metadata.creation_timestamp.as_ref();
        started.or(made).map_or_else(|| self.context.clock.now(), |Time(at)| *at)
    }

    /// When its time is over.
    pub(crate) fn deadline(&self) -> Timestamp {
        let timeout = self.operation.spec.timeout.to_std().unwrap_or(Duration::from_secs(1800));
        self.since().saturating_add(timeout).unwrap_or(Timestamp::MAX)
    }

    async fn carry_out(&self) -> Result<Action, Error> {
        let request = match request::read(self.operation) {
            Ok(request) => request,
            Err(failure) => return self.end(End::Failed(failure)).await,
        };
        let memo = self.memo();
        let begun = self.begun() || memo.announced && memo.acted;
        if self.operation.spec.cancel && !begun {
            return self.end(End::Cancelled("it was cancelled before it began".to_owned())).await;
        }
        if self.context.clock.now() >= self.deadline() && memo.outcome.is_none() {
            return self.end(End::Failed(self.late(&request))).await;
        }
        if !begun {
            let claimed = lock(&self.context.operations_index).claim(self.operation);
            if let Err(first) = claimed {
                return self.copy(&first).await;
            }
            match act::prepare(self, &request).await? {
                Next::Go => {}
                Next::Wait(reason, message) => return self.wait(&reason, &message).await,
                Next::End(end) => return self.end(end).await,
            }
            if !self.announce().await? {
                return Ok(Action::requeue(CATCH_UP));
            }
        }
        let memo = self.memo();
        if !memo.acted {
            // Begun by a process that is gone.
            let unknown = self.begun() && !memo.announced;
            match act::act(self, &request, unknown).await? {
                Next::Go => {}
                Next::Wait(reason, message) => return self.wait(&reason, &message).await,
                Next::End(end) => return self.end(end).await,
            }
        }
        match act::watch(self, &request).await? {
            Next::End(end) => self.end(end).await,
            Next::Go => Ok(self.later()),
            Next::Wait(reason, message) => self.tell(&reason, &message).await,
        }
    }

    /// Looks again when something happens, or its time is over.
    fn later(&self) -> Action {
        let left = self.deadline().duration_since(self.context.clock.now());
        let left = Duration::try_from(left).unwrap_or_default();
        Action::requeue(left.clamp(CATCH_UP, RESYNC))
    }

    fn late(&self, request: &Request) -> Failure {
        let timeout = &self.operation.spec.timeout.0;
        let kind = match request {
            // Nobody knows how far it got.
            Request::Command { .. } => ErrorKind::Indeterminate,
            _ => ErrorKind::Failed,
        };
        let last = self.status().message.unwrap_or_default();
        let message = format!("it was not done within {timeout} (spec.timeout): {last}");
        Failure { reason: "TimedOut".to_owned(), ..Failure::new(kind, message) }
    }

    /// Writes down that it begins, before anything is asked for.
    async fn announce(&self) -> Result<bool, Error> {
        let old = self.status();
        let now = self.context.clock.now();
        let mut new = old.clone();
        new.state = Some(OperationState::Running);
        new.started_at.get_or_insert(Time(now));
        new.attempts = Some(old.attempts.unwrap_or(0) + 1);
        new.waiting = None;
        let message = "it is under way";
        new.message = Some(message.to_owned());
        self.unready(&mut new, "Running", message, now);
        self.write(&old, &new).await
    }

    /// It cannot begin, or go on, until something else happened.
    async fn wait(&self, reason: &str, message: &str) -> Result<Action, Error> {
        let mut new = self.status();
        if !self.begun() {
            new.state = Some(OperationState::Pending);
        }
        self.progress(new, reason, message, true).await?;
        // What somebody else has just written is seen soon.
        let soon = reason == reasons::CONFLICT;
        Ok(Action::requeue(if soon { CATCH_UP } else { PROGRESS }))
    }

    /// It is under way and waits.
    async fn tell(&self, reason: &str, message: &str) -> Result<Action, Error> {
        self.progress(self.status(), reason, message, false).await?;
        Ok(self.later())
    }

    async fn progress(
        &self,
        mut new: OperationStatus,
        reason: &str,
        message: &str,
        at_once: bool,
    ) -> Result<(), Error> {
        let now = self.context.clock.now();
        let old = self.status();
        let since = old.waiting.as_ref().filter(|waiting| waiting.reason == reason);
        new.waiting = Some(Waiting {
            reason: reason.to_owned(),
            message: Some(cut(message, 1024)),
            since: since.and_then(|waiting| waiting.since.clone()).or(Some(Time(now))),
            next_attempt: None,
        });
        new.message = Some(cut(message, 1024));
        self.unready(&mut new, reason, message, now);
        let last = self.memo().written.unwrap_or_else(|| self.since());
        let pause = Duration::try_from(now.duration_since(last)).unwrap_or_default();
        if new == old || pause < PROGRESS && !(at_once && old.state.is_none()) {
            return Ok(());
        }
        if self.write(&old, &new).await? {
            self.remember(|memo| memo.written = Some(now));
        }
        Ok(())
    }

    fn unready(&self, status: &mut OperationStatus, reason: &str, message: &str, now: Timestamp) {
        let generation = self.operation.metadata.generation;
        status.observed_generation = generation;
        let list = &mut status.conditions;
        let type_ = condition_types::READY;
        conditions::set(list, type_, false.into(), reason, message, generation, now);
    }

    async fn write(&self, old: &OperationStatus, new: &OperationStatus) -> Result<bool, Error> {
        write(self.context, &self.key, old, new, Some(self.operation)).await
    }

    async fn end(&self, end: End) -> Result<Action, Error> {
        let old = self.status();
        let generation = self.operation.metadata.generation;
        let new = ended(&old, end, generation, self.context.clock.now());
        if !self.write(&old, &new).await? {
            return Ok(Action::requeue(CATCH_UP));
        }
        self.remember(|memo| memo.ended = true);
        Ok(Action::requeue(RESYNC))
    }

    /// The same request was made before: this one ends as that one does.
    async fn copy(&self, first: &Key) -> Result<Action, Error> {
        let original = Context::cached(&self.context.operations, first);
        let Some(original) = original.filter(|original| finished(original)) else {
            let message =
                format!("Operation {} is the same request, and is carried out", first.name);
            self.wait(reasons::WAITING, &message).await?;
            return Ok(Action::requeue(Duration::from_secs(1)));
        };
        let old = self.status();
        let generation = self.operation.metadata.generation;
        let mut new = original.status.clone().unwrap_or_default();
        new.observed_generation = generation;
        for condition in &mut new.conditions {
            condition.observed_generation = generation;
        }
        if self.write(&old, &new).await? {
            self.remember(|memo| memo.ended = true);
            return Ok(Action::requeue(RESYNC));
        }
        Ok(Action::requeue(CATCH_UP))
    }
}

/// Deletes an Operation whose time is over.
async fn expire(context: &Arc<Context>, operation: &Operation) -> Result<Action, Error> {
    let ttl = operation.spec.ttl_seconds_after_finished;
    let ended = operation.status.as_ref().and_then(|status| status.finished_at.as_ref());
    let (Some(ttl), Some(Time(ended))) = (ttl, ended) else { return Ok(Action::await_change()) };
    let ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or(0));
    let end = ended.saturating_add(ttl).unwrap_or(Timestamp::MAX);
    let left = Duration::try_from(end.duration_since(context.clock.now())).unwrap_or_default();
    if !left.is_zero() {
        return Ok(Action::requeue(left.max(Duration::from_millis(1))));
    }
    let namespace = operation.namespace().unwrap_or_default();
    let api: Api<Operation> = Api::namespaced(context.client.clone(), &namespace);
    let exactly =
        Preconditions { uid: operation.uid(), resource_version: operation.resource_version() };
    match api.delete(&operation.name_any(), &DeleteParams::default().preconditions(exactly)).await {
        Ok(_) => Ok(Action::await_change()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            Ok(Action::requeue(CATCH_UP))
        }
        Err(error) => Err(error.into()),
    }
}

/// Ends an Operation of ours that the controller of machines does not know of: the process that made
/// it went away before it could tell the end.
async fn look_after(context: &Arc<Context>, operation: &Arc<Operation>) -> Result<Action, Error> {
    let work = Work::new(context, operation);
    let uid = operation.labels().get(labels::CHANGE_OF).cloned().unwrap_or_default();
    let target = operation.spec.target_ref.clone().unwrap_or_default();
    if target.kind == snapshots::operation::KIND {
        return look_after_snapshot(&work, &Key::new(&work.key.namespace, &target.name), &uid)
            .await;
    }
    let machine = Key::new(&work.key.namespace, &target.name);
    let remembered = lock(&context.slots)
        .get(&uid)
        .and_then(|slot| slot.operation.as_ref())
        .is_some_and(|running| running.name == work.key.name);
    let now = context.clock.now();
    let mut first_look = now;
    work.remember(|memo| first_look = *memo.written.get_or_insert(now));
    // The record is looked at by its own controller first.
    if remembered || now.duration_since(first_look).as_secs() < 30 {
        return Ok(Action::requeue(RESYNC));
    }
    let destroy = operation.spec.type_ == OperationType::Destroy;
    let vm = Context::cached(&context.machines, &machine).filter(|vm| vm.uid() == Some(uid));
    let Some(vm) = vm else {
        // A cache may be behind: only the API can say that a record is gone.
        if let Some(found) = act::fetch(context, &machine).await?
            && found.uid().as_ref() == target.uid.as_ref()
        {
            return Ok(Action::requeue(RESYNC));
        }
        return match destroy {
            true => work.end(End::Completed(Default::default())).await,
            false => work.end(End::Cancelled("the record is off the books".to_owned())).await,
        };
    };
    let status = vm.status.clone().unwrap_or_default();
    let ready = conditions::find(&status.conditions, condition_types::READY);
    let ready = ready.is_some_and(|ready| {
        ready.status == "True" && ready.observed_generation >= vm.metadata.generation
    });
    if !destroy && ready {
        return work.end(completed(&vm, &operation.spec.type_, &status)).await;
    }
    match conditions::find(&status.conditions, condition_types::STALLED) {
        Some(stalled) if stalled.status == "True" => {
            let failure = Failure::because(&stalled.reason, &stalled.message);
            work.end(End::Failed(failure)).await
        }
        _ => Ok(Action::requeue(RESYNC)),
    }
}

/// Follows a snapshot that is being taken or deleted, as its status tells.
async fn look_after_snapshot(work: &Work<'_>, key: &Key, uid: &str) -> Result<Action, Error> {
    if work.memo().ended {
        return Ok(Action::requeue(RESYNC));
    }
    let destroy = work.operation.spec.type_ == OperationType::Destroy;
    let same = |found: &VMSnapshot| found.uid().as_deref() == Some(uid);
    let cached = Context::cached(&work.context.snapshots, key).filter(|found| same(found));
    let Some(snapshot) = cached else {
        // A cache may be behind: only the API can say that it is gone.
        let api: Api<VMSnapshot> = Api::namespaced(work.context.client.clone(), &key.namespace);
        if api.get_opt(&key.name).await?.is_some_and(|found| same(&found)) {
            return Ok(Action::requeue(CATCH_UP));
        }
        return match destroy {
            true => work.end(End::Completed(Default::default())).await,
            false => work.end(End::Cancelled("the snapshot is off the books".to_owned())).await,
        };
    };
    let status = snapshot.status.clone().unwrap_or_default();
    let find = |type_: &str| conditions::find(&status.conditions, type_);
    let ready = find(condition_types::READY).is_some_and(|ready| ready.status == "True");
    if ready && !destroy {
        let data = serde_json::json!({ "snapshotID": status.snapshot_id });
        let result = super::call::with_data(&key.name, data);
        return work.end(End::Completed(Box::new(result))).await;
    }
    match find(condition_types::STALLED) {
        Some(stalled) if !destroy => {
            let failure = Failure::because(&stalled.reason, &stalled.message);
            work.end(End::Failed(failure)).await
        }
        _ => {
            let reason = if destroy { reasons::DELETING } else { reasons::SNAPSHOTTING };
            work.tell(reason, &status.message.unwrap_or_default()).await
        }
    }
}
