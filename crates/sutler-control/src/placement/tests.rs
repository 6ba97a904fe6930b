//! Single rules, and many machines under many policies: what must hold always does.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use sutler_api::infra::VMPlacementPolicySpec;
use sutler_provider::Host;

use super::{
    decide::{Placed, Subject, Surroundings, Unmet, decide},
    rules::keeps_away,
    terms::Neighbour,
};

fn policy(value: Value) -> VMPlacementPolicySpec {
    serde_json::from_value(value).unwrap()
}

fn host(name: &str, zone: &str) -> Host {
    Host {
        name: name.to_owned(),
        online: true,
        cpu: 8,
        memory_mib: 8192,
        zone: Some(zone.to_owned()),
        cluster: Some(format!("c-{zone}")),
        datastores: vec![format!("fast-{zone}"), "shared".to_owned()],
        labels: BTreeMap::from([("disk".to_owned(), format!("ssd-{zone}"))]),
        features: vec!["tpm".to_owned()],
        ..Host::default()
    }
}

fn around(neighbours: Vec<Neighbour>) -> Surroundings {
    let hosts = vec![host("a1", "a"), host("a2", "a"), host("b1", "b")];
    Surroundings { hosts, neighbours, promised: BTreeMap::new() }
}

fn labels(app: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), app.to_owned())])
}

fn subject(app: &str) -> Subject {
    Subject {
        namespace: "ns".to_owned(),
        labels: labels(app),
        cpu: 1,
        memory_mib: 1024,
        ..Subject::default()
    }
}

fn neighbour(app: &str, host: &str) -> Neighbour {
    Neighbour {
        namespace: "ns".to_owned(),
        name: format!("{app}-on-{host}"),
        labels: labels(app),
        hosts: BTreeSet::from([host.to_owned()]),
        same_policy: true,
        ..Neighbour::default()
    }
}

fn chosen(policy_: Value, around: &Surroundings) -> Result<String, String> {
    match decide(&policy(policy_), &subject("web"), around, None) {
        Ok(placed) => Ok(placed.host.unwrap()),
        Err(Unmet::Rules(why)) => Err(why),
        Err(other) => Err(format!("{other:?}")),
    }
}

#[test]
fn each_rule_leaves_the_hosts_that_it_should() {
    let term =
        json!({ "labelSelector": { "matchLabels": { "app": "db" } }, "topologyKey": "zone" });
    for (policy, place) in [
        (json!({}), "a1"),
        (json!({ "hard": { "hosts": ["b1", "a2"] } }), "a2"),
        (json!({ "hard": { "excludedHosts": ["a1"] } }), "a2"),
        (json!({ "hard": { "zones": ["b"] } }), "b1"),
        (json!({ "hard": { "clusters": ["c-b"] } }), "b1"),
        (json!({ "hard": { "excludedClusters": ["c-a"] } }), "b1"),
        (json!({ "hard": { "datastores": ["fast-b"] } }), "b1"),
        (json!({ "hard": { "nodeSelector": { "disk": "ssd-b" } } }), "b1"),
        (json!({ "soft": { "zones": ["b"] } }), "b1"),
        (json!({ "soft": { "zones": ["nowhere"] } }), "a1"),
        (
            json!({ "affinity": { "zoneAffinity": { "enabled": true, "preferredZones": ["b"] } } }),
            "b1",
        ),
        (
            json!({ "affinity": { "hostAffinity": { "enabled": false, "preferredHosts": ["b1"] } } }),
            "a1",
        ),
        // The database is on b1.
        (json!({ "affinity": { "vmAffinity": { "requiredDuringScheduling": [term] } } }), "b1"),
        (
            json!({ "hard": { "zones": ["a"] },
                "affinity": { "vmAffinity": { "preferredDuringScheduling": [
                    { "weight": 10, "vmAffinityTerm": term }] } } }),
            "a1",
        ),
        (
            json!({ "antiAffinity": { "vmAntiAffinity": { "requiredDuringScheduling": [
                { "labelSelector": { "matchLabels": { "app": "db" } }, "topologyKey": "zone" }] } },
                "soft": { "zones": ["b"] } }),
            "a1",
        ),
        (
            json!({ "affinity": { "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
                    { "matchExpressions": [
                        { "key": "zone", "operator": "In", "values": ["b"] }] }] } } } }),
            "b1",
        ),
        (json!({ "antiAffinity": { "zoneAntiAffinity": { "enabled": true } } }), "a1"),
        (json!({ "resourceConstraints": { "requiredFeatures": ["TPM"] } }), "a1"),
    ] {
        let around = around(vec![neighbour("db", "b1")]);
        assert_eq!(chosen(policy.clone(), &around).as_deref(), Ok(place), "{policy}");
    }
}

#[test]
fn what_cannot_be_met_names_the_rule() {
    let full = vec![neighbour("web", "a1"), neighbour("web", "a2"), neighbour("web", "b1")];
    for (policy, rule) in [
        (json!({ "hard": { "zones": ["c"] } }), "spec.hard.zones"),
        (json!({ "hard": { "hosts": ["z"] } }), "spec.hard.hosts"),
        (json!({ "hard": { "datastores": ["z"] } }), "spec.hard.datastores"),
        (
            json!({ "antiAffinity": { "hostAntiAffinity": { "enabled": true } } }),
            "spec.antiAffinity.hostAntiAffinity",
        ),
        (
            json!({ "antiAffinity": { "applicationAntiAffinity": { "enabled": true } } }),
            "spec.antiAffinity.applicationAntiAffinity",
        ),
        (
            json!({ "resourceConstraints": { "minMemoryPerHost": "1Ti" } }),
            "spec.resourceConstraints.minMemoryPerHost",
        ),
        (
            json!({ "resourceConstraints": { "maxCPUUtilization": 5 } }),
            "spec.resourceConstraints.maxCPUUtilization",
        ),
        (
            json!({ "resourceConstraints": { "minDiskSpacePerHost": "1Gi" } }),
            "spec.resourceConstraints.minDiskSpacePerHost",
        ),
        (
            json!({ "securityConstraints": { "requireSecureBoot": true } }),
            "spec.securityConstraints.requireSecureBoot",
        ),
        (
            json!({ "securityConstraints": { "trustLevel": "trusted" } }),
            "spec.securityConstraints.trustLevel",
        ),
        (
            json!({ "securityConstraints": { "allowedSecurityGroups": ["x"] } }),
            "spec.securityConstraints.allowedSecurityGroups",
        ),
    ] {
        let why = chosen(policy.clone(), &around(full.clone())).unwrap_err();
        assert!(why.contains(rule), "{policy}: {why}");
    }
    let mut offline = around(Vec::new());
    offline.hosts.iter_mut().for_each(|host| host.online = false);
    assert!(chosen(json!({}), &offline).unwrap_err().contains("does not answer"));
}

#[test]
fn one_whose_place_is_not_known_may_be_anywhere() {
    let mut lost = neighbour("web", "a1");
    lost.hosts.clear();
    let apart = json!({ "antiAffinity": { "applicationAntiAffinity": { "enabled": true } } });
    let why = chosen(apart, &around(vec![lost])).unwrap_err();
    assert!(why.contains("not known"), "{why}");
}

#[test]
fn a_policy_keeps_others_away_too() {
    let alone = policy(json!({ "antiAffinity": { "vmAntiAffinity": { "requiredDuringScheduling": [
        { "labelSelector": { "matchLabels": { "app": "web" } }, "topologyKey": "zone" }] } } }));
    let mut db = neighbour("db", "a1");
    db.keeps_away = keeps_away(&alone, "ns");
    assert_eq!(chosen(json!({}), &around(vec![db])).as_deref(), Ok("b1"));
}

#[test]
fn a_decision_stays_where_it_is_as_good_as_any() {
    let before = Placed { host: Some("b1".to_owned()), ..Placed::default() };
    let decide = |value: Value| {
        let placed = decide(&policy(value), &subject("web"), &around(Vec::new()), Some(&before));
        placed.unwrap().host.unwrap()
    };
    assert_eq!(decide(json!({})), "b1");
    assert_eq!(decide(json!({ "soft": { "zones": ["a"] } })), "a1");
}

/// What of a policy's hard rules is violated.
fn violated(
    around: &Surroundings,
    zones: &[String],
    per_host: usize,
    per_store: usize,
) -> Option<String> {
    let zone_of = |name: &String| {
        around.hosts.iter().find(|host| host.name == *name).and_then(|host| host.zone.clone())
    };
    let mut hosts: BTreeMap<&String, usize> = BTreeMap::new();
    let mut stores: BTreeMap<&String, usize> = BTreeMap::new();
    let mut apps: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    for machine in &around.neighbours {
        let host = machine.hosts.first()?;
        *hosts.entry(host).or_default() += 1;
        if let Some(store) = &machine.datastore {
            *stores.entry(store).or_default() += 1;
        }
        let zone = zone_of(host)?;
        if !zones.is_empty() && !zones.contains(&zone) {
            return Some(format!("{} is in {zone}", machine.name));
        }
        apps.entry(zone).or_default().extend(machine.labels.values());
    }
    if let Some((host, count)) = hosts.iter().find(|(_, count)| **count > per_host) {
        return Some(format!("{count} on {host}"));
    }
    if let Some((store, count)) = stores.iter().find(|(_, count)| **count > per_store) {
        return Some(format!("{count} on {store}"));
    }
    if let Some((zone, apps)) = apps.iter().find(|(_, apps)| apps.len() > 1) {
        return Some(format!("{apps:?} share {zone}"));
    }
    let full = around
        .hosts
        .iter()
        .find(|host| around.promised.get(&host.name).is_some_and(|(cpu, _)| *cpu > host.cpu));
    full.map(|host| format!("{} has more CPUs than it has", host.name))
}

fn apart(zones: &[String], per_host: usize, per_store: usize) -> VMPlacementPolicySpec {
    let away = json!({ "labelSelector": { "matchLabels": { "app": "db" } }, "topologyKey": "zone",
        "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["web"] }] });
    policy(json!({
        "hard": { "zones": zones },
        "soft": { "hosts": ["a1"] },
        "antiAffinity": {
            "hostAntiAffinity": { "enabled": true, "maxVMsPerHost": per_host },
            "datastoreAntiAffinity": { "enabled": true, "maxVMsPerDatastore": per_store },
            "vmAntiAffinity": { "requiredDuringScheduling": [away] },
        },
    }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Databases keep to themselves: whoever comes first, a zone has only one kind.
    #[test]
    fn a_hard_rule_is_never_violated(
        machines in prop::collection::vec((1u32..4, 0usize..2), 0..24),
        zones in prop::sample::subsequence(vec!["a".to_owned(), "b".to_owned()], 0..=2),
        per_host in 1usize..4,
        per_store in 1usize..6,
    ) {
        let spec = apart(&zones, per_host, per_store);
        let around = fill(&spec, &machines);
        prop_assert_eq!(violated(&around, &zones, per_host, per_store), None);
    }
}

/// Places machines one after the other. Only web's policy says that it keeps away from databases:
/// they are kept away by it.
fn fill(spec: &VMPlacementPolicySpec, machines: &[(u32, usize)]) -> Surroundings {
    let mut without = spec.clone();
    without.anti_affinity.as_mut().unwrap().vm_anti_affinity = None;
    let mut around = around(Vec::new());
    around.hosts.push(host("b2", "b"));
    for (cpu, app) in machines {
        let web = *app == 0;
        let spec = if web { spec } else { &without };
        let app = if web { "web" } else { "db" };
        let subject = Subject { cpu: *cpu, ..subject(app) };
        let Ok(placed) = decide(spec, &subject, &around, None) else { continue };
        let name = placed.host.clone().unwrap();
        let promised = around.promised.entry(name.clone()).or_default();
        promised.0 += cpu;
        promised.1 += subject.memory_mib;
        let mut new = neighbour(app, &name);
        new.datastore.clone_from(&placed.datastore);
        new.keeps_away = keeps_away(spec, "ns");
        around.neighbours.push(new);
    }
    around
}

#[cfg(feature = "mutations")]
#[test]
fn broken_rules_are_noticed() {
    use crate::rules::{Rule, break_rule};
    let machines: Vec<(u32, usize)> = (0..8).map(|number| (1, number % 2)).collect();
    break_rule(Some(Rule::AntiAffinityHolds));
    let around = fill(&apart(&[], 1, 2), &machines);
    break_rule(None);
    assert!(violated(&around, &[], 1, 2).is_some(), "anti-affinity can be ignored unnoticed");
}
