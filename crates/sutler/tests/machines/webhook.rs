//! What leads a real API server to the checks: behind a Service, with certificates that are replaced, and
//! while nobody answers.

use std::{net::TcpListener, path::Path, sync::Arc, time::Duration};

use k8s_openapi::api::{
    admissionregistration::v1::ValidatingWebhookConfiguration,
    core::v1::{Namespace, Node, Secret, Service},
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    runtime::wait::await_condition,
};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use serde_json::json;
use sutler_parity::peer;
use tokio_rustls::{TlsConnector, rustls};

use crate::{lab, nodes::AUTOSCALER, server};

const NAME: &str = "sutler-admission";
const HOST: &str = "sutler.sutler-system.svc";
const SYSTEM: &str = "sutler-system";
const PATIENCE: Duration = Duration::from_secs(100);

/// A real API server, and somebody who is not Sutler.
struct Bench {
    admin: Client,
    jane: Client,
}

impl Bench {
    async fn connect(kubeconfig: &Path) -> Self {
        let file = Kubeconfig::read_from(kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = kube::Config::from_custom_kubeconfig(file, &options).await.unwrap();
        let admin = Client::try_from(config.clone()).unwrap();
        config.auth_info.impersonate = Some("jane".to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        Self { admin, jane: Client::try_from(config).unwrap() }
    }

    /// What the API server says to a group that nobody can carry out.
    async fn try_bad(&self, name: &str, dry_run: bool) -> Result<(), String> {
        let group = json!({"apiVersion": AUTOSCALER, "kind": "NodeGroup",
            "metadata": {"name": name, "labels": {"autoscaler.vpsie.com/managed": "true"}},
            "spec": {"minNodes": 0, "maxNodes": 10, "providerRef": {"name": "sim"},
                "classRef": {"name": "small"}, "imageRef": {"name": "debian"},
                "labels": {"a b": ""}}});
        let group: DynamicObject = serde_json::from_value(group).unwrap();
        let groups = lab::api(&self.jane, AUTOSCALER, "NodeGroup", "default");
        let params = PostParams { dry_run, ..PostParams::default() };
        groups.create(&params, &group).await.map(drop).map_err(|error| error.to_string())
    }

    /// Tries until somebody is asked, or nobody any more.
    async fn until_bad_is(&self, refused: bool) {
        let tries = async { while self.try_bad("tried", true).await.is_err() != refused {} };
        let waited = tokio::time::timeout(PATIENCE, tries).await;
        assert!(waited.is_ok(), "refused: {}", !refused);
    }

    fn configurations(&self) -> Api<ValidatingWebhookConfiguration> {
        Api::all(self.admin.clone())
    }
}

/// The certificates that the API server knows the webhook by, in the order in which they are written.
fn bundle(object: &ValidatingWebhookConfiguration) -> String {
    let webhooks = object.webhooks.clone().unwrap_or_default();
    let bundle = webhooks[0].client_config.ca_bundle.clone().unwrap_or_default();
    String::from_utf8(bundle.0).unwrap()
}

/// Whether what listens there shows a certificate that the first authority of these has signed.
async fn shows(port: u16, bundle: &str) -> bool {
    let mut roots = rustls::RootCertStore::empty();
    let first = CertificateDer::pem_slice_iter(bundle.as_bytes()).next().unwrap().unwrap();
    roots.add(first).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let name = ServerName::try_from(HOST).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn behind_a_service_with_other_certificates_and_while_nobody_answers() {
    let Some(peer) = tokio::task::spawn_blocking(peer::alone).await.unwrap() else { return };
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = server::kubeconfig_of(&peer, folder.path());
    let bench = Bench::connect(&kubeconfig).await;
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Nothing routes to the addresses of Services here: this one leads to a name that everybody knows.
    let namespaces: Api<Namespace> = Api::all(bench.admin.clone());
    let system = serde_json::from_value(json!({"metadata": {"name": SYSTEM}})).unwrap();
    namespaces.create(&PostParams::default(), &system).await.unwrap();
    let services: Api<Service> = Api::namespaced(bench.admin.clone(), SYSTEM);
    let service = json!({"metadata": {"name": "sutler"}, "spec": {"type": "ExternalName",
        "externalName": "localhost", "ports": [{"port": port}]}});
    let service = serde_json::from_value(service).unwrap();
    services.create(&PostParams::default(), &service).await.unwrap();
    let start = || {
        let kubeconfig = kubeconfig.clone();
        let (listen, url) = (format!("127.0.0.1:{port}"), format!("https://{HOST}:{port}"));
        tokio::task::spawn_blocking(move || {
            let words =
                ["--admission", &listen, "--admission-url", &url, "--admission-upkeep", "1s"];
            server::asked(&kubeconfig, &words)
        })
    };
    let sutler = start().await.unwrap();
    bench.until_bad_is(true).await;
    let said = bench.try_bad("said", true).await.unwrap_err();
    assert!(said.contains("spec.labels[a b]"), "{said}");
    let before = bench.configurations().get(NAME).await.unwrap();
    let service = before.webhooks.as_ref().unwrap()[0].client_config.service.clone().unwrap();
    assert_eq!((service.name.as_str(), service.namespace.as_str()), ("sutler", SYSTEM));

    // Its authority ends soon: it has another, and nobody is let through meanwhile.
    let soon =
        json!({"metadata": {"annotations": {"sutler.dev/good-until": "2020-01-01T00:00:00Z"}}});
    let secrets: Api<Secret> = Api::namespaced(bench.admin.clone(), SYSTEM);
    secrets.patch(NAME, &PatchParams::default(), &Patch::Merge(soon)).await.unwrap();
    let old = bundle(&before);
    let other = |object: Option<&ValidatingWebhookConfiguration>| {
        object.is_some_and(|object| bundle(object) != old)
    };
    let renewed = await_condition(bench.configurations(), NAME, other);
    let renewed = tokio::time::timeout(PATIENCE, renewed).await.unwrap().unwrap().unwrap();
    let new = bundle(&renewed);
    assert!(new.ends_with(&old), "what the old one signed is still known");
    let shown = async {
        while !shows(port, &new).await {
            bench.try_bad("let-through", true).await.unwrap_err();
        }
    };
    tokio::time::timeout(PATIENCE, shown).await.unwrap();
    for _ in 0..5 {
        bench.try_bad("let-through", true).await.unwrap_err();
    }

    // While nobody answers, writes go on, and broken nodes can be removed.
    drop(sutler);
    bench.until_bad_is(false).await;
    bench.try_bad("slipped-in", false).await.unwrap();
    let nodes: Api<Node> = Api::all(bench.jane.clone());
    let labels = json!({"autoscaler.vpsie.com/vpsienode": "web-0001"});
    let node = json!({"metadata": {"name": "broken", "labels": labels}, "spec": {}});
    let node: Node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
    nodes.delete("broken", &DeleteParams::default()).await.unwrap();

    // Whoever comes back says what slipped in, and is asked again.
    let _sutler = start().await.unwrap();
    let told = |object: Option<&DynamicObject>| {
        let object = object.map(|object| serde_json::to_value(object).unwrap()).unwrap_or_default();
        let ready = lab::ready(&object);
        ready["reason"] == "Invalid"
            && ready["message"].as_str().unwrap_or_default().contains("spec.labels[a b]")
    };
    let groups = lab::api(&bench.admin, AUTOSCALER, "NodeGroup", "default");
    let told = await_condition(groups, "slipped-in", told);
    tokio::time::timeout(PATIENCE, told).await.unwrap().unwrap();
    bench.until_bad_is(true).await;
}
