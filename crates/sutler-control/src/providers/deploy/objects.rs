//! What a Provider's Deployment, Service and NetworkPolicy look like.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service, networking::v1::NetworkPolicy};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use sutler_api::{
    infra::{Provider, ProviderRuntime},
    names::MANAGER,
};

use super::{super::runtime::object_name, MANAGED};

/// Where a provider's health is asked after over HTTP.
const HEALTH_PORT: u16 = 8080;

/// Whom a provider's process runs as, unless its security context says otherwise.
const USER: i64 = 65532;

/// Where the pod finds certificates and credentials.
const TLS_FOLDER: &str = "/etc/virtrigaud/tls";
const CREDENTIALS_FOLDER: &str = "/etc/virtrigaud/credentials";

/// Which credentials a pod was started with: it reads them once, so others take another pod. This is
/// the Secret's version and not its content, which a hash could give away.
const CREDENTIALS_VERSION: &str = "sutler.dev/credentials-version";

/// What one Provider needs on a cluster.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) deployment: Deployment,
    pub(super) service: Service,
    pub(super) policy: NetworkPolicy,
}

/// The port that a provider listens on.
pub(super) fn port(runtime: &ProviderRuntime) -> i32 {
    runtime.service.clone().unwrap_or_default().port
}

/// What a Provider needs. The credentials are the name of a Secret and its version; `from` is the
/// namespace that the control plane runs in.
pub(super) fn wanted(
    provider: &Provider,
    runtime: &ProviderRuntime,
    credentials: Option<(String, String)>,
    from: &str,
) -> Result<Wanted, serde_json::Error> {
    let name = object_name(provider);
    let chosen = json!({"app.kubernetes.io/name": "provider", "app.kubernetes.io/instance": name});
    let mut labels = chosen.clone();
    labels[MANAGED] = json!(MANAGER);
    labels["app.kubernetes.io/component"] = json!(provider.spec.type_.to_string());
    let metadata = json!({
        "name": name, "namespace": provider.namespace(), "labels": labels,
        "ownerReferences": [{
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider",
            "name": provider.name_any(), "uid": provider.uid(),
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    let port = port(runtime);
    let version = credentials.as_ref().map(|(_, version)| version.clone());
    let mut annotations = BTreeMap::new();
    annotations.extend(version.map(|version| (CREDENTIALS_VERSION, version)));
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {
            "replicas": runtime.replicas,
            "selector": {"matchLabels": chosen},
            "template": {
                "metadata": {"labels": labels, "annotations": annotations},
                "spec": pod(provider, runtime, credentials.map(|(name, _)| name)),
            },
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": {
            "type": "ClusterIP", "selector": chosen,
            "ports": [{"name": "grpc", "port": port, "targetPort": "grpc", "protocol": "TCP",
                "appProtocol": "grpc"}],
        },
    });
    // Calls come from the control plane alone. Health and metrics hold no secrets, and where probes
    // come from is the cluster's own matter. What a provider may reach, its platform decides.
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": chosen},
            "policyTypes": ["Ingress"],
            "ingress": [
                {
                    "from": [{"namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": from}}}],
                    "ports": [{"port": port, "protocol": "TCP"}],
                },
                {"ports": [{"port": HEALTH_PORT, "protocol": "TCP"}]},
            ],
        },
    });
    Ok(Wanted {
        deployment: serde_json::from_value(deployment)?,
        service: serde_json::from_value(service)?,
        policy: serde_json::from_value(policy)?,
    })
}

fn pod(provider: &Provider, runtime: &ProviderRuntime, credentials: Option<String>) -> Value {
    let port = port(runtime);
    let tls = runtime.service.as_ref().and_then(|service| service.tls.as_ref());
    let tls_secret = tls.filter(|tls| tls.enabled).and_then(|tls| tls.secret_ref.as_ref());
    let mut volumes = vec![json!({"name": "tmp", "emptyDir": {}})];
    let mut mounts = vec![json!({"name": "tmp", "mountPath": "/tmp"})];
    let secrets = [
        ("tls", TLS_FOLDER, tls_secret.map(|secret| secret.name.clone())),
        ("credentials", CREDENTIALS_FOLDER, credentials),
    ];
    for (name, path, secret) in secrets {
        let Some(secret) = secret else { continue };
        // Nobody else in the pod's node reads them, and the group lets the process in.
        volumes.push(json!({"name": name, "secret": {"secretName": secret, "defaultMode": 0o440}}));
        mounts.push(json!({"name": name, "mountPath": path, "readOnly": true}));
    }
    let probe = |path: &str, seconds: i32| {
        json!({"httpGet": {"path": path, "port": "health"}, "periodSeconds": seconds,
            "timeoutSeconds": 5, "failureThreshold": 3})
    };
    let closed = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
        "runAsUser": USER, "capabilities": {"drop": ["ALL"]},
    });
    let mut container = json!({
        "name": "provider",
        "image": runtime.image,
        "imagePullPolicy": runtime.image_pull_policy,
        "args": [format!("--port={port}"), format!("--health-port={HEALTH_PORT}")],
        "ports": [
            {"name": "grpc", "containerPort": port, "protocol": "TCP"},
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "env": environment(provider, runtime),
        "volumeMounts": mounts,
        "securityContext": runtime.security_context.as_ref().map_or(closed, |context| json!(context)),
        // Upstream's providers answer at this path alone.
        "livenessProbe": runtime.liveness_probe.as_ref()
            .map_or_else(|| probe("/healthz", 10), |probe| json!(probe)),
        "readinessProbe": runtime.readiness_probe.as_ref()
            .map_or_else(|| probe("/healthz", 5), |probe| json!(probe)),
    });
    if let Some(resources) = &runtime.resources {
        container["resources"] = json!(resources);
    }
    let mut pod = json!({
        "automountServiceAccountToken": false,
        // What is under way may end: providers take 25 seconds for that.
        "terminationGracePeriodSeconds": 30,
        "securityContext": {"runAsNonRoot": true, "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": volumes,
    });
    let more = [
        ("imagePullSecrets", json!(runtime.image_pull_secrets)),
        ("nodeSelector", json!(runtime.node_selector)),
        ("tolerations", json!(runtime.tolerations)),
        ("affinity", json!(runtime.affinity)),
    ];
    for (field, value) in more {
        let empty = value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty);
        if !empty {
            pod[field] = value;
        }
    }
    pod
}

/// What upstream's manager tells a pod, and the Provider's own variables, which go before it.
fn environment(provider: &Provider, runtime: &ProviderRuntime) -> Vec<Value> {
    let spec = &provider.spec;
    let defaults = spec.defaults.clone().unwrap_or_default();
    let tls = runtime.service.as_ref().and_then(|service| service.tls.as_ref());
    let encrypted = tls.is_some_and(|tls| tls.enabled);
    let options = spec.options.as_ref().map(|options| Value::Object(options.0.clone()).to_string());
    let said = [
        ("PROVIDER_TYPE", Some(spec.type_.to_string())),
        ("PROVIDER_ENDPOINT", Some(spec.endpoint.clone())),
        ("PROVIDER_NAMESPACE", provider.namespace()),
        ("PROVIDER_NAME", Some(provider.name_any())),
        ("PROVIDER_OPTIONS", options),
        ("TLS_ENABLED", Some(encrypted.to_string())),
        ("TLS_INSECURE_SKIP_VERIFY", Some(spec.insecure_skip_verify.to_string())),
        ("VIRTRIGAUD_PROVIDER_INSECURE", (!encrypted).then(|| "true".to_owned())),
        ("LOG_LEVEL", Some(runtime.log_level.to_string())),
        ("LOG_FORMAT", Some(runtime.log_format.to_string())),
        ("PROVIDER_DEFAULT_DATASTORE", defaults.datastore),
        ("PROVIDER_DEFAULT_STORAGE_POD", defaults.storage_pod),
        ("PROVIDER_DEFAULT_CLUSTER", defaults.cluster),
        ("PROVIDER_DEFAULT_FOLDER", defaults.folder),
        ("PROVIDER_DEFAULT_RESOURCE_POOL", defaults.resource_pool),
        ("PROVIDER_DEFAULT_NETWORK", defaults.network),
        ("PROVIDER_DEFAULT_REGION", defaults.region),
        ("PROVIDER_DEFAULT_ZONE", defaults.zone),
    ];
    let own = |name: &str| runtime.env.iter().any(|variable| variable.name == name);
    let said = said.into_iter().filter(|(name, _)| !own(name));
    said.filter_map(|(name, value)| Some(json!({"name": name, "value": value?})))
        .chain(runtime.env.iter().map(|variable| json!(variable)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(runtime: Value) -> Provider {
        serde_json::from_value(json!({
            "apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "Provider",
            "metadata": {"namespace": "ns", "name": "lab", "uid": "u"},
            "spec": {"type": "acme", "endpoint": "https://acme", "runtime": runtime,
                "options": {"a": 1}, "defaults": {"datastore": "fast", "zone": "z1"},
                "credentialSecretRef": {"name": "login"}},
        }))
        .unwrap()
    }

    fn made(runtime: Value) -> [Value; 3] {
        let provider = provider(runtime);
        let runtime = provider.spec.runtime.as_ref().unwrap();
        let credentials = Some(("login".to_owned(), "7".to_owned()));
        let wanted = wanted(&provider, runtime, credentials, "sutler-system").unwrap();
        [json!(wanted.deployment), json!(wanted.service), json!(wanted.policy)]
    }

    #[test]
    fn every_field_of_the_runtime_reaches_the_pod() {
        let [deployment, service, policy] = made(json!({
            "image": "acme/provider:1", "imagePullPolicy": "Always",
            "imagePullSecrets": [{"name": "pull"}], "replicas": 3,
            "service": {"port": 9999, "tls": {"secretRef": {"name": "certs"}}},
            "resources": {"limits": {"memory": "1Gi"}},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "securityContext": {"runAsUser": 7},
            "env": [{"name": "LOG_LEVEL", "value": "trace"}, {"name": "MORE", "value": "x"}],
            "livenessProbe": {"tcpSocket": {"port": 1}},
            "readinessProbe": {"tcpSocket": {"port": 2}},
            "logFormat": "json",
        }));
        let spec = &deployment["spec"];
        let pod = &spec["template"]["spec"];
        let container = &pod["containers"][0];
        for (found, want) in [
            (&spec["replicas"], json!(3)),
            (&container["image"], json!("acme/provider:1")),
            (&container["imagePullPolicy"], json!("Always")),
            (&container["args"], json!(["--port=9999", "--health-port=8080"])),
            (&container["resources"]["limits"]["memory"], json!("1Gi")),
            (&container["securityContext"], json!({"runAsUser": 7})),
            (&container["livenessProbe"]["tcpSocket"]["port"], json!(1)),
            (&container["readinessProbe"]["tcpSocket"]["port"], json!(2)),
            (&pod["imagePullSecrets"], json!([{"name": "pull"}])),
            (&pod["nodeSelector"], json!({"disk": "ssd"})),
            (&pod["tolerations"], json!([{"key": "k", "operator": "Exists"}])),
            (&pod["affinity"], json!({"nodeAffinity": {}})),
            (&service["spec"]["ports"][0]["port"], json!(9999)),
            (&policy["spec"]["ingress"][0]["ports"][0]["port"], json!(9999)),
            (&spec["selector"]["matchLabels"], service["spec"]["selector"].clone()),
            (&policy["spec"]["podSelector"]["matchLabels"], service["spec"]["selector"].clone()),
        ] {
            assert_eq!(*found, want, "{deployment:#}");
        }
        let variables = container["env"].as_array().unwrap();
        let of = |name: &str| {
            let found: Vec<_> = variables.iter().filter(|v| v["name"] == name).collect();
            assert!(found.len() <= 1, "{name} is there twice");
            found.first().map(|v| v["value"].as_str().unwrap().to_owned())
        };
        for (name, want) in [
            ("PROVIDER_TYPE", Some("acme")),
            ("PROVIDER_ENDPOINT", Some("https://acme")),
            ("PROVIDER_NAMESPACE", Some("ns")),
            ("PROVIDER_NAME", Some("lab")),
            ("PROVIDER_OPTIONS", Some(r#"{"a":1}"#)),
            ("TLS_ENABLED", Some("true")),
            ("VIRTRIGAUD_PROVIDER_INSECURE", None),
            ("LOG_LEVEL", Some("trace")),
            ("LOG_FORMAT", Some("json")),
            ("PROVIDER_DEFAULT_DATASTORE", Some("fast")),
            ("PROVIDER_DEFAULT_ZONE", Some("z1")),
            ("PROVIDER_DEFAULT_FOLDER", None),
            ("MORE", Some("x")),
        ] {
            assert_eq!(of(name).as_deref(), want, "{name}");
        }
        let mounted: BTreeMap<String, String> = container["volumeMounts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| (m["name"].to_string(), m["mountPath"].to_string()))
            .collect();
        assert_eq!(mounted["\"tls\""], "\"/etc/virtrigaud/tls\"");
        assert_eq!(mounted["\"credentials\""], "\"/etc/virtrigaud/credentials\"");
        let volumes = pod["volumes"].as_array().unwrap();
        for (volume, secret) in [("tls", "certs"), ("credentials", "login")] {
            let found = volumes.iter().find(|v| v["name"] == volume).unwrap();
            assert_eq!(found["secret"]["secretName"], secret);
        }
    }

    #[test]
    fn what_is_not_said_is_closed() {
        let [deployment, ..] =
            made(json!({"image": "p:1", "service": {"tls": {"enabled": false}}}));
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        assert_eq!(container["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
        let plain = json!({"name": "VIRTRIGAUD_PROVIDER_INSECURE", "value": "true"});
        assert!(container["env"].as_array().unwrap().contains(&plain));
        assert!(pod["volumes"].as_array().unwrap().iter().all(|v| v["name"] != "tls"));
        assert!(pod.get("nodeSelector").is_none());
    }

    #[test]
    fn other_credentials_take_another_pod() {
        let of = |version: &str| {
            let provider = provider(json!({"image": "p:1"}));
            let runtime = provider.spec.runtime.as_ref().unwrap();
            let credentials = Some(("login".to_owned(), version.to_owned()));
            json!(wanted(&provider, runtime, credentials, "s").unwrap().deployment)["spec"]
                ["template"]
                .clone()
        };
        assert_eq!(of("7"), of("7"));
        assert_ne!(of("7"), of("8"));
    }
}
