//! Exclusive claims on machines that can carry no token: a Lease per machine, which only one record
//! can create.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sutler_api::{
    infra::VirtualMachine,
    names::{MANAGER, annotations, labels},
};
use sutler_provider::{Machine, MachineId};

use crate::{
    context::Context,
    fleet::{Key, lock},
    index::Index,
    machine::Error,
    plan::{Record, is_name_of},
};

/// A machine that is to be claimed.
pub(crate) struct Claim<'a> {
    pub(crate) provider: &'a Key,
    pub(crate) id: &'a MachineId,
    /// When it was made: an ID may be a dead machine's.
    pub(crate) created_at: Option<Timestamp>,
    /// Whether its whole name is the one that was thought up for this record, and for nothing else.
    pub(crate) made_for_it: bool,
}

/// What became of a claim.
pub(crate) enum Claimed {
    /// The record has the machine.
    Ours,
    /// It has not, and why.
    Theirs(String),
    /// It has not, and never will: a record that is gone has left the machine in place. Why, for people.
    Kept(String),
}

/// When the claimed machine was made.
const CREATED_AT: &str = "sutler.dev/created-at";
/// Set once the record is gone that claimed it, and its machine was to stay.
const KEPT: &str = "sutler.dev/kept";
/// The record that claims it.
const RECORD: &str = "sutler.dev/record";

/// How long a record may leave a claim unwritten until another may have its machine: far longer than it
/// takes, so that none loses what it is about to write down.
const SILENCE: Duration = Duration::from_secs(30);

/// Claims a machine for a record. A claim outlives the process that made it, and comes again to the
/// record that has it.
pub(crate) async fn claim(
    context: &Arc<Context>,
    claim: &Claim<'_>,
    record: &Record,
) -> Result<Claimed, Error> {
    let api: Api<Lease> = Api::namespaced(context.client.clone(), &claim.provider.namespace);
    let name = name_of(claim.provider, claim.id);
    let overtaken =
        || Claimed::Theirs(format!("Lease {name} was written by somebody else meanwhile"));
    let made = claim.created_at.map(|at| at.to_string()).unwrap_or_default();
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some([(labels::PROVIDER.to_owned(), claim.provider.name.clone())].into()),
            annotations: Some(
                [
                    (CREATED_AT.to_owned(), made.clone()),
                    (RECORD.to_owned(), format!("{}/{}", record.namespace, record.name)),
                ]
                .into(),
            ),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(record.uid.clone()),
            acquire_time: Some(MicroTime(context.clock.now())),
            ..LeaseSpec::default()
        }),
    };
    match api.create(&PostParams::default(), &lease).await {
        Ok(_) => return Ok(Claimed::Ours),
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => return Err(error.into()),
    }
    let Some(found) = api.get_opt(&name).await? else { return Ok(overtaken()) };
    let of_same = found.annotations().get(CREATED_AT) == Some(&made);
    let held = match of_same {
        true => holder(context, &found, claim, record).await?,
        false => Holder::Nobody,
    };
    let held = match held {
        Holder::Nobody | Holder::Ours => false,
        Holder::Has => true,
        Holder::Silent(vm) => !give_up(context, &found, &vm, claim.id).await?,
    };
    if held {
        let whose = found.annotations().get(RECORD).map_or("a record", String::as_str);
        let where_ = format!("as Lease {}/{name} says", claim.provider.namespace);
        return Ok(match found.annotations().contains_key(KEPT) {
            true => {
                Claimed::Kept(format!("{whose} left it in place when it was deleted, {where_}"))
            }
            false => Claimed::Theirs(format!("{whose} has it, {where_}")),
        });
    }
    // It was a claim on a dead machine that had the same ID, or its holder is gone or has given it up.
    // Whoever replaces exactly this version has it. One's own is replaced as well: somebody may be about to
    // take it.
    let mut taken = lease;
    taken.metadata.resource_version = found.metadata.resource_version;
    match api.replace(&name, &PostParams::default(), &taken).await {
        Ok(_) => Ok(Claimed::Ours),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(overtaken()),
        Err(error) => Err(error.into()),
    }
}

/// Whether another record matches a machine's name better than `wanted` does, or may be before this one
/// in the row of those who wait for a member of its group. The API itself is asked: an intent is on
/// record before its machine is there, but a cache may not show it yet.
pub(crate) async fn is_anothers(
    context: &Arc<Context>,
    provider: &Key,
    machine: &Machine,
    wanted: &str,
    record: &Record,
) -> Result<bool, Error> {
    let uid = &record.uid;
    // A whole name is nobody else's.
    if machine.name == wanted {
        return Ok(false);
    }
    // One that was found by other means than its name is whoever's it resembles at all.
    let wanted = if is_name_of(wanted, machine) { wanted } else { "" };
    let index = fresh(context).await?;
    let names = [Some(&machine.name), machine.hostname.as_ref()];
    if let Some(group) = &record.group
        && !lock(&context.index).agrees(&index, provider, group, uid)
    {
        return Ok(true);
    }
    Ok(names.into_iter().flatten().any(|name| index.better(provider, name, wanted, uid)))
}

/// All records as the API itself has them, listed after this was called: once for all who call meanwhile.
async fn fresh(context: &Arc<Context>) -> Result<Arc<Index>, Error> {
    let list = || async {
        let api: Api<VirtualMachine> = Api::all(context.client.clone());
        let mut index = Index::default();
        for vm in api.list(&ListParams::default()).await? {
            index.put(&vm);
        }
        Ok(index)
    };
    context.fresh.read(list).await
}

/// Who has what a claim is about.
enum Holder {
    /// Nobody any more.
    Nobody,
    /// The record that asks.
    Ours,
    /// The record that made the claim, or whoever kept the machine.
    Has,
    /// This record made the claim, and has no machine written down.
    Silent(Box<VirtualMachine>),
}

async fn holder(
    context: &Arc<Context>,
    lease: &Lease,
    claim: &Claim<'_>,
    asks: &Record,
) -> Result<Holder, Error> {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    if holder.as_ref() == Some(&asks.uid) {
        return Ok(Holder::Ours);
    }
    // A machine that was kept without a record is nobody's to take. One that was made for this record is
    // another, which has its ID.
    if lease.annotations().contains_key(KEPT) {
        return Ok(if claim.made_for_it { Holder::Nobody } else { Holder::Has });
    }
    let record = lease.annotations().get(RECORD).and_then(|record| record.split_once('/'));
    let Some((namespace, name)) = record else { return Ok(Holder::Has) };
    let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), namespace);
    let Some(vm) = api.get_opt(name).await?.filter(|vm| vm.uid() == holder) else {
        return Ok(Holder::Nobody);
    };
    Ok(match vm.status.as_ref().and_then(|status| status.id.as_ref()) {
        Some(has) if *has == claim.id.0 => Holder::Has,
        Some(_) => Holder::Nobody,
        None => Holder::Silent(Box::new(vm)),
    })
}

/// Takes a claim from a record that has not written it down, and tells whether it has lost it. A claim is
/// made before it is written down; after a crash in between its record may want another machine, and two
/// such records would wait for each other for ever. One that is about to write it down does so over a
/// version of its record that is no longer the last.
async fn give_up(
    context: &Arc<Context>,
    lease: &Lease,
    vm: &VirtualMachine,
    id: &MachineId,
) -> Result<bool, Error> {
    let spec = lease.spec.as_ref();
    let acquired = spec.and_then(|spec| spec.acquire_time.as_ref()).map(|MicroTime(at)| *at);
    let made = lease.metadata.creation_timestamp.as_ref().map(|Time(at)| *at);
    let now = context.clock.now();
    let since = acquired.or(made).unwrap_or(now);
    if since.saturating_add(SILENCE).unwrap_or(Timestamp::MAX) > now {
        return Ok(false);
    }
    let body = json!({ "metadata": {
        "annotations": { annotations::CLAIM_TAKEN: format!("{id} at {now}") },
        "resourceVersion": vm.resource_version(), "uid": vm.uid(),
    }});
    let api: Api<VirtualMachine> =
        Api::namespaced(context.client.clone(), &vm.namespace().unwrap_or_default());
    match api.patch(&vm.name_any(), &PatchParams::apply(MANAGER), &Patch::Merge(body)).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Gives a record's claim up, before it goes off the books. Where its machine stays, so does the
/// claim: others whose names it resembles would take it for theirs.
pub(crate) async fn release(
    context: &Arc<Context>,
    record: &Record,
    stays: bool,
) -> Result<(), Error> {
    let Some(id) = &record.id else { return Ok(()) };
    let vm = Context::cached(&context.machines, &Key::new(&record.namespace, &record.name));
    let Some(vm) = vm else { return Ok(()) };
    let provider =
        Key::new(vm.spec.provider_ref.namespace_or(&record.namespace), &vm.spec.provider_ref.name);
    let connection = context.fleet.get(&provider);
    // Where machines carry tokens no claims were made.
    if connection.and_then(|c| c.capabilities()).is_none_or(|c| c.token) {
        return Ok(());
    }
    let api: Api<Lease> = Api::namespaced(context.client.clone(), &provider.namespace);
    let name = name_of(&provider, id);
    let Some(lease) = api.get_opt(&name).await? else { return Ok(()) };
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
    if holder != Some(&record.uid) {
        return Ok(());
    }
    if stays {
        let body = json!({ "metadata": {
            "annotations": { KEPT: "true" }, "resourceVersion": lease.metadata.resource_version,
        }});
        let kept = api.patch(&name, &PatchParams::apply(MANAGER), &Patch::Merge(body)).await;
        return match kept {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
    let exactly = Preconditions {
        uid: lease.metadata.uid,
        resource_version: lease.metadata.resource_version,
    };
    match api.delete(&name, &DeleteParams::default().preconditions(exactly)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn name_of(provider: &Key, id: &MachineId) -> String {
    let digest = Sha256::digest(format!("{provider}\n{id}").as_bytes());
    let hash: String = digest.iter().take(10).map(|byte| format!("{byte:02x}")).collect();
    format!("sutler-claim-{hash}")
}
