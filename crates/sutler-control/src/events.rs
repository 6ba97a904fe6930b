//! Events that people read, each told once and then counted.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sutler_api::names::MANAGER;
use sutler_provider::Clock;

use crate::{fleet::lock, recent::Recent};

/// The pause between two writes of the same event: what repeats faster is counted and written later.
const PAUSE: Duration = Duration::from_secs(60);

/// How many events are remembered.
const REMEMBERED: usize = 4096;

/// Records events about objects.
pub struct Recorder {
    client: Client,
    clock: Arc<dyn Clock>,
    told: Mutex<Recent<String, Told>>,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    count: i32,
    written: Timestamp,
}

impl Recorder {
    /// Records events through this client, at the times of this clock.
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self { client, clock, told: Mutex::new(Recent::new(REMEMBERED)) }
    }

    /// Tells of something that went as it should.
    pub async fn note<K>(&self, object: &K, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.record(object, "Normal", reason, message).await;
    }

    /// Tells of something that a person should know.
    pub async fn warn<K>(&self, object: &K, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        self.record(object, "Warning", reason, message).await;
    }

    /// An event that cannot be written is not worth failing for.
    async fn record<K>(&self, object: &K, type_: &str, reason: &str, message: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let reference = object.object_ref(&());
        let name = name_of(&reference, type_, reason, message);
        let now = self.clock.now();
        let count = {
            let mut told = lock(&self.told);
            let before = told.get(&name).copied();
            let count = before.map_or(1, |told| told.count.saturating_add(1));
            let pause = before.and_then(|told| now.duration_since(told.written).try_into().ok());
            let too_soon = pause.is_some_and(|pause: Duration| pause < PAUSE);
            let written = before.filter(|_| too_soon).map_or(now, |told| told.written);
            told.insert(name.clone(), Told { count, written });
            if too_soon {
                return;
            }
            count
        };
        let result = self.write(reference, &name, type_, reason, message, count, now).await;
        if let Err(error) = result {
            tracing::debug!(%error, reason, object = object.name_any(), "an event was not written");
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an event has this many parts")]
    async fn write(
        &self,
        reference: ObjectReference,
        name: &str,
        type_: &str,
        reason: &str,
        message: &str,
        count: i32,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let namespace = reference.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        if count > 1 {
            let patch = json!({ "count": count, "lastTimestamp": Time(now) });
            let params = PatchParams::apply(MANAGER);
            match api.patch(name, &params, &Patch::Merge(patch)).await {
                Ok(_) => return Ok(()),
                // It has aged away meanwhile: it is told anew.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: reference,
            type_: Some(type_.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message.chars().take(1024).collect()),
            count: Some(count),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(MANAGER.to_owned()), host: None }),
            ..Event::default()
        };
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => Ok(()),
            // Another process told it first.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Equal events have equal names, so that a second one is the first counted once more.
fn name_of(reference: &ObjectReference, type_: &str, reason: &str, message: &str) -> String {
    let object = reference.name.as_deref().unwrap_or_default();
    let uid = reference.uid.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{uid}\n{type_}\n{reason}\n{message}").as_bytes());
    let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let object: String = object.chars().take(200).collect();
    format!("{object}.{hash}")
}
