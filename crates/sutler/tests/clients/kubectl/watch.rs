//! kubectl get -w and wait.

use crate::runs::Running;
use crate::support::{Place, config_map, machine};

/// The next event's type and name.
fn event(watch: &mut Running) -> (String, String) {
    let line = watch.line();
    let mut cells = line.split_whitespace().map(str::to_owned);
    (cells.next().unwrap_or_default(), cells.next().unwrap_or_default())
}

fn pair(event: &str, name: &str) -> (String, String) {
    (event.into(), name.into())
}

#[test]
fn a_watch_sees_what_happens() {
    let Some(k) = Place::new("watch") else { return };
    k.apply(&machine(k.namespace, "web"));
    let mut all = k.start("get vm -w --output-watch-events");
    let header: Vec<_> = all.line().split_whitespace().map(str::to_owned).collect();
    assert_eq!(header[..3], ["EVENT", "NAME", "PHASE"]);
    assert_eq!(event(&mut all), pair("ADDED", "web"));
    let mut front = k.start("get vm -w -l tier=front --output-watch-events --no-headers");
    k.apply(&machine(k.namespace, "db"));
    assert_eq!(event(&mut all), pair("ADDED", "db"));
    k.ok("label vm db tier=front");
    assert_eq!(event(&mut all), pair("MODIFIED", "db"));
    // What a selector no longer chooses is gone for its watcher, and only for it.
    assert_eq!(event(&mut front), pair("ADDED", "db"));
    k.ok("label vm db tier-");
    assert_eq!(event(&mut front), pair("DELETED", "db"));
    assert_eq!(event(&mut all), pair("MODIFIED", "db"));
    k.ok("patch vm db --subresource=status --type=merge -p '{\"status\":{\"phase\":\"Running\"}}'");
    let line = all.line();
    assert!(line.starts_with("MODIFIED") && line.contains("Running"), "{line}");
    k.ok("delete vm db");
    assert_eq!(event(&mut all), pair("DELETED", "db"));
}

#[test]
fn a_watch_of_many_kinds_and_versions() {
    let Some(k) = Place::new("watch-version") else { return };
    k.apply(&config_map(k.namespace, "one", "a: b"));
    let version = k.json("get cm one")["metadata"]["resourceVersion"].clone();
    let version = version.as_str().unwrap_or_default();
    k.apply(&config_map(k.namespace, "two", "a: b"));
    k.ok("delete cm one");
    // From a version on, as Table, as kubectl asks for it.
    let path = format!(
        "/api/v1/namespaces/watch-version/configmaps?watch=true&timeoutSeconds=1&resourceVersion={version}"
    );
    let events = k.ok(&format!("get --raw '{path}'"));
    let types: Vec<_> = events
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .map(|event| format!("{} {}", event["type"], event["object"]["metadata"]["name"]))
        .filter(|event| !event.contains("kube-root-ca"))
        .collect();
    assert_eq!(types, ["\"ADDED\" \"two\"", "\"DELETED\" \"one\""]);
}

#[test]
fn wait_for_conditions_paths_creation_and_deletion() {
    let Some(k) = Place::new("wait") else { return };
    let created = k.start("wait vm/web --for=create --timeout=50s");
    k.apply(&machine(k.namespace, "web"));
    assert_eq!(created.end(), 0);
    let late = k.fails(1, "wait vm/web --for=condition=Ready --timeout=10ms");
    assert_eq!(late, "error: timed out waiting for the condition on virtualmachines/web\n");
    let ready = k.start("wait vm/web --for=condition=Ready --timeout=50s");
    let running = k.start("wait vm --all --for=jsonpath={.status.phase}=Running --timeout=50s");
    k.ok("patch vm web --subresource=status --type=merge -p '{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Up\",\"message\":\"\",\"lastTransitionTime\":\"2026-01-01T00:00:00Z\"}]}}'");
    assert_eq!(ready.end(), 0);
    assert_eq!(running.end(), 0);
    let gone = k.start("wait vm/web --for=delete --timeout=50s");
    k.ok("delete vm web");
    assert_eq!(gone.end(), 0);
    k.ok("wait vm/web --for=delete --timeout=10s");
}
