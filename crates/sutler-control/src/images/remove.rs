//! Takes an image off the platforms that it was brought to, once no machine uses it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::{Api, ResourceExt as _, api::ListParams, runtime::controller::Action};
use serde_json::json;
use sutler_api::{
    infra::{Provider, VirtualMachine},
    names::{finalizers, reasons},
};
use sutler_provider::{Error as ProviderError, ErrorKind, Result};

use super::{Import, RESYNC, Stand, Work, import::State, status};
use crate::{
    context::Context,
    fleet::{Connection, Key, lock},
    index::Reference,
    machine::Error,
    removal::{AGAIN, Removal, follow},
    rules::{Rule, broken},
};

/// Errors that say that there is no image to remove.
const GONE: [ErrorKind; 2] = [ErrorKind::NotFound, ErrorKind::Unsupported];

pub(super) async fn reconcile(work: &Work) -> std::result::Result<Action, Error> {
    if !work.image.finalizers().iter().any(|name| name == finalizers::VM_IMAGE) {
        return Ok(Action::await_change());
    }
    let users = lock(&work.context.index).users(&Reference::Image(work.key.clone()));
    let heedless = broken(Rule::ImagesInUseStay);
    if let Some(first) = users.first().filter(|_| !heedless) {
        let message = format!("{} VirtualMachines use it, {first} among them", users.len());
        return wait(work, &work.key, message, RESYNC).await;
    }
    if let Some(user) = unseen_user(work).await?.filter(|_| !heedless) {
        return wait(work, &work.key, format!("VirtualMachine {user} uses it"), AGAIN).await;
    }
    let brought = match broken(Rule::ImagesLeaveNothing) {
        true => BTreeMap::new(),
        false => work.written_down(),
    };
    for (provider, targets) in brought {
        // What is on its way there comes to its end first.
        let coming =
            match lock(&work.context.imports).get_mut(&(work.uid.clone(), provider.clone())) {
                Some(import) => {
                    import.cancelled = true;
                    matches!(import.state, State::Coming { .. })
                }
                None => false,
            };
        if coming {
            let message = format!("it is still on its way to {provider}");
            return wait(work, &provider, message, super::NOT_READY).await;
        }
        for target in targets {
            if let Some((message, pause)) = step(work, &provider, &target).await? {
                return wait(work, &provider, message, pause).await;
            }
        }
    }
    let names: Vec<&String> =
        work.image.finalizers().iter().filter(|name| *name != finalizers::VM_IMAGE).collect();
    if work.patch(json!({ "finalizers": names })).await? {
        forget(&work.context, &work.uid);
    }
    Ok(Action::await_change())
}

/// A record that uses the image and that the cache does not show yet. The API itself is asked, once
/// before the first removal: what is removed cannot be put back under a machine.
async fn unseen_user(work: &Work) -> std::result::Result<Option<Key>, Error> {
    let begun = |(uid, _, _): &(String, Key, String)| *uid == work.uid;
    if lock(&work.context.removals).keys().any(begun) {
        return Ok(None);
    }
    let api: Api<VirtualMachine> = Api::all(work.context.client.clone());
    let users = api.list(&ListParams::default()).await?;
    Ok(users.items.iter().find_map(|vm| {
        let own = vm.namespace().unwrap_or_default();
        let image = vm.spec.image_ref.as_ref()?;
        let named = Key::new(image.namespace_or(&own), &image.name);
        (named == work.key).then(|| Key::new(own, vm.name_any()))
    }))
}

/// Removes the image from one platform; none when it is gone from there.
async fn step(
    work: &Work,
    provider: &Key,
    target: &str,
) -> std::result::Result<Option<(String, Duration)>, Error> {
    let context = &work.context;
    let entry = (work.uid.clone(), provider.clone(), target.to_owned());
    let now = context.clock.now();
    match lock(&context.removals).get(&entry) {
        Some(Removal::Gone) => return Ok(None),
        Some(Removal::UnderWay) => {
            return Ok(Some((format!("it is being removed from {provider}"), RESYNC)));
        }
        Some(Removal::Failed { error, next }) if *next > now => {
            let pause = Duration::try_from(next.duration_since(now)).unwrap_or(AGAIN);
            return Ok(Some((format!("{provider}: {}", error.message()), pause)));
        }
        Some(Removal::Failed { .. }) | None => {}
    }
    let Some(connection) = context.fleet.get(provider) else {
        let api: Api<Provider> = Api::namespaced(context.client.clone(), &provider.namespace);
        if api.get_opt(&provider.name).await?.is_some() {
            return Ok(Some((format!("Provider {provider} is not ready"), super::NOT_READY)));
        }
        let message = format!("Provider {provider} is gone; {target} was left on its platform");
        context.recorder.warn(work.image.as_ref(), "LeftBehind", &message).await;
        return Ok(None);
    };
    let open = connection.capabilities().and_then(|can| work.open_until(provider, &can));
    if let Some(end) = open.filter(|end| *end > now && !broken(Rule::ImagesLeaveNothing)) {
        let pause = Duration::try_from(end.duration_since(now)).unwrap_or(AGAIN);
        let message = format!(
            "{provider} was asked for it and has not said what came of that: it may come until {end}, \
             and is removed then"
        );
        return Ok(Some((message, pause)));
    }
    lock(&context.removals).insert(entry.clone(), Removal::UnderWay);
    let (context_, key) = (context.clone(), work.key.clone());
    context.tasks.spawn(async move {
        let result = remove(&connection, &entry.2).await;
        let now = context_.clock.now();
        lock(&context_.removals).insert(entry, Removal::ended(result, &GONE, now));
        Work::wake(&context_, &key);
    });
    Ok(Some((format!("it is being removed from {provider}"), RESYNC)))
}

async fn remove(connection: &Arc<Connection>, target: &str) -> Result<()> {
    let started = connection.gate.image_remove(target, None).await?;
    if !follow(&connection.gate, started).await? {
        return Ok(());
    }
    // One that is not there is no error, and has no task.
    match connection.gate.image_remove(target, None).await?.task {
        None => Ok(()),
        Some(_) => Err(ProviderError::unavailable("its removal is not done yet")),
    }
}

async fn wait(
    work: &Work,
    about: &Key,
    message: String,
    pause: Duration,
) -> std::result::Result<Action, Error> {
    let reason = reasons::DELETING.to_owned();
    let stand = Stand::Waiting { reason, message, next: None };
    let due = status::publish(work, &BTreeMap::from([(about.clone(), stand)])).await?;
    Ok(Action::requeue(due.map_or(pause, |due| due.min(pause))))
}

/// Forgets what is known of an image that is gone.
fn forget(context: &Context, uid: &str) {
    lock(&context.imports).retain(|(of, _), _: &mut Import| of != uid);
    lock(&context.asks).retain(|(of, _), _| of != uid);
    lock(&context.removals).retain(|(of, _, _), _: &mut Removal| of != uid);
}
