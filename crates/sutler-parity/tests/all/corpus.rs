//! The manifests of our own kinds: what must be accepted is, what must be refused is refused for the
//! same causes, by ours and by the real server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use sutler_api::corpus::{self, Part};
use sutler_parity::case::{Call, Case, Reply};
use sutler_parity::ours::{self, Form};
use sutler_parity::peer;
use sutler_parity::suite::{self, Outcome};
use sutler_parity::target::{Target, documents, project_crds};

/// Threads that send manifests.
const AT_ONCE: usize = 4;

/// Where objects of each kind are posted.
fn collections() -> BTreeMap<String, String> {
    project_crds()
        .iter()
        .flat_map(|yaml| documents(yaml))
        .map(|crd| {
            let spec = &crd["spec"];
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let scope = if spec["scope"] == "Cluster" { "" } else { "/namespaces/{ns}" };
            let version = text(&spec["versions"][0]["name"]);
            let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
            (text(&spec["names"]["kind"]), format!("/apis/{group}/{version}{scope}/{plural}"))
        })
        .collect()
}

/// The object as it is sent: in the case's namespace.
fn placed(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    object
}

fn send(case: &Case, method: &'static str, path: &str, body: &Value) -> Reply {
    case.call(&Call::new(method, path).json(body).quiet())
}

fn check_valid(case: &Case, collections: &BTreeMap<String, String>, manifest: &corpus::Manifest) {
    let object = placed(&manifest.object);
    let path = &collections[object["kind"].as_str().unwrap_or_default()];
    let label = format!("valid {}", manifest.name);
    let strict = format!("{path}?fieldValidation=Strict");
    let made = case.call(&Call::new("POST", &strict).json(&object).label(&label)).is(201);
    if object.get("status").is_some() {
        let mut status = made.body.clone();
        status["status"] = object["status"].clone();
        let path = format!("{path}/{}/status?fieldValidation=Strict", made.name());
        case.call(&Call::new("PUT", &path).json(&status).label(&format!("{label}, status")))
            .is(200);
    }
    send(case, "DELETE", &format!("{path}/{}", made.name()), &Value::Null).is(200);
}

fn check_invalid(case: &Case, collections: &BTreeMap<String, String>, broken: &corpus::Case) {
    let object = placed(&broken.object);
    let path = &collections[object["kind"].as_str().unwrap_or_default()];
    let one = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
    let before = match (&broken.before, broken.part) {
        (Some(before), _) => Some(placed(before)),
        (None, Part::Status) => Some(object.clone()),
        (None, Part::Object) => None,
    };
    let reply = match before {
        None => case.call(&Call::new("POST", path).json(&object).label(&broken.name)),
        Some(mut before) => {
            let wanted = before.get("status").cloned();
            if let Some(map) = before.as_object_mut() {
                map.remove("status");
            }
            let mut made = send(case, "POST", path, &before).is(201);
            let status = format!("{one}/status");
            if let (Some(wanted), true) = (wanted, broken.before.is_some()) {
                made.body["status"] = wanted;
                made = send(case, "PUT", &status, &made.body).is(200);
            }
            let mut object = object;
            object["metadata"]["resourceVersion"] = made.rv().into();
            let target = if broken.part == Part::Status { &status } else { &one };
            let reply = case.call(&Call::new("PUT", target).json(&object).label(&broken.name));
            send(case, "DELETE", &one, &Value::Null).is(200);
            reply
        }
    };
    if reply.status != 422 || !names(&reply, broken) {
        let causes = reply.at("/details/causes").to_string();
        case.check(
            false,
            &format!("{}: {} does not blame {}: {causes}", broken.name, reply.status, broken.field),
        );
    }
    if reply.status == 201 {
        send(case, "DELETE", &one, &Value::Null).is(200);
    }
}

fn names(reply: &Reply, broken: &corpus::Case) -> bool {
    let causes = reply.at("/details/causes").as_array().cloned().unwrap_or_default();
    // Where no field can be named, the status that is written is.
    let instead =
        if broken.part == Part::Status && broken.field == "<nil>" { "status" } else { "" };
    causes.iter().any(|cause| cause["field"] == broken.field || cause["field"] == instead)
}

/// Who sends an object: one worker those of the whole cluster, whose names would clash; else in turn.
fn worker_of(index: usize, object: &Value, collections: &BTreeMap<String, String>) -> usize {
    let path = &collections[object["kind"].as_str().unwrap_or_default()];
    if path.contains("{ns}") { index % AT_ONCE } else { 0 }
}

/// Sends everything, several manifests at once; the outcomes by their names.
fn run(target: &Arc<dyn Target>) -> BTreeMap<String, Outcome> {
    let collections = collections();
    let (valid, invalid) = (corpus::valid(), corpus::invalid());
    let outcomes = Mutex::new(BTreeMap::new());
    let keep = |name: &str, outcome| {
        outcomes.lock().expect("nobody panics with it").insert(name.to_owned(), outcome);
    };
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let (collections, valid, invalid, keep) = (&collections, &valid, &invalid, &keep);
            scope.spawn(move || {
                let ns = format!("p-corpus-{worker}");
                // The namespace is made by the first case of the worker.
                suite::run_case(target, &ns, |_| {});
                let mine = |index, object| worker_of(index, object, collections) == worker;
                for (index, manifest) in valid.iter().enumerate() {
                    if !mine(index, &manifest.object) {
                        continue;
                    }
                    let outcome = suite::run_in(target, &ns, |case| {
                        check_valid(case, collections, manifest);
                    });
                    keep(&format!("corpus/valid/{}", manifest.name), outcome);
                }
                for (index, broken) in invalid.iter().enumerate() {
                    if !mine(index, &broken.object) {
                        continue;
                    }
                    let outcome = suite::run_in(target, &ns, |case| {
                        check_invalid(case, collections, broken);
                    });
                    keep(&format!("corpus/invalid/{}", broken.name), outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("nobody panicked with it")
}

fn truth() -> Option<&'static BTreeMap<String, Outcome>> {
    static TRUTH: OnceLock<Option<BTreeMap<String, Outcome>>> = OnceLock::new();
    TRUTH.get_or_init(|| Some(run(&peer::shared()?.target()))).as_ref()
}

#[test]
fn the_real_server_accepts_and_refuses_as_the_corpus_says() {
    let Some(truth) = truth() else { return };
    let reports = suite::report(truth, None);
    assert!(reports.is_empty(), "{} of {}\n{}", reports.len(), truth.len(), reports.join("\n"));
}

#[test]
fn ours_accepts_and_refuses_alike() {
    let outcomes = run(&ours::shared(Form::Memory).target());
    let reports = suite::report(&outcomes, truth());
    println!("{} manifests, {} differ", outcomes.len(), reports.len());
    assert!(reports.is_empty(), "{} of {}\n{}", reports.len(), outcomes.len(), reports.join("\n"));
}
