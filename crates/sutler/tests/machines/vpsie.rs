//! Nodes on VPSie as upstream's users have them: groups that name no Provider, and one Secret.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use sutler_provider::SystemClock;
use sutler_vpsie::{
    Dialect,
    fake::{Fake, Shape},
};

use crate::{
    lab::{INFRA, Lab, ready},
    nodes::AUTOSCALER,
};

both!(
    a_group_that_names_no_provider_is_on_vpsie_and_keeps_to_credentials_that_work,
    d8_all_records_that_wait_share_one_list_an_interval,
);

const CLUSTER: &str = "c-1";
/// A token that VPSie does not know.
const WRONG: &str = "a-token-that-is-wrong";

fn group() -> Value {
    json!({"apiVersion": AUTOSCALER, "kind": "NodeGroup",
        "metadata": {"name": "web", "labels": {"autoscaler.vpsie.com/managed": "true"}},
        "spec": {"minNodes": 1, "maxNodes": 3, "resourceIdentifier": CLUSTER, "project": "p",
            "datacenterID": "dc-1", "offeringIDs": ["small"], "kubernetesVersion": "v1.34.1",
            "kubeSizeID": 3}})
}

fn data(pairs: &[(&str, &str)]) -> Value {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), json!(STANDARD.encode(value)))).collect()
}

fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let all = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().find(|condition| condition["type"] == type_).unwrap_or(&Value::Null)
}

/// What the condition of this type says.
fn says(type_: &'static str, words: &'static str) -> impl Fn(&Value) -> bool {
    move |object| condition(object, type_)["message"].as_str().unwrap_or_default().contains(words)
}

impl Lab {
    async fn token(&self, token: &str) {
        let patch = Patch::Merge(json!({"data": data(&[("token", token)])}));
        let secrets = self.api("v1", "Secret");
        secrets.patch("vpsie-secret", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn provider_says(&self, type_: &'static str, words: &'static str) -> Value {
        let done = says(type_, words);
        self.until_of(INFRA, "Provider", "vpsie", words, done).await.unwrap_or_default()
    }
}

async fn a_group_that_names_no_provider_is_on_vpsie_and_keeps_to_credentials_that_work(lab: Lab) {
    let shape = Shape { auto: true, ..Shape::new(Dialect::Govpsie) };
    let fake = Fake::start(shape, Arc::new(SystemClock)).await.unwrap();
    fake.add_cluster(CLUSTER, "prod", 1);
    let system = lab.in_namespace("kube-system");
    lab.create(group()).await;
    lab.group_is("web", "without a Secret", says("Error", "kube-system/vpsie-secret")).await;

    // Credentials that never worked.
    system
        .create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vpsie-secret"},
            "data": data(&[("token", WRONG), ("url", &fake.endpoint())])}))
        .await;
    let known = |provider: &Value| ready(provider)["reason"] == "Denied";
    let denied = system.until_of(INFRA, "Provider", "vpsie", "denied", known).await.unwrap();
    assert!(!denied.to_string().contains(WRONG), "no secret is ever said: {denied}");
    let quick =
        json!({"spec": {"discovery": {"interval": "1s"}, "healthCheck": {"interval": "1s"}}});
    system.patch_of("Provider", "vpsie", quick).await.unwrap();

    // The right ones, and a node.
    system.token("fake-static-token").await;
    let (record, address) = lab.provisioned("web-0001").await;
    assert!(record["spec"]["vpsieInstanceID"].as_i64().unwrap() > 0, "{record:#}");
    lab.join("one", &address, json!({})).await;
    lab.node_record("web-0001", "ready", |node| node["status"]["phase"] == "Ready").await;

    // A rotation that goes wrong ends nothing that works.
    system.token("another-that-is-wrong").await;
    let kept = system.provider_says("CredentialsValid", "the old credentials stay in use").await;
    assert_eq!(ready(&kept)["status"], "True", "{kept:#}");
    lab.resize("web", 2).await;
    let (_, address) = lab.provisioned("web-0002").await;
    lab.join("two", &address, json!({})).await;
    lab.group_is("web", "two nodes", |group| group["status"]["readyNodes"] == 2).await;

    // One that goes well is taken over.
    system.token("fake-static-token").await;
    let healed = |provider: &Value| condition(provider, "CredentialsValid").is_null();
    system.until_of(INFRA, "Provider", "vpsie", "healed", healed).await.unwrap();

    // Nothing is left there. The records stay for as long as a second effect of a request may come.
    lab.drop_group("web").await;
    for name in ["web-0001", "web-0002"] {
        let gone = says("Reconciling", "its absence is confirmed");
        lab.until_of(INFRA, "VirtualMachine", name, "gone there", gone).await.unwrap();
    }
    let workers = fake.nodes(CLUSTER).into_iter().filter(|node| !node.master).count();
    assert_eq!(workers, 0, "{:#?}", fake.nodes(CLUSTER));
}

async fn d8_all_records_that_wait_share_one_list_an_interval(lab: Lab) {
    const RECORDS: u32 = 12;
    const INTERVAL: Duration = Duration::from_secs(1);
    // Nothing that is asked for ever shows up.
    let shape = Shape { auto: false, ..Shape::new(Dialect::Govpsie) };
    let fake = Fake::start(shape, Arc::new(SystemClock)).await.unwrap();
    fake.add_cluster(CLUSTER, "prod", 1);
    fake.add_group(CLUSTER, "many", 3);
    lab.create(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vpsie"},
        "data": data(&[("token", "fake-static-token")])}))
        .await;
    lab.create(json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "vpsie"},
        "spec": {"type": "vpsie", "endpoint": fake.endpoint(), "naming": "Exact",
            "credentialSecretRef": {"name": "vpsie"}, "discovery": {"interval": "1s"},
            "rateLimit": {"qps": 1000, "burst": 1000}}}))
        .await;
    let mut many = group();
    many["metadata"]["name"] = json!("many");
    many["spec"]["minNodes"] = json!(RECORDS);
    many["spec"]["maxNodes"] = json!(RECORDS);
    many["spec"]["providerRef"] = json!({"name": "vpsie"});
    lab.create(many).await;
    for number in 1..=RECORDS {
        let waits = |vm: &Value| ready(vm)["reason"] == "Discovering";
        let name = format!("many-{number:04}");
        lab.until_of(INFRA, "VirtualMachine", &name, "looked for", waits).await.unwrap();
    }
    // A list asks for the nodes of each cluster once.
    let lists = || fake.count("GET", &format!("/k8s/cluster/byId/{CLUSTER}"));
    let (before, begun) = (lists(), Instant::now());
    while lists() < before + 6 {
        let so_far = fake.requests().len();
        fake.settled(so_far + 1).await;
    }
    // Five whole intervals lie between the first of these and the last.
    assert!(begun.elapsed() >= 5 * INTERVAL - INTERVAL / 2, "{:?}", begun.elapsed());
    assert_eq!(fake.count("POST", "/add/slave/group/"), RECORDS as usize, "each asked once");
}
