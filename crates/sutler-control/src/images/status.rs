//! What an image's status says.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use sutler_api::{
    conditions,
    infra::{ImageOnProvider, ImagePhase, ImportProgress, VMImage, VMImageStatus},
    names::{MANAGER, condition_types, reasons},
    quantity::Quantity,
};

use super::{Stand, Work, status_key};
use crate::{
    context::SPACING,
    fleet::Key,
    machine::{Error, status_difference},
};

/// The pause between two writes that only tell of progress.
const PROGRESS: Duration = Duration::from_secs(5);

/// Writes what is known, if it differs; what only tells of progress may have to wait for as long as
/// is returned.
pub(super) async fn publish(
    work: &Work,
    stands: &BTreeMap<Key, Stand>,
) -> Result<Option<Duration>, Error> {
    let old = work.image.status.clone().unwrap_or_default();
    let now = work.context.clock.now();
    let new = next_status(work, &old, stands, now);
    let Some(patch) = status_difference(&old, &new) else { return Ok(None) };
    let matters = old.phase != new.phase
        || old.available_on != new.available_on
        || old.observed_generation != new.observed_generation;
    let pause = if matters { SPACING } else { PROGRESS };
    if let Some(wait) = work.context.too_soon(&work.uid, pause) {
        return Ok(Some(wait));
    }
    let body = json!({
        "metadata": { "resourceVersion": work.image.metadata.resource_version }, "status": patch,
    });
    let api: Api<VMImage> = Api::namespaced(work.context.client.clone(), &work.key.namespace);
    let params = PatchParams::apply(MANAGER);
    match api.patch_status(&work.key.name, &params, &Patch::Merge(body)).await {
        Ok(_) => work.context.wrote(&work.uid),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            // The cache is behind, and catches up without being asked.
            return Ok(Some(Duration::from_secs(1)));
        }
        Err(error) => return Err(error.into()),
    }
    let ready = |status: &VMImageStatus| {
        conditions::find(&status.conditions, condition_types::READY).cloned()
    };
    if let Some(now) = ready(&new)
        && ready(&old).is_none_or(|old| old.status != now.status || old.reason != now.reason)
    {
        let image = work.image.as_ref();
        match (now.status == "True", new.phase) {
            (true, _) => work.context.recorder.note(image, &now.reason, &now.message).await,
            (false, Some(ImagePhase::Failed)) => {
                work.context.recorder.warn(image, &now.reason, &now.message).await;
            }
            (false, _) => {}
        }
    }
    Ok(None)
}

fn next_status(
    work: &Work,
    old: &VMImageStatus,
    stands: &BTreeMap<Key, Stand>,
    now: Timestamp,
) -> VMImageStatus {
    let mut new = old.clone();
    let deleting = work.image.metadata.deletion_timestamp.is_some();
    if !deleting {
        // Where it was brought it stays, whether or not a machine there still uses it.
        let brought = work.written_down();
        let brought: BTreeSet<String> =
            brought.keys().map(|provider| status_key(&work.key, provider)).collect();
        let current = old.observed_generation == work.image.metadata.generation;
        new.provider_status
            .retain(|name, there| current && there.available && brought.contains(name));
        for (provider, stand) in stands {
            let name = status_key(&work.key, provider);
            let mut entry = on_provider(stand);
            let known = old.provider_status.get(&name);
            let alike = known.is_some_and(|known| {
                let same = ImageOnProvider { last_updated: None, ..known.clone() };
                same == entry
            });
            entry.last_updated = match (alike, known) {
                (true, Some(known)) => known.last_updated.clone(),
                _ => Some(Time(now)),
            };
            new.provider_status.insert(name, entry);
        }
        let there = new.provider_status.iter().filter(|(_, there)| there.available);
        new.available_on = there.map(|(name, _)| name.clone()).collect();
    }
    let size = stands.values().find_map(|stand| match stand {
        Stand::There { size, .. } => *size,
        _ => None,
    });
    if let Some(size) = size {
        new.size = Some(Quantity(size.to_string()));
    }
    new.import_progress = progress(old, stands, size);
    let (phase, reason, message) = summary(work, stands, deleting);
    new.ready = Some(!new.available_on.is_empty() || phase == ImagePhase::Ready);
    if phase == ImagePhase::Ready && old.phase != Some(ImagePhase::Ready) && !stands.is_empty() {
        new.last_prepare_time = Some(Time(now));
    }
    new.phase = Some(phase);
    new.message = Some(message.clone());
    let generation = work.image.metadata.generation;
    new.observed_generation = generation;
    let holds = phase == ImagePhase::Ready && !deleting;
    let list = &mut new.conditions;
    let mut set = |type_: &str, holds: bool, wanted: bool| match wanted {
        true => {
            conditions::set(list, type_, holds.into(), &reason, &message, generation, now);
        }
        false => list.retain(|condition| condition.type_ != type_),
    };
    set(condition_types::READY, holds, true);
    set(condition_types::STALLED, true, phase == ImagePhase::Failed);
    set(condition_types::DELETING, true, deleting);
    new
}

fn on_provider(stand: &Stand) -> ImageOnProvider {
    let text = |message: &String| Some(message.chars().take(1024).collect());
    match stand {
        Stand::There { id, path, size } => ImageOnProvider {
            available: true,
            id: id.clone(),
            path: path.clone(),
            size: size.map(|size| Quantity(size.to_string())),
            ..ImageOnProvider::default()
        },
        Stand::Coming { message, .. }
        | Stand::Waiting { message, .. }
        | Stand::Failed { message, .. } => {
            ImageOnProvider { message: text(message), ..ImageOnProvider::default() }
        }
    }
}

/// The progress of the import that is furthest behind.
fn progress(
    old: &VMImageStatus,
    stands: &BTreeMap<Key, Stand>,
    size: Option<u64>,
) -> Option<ImportProgress> {
    let coming = stands.values().filter_map(|stand| match stand {
        Stand::Coming { percent, since, .. } => Some((percent.unwrap_or(0), *since)),
        _ => None,
    });
    let (percent, since) = coming.min()?;
    let known = old.import_progress.as_ref().and_then(|progress| progress.start_time.clone());
    Some(ImportProgress {
        percentage: Some(i32::from(percent.min(100))),
        total_bytes: size.and_then(|size| i64::try_from(size).ok()),
        start_time: known.or(Some(Time(since))),
        ..ImportProgress::default()
    })
}

/// All Providers in one: what has failed comes first, then what is on its way.
fn summary(
    work: &Work,
    stands: &BTreeMap<Key, Stand>,
    deleting: bool,
) -> (ImagePhase, String, String) {
    let download = work.image.spec.source.http.is_some();
    let coming = if download { ImagePhase::Downloading } else { ImagePhase::Importing };
    let mut worst: Option<(u8, ImagePhase, String, String)> = None;
    for (provider, stand) in stands {
        let on = |message: &String| format!("{provider}: {message}");
        let entry = match stand {
            Stand::There { .. } => continue,
            Stand::Failed { reason, message } => {
                (0, ImagePhase::Failed, reason.clone(), on(message))
            }
            Stand::Coming { message, .. } => (1, coming, "Importing".to_owned(), on(message)),
            Stand::Waiting { message, reason, .. } if deleting => {
                (2, ImagePhase::Pending, reason.clone(), message.clone())
            }
            Stand::Waiting { message, reason, .. } => {
                (2, ImagePhase::Pending, reason.clone(), on(message))
            }
        };
        if worst.as_ref().is_none_or(|worst| entry.0 < worst.0) {
            worst = Some(entry);
        }
    }
    match worst {
        Some((_, phase, reason, message)) => (phase, reason, message),
        None if stands.is_empty() => (
            ImagePhase::Ready,
            reasons::READY.to_owned(),
            "it is brought to a platform when a machine there needs that".to_owned(),
        ),
        None => (
            ImagePhase::Ready,
            reasons::READY.to_owned(),
            "it is on all platforms that need it".to_owned(),
        ),
    }
}
