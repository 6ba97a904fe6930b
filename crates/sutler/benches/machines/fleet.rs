//! Many machines at once.

use std::{
    collections::BTreeSet,
    ops::Range,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
    runtime::{WatchStreamExt as _, wait::await_condition, watcher},
};
use serde_json::{Value, json};

use crate::server::Server;

const INFRA: &str = "infra.virtrigaud.io/v1beta1";
/// Requests at once.
const AT_ONCE: usize = 64;
/// The longest that anything may take.
const LONG: Duration = Duration::from_secs(900);

/// Machines of one server.
pub(crate) struct Fleet {
    client: Client,
}

impl Fleet {
    /// Makes a simulated Provider with these options, a class and an image.
    pub(crate) async fn furnish(server: &Server, options: Value) -> Self {
        let provider = json!({"type": "sim", "endpoint": "sim://bench", "options": options});
        let source = json!({"custom": {"template": "debian-13"}});
        Self::furnish_with(server, provider, "1Gi", source).await
    }

    /// Makes a Provider that is like this, a class with this much memory, and an image from there.
    pub(crate) async fn furnish_with(
        server: &Server,
        mut provider: Value,
        memory: &str,
        source: Value,
    ) -> Self {
        provider["rateLimit"] = json!({"qps": 1_000_000, "burst": 1_000_000});
        let file = Kubeconfig::read_from(&server.kubeconfig).unwrap();
        let choice = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &choice).await.unwrap();
        let fleet = Self { client: Client::try_from(config).unwrap() };
        fleet
            .create(
                "Provider",
                json!({"apiVersion": INFRA, "kind": "Provider",
                "metadata": {"name": "bench"}, "spec": provider}),
            )
            .await;
        fleet
            .create(
                "VMClass",
                json!({"apiVersion": INFRA, "kind": "VMClass",
                "metadata": {"name": "bench"}, "spec": {"cpu": 1, "memory": memory}}),
            )
            .await;
        fleet
            .create(
                "VMImage",
                json!({"apiVersion": INFRA, "kind": "VMImage",
                "metadata": {"name": "bench"}, "spec": {"source": source}}),
            )
            .await;
        let ready = |object: Option<&DynamicObject>| {
            object.is_some_and(|object| is_ready(&serde_json::to_value(object).unwrap()))
        };
        let providers = fleet.api("Provider");
        tokio::time::timeout(LONG, await_condition(providers, "bench", ready))
            .await
            .unwrap()
            .unwrap();
        fleet
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let (group, version) = INFRA.split_once('/').unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    async fn create(&self, kind: &str, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await.unwrap();
    }

    /// Makes the records, and tells how long that took.
    pub(crate) async fn apply_all(&self, size: usize) -> Duration {
        self.apply(0..size).await
    }

    /// Makes the records of these numbers, and tells how long that took.
    pub(crate) async fn apply(&self, numbers: Range<usize>) -> Duration {
        let begun = Instant::now();
        stream::iter(numbers)
            .for_each_concurrent(AT_ONCE, |number| async move {
                let name = format!("bench-{number}");
                self.create(
                    "VirtualMachine",
                    json!({"apiVersion": INFRA, "kind": "VirtualMachine",
                    "metadata": {"name": name}, "spec": {"providerRef": {"name": "bench"},
                        "classRef": {"name": "bench"}, "imageRef": {"name": "bench"}}}),
                )
                .await;
            })
            .await;
        begun.elapsed()
    }

    /// Deletes this many machines, and waits until they are gone.
    pub(crate) async fn remove_all(&self, size: usize) {
        let machines = self.api("VirtualMachine");
        let names: Vec<_> = (0..size).map(|number| format!("bench-{number}")).collect();
        for name in &names {
            machines.delete(name, &DeleteParams::default()).await.unwrap();
        }
        for name in &names {
            let gone = |object: Option<&DynamicObject>| object.is_none();
            let gone = await_condition(machines.clone(), name, gone);
            tokio::time::timeout(LONG, gone).await.unwrap().unwrap();
        }
    }

    /// Makes the records and waits until all machines are ready; tells how long the records took.
    pub(crate) async fn apply_all_until_ready(&self, size: usize) -> Duration {
        tokio::join!(self.apply_all(size), self.until_all(size, is_ready)).0
    }

    /// Waits until this many machines are as wanted. Nothing is polled.
    pub(crate) async fn until_all(&self, size: usize, done: fn(&Value) -> bool) {
        let events = watcher(self.api("VirtualMachine"), watcher::Config::default())
            .default_backoff()
            .touched_objects();
        let mut events = std::pin::pin!(events);
        let mut found = BTreeSet::new();
        let all = async {
            while found.len() < size {
                let Some(Ok(object)) = events.next().await else { continue };
                let name = object.metadata.name.clone().unwrap_or_default();
                let whole = json!({"metadata": object.metadata, "status": object.data["status"]});
                if done(&whole) {
                    found.insert(name);
                }
            }
        };
        if tokio::time::timeout(LONG, all).await.is_err() {
            panic!("{} of {size} machines are as wanted", found.len());
        }
    }
}

fn is_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice);
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
