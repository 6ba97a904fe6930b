//! What the first start of an empty store makes, so that a machine can be made at once.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sutler_api::infra::{Provider, VMClass, VMImage, VirtualMachine};

/// Remembers that the defaults were made, so that what a person deletes stays deleted.
const MARKER: &str = "sutler-defaults";
const NAMESPACE: &str = "default";
const BEGUN: &str = "begun";
const DONE: &str = "done";

/// Makes them, once in the life of a store. A start that was killed half way is taken up again.
pub(super) async fn ensure(client: &Client) -> Result<(), kube::Error> {
    let markers: Api<ConfigMap> = Api::namespaced(client.clone(), "sutler-system");
    let state = match markers.get_opt(MARKER).await? {
        Some(marker) => marker.data.unwrap_or_default().remove("state").unwrap_or_default(),
        None => {
            let state = if is_empty(client).await? { BEGUN } else { DONE };
            let marker: ConfigMap = read(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": MARKER }, "data": { "state": state },
            }))?;
            markers.create(&PostParams::default(), &marker).await?;
            state.to_owned()
        }
    };
    if state == DONE {
        return Ok(());
    }
    for object in objects().into_iter().chain(libvirt()) {
        match object["kind"].as_str() {
            Some("Provider") => create::<Provider>(client, object).await?,
            Some("VMClass") => create::<VMClass>(client, object).await?,
            _ => create::<VMImage>(client, object).await?,
        }
    }
    let done = Patch::Merge(json!({ "data": { "state": DONE } }));
    markers.patch(MARKER, &PatchParams::default(), &done).await?;
    tracing::info!("made a simulated hypervisor, two classes and an image in namespace default");
    Ok(())
}

async fn is_empty(client: &Client) -> Result<bool, kube::Error> {
    Ok(none::<Provider>(client).await?
        && none::<VMClass>(client).await?
        && none::<VMImage>(client).await?
        && none::<VirtualMachine>(client).await?)
}

async fn none<K>(client: &Client) -> Result<bool, kube::Error>
where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let found = api.list_metadata(&ListParams::default().limit(1)).await?;
    Ok(found.items.is_empty())
}

async fn create<K>(client: &Client, object: Value) -> Result<(), kube::Error>
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + Serialize
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), NAMESPACE);
    match api.create(&PostParams::default(), &read(object)?).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => result.map(drop),
    }
}

fn read<K: DeserializeOwned>(object: Value) -> Result<K, kube::Error> {
    serde_json::from_value(object).map_err(kube::Error::SerdeError)
}

/// Where a libvirt of this host listens.
const SOCKETS: [&str; 2] = ["/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"];

/// The libvirt of this host, where there is one and the program that serves it.
fn libvirt() -> Option<Value> {
    let there = SOCKETS.iter().any(|socket| std::path::Path::new(socket).exists());
    let installed = super::connect::children::find(super::connect::LIBVIRT).is_ok();
    (there && installed).then(|| {
        json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider",
            "metadata": { "name": "libvirt" },
            "spec": { "type": "libvirt", "endpoint": "qemu:///system" },
        })
    })
}

/// A lab whose machines take a few seconds, so that a person sees the stages go by.
fn objects() -> [Value; 4] {
    let infra = "infra.virtrigaud.io/v1beta1";
    let class = |name: &str, cpu: u32, memory: &str| {
        json!({
            "apiVersion": infra, "kind": "VMClass", "metadata": { "name": name },
            "spec": { "cpu": cpu, "memory": memory },
        })
    };
    [
        json!({
            "apiVersion": infra, "kind": "Provider", "metadata": { "name": "sim" },
            "spec": {
                "type": "sim", "endpoint": "sim://lab",
                "rateLimit": { "qps": 1000, "burst": 1000 },
                "options": {
                    "latency": { "create": "200ms", "power": "100ms", "delete": "100ms" },
                    "work": {
                        "image": "500ms", "create": "2s", "start": "700ms", "boot": "1500ms",
                        "stop": "300ms", "shutdown": "1s", "delete": "500ms",
                        "reconfigure": "800ms",
                    },
                    "hosts": [
                        { "name": "lab-1", "cpu": 256, "memoryMib": 1_048_576 },
                        { "name": "lab-2", "cpu": 256, "memoryMib": 1_048_576 },
                    ],
                },
            },
        }),
        class("small", 1, "1Gi"),
        class("medium", 2, "4Gi"),
        json!({
            "apiVersion": infra, "kind": "VMImage", "metadata": { "name": "debian" },
            "spec": { "source": { "custom": { "template": "debian-13" } } },
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_can_be_simulated() {
        let [provider, ..] = objects();
        let options = provider["spec"]["options"].as_object().unwrap();
        sutler_sim::Settings::from_options(options).unwrap();
        read::<Provider>(provider).unwrap();
    }
}
