//! Whether a machine is as an Operation asked for.

use jiff::Timestamp;
use kube::ResourceExt as _;
use sutler_api::{
    conditions,
    infra::{PowerState, VirtualMachine},
    names::{annotations, condition_types, reasons},
    sutler::{ErrorKind, OperationType},
};

use super::{
    change::completed,
    report::{End, Failure},
    request::Wish,
};
use crate::plan::Memory;

/// How a wish stands.
#[derive(Debug, PartialEq)]
pub(crate) enum Standing {
    /// It is under way: why it is not done, in a word and for people.
    Going(String, String),
    /// It has come to its end.
    Ended(End),
}

/// Whether a machine is as was asked for of its record, when that became `generation`.
pub(crate) fn standing(
    wish: &Wish,
    vm: &VirtualMachine,
    generation: i64,
    restart: &str,
    memory: Option<&Memory>,
    since: Timestamp,
) -> Standing {
    let status = vm.status.clone().unwrap_or_default();
    let ready = conditions::find(&status.conditions, condition_types::READY);
    let (reason, message) = match ready {
        Some(ready) => (ready.reason.clone(), ready.message.clone()),
        None => (reasons::PENDING.to_owned(), "it was not looked at yet".to_owned()),
    };
    let going = || Standing::Going(reason.clone(), message.clone());
    let failed = |failure: Failure| Standing::Ended(End::Failed(failure));
    if let Some(message) = overruled(wish, vm, restart) {
        return failed(Failure::new(ErrorKind::Conflict, message));
    }
    // What was said of an earlier wish says nothing of this one.
    let observed = ready.and_then(|ready| ready.observed_generation).unwrap_or(0);
    if observed < generation {
        return going();
    }
    let stalled = conditions::find(&status.conditions, condition_types::STALLED);
    if let Some(stalled) = stalled.filter(|stalled| stalled.status == "True") {
        return failed(Failure::because(&stalled.reason, &stalled.message));
    }
    let holds = ready.is_some_and(|ready| ready.status == "True");
    if !holds || memory.is_some_and(|memory| memory.in_flight.is_some()) {
        return going();
    }
    let change = conditions::find(&status.conditions, condition_types::RECONFIGURING);
    let type_ = match wish {
        Wish::Destroy | Wish::Forget => return going(),
        Wish::Provision => OperationType::Provision,
        Wish::Start if status.power_state == Some(PowerState::On) => OperationType::Start,
        Wish::Stop { .. } if status.power_state == Some(PowerState::Off) => OperationType::Stop,
        Wish::Start | Wish::Stop { .. } => return going(),
        Wish::Reconfigure(_) => match change {
            Some(held) => return Standing::Going(held.reason.clone(), held.message.clone()),
            None => OperationType::Reconfigure,
        },
        Wish::Restart => {
            let met = status.restart_handled.as_deref() == Some(restart);
            let again = ready
                .is_some_and(|ready| ready.last_transition_time.0.as_second() >= since.as_second());
            if let Some(failure) = memory.and_then(|memory| memory.failures.get("power"))
                && met
                && failure.at >= since
            {
                return failed(failure.error.clone().into());
            }
            match met && again {
                true => OperationType::Restart,
                false => return going(),
            }
        }
    };
    Standing::Ended(completed(vm, &type_, &status))
}

/// Whether somebody has asked for something else since.
fn overruled(wish: &Wish, vm: &VirtualMachine, restart: &str) -> Option<String> {
    let power = vm.spec.power_state;
    let off = matches!(power, Some(PowerState::Off | PowerState::OffGraceful));
    let met = vm.status.as_ref().and_then(|status| status.restart_handled.as_deref());
    let asked = vm.annotations().get(annotations::RESTART_REQUESTED_AT).map(String::as_str);
    let leaves = vm.metadata.deletion_timestamp.is_some();
    let what = match wish {
        Wish::Destroy | Wish::Forget => return None,
        _ if leaves => "the VirtualMachine is being deleted",
        Wish::Start if off => "somebody has asked for the machine to be off meanwhile",
        Wish::Stop { .. } if !off => "somebody has asked for the machine to be on meanwhile",
        Wish::Restart if off => "somebody has asked for the machine to be off meanwhile",
        Wish::Restart if asked != Some(restart) && met != Some(restart) => {
            "somebody has asked for another restart meanwhile"
        }
        _ => return None,
    };
    Some(what.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::operations::request::Size;

    fn vm(power: &str, spec: &str, conditions: Value) -> VirtualMachine {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": {
                "name": "vm", "namespace": "ns", "uid": "u", "generation": 4,
                "annotations": { "sutler.dev/restart-requested-at": "r" },
            },
            "spec": { "providerRef": { "name": "p" }, "powerState": spec },
            "status": { "powerState": power, "conditions": conditions, "restartHandled": "r" },
        }))
        .unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, generation: i64) -> Value {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": "1970-01-01T00:00:10Z", "observedGeneration": generation,
        })
    }

    fn ask(wish: &Wish, vm: &VirtualMachine) -> Standing {
        standing(wish, vm, 4, "r", None, Timestamp::from_second(5).unwrap())
    }

    #[test]
    fn it_is_done_when_it_is_seen_to_be_so() {
        let ready = |generation| json!([condition("Ready", "True", "Ready", generation)]);
        let done = |standing| matches!(standing, Standing::Ended(End::Completed(_)));
        let stop = Wish::Stop { force: false };
        assert!(done(ask(&Wish::Start, &vm("On", "On", ready(4)))));
        assert!(!done(ask(&Wish::Start, &vm("On", "On", ready(3)))), "that was before");
        assert!(!done(ask(&Wish::Start, &vm("Off", "On", ready(4)))));
        assert!(done(ask(&stop, &vm("Off", "OffGraceful", ready(4)))));
        assert!(done(ask(&Wish::Restart, &vm("On", "On", ready(4)))));
        assert!(done(ask(&Wish::Provision, &vm("On", "On", ready(4)))));
        assert!(!done(ask(&Wish::Destroy, &vm("On", "On", ready(4)))));
        let held = json!([
            condition("Ready", "True", "Ready", 4),
            condition("Reconfiguring", "False", "NeedsPowerOff", 4),
        ]);
        let size = Wish::Reconfigure(Size::default());
        let going = Standing::Going("NeedsPowerOff".to_owned(), "m".to_owned());
        assert_eq!(ask(&size, &vm("On", "On", held)), going);
        assert!(done(ask(&size, &vm("On", "On", ready(4)))));
    }

    #[test]
    fn what_cannot_come_true_has_failed() {
        let failed = |standing| match standing {
            Standing::Ended(End::Failed(failure)) => Some(failure.kind),
            _ => None,
        };
        let ready = json!([condition("Ready", "True", "Ready", 4)]);
        assert_eq!(failed(ask(&Wish::Start, &vm("On", "Off", ready))), Some(ErrorKind::Conflict));
        let stalled = json!([
            condition("Ready", "False", "Invalid", 4),
            condition("Stalled", "True", "Invalid", 4),
        ]);
        assert_eq!(failed(ask(&Wish::Start, &vm("On", "On", stalled))), Some(ErrorKind::Invalid));
    }
}
