//! A namespace with a Provider, classes and an image, and what cases do there.

use std::{
    collections::BTreeMap,
    future::Future,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

use crate::{
    platform,
    server::{self, Form, Server},
};

/// The longest that anything may take here.
const LONG: Duration = Duration::from_secs(300);

/// Our infrastructure kinds.
pub(crate) const INFRA: &str = "infra.virtrigaud.io/v1beta1";

/// A namespace of one case.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) namespace: String,
    pub(crate) client: Client,
    endpoint: String,
    server: &'static Server,
}

/// Runs a case on a server of its own that plays a cluster.
pub(crate) async fn run_playground<Fut: Future<Output = ()>>(case: impl FnOnce(Lab) -> Fut) {
    run_alone(tokio::task::spawn_blocking(server::playground).await.unwrap(), case).await;
}

/// The same, with a door for the stock cluster-autoscaler that has the certificates of this folder.
pub(crate) async fn run_driven<Fut: Future<Output = ()>>(
    certificates: &std::path::Path,
    case: impl FnOnce(Lab) -> Fut,
) {
    let folder = certificates.to_owned();
    let server = tokio::task::spawn_blocking(move || server::driven(&folder)).await.unwrap();
    run_alone(server, case).await;
}

/// Runs a case on a server that no other has.
pub(crate) async fn run_alone<Fut: Future<Output = ()>>(
    server: &'static Server,
    case: impl FnOnce(Lab) -> Fut,
) {
    case(Lab {
        client: connect(&server.kubeconfig).await,
        namespace: "default".to_owned(),
        endpoint: "sim://case".to_owned(),
        server,
    })
    .await;
}

/// Runs a case in a namespace of its own.
pub(crate) async fn run<Fut: Future<Output = ()>>(form: Form, case: impl FnOnce(Lab) -> Fut) {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    // It starts processes and waits for them.
    let server = tokio::task::spawn_blocking(move || form.server()).await.unwrap();
    let Some(server) = server else { return };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let lab = Lab {
        client: connect(&server.kubeconfig).await,
        namespace: format!("lab-{number}"),
        endpoint: format!("sim://lab-{number}"),
        server,
    };
    lab.create_namespace().await;
    case(lab).await;
}

/// A client for the server of this kubeconfig.
pub(crate) async fn connect(kubeconfig: &std::path::Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Objects of a kind, by its `apiVersion` and name.
pub(crate) fn api(
    client: &Client,
    version: &str,
    kind: &str,
    namespace: &str,
) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

impl Lab {
    async fn create_namespace(&self) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": self.namespace}});
        let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &namespace).await.unwrap();
    }

    /// The same namespace as another person, who may do everything too.
    pub(crate) async fn as_person(&self, name: &str) -> Self {
        let file = Kubeconfig::read_from(&self.server.kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
        config.auth_info.impersonate = Some(name.to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        Self { client: Client::try_from(config).unwrap(), ..self.clone() }
    }

    /// The same server in a namespace that is there.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..self.clone() }
    }

    /// A second namespace that shares the platform.
    pub(crate) async fn neighbour(&self) -> Self {
        let namespace = format!("{}-too", self.namespace);
        let lab = Self { namespace, ..self.clone() };
        lab.create_namespace().await;
        lab
    }

    /// A Provider with these options, the class `small` and the image `debian`.
    pub(crate) async fn furnish(&self, options: Value) {
        self.create(json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "sim"},
            "spec": {"type": "sim", "endpoint": self.endpoint, "options": options,
                "rateLimit": {"qps": 1000, "burst": 1000},
                "healthCheck": {"interval": "1s", "failureThreshold": 1}}}))
            .await;
        self.class_and_image().await;
    }

    /// The class `small` and the image `debian`.
    pub(crate) async fn class_and_image(&self) {
        self.create(json!({"apiVersion": INFRA, "kind": "VMClass", "metadata": {"name": "small"},
            "spec": {"cpu": 1, "memory": "1Gi"}}))
            .await;
        self.create(json!({"apiVersion": INFRA, "kind": "VMImage", "metadata": {"name": "debian"},
            "spec": {"source": {"custom": {"template": "debian-13"}}}}))
            .await;
    }

    /// Objects of one kind in this namespace.
    pub(crate) fn api(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        api(&self.client, version, kind, &self.namespace)
    }

    /// Creates an object, which must be accepted.
    pub(crate) async fn create(&self, object: Value) -> Value {
        self.try_create(object.clone()).await.unwrap_or_else(|error| panic!("{object}: {error}"))
    }

    /// Creates an object, or tells why not.
    pub(crate) async fn try_create(&self, object: Value) -> Result<Value, kube::Error> {
        let text = |key: &str| object[key].as_str().unwrap().to_owned();
        let api = self.api(&text("apiVersion"), &text("kind"));
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let made = api.create(&PostParams::default(), &object).await?;
        Ok(serde_json::to_value(made).unwrap())
    }

    /// Makes a machine's record: the usual references and what `spec` says besides.
    pub(crate) async fn record(&self, name: &str, spec: Value) -> Value {
        self.create(machine(name, spec)).await
    }

    /// Makes a machine and waits until it is ready.
    pub(crate) async fn ready(&self, name: &str, spec: Value) -> Value {
        self.record(name, spec).await;
        self.until(name, "ready", is_ready).await
    }

    /// Waits until a machine's record is as wanted. Nothing is polled.
    pub(crate) async fn until(&self, name: &str, what: &str, done: fn(&Value) -> bool) -> Value {
        self.until_of(INFRA, "VirtualMachine", name, what, done)
            .await
            .unwrap_or_else(|| panic!("{}/{name} is gone before it was {what}", self.namespace))
    }

    /// Waits until an object is as wanted; `None` stands for one that is gone.
    pub(crate) async fn until_of(
        &self,
        version: &str,
        kind: &str,
        name: &str,
        what: &str,
        done: impl Fn(&Value) -> bool,
    ) -> Option<Value> {
        let api = self.api(version, kind);
        let condition = move |object: Option<&DynamicObject>| {
            let value = object.map(|object| serde_json::to_value(object).unwrap());
            done(&value.unwrap_or_default())
        };
        match tokio::time::timeout(LONG, await_condition(api.clone(), name, condition)).await {
            Ok(found) => found.unwrap().map(|object| serde_json::to_value(object).unwrap()),
            Err(_) => {
                let now = api.get_opt(name).await.unwrap();
                let mut now = serde_json::to_value(now).unwrap();
                if let Some(meta) = now["metadata"].as_object_mut() {
                    meta.remove("managedFields");
                }
                // All cases write to one log; its end is what was going on.
                let log = self.log();
                let lines: Vec<&str> = log.lines().rev().take(60).collect();
                let log: String = lines.iter().rev().map(|line| format!("{line}\n")).collect();
                // What matters comes last: the end of a long message is what people get to see.
                panic!("{log}{}/{name} is never {what}: {now}", self.namespace)
            }
        }
    }

    /// Waits until a machine's record is gone.
    pub(crate) async fn until_gone(&self, name: &str) {
        self.until_of(INFRA, "VirtualMachine", name, "gone", Value::is_null).await;
    }

    /// Changes a machine's record.
    pub(crate) async fn patch(&self, name: &str, patch: Value) -> Value {
        self.patch_of("VirtualMachine", name, patch).await.unwrap()
    }

    /// Changes an object of ours, or tells why not.
    pub(crate) async fn patch_of(
        &self,
        kind: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value, kube::Error> {
        let api = self.api(INFRA, kind);
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(serde_json::to_value(patched).unwrap())
    }

    /// Asks for a machine's deletion.
    pub(crate) async fn delete(&self, name: &str) {
        let api = self.api(INFRA, "VirtualMachine");
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// What the server has said so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.server.log).unwrap_or_default()
    }

    /// Where the door for the stock cluster-autoscaler is.
    pub(crate) fn door(&self) -> String {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("cluster-autoscaler may drive")).unwrap();
        let (_, address) = line.split_once("127.0.0.1:").unwrap();
        let port: String = address.chars().take_while(char::is_ascii_digit).collect();
        format!("127.0.0.1:{port}")
    }

    /// What is on the platform, by ID.
    pub(crate) fn platform(&self) -> BTreeMap<String, Value> {
        platform::machines(&self.folder())
    }

    /// Disks on the platform that outlive their machines, by key.
    pub(crate) fn kept(&self) -> BTreeMap<String, Value> {
        platform::kept(&self.folder())
    }

    /// The one machine that is on the platform.
    pub(crate) fn only(&self) -> Value {
        let machines = self.platform();
        assert_eq!(machines.len(), 1, "{machines:#?}");
        machines.into_values().next().unwrap()
    }

    fn folder(&self) -> PathBuf {
        self.server.sims.join(self.endpoint.trim_start_matches("sim://"))
    }
}

/// A machine's record: the usual references and what `spec` says besides.
pub(crate) fn machine(name: &str, spec: Value) -> Value {
    let mut whole = json!({"providerRef": {"name": "sim"}, "classRef": {"name": "small"},
        "imageRef": {"name": "debian"}});
    let more = spec.as_object().cloned().unwrap_or_default();
    whole.as_object_mut().unwrap().extend(more);
    json!({"apiVersion": INFRA, "kind": "VirtualMachine", "metadata": {"name": name},
        "spec": whole})
}

/// The condition Ready of an object.
pub(crate) fn ready(object: &Value) -> &Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice);
    let ready = conditions.unwrap_or_default().iter().find(|c| c["type"] == "Ready");
    ready.unwrap_or(&Value::Null)
}

/// Whether an object is ready in its present generation.
pub(crate) fn is_ready(object: &Value) -> bool {
    let ready = ready(object);
    ready["status"] == "True" && ready["observedGeneration"] == object["metadata"]["generation"]
}
