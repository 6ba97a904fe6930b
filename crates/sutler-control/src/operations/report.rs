//! What an Operation's status says.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use sutler_api::{
    conditions,
    infra::VirtualMachineStatus,
    names::{MANAGER, condition_types, reasons},
    progress::StageState,
    sutler::{
        ErrorKind, Operation, OperationError, OperationResult, OperationState, OperationStatus,
        ResultStatus,
    },
};

use crate::{
    context::Context,
    fleet::{Key, lock},
    machine::{Error, status_difference},
};

/// How an Operation ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    /// It is done.
    Completed(Box<OperationResult>),
    /// It failed.
    Failed(Failure),
    /// It was stopped, or overtaken.
    Cancelled(String),
}

/// Why an Operation failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) stage: Option<String>,
    /// What is known all the same.
    pub(crate) result: Option<Box<OperationResult>>,
}

impl Failure {
    /// A failure of this kind, whose reason is the kind.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let reason = kind.as_str().to_owned();
        Self { kind, reason, message: message.into(), stage: None, result: None }
    }

    /// A failure for the reason that a record gives.
    pub(crate) fn because(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), ..Self::new(kind_of(reason), message) }
    }

    /// Something that no release serves yet.
    pub(crate) fn unserved(message: impl Into<String>) -> Self {
        Self {
            reason: reasons::NOT_YET_SERVED.to_owned(),
            ..Self::new(ErrorKind::Unsupported, message)
        }
    }
}

impl From<sutler_provider::Error> for Failure {
    fn from(error: sutler_provider::Error) -> Self {
        let field = error.field().map(|field| format!("{field}: ")).unwrap_or_default();
        Self::new(kind_of(error.kind().as_str()), format!("{field}{}", error.message()))
    }
}

/// The kind of error that a reason stands for.
pub(crate) fn kind_of(reason: &str) -> ErrorKind {
    let named = ErrorKind::ALL.iter().find(|kind| kind.as_str() == reason);
    match (named, reason) {
        (Some(kind), _) => *kind,
        (_, reasons::REFERENCE_NOT_FOUND) => ErrorKind::NotFound,
        (_, reasons::NOT_YET_SERVED) => ErrorKind::Unsupported,
        (_, reasons::OWNERSHIP_LOST) => ErrorKind::Conflict,
        (_, reasons::UNREADABLE) => ErrorKind::Invalid,
        (_, reasons::PROVIDER_NOT_READY | reasons::IMAGE_NOT_READY) => ErrorKind::Unavailable,
        (_, reasons::OBSERVING) => ErrorKind::Indeterminate,
        _ => ErrorKind::Failed,
    }
}

/// The status of an Operation that has ended.
pub(crate) fn ended(
    old: &OperationStatus,
    end: End,
    generation: Option<i64>,
    now: Timestamp,
) -> OperationStatus {
    let mut new = old.clone();
    new.started_at.get_or_insert(Time(now));
    new.finished_at = Some(Time(now));
    new.waiting = None;
    new.observed_generation = generation;
    let (state, holds, reason, message) = match end {
        End::Completed(result) => {
            new.percent = Some(100);
            new.stage = None;
            new.result = Some(*result);
            (OperationState::Completed, true, "Completed".to_owned(), "it is done".to_owned())
        }
        End::Failed(failure) => {
            let message = cut(&failure.message, 4096);
            new.error = Some(OperationError {
                kind: failure.kind,
                reason: Some(failure.reason.clone()),
                message: message.clone(),
                retryable: Some(matches!(
                    failure.kind,
                    ErrorKind::Unavailable | ErrorKind::Exhausted
                )),
                stage: failure.stage,
            });
            new.result = failure.result.map(|result| *result);
            (OperationState::Failed, false, failure.reason, message)
        }
        End::Cancelled(message) => {
            (OperationState::Cancelled, false, "Cancelled".to_owned(), message)
        }
    };
    new.state = Some(state);
    new.message = Some(cut(&message, 1024));
    let mut set = |type_: &str, holds: bool| {
        conditions::set(
            &mut new.conditions,
            type_,
            holds.into(),
            &reason,
            &message,
            generation,
            now,
        );
    };
    set(condition_types::READY, holds);
    if state != OperationState::Completed {
        set(condition_types::STALLED, true);
    }
    new.conditions.retain(|condition| condition.type_ != condition_types::RECONCILING);
    new
}

/// The status of an Operation that is under way, as its machine's record tells it.
pub(crate) fn progress(
    old: &OperationStatus,
    machine: &VirtualMachineStatus,
    since: Timestamp,
) -> OperationStatus {
    let mut new = old.clone();
    new.state = Some(OperationState::Running);
    new.started_at.get_or_insert(Time(since));
    new.message.clone_from(&machine.message);
    new.waiting.clone_from(&machine.waiting);
    new.task_ref.clone_from(&machine.last_task_ref);
    new
}

/// What is known of a machine whose change is done.
pub(crate) fn result_of(name: &str, machine: &VirtualMachineStatus) -> OperationResult {
    OperationResult {
        vm_id: machine.id.clone(),
        node: machine.host.clone(),
        ip_address: machine.ips.first().cloned(),
        name: Some(name.to_owned()),
        status: Some(ResultStatus::Completed),
        stages_completed: Vec::new(),
        data: None,
    }
}

/// The stages that a machine's record calls done.
pub(crate) fn stages_done(machine: &VirtualMachineStatus) -> Vec<String> {
    let done = machine.stages.iter().filter(|stage| stage.state == StageState::Completed);
    done.map(|stage| stage.name.clone()).collect()
}

/// Writes a status over what is known of the old one. One that is gone, or that somebody else has
/// changed where `exactly` this version was meant, tells false.
pub(crate) async fn write(
    context: &Arc<Context>,
    key: &Key,
    old: &OperationStatus,
    new: &OperationStatus,
    exactly: Option<&Operation>,
) -> Result<bool, Error> {
    let Some(patch) = status_difference(old, new) else { return Ok(true) };
    let mut body = json!({ "status": patch });
    if let Some(operation) = exactly {
        body["metadata"] = json!({
            "uid": operation.metadata.uid,
            "resourceVersion": operation.metadata.resource_version,
        });
    }
    let api: Api<Operation> = Api::namespaced(context.client.clone(), &key.namespace);
    let params = PatchParams::apply(MANAGER);
    match api.patch_status(&key.name, &params, &Patch::Merge(body)).await {
        Ok(_) => {
            if let Some(state) = new.state.filter(|_| new.finished_at.is_some()) {
                lock(&context.operations_index).end(key);
                context.counters.count_operation(state.as_str());
            }
            Ok(true)
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What a status says at most in one text.
pub(crate) fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_what_became_of_it_and_no_longer_waits() {
        let now = Timestamp::from_second(5).unwrap();
        let old = OperationStatus {
            waiting: Some(Default::default()),
            started_at: Some(Time(Timestamp::from_second(1).unwrap())),
            ..OperationStatus::default()
        };
        let new = ended(&old, End::Completed(Box::default()), Some(2), now);
        assert_eq!(new.state, Some(OperationState::Completed));
        assert_eq!(new.started_at, old.started_at);
        assert_eq!(new.finished_at, Some(Time(now)));
        assert!(new.waiting.is_none() && conditions::is_true(&new.conditions, "Ready"));

        let failure = Failure::because(reasons::REFERENCE_NOT_FOUND, "spec.classRef: none");
        let new = ended(&old, End::Failed(failure), Some(2), now);
        let error = new.error.unwrap();
        assert_eq!((error.kind, error.retryable), (ErrorKind::NotFound, Some(false)));
        assert!(conditions::is_true(&new.conditions, "Stalled"));
    }

    #[test]
    fn every_kind_of_a_provider_has_its_own_here() {
        for kind in sutler_provider::ErrorKind::ALL {
            assert_eq!(kind_of(kind.as_str()).as_str(), kind.as_str());
        }
    }
}
