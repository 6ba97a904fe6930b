//! Placement policies: machines go where they must, and say which rule leaves them no place.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::lab::{INFRA, Lab, is_ready, ready};

both!(
    machines_that_keep_apart_are_made_together,
    a_policy_that_cannot_be_met_names_the_rule,
    soft_rules_are_kept_where_they_can_be,
    a_provider_that_tells_no_hosts_cannot_place,
);

fn hosts() -> Value {
    let host = |name: &str, zone: &str| {
        json!({"name": name, "cpu": 8, "memoryMib": 16384,
        "zone": zone, "datastores": ["shared"]})
    };
    json!({"hosts": [host("a1", "a"), host("a2", "a"), host("b1", "b")]})
}

impl Lab {
    async fn policy(&self, name: &str, spec: Value) {
        self.create(json!({"apiVersion": INFRA, "kind": "VMPlacementPolicy",
            "metadata": {"name": name}, "spec": spec}))
            .await;
    }

    /// Where the platform has its machines, by the name of their records.
    fn hosts(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let machines = self.platform().into_values();
        machines
            .map(|machine| (text(&machine["machine"]["name"]), text(&machine["machine"]["host"])))
            .collect()
    }
}

async fn machines_that_keep_apart_are_made_together(lab: Lab) {
    // Making takes a while, so that all decisions are made before anything shows.
    let mut options = hosts();
    options["work"] = json!({"create": "1s"});
    lab.furnish(options).await;
    lab.policy("apart", json!({"antiAffinity": {"hostAntiAffinity": {"enabled": true}}})).await;
    let spec = || json!({"placementRef": {"name": "apart"}});
    futures::future::join_all(["one", "two", "three"].map(|name| lab.record(name, spec()))).await;
    for name in ["one", "two", "three"] {
        lab.until(name, "ready", is_ready).await;
    }
    let mut used: Vec<String> = lab.hosts().into_values().collect();
    used.sort();
    assert_eq!(used, ["a1", "a2", "b1"]);

    // A fourth has no place until one of them goes.
    lab.record("four", spec()).await;
    let unmet = |vm: &Value| ready(vm)["reason"] == "PlacementNotMet";
    let vm = lab.until("four", "refused", unmet).await;
    let message = ready(&vm)["message"].as_str().unwrap();
    assert!(message.contains("spec.antiAffinity.hostAntiAffinity"), "{message}");
    assert!(vm["status"]["waiting"]["nextAttempt"].is_string(), "{vm:#}");
    assert_eq!(lab.platform().len(), 3);
    lab.delete("two").await;
    lab.until("four", "ready", is_ready).await;
    lab.until_gone("two").await;
    let mut used: Vec<String> = lab.hosts().into_values().collect();
    used.sort();
    assert_eq!(used, ["a1", "a2", "b1"]);

    let placed = |policy: &Value| {
        let stats = &policy["status"]["placementStats"];
        is_ready(policy) && stats["successfulPlacements"] == 3 && stats["failedPlacements"] == 0
    };
    let policy = lab.until_of(INFRA, "VMPlacementPolicy", "apart", "told", placed).await.unwrap();
    let distribution = json!({"a1": 1, "a2": 1, "b1": 1});
    assert_eq!(policy["status"]["placementStats"]["placementDistribution"], distribution);
}

async fn a_policy_that_cannot_be_met_names_the_rule(lab: Lab) {
    lab.furnish(hosts()).await;
    for (name, spec, rule) in [
        ("nowhere", json!({"hard": {"zones": ["c"]}}), "spec.hard.zones"),
        (
            "large",
            json!({"resourceConstraints": {"minMemoryPerHost": "1Ti"}}),
            "spec.resourceConstraints.minMemoryPerHost",
        ),
    ] {
        lab.policy(name, spec).await;
        lab.record(name, json!({"placementRef": {"name": name}})).await;
        let unmet = |vm: &Value| ready(vm)["reason"] == "PlacementNotMet";
        let vm = lab.until(name, "refused", unmet).await;
        let message = ready(&vm)["message"].as_str().unwrap();
        assert!(message.contains(rule), "{message}");
    }
    assert!(lab.platform().is_empty());
    // A policy that is mended places what waits for it.
    lab.patch_of("VMPlacementPolicy", "nowhere", json!({"spec": {"hard": {"zones": ["b"]}}}))
        .await
        .unwrap();
    lab.until("nowhere", "ready", is_ready).await;
    assert_eq!(lab.only()["machine"]["host"], "b1");
}

async fn soft_rules_are_kept_where_they_can_be(lab: Lab) {
    lab.furnish(hosts()).await;
    lab.policy("near", json!({"soft": {"zones": ["b"]}})).await;
    lab.policy("dream", json!({"soft": {"zones": ["c"]}, "hard": {"excludedHosts": ["a1"]}})).await;
    let vm = lab.ready("near", json!({"placementRef": {"name": "near"}})).await;
    assert_eq!(vm["status"]["host"], "b1", "{vm:#}");
    let vm = lab.ready("dream", json!({"placementRef": {"name": "dream"}})).await;
    assert_ne!(vm["status"]["host"], "a1", "{vm:#}");
}

async fn a_provider_that_tells_no_hosts_cannot_place(lab: Lab) {
    lab.furnish(json!({"without": ["hosts"]})).await;
    lab.policy("any", json!({"hard": {"hosts": ["sim-1"]}})).await;
    lab.record("web", json!({"placementRef": {"name": "any"}})).await;
    let unsupported = |vm: &Value| ready(vm)["reason"] == "Unsupported";
    let vm = lab.until("web", "refused", unsupported).await;
    assert!(ready(&vm)["message"].as_str().unwrap().contains("spec.placementRef"), "{vm:#}");
    assert!(lab.platform().is_empty());
}
