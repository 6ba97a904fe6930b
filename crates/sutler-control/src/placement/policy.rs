//! The controller of VMPlacementPolicies: says whether a policy makes sense, who uses it, where they
//! went, and what stood in the way.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{ResourceExt as _, runtime::controller::Action};
use sutler_api::{
    conditions,
    infra::{PlacementStats, PolicyValidation, VMPlacementPolicy, VMPlacementPolicyStatus},
    names::{annotations, condition_types, reasons},
    refs::LocalObjectRef,
};

use super::{
    decide::{Subject, Surroundings, Unmet},
    decided, rules,
};
use crate::{
    context::Context,
    fleet::{Key, lock},
    images::status_key,
    index::Reference,
    machine::Error,
    used::{self, Standing},
};

/// Users that are named at most.
const NAMED: usize = 1000;

/// Looks at one policy.
pub(crate) async fn reconcile(
    policy: Arc<VMPlacementPolicy>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    context.counters.count_reconcile("VMPlacementPolicy");
    if let Some(wait) = context.not_indexed() {
        return Ok(Action::requeue(wait));
    }
    let key = Key::new(policy.namespace().unwrap_or_default(), policy.name_any());
    let old = policy.status.clone().unwrap_or_default();
    let (new, all_ready) = next_status(&context, &policy, &key, &old);
    let counts_alone = new.conditions == old.conditions;
    used::publish(&context, policy.as_ref(), &Standing { old, new, counts_alone, all_ready }).await
}

fn next_status(
    context: &Context,
    policy: &VMPlacementPolicy,
    key: &Key,
    old: &VMPlacementPolicyStatus,
) -> (VMPlacementPolicyStatus, bool) {
    let reference = Reference::Policy(key.clone());
    let (users, providers) = {
        let index = lock(&context.index);
        (index.users(&reference), index.providers(&reference))
    };
    let now = context.clock.now();
    let generation = policy.metadata.generation;
    let mut new = old.clone();
    new.observed_generation = generation;
    new.used_by_vms =
        users.iter().take(NAMED).map(|user| LocalObjectRef::new(&user.name)).collect();
    new.placement_stats = stats(context, &users);
    let valid = rules::of(&policy.spec, &Subject::default(), &Surroundings::default()).map(|_| ());
    let (holds, reason, message) = match valid {
        Ok(()) => (true, reasons::READY, "machines are placed by it".to_owned()),
        Err(Unmet::Unserved(field)) => {
            (false, reasons::NOT_YET_SERVED, format!("{field} is not served by this release"))
        }
        Err(Unmet::Invalid(field, why)) => (false, reasons::INVALID, format!("{field}: {why}")),
        Err(Unmet::Rules(why)) => (false, reasons::INVALID, why),
    };
    let mut all_ready = true;
    let mut unable = Vec::new();
    new.validation_results.clear();
    for provider in &providers {
        let name = status_key(key, provider);
        let known = old.validation_results.get(&name);
        let capabilities = context.fleet.get(provider).and_then(|c| c.capabilities());
        let Some(capabilities) = capabilities else {
            all_ready = false;
            // What was known stays so while nobody can be asked.
            new.validation_results.extend(known.map(|known| (name, known.clone())));
            continue;
        };
        if !capabilities.hosts {
            unable.push(name.clone());
        }
        let why = "it tells nothing of its hosts: no machine is placed on it by a policy";
        let mut entry = PolicyValidation {
            valid: capabilities.hosts && holds,
            message: (!capabilities.hosts).then(|| why.to_owned()),
            ..PolicyValidation::default()
        };
        let same = known.filter(|k| k.valid == entry.valid && k.message == entry.message);
        let since = same.and_then(|known| known.last_validated.clone());
        entry.last_validated = since.or(Some(Time(now)));
        new.validation_results.insert(name, entry);
    }
    let list = &mut new.conditions;
    let mut set = |type_: &str, holds: bool, reason: &str, message: &str| {
        conditions::set(list, type_, holds.into(), reason, message, generation, now);
    };
    set(condition_types::READY, holds, reason, &message);
    set(condition_types::VALIDATED, holds, reason, &message);
    match unable.is_empty() {
        true => set(condition_types::SUPPORTED, true, reasons::READY, "all providers can keep it"),
        false => {
            let message = format!("{} cannot keep it", unable.join(", "));
            set(condition_types::SUPPORTED, false, reasons::UNSUPPORTED, &message);
        }
    }
    (new, all_ready)
}

/// How placing went so far, as its machines tell.
fn stats(context: &Context, users: &std::collections::BTreeSet<Key>) -> Option<PlacementStats> {
    let (mut placed, mut waiting, mut unkept) = (0, 0, 0);
    let mut distribution: BTreeMap<String, i32> = BTreeMap::new();
    let mut last = None;
    for user in users {
        let Some(vm) = Context::cached(&context.machines, user) else { continue };
        let provider = &vm.spec.provider_ref;
        let provider = Key::new(provider.namespace_or(&user.namespace), &provider.name);
        if context.placement.waits(&provider, user) {
            waiting += 1;
        }
        let Some(decision) = decided(&vm) else { continue };
        placed += 1;
        unkept += i32::try_from(decision.unkept.len()).unwrap_or(i32::MAX);
        let host = vm.status.as_ref().and_then(|status| status.host.clone()).or(decision.host);
        if let Some(host) = host {
            *distribution.entry(host).or_default() += 1;
        }
        let at = vm.annotations().get(annotations::FIRST_REQUESTED_AT);
        last = last.max(at.and_then(|at| at.parse().ok()));
    }
    (!users.is_empty()).then(|| PlacementStats {
        total_placements: Some(placed + waiting),
        successful_placements: Some(placed),
        failed_placements: Some(waiting),
        constraint_violations: Some(unkept),
        average_placement_time: None,
        last_placement_time: last.map(Time),
        placement_distribution: distribution,
    })
}
