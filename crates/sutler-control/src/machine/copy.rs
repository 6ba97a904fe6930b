//! What a machine is copied from, and what snapshot it goes back to.

use std::time::Duration;

use serde_json::{Map, Value};
use sutler_api::{
    infra::{CloneFrom, VirtualMachine},
    names::reasons,
};
use sutler_provider::Capabilities;

use kube::ResourceExt as _;

use crate::{
    context::Context,
    fleet::Key,
    plan::{Blocker, Copy, Record, Revert},
    snapshots,
};

/// The pause after which a source that is not ready is looked at again, should no event tell of it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What the record's machine is copied from: a machine of the same namespace and Provider.
pub(super) fn of(
    context: &Context,
    vm: &VirtualMachine,
    record: &Record,
    from: &CloneFrom,
    capabilities: &Capabilities,
) -> Result<Copy, Blocker> {
    if !capabilities.clones {
        return Err(Blocker::unsupported("spec.cloneFrom", "this provider cannot copy machines"));
    }
    if from.linked && !capabilities.linked_clones {
        return Err(Blocker::unsupported(
            "spec.cloneFrom.linked",
            "this provider makes no linked copies",
        ));
    }
    let field = "spec.cloneFrom.vmRef";
    let key = Key::new(&record.namespace, &from.vm_ref.name);
    if key.name == record.name {
        return Err(Blocker::invalid(field, "a machine cannot be a copy of itself"));
    }
    let source = Context::cached(&context.machines, &key)
        .ok_or_else(|| Blocker::missing("VirtualMachine", field, &key))?;
    let provider = |vm: &VirtualMachine| {
        let reference = &vm.spec.provider_ref;
        Key::new(reference.namespace_or(&record.namespace), &reference.name)
    };
    if provider(&source) != provider(vm) {
        return Err(Blocker::invalid(field, "it is on another Provider: create a VMMigration"));
    }
    let waits = |message: String| Blocker::waits(reasons::WAITING, message, LOOK_AGAIN);
    let of_source = Record::read(&source).map_err(|why| waits(format!("{field}: {why}")))?;
    let Some(id) = of_source.id.clone().filter(|_| of_source.provisioned) else {
        return Err(waits(format!("{field}: the machine of {} is not there yet", key.name)));
    };
    // An ID alone proves nothing: some platforms give a dead machine's to a new one.
    let connection = context.fleet.get(&provider(vm));
    let seen = connection.and_then(|c| c.inventory.read(|view| view.get(&id).cloned()));
    let token = seen.as_ref().and_then(|seen| seen.machine.token.as_ref());
    if seen.is_none() || capabilities.token && token != of_source.token() {
        return Err(waits(format!("{field}: machine {id} of {} is not to be seen", key.name)));
    }
    let snapshot = match &from.snapshot_ref {
        None => None,
        Some(reference) => {
            let key = Key::new(&record.namespace, &reference.name);
            let field = "spec.cloneFrom.snapshotRef";
            Some(snapshots::usable(context, field, &key, of_source.token())?)
        }
    };
    Ok(Copy { source: id, snapshot, linked: from.linked, customize: customize(from) })
}

/// What is changed in the guest, in the form of the kind VMClone.
fn customize(from: &CloneFrom) -> Map<String, Value> {
    let CloneFrom { vm_ref: _, snapshot_ref: _, linked: _, hostname, domain, time_zone } = from;
    let all = [("hostname", hostname), ("domain", domain), ("timeZone", time_zone)];
    all.into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), Value::String(value.clone()?))))
        .collect()
}

/// What the guest is to call itself.
pub(super) fn hostname(vm: &VirtualMachine) -> String {
    let from = vm.spec.clone_from.as_ref();
    let name = from.and_then(|from| from.hostname.clone()).unwrap_or_else(|| vm.name_any());
    match from.and_then(|from| from.domain.as_ref()) {
        Some(domain) => format!("{name}.{domain}"),
        None => name,
    }
}

/// The snapshot that a machine is to go back to, unless it has. Where it is set again, the reference
/// was taken away before.
pub(super) fn revert(
    context: &Context,
    vm: &VirtualMachine,
    record: &Record,
) -> Result<Option<Revert>, Blocker> {
    let wanted = vm.spec.snapshot.as_ref().and_then(|snapshot| snapshot.revert_to_ref.as_ref());
    let done = vm.status.as_ref().and_then(|status| status.reverted_to.as_ref());
    let Some(wanted) = wanted.filter(|wanted| done != Some(&wanted.name)) else { return Ok(None) };
    // What is on its way out goes nowhere, and what is not made yet has no snapshots.
    if record.deleting || record.id.is_none() {
        return Ok(None);
    }
    let key = Key::new(&record.namespace, &wanted.name);
    let field = "spec.snapshot.revertToRef";
    let snapshot = snapshots::usable(context, field, &key, record.token())?;
    Ok(Some(Revert { name: wanted.name.clone(), snapshot }))
}
