//! What a machine's first boot reads about the cluster that it is to join.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use serde_json::Value;

/// Where the agent of k3s is told what to do.
const K3S: &str = "/etc/rancher/k3s/config.yaml";

/// What the node is to be.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Join {
    /// Its name; the hostname where it is not said.
    pub(crate) name: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) provider_id: Option<String>,
}

/// Reads the first-boot data of a machine; none where it joins nothing.
pub(crate) fn read(data: &[u8]) -> Option<Join> {
    let text = std::str::from_utf8(data).ok()?;
    if !text.starts_with("#cloud-config") {
        return None;
    }
    let document: Value = serde_saphyr::from_str(text).ok()?;
    let files = document["write_files"].as_array()?;
    files.iter().find_map(|file| {
        let content: Value = serde_saphyr::from_str(file["content"].as_str()?).ok()?;
        if file["path"] == K3S {
            Some(k3s(&content))
        } else if content["kind"] == "JoinConfiguration" {
            Some(kubeadm(&content))
        } else {
            None
        }
    })
}

fn k3s(config: &Value) -> Join {
    let argument = |name: &str| {
        let mut pairs = texts(&config["kubelet-arg"]).filter_map(|text| text.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    };
    Join {
        name: config["node-name"].as_str().map(str::to_owned),
        labels: texts(&config["node-label"]).filter_map(pair).collect(),
        taints: texts(&config["node-taint"]).filter_map(taint).collect(),
        provider_id: argument("provider-id"),
    }
}

fn kubeadm(config: &Value) -> Join {
    let node = &config["nodeRegistration"];
    let argument = |name: &str| {
        let mut all = node["kubeletExtraArgs"].as_array().into_iter().flatten();
        all.find(|argument| argument["name"] == name).and_then(|found| found["value"].as_str())
    };
    let labels = argument("node-labels").unwrap_or_default();
    let taints = node["taints"].as_array().into_iter().flatten();
    Join {
        name: node["name"].as_str().map(str::to_owned),
        labels: labels.split(',').filter_map(pair).collect(),
        taints: taints.filter_map(|taint| serde_json::from_value(taint.clone()).ok()).collect(),
        provider_id: argument("provider-id").map(str::to_owned),
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn pair(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
}

/// A taint as `key=value:effect`, where the value may be missing.
fn taint(text: &str) -> Option<Taint> {
    let (rest, effect) = text.rsplit_once(':')?;
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Some(Taint {
        key: key.to_owned(),
        value: (!value.is_empty()).then(|| value.to_owned()),
        effect: effect.to_owned(),
        time_added: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Join {
        Join {
            name: Some("web-0001".to_owned()),
            labels: [("pool", "web"), ("a/b", "c")].map(|(k, v)| (k.into(), v.into())).into(),
            taints: taint("dedicated=web:NoSchedule").into_iter().collect(),
            provider_id: Some("sutler://default/web-0001".to_owned()),
        }
    }

    #[test]
    fn an_agent_of_k3s_joins_as_its_file_says() {
        let text = r#"#cloud-config
write_files:
- path: /etc/motd
  content: hello
- path: /etc/rancher/k3s/config.yaml
  content: |
    server: https://10.0.0.10:6443
    node-name: web-0001
    node-label: [pool=web, a/b=c]
    node-taint: ["dedicated=web:NoSchedule"]
    kubelet-arg: [provider-id=sutler://default/web-0001]
"#;
        assert_eq!(read(text.as_bytes()), Some(wanted()));
    }

    #[test]
    fn kubeadm_joins_as_its_file_says() {
        let text = r#"#cloud-config
{"write_files": [{"path": "/etc/sutler/join.yaml", "content": "{\"kind\": \"JoinConfiguration\",
  \"nodeRegistration\": {\"name\": \"web-0001\",
  \"taints\": [{\"key\": \"dedicated\", \"value\": \"web\", \"effect\": \"NoSchedule\"}],
  \"kubeletExtraArgs\": [{\"name\": \"node-labels\", \"value\": \"pool=web,a/b=c\"},
  {\"name\": \"provider-id\", \"value\": \"sutler://default/web-0001\"}]}}"}]}
"#;
        assert_eq!(read(text.as_bytes()), Some(wanted()));
    }

    #[test]
    fn what_is_no_join_document_joins_nothing() {
        for text in ["", "#!/bin/sh\n", "#cloud-config\nhostname: x\n", "#cloud-config\n{{"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read(&[0xff, 0xfe]), None);
        let bare = taint("gone:NoExecute").unwrap();
        assert_eq!((bare.value, bare.effect.as_str()), (None, "NoExecute"));
    }
}
