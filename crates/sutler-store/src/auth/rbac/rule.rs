//! One rule of a role, and what it allows.

use serde_json::{Map, Value};

use super::Attributes;
use crate::auth::gofmt;

/// Verbs on resources, or verbs on URL paths.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    /// API groups; `*` means all.
    pub api_groups: Vec<String>,
    /// Resources, `resource/subresource` or `*/subresource`; `*` means all.
    pub resources: Vec<String>,
    /// When not empty, only objects with one of these names.
    pub resource_names: Vec<String>,
    /// Paths; a trailing `*` matches every path that starts so.
    pub non_resource_urls: Vec<String>,
    /// Verbs; `*` means all.
    pub verbs: Vec<String>,
}

impl Rule {
    /// Reads one entry of a role's `rules`. What is not a list of strings counts as absent:
    /// validation has seen to the rest before the object was stored.
    pub fn from_value(value: &Value) -> Self {
        let list = |key: &str| strings(value.get(key));
        Self {
            api_groups: list("apiGroups"),
            resources: list("resources"),
            resource_names: list("resourceNames"),
            non_resource_urls: list("nonResourceURLs"),
            verbs: list("verbs"),
        }
    }

    /// The rules of a Role or ClusterRole, as its `rules` field has them.
    pub fn list_of(role: &Value) -> Vec<Self> {
        let rules = role.get("rules").and_then(Value::as_array);
        rules.into_iter().flatten().map(Self::from_value).collect()
    }

    /// The rule as an entry of a role's `rules`; empty lists are left out.
    pub fn to_value(&self) -> Value {
        let mut out = Value::Object(Map::new());
        put(&mut out, "apiGroups", &self.api_groups);
        put(&mut out, "resources", &self.resources);
        put(&mut out, "resourceNames", &self.resource_names);
        put(&mut out, "nonResourceURLs", &self.non_resource_urls);
        out["verbs"] = self.verbs.as_slice().into();
        out
    }

    /// Whether this rule lets the request through.
    pub fn allows(&self, request: &Attributes<'_>) -> bool {
        if !has_or_all(&self.verbs, request.verb) {
            return false;
        }
        if !request.is_resource {
            return self.non_resource_urls.iter().any(|url| url_covers(url, request.path));
        }
        has_or_all(&self.api_groups, request.group)
            && self.resources.iter().any(|r| resource_matches(r, request))
            && (self.resource_names.is_empty() || has(&self.resource_names, request.name))
    }

    /// The form that refusals of privilege escalation list.
    pub(super) fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", gofmt::quote_list(list)))
            .collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// Sets `key` to the list unless it is empty.
pub(super) fn put(object: &mut Value, key: &str, list: &[String]) {
    if !list.is_empty() {
        object[key] = list.into();
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted)
}

pub(super) fn has_or_all(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == wanted || item == "*")
}

/// Whether a rule's path reaches `path`: equal, or all of it before trailing stars is a prefix.
pub(super) fn url_covers(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

fn resource_matches(rule: &str, request: &Attributes<'_>) -> bool {
    if rule == "*" {
        return true;
    }
    if request.subresource.is_empty() {
        return rule == request.resource;
    }
    match rule.split_once('/') {
        // A subresource may itself hold slashes; only the first one separates.
        Some((resource, subresource)) => {
            subresource == request.subresource && (resource == "*" || resource == request.resource)
        }
        None => false,
    }
}
