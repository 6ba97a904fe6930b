//! Providers that run elsewhere: how they are reached, protected, and what is said when they are not.

use std::time::Duration;

use serde_json::{Value, json};
use sutler_rpc::{Pem, ServerSecurity, Store};

use crate::{
    lab::{INFRA, Lab, is_ready, machine, ready},
    wire::{Authority, Line, Link, NAME, Served, secret_data},
};

both!(
    a_remote_provider_makes_machines_over_mutual_tls,
    every_refusal_is_named,
    certificates_change_while_machines_are_made,
    plaintext_is_asked_for_and_said,
    a_provider_that_falls_silent_slows_nobody,
);

/// A condition of an object.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice);
    let found = conditions.unwrap_or_default().iter().find(|c| c["type"] == type_);
    found.unwrap_or(&Value::Null)
}

impl Lab {
    async fn secret(&self, name: &str, data: Value) {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "data": data});
        self.create(object).await;
    }

    async fn remote(&self, name: &str, runtime: Value) {
        self.create(json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": name},
            "spec": {"type": "acme", "endpoint": format!("https://{name}.test"),
                "runtime": runtime, "rateLimit": {"qps": 1000, "burst": 1000},
                "healthCheck": {"interval": "1s", "failureThreshold": 1},
                "discovery": {"interval": "500ms"}}}))
            .await;
    }

    async fn provider(&self, name: &str, what: &str, done: fn(&Value) -> bool) -> Value {
        self.until_of(INFRA, "Provider", name, what, done).await.unwrap()
    }
}

fn encrypted(address: &str, secret: &str) -> Value {
    json!({"mode": "Remote", "endpoint": address,
        "service": {"tls": {"secretRef": {"name": secret}}}})
}

fn plain(address: &str) -> Value {
    json!({"mode": "Remote", "endpoint": address, "service": {"tls": {"enabled": false}}})
}

fn on(provider: &str) -> Value {
    json!({"providerRef": {"name": provider}})
}

async fn a_remote_provider_makes_machines_over_mutual_tls(lab: Lab) {
    let ca = Authority::new();
    let served = Served::with(ca.issue(NAME, 9)).await;
    lab.class_and_image().await;
    lab.secret("certs", secret_data(&ca.issue("manager.test", 9))).await;
    lab.remote("there", encrypted(&served.address, "certs")).await;
    let provider = lab.provider("there", "ready", is_ready).await;
    let status = &provider["status"];
    assert_eq!(status["runtime"]["mode"], "Remote", "{provider:#}");
    assert_eq!(status["runtime"]["endpoint"], served.address.as_str());
    assert_eq!(condition(&provider, "TLSConfigured")["reason"], "Enabled");
    assert_eq!(condition(&provider, "ProviderRuntimeReady")["status"], "True");
    assert_eq!(status["reportedCapabilities"]["uniqueBy"], "Token");
    let vm = lab.ready("web", on("there")).await;
    let there = served.sim.machines();
    assert_eq!(there.len(), 1);
    assert_eq!(vm["status"]["id"], there[0].machine.id.0.as_str());
    lab.delete("web").await;
    lab.until_gone("web").await;
    assert!(served.sim.machines().is_empty());
}

async fn every_refusal_is_named(lab: Lab) {
    let (ca, other) = (Authority::new(), Authority::new());
    let trusting = |pem: Pem| Pem { ca: ca.pem.clone().into_bytes(), ..pem };
    let good = Served::with(ca.issue(NAME, 9)).await;
    let strange = Served::with(trusting(other.issue(NAME, 9))).await;
    let expired = Served::with(ca.issue(NAME, -2)).await;
    let misnamed = Served::with(ca.issue("other.test", 9)).await;
    let mut nameless = secret_data(&ca.issue("manager.test", 9));
    nameless.as_object_mut().unwrap().retain(|key, _| key == "ca.crt");
    for (name, data) in [
        ("good", secret_data(&ca.issue("manager.test", 9))),
        ("strange", secret_data(&trusting(other.issue("manager.test", 9)))),
        ("expired", secret_data(&ca.issue("manager.test", -2))),
        ("nameless", nameless),
        ("garbage", json!({"tls.crt": "eA==", "tls.key": "eA==", "ca.crt": "eA=="})),
    ] {
        lab.secret(name, data).await;
    }
    let cases = [
        ("wrong-ca", encrypted(&strange.address, "good"), "Denied", "(wrong CA)"),
        ("expired", encrypted(&expired.address, "good"), "Denied", "certificate has expired"),
        ("wrong-name", encrypted(&misnamed.address, "good"), "Denied", "(wrong name)"),
        ("our-ca", encrypted(&good.address, "strange"), "Denied", "provider does not trust"),
        ("our-time", encrypted(&good.address, "expired"), "Denied", "our certificate has expired"),
        ("no-cert", encrypted(&good.address, "nameless"), "Invalid", "lacks tls.crt and tls.key"),
        ("garbage", encrypted(&good.address, "garbage"), "Invalid", "tls.secretRef"),
        ("no-secret", encrypted(&good.address, "nowhere"), "ReferenceNotFound", "nowhere"),
        (
            "no-block",
            json!({"mode": "Remote", "endpoint": good.address}),
            "TLSBlockMissing",
            "enabled: false",
        ),
        (
            "no-name",
            json!({"mode": "Remote", "endpoint": good.address, "service": {"tls": {}}}),
            "SecretRefMissing",
            "secretRef",
        ),
        ("nobody", plain("127.0.0.1:1"), "Unavailable", "cannot be reached"),
    ];
    for (name, runtime, ..) in &cases {
        lab.remote(name, runtime.clone()).await;
    }
    let told = |object: &Value| ready(object)["status"] == "False";
    for (name, _, reason, message) in &cases {
        let provider = lab.provider(name, "refused", told).await;
        let found = ready(&provider);
        assert_eq!(found["reason"], *reason, "{name}: {found:#}");
        assert!(found["message"].as_str().unwrap().contains(message), "{name}: {found:#}");
        assert!(!provider.to_string().contains("PRIVATE KEY"), "{name}");
    }
    for served in [good, strange, expired, misnamed] {
        assert!(served.sim.machines().is_empty());
    }
}

async fn certificates_change_while_machines_are_made(lab: Lab) {
    let (old, new) = (Authority::new(), Authority::new());
    let store = Store::new(old.issue(NAME, 9)).unwrap();
    let security = ServerSecurity::Tls { store: store.clone(), allowed_names: Vec::new() };
    let served = Served::start(json!({}), security).await;
    lab.class_and_image().await;
    lab.secret("certs", secret_data(&old.issue("manager.test", 9))).await;
    lab.remote("there", encrypted(&served.address, "certs")).await;
    let before = lab.provider("there", "ready", is_ready).await;
    let both = format!("{}{}", old.pem, new.pem).into_bytes();
    let trusting = |pem: Pem| Pem { ca: both.clone(), ..pem };
    let secrets = lab.api("v1", "Secret");
    let rounds = [
        (trusting(old.issue(NAME, 9)), trusting(old.issue("manager.test", 9))),
        (trusting(new.issue(NAME, 9)), trusting(new.issue("manager.test", 9))),
        (new.issue(NAME, 9), new.issue("manager.test", 9)),
    ];
    for (round, (theirs, ours)) in rounds.into_iter().enumerate() {
        for number in 0..5 {
            lab.record(&format!("vm-{round}-{number}"), on("there")).await;
        }
        store.replace(theirs).unwrap();
        let patch = kube::api::Patch::Merge(json!({"data": secret_data(&ours)}));
        secrets.patch("certs", &Default::default(), &patch).await.unwrap();
        for number in 0..5 {
            lab.until(&format!("vm-{round}-{number}"), "ready", is_ready).await;
        }
    }
    assert_eq!(served.sim.machines().len(), 15);
    // What cannot be used does not end what works, and is said.
    let patch = kube::api::Patch::Merge(json!({"data": {"tls.key": "eA=="}}));
    secrets.patch("certs", &Default::default(), &patch).await.unwrap();
    let unusable = |object: &Value| condition(object, "TLSConfigured")["status"] == "False";
    let after = lab.provider("there", "told of the Secret", unusable).await;
    let said = condition(&after, "TLSConfigured")["message"].as_str().unwrap();
    assert!(said.contains("the old certificates stay in use"), "{said}");
    assert_eq!(
        ready(&after)["lastTransitionTime"],
        ready(&before)["lastTransitionTime"],
        "it was ready all the while: {after:#}"
    );
    lab.ready("last", on("there")).await;
}

async fn plaintext_is_asked_for_and_said(lab: Lab) {
    let served = Served::start(json!({}), ServerSecurity::Plaintext).await;
    lab.remote("there", plain(&served.address)).await;
    let provider = lab.provider("there", "ready", is_ready).await;
    let tls = condition(&provider, "TLSConfigured");
    assert_eq!((&tls["status"], &tls["reason"]), (&json!("False"), &json!("ExplicitlyDisabled")));
    assert!(tls["message"].as_str().unwrap().contains("not encrypted"), "{tls}");
    let log = lab.log();
    let line = log.lines().find(|line| {
        line.contains("WARN") && line.contains("not encrypted") && line.contains(&lab.namespace)
    });
    assert!(line.is_some(), "{log}");
}

async fn a_provider_that_falls_silent_slows_nobody(lab: Lab) {
    let options = json!({"deadlines": {"look": "60s", "list": "60s", "make": "60s"}});
    let (one, two) = (
        Served::start(options, ServerSecurity::Plaintext).await,
        Served::start(json!({}), ServerSecurity::Plaintext).await,
    );
    let link = Link::new(&one.address).await;
    lab.class_and_image().await;
    lab.remote("silent", plain(&link.address)).await;
    lab.remote("well", plain(&two.address)).await;
    for name in ["silent", "well"] {
        lab.provider(name, "ready", is_ready).await;
    }
    link.set(Line::Silent);
    for number in 0..100 {
        lab.create(machine(&format!("silent-{number}"), on("silent"))).await;
    }
    let begun = std::time::Instant::now();
    for number in 0..20 {
        lab.create(machine(&format!("well-{number}"), on("well"))).await;
    }
    for number in 0..20 {
        lab.until(&format!("well-{number}"), "ready", is_ready).await;
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(60), "the neighbour took {took:?}");
    assert!(one.sim.machines().is_empty());
    // The link speaks again, and what was asked for is there once.
    link.set(Line::Open);
    for number in 0..100 {
        lab.until(&format!("silent-{number}"), "ready", is_ready).await;
    }
    assert_eq!(one.sim.machines().len(), 100);
}
