//! Operation sequences made from a seed.
//!
//! A [program] is made before anything is sent, so that both servers get the same one: what
//! depends on answers (a current or a stale version, a UID) is named in it, and each server's own
//! value is put in when it is sent.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::case::{Call, Case, Reply};

/// One operation.
#[derive(Debug, Clone)]
pub struct Step {
    /// What it is, for people who read a failure.
    pub text: String,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Send { call: Call, name: Option<&'static str>, version: Version },
    Watch { collection: &'static str, selector: &'static str },
}

/// Which version of its object a write names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    None,
    Current,
    Stale,
}

const NAMES: &[&str] = &["a", "b", "c"];
const MANAGERS: &[&str] = &["one", "two", "three"];
const SELECTORS: &[&str] =
    &["", "labelSelector=l%3D1", "labelSelector=%21l", "fieldSelector=metadata.name%3Da"];

/// A program of this many operations.
pub fn program(seed: u64, steps: usize) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..steps).map(|_| step(&mut rng)).collect()
}

/// Runs a program; the transcript shows every answer, the events of the watches last.
pub fn run(case: &Case, steps: &[Step]) {
    // The versions of each object that this server has shown.
    let seen: RefCell<BTreeMap<String, Vec<String>>> = RefCell::default();
    let mut watches = Vec::new();
    let start = case.get("cm").rv();
    for step in steps {
        match &step.kind {
            Kind::Send { call, name, version } => {
                let call = match name {
                    Some(name) => named(call, &seen.borrow(), name, *version),
                    None => call.clone(),
                };
                let reply = case.call(&call.label(&step.text));
                remember(&seen, *name, &reply);
            }
            Kind::Watch { collection, selector } => watches.push((*collection, *selector)),
        }
    }
    // The end of the history is marked, so that nobody waits for what does not come.
    for collection in ["cm", "toy"] {
        let end = object(collection, "zz-end", json!({"l": "1"}));
        case.post(collection, &end).is(201);
    }
    watches.sort_unstable();
    watches.dedup();
    for (collection, selector) in watches {
        if selector.contains("Selector=%21l") || selector.starts_with("field") {
            continue;
        }
        let mut watch = case.watch(&format!("{collection}?{selector}&resourceVersion={start}"));
        while watch.status == 200 {
            let event = watch.event();
            if event.kind.is_empty() || event.name() == "zz-end" {
                break;
            }
        }
    }
    for collection in ["cm", "toy"] {
        for selector in SELECTORS {
            case.get(&format!("{collection}?{selector}"));
        }
    }
}

fn remember(seen: &RefCell<BTreeMap<String, Vec<String>>>, name: Option<&str>, reply: &Reply) {
    let version = reply.rv();
    if let (Some(_), true) = (name, reply.status < 300 && !version.is_empty()) {
        let key = format!("{}/{}", reply.text("/kind"), reply.name());
        let mut seen = seen.borrow_mut();
        let versions = seen.entry(key).or_default();
        if versions.last() != Some(&version) {
            versions.push(version);
        }
    }
}

/// Puts the version that this server has shown into the body.
fn named(call: &Call, seen: &BTreeMap<String, Vec<String>>, name: &str, version: Version) -> Call {
    let kind = if call.path().starts_with("toy") { "Toy" } else { "ConfigMap" };
    let versions = seen.get(&format!("{kind}/{name}"));
    let version = match version {
        Version::None => None,
        Version::Current => versions.and_then(|versions| versions.last()),
        Version::Stale => versions.and_then(|versions| versions.first()),
    };
    call.with_version(version.map(String::as_str))
}

fn step(rng: &mut StdRng) -> Step {
    let collection = *["cm", "toy", "toy"].choose(rng).expect("not empty");
    let name = *NAMES.choose(rng).expect("not empty");
    let manager = *MANAGERS.choose(rng).expect("not empty");
    let path = format!("{collection}/{name}");
    let version = *[Version::None, Version::Current, Version::Current, Version::Stale]
        .choose(rng)
        .expect("not empty");
    let dry = if rng.random_bool(0.1) { "&dryRun=All" } else { "" };
    match rng.random_range(0..100) {
        0..18 => {
            let body = body(rng, collection, name);
            let path = format!("{collection}?fieldManager={manager}{dry}");
            send("POST", &path, name, Version::None, |call| call.json(&body))
        }
        18..32 => {
            let body = body(rng, collection, name);
            let path = format!("{path}?fieldManager={manager}{dry}");
            send("PUT", &path, name, version, |call| call.json(&body))
        }
        32..44 => {
            let patch = merge(rng, collection);
            let path = format!("{path}?fieldManager={manager}{dry}");
            let version = if version == Version::Current { Version::None } else { version };
            send("PATCH", &path, name, version, |call| {
                call.text("application/merge-patch+json", &patch.to_string())
            })
        }
        44..50 => {
            let patch = json_patch(rng, collection);
            let path = format!("{path}?fieldManager={manager}{dry}");
            send("PATCH", &path, name, Version::None, |call| {
                call.text("application/json-patch+json", &patch.to_string())
            })
        }
        50..74 => {
            let mut body = body(rng, collection, name);
            // Where an apply takes away the last label of a custom object, the real server stores an
            // empty map that it never shows, and the next patch makes a version that changes
            // nothing. Ours stores what it shows, so every apply here keeps a label.
            body["metadata"]["labels"]["keep"] = "1".into();
            let force = if rng.random_bool(0.4) { "&force=true" } else { "" };
            let path = format!("{path}?fieldManager={manager}{force}{dry}");
            send("PATCH", &path, name, Version::None, |call| {
                call.text("application/apply-patch+yaml", &body.to_string())
            })
        }
        74..80 => {
            let status = json!({"status": {"phase": rng.random_range(0..3).to_string(), "replicas": rng.random_range(0..3)}});
            let path = format!("toy/{name}/status?fieldManager={manager}{dry}");
            send("PATCH", &path, name, Version::None, |call| {
                call.text("application/merge-patch+json", &status.to_string())
            })
        }
        80..90 => {
            let policy = ["", "&propagationPolicy=Background"].choose(rng).expect("not empty");
            send("DELETE", &format!("{path}?x=1{policy}{dry}"), name, Version::None, |call| call)
        }
        90..93 => {
            let selector = *SELECTORS.choose(rng).expect("not empty");
            send("DELETE", &format!("{collection}?{selector}"), name, Version::None, |call| call)
        }
        93..97 => {
            let selector = *SELECTORS.choose(rng).expect("not empty");
            send("GET", &format!("{collection}?{selector}"), name, Version::None, |call| call)
        }
        _ => {
            let selector = *SELECTORS.choose(rng).expect("not empty");
            let text = format!("WATCH {collection}?{selector}");
            Step { text, kind: Kind::Watch { collection, selector } }
        }
    }
}

fn send(
    method: &'static str,
    path: &str,
    name: &'static str,
    version: Version,
    fill: impl FnOnce(Call) -> Call,
) -> Step {
    let call = fill(Call::new(method, path));
    let text = format!("{method} {path} {version:?} {}", call.body_text());
    Step { text, kind: Kind::Send { call, name: Some(name), version } }
}

fn object(collection: &str, name: &str, labels: Value) -> Value {
    if collection == "cm" {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": labels}, "data": {"k": "v"},
        })
    } else {
        json!({
            "apiVersion": "parity.sutler.dev/v1", "kind": "Toy",
            "metadata": {"name": name, "labels": labels}, "spec": {"size": 1},
        })
    }
}

fn body(rng: &mut StdRng, collection: &str, name: &str) -> Value {
    let mut body = object(collection, name, json!({}));
    if rng.random_bool(0.4) {
        body["metadata"]["labels"] = json!({"l": rng.random_range(0..3).to_string()});
    } else if let Some(metadata) = body["metadata"].as_object_mut() {
        metadata.remove("labels");
    }
    if rng.random_bool(0.1) {
        body["metadata"]["finalizers"] = json!(["parity.sutler.dev/hold"]);
    }
    if collection == "cm" {
        body["data"] = data(rng);
    } else {
        body["spec"] = spec(rng);
    }
    body
}

fn data(rng: &mut StdRng) -> Value {
    let mut data = json!({});
    for key in ["k", "l", "m"] {
        if rng.random_bool(0.6) {
            data[key] = rng.random_range(0..3).to_string().into();
        }
    }
    data
}

fn spec(rng: &mut StdRng) -> Value {
    // Seldom a size that cannot be.
    let mut spec = json!({"size": if rng.random_bool(0.05) { 0 } else { rng.random_range(1..4) }});
    if rng.random_bool(0.3) {
        spec["mode"] = (*["Fast", "Slow", "Odd"].choose(rng).expect("not empty")).into();
    }
    if rng.random_bool(0.4) {
        let mut labels = json!({});
        for key in ["a", "b"] {
            if rng.random_bool(0.6) {
                labels[key] = rng.random_range(0..3).to_string().into();
            }
        }
        spec["labels"] = labels;
    }
    if rng.random_bool(0.4) {
        spec["tags"] = pick(rng, &["x", "y", "z"]).into_iter().collect::<Vec<_>>().into();
    }
    if rng.random_bool(0.4) {
        let names = pick(rng, &["p", "q", "r"]);
        spec["disks"] = names
            .into_iter()
            .map(|name| json!({"name": name, "gib": rng.random_range(1..4)}))
            .collect::<Vec<_>>()
            .into();
    }
    if rng.random_bool(0.3) {
        spec["steps"] = json!([rng.random_range(0..3).to_string()]);
    }
    if rng.random_bool(0.2) {
        spec["nested"] = json!({"depth": rng.random_range(0..3)});
    }
    if rng.random_bool(0.2) {
        spec["free"] = json!({"n": rng.random_range(0..3), "o": {"p": rng.random_range(0..2)}});
    }
    spec
}

fn pick<'a>(rng: &mut StdRng, from: &[&'a str]) -> Vec<&'a str> {
    from.iter().filter(|_| rng.random_bool(0.5)).copied().collect()
}

fn merge(rng: &mut StdRng, collection: &str) -> Value {
    let mut patch = json!({});
    if rng.random_bool(0.3) {
        patch["metadata"]["labels"]["l"] = if rng.random_bool(0.3) {
            Value::Null
        } else {
            rng.random_range(0..3).to_string().into()
        };
    }
    if rng.random_bool(0.2) {
        patch["metadata"]["finalizers"] = Value::Null;
    }
    let part = if collection == "cm" { "data" } else { "spec" };
    let mut fields = if collection == "cm" { data(rng) } else { spec(rng) };
    if let Some(map) = fields.as_object_mut() {
        let keys: Vec<String> = map.keys().cloned().collect();
        for key in keys {
            if key != "size" && rng.random_bool(0.2) {
                map.insert(key, Value::Null);
            } else if rng.random_bool(0.3) {
                map.remove(&key);
            }
        }
    }
    patch[part] = fields;
    patch
}

fn json_patch(rng: &mut StdRng, collection: &str) -> Value {
    let mut steps = Vec::new();
    for _ in 0..rng.random_range(1..3) {
        let value = rng.random_range(0..3).to_string();
        let path = if collection == "cm" { "/data/k" } else { "/spec/mode" };
        steps.push(match rng.random_range(0..4) {
            0 => json!({"op": "add", "path": path, "value": value}),
            1 => json!({"op": "replace", "path": path, "value": value}),
            2 => json!({"op": "remove", "path": path}),
            _ => json!({"op": "test", "path": "/metadata/labels/l", "value": value}),
        });
    }
    json!(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_makes_the_same_program() {
        let texts = |seed| program(seed, 50).into_iter().map(|step| step.text).collect::<Vec<_>>();
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
    }

    #[test]
    fn a_longer_program_begins_like_a_shorter_one() {
        let texts = |n| program(7, n).into_iter().map(|step| step.text).collect::<Vec<_>>();
        assert_eq!(texts(20)[..10], texts(10)[..]);
    }
}
