//! Removes a disk from its platform, and sees that it is gone.

use std::{sync::Arc, time::Duration};

use kube::{Api, ResourceExt as _};
use sutler_api::infra::Provider;
use sutler_provider::{DiskKey, Error as ProviderError, ErrorKind, Result};

use super::{Work, key_of};
use crate::{
    fleet::{Connection, Key, lock},
    machine::Error,
    removal::{AGAIN, Removal, follow},
};

/// A platform on which no disk outlives its machine has none of ours.
const GONE: [ErrorKind; 1] = [ErrorKind::Unsupported];

/// The pause after which a Provider that is not ready is asked for again.
const NOT_READY: Duration = Duration::from_secs(10);

/// How a removal stands.
pub(super) enum Stand {
    /// The disk is not there any more.
    Gone,
    /// What it waits for, and when that is looked at again.
    Waiting(String, Duration),
}

/// Goes on with a removal.
pub(super) async fn step(work: &Work) -> std::result::Result<Stand, Error> {
    let (context, provider) = (&work.context, &work.provider);
    let disk = key_of(&work.uid);
    let entry = (work.uid.clone(), provider.clone(), disk.0.clone());
    let now = context.clock.now();
    let under_way = || Stand::Waiting(format!("it is being removed from {provider}"), AGAIN);
    match lock(&context.removals).get(&entry) {
        Some(Removal::Gone) => return Ok(Stand::Gone),
        Some(Removal::UnderWay) => return Ok(under_way()),
        Some(Removal::Failed { error, next }) if *next > now => {
            let pause = Duration::try_from(next.duration_since(now)).unwrap_or(AGAIN);
            return Ok(Stand::Waiting(format!("{provider}: {}", error.message()), pause));
        }
        Some(Removal::Failed { .. }) | None => {}
    }
    let Some(connection) = context.fleet.get(provider) else {
        return absent(work, provider, &disk).await;
    };
    lock(&context.removals).insert(entry.clone(), Removal::UnderWay);
    let (context_, key) = (context.clone(), work.key.clone());
    context.tasks.spawn(async move {
        let result = remove(&connection, &disk).await;
        let now = context_.clock.now();
        lock(&context_.removals).insert(entry, Removal::ended(result, &GONE, now));
        context_.wake_disk(&key);
    });
    Ok(under_way())
}

/// Without its Provider's record nobody can reach a disk any more.
async fn absent(work: &Work, provider: &Key, disk: &DiskKey) -> std::result::Result<Stand, Error> {
    let api: Api<Provider> = Api::namespaced(work.context.client.clone(), &provider.namespace);
    if api.get_opt(&provider.name).await?.is_some() {
        return Ok(Stand::Waiting(format!("Provider {provider} is not ready"), NOT_READY));
    }
    if work.disk.status.as_ref().is_some_and(|status| status.size_gib.is_some()) {
        let message = format!("Provider {provider} is gone; {disk} was left on its platform");
        work.context.recorder.warn(work.disk.as_ref(), "LeftBehind", &message).await;
    }
    Ok(Stand::Gone)
}

async fn remove(connection: &Arc<Connection>, disk: &DiskKey) -> Result<()> {
    let started = connection.gate.kept_disk_remove(disk, None).await?;
    follow(&connection.gate, started).await?;
    // That it is gone is seen, and not believed.
    let left = connection.gate.kept_disks().await?;
    match left.iter().any(|left| left.key == *disk) {
        false => Ok(()),
        true => Err(ProviderError::unavailable("its removal is not done yet")),
    }
}

/// Forgets what is known of a disk that is gone.
pub(super) fn forget(work: &Work) {
    super::look::forget(work);
    lock(&work.context.removals).retain(|(of, _, _), _: &mut Removal| *of != work.uid);
    tracing::info!(disk = work.disk.name_any(), "a disk was removed");
}
