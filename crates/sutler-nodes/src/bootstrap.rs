//! How a machine becomes a node: the document that its first boot reads.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{Secret, Taint},
};
use kube::{
    Api, Resource as _, ResourceExt as _,
    api::{ObjectMeta, PostParams},
};
use serde_json::{Value, json};
use sutler_api::{
    autoscaler::{Bootstrap, BootstrapKind, NodeGroup, VPSieNode},
    names::labels,
};

use crate::{context::Context, node};

/// The key of the Secret that first-boot data is read from.
const KEY: &str = "userdata";

/// Why a machine's first-boot data could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Something that a person has to put right, named with its field.
    #[error("{0}")]
    Missing(String),
    /// The API refused or failed.
    #[error("the API did not answer as needed")]
    Api(#[from] kube::Error),
}

/// The name of the Secret with a node's first-boot data, which is made where it is not there. It belongs
/// to the node's record and goes with it.
pub(crate) async fn secret_of(
    context: &Context,
    node: &VPSieNode,
    group: &NodeGroup,
    bootstrap: &Bootstrap,
) -> Result<String, Error> {
    let namespace = node.namespace().unwrap_or_default();
    let token = match &bootstrap.token_secret_ref {
        None => None,
        Some(reference) => {
            let api: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
            let secret = api.get_opt(&reference.name).await?;
            let data = secret.and_then(|secret| secret.data?.remove(&reference.key));
            let token = data.and_then(|data| String::from_utf8(data.0).ok());
            let token = token.ok_or_else(|| {
                let (name, key) = (&reference.name, &reference.key);
                Error::Missing(format!(
                    "spec.bootstrap.tokenSecretRef: Secret {namespace}/{name} with a token under \
                     {key:?} is not there: create it"
                ))
            })?;
            Some(token.trim().to_owned())
        }
    };
    let wanted = Wanted {
        name: node.name_any(),
        provider_id: sutler_api::autoscaler::removal::provider_id(node),
        labels: node::wanted_labels(node, Some(group)),
        taints: &group.spec.taints,
        token: token.as_deref(),
    };
    let text = document(bootstrap, &wanted);
    let name = format!("{}-bootstrap", node.name_any());
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some([(labels::VPSIE_NODE.to_owned(), node.name_any())].into()),
            owner_references: node.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([(KEY.to_owned(), ByteString(text.into_bytes()))].into()),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(context.client.clone(), &namespace);
    match api.create(&PostParams::default(), &secret).await {
        Ok(_) => Ok(name),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let uid = node.uid();
            let known = api.get_opt(&name).await?;
            let ours = known.is_some_and(|secret| {
                secret.owner_references().iter().any(|owner| Some(&owner.uid) == uid.as_ref())
            });
            match ours {
                true => Ok(name),
                false => Err(Error::Missing(format!(
                    "Secret {namespace}/{name} is there and not of this record: delete it"
                ))),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// What a node is to be.
struct Wanted<'a> {
    name: String,
    provider_id: String,
    labels: BTreeMap<String, String>,
    taints: &'a [Taint],
    token: Option<&'a str>,
}

/// The document: what cloud-init reads.
fn document(bootstrap: &Bootstrap, wanted: &Wanted<'_>) -> String {
    match bootstrap.kind {
        BootstrapKind::Kubeadm => kubeadm(bootstrap, wanted),
        BootstrapKind::K3s => k3s(bootstrap, wanted),
        BootstrapKind::Custom => custom(bootstrap, wanted),
    }
}

fn kubeadm(bootstrap: &Bootstrap, wanted: &Wanted<'_>) -> String {
    let endpoint = bootstrap.endpoint.clone().unwrap_or_default();
    let endpoint = endpoint.trim_start_matches("https://").trim_end_matches('/');
    let discovery = json!({
        "apiServerEndpoint": endpoint,
        "token": wanted.token,
        "caCertHashes": bootstrap.ca_cert_hash.iter().collect::<Vec<_>>(),
        "unsafeSkipCAVerification": bootstrap.ca_cert_hash.is_none(),
    });
    let taints: Vec<Value> = wanted
        .taints
        .iter()
        .map(|taint| json!({ "key": taint.key, "value": taint.value, "effect": taint.effect }))
        .collect();
    let config = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": { "bootstrapToken": discovery },
        "nodeRegistration": {
            "name": wanted.name,
            "taints": taints,
            "kubeletExtraArgs": [
                { "name": "node-labels", "value": joined(&wanted.labels) },
                { "name": "provider-id", "value": wanted.provider_id },
            ],
        },
    });
    cloud_config(json!({
        "hostname": wanted.name,
        "write_files": [file("/etc/sutler/join.yaml", &config.to_string())],
        "runcmd": [["kubeadm", "join", "--config", "/etc/sutler/join.yaml"]],
    }))
}

fn k3s(bootstrap: &Bootstrap, wanted: &Wanted<'_>) -> String {
    let endpoint = bootstrap.endpoint.clone().unwrap_or_default();
    let server = match endpoint.contains("://") {
        true => endpoint,
        false => format!("https://{endpoint}"),
    };
    let taints: Vec<String> = wanted
        .taints
        .iter()
        .map(|taint| {
            let value = taint.value.as_deref().unwrap_or_default();
            format!("{}={value}:{}", taint.key, taint.effect)
        })
        .collect();
    let labels: Vec<String> =
        wanted.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let config = json!({
        "server": server,
        "token": wanted.token,
        "node-name": wanted.name,
        "node-label": labels,
        "node-taint": taints,
        "kubelet-arg": [format!("provider-id={}", wanted.provider_id)],
    });
    cloud_config(json!({
        "hostname": wanted.name,
        "write_files": [file("/etc/rancher/k3s/config.yaml", &config.to_string())],
        "runcmd": [["systemctl", "enable", "--now", "k3s-agent"]],
    }))
}

/// A document of the user's own, in which a few words are filled in.
fn custom(bootstrap: &Bootstrap, wanted: &Wanted<'_>) -> String {
    let text = bootstrap.extra.clone().unwrap_or_default();
    text.replace("{{name}}", &wanted.name)
        .replace("{{labels}}", &joined(&wanted.labels))
        .replace("{{providerID}}", &wanted.provider_id)
        .replace("{{token}}", wanted.token.unwrap_or_default())
}

fn joined(labels: &BTreeMap<String, String>) -> String {
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.join(",")
}

fn file(path: &str, content: &str) -> Value {
    json!({ "path": path, "permissions": "0600", "content": content })
}

/// JSON is YAML, and has no surprises in it.
fn cloud_config(value: Value) -> String {
    format!("#cloud-config\n{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bootstrap(kind: BootstrapKind, hash: Option<&str>) -> Bootstrap {
        Bootstrap {
            kind,
            endpoint: Some("10.0.0.1:6443".to_owned()),
            token_secret_ref: None,
            ca_cert_hash: hash.map(str::to_owned),
            extra: Some("#!/bin/sh\njoin {{name}} {{labels}} {{token}} {{providerID}}".to_owned()),
        }
    }

    fn made(kind: BootstrapKind, hash: Option<&str>) -> String {
        let taint = Taint {
            key: "dedicated".to_owned(),
            value: Some("web".to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        };
        let labels = [("a/b", "c"), ("d", "e")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let wanted = Wanted {
            name: "web-0001".to_owned(),
            provider_id: "sutler://ns/web-0001".to_owned(),
            labels: labels.into(),
            taints: &[taint],
            token: Some("abcdef.0123456789abcdef"),
        };
        document(&bootstrap(kind, hash), &wanted)
    }

    fn read(text: &str) -> Value {
        let body = text.strip_prefix("#cloud-config\n").expect("cloud-init knows it by this");
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn kubeadm_joins_under_the_records_name_with_labels_and_taints() {
        let document = read(&made(BootstrapKind::Kubeadm, Some("sha256:aa")));
        let config = document["write_files"][0]["content"].as_str().unwrap();
        let config: Value = serde_json::from_str(config).unwrap();
        assert_eq!(config["nodeRegistration"]["name"], "web-0001");
        assert_eq!(config["nodeRegistration"]["taints"][0]["key"], "dedicated");
        let arguments = &config["nodeRegistration"]["kubeletExtraArgs"];
        assert_eq!(arguments[0]["value"], "a/b=c,d=e");
        assert_eq!(arguments[1]["value"], "sutler://ns/web-0001");
        let token = &config["discovery"]["bootstrapToken"];
        assert_eq!(token["apiServerEndpoint"], "10.0.0.1:6443");
        assert_eq!(token["token"], "abcdef.0123456789abcdef");
        assert_eq!(token["caCertHashes"][0], "sha256:aa");
        assert_eq!(token["unsafeSkipCAVerification"], false);
        assert_eq!(document["write_files"][0]["permissions"], "0600");
    }

    #[test]
    fn k3s_joins_as_its_agent_does() {
        let document = read(&made(BootstrapKind::K3s, None));
        let config = document["write_files"][0]["content"].as_str().unwrap();
        let config: Value = serde_json::from_str(config).unwrap();
        assert_eq!(config["server"], "https://10.0.0.1:6443");
        assert_eq!(config["node-name"], "web-0001");
        assert_eq!(config["node-label"], json!(["a/b=c", "d=e"]));
        assert_eq!(config["node-taint"], json!(["dedicated=web:NoSchedule"]));
    }

    #[test]
    fn a_document_of_ones_own_is_filled_in() {
        let text = made(BootstrapKind::Custom, None);
        let line = text.lines().nth(1).unwrap();
        assert_eq!(line, "join web-0001 a/b=c,d=e abcdef.0123456789abcdef sutler://ns/web-0001");
    }
}
