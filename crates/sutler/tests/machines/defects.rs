//! What the vendor's autoscaler does wrong, by the number of each defect, and that it is not so here, where
//! nothing less than a whole server shows it; and criteria of discovery that need one.

use std::{path::Path, time::Duration};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Namespace, Node},
};
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

use crate::{
    lab::{self, INFRA, Lab, ready},
    remote::condition,
    scaling::{group, has, set},
    server,
};

const AUTOSCALER: &str = "autoscaler.vpsie.com/v1alpha1";
const REMOVING: &str = "autoscaler.vpsie.com/removing";
/// Who holds it leads.
const LEASE: &str = "sutler-controllers";
/// Somebody who leads and does nothing.
const ELSEWHERE: &str = "elsewhere";

both!(
    d7_a_list_that_hangs_is_cut_off_and_the_record_says_so,
    e1_errors_of_a_platform_are_logged_with_record_provider_and_call,
);

played!(
    defect_14_defaults_of_new_groups_leave_those_alone_that_are_there,
    defect_15_defect_23_a_drain_that_is_given_up_leaves_everything_as_it_was,
    defect_17_a_drain_that_is_held_up_holds_up_no_other_group,
    defect_22_the_server_lives_while_a_platform_is_down,
);

/// Pods for nodes of one pool, of which each takes one.
fn pods_for(pool: &str) -> Value {
    let mut set = set(pool, 1, "600m");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"pool": pool});
    set
}

impl Lab {
    /// Lets no pod of these go.
    async fn hold(&self, app: &str, pods: u32) {
        self.create(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": app},
            "spec": {"minAvailable": pods, "selector": {"matchLabels": {"app": app}}}}))
            .await;
        let counted = |budget: &Value| budget["status"]["currentHealthy"] == pods;
        self.until_of("policy/v1", "PodDisruptionBudget", app, "counted", counted).await;
    }

    /// Makes a group smaller by this record.
    async fn send_away(&self, group: &str, record: &str, left: u32) {
        let names = json!([record]).to_string();
        let smaller = json!({"metadata": {"annotations": {REMOVING: names}},
            "spec": {"desiredNodes": left}});
        self.change(AUTOSCALER, "NodeGroup", group, smaller).await;
    }

    /// Has somebody lead who does nothing.
    async fn lead_from_elsewhere(&self, leases: &Api<Lease>) {
        let namespace = json!({"metadata": {"name": "sutler-system"}});
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(namespace).unwrap();
        // It may be there already.
        drop(namespaces.create(&PostParams::default(), &namespace).await);
        let lease = json!({"metadata": {"name": LEASE},
            "spec": {"holderIdentity": ELSEWHERE, "leaseDurationSeconds": 15}});
        let lease = serde_json::from_value(lease).unwrap();
        leases.create(&PostParams::default(), &lease).await.unwrap();
    }

    /// Waits until a node takes pods, or no longer does.
    async fn node_is_open(&self, name: &str, open: bool) -> Node {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let is = |node: Option<&Node>| {
            let closed = node.and_then(|node| node.spec.as_ref()?.unschedulable);
            node.is_some() && closed.unwrap_or(false) != open
        };
        let waited = await_condition(nodes.clone(), name, is);
        match tokio::time::timeout(Duration::from_secs(100), waited).await {
            Ok(node) => node.unwrap().unwrap(),
            Err(_) => panic!("{name}: {:#?}\n{}", nodes.get_opt(name).await, self.log()),
        }
    }
}

async fn d7_a_list_that_hangs_is_cut_off_and_the_record_says_so(lab: Lab) {
    // It tells no IDs, and its lists are so old that the machine is looked for for a while.
    lab.furnish(json!({"uniqueBy": "None", "token": false, "returnsId": false, "tasks": false,
        "without": ["events"], "listLag": "20s", "deadlines": {"look": "1s", "list": "1s"}}))
        .await;
    let often = json!({"spec": {"discovery": {"interval": "1s"}}});
    lab.patch_of("Provider", "sim", often).await.unwrap();
    lab.record("web", json!({})).await;
    lab.until("web", "looked for", |vm| ready(vm)["reason"] == "Discovering").await;
    let outage = json!({"chance": 1.0, "lasts": "1h", "hang": true});
    let hangs = json!({"spec": {"options": {"faults": {"outage": outage}}}});
    lab.patch_of("Provider", "sim", hangs).await.unwrap();
    let vm = lab
        .until("web", "told of it", |vm| {
            let message = ready(vm)["message"].as_str().unwrap_or_default();
            message.contains("the last look at the platform failed")
        })
        .await;
    assert_eq!(ready(&vm)["reason"], "Discovering", "{vm:#}");
    let message = ready(&vm)["message"].as_str().unwrap();
    assert!(message.contains("not answered in time"), "{message}");
}

async fn e1_errors_of_a_platform_are_logged_with_record_provider_and_call(lab: Lab) {
    lab.furnish(json!({})).await;
    // Its image is there from now on.
    lab.ready("first", json!({})).await;
    let down = json!({"spec": {"options": {"faults": {"refuse": 1.0}}}});
    lab.patch_of("Provider", "sim", down).await.unwrap();
    let unwell = |provider: &Value| ready(provider)["status"] == "False";
    lab.until_of(INFRA, "Provider", "sim", "not ready", unwell).await;
    lab.record("web", json!({})).await;
    lab.until("web", "refused", |vm| ready(vm)["reason"] == "Unavailable").await;
    let (record, provider) =
        (format!("record={}/web", lab.namespace), format!("provider={}/sim", lab.namespace));
    let log = lab.log();
    for context in [
        vec!["WARN", "call=\"create\"", "error=", &record, &provider],
        vec!["WARN", "call=\"validate\"", "error=", &provider],
    ] {
        let told = |line: &str| context.iter().all(|part| line.contains(part));
        assert!(log.lines().any(told), "{context:?} is not in\n{log}");
    }
}

async fn defect_14_defaults_of_new_groups_leave_those_alone_that_are_there(lab: Lab) {
    lab.played(json!({}), json!({})).await;
    lab.create(group("workers", 0, json!({}))).await;
    lab.grown("workers", "there", has(0)).await;
    let defaults = json!({"minNodes": 2, "maxNodes": 3, "labels": {"made": "auto"}});
    let body = Patch::Merge(json!({"spec": {"nodeGroupDefaults": defaults}}));
    let config = lab.configs().patch("default", &PatchParams::default(), &body).await.unwrap();
    let generation = config.metadata.generation;
    let told = |config: Option<&DynamicObject>| {
        config
            .is_some_and(|config| config.data["status"]["observedGeneration"] == json!(generation))
    };
    await_condition(lab.configs(), "default", told).await.unwrap();
    // It grows as far as it may itself, for pods that ask for no labels.
    lab.create(set("web", 5, "600m")).await;
    lab.serving("web", 5).await;
    let workers = lab.grown("workers", "as large as needed", has(5)).await;
    assert_eq!(
        (&workers["spec"]["minNodes"], &workers["spec"]["maxNodes"]),
        (&json!(0), &json!(5))
    );
    assert!(workers["spec"]["labels"]["made"].is_null(), "{workers:#}");
    assert_eq!(lab.all(AUTOSCALER, "NodeGroup").await.len(), 1);
}

async fn defect_15_defect_23_a_drain_that_is_given_up_leaves_everything_as_it_was(lab: Lab) {
    lab.played(json!({}), json!({"podEvictionTimeoutSeconds": 1})).await;
    lab.create(group("workers", 0, json!({"scaleDownPolicy": {"enabled": false}}))).await;
    lab.create(set("web", 2, "600m")).await;
    lab.serving("web", 2).await;
    lab.grown("workers", "as large as needed", has(2)).await;
    lab.hold("web", 2).await;
    lab.send_away("workers", "workers-0002", 1).await;
    lab.node_is_open("workers-0002", false).await;
    let node = lab.node_is_open("workers-0002", true).await;
    let notes = node.metadata.annotations.unwrap_or_default();
    assert!(!notes.keys().any(|key| key.contains("drain")), "{notes:?}");
    let as_it_was = |group: &Value| {
        has(2)(group)
            && group["spec"]["desiredNodes"] == 2
            && group["metadata"]["annotations"][REMOVING].is_null()
            && condition(group, "Scaling")["status"] == "False"
    };
    lab.grown("workers", "as it was", as_it_was).await;
    let well = |record: &Value| record["status"]["reason"] == "Ready";
    lab.until_of(AUTOSCALER, "VPSieNode", "workers-0002", "as it was", well).await;
    assert_eq!(lab.all(INFRA, "VirtualMachine").await.len(), 2);
}

async fn defect_17_a_drain_that_is_held_up_holds_up_no_other_group(lab: Lab) {
    lab.played(json!({}), json!({"podEvictionTimeoutSeconds": 3600})).await;
    for pool in ["held", "free"] {
        lab.create(group(pool, 0, json!({"labels": {"pool": pool}}))).await;
    }
    lab.create(pods_for("held")).await;
    lab.serving("held", 1).await;
    lab.grown("held", "as large as needed", has(1)).await;
    lab.hold("held", 1).await;
    lab.send_away("held", "held-0001", 0).await;
    let stuck = |record: &Value| {
        record["status"]["phase"] == "Terminating" && record["status"]["reason"] == "DrainFailed"
    };
    lab.until_of(AUTOSCALER, "VPSieNode", "held-0001", "held up", stuck).await;
    lab.create(pods_for("free")).await;
    lab.serving("free", 1).await;
    lab.grown("free", "grown", has(1)).await;
    let record = lab.api(AUTOSCALER, "VPSieNode").get("held-0001").await.unwrap();
    assert!(stuck(&serde_json::to_value(record).unwrap()));
}

async fn defect_22_the_server_lives_while_a_platform_is_down(lab: Lab) {
    // Nobody listens there.
    lab.create(json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "down"},
        "spec": {"type": "acme", "endpoint": "https://acme.test", "runtime": {"mode": "Remote",
            "endpoint": "127.0.0.1:1", "service": {"tls": {"enabled": false}}},
            "healthCheck": {"interval": "1s", "failureThreshold": 1}}}))
        .await;
    let down = |provider: &Value| ready(provider)["status"] == "False";
    lab.until_of(INFRA, "Provider", "down", "told of it", down).await;
    lab.record("web", json!({"providerRef": {"name": "down"}})).await;
    lab.until("web", "held up", |vm| ready(vm)["status"] == "False").await;
    for path in ["/livez", "/readyz", "/healthz"] {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        assert_eq!(lab.client.request_text(request).await.unwrap(), "ok", "{path}");
    }
}

/// Whether a process has a simulated hypervisor of its own: only who is connected to a platform does.
fn is_connected(sims: &Path) -> bool {
    std::fs::read_dir(sims).is_ok_and(|mut found| found.next().is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn defect_21_who_does_not_lead_does_nothing() {
    let start = |kubeconfig: &Path| {
        let kubeconfig = kubeconfig.to_owned();
        tokio::task::spawn_blocking(move || server::controllers(&kubeconfig))
    };
    let api = tokio::task::spawn_blocking(server::api_only).await.unwrap();
    lab::run_alone(api, |lab| async move {
        let leases: Api<Lease> = Api::namespaced(lab.client.clone(), "sutler-system");
        // Somebody else leads, who never says so again: after a while the first takes his place.
        lab.lead_from_elsewhere(&leases).await;
        lab.create(group("workers", 0, json!({}))).await;
        let first = start(&api.kubeconfig).await.unwrap();
        let leads = |lease: Option<&Lease>| {
            let holder = lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.as_deref());
            holder.is_some_and(|holder| holder != ELSEWHERE)
        };
        let touched = |group: &Value| !group["metadata"]["finalizers"].is_null();
        let (led, group) = tokio::join!(
            await_condition(leases.clone(), LEASE, leads),
            lab.until_of(AUTOSCALER, "NodeGroup", "workers", "looked after", touched),
        );
        let version = |of: Option<&str>| of.unwrap().parse::<u64>().unwrap();
        let led = version(led.unwrap().unwrap().metadata.resource_version.as_deref());
        let group = version(group.unwrap()["metadata"]["resourceVersion"].as_str());
        assert!(led < group, "the group was touched at {group}, and nobody led before {led}");
        let leader = async |not: Option<String>| {
            let holder = |lease: &Lease| lease.spec.clone().unwrap_or_default().holder_identity;
            let other = |lease: Option<&Lease>| {
                let holder = lease.and_then(holder).filter(|holder| !holder.is_empty());
                holder.is_some() && holder != not
            };
            let lease = await_condition(leases.clone(), LEASE, other).await;
            lease.unwrap().and_then(|lease| holder(&lease))
        };
        let before = leader(None).await;
        let second = start(&api.kubeconfig).await.unwrap();
        lab.furnish(json!({})).await;
        lab.ready("web", json!({})).await;
        assert!(is_connected(&first.sims) && !is_connected(&second.sims));
        // The first one goes, and the other one does its work.
        drop(first);
        leader(before).await;
        lab.ready("next", json!({})).await;
        assert!(is_connected(&second.sims));
    })
    .await;
}
