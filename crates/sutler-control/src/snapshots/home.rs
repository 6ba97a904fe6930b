//! The machine that a snapshot is of, found by what is on record and proven to be its record's.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Api, ResourceExt as _};
use sutler_api::{
    infra::{VMSnapshot, VirtualMachine},
    names::{annotations, reasons},
};
use sutler_provider::{Owner, Proof, Seen, Token};

use super::plan::{Home, Intent};
use crate::{
    context::Context,
    fleet::{Connection, Key, lock},
    plan::{Blocker, Record, Whose, settled_at, whose_is},
};

/// The pause after which something that is missing is looked for again, should no event tell of it.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// Where a snapshot is, and how it is reached.
pub(crate) struct Site {
    pub(crate) home: Home,
    /// The VirtualMachine is off the books.
    pub(crate) record_gone: bool,
    pub(crate) reach: Option<Reach>,
}

/// How a machine is reached.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) connection: Arc<Connection>,
    pub(crate) proof: Proof,
}

/// Finds the machine of a snapshot: the one that the intent names, or the one of `spec.vmRef`.
pub(crate) fn find(context: &Context, snapshot: &VMSnapshot, intent: Option<&Intent>) -> Site {
    let own = snapshot.namespace().unwrap_or_default();
    let named = Key::new(&own, &snapshot.spec.vm_ref.name);
    let key = match intent {
        None => Some(named.clone()),
        Some(intent) => lock(&context.index).of_uid(&intent.token.uid),
    };
    let vm = key.and_then(|key| Context::cached(&context.machines, &key));
    let vm = match (vm, intent) {
        (Some(vm), _) => vm,
        (None, Some(_)) => {
            let home = Home::Gone(format!("VirtualMachine {} is gone", named.name));
            return Site { home, record_gone: true, reach: None };
        }
        (None, None) => {
            let blocker = Blocker::missing("VirtualMachine", "spec.vmRef", &named);
            return Site { home: Home::Blocked(blocker), record_gone: true, reach: None };
        }
    };
    let (home, reach) = of(context, &vm, intent);
    Site { home, record_gone: false, reach }
}

/// Whether a machine is a later one of its record than the one that a snapshot was asked of.
fn is_later(token: Option<&Token>, asked: &Token) -> bool {
    token.is_some_and(|token| token.uid != asked.uid || token.incarnation > asked.incarnation)
}

/// Whether the record of a snapshot's machine is there although no cache shows it: one that is behind
/// may not know it yet.
pub(crate) async fn is_there(
    context: &Context,
    snapshot: &VMSnapshot,
    intent: &Intent,
) -> Result<bool, kube::Error> {
    Ok(record(context, snapshot, intent).await?.is_some())
}

/// What a snapshot's machine is about, as the API has its record now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays, and does nothing with this snapshot.
    Stays,
    /// It may be going back to this snapshot.
    GoesBack,
    /// It is gone, or will be.
    Goes,
}

/// Asks the API what the machine of a snapshot is about.
pub(crate) async fn fate(
    context: &Context,
    snapshot: &VMSnapshot,
    intent: &Intent,
    reach: &Reach,
) -> Result<Fate, kube::Error> {
    let found = record(context, snapshot, intent).await?;
    let Some(vm) = found.filter(|vm| vm.metadata.deletion_timestamp.is_none()) else {
        return Ok(Fate::Goes);
    };
    let wanted = vm.spec.snapshot.as_ref().and_then(|own| own.revert_to_ref.as_ref());
    let done = vm.status.as_ref().and_then(|status| status.reverted_to.as_ref());
    let name = snapshot.name_any();
    if wanted.is_none_or(|wanted| wanted.name != name) || done == Some(&name) {
        return Ok(Fate::Stays);
    }
    // A request to go back is on record before it is sent, and whoever sends it asks for this snapshot in
    // between: one that is not on record by now will not be sent.
    let asked = vm.annotations().get(annotations::REVERT_REQUESTED_AT);
    let asked = asked.and_then(|at| at.parse::<Timestamp>().ok());
    let end = asked.zip(reach.connection.capabilities()).map(|(at, can)| settled_at(at, &can));
    Ok(match end.is_some_and(|end| context.clock.now() <= end) {
        true => Fate::GoesBack,
        false => Fate::Stays,
    })
}

/// The record of a snapshot's machine as the API has it now.
async fn record(
    context: &Context,
    snapshot: &VMSnapshot,
    intent: &Intent,
) -> Result<Option<VirtualMachine>, kube::Error> {
    let own = snapshot.namespace().unwrap_or_default();
    let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), &own);
    let found = api.get_opt(&snapshot.spec.vm_ref.name).await?;
    Ok(found.filter(|vm| vm.uid().as_ref() == Some(&intent.token.uid)))
}

fn of(context: &Context, vm: &VirtualMachine, intent: Option<&Intent>) -> (Home, Option<Reach>) {
    let waits = |reason: &str, message: String| {
        (Home::Blocked(Blocker::waits(reason, message, LOOK_AGAIN)), None)
    };
    let name = vm.name_any();
    let record = match Record::read(vm) {
        Ok(record) => record,
        Err(why) => return waits(reasons::UNREADABLE, format!("VirtualMachine {name}: {why}")),
    };
    let (Some(token), Some(id)) = (record.token().cloned(), record.id.clone()) else {
        let made_anew = intent.is_some_and(|intent| is_later(record.token(), &intent.token));
        return match made_anew {
            true => (Home::Gone(format!("the machine of {name} was made anew")), None),
            false => waits(reasons::WAITING, format!("the machine of {name} is not there yet")),
        };
    };
    if let Some(intent) = intent.filter(|intent| intent.token != token) {
        return match is_later(Some(&token), &intent.token) {
            true => (Home::Gone(format!("the machine of {name} was made anew")), None),
            // Another process was first, and the record as it is now is seen soon.
            false => waits(reasons::WAITING, format!("VirtualMachine {name} is seen late")),
        };
    }
    if record.deleting {
        return waits(reasons::DELETING, format!("VirtualMachine {name} is being deleted"));
    }
    if record.paused {
        return waits(reasons::PAUSED, format!("VirtualMachine {name} is paused"));
    }
    if intent.is_none() && !record.provisioned {
        return waits(reasons::WAITING, format!("the machine of {name} is still being made"));
    }
    let provider =
        Key::new(vm.spec.provider_ref.namespace_or(&record.namespace), &vm.spec.provider_ref.name);
    let connection = context.fleet.get(&provider);
    let capabilities = connection.as_ref().and_then(|connection| connection.capabilities());
    let (Some(connection), Some(capabilities)) = (connection, capabilities) else {
        let message = format!("Provider {provider} is not ready");
        return waits(reasons::PROVIDER_NOT_READY, message);
    };
    let seen = connection.inventory.read(|view| view.get(&id).cloned());
    // A machine that is known to be absent has no snapshots any more.
    let absent = connection.inventory.read(|view| view.absent_as_of(&id));
    if seen.is_none() && absent.is_some_and(|at| intent.is_none_or(|i| at > i.requested_at)) {
        return match intent {
            Some(_) => (Home::Gone(format!("machine {id} of {name} is not there")), None),
            None => waits(reasons::WAITING, format!("machine {id} of {name} is not there")),
        };
    }
    let asked = |seen: &Seen| intent.is_some_and(|intent| seen.as_of > intent.requested_at);
    match seen.as_ref().map(|seen| whose_is(&record, capabilities.token, seen)) {
        None | Some(Whose::Ours) => {}
        // The dead machine's snapshots went with it, if it was seen dead after they were asked for.
        Some(Whose::Others) if seen.as_ref().is_some_and(asked) => {
            return (Home::Gone(format!("machine {id} is not that of {name} any more")), None);
        }
        Some(Whose::Others) => {
            return waits(reasons::WAITING, format!("machine {id} of {name} is not there"));
        }
        Some(Whose::Disputed) => {
            let message =
                format!("machine {id} no longer carries the token of VirtualMachine {name}");
            return waits(reasons::OWNERSHIP_LOST, message);
        }
    }
    // Where the platform put something behind the name that it was given, that is its name.
    let given = record.platform_name.clone();
    let longer = seen.as_ref().and_then(|seen| {
        let rest = seen.machine.name.strip_prefix(given.as_ref()?.as_str())?;
        rest.starts_with(['-', '.']).then(|| seen.machine.name.clone())
    });
    let proof = Proof {
        owner: Owner {
            token: token.clone(),
            installation: context.installation.clone(),
            namespace: record.namespace.clone(),
            name: record.name.clone(),
        },
        name: if record.adopted { None } else { longer.or(given) },
    };
    (Home::Here { id, token, seen, capabilities }, Some(Reach { connection, proof }))
}
