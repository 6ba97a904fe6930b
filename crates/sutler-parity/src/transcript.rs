//! What a case saw, with generated values replaced by names.
//!
//! Versions become `rv1 < rv2 < …` in their order, so that equality and order are compared and
//! values are not; UIDs and generated names become numbered names in the order in which they appear;
//! times, addresses and tokens become placeholders. The version of a list is not compared with
//! those of objects, because other cases write at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// What controllers are called, there and here: nothing that clients rely on.
const CONTROLLERS: &[&str] = &[
    "kube-controller-manager",
    "clusterrole-aggregation-controller",
    "disruption-controller",
    "generic-garbage-collector",
    "namespace-controller",
];

/// One request and what came back.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The request in short.
    pub label: String,
    /// The status code.
    pub status: u16,
    /// Headers that are part of the contract.
    pub headers: Vec<(String, String)>,
    /// The body, or the events of a watch.
    pub body: Vec<Value>,
}

/// The lines of a transcript, fit for comparison.
pub fn normalise(entries: &[Entry], namespace: &str) -> Vec<String> {
    let mut names = Names::default();
    for body in entries.iter().flat_map(|entry| &entry.body) {
        names.collect(body);
    }
    let names = Renamed::new(names, namespace);
    let mut lines = Vec::new();
    for entry in entries {
        let label = VERSION_IN_QUERY.replace_all(&entry.label, "${1}<rv>");
        lines.push(format!("> {}", names.text(&label)));
        lines.push(format!("< {}", entry.status));
        for (name, value) in &entry.headers {
            lines.push(format!("< {name}: {}", names.text(value)));
        }
        for body in &entry.body {
            let mut body = body.clone();
            names.rewrite(&mut body, "");
            let text = serde_json::to_string_pretty(&body).unwrap_or_default();
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    lines
}

#[derive(Default)]
struct Names {
    versions: BTreeSet<u64>,
    uids: Vec<String>,
    generated: BTreeMap<String, String>,
}

impl Names {
    fn collect(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(map) => {
                if let Some(metadata) = map.get("metadata") {
                    self.collect_metadata(metadata, is_list(value));
                }
                map.values().for_each(|value| self.collect(value));
            }
            Value::String(text) => {
                for found in UUID.find_iter(text) {
                    if !self.uids.iter().any(|uid| uid == found.as_str()) {
                        self.uids.push(found.as_str().to_owned());
                    }
                }
            }
            _ => {}
        }
    }

    fn collect_metadata(&mut self, metadata: &Value, list: bool) {
        let version = metadata["resourceVersion"].as_str().and_then(|v| v.parse().ok());
        if let (Some(version), false) = (version, list) {
            self.versions.insert(version);
        }
        let (Some(name), Some(prefix)) =
            (metadata["name"].as_str(), metadata["generateName"].as_str())
        else {
            return;
        };
        // A long prefix is cut so that the name is a label.
        let prefix = prefix.get(..58).unwrap_or(prefix);
        if name.len() == prefix.len() + 5 && name.starts_with(prefix) {
            let next = self.generated.len() + 1;
            self.generated.entry(name.to_owned()).or_insert_with(|| format!("{prefix}<gen{next}>"));
        }
    }
}

/// Whether the version in its metadata is that of a moment, not of an object.
fn is_list(value: &Value) -> bool {
    let kind = value["kind"].as_str().unwrap_or_default();
    value.get("items").is_some()
        || kind == "Table"
        || kind.ends_with("List")
        || value["metadata"]["annotations"]["k8s.io/initial-events-end"].is_string()
}

struct Renamed {
    namespace: String,
    versions: BTreeMap<u64, String>,
    uids: BTreeMap<String, String>,
    generated: BTreeMap<String, String>,
}

impl Renamed {
    fn new(names: Names, namespace: &str) -> Self {
        let label = |prefix: &str, index: usize| format!("{prefix}{}", index + 1);
        Self {
            namespace: namespace.to_owned(),
            versions: names
                .versions
                .into_iter()
                .enumerate()
                .map(|(index, version)| (version, label("rv", index)))
                .collect(),
            uids: names
                .uids
                .into_iter()
                .enumerate()
                .map(|(index, uid)| (uid, label("uid-", index)))
                .collect(),
            generated: names.generated,
        }
    }

    fn version(&self, text: &str) -> String {
        let known = text.parse().ok().and_then(|version: u64| self.versions.get(&version));
        known.cloned().unwrap_or_else(|| if text == "0" { "0".into() } else { "<rv>".into() })
    }

    fn rewrite(&self, value: &mut Value, key: &str) {
        let list = is_list(value);
        match value {
            Value::Array(items) => {
                if key == "managedFields" {
                    // Entries of one operation are ordered by time, in whole seconds, and only
                    // then by name: the order tells how fast the machine was.
                    items.sort_by_cached_key(manager_key);
                }
                if key == "columnDefinitions" {
                    items.iter_mut().for_each(hide_prose);
                }
                let cells = key == "cells";
                for item in items {
                    match item {
                        Value::String(text) if cells && AGE.is_match(text) => {
                            *text = "<age>".to_owned();
                        }
                        item => self.rewrite(item, key),
                    }
                }
            }
            Value::Object(map) => {
                if map.contains_key("details") {
                    sort_causes(map);
                }
                if map.keys().any(|key| UUID.is_match(key)) {
                    *map = std::mem::take(map)
                        .into_iter()
                        .map(|(key, value)| (self.text(&key), value))
                        .collect();
                }
                for (key, value) in map.iter_mut() {
                    match (key.as_str(), &mut *value) {
                        ("metadata", Value::Object(metadata)) if list => {
                            self.rewrite_list_metadata(metadata);
                        }
                        ("resourceVersion", Value::String(text)) if !text.is_empty() => {
                            *text = self.version(text);
                        }
                        ("clusterIP" | "ip", Value::String(text)) if CLUSTER_IP.is_match(text) => {
                            *text = "<cluster-ip>".to_owned();
                        }
                        ("clusterIPs", Value::Array(ips)) => {
                            for ip in ips {
                                if ip.as_str().is_some_and(|ip| CLUSTER_IP.is_match(ip)) {
                                    *ip = "<cluster-ip>".into();
                                }
                            }
                        }
                        ("nodePort", Value::Number(_)) => *value = "<node-port>".into(),
                        ("continue", Value::String(token)) if !token.is_empty() => {
                            *token = "<continue>".to_owned();
                        }
                        ("manager", Value::String(name))
                            if CONTROLLERS.contains(&name.as_str()) =>
                        {
                            *name = "<controller>".to_owned();
                        }
                        (key, value) => self.rewrite(value, key),
                    }
                }
            }
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    fn rewrite_list_metadata(&self, metadata: &mut serde_json::Map<String, Value>) {
        for (key, value) in metadata.iter_mut() {
            match (key.as_str(), &mut *value) {
                ("resourceVersion", Value::String(text)) if !text.is_empty() => {
                    *text = "<list-rv>".to_owned();
                }
                ("continue", Value::String(text)) if !text.is_empty() => {
                    *text = "<continue>".to_owned();
                }
                (key, value) => self.rewrite(value, key),
            }
        }
    }

    fn text(&self, text: &str) -> String {
        let text = text.replace(&self.namespace, "<ns>");
        let text = UUID.replace_all(&text, |found: &Captures<'_>| {
            self.uids.get(&found[0]).cloned().unwrap_or_else(|| "<uid>".to_owned())
        });
        let text =
            TIME.replace_all(
                &text,
                |found: &Captures<'_>| {
                    if found.get(1).is_some() { "<microtime>" } else { "<time>" }
                },
            );
        let text = VERSION_IN_TEXT.replace_all(&text, |found: &Captures<'_>| {
            format!("{}{}", &found[1], self.version(&found[2]))
        });
        let text = WHOLE_OBJECT.replace_all(&text, "Invalid value: \"<object>\"");
        let text = SCHEME.replace_all(&text, "in scheme <scheme>");
        let text = TOO_OLD.replace_all(&text, "${1}<rv> (<rv>)");
        let text = TOO_LARGE.replace_all(&text, "${1}<rv>, current: <rv>");
        let text = TOKEN_IN_QUERY.replace_all(&text, "continue=<continue>");
        let mut text = text.into_owned();
        for (name, label) in &self.generated {
            if text.contains(name) {
                text = text.replace(name, label);
            }
        }
        text
    }
}

/// What columns of built-in kinds are for is prose, and everybody's own; descriptions that come from
/// a CRD, or are made of it, are compared.
fn hide_prose(column: &mut Value) {
    const FROM_CRDS: &[&str] = &["Custom resource definition column", "How big it is."];
    if let Some(Value::String(text)) = column.get_mut("description")
        && !FROM_CRDS.iter().any(|start| text.starts_with(start))
    {
        *text = "<prose>".to_owned();
    }
}

/// The real server lists causes in the order of a hash map, different every time; the message names
/// them in that order too.
fn sort_causes(status: &mut serde_json::Map<String, Value>) {
    let Some(causes) = status
        .get_mut("details")
        .and_then(|details| details.get_mut("causes"))
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let text = |cause: &Value| {
        let of = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", of("field"), of("message"))
    };
    let told: Vec<String> = causes.iter().map(text).collect();
    causes.sort_by_cached_key(text);
    let sorted: Vec<String> = causes.iter().map(text).collect();
    if let Some(Value::String(message)) = status.get_mut("message") {
        *message = message.replace(&told.join(", "), &sorted.join(", "));
    }
}

fn manager_key(entry: &Value) -> String {
    ["operation", "manager", "subresource", "apiVersion"]
        .map(|key| entry[key].as_str().unwrap_or_default())
        .join("\u{0}")
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is a constant")
}

static UUID: LazyLock<Regex> =
    LazyLock::new(|| regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
/// Times of fixtures are before 2020, generated ones are not.
static TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"));
static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(\d+[smhdy])+( ago)?$"));
static CLUSTER_IP: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^10\.(9[6-9]|10\d|11[01])\.\d+\.\d+$"));
static VERSION_IN_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"(ResourceVersion in (?:precondition: |object meta: |the precondition \(|record \())(\d+)",
    )
});
/// In a request it may be a list's, which is not compared.
static VERSION_IN_QUERY: LazyLock<Regex> = LazyLock::new(|| regex(r"(resourceVersion=)[1-9]\d*"));
/// A place in somebody's source is nothing to rely on.
static SCHEME: LazyLock<Regex> = LazyLock::new(|| regex(r#"in scheme "[^"]*""#));
/// A refused patch quotes the whole object in the server's own order of fields.
static WHOLE_OBJECT: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"Invalid value: "\{.*\\"metadata\\".*\}""#));
static TOO_OLD: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(too old resource version: )\d+ \(\d+\)"));
static TOO_LARGE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(Too large resource version: )\d+, current: \d+"));
static TOKEN_IN_QUERY: LazyLock<Regex> = LazyLock::new(|| regex(r"continue=[A-Za-z0-9%_=-]{20,}"));

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(body: Value) -> Entry {
        Entry { label: "GET x".into(), status: 200, headers: Vec::new(), body: vec![body] }
    }

    #[test]
    fn versions_keep_their_order_and_not_their_value() {
        let of = |a: &str, b: &str| {
            let object = |rv: &str| entry(json!({"metadata": {"resourceVersion": rv}}));
            normalise(&[object(a), object(b)], "ns")
        };
        assert_eq!(of("7", "12"), of("100", "1000"));
        assert_ne!(of("7", "12"), of("12", "7"));
        assert_ne!(of("7", "12"), of("7", "7"));
    }

    #[test]
    fn generated_values_become_names() {
        let lines = normalise(
            &[entry(json!({
                "metadata": {
                    "name": "a-x7k2p", "generateName": "a-", "namespace": "p-1-abc",
                    "uid": "01234567-89ab-cdef-0123-456789abcdef",
                    "creationTimestamp": "2026-11-15T10:00:00Z",
                },
                "spec": {"born": "2001-01-01T00:00:00Z"},
                "message": "a-x7k2p in p-1-abc",
            }))],
            "p-1-abc",
        );
        let text = lines.join("\n");
        for expected in ["a-<gen1>", "\"<ns>\"", "uid-1", "<time>", "2001-01-01T00:00:00Z"] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert!(!text.contains("x7k2p"), "{text}");
    }

    #[test]
    fn causes_are_compared_as_a_set() {
        let of = |fields: [&str; 2]| {
            let cause = |field: &str| json!({"field": field, "message": "bad", "reason": "R"});
            entry(json!({
                "kind": "Status", "details": {"causes": fields.map(cause)},
                "message": format!("x is invalid: [{}: bad, {}: bad]", fields[0], fields[1]),
            }))
        };
        assert_eq!(normalise(&[of(["a", "b"])], "n"), normalise(&[of(["b", "a"])], "n"));
        assert_ne!(normalise(&[of(["a", "b"])], "n"), normalise(&[of(["b", "c"])], "n"));
    }

    #[test]
    fn managers_are_compared_as_a_set() {
        let of = |a: &str, b: &str| {
            entry(json!({"metadata": {"managedFields": [
                {"manager": a, "operation": "Update"}, {"manager": b, "operation": "Update"},
            ]}}))
        };
        assert_eq!(normalise(&[of("a", "b")], "n"), normalise(&[of("b", "a")], "n"));
        assert_ne!(normalise(&[of("a", "b")], "n"), normalise(&[of("b", "c")], "n"));
    }
}
