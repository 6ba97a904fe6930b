//! Operations that tell of a change of a machine: from its first step until it is as wanted.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use sha2::{Digest as _, Sha256};
use sutler_api::{
    infra::{PowerState, VirtualMachine, VirtualMachinePhase as Phase, VirtualMachineStatus},
    names::{annotations, labels, reasons, stages},
    refs::{LocalObjectRef, TargetRef},
    sutler::{ErrorKind, Operation, OperationSpec, OperationStatus, OperationType, Requester},
};
use sutler_provider::{Power, platform_name};

use super::{
    index::{finished, is_own},
    report::{End, Failure, ended, progress, result_of, stages_done, write},
};
use crate::{
    context::Context,
    fleet::{Key, lock},
    machine::Error,
    plan::{Record, Report},
};

/// The pause between two writes that only tell of progress, the first of them included: a change
/// that is done sooner is written down twice in all.
const PROGRESS: Duration = Duration::from_secs(10);

/// How many Operations of one name, told apart by a number, may be there at a time.
const SAME_NAME: u32 = 64;

/// An operation that is under way.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) type_: OperationType,
    /// Whether it is ours to write. One that a person made is written by its own controller.
    pub(crate) own: bool,
    /// When it began.
    since: Timestamp,
    /// What was last written of it, and when.
    status: OperationStatus,
    written: Timestamp,
}

/// A change that an operation is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    type_: OperationType,
    /// What tells it apart from other changes of this type.
    suffix: String,
}

impl Change {
    /// The change that a record is undergoing, if it has come as far as asking for anything.
    fn of(vm: &VirtualMachine, report: &Report) -> Option<Self> {
        let record = Record::read(vm).ok()?;
        let intent = record.intent.as_ref()?;
        let change = |type_: OperationType, suffix: String| Some(Self { type_, suffix });
        if report.ready || report.stalled {
            return None;
        }
        if record.deleting {
            let on_its_way = record.finalizer && !record.paused && report.phase == Phase::Deleting;
            return on_its_way.then(|| change(OperationType::Destroy, String::new())).flatten();
        }
        report.progress.as_ref()?;
        let generation = vm.metadata.generation.unwrap_or_default();
        match (report.phase, report.reason.as_str()) {
            (Phase::Provisioning, _) => {
                let copy = vm.spec.clone_from.is_some();
                let type_ = if copy { OperationType::Clone } else { OperationType::Provision };
                change(type_, intent.token.incarnation.to_string())
            }
            (Phase::Reconfiguring, reasons::REVERTING) => {
                change(OperationType::Revert, generation.to_string())
            }
            (Phase::Reconfiguring, reasons::RECONFIGURING) => {
                change(OperationType::Reconfigure, generation.to_string())
            }
            (Phase::Reconfiguring, reasons::POWERING | reasons::RUNNING_HOOK) => {
                let off =
                    matches!(vm.spec.power_state, Some(PowerState::Off | PowerState::OffGraceful));
                let seen = report.machine.as_ref();
                let on = seen.is_some_and(|seen| seen.machine.power == Power::On);
                match (off, on && report.reason == reasons::POWERING) {
                    (true, _) => change(OperationType::Stop, generation.to_string()),
                    (false, false) => change(OperationType::Start, generation.to_string()),
                    (false, true) => {
                        let request = vm.annotations().get(annotations::RESTART_REQUESTED_AT);
                        let request = request.map(String::as_str).unwrap_or_default();
                        change(OperationType::Restart, short_hash(request))
                    }
                }
            }
            _ => None,
        }
    }

    /// The same change always has the same name, so that a crash never makes a second one.
    fn name(&self, vm: &VirtualMachine, number: u32) -> String {
        let record = platform_name(&vm.name_any(), &vm.uid().unwrap_or_default(), 32);
        let mut name = format!("{}-{}", record.replace('.', "-"), self.type_);
        if !self.suffix.is_empty() {
            name = format!("{name}-{}", self.suffix);
        }
        if number > 1 {
            name = format!("{name}-{number}");
        }
        name
    }

    /// Whether the operation that is under way goes on with this. A change of size and power is one
    /// change, and a machine that has to be made twice is still the one that was asked for.
    fn continues(&self, running: &OperationType) -> bool {
        let class = |type_: &OperationType| match type_ {
            OperationType::Provision | OperationType::Clone => 0,
            OperationType::Destroy | OperationType::Forget => 2,
            _ => 1,
        };
        class(&self.type_) == class(running)
    }
}

fn short_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

/// Begins an operation where a change begins, and names the one that is under way.
pub(crate) async fn begin(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    report: &Report,
) -> Result<Option<LocalObjectRef>, Error> {
    if report.ready || report.stalled {
        return Ok(None);
    }
    let uid = vm.uid().unwrap_or_default();
    let change = Change::of(vm, report);
    let known = context.slot(&uid, |slot| slot.operation.clone());
    let running = known.or_else(|| resume(context, vm, change.as_ref()));
    let running = match (running, change) {
        (running, None) => running,
        (Some(running), Some(change)) if change.continues(&running.type_) => Some(running),
        (running, Some(change)) => {
            if let Some(running) = running {
                overtaken(context, vm, &running, &change).await?;
            }
            let asked = resume(context, vm, Some(&change));
            match asked.filter(|asked| change.continues(&asked.type_)) {
                Some(asked) => Some(asked),
                None => create(context, vm, &change).await?,
            }
        }
    };
    let name = running.as_ref().map(|running| LocalObjectRef::new(&running.name));
    context.slot(&uid, |slot| slot.operation = running);
    Ok(name)
}

/// An operation on this record that has not ended: one that this process does not remember, or one
/// that a person made for the change that now begins.
fn resume(context: &Context, vm: &VirtualMachine, change: Option<&Change>) -> Option<Running> {
    let key = Key::new(vm.namespace().unwrap_or_default(), vm.name_any());
    let uid = vm.uid().unwrap_or_default();
    let candidates = lock(&context.operations_index).under_way("VirtualMachine", &key);
    let mut found = None;
    for candidate in candidates {
        let Some(operation) = Context::cached(&context.operations, &candidate) else { continue };
        let target = operation.spec.target_ref.as_ref();
        let meant = target.is_some_and(|target| {
            target.kind == "VirtualMachine" && target.uid.as_ref().is_none_or(|meant| *meant == uid)
        });
        if !meant || finished(&operation) {
            continue;
        }
        let own = operation.labels().get(labels::CHANGE_OF) == Some(&uid);
        let asked = change.is_some_and(|change| change.type_ == operation.spec.type_);
        // What a person asked for and has not begun is not what is under way.
        let begun = operation.status.as_ref().is_some_and(|status| status.state.is_some())
            || lock(&context.operations_index).announced(&operation.uid().unwrap_or_default());
        if own || asked && begun && !is_own(&operation) {
            let running = Running {
                name: operation.name_any(),
                type_: operation.spec.type_.clone(),
                own,
                since: begun_at(&operation).unwrap_or_else(|| context.clock.now()),
                status: operation.status.clone().unwrap_or_default(),
                written: context.clock.now(),
            };
            // Somebody's own Operation comes before one of ours.
            if !own {
                return Some(running);
            }
            found = found.or(Some(running));
        }
    }
    found
}

fn begun_at(operation: &Operation) -> Option<Timestamp> {
    let begun = operation.status.as_ref().and_then(|status| status.started_at.as_ref());
    begun.or(operation.metadata.creation_timestamp.as_ref()).map(|Time(at)| *at)
}

async fn create(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    change: &Change,
) -> Result<Option<Running>, Error> {
    let namespace = vm.namespace().unwrap_or_default();
    let uid = vm.uid().unwrap_or_default();
    let now = context.clock.now();
    let api: Api<Operation> = Api::namespaced(context.client.clone(), &namespace);
    for number in 1..=SAME_NAME {
        let name = change.name(vm, number);
        let cached = Context::cached(&context.operations, &Key::new(&namespace, &name));
        // Names of changes that have ended are taken until their time is over.
        if cached.is_some_and(|operation| finished(&operation)) {
            continue;
        }
        let operation = object(context, vm, change, &name, now);
        let found = match api.create(&PostParams::default(), &operation).await {
            Ok(_) => Some(OperationStatus::default()),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let found = api.get_opt(&name).await?;
                let ours = |found: &Operation| {
                    found.labels().get(labels::CHANGE_OF) == Some(&uid) && !finished(found)
                };
                found.filter(ours).map(|found| found.status.unwrap_or_default())
            }
            // Nothing but the telling depends on it: a server without this kind, or that does not
            // let us, or a namespace that is going away.
            Err(kube::Error::Api(status)) if (400..429).contains(&status.code) => {
                tracing::debug!(%name, message = %status.message, "no operation was made");
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(status) = found {
            let type_ = change.type_.clone();
            let written = now;
            return Ok(Some(Running { name, type_, own: true, since: now, status, written }));
        }
    }
    Ok(None)
}

fn object(
    context: &Context,
    vm: &VirtualMachine,
    change: &Change,
    name: &str,
    now: Timestamp,
) -> Operation {
    let uid = vm.uid().unwrap_or_default();
    let ttl = context.settings.operation_ttl.as_secs();
    let spec = OperationSpec {
        type_: change.type_.clone(),
        target_ref: Some(TargetRef {
            api_version: Some("infra.virtrigaud.io/v1beta1".to_owned()),
            kind: "VirtualMachine".to_owned(),
            name: vm.name_any(),
            namespace: None,
            uid: Some(uid.clone()),
        }),
        provider_ref: Some(vm.spec.provider_ref.clone()),
        agent_ref: None,
        params: None,
        idempotency_key: None,
        requested_by: Some(Requester {
            user: vm.annotations().get(annotations::REQUESTED_BY).cloned(),
            source: Some("controller".to_owned()),
            ..Requester::default()
        }),
        requested_at: Some(Time(now)),
        timeout: sutler_api::duration::Duration::from("30m"),
        ttl_seconds_after_finished: Some(i32::try_from(ttl).unwrap_or(i32::MAX)),
        cancel: false,
    };
    let mut operation = Operation::new(name, spec);
    operation.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: vm.namespace(),
        labels: Some([(labels::CHANGE_OF.to_owned(), uid)].into()),
        ..ObjectMeta::default()
    };
    operation
}

/// Follows the change of a record's status.
pub(crate) async fn follow(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    report: &Report,
    status: &VirtualMachineStatus,
    _written: bool,
) -> Result<(), Error> {
    let uid = vm.uid().unwrap_or_default();
    let Some(mut running) = context.slot(&uid, |slot| slot.operation.clone()) else {
        return Ok(());
    };
    let end = if report.ready {
        Some(completed(vm, &running.type_, status))
    } else if report.stalled {
        let mut failure = Failure::because(&report.reason, &report.message);
        failure.stage = stage_of(report, status);
        Some(End::Failed(failure))
    } else {
        None
    };
    if let Some(end) = end {
        finish(context, vm, &running, status, end).await?;
        context.slot(&uid, |slot| slot.operation = None);
        return Ok(());
    }
    let now = context.clock.now();
    let pause = Duration::try_from(now.duration_since(running.written)).unwrap_or_default();
    if !running.own || pause < PROGRESS {
        return Ok(());
    }
    let mut new = progress(&running.status, status, running.since);
    new.stage = stage_of(report, status);
    new.percent = percent_of(report);
    if makes(&running.type_) {
        new.stages.clone_from(&status.stages);
    }
    let key = Key::new(vm.namespace().unwrap_or_default(), &running.name);
    write(context, &key, &running.status, &new, None).await?;
    running.status = new;
    running.written = now;
    context.slot(&uid, |slot| slot.operation = Some(running));
    Ok(())
}

/// Ends the operation of a record that goes off the books.
pub(crate) async fn finish_now(context: &Arc<Context>, vm: &VirtualMachine, uid: &str) {
    let known = context.slot(uid, |slot| slot.operation.take());
    let Some(running) = known.or_else(|| resume(context, vm, None)) else { return };
    let status = vm.status.clone().unwrap_or_default();
    let end = match running.type_ {
        OperationType::Destroy => completed(vm, &running.type_, &status),
        _ => End::Cancelled("the record is off the books".to_owned()),
    };
    // What is not written here is written by the controller of Operations, which finds no record.
    if let Err(Error::Api(error)) = finish(context, vm, &running, &status, end).await {
        tracing::debug!(%error, operation = running.name, "the end of an operation is told later");
    }
}

/// Another change has begun before this one came to its end.
async fn overtaken(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    running: &Running,
    by: &Change,
) -> Result<(), Error> {
    let status = vm.status.clone().unwrap_or_default();
    let end = match by.type_ {
        OperationType::Destroy => End::Cancelled("the record was deleted".to_owned()),
        _ => End::Failed(Failure::new(
            ErrorKind::NotFound,
            "the machine went away before the change was done; it is made again",
        )),
    };
    finish(context, vm, running, &status, end).await
}

async fn finish(
    context: &Arc<Context>,
    vm: &VirtualMachine,
    running: &Running,
    status: &VirtualMachineStatus,
    end: End,
) -> Result<(), Error> {
    if !running.own {
        return Ok(());
    }
    let now = context.clock.now();
    let mut old = running.status.clone();
    // A change that was short was never written down as begun.
    old.started_at.get_or_insert(Time(running.since));
    let mut new = ended(&old, end, Some(1), now);
    if makes(&running.type_) {
        new.stages.clone_from(&status.stages);
    }
    let key = Key::new(vm.namespace().unwrap_or_default(), &running.name);
    write(context, &key, &running.status, &new, None).await?;
    Ok(())
}

/// Whether a change makes a machine.
fn makes(type_: &OperationType) -> bool {
    matches!(type_, OperationType::Provision | OperationType::Clone)
}

/// What a machine's change brought about.
pub(crate) fn completed(
    vm: &VirtualMachine,
    type_: &OperationType,
    status: &VirtualMachineStatus,
) -> End {
    let mut result = result_of(&vm.name_any(), status);
    result.stages_completed = match type_ {
        OperationType::Provision | OperationType::Clone => stages_done(status),
        OperationType::Reconfigure => vec![stages::CONFIGURE_VM.to_owned()],
        OperationType::Start | OperationType::Stop | OperationType::Restart => {
            vec![stages::START_VM.to_owned()]
        }
        _ => Vec::new(),
    };
    End::Completed(Box::new(result))
}

/// The stage that a change is in, or the one that its record stopped at.
fn stage_of(report: &Report, status: &VirtualMachineStatus) -> Option<String> {
    use sutler_api::progress::StageState;
    let told = report.progress.as_ref().and_then(|progress| stages::ALL.get(progress.stage));
    let written = || {
        let open = |state| matches!(state, StageState::Running | StageState::Failed);
        status.stages.iter().find(|stage| open(stage.state)).map(|stage| stage.name.clone())
    };
    told.map(|name| (*name).to_owned()).or_else(written)
}

/// How much of all stages is done.
fn percent_of(report: &Report) -> Option<i32> {
    let progress = report.progress.as_ref()?;
    let all = i32::try_from(stages::ALL.len()).ok()?;
    let done = i32::try_from(progress.stage).ok()? * 100 + i32::from(progress.percent.unwrap_or(0));
    Some((done / all).clamp(0, 99))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sutler_provider::{Machine, Seen};

    use super::*;
    use crate::plan::Progress;

    const UID: &str = "7c0a5c5e-0000-4000-8000-000000000001";

    fn vm(power: &str, asked: bool) -> VirtualMachine {
        let mut vm: VirtualMachine = serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": {
                "name": format!("web.{}", "x".repeat(80)), "namespace": "ns", "uid": UID,
                "generation": 1_000_000_000_i64,
            },
            "spec": { "providerRef": { "name": "p" }, "powerState": power },
        }))
        .unwrap();
        if asked {
            let notes = vm.annotations_mut();
            notes.insert(annotations::TOKEN.into(), format!("{UID}-2"));
            notes.insert(annotations::CREATE_REQUESTED_AT.into(), "2025-01-01T00:00:00Z".into());
        }
        vm
    }

    fn report(phase: Phase, reason: &str, power: Power) -> Report {
        Report {
            phase,
            ready: false,
            reason: reason.to_owned(),
            message: String::new(),
            stalled: false,
            progress: Some(Progress { stage: 2, percent: Some(50) }),
            waiting: None,
            machine: Some(Seen::looked_at(Machine::new("1", "a", power), Timestamp::UNIX_EPOCH)),
            held_change: None,
        }
    }

    #[test]
    fn a_change_is_told_by_what_the_plan_says() {
        let types = [
            ("On", Phase::Provisioning, reasons::PROVISIONING, Power::Off, "provision"),
            ("On", Phase::Reconfiguring, reasons::RECONFIGURING, Power::On, "reconfigure"),
            ("On", Phase::Reconfiguring, reasons::POWERING, Power::Off, "start"),
            ("On", Phase::Reconfiguring, reasons::POWERING, Power::On, "restart"),
            ("Off", Phase::Reconfiguring, reasons::POWERING, Power::On, "stop"),
            ("On", Phase::Reconfiguring, reasons::RUNNING_HOOK, Power::On, "start"),
        ];
        for (wanted, phase, reason, power, type_) in types {
            let change = Change::of(&vm(wanted, true), &report(phase, reason, power)).unwrap();
            assert_eq!(change.type_.as_str(), type_);
            let name = change.name(&vm(wanted, true), 12);
            assert!(name.len() <= 63, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
        }
    }

    #[test]
    fn nothing_is_told_of_a_record_that_asked_for_nothing() {
        let report = report(Phase::Provisioning, reasons::PROVISIONING, Power::Off);
        assert_eq!(Change::of(&vm("On", false), &report), None);
        let mut blocked = report.clone();
        blocked.progress = None;
        assert_eq!(Change::of(&vm("On", true), &blocked), None);
        let stalled = Report { stalled: true, ..report };
        assert_eq!(Change::of(&vm("On", true), &stalled), None);
    }

    #[test]
    fn the_same_change_has_the_same_name() {
        let change = Change { type_: OperationType::Provision, suffix: "1".to_owned() };
        let vm = vm("On", true);
        assert_eq!(change.name(&vm, 1), change.clone().name(&vm, 1));
        assert!(change.name(&vm, 1).ends_with("-provision-1"));
        assert!(change.name(&vm, 2).ends_with("-provision-1-2"));
    }

    #[test]
    fn the_share_of_all_stages_never_ends_before_the_end() {
        let mut report = report(Phase::Provisioning, "", Power::Off);
        assert_eq!(percent_of(&report), Some(41));
        report.progress = Some(Progress { stage: 5, percent: Some(100) });
        assert_eq!(percent_of(&report), Some(99));
    }
}
