//! Makes and removes records of a set's machines.

use std::{collections::BTreeSet, sync::Arc};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
    core::{Selector, SelectorExt as _},
};
use serde_json::json;
use sutler_api::{
    infra::{VMSet, VMSetTemplate, VirtualMachine},
    names::{MANAGER, finalizers, labels, reasons},
};

use super::{
    Trouble, members,
    plan::{Member, Members, Plan, State, Wanted, Why},
    revisions,
    volumes::{self, Volume},
};
use crate::{context::Context, fleet::Key, machine::Error};

/// Records that one look makes or removes at most; what is left comes with the next look.
const AT_ONCE: usize = 100;

/// Requests to the API that are under way at the same time.
const TOGETHER: usize = 8;

/// The longest that a label's value may be.
pub(super) const LABEL_LIMIT: usize = 63;

/// Makes and removes what the plan says, and tells what stands in the way.
pub(super) async fn carry_out(
    context: &Arc<Context>,
    set: &VMSet,
    key: &Key,
    wanted: &Wanted,
    members: &Members,
    plan: &Plan,
) -> Result<Option<Trouble>, Error> {
    let mut old: Option<VMSetTemplate> = None;
    if plan.create.iter().any(|(_, revision)| *revision != wanted.revision) {
        old = revisions::template(context, set, &wanted.current).await?;
    }
    let volumes = volumes::volumes(&set.spec).unwrap_or_default();
    let mut untied: BTreeSet<u32> = BTreeSet::new();
    for number in members.keys().filter(|_| !volumes.is_empty()) {
        let for_good = !wanted.numbers().contains(number);
        if !volumes::tie(context, set, &volumes, *number, for_good).await? {
            untied.insert(*number);
        }
    }
    let mut making: Vec<BoxFuture<'_, Result<Option<Trouble>, Error>>> = Vec::new();
    for (number, revision) in plan.create.iter().take(AT_ONCE) {
        // A revision that is no longer kept cannot be made again: the present one is.
        let record = match old.as_ref().filter(|_| *revision != wanted.revision) {
            Some(template) => record(set, template, &volumes, *number, revision),
            None => record(set, &set.spec.template, &volumes, *number, &wanted.revision),
        };
        let volumes = &volumes;
        making.push(
            async move {
                match volumes::ensure(context, set, volumes, *number).await? {
                    Some(trouble) => Ok(Some(trouble)),
                    None => create(context, set, key, record).await,
                }
            }
            .boxed(),
        );
    }
    // A disk that somebody deleted before its machine was made is not waited for in vain.
    let coming = |member: &Member| matches!(member.state, State::Coming | State::Failed);
    for (number, _) in members.iter().filter(|(_, member)| coming(member)) {
        let on_record = volumes.iter().all(|volume| volume.is_on_record(context, set, *number));
        if !on_record && wanted.numbers().contains(number) {
            making.push(volumes::ensure(context, set, &volumes, *number).boxed());
        }
    }
    let made: Vec<_> = stream::iter(making).buffered(TOGETHER).collect().await;
    let mut removing: Vec<BoxFuture<'_, Result<(), Error>>> = Vec::new();
    for (number, uid, why) in plan.remove.iter().take(AT_ONCE) {
        let version = match why {
            Why::Scale | Why::Update => None,
            Why::Useless => match useless(context, key, *number, uid) {
                Some(version) => Some(version),
                // It has come to life since: it is planned for anew.
                None => continue,
            },
        };
        // What its disks go with is on record before it goes.
        if untied.contains(number) {
            continue;
        }
        removing.push(remove(context, key, *number, uid, version).boxed());
    }
    let gone: Vec<_> = stream::iter(removing).buffered(TOGETHER).collect().await;
    let mut trouble = None;
    for made in made {
        trouble = trouble.or(made?);
    }
    gone.into_iter().collect::<Result<Vec<()>, Error>>()?;
    Ok(trouble)
}

/// The version of a member's record that still shows it to serve nobody.
fn useless(context: &Context, key: &Key, number: u32, uid: &str) -> Option<String> {
    let name = members::name(&key.name, number);
    let vm = Context::cached(&context.machines, &Key::new(&key.namespace, name))?;
    let member = members::member(&vm);
    let still = member.uid == uid && matches!(member.state, State::Failed | State::Coming);
    vm.resource_version().filter(|_| still)
}

/// Takes off the record what was to be replaced, was never deleted and can no longer be spared. The
/// record itself is looked at: a cache may show what is gone.
pub(super) async fn recall(context: &Context, key: &Key, plan: &mut Plan) -> Result<(), Error> {
    let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), &key.namespace);
    for (number, uid) in &plan.unsent {
        let vm = api.get_opt(&members::name(&key.name, *number)).await?;
        let there = vm.filter(|vm| vm.uid().as_ref() == Some(uid));
        if there.is_some_and(|vm| vm.metadata.deletion_timestamp.is_none()) {
            plan.replacing.remove(number);
        }
    }
    Ok(())
}

/// Removes a member, if it is still the one that was meant, and of this version where one is named.
pub(super) async fn remove(
    context: &Context,
    key: &Key,
    number: u32,
    uid: &str,
    version: Option<String>,
) -> Result<(), Error> {
    let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), &key.namespace);
    let exactly = Preconditions { uid: Some(uid.to_owned()), resource_version: version };
    let params = DeleteParams::default().preconditions(exactly);
    match api.delete(&members::name(&key.name, number), &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The record of a member.
fn record(
    set: &VMSet,
    template: &VMSetTemplate,
    volumes: &[Volume],
    number: u32,
    revision: &str,
) -> VirtualMachine {
    let metadata = template.metadata.clone().unwrap_or_default();
    let mut marks = metadata.labels;
    marks.insert(labels::REVISION.to_owned(), revision.to_owned());
    if set.name_any().len() <= LABEL_LIMIT {
        marks.insert(labels::VM_SET.to_owned(), set.name_any());
    }
    // From the start: a server that is asked to delete a record misses a finalizer that comes meanwhile.
    let mut held = metadata.finalizers;
    if held.iter().all(|name| name != finalizers::VIRTUAL_MACHINE) {
        held.push(finalizers::VIRTUAL_MACHINE.to_owned());
    }
    let mut vm =
        VirtualMachine::new(&members::name(&set.name_any(), number), template.spec.clone());
    vm.spec.disks.extend(volumes.iter().map(|volume| volume.disk(&set.name_any(), number)));
    vm.metadata = ObjectMeta {
        name: vm.metadata.name,
        namespace: set.namespace(),
        labels: Some(marks),
        annotations: Some(metadata.annotations).filter(|notes| !notes.is_empty()),
        finalizers: Some(held),
        owner_references: Some(set.controller_owner_ref(&()).into_iter().collect()),
        ..ObjectMeta::default()
    };
    vm
}

/// Makes a record, once: its name says which one it is.
async fn create(
    context: &Context,
    set: &VMSet,
    key: &Key,
    record: VirtualMachine,
) -> Result<Option<Trouble>, Error> {
    let api: Api<VirtualMachine> = Api::namespaced(context.client.clone(), &key.namespace);
    match api.create(&PostParams::default(), &record).await {
        Ok(vm) => {
            context.sets.put_made(&vm);
            Ok(None)
        }
        Err(kube::Error::Api(status)) if status.code == 409 => {
            taken(&api, set, &record.name_any()).await
        }
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            let reason = if status.code == 403 { reasons::DENIED } else { reasons::INVALID };
            let message = format!("{} cannot be made: {}", record.name_any(), status.message);
            Ok(Some(Trouble { reason, message, stalled: status.code != 403 }))
        }
        Err(error) => Err(error.into()),
    }
}

/// Looks who has a member's name: the member itself, one that may be taken in, or somebody else.
async fn taken(
    api: &Api<VirtualMachine>,
    set: &VMSet,
    name: &str,
) -> Result<Option<Trouble>, Error> {
    let Some(vm) = api.get_opt(name).await? else { return Ok(None) };
    let owners = vm.metadata.owner_references.clone().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true));
    let free = owner.is_none() && vm.metadata.deletion_timestamp.is_none();
    let selector: Result<Selector, _> = set.spec.selector.clone().try_into();
    let alike = selector.is_ok_and(|selector| selector.matches(vm.labels()));
    let message = match owner {
        Some(owner) if set.uid().as_ref() == Some(&owner.uid) => return Ok(None),
        // One of a set that was deleted without its machines comes back.
        None if free && alike => return adopt(api, set, &vm, owners).await,
        // What has no owner any more is removed by itself.
        Some(owner) if owner.kind == VMSet::kind(&()) && owner.name == set.name_any() => {
            format!("{name} is of an earlier set of this name, and goes as that one did")
        }
        Some(owner) => {
            let (kind, owner) = (&owner.kind, &owner.name);
            format!("{name} belongs to {kind} {owner}: delete it, or give the set another name")
        }
        None => {
            format!("{name} is there and not of this set: delete it, or give the set another name")
        }
    };
    let message = format!("VirtualMachine {message}");
    Ok(Some(Trouble { reason: reasons::NAME_TAKEN, message, stalled: false }))
}

async fn adopt(
    api: &Api<VirtualMachine>,
    set: &VMSet,
    vm: &VirtualMachine,
    mut owners: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>,
) -> Result<Option<Trouble>, Error> {
    owners.extend(set.controller_owner_ref(&()));
    let body = json!({ "metadata": {
        "ownerReferences": owners,
        "resourceVersion": vm.resource_version(),
        "uid": vm.uid(),
    }});
    match api.patch(&vm.name_any(), &PatchParams::apply(MANAGER), &Patch::Merge(body)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
