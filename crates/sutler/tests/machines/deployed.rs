//! Providers without an endpoint: deployed on a cluster, and told what is missing elsewhere.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    lab::{INFRA, Lab, ready, run},
    remote::condition,
    server::Form,
    wire::{Authority, secret_data},
};

fn provider(image: &str, replicas: i32) -> Value {
    json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "acme"},
        "spec": {"type": "acme", "endpoint": "https://acme.test",
            "credentialSecretRef": {"name": "login"},
            "runtime": {"mode": "Remote", "image": image, "replicas": replicas,
                "service": {"tls": {"secretRef": {"name": "certs"}}},
                "env": [{"name": "MORE", "value": "yes"}],
                "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "k", "operator": "Exists"}],
                "resources": {"limits": {"memory": "256Mi"}},
                "livenessProbe": {"tcpSocket": {"port": 9443}}}}})
}

async fn secrets(lab: &Lab) {
    let certs = secret_data(&Authority::new().issue("manager.test", 9));
    for (name, data) in [("certs", certs), ("login", json!({"token": "c2VjcmV0"}))] {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "data": data});
        lab.create(object).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn without_a_cluster_a_provider_says_what_is_missing() {
    run(Form::Embedded, async |lab: Lab| {
        secrets(&lab).await;
        lab.create(provider("acme/provider:1", 1)).await;
        let told = |object: &Value| ready(object)["status"] == "False";
        let found = lab.until_of(INFRA, "Provider", "acme", "told of", told).await.unwrap();
        assert_eq!(ready(&found)["reason"], "EndpointMissing", "{found:#}");
        let message = ready(&found)["message"].as_str().unwrap();
        for word in ["spec.runtime.endpoint", "host:port", "--cluster"] {
            assert!(message.contains(word), "{message}");
        }
        assert_eq!(found["status"]["runtime"]["phase"], "Failed");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn on_a_cluster_it_is_deployed_changed_and_removed() {
    run(Form::Cluster, deployed).await;
}

async fn deployed(lab: Lab) {
    secrets(&lab).await;
    lab.create(provider("acme/provider:1", 2)).await;
    let name = format!("virtrigaud-provider-{}-acme", lab.namespace);
    let pending = |object: &Value| object["status"]["runtime"]["phase"] == "Pending";
    let found = lab.until_of(INFRA, "Provider", "acme", "deployed", pending).await.unwrap();
    assert_eq!(condition(&found, "TLSConfigured")["reason"], "Enabled", "{found:#}");
    assert_eq!(condition(&found, "ProviderRuntimeReady")["status"], "False");
    assert_eq!(found["status"]["runtime"]["serviceRef"]["name"], name.as_str());
    let endpoint = format!("{name}.{}.svc.cluster.local:9443", lab.namespace);
    assert_eq!(found["status"]["runtime"]["endpoint"], endpoint.as_str());

    // The API server itself took every field.
    let (deployments, services, policies) = (
        lab.api("apps/v1", "Deployment"),
        lab.api("v1", "Service"),
        lab.api("networking.k8s.io/v1", "NetworkPolicy"),
    );
    let deployment = deployments.get(&name).await.unwrap();
    let deployment = serde_json::to_value(deployment).unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(container["image"], "acme/provider:1");
    assert_eq!(container["resources"]["limits"]["memory"], "256Mi");
    assert_eq!(container["livenessProbe"]["tcpSocket"]["port"], 9443);
    assert_eq!(pod["nodeSelector"]["disk"], "ssd");
    assert!(!deployment.to_string().contains("c2VjcmV0"), "no secret is in it");
    services.get(&name).await.unwrap();
    policies.get(&name).await.unwrap();

    // What a kubelet would tell is told on.
    let status = json!({"status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1,
        "availableReplicas": 1}});
    deployments.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let running = |object: &Value| object["status"]["runtime"]["phase"] == "Running";
    let found = lab.until_of(INFRA, "Provider", "acme", "running", running).await.unwrap();
    assert_eq!(found["status"]["runtime"]["readyReplicas"], 1, "{found:#}");
    assert_eq!(condition(&found, "ProviderRuntimeReady")["status"], "True");

    // A change of the Provider, and one by hand that is put back.
    let change = json!({"spec": {"runtime": {"image": "acme/provider:2"}}});
    lab.patch_of("Provider", "acme", change).await.unwrap();
    let image = "/spec/template/spec/containers/0/image";
    let new = |object: &Value| {
        object.pointer("/spec/template/spec/containers/0/image") == Some(&json!("acme/provider:2"))
    };
    lab.until_of("apps/v1", "Deployment", &name, "changed", new).await;
    let by_hand = json!([{"op": "replace", "path": image, "value": "evil:1"}]);
    let by_hand: Patch<()> = Patch::Json(serde_json::from_value(by_hand).unwrap());
    deployments.patch(&name, &PatchParams::default(), &by_hand).await.unwrap();
    lab.until_of("apps/v1", "Deployment", &name, "put back", new).await;

    // Reached elsewhere, it is not deployed any more.
    let change = json!({"spec": {"runtime": {"endpoint": "127.0.0.1:1"}}});
    lab.patch_of("Provider", "acme", change).await.unwrap();
    for (version, kind) in
        [("apps/v1", "Deployment"), ("v1", "Service"), ("networking.k8s.io/v1", "NetworkPolicy")]
    {
        lab.until_of(version, kind, &name, "gone", Value::is_null).await;
    }
    lab.api(INFRA, "Provider").delete("acme", &DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "Provider", "acme", "gone", Value::is_null).await;
}
