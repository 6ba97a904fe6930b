//! What an Operation asks for is asked for, and then watched.

use std::sync::Arc;

use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use serde_json::{Value, json};
use sutler_api::{
    infra::{PowerState, Provider, VMImage, VirtualMachine},
    names::{MANAGER, annotations, reasons},
    sutler::ErrorKind,
};

use super::{
    call,
    control::Work,
    report::{End, Failure, cut},
    request::{Request, Wish},
    standing::{Standing, standing},
};
use crate::{context::Context, fleet::Key, images, kit::version_of, machine::Error};

/// How it goes on.
pub(crate) enum Next {
    /// On.
    Go,
    /// Not before something happened: a reason, and the same for people.
    Wait(String, String),
    /// No further.
    End(End),
}

impl From<Failure> for Next {
    fn from(failure: Failure) -> Self {
        Self::End(End::Failed(failure))
    }
}

/// Whether what is asked for can be asked for at all, before it is announced.
pub(crate) async fn prepare(work: &Work<'_>, request: &Request) -> Result<Next, Error> {
    match request {
        Request::Machine(key, wish) => {
            let vm = match meant(work, key).await? {
                Ok(vm) => vm,
                Err(failure) => return Ok(failure.into()),
            };
            let off =
                matches!(vm.spec.power_state, Some(PowerState::Off | PowerState::OffGraceful));
            if *wish == Wish::Restart && off {
                let message = "the machine should be off: start it instead";
                return Ok(Failure::new(ErrorKind::Conflict, message).into());
            }
            Ok(Next::Go)
        }
        Request::Command { machine, .. } => match meant(work, machine).await? {
            Ok(vm) => Ok(call::can_run(work.context, &vm)),
            Err(failure) => Ok(failure.into()),
        },
        Request::Templates(provider) => match is_there(work, provider).await? {
            true => Ok(call::can_list(work.context, provider)),
            false => Ok(no_provider(provider)),
        },
        Request::Image { image, provider } => {
            let api: Api<VMImage> = Api::namespaced(work.context.client.clone(), &image.namespace);
            if Context::cached(&work.context.images, image).is_none()
                && api.get_opt(&image.name).await?.is_none()
            {
                let message = format!("spec.targetRef: VMImage {} is not there", image.name);
                return Ok(Failure::new(ErrorKind::NotFound, message).into());
            }
            match is_there(work, provider).await? {
                true => Ok(call::can_import(work.context, provider)),
                false => Ok(no_provider(provider)),
            }
        }
    }
}

/// Whether there is such a Provider. A cache may be behind: only the API can say that there is none.
async fn is_there(work: &Work<'_>, provider: &Key) -> Result<bool, Error> {
    if Context::cached(&work.context.providers, provider).is_some() {
        return Ok(true);
    }
    let api: Api<Provider> = Api::namespaced(work.context.client.clone(), &provider.namespace);
    Ok(api.get_opt(&provider.name).await?.is_some())
}

fn no_provider(provider: &Key) -> Next {
    let message = format!("spec.providerRef: Provider {provider} is not there");
    Failure::new(ErrorKind::NotFound, message).into()
}

/// Asks for it. `unknown` says that a process that is gone may have done so already.
pub(crate) async fn act(work: &Work<'_>, request: &Request, unknown: bool) -> Result<Next, Error> {
    match request {
        Request::Machine(key, wish) => {
            let vm = match meant(work, key).await? {
                Ok(vm) => vm,
                // It was there when this began.
                Err(_) if unknown && matches!(wish, Wish::Destroy | Wish::Forget) => {
                    return Ok(gone(key));
                }
                Err(failure) => return Ok(failure.into()),
            };
            machine(work, &vm, wish, unknown).await
        }
        Request::Command { .. } if unknown => {
            let message = "the process that ran the command ended before it could tell what came \
                           of it: look in the guest before it is run again";
            Ok(Failure::new(ErrorKind::Indeterminate, message).into())
        }
        Request::Command { machine, command, seconds } => match meant(work, machine).await? {
            Ok(vm) => Ok(call::run(work, &vm, command, *seconds)),
            Err(failure) => Ok(failure.into()),
        },
        Request::Templates(provider) => Ok(call::list(work, provider)),
        Request::Image { image, provider } => mark(work, image, provider).await,
    }
}

/// Sees how it stands.
pub(crate) async fn watch(work: &Work<'_>, request: &Request) -> Result<Next, Error> {
    match request {
        Request::Machine(key, wish) => follow(work, key, wish).await,
        Request::Command { .. } | Request::Templates(_) => Ok(match work.memo().outcome {
            Some(Ok(result)) => Next::End(End::Completed(Box::new(result))),
            Some(Err(failure)) => failure.into(),
            None if work.operation.spec.cancel && matches!(request, Request::Templates(_)) => {
                Next::End(End::Cancelled("it was cancelled".to_owned()))
            }
            None => Next::Go,
        }),
        Request::Image { image, provider } => Ok(follow_image(work, image, provider)),
    }
}

async fn machine(
    work: &Work<'_>,
    vm: &Arc<VirtualMachine>,
    wish: &Wish,
    unknown: bool,
) -> Result<Next, Error> {
    let body = match wish {
        Wish::Provision => {
            work.remember(|memo| {
                memo.acted = true;
                memo.generation = vm.metadata.generation.unwrap_or_default();
            });
            return Ok(Next::Go);
        }
        Wish::Start => json!({ "spec": { "powerState": PowerState::On } }),
        Wish::Stop { force } => {
            let power = if *force { PowerState::Off } else { PowerState::OffGraceful };
            json!({ "spec": { "powerState": power } })
        }
        Wish::Restart => {
            let value = restart_value(work);
            let asked = vm.annotations().get(annotations::RESTART_REQUESTED_AT) == Some(&value);
            let met = vm.status.as_ref().and_then(|status| status.restart_handled.as_ref());
            if unknown && !asked && met != Some(&value) {
                let message = "the process that asked for the restart ended before it could tell \
                               what came of it";
                return Ok(Failure::new(ErrorKind::Indeterminate, message).into());
            }
            // Setting it again to the same restarts nothing.
            match unknown {
                true => json!({}),
                false => json!({ "metadata": { "annotations": {
                    annotations::RESTART_REQUESTED_AT: value,
                }}}),
            }
        }
        Wish::Reconfigure(size) => {
            let mut spec = serde_json::Map::new();
            if let Some(resources) = &size.resources {
                spec.insert("resources".to_owned(), resources.clone());
            }
            if !size.disks.is_empty() {
                let disks = serde_json::to_value(&vm.spec.disks).unwrap_or(Value::Null);
                spec.insert("disks".to_owned(), size.merged(&disks));
            }
            // Lists are written whole, so nobody may have changed them meanwhile.
            json!({
                "metadata": { "resourceVersion": vm.metadata.resource_version }, "spec": spec,
            })
        }
        Wish::Forget => json!({ "metadata": { "annotations": { annotations::FORGET: "true" } } }),
        Wish::Destroy => json!({}),
    };
    let fresh = match patch(work, vm, body).await? {
        Ok(fresh) => fresh,
        Err(next) => return Ok(next),
    };
    if matches!(wish, Wish::Destroy | Wish::Forget)
        && fresh.metadata.deletion_timestamp.is_none()
        && let Some(next) = delete(work, &fresh).await?
    {
        return Ok(next);
    }
    work.remember(|memo| {
        memo.acted = true;
        memo.generation = fresh.metadata.generation.unwrap_or_default();
        memo.version = version_of(&fresh);
    });
    Ok(Next::Go)
}

/// The word by which this Operation's restart is told from every other.
pub(crate) fn restart_value(work: &Work<'_>) -> String {
    let made = work.operation.metadata.creation_timestamp.as_ref();
    let made = made.map(|time| time.0.to_string()).unwrap_or_default();
    format!("{made} {}", work.uid)
}

/// Changes a record, and notes there who asked for it.
async fn patch(
    work: &Work<'_>,
    vm: &VirtualMachine,
    mut body: Value,
) -> Result<Result<VirtualMachine, Next>, Error> {
    body["metadata"]["uid"] = json!(vm.uid());
    if let Some(who) = work.operation.spec.requested_by.as_ref().and_then(|by| by.user.as_ref()) {
        body["metadata"]["annotations"][annotations::REQUESTED_BY] = json!(who);
    }
    let api: Api<VirtualMachine> = machines(work.context, &work.key.namespace);
    let params = PatchParams::apply(MANAGER);
    match api.patch(&vm.name_any(), &params, &Patch::Merge(body)).await {
        Ok(fresh) => Ok(Ok(fresh)),
        Err(error) => refused(error).map(Err),
    }
}

async fn delete(work: &Work<'_>, vm: &VirtualMachine) -> Result<Option<Next>, Error> {
    let api = machines(work.context, &work.key.namespace);
    let exactly = Preconditions { uid: vm.uid(), resource_version: None };
    match api.delete(&vm.name_any(), &DeleteParams::default().preconditions(exactly)).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => refused(error).map(Some),
    }
}

/// What a refusal of the API means for the Operation.
fn refused(error: kube::Error) -> Result<Next, Error> {
    let kube::Error::Api(status) = &error else { return Err(error.into()) };
    let kind = match status.code {
        400 | 422 => ErrorKind::Invalid,
        401 | 403 => ErrorKind::Denied,
        404 => ErrorKind::NotFound,
        409 => return Ok(Next::Wait(reasons::CONFLICT.to_owned(), cut(&status.message, 1024))),
        _ => return Err(error.into()),
    };
    Ok(Failure::new(kind, &status.message).into())
}

/// The record that is meant, and no other one of its name.
async fn meant(work: &Work<'_>, key: &Key) -> Result<Result<Arc<VirtualMachine>, Failure>, Error> {
    let found = match Context::cached(&work.context.machines, key) {
        Some(found) => Some(found),
        None => fetch(work.context, key).await?.map(Arc::new),
    };
    let gone = |message: String| Ok(Err(Failure::new(ErrorKind::NotFound, message)));
    let Some(vm) = found else {
        return gone(format!("spec.targetRef: VirtualMachine {} is not there", key.name));
    };
    let uid = work.operation.spec.target_ref.as_ref().and_then(|target| target.uid.clone());
    if uid.is_some() && uid != vm.uid() {
        return gone(format!(
            "spec.targetRef.uid: VirtualMachine {} is another one of that name",
            key.name
        ));
    }
    Ok(Ok(vm))
}

/// A record as the API has it.
pub(crate) async fn fetch(context: &Context, key: &Key) -> Result<Option<VirtualMachine>, Error> {
    Ok(machines(context, &key.namespace).get_opt(&key.name).await?)
}

fn machines(context: &Context, namespace: &str) -> Api<VirtualMachine> {
    Api::namespaced(context.client.clone(), namespace)
}

async fn follow(work: &Work<'_>, key: &Key, wish: &Wish) -> Result<Next, Error> {
    let leaves = matches!(wish, Wish::Destroy | Wish::Forget);
    let vm = match meant(work, key).await? {
        Ok(vm) => vm,
        Err(_) if leaves => return Ok(gone(key)),
        Err(failure) => return Ok(failure.into()),
    };
    // One that was made after this began is not the one that was asked to go.
    let later = vm.metadata.creation_timestamp.as_ref().is_some_and(|made| made.0 > work.since());
    if leaves && later {
        return Ok(gone(key));
    }
    if work.operation.spec.cancel && *wish == Wish::Provision {
        let message = "it is no longer followed; delete the VirtualMachine to undo it";
        return Ok(Next::End(End::Cancelled(message.to_owned())));
    }
    let memo = work.memo();
    // A cache that is behind says nothing of what was asked for.
    if version_of(&*vm) < memo.version {
        return Ok(Next::Go);
    }
    let memory = vm.uid().map(|uid| work.context.slot(&uid, |slot| slot.memory.clone()));
    let restart = restart_value(work);
    let stands = standing(wish, &vm, memo.generation, &restart, memory.as_ref(), work.since());
    Ok(match stands {
        Standing::Going(reason, message) => Next::Wait(reason, message),
        Standing::Ended(end) => Next::End(end),
    })
}

/// The record is off the books, as was asked for.
fn gone(key: &Key) -> Next {
    Next::End(End::Completed(Box::new(call::with_data(&key.name, Value::Null))))
}

/// Has an image brought to a Provider that no machine may use it on yet.
async fn mark(work: &Work<'_>, image: &Key, provider: &Key) -> Result<Next, Error> {
    let Some(cached) = Context::cached(&work.context.images, image) else {
        let message = format!("VMImage {} is not to be seen yet", image.name);
        return Ok(Next::Wait(reasons::CONFLICT.to_owned(), message));
    };
    let mut wanted = images::asked_for(&cached);
    if wanted.insert(provider.clone()) {
        let list: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let body = json!({ "metadata": {
            "uid": cached.uid(),
            "resourceVersion": cached.resource_version(),
            "annotations": { annotations::PREPARE_ON: list.join(",") },
        }});
        let api: Api<VMImage> = Api::namespaced(work.context.client.clone(), &image.namespace);
        let params = PatchParams::apply(MANAGER);
        if let Err(error) = api.patch(&image.name, &params, &Patch::Merge(body)).await {
            return refused(error);
        }
    }
    work.remember(|memo| memo.acted = true);
    Ok(Next::Go)
}

fn follow_image(work: &Work<'_>, image: &Key, provider: &Key) -> Next {
    if work.operation.spec.cancel {
        return Next::End(End::Cancelled("it is no longer followed".to_owned()));
    }
    let Some(cached) = Context::cached(&work.context.images, image) else {
        let message = format!("spec.targetRef: VMImage {} is gone", image.name);
        return Failure::new(ErrorKind::NotFound, message).into();
    };
    let name = images::status_key(image, provider);
    let there = cached.status.as_ref().and_then(|status| status.provider_status.get(&name));
    match there {
        Some(there) if there.available => {
            let data = json!({ "id": there.id, "path": there.path, "provider": name });
            Next::End(End::Completed(Box::new(call::with_data(&image.name, data))))
        }
        _ => match images::failure_on(work.context, &cached, provider) {
            Some(error) => Failure::from(error).into(),
            None => {
                let message = there.and_then(|there| there.message.clone());
                let message = message.unwrap_or_else(|| "its preparation has not begun".to_owned());
                Next::Wait(reasons::IMAGE_NOT_READY.to_owned(), message)
            }
        },
    }
}
