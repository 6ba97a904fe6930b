//! What a set says of itself after a plan.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use sutler_api::{
    conditions,
    infra::{
        FailedMember, ReplacedMember, SetMember, UpdatePhase, UpdateStatus, VMSet, VMSetStatus,
        VirtualMachine,
    },
    names::{condition_types, labels, reasons},
    progress::Waiting,
};

use super::{
    Trouble, members,
    plan::{Members, Plan, Replacing, State, Wanted},
    wanted::selector_text,
};

/// Everything that a status is made from.
pub(super) struct Said<'a> {
    pub(super) set: &'a VMSet,
    pub(super) wanted: &'a Wanted,
    pub(super) members: &'a Members,
    pub(super) plan: &'a Plan,
    pub(super) collisions: i32,
    pub(super) trouble: Option<&'a Trouble>,
    /// When the set is looked at again by itself.
    pub(super) next: Option<Timestamp>,
    pub(super) now: Timestamp,
}

impl Said<'_> {
    fn name(&self, number: u32) -> String {
        members::name(&self.set.name_any(), number)
    }

    /// Whether machines are being replaced.
    fn updating(&self) -> bool {
        let mut replaced = self.plan.replacing.keys();
        self.plan.counts.outdated > 0 || replaced.any(|number| self.wanted.wants(*number))
    }

    /// Whether everything is as wanted.
    fn done(&self) -> bool {
        let counts = self.plan.counts;
        counts.all == self.wanted.replicas
            && counts.available == self.wanted.replicas
            && counts.outdated == 0
            && self.plan.replacing.is_empty()
    }
}

/// The status of a set; `vm` finds a member's record by name.
pub(super) fn next(
    said: &Said<'_>,
    vm: impl Fn(&str) -> Option<Arc<VirtualMachine>>,
) -> VMSetStatus {
    let old = said.set.status.clone().unwrap_or_default();
    let counts = said.plan.counts;
    let number = |count: u32| Some(i32::try_from(count).unwrap_or(i32::MAX));
    let mut new = VMSetStatus {
        replicas: number(counts.all),
        ready_replicas: number(counts.ready),
        available_replicas: number(counts.available),
        current_replicas: number(counts.current),
        updated_replicas: number(counts.updated),
        selector: Some(selector_text(&said.set.spec.selector)),
        current_revision: Some(said.wanted.current.clone()),
        update_revision: Some(said.wanted.revision.clone()),
        collision_count: (said.collisions > 0).then_some(said.collisions),
        replacing: replacing(said),
        observed_generation: said.set.metadata.generation,
        conditions: old.conditions.clone(),
        ..VMSetStatus::default()
    };
    let seen: Vec<(u32, Option<Arc<VirtualMachine>>)> =
        said.members.keys().map(|number| (*number, vm(&said.name(*number)))).collect();
    new.vm_status = seen.iter().map(|(number, vm)| member(&said.name(*number), vm)).collect();
    new.update_status = update(said, &old, &seen);
    if said.done() && new.updated_replicas == new.replicas {
        new.current_revision.clone_from(&new.update_revision);
        new.current_replicas = new.updated_replicas;
    }
    let (ready, reason, message) = summary(said, &seen);
    new.waiting = (!ready).then(|| {
        let before = old.waiting.as_ref().filter(|before| before.reason == reason);
        Waiting {
            reason: reason.to_owned(),
            message: Some(message.chars().take(1024).collect()),
            since: before.and_then(|before| before.since.clone()).or(Some(Time(said.now))),
            next_attempt: said.next.map(Time),
        }
    });
    set_conditions(&mut new, said, ready, reason, &message);
    new
}

fn replacing(said: &Said<'_>) -> Vec<ReplacedMember> {
    let entries = said.plan.replacing.iter();
    entries
        .map(|(number, uid)| ReplacedMember { name: said.name(*number), uid: uid.clone() })
        .collect()
}

/// What is on a set's record as being replaced.
pub(super) fn read_replacing(set: &VMSet) -> Replacing {
    let name = set.name_any();
    let entries = set.status.iter().flat_map(|status| &status.replacing);
    entries
        .filter_map(|entry| Some((members::number(&name, &entry.name)?, entry.uid.clone())))
        .collect()
}

fn member(name: &str, vm: &Option<Arc<VirtualMachine>>) -> SetMember {
    let status = vm.as_ref().and_then(|vm| vm.status.as_ref());
    let ready = status.and_then(|s| conditions::find(&s.conditions, condition_types::READY));
    SetMember {
        name: name.to_owned(),
        phase: status.and_then(|status| status.phase),
        ready: Some(ready.is_some_and(|ready| ready.status == "True")),
        revision: vm.as_ref().and_then(|vm| vm.labels().get(labels::REVISION).cloned()),
        message: ready.filter(|ready| ready.status != "True").map(|ready| ready.message.clone()),
        creation_time: vm.as_ref().and_then(|vm| vm.creation_timestamp()),
        last_update_time: ready.map(|ready| ready.last_transition_time.clone()),
    }
}

/// How far an update has come; none where there never was one.
fn update(
    said: &Said<'_>,
    old: &VMSetStatus,
    seen: &[(u32, Option<Arc<VirtualMachine>>)],
) -> Option<UpdateStatus> {
    let counts = said.plan.counts;
    let going = said.updating();
    let before = old.update_status.clone();
    if !going && before.is_none() {
        return None;
    }
    let mut new = before.unwrap_or_default();
    let again = new.completion_time.is_some() || new.start_time.is_none();
    if !going {
        new.phase = Some(UpdatePhase::Completed);
        new.message = Some(format!("all machines are of revision {}", said.wanted.revision));
        new.completion_time.get_or_insert(Time(said.now));
        new.pending_vms.clear();
        new.failed_vms.clear();
        return Some(new);
    }
    if again {
        new = UpdateStatus { start_time: Some(Time(said.now)), ..UpdateStatus::default() };
    }
    let of_new = |number: &u32| {
        said.members[number].revision.as_deref() == Some(said.wanted.revision.as_str())
    };
    let names = |updated: bool| -> Vec<String> {
        let numbers = said.members.keys().filter(|number| of_new(number) == updated);
        numbers.map(|number| said.name(*number)).collect()
    };
    new.pending_vms = names(false);
    new.updated_vms = names(true);
    let failed = seen
        .iter()
        .filter(|(number, _)| of_new(number) && said.members[number].state == State::Failed);
    new.failed_vms = failed
        .map(|(number, vm)| {
            let status = vm.as_ref().and_then(|vm| vm.status.as_ref());
            let ready =
                status.and_then(|s| conditions::find(&s.conditions, condition_types::READY));
            FailedMember {
                name: said.name(*number),
                reason: ready.map(|ready| ready.reason.clone()),
                message: ready.map(|ready| ready.message.clone()),
                retry_count: None,
                last_attempt: ready.map(|ready| ready.last_transition_time.clone()),
            }
        })
        .collect();
    let idle = said.plan.create.is_empty() && said.plan.remove.is_empty();
    new.phase = Some(match () {
        () if said.wanted.paused => UpdatePhase::Paused,
        () if idle && !new.failed_vms.is_empty() => UpdatePhase::Failed,
        () => UpdatePhase::InProgress,
    });
    let message = match new.failed_vms.first() {
        Some(failed) => format!("{} has failed: the update waits for it", failed.name),
        None => format!("{} machines are of an old revision", counts.outdated),
    };
    new.message = Some(message);
    Some(new)
}

/// Whether a set is as wanted, and why not.
fn summary(
    said: &Said<'_>,
    seen: &[(u32, Option<Arc<VirtualMachine>>)],
) -> (bool, &'static str, String) {
    let (counts, replicas) = (said.plan.counts, said.wanted.replicas);
    if let Some(trouble) = said.trouble {
        return (false, trouble.reason, trouble.message.clone());
    }
    if said.done() {
        return (true, reasons::READY, format!("{replicas} machines are available"));
    }
    if said.wanted.paused {
        let message = "changes are held back by the annotation sutler.dev/paused";
        return (false, reasons::PAUSED, message.to_owned());
    }
    let awaited = said.plan.waits_for.or_else(|| {
        let not_ready = |(number, _): &&(u32, Option<Arc<VirtualMachine>>)| {
            !matches!(said.members[number].state, State::Ready(_))
        };
        seen.iter().find(not_ready).map(|(number, _)| *number)
    });
    let detail = awaited.map(|number| {
        let vm = seen.iter().find(|(seen, _)| *seen == number).and_then(|(_, vm)| vm.as_ref());
        let message = vm.and_then(|vm| vm.status.as_ref()?.message.clone());
        let message = message.unwrap_or_else(|| "it is being made".to_owned());
        format!("; {} is waited for: {message}", said.name(number))
    });
    let detail = detail.unwrap_or_default();
    let have = format!("{} of {replicas} machines are available", counts.available);
    if said.updating() {
        let old = counts.outdated;
        return (false, reasons::UPDATING, format!("{have}, {old} are of an old revision{detail}"));
    }
    match counts.all == replicas {
        true => (false, reasons::WAITING, format!("{have}{detail}")),
        false => {
            let all = counts.all;
            (false, reasons::SCALING, format!("{have}, {all} are there{detail}"))
        }
    }
}

fn set_conditions(
    status: &mut VMSetStatus,
    said: &Said<'_>,
    ready: bool,
    reason: &str,
    message: &str,
) {
    let (generation, now) = (said.set.metadata.generation, said.now);
    let mut write = conditions::Writer {
        conditions: &mut status.conditions,
        observed_generation: generation,
        now,
    };
    let stalled = said.trouble.is_some_and(|trouble| trouble.stalled);
    write.set(condition_types::READY, ready, reason, message);
    write.set_while(!ready && !stalled, condition_types::RECONCILING, reason, message);
    write.set_while(stalled, condition_types::STALLED, reason, message);
    write.set_while(!ready && !stalled, condition_types::PROGRESSING, reason, message);
    write.set_while(said.trouble.is_some(), condition_types::REPLICA_FAILURE, reason, message);
    write.set_while(
        reason == reasons::UPDATING,
        condition_types::UPDATE_IN_PROGRESS,
        reason,
        message,
    );
    write.set_while(reason == reasons::SCALING, condition_types::SCALING, reason, message);
    // Nothing is accepted and left undone without a word.
    let service = said.set.spec.service_name.as_deref().filter(|name| !name.is_empty());
    let unserved = "spec.serviceName is not served by this release: machines get no names by it";
    write.deny_while(
        service.is_some(),
        condition_types::SUPPORTED,
        reasons::NOT_YET_SERVED,
        unserved,
    );
}
