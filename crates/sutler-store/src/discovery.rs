//! Which groups, versions and resources there are: the old documents and the aggregated one.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sutler_builtin::{Role, Subresource, reviews};

use crate::registry::{Flavor, Registry, Resource};

/// Groups in the order in which clients prefer them, each with its versions.
fn groups(registry: &Registry) -> Vec<(String, Vec<String>)> {
    let mut order: Vec<String> = Vec::new();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let own = registry.iter().map(|r| (r.group.as_str(), r.version.as_str()));
    let asked = reviews().iter().map(|kind| (kind.group, kind.version));
    for (group, version) in own.chain(asked) {
        if group.is_empty() {
            continue;
        }
        let known = versions.entry(group.to_owned()).or_insert_with(|| {
            order.push(group.to_owned());
            Vec::new()
        });
        if !known.iter().any(|v| v == version) {
            known.push(version.to_owned());
        }
    }
    order
        .into_iter()
        .map(|group| (group.clone(), versions.remove(&group).unwrap_or_default()))
        .collect()
}

/// `/api`.
pub(crate) fn api_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`.
pub(crate) fn api_groups(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        groups(registry).iter().map(|(group, versions)| group_body(group, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/<group>`.
pub(crate) fn api_group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = groups(registry);
    let (group, versions) = groups.iter().find(|(group, _)| group == name)?;
    let mut body = group_body(group, versions);
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    Some(body)
}

fn group_body(group: &str, versions: &[String]) -> Value {
    let version = |v: &String| json!({"groupVersion": format!("{group}/{v}"), "version": v});
    json!({
        "name": group,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

/// `/api/v1` and `/apis/<group>/<version>`.
pub(crate) fn api_resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for resource in registry.iter().filter(|r| r.group == group && r.version == version) {
        resources.push(main_entry(resource));
        resources.extend(subresources(resource).into_iter().map(|sub| sub.old_entry(resource)));
    }
    for kind in reviews().iter().filter(|k| k.group == group && k.version == version) {
        resources.push(json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": ["create"],
        }));
    }
    if group.is_empty() && version == "v1" {
        resources.push(json!({
            "name": "bindings", "singularName": "binding", "namespaced": true, "kind": "Binding",
            "verbs": ["create"],
        }));
    }
    if resources.is_empty() {
        return None;
    }
    resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut body = json!({
        "kind": "APIResourceList", "groupVersion": group_version, "resources": resources,
    });
    if !group.is_empty() {
        body["apiVersion"] = "v1".into();
    }
    Some(body)
}

fn main_entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural, "singularName": resource.singular,
        "namespaced": resource.namespaced, "kind": resource.kind, "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    entry["storageVersionHash"] = storage_hash(resource).into();
    entry
}

/// Tells clients apart whether the stored form changed; any stable text does.
fn storage_hash(resource: &Resource) -> String {
    use base64::Engine;
    use sha2::Digest;
    let text = format!("{}/{}/{}", resource.group, resource.version, resource.kind);
    let digest = sha2::Sha256::digest(text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

/// The verbs of a resource.
pub(crate) fn verbs(resource: &Resource) -> &'static [&'static str] {
    match &resource.flavor {
        Flavor::Builtin(kind) if kind.role == Role::ReadOnly => &["get", "list", "watch"],
        Flavor::Builtin(kind) if !kind.deletecollection => {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        }
        Flavor::Builtin(_) => {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
        Flavor::Custom(_) => {
            &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
        }
    }
}

struct Sub {
    name: &'static str,
    group: &'static str,
    version: &'static str,
    kind: Option<&'static str>,
    verbs: &'static [&'static str],
}

fn subresources(resource: &Resource) -> Vec<Sub> {
    let mut subs = Vec::new();
    let read_only = matches!(&resource.flavor, Flavor::Builtin(k) if k.role == Role::ReadOnly);
    let own = Sub {
        name: "status",
        group: "",
        version: "",
        kind: None,
        verbs: if read_only { &["get"] } else { &["get", "patch", "update"] },
    };
    if resource.status {
        subs.push(own);
    }
    if resource.scale.is_some() {
        subs.push(Sub {
            name: "scale",
            group: "autoscaling",
            version: "v1",
            kind: Some("Scale"),
            verbs: &["get", "patch", "update"],
        });
    }
    let others = resource.builtin().map(|kind| kind.subresources).unwrap_or_default();
    for other in others {
        match other {
            Subresource::Binding => subs.push(Sub {
                name: "binding",
                group: "",
                version: "",
                kind: Some("Binding"),
                verbs: &["create"],
            }),
            Subresource::Eviction => subs.push(Sub {
                name: "eviction",
                group: "policy",
                version: "v1",
                kind: Some("Eviction"),
                verbs: &["create"],
            }),
            Subresource::Finalize => subs.push(Sub {
                name: "finalize",
                group: "",
                version: "",
                kind: None,
                verbs: &["update"],
            }),
            Subresource::Scale | Subresource::Status => {}
        }
    }
    subs
}

impl Sub {
    fn kind<'a>(&self, resource: &'a Resource) -> &'a str
    where
        Self: 'a,
    {
        match self.kind {
            Some(kind) => kind,
            None => &resource.kind,
        }
    }

    fn old_entry(&self, resource: &Resource) -> Value {
        let mut entry = json!({
            "name": format!("{}/{}", resource.plural, self.name), "singularName": "",
            "namespaced": resource.namespaced, "kind": self.kind(resource), "verbs": self.verbs,
        });
        if !self.group.is_empty() {
            entry["group"] = self.group.into();
            entry["version"] = self.version.into();
        }
        entry
    }

    fn new_entry(&self, resource: &Resource) -> Value {
        let (group, version) = match self.group {
            "" => own_names(resource),
            group => (group, self.version),
        };
        json!({
            "subresource": self.name,
            "responseKind": {"group": group, "version": version, "kind": self.kind(resource)},
            "verbs": self.verbs,
        })
    }
}

/// Group and version of a kind where the group is clear: built-in kinds leave them out.
fn own_names(resource: &Resource) -> (&str, &str) {
    match resource.custom() {
        Some(_) => (&resource.group, &resource.version),
        None => ("", ""),
    }
}

/// `/api` and `/apis` in the aggregated form: everything in one answer.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Value {
    let list: Vec<(String, Vec<String>)> =
        if core { vec![(String::new(), vec!["v1".into()])] } else { groups(registry) };
    let items: Vec<Value> = list
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| aggregated_version(registry, group, version))
                .collect();
            let metadata = if core {
                json!({"creationTimestamp": null})
            } else {
                json!({"name": group, "creationTimestamp": null})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let mut resources: Vec<Value> = registry
        .iter()
        .filter(|r| r.group == group && r.version == version)
        .map(|resource| {
            let mut subs = subresources(resource);
            if resource.builtin().is_some() {
                subs.sort_by_key(|sub| sub.name);
            }
            let subs: Vec<Value> = subs.iter().map(|sub| sub.new_entry(resource)).collect();
            let (kind_group, kind_version) = own_names(resource);
            let kind = json!({"group": kind_group, "version": kind_version, "kind": resource.kind});
            let mut entry = json!({
                "resource": resource.plural,
                "responseKind": kind,
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": resource.singular,
                "verbs": verbs(resource),
            });
            if !resource.short_names.is_empty() {
                entry["shortNames"] = json!(resource.short_names);
            }
            if !resource.categories.is_empty() {
                entry["categories"] = json!(resource.categories);
            }
            if !subs.is_empty() {
                entry["subresources"] = json!(subs);
            }
            entry
        })
        .collect();
    for kind in reviews().iter().filter(|k| k.group == group && k.version == version) {
        resources.push(json!({
            "resource": kind.plural,
            "responseKind": {"group": group, "version": version, "kind": kind.kind},
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": kind.singular, "verbs": ["create"],
        }));
    }
    if group.is_empty() && version == "v1" {
        resources.push(json!({
            "resource": "bindings",
            "responseKind": {"group": "", "version": "", "kind": "Binding"},
            "scope": "Namespaced", "singularResource": "binding", "verbs": ["create"],
        }));
    }
    resources.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    json!({"version": version, "freshness": "Current", "resources": resources})
}
