//! One object for a person: what it is, what is wanted, how it stands, what happened to it.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use super::{events, table};
use crate::{
    client::{jsonpath::plain, yaml},
    clock,
    ui::Tone,
};

/// Annotations that repeat the object, secrets included.
const COPIES: [&str; 1] = ["kubectl.kubernetes.io/last-applied-configuration"];

/// Describes an object with its events; `None` where events cannot be read.
pub(crate) fn describe(
    object: &Value,
    events: Option<&[Value]>,
    now: DateTime<Utc>,
    color: bool,
) -> String {
    let mut page = Page { text: String::new(), color };
    head(&mut page, object, now);
    for (key, value) in object.as_object().into_iter().flatten() {
        match key.as_str() {
            "apiVersion" | "kind" | "metadata" | "status" => {}
            "data" | "stringData" | "binaryData" if is_secret(object) || key == "binaryData" => {
                page.section("Data");
                page.block(&sizes(value));
            }
            _ if is_scalar(value) => {}
            _ => {
                page.section(&title(key));
                page.yaml(value);
            }
        }
    }
    if let Some(status) = object["status"].as_object() {
        describe_status(&mut page, status, now);
    }
    match events {
        None => page.section("Events: cannot be read with these credentials"),
        Some([]) => page.section("Events: none"),
        Some(events) => {
            page.section("Events");
            let rows = events
                .iter()
                .map(|event| {
                    let mut row = events::row(event, now);
                    row[3] = source(event);
                    row
                })
                .collect();
            page.block(&table::simple(
                &["LAST SEEN", "TYPE", "REASON", "FROM", "MESSAGE"],
                rows,
                color,
            ));
        }
    }
    page.text
}

struct Page {
    text: String,
    color: bool,
}

impl Page {
    fn field(&mut self, name: &str, value: &str) {
        self.text.push_str(&format!("{:<13} {value}\n", format!("{name}:")));
    }

    fn section(&mut self, name: &str) {
        self.text.push_str(&format!("\n{}\n", Tone::Bold.paint(name, self.color)));
    }

    fn block(&mut self, text: &str) {
        for line in text.lines() {
            self.text.push_str(&format!("  {line}\n"));
        }
    }

    fn yaml(&mut self, value: &Value) {
        match yaml::to_string(value) {
            Ok(text) => self.block(&text),
            Err(_) => self.block(&value.to_string()),
        }
    }
}

fn head(page: &mut Page, object: &Value, now: DateTime<Utc>) {
    let metadata = &object["metadata"];
    let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
    page.field("Name", &text("name"));
    if metadata["namespace"].is_string() {
        page.field("Namespace", &text("namespace"));
    }
    page.field("Kind", &format!("{} ({})", plain(&object["kind"]), plain(&object["apiVersion"])));
    let created = metadata["creationTimestamp"].as_str();
    page.field(
        "Created",
        &format!("{} ({} ago)", created.unwrap_or("-"), clock::age_of(created, now)),
    );
    if let Some(generation) = metadata["generation"].as_i64() {
        let observed = object["status"]["observedGeneration"].as_i64();
        let note = match observed {
            Some(seen) if seen != generation => format!(" (the status is about {seen})"),
            _ => String::new(),
        };
        page.field("Generation", &format!("{generation}{note}"));
    }
    page.field("UID", &text("uid"));
    for (key, value) in object.as_object().into_iter().flatten() {
        if is_scalar(value) && !["apiVersion", "kind"].contains(&key.as_str()) {
            page.field(&title(key), &plain(value).replace('\n', " "));
        }
    }
    pairs(page, "Labels", &metadata["labels"]);
    pairs(page, "Annotations", &metadata["annotations"]);
    let owners: Vec<String> = metadata["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|o| format!("{}/{}", plain(&o["kind"]).to_lowercase(), plain(&o["name"])))
        .collect();
    if !owners.is_empty() {
        page.field("Owned by", &owners.join(", "));
    }
    let finalizers: Vec<String> =
        metadata["finalizers"].as_array().into_iter().flatten().map(plain).collect();
    if let Some(since) = metadata["deletionTimestamp"].as_str() {
        let what = match finalizers.is_empty() {
            true => String::new(),
            false => format!(", waits for {}", finalizers.join(", ")),
        };
        let age = clock::age_of(Some(since), now);
        page.field("Deleting", &format!("since {since} ({age} ago){what}"));
    } else if !finalizers.is_empty() {
        page.field("Finalizers", &finalizers.join(", "));
    }
}

fn pairs(page: &mut Page, name: &str, map: &Value) {
    let mut heading = name;
    for (key, value) in map.as_object().into_iter().flatten() {
        if COPIES.contains(&key.as_str()) {
            continue;
        }
        let value = plain(value).replace('\n', " ");
        match heading {
            "" => page.text.push_str(&format!("{:<13} {key}={value}\n", "")),
            heading => page.field(heading, &format!("{key}={value}")),
        }
        heading = "";
    }
}

fn describe_status(page: &mut Page, status: &Map<String, Value>, now: DateTime<Utc>) {
    let mut rest = status.clone();
    let conditions = take_objects(&mut rest, "conditions");
    let stages = take_objects(&mut rest, "stages");
    rest.remove("observedGeneration");
    if !rest.is_empty() {
        page.section("Status");
        page.yaml(&Value::Object(rest));
    }
    if !conditions.is_empty() {
        page.section("Conditions");
        let rows = conditions.iter().map(|c| condition(c, now)).collect();
        let header = ["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"];
        page.block(&table::simple(&header, rows, page.color));
    }
    if !stages.is_empty() {
        page.section("Stages");
        let rows = stages.iter().map(|s| stage(s, now)).collect();
        let header = ["STAGE", "STATE", "PROGRESS", "TOOK", "MESSAGE"];
        page.block(&table::simple(&header, rows, page.color));
    }
}

/// Takes a list of objects out, and leaves anything else where it is.
fn take_objects(map: &mut Map<String, Value>, key: &str) -> Vec<Value> {
    let fits =
        map.get(key).and_then(Value::as_array).is_some_and(|l| l.iter().all(Value::is_object));
    match fits.then(|| map.remove(key)).flatten() {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn condition(condition: &Value, now: DateTime<Utc>) -> Vec<String> {
    let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
    vec![
        text("type"),
        text("status"),
        text("reason"),
        clock::age_of(condition["lastTransitionTime"].as_str(), now),
        text("message").replace('\n', " "),
    ]
}

/// A stage of a change: done, under way with its percentage, or still to come.
fn stage(stage: &Value, now: DateTime<Utc>) -> Vec<String> {
    let first = |keys: &[&str]| keys.iter().find_map(|key| stage[*key].as_str()).map(str::to_owned);
    let start = first(&["startTime", "startedAt", "start"]);
    let end = first(&["endTime", "completionTime", "finishedAt", "completedAt", "end"]);
    let percent = stage["percent"].as_i64().or(stage["progress"].as_i64());
    let state = first(&["state", "status", "phase"]).unwrap_or_else(|| {
        match (&start, &end) {
            (_, Some(_)) => "Completed",
            (Some(_), None) => "Running",
            (None, None) => "Pending",
        }
        .to_owned()
    });
    let percent = percent.or(end.is_some().then_some(100));
    let took =
        match (start.as_deref().and_then(clock::parse), end.as_deref().and_then(clock::parse)) {
            (Some(start), Some(end)) => clock::age((end - start).num_seconds()),
            (Some(start), None) => clock::age((now - start).num_seconds()),
            _ => "-".to_owned(),
        };
    vec![
        first(&["name", "stage"]).unwrap_or_default(),
        state,
        bar(percent),
        took,
        first(&["message", "error"]).unwrap_or_default().replace('\n', " "),
    ]
}

/// `█████░░░░░  50%`.
fn bar(percent: Option<i64>) -> String {
    let Some(percent) = percent else { return "-".to_owned() };
    let percent = percent.clamp(0, 100);
    let full = usize::try_from(percent / 10).unwrap_or(0);
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(10 - full))
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

fn is_secret(object: &Value) -> bool {
    object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

/// The keys of a Secret with the sizes of their values, never the values.
fn sizes(data: &Value) -> String {
    let mut text = String::new();
    for (key, value) in data.as_object().into_iter().flatten() {
        let encoded = value.as_str().unwrap_or_default();
        let padding = encoded.bytes().rev().take_while(|b| *b == b'=').count();
        let size = (encoded.len() / 4 * 3).saturating_sub(padding);
        text.push_str(&format!("{key}: {size} bytes\n"));
    }
    text
}

fn source(event: &Value) -> String {
    let component = event["source"]["component"].as_str().filter(|c| !c.is_empty());
    component.or(event["reportingComponent"].as_str()).unwrap_or("-").to_owned()
}

/// `powerState` as a heading: `Power state`.
fn title(key: &str) -> String {
    let mut text = String::new();
    for (i, c) in key.chars().enumerate() {
        match i {
            0 => text.extend(c.to_uppercase()),
            _ if c.is_uppercase() => {
                text.push(' ');
                text.extend(c.to_lowercase());
            }
            _ => text.push(c),
        }
    }
    text
}

/// What the events of an object are found by.
pub(crate) fn event_selector(object: &Value) -> String {
    let metadata = &object["metadata"];
    match metadata["uid"].as_str() {
        Some(uid) if !uid.is_empty() => format!("involvedObject.uid={uid}"),
        _ => {
            let name = json!(metadata["name"]);
            format!(
                "involvedObject.name={},involvedObject.kind={}",
                plain(&name),
                plain(&object["kind"])
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> DateTime<Utc> {
        clock::parse("2026-01-01T01:00:00Z").unwrap()
    }

    #[test]
    fn a_machine_shows_conditions_stages_and_events() {
        let object = json!({"apiVersion": "infra.virtrigaud.io/v1beta1", "kind": "VirtualMachine",
            "metadata": {"name": "web", "namespace": "prod", "uid": "u", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b", "c": "d"},
                "deletionTimestamp": "2026-01-01T00:59:00Z", "finalizers": ["f/x"],
                "ownerReferences": [{"kind": "VMSet", "name": "s"}]},
            "spec": {"powerState": "On", "disks": [{"name": "root"}]},
            "status": {"phase": "Provisioning", "observedGeneration": 2,
                "conditions": [{"type": "Ready", "status": "False", "reason": "Waiting",
                    "lastTransitionTime": "2026-01-01T00:55:00Z", "message": "for an\naddress"}],
                "stages": [
                    {"name": "clone_template", "startTime": "2026-01-01T00:50:00Z", "endTime": "2026-01-01T00:51:00Z"},
                    {"name": "start_vm", "startTime": "2026-01-01T00:59:30Z", "percent": 40, "message": "booting"},
                    {"name": "register"}]}});
        let events = [json!({"type": "Normal", "reason": "Made", "message": "made",
            "lastTimestamp": "2026-01-01T00:59:00Z", "source": {"component": "vm"}})];
        let text = describe(&object, Some(&events), now(), false);
        for line in [
            "Name:         web\n",
            "Kind:         VirtualMachine (infra.virtrigaud.io/v1beta1)\n",
            "Generation:   3 (the status is about 2)\n",
            "Labels:       a=b\n              c=d\n",
            "Owned by:     vmset/s\n",
            "waits for f/x\n",
            "  phase: Provisioning\n",
            "  Ready   False    Waiting   5m      for an address\n",
            "clone_template   Completed   ██████████ 100%   60s",
            "start_vm         Running     ████░░░░░░  40%   30s    booting",
            "register         Pending     -",
            "  60s         Normal   Made     vm     made\n",
        ] {
            assert!(text.contains(line), "{line:?} in\n{text}");
        }
        assert!(!text.contains("conditions:"), "{text}");
    }

    #[test]
    fn secrets_show_sizes_only() {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "s", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":\"czNjcmV0\"}"}},
            "data": {"password": "czNjcmV0", "empty": ""}});
        let text = describe(&object, Some(&[]), now(), false);
        assert!(text.contains("password: 6 bytes") && text.contains("empty: 0 bytes"), "{text}");
        assert!(!text.contains("czNjcmV0"), "{text}");
    }
}
