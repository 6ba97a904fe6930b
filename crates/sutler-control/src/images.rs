//! The controller of VMImages: brings them to the platforms whose machines need them.
//!
//! What an image is called on a platform depends on its source, so that another source never takes
//! the place of a disk that machines stand on. The names are written down, with the finalizer,
//! before anything is brought; all of them are removed with the image.

mod asked;
mod import;
mod remove;
mod status;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::controller::Action,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sutler_api::{
    infra::VMImage,
    names::{MANAGER, annotations, finalizers, reasons},
};
use sutler_provider::{Error as ProviderError, platform_name};

use crate::{
    context::Context,
    fleet::{Key, lock},
    index::Reference,
    machine::{Error, image::source_for},
    rules::{Rule, broken},
};

use asked::Asked;

pub(crate) use import::Import;

/// The pause after which an image is looked at even if nothing happened.
const RESYNC: Duration = Duration::from_secs(600);

/// The pause after which a Provider that is not ready is looked at again.
const NOT_READY: Duration = Duration::from_secs(5);

/// The name under which an image's status speaks of a provider: its own name, with the namespace
/// where that is another one.
pub(crate) fn status_key(image: &Key, provider: &Key) -> String {
    match image.namespace == provider.namespace {
        true => provider.name.clone(),
        false => provider.to_string(),
    }
}

/// The Providers that somebody asked to have the image on.
pub(crate) fn asked_for(image: &VMImage) -> BTreeSet<Key> {
    let list = image.annotations().get(annotations::PREPARE_ON);
    let names = list.into_iter().flat_map(|list| list.split(','));
    names.filter_map(|name| read_key(name.trim())).collect()
}

fn read_key(text: &str) -> Option<Key> {
    let (namespace, name) = text.split_once('/')?;
    Some(Key::new(namespace, name))
}

/// Why an image is not going to be on a Provider, as things are.
pub(crate) fn failure_on(
    context: &Context,
    image: &VMImage,
    provider: &Key,
) -> Option<ProviderError> {
    let uid = image.uid().unwrap_or_default();
    let imports = lock(&context.imports);
    let import = imports.get(&(uid, provider.clone()))?;
    if import.generation != image.metadata.generation.unwrap_or_default() {
        return None;
    }
    match &import.state {
        import::State::Failed { error, next: None } => Some(error.clone()),
        _ => None,
    }
}

/// The next try after an error of the API.
pub(crate) fn error_policy(_: Arc<VMImage>, _: &Error, context: Arc<Context>) -> Action {
    context.counters.count_api_error();
    Action::requeue(Duration::from_secs(2))
}

/// An image, and what it is called on the platforms.
pub(crate) struct Work {
    pub(crate) context: Arc<Context>,
    pub(crate) image: Arc<VMImage>,
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) generation: i64,
}

/// How an image stands on one Provider.
pub(crate) enum Stand {
    /// It is there, as the status says already or the platform has just told.
    There { id: Option<String>, path: Option<String>, size: Option<u64> },
    /// It is on its way.
    Coming { percent: Option<u8>, message: String, since: Timestamp },
    /// It waits for something: a reason and the same for people, and when it is tried next.
    Waiting { reason: String, message: String, next: Option<Timestamp> },
    /// A person has to do something.
    Failed { reason: String, message: String },
}

/// Looks at one image.
pub(crate) async fn reconcile(image: Arc<VMImage>, context: Arc<Context>) -> Result<Action, Error> {
    context.counters.count_reconcile("VMImage");
    if let Some(wait) = context.not_indexed() {
        return Ok(Action::requeue(wait));
    }
    let work = Work {
        key: Key::new(image.namespace().unwrap_or_default(), image.name_any()),
        uid: image.uid().unwrap_or_default(),
        generation: image.metadata.generation.unwrap_or_default(),
        context,
        image,
    };
    if work.image.metadata.deletion_timestamp.is_some() {
        return remove::reconcile(&work).await;
    }
    let wanted = work.wanted();
    if !broken(Rule::ImagesOnRecordFirst) && !work.write_down(&wanted).await? {
        // The cache shows it soon; nothing is brought before.
        return Ok(Action::requeue(Duration::from_secs(1)));
    }
    let mut stands = BTreeMap::new();
    let mut next: Option<Timestamp> = None;
    for provider in wanted {
        let Some(stand) = work.stand(&provider).await? else { continue };
        let now = work.context.clock.now();
        let again = match &stand {
            Stand::Waiting { next, .. } => next.or(now.checked_add(NOT_READY).ok()),
            _ => None,
        };
        next = next.into_iter().chain(again).min();
        stands.insert(provider, stand);
    }
    let due = status::publish(&work, &stands).await?;
    let now = work.context.clock.now();
    let pause = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    let pause = pause.into_iter().chain(due).min().unwrap_or(RESYNC);
    Ok(Action::requeue(pause.clamp(Duration::from_millis(10), RESYNC)))
}

impl Work {
    /// Providers that should have it.
    fn wanted(&self) -> BTreeSet<Key> {
        let used = lock(&self.context.index).providers(&Reference::Image(self.key.clone()));
        used.into_iter().chain(asked_for(&self.image)).collect()
    }

    /// What the image is called where it was brought, by Provider, as it is written down.
    pub(crate) fn written_down(&self) -> BTreeMap<Key, BTreeSet<String>> {
        let text = self.image.annotations().get(annotations::PREPARED_AS);
        let names: Option<BTreeMap<String, BTreeSet<String>>> =
            text.and_then(|text| serde_json::from_str(text).ok());
        let names = names.unwrap_or_default().into_iter();
        names.filter_map(|(key, names)| Some((read_key(&key)?, names))).collect()
    }

    /// What it is called on platforms.
    pub(crate) fn target(&self) -> String {
        let source = serde_json::to_string(&self.image.spec.source).unwrap_or_default();
        let digest = Sha256::digest(source.as_bytes());
        let hash: String = digest.iter().take(3).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{hash}", platform_name(&self.key.name, &self.uid, 50))
    }

    /// Writes down, with the finalizer, what the image is going to be called on which Provider, and that
    /// it is asked for there now. False says that it was written just now.
    async fn write_down(&self, wanted: &BTreeSet<Key>) -> Result<bool, Error> {
        let mut names = self.written_down();
        let before = names.clone();
        let mut asked = self.asked();
        let mut asks: Vec<(Key, u32)> = Vec::new();
        let now = self.context.clock.now();
        for provider in wanted.iter().filter(|provider| self.takes_images(provider)) {
            names.entry(provider.clone()).or_default().insert(self.target());
            if self.is_to_be_written(provider) {
                let times = asked.get(&provider.to_string()).map_or(0, |asked| asked.times) + 1;
                asked.insert(provider.to_string(), Asked { at: now, times });
                asks.push((provider.clone(), times));
            }
        }
        if names == before && asks.is_empty() {
            return Ok(true);
        }
        let names: BTreeMap<String, _> =
            names.into_iter().map(|(key, names)| (key.to_string(), names)).collect();
        let mut finalizers = self.image.finalizers().to_vec();
        if !finalizers.iter().any(|name| name == finalizers::VM_IMAGE) {
            finalizers.push(finalizers::VM_IMAGE.to_owned());
        }
        let names = serde_json::to_string(&names).unwrap_or_default();
        let asked = serde_json::to_string(&asked).unwrap_or_default();
        let notes = json!({ annotations::PREPARED_AS: names, annotations::PREPARE_ASKED: asked });
        if self.patch(json!({ "finalizers": finalizers, "annotations": notes })).await? {
            let asks =
                asks.into_iter().map(|(provider, times)| ((self.uid.clone(), provider), times));
            lock(&self.context.asks).extend(asks);
        }
        Ok(false)
    }

    /// Changes the image's metadata, if it is still as it is known here.
    pub(crate) async fn patch(&self, mut metadata: serde_json::Value) -> Result<bool, Error> {
        metadata["uid"] = json!(self.uid);
        metadata["resourceVersion"] = json!(self.image.resource_version());
        let body = json!({ "metadata": metadata });
        let api: Api<VMImage> = Api::namespaced(self.context.client.clone(), &self.key.namespace);
        let params = PatchParams::apply(MANAGER);
        match api.patch(&self.key.name, &params, &Patch::Merge(body)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn takes_images(&self, provider: &Key) -> bool {
        let connection = self.context.fleet.get(provider);
        connection.and_then(|c| c.capabilities()).is_some_and(|can| can.image_import)
    }

    /// What this process knows of this generation on a Provider, where nothing is due.
    fn resting(&self, provider: &Key) -> Option<Import> {
        let entry = (self.uid.clone(), provider.clone());
        let known = lock(&self.context.imports).get(&entry).cloned();
        let known = known.filter(|import| import.generation == self.generation);
        known.filter(|import| !import.due(self.context.clock.now()))
    }

    /// How the image stands on a Provider; none where it need not be brought.
    async fn stand(&self, provider: &Key) -> Result<Option<Stand>, Error> {
        if let Some(import) = self.resting(provider) {
            return Ok(Some(import.stand()));
        }
        // What was there stays so while nobody can be asked.
        if let Some(stand) = self.on_record(provider) {
            return Ok(Some(stand));
        }
        let waiting = |message: String| {
            let reason = reasons::PROVIDER_NOT_READY.to_owned();
            Ok(Some(Stand::Waiting { reason, message, next: None }))
        };
        let Some(connection) = self.context.fleet.get(provider) else {
            return waiting(format!("Provider {provider} is not ready"));
        };
        let Some(capabilities) = connection.capabilities() else {
            return waiting(format!("Provider {provider} has not told yet what it can do"));
        };
        if !capabilities.image_import {
            return Ok(None);
        }
        let source = match source_for(&self.image, &connection.state().type_) {
            Ok(source) => source,
            Err(message) => {
                let reason = reasons::INVALID.to_owned();
                return Ok(Some(Stand::Failed { reason, message }));
            }
        };
        let stand = import::begin(self, &connection, source).await?;
        Ok(Some(stand))
    }

    /// The image is there, and was for this generation.
    fn on_record(&self, provider: &Key) -> Option<Stand> {
        let status = self.image.status.as_ref()?;
        if status.observed_generation != self.image.metadata.generation {
            return None;
        }
        let there = status.provider_status.get(&status_key(&self.key, provider))?;
        there.available.then(|| Stand::There {
            id: there.id.clone(),
            path: there.path.clone(),
            size: there.size.as_ref().and_then(|size| size.to_u64().ok()),
        })
    }

    /// Has the image looked at again.
    pub(crate) fn wake(context: &Context, key: &Key) {
        let _ = context
            .wakes
            .images
            .send(kube::runtime::reflector::ObjectRef::new(&key.name).within(&key.namespace));
    }
}
