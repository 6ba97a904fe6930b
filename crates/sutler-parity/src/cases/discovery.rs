//! Discovery and OpenAPI: what is served by both must be described alike.

use serde_json::{Value, json};

use crate::case::{Call, Case, Reply};
use crate::suite::subject;

subject!("discovery":
    api_versions, groups, group, core_resources, apps_resources, policy_resources, rbac_resources, coordination_resources, storage_resources, custom_resources, missing,
    aggregated, aggregated_core, aggregated_fallback, openapi_index, openapi_toys, openapi_core, openapi_v2, version, unauthenticated, negotiated,
);

/// The kinds that both serve, by group and version.
const KINDS: &[(&str, &[&str])] = &[
    (
        "v1",
        &[
            "bindings",
            "configmaps",
            "events",
            "namespaces",
            "nodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "secrets",
            "serviceaccounts",
            "services",
        ],
    ),
    ("apps/v1", &["daemonsets", "deployments", "replicasets"]),
    ("policy/v1", &["poddisruptionbudgets"]),
    (
        "rbac.authorization.k8s.io/v1",
        &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
    ),
    ("coordination.k8s.io/v1", &["leases"]),
    ("storage.k8s.io/v1", &["storageclasses"]),
    ("parity.sutler.dev/v1", &["toys", "plains", "worlds"]),
];

/// Subresources of built-in kinds that need what is not here: kubelets, tokens, other controllers.
const BEYOND: &[&str] = &[
    "attach",
    "exec",
    "log",
    "portforward",
    "proxy",
    "ephemeralcontainers",
    "resize",
    "token",
    "finalize",
];

fn quiet(c: &Case, path: &str) -> Reply {
    c.call(&Call::new("GET", path).quiet())
}

fn ours(name: &str, kinds: &[&str]) -> bool {
    let (kind, sub) = name.split_once('/').unwrap_or((name, ""));
    kinds.contains(&kind) && !BEYOND.contains(&sub)
}

/// The resources of a group's version that both serve, without the hash of the stored form.
fn resources(c: &Case, version: &str) {
    let path = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let kinds =
        KINDS.iter().find(|(known, _)| *known == version).map_or(&[][..], |(_, kinds)| kinds);
    let reply =
        quiet(c, &path).is(200).has("/kind", "APIResourceList").has("/groupVersion", version);
    let mut list: Vec<Value> = reply.at("/resources").as_array().cloned().unwrap_or_default();
    list.retain(|resource| ours(resource["name"].as_str().unwrap_or_default(), kinds));
    for resource in &mut list {
        if let Some(map) = resource.as_object_mut() {
            map.remove("storageVersionHash");
        }
    }
    list.sort_by_key(|resource| resource["name"].to_string());
    c.check(!list.is_empty(), "something is served");
    c.note(&path, json!(list));
}

fn api_versions(c: &Case) {
    let reply =
        quiet(c, "/api").is(200).has("/kind", "APIVersions").has("/versions", json!(["v1"]));
    c.check(reply.at("/serverAddressByClientCIDRs").is_array(), "addresses");
}

fn groups(c: &Case) {
    let reply = quiet(c, "/apis").is(200).has("/kind", "APIGroupList").has("/apiVersion", "v1");
    let groups = reply.at("/groups").as_array().cloned().unwrap_or_default();
    for (version, _) in KINDS.iter().skip(1) {
        let name = version.split('/').next().unwrap_or_default();
        let found = groups.iter().find(|group| group["name"] == name).cloned().unwrap_or_default();
        c.check(found.is_object(), name);
        let served = found["versions"].as_array().cloned().unwrap_or_default();
        c.note(name, json!(served.iter().find(|entry| entry["groupVersion"] == *version)));
        c.note("preferred", found["preferredVersion"].clone());
    }
}

fn group(c: &Case) {
    c.get("/apis/parity.sutler.dev")
        .is(200)
        .has("/kind", "APIGroup")
        .has("/name", "parity.sutler.dev");
    c.get("/apis/apps").is(200).has("/preferredVersion/version", "v1");
    c.get("/apis/policy").is(200);
}

fn core_resources(c: &Case) {
    resources(c, "v1");
}

fn apps_resources(c: &Case) {
    resources(c, "apps/v1");
}

fn policy_resources(c: &Case) {
    resources(c, "policy/v1");
}

fn rbac_resources(c: &Case) {
    resources(c, "rbac.authorization.k8s.io/v1");
}

fn coordination_resources(c: &Case) {
    resources(c, "coordination.k8s.io/v1");
}

fn storage_resources(c: &Case) {
    resources(c, "storage.k8s.io/v1");
}

fn custom_resources(c: &Case) {
    resources(c, "parity.sutler.dev/v1");
}

fn missing(c: &Case) {
    c.get("/apis/none.example").is(404);
    c.get("/apis/none.example/v1").is(404);
    c.get("/apis/apps/v9").is(404);
    c.get("/api/v9").is(404);
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The versions of groups that both serve, with their common resources.
fn aggregated_subset(reply: &Reply) -> Value {
    let mut out = Vec::new();
    for group in reply.at("/items").as_array().cloned().unwrap_or_default() {
        let name = group["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        for version in group["versions"].as_array().cloned().unwrap_or_default() {
            let number = version["version"].as_str().unwrap_or_default();
            let full = if name.is_empty() { number.to_owned() } else { format!("{name}/{number}") };
            let Some((_, kinds)) = KINDS.iter().find(|(known, _)| *known == full) else { continue };
            let mut list = version["resources"].as_array().cloned().unwrap_or_default();
            list.retain(|resource| ours(resource["resource"].as_str().unwrap_or_default(), kinds));
            for resource in &mut list {
                let Some(map) = resource.as_object_mut() else { continue };
                let Some(Value::Array(mut subs)) = map.remove("subresources") else { continue };
                subs.retain(|sub| {
                    !BEYOND.contains(&sub["subresource"].as_str().unwrap_or_default())
                });
                if !subs.is_empty() {
                    map.insert("subresources".to_owned(), Value::Array(subs));
                }
            }
            list.sort_by_key(|resource| resource["resource"].to_string());
            out.push(
                json!({"version": full, "freshness": version["freshness"], "resources": list}),
            );
        }
    }
    out.sort_by_key(|version| version["version"].to_string());
    json!(out)
}

fn aggregated(c: &Case) {
    let reply = c.until_call(&Call::new("GET", "/apis").accept(AGGREGATED).quiet(), |reply| {
        reply.body.to_string().contains("parity.sutler.dev")
    });
    let reply = reply
        .is(200)
        .has("/kind", "APIGroupDiscoveryList")
        .has("/apiVersion", "apidiscovery.k8s.io/v2");
    c.note("/apis aggregated", aggregated_subset(&reply));
}

fn aggregated_core(c: &Case) {
    let reply = c.call(&Call::new("GET", "/api").accept(AGGREGATED).quiet()).is(200);
    c.check(reply.headers.get("etag").is_some(), "it can be cached");
    let content = reply.headers.get("content-type").and_then(|value| value.to_str().ok());
    c.note("content type", json!(content));
    c.note("/api aggregated", aggregated_subset(&reply));
    let tag = reply
        .headers
        .get("etag")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let call = Call::new("GET", "/api").accept(AGGREGATED).header("if-none-match", &tag);
    let kept = c.call(&call.quiet()).is(304);
    let content = kept.headers.get("content-type").and_then(|value| value.to_str().ok());
    c.check(content != Some("application/json"), "what is kept is not of another type now");
}

fn aggregated_fallback(c: &Case) {
    let accept = format!(
        "{AGGREGATED},application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    );
    c.call(&Call::new("GET", "/apis").accept(&accept).quiet())
        .is(200)
        .has("/kind", "APIGroupDiscoveryList");
    c.call(&Call::new("GET", "/apis").accept("application/json").quiet())
        .is(200)
        .has("/kind", "APIGroupList");
    c.call(&Call::new("GET", "/apis").accept("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json").quiet()).is(200).has("/kind", "APIGroupList");
    c.call(&Call::new("GET", "/apis/apps/v1").accept(AGGREGATED).quiet());
}

fn openapi_index(c: &Case) {
    let reply = c.until_call(&Call::new("GET", "/openapi/v3").quiet(), |reply| {
        reply.at("/paths/apis~1parity.sutler.dev~1v1").is_object()
    });
    for (version, _) in KINDS {
        let path = if *version == "v1" {
            "api~1v1".to_owned()
        } else {
            format!("apis~1{}", version.replace('/', "~1"))
        };
        let entry =
            reply.at(&format!("/paths/{path}/serverRelativeURL")).as_str().unwrap_or_default();
        c.check(entry.contains("?hash="), version);
        let document = c.call(&Call::new("GET", entry).quiet()).is(200);
        c.check(document.at("/components/schemas").is_object(), "schemas");
    }
}

fn openapi_toys(c: &Case) {
    let call = Call::new("GET", "/openapi/v3/apis/parity.sutler.dev/v1").quiet();
    let reply = c.until_call(&call, |reply| {
        reply.at("/components/schemas/dev.sutler.parity.v1.Toy").is_object()
    });
    for kind in ["Toy", "ToyList", "Plain", "World"] {
        let mut schema =
            reply.at(&format!("/components/schemas/dev.sutler.parity.v1.{kind}")).clone();
        // What is said of the fields that every kind has is prose.
        for field in ["apiVersion", "kind", "metadata", "items"] {
            if let Some(property) =
                schema["properties"].get_mut(field).and_then(Value::as_object_mut)
            {
                property.remove("description");
            }
        }
        c.note(kind, schema);
    }
    let paths = reply.at("/paths").as_object().cloned().unwrap_or_default();
    let verbs = |value: &Value| -> Vec<String> {
        value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    for (path, value) in &paths {
        if path.contains("/toys") || path.contains("/worlds") {
            c.note(path, json!(verbs(value)));
            c.note("kind", value["get"]["x-kubernetes-group-version-kind"].clone());
            c.note("action", value["get"]["x-kubernetes-action"].clone());
        }
    }
}

fn openapi_core(c: &Case) {
    let reply = quiet(c, "/openapi/v3/api/v1").is(200);
    for kind in [
        "ConfigMap",
        "Secret",
        "Pod",
        "Service",
        "Node",
        "Namespace",
        "Event",
        "PersistentVolumeClaim",
    ] {
        let schema = reply.at(&format!("/components/schemas/io.k8s.api.core.v1.{kind}"));
        c.note(kind, json!([schema["x-kubernetes-group-version-kind"], schema["type"]]));
        let properties: Vec<String> = schema["properties"]
            .as_object()
            .map(|map| map.keys().cloned().collect())
            .unwrap_or_default();
        c.note("properties", json!(properties));
    }
}

fn openapi_v2(c: &Case) {
    let reply = c.until_call(&Call::new("GET", "/openapi/v2").quiet(), |reply| {
        reply.at("/definitions/dev.sutler.parity.v1.Toy").is_object()
    });
    c.note(
        "Toy",
        reply.at("/definitions/dev.sutler.parity.v1.Toy/x-kubernetes-group-version-kind").clone(),
    );
    let properties = reply
        .at("/definitions/dev.sutler.parity.v1.Toy/properties/spec/properties")
        .as_object()
        .cloned()
        .unwrap_or_default();
    c.note("properties", json!(properties.keys().collect::<Vec<_>>()));
    c.check(reply.at("/definitions/io.k8s.api.core.v1.ConfigMap").is_object(), "ConfigMap");
}

fn version(c: &Case) {
    let reply = quiet(c, "/version").is(200).has("/major", "1").has("/minor", "36");
    c.check(reply.text("/gitVersion").starts_with("v1.36."), "clients parse it");
}

fn unauthenticated(c: &Case) {
    for path in ["/api", "/apis", "/version", "/openapi/v3", "/openapi/v2", "/apis/apps/v1"] {
        c.call(&Call::new("GET", path).anonymous()).refused(401, "Unauthorized");
    }
    // Whoever is known may read what is served.
    for path in ["/api", "/apis", "/version", "/openapi/v3", "/apis/apps/v1", "/healthz"] {
        c.call(&Call::new("GET", path).user("carol").quiet()).is(200);
    }
    c.call(&Call::new("GET", "/metrics").user("carol")).refused(403, "Forbidden");
    c.call(&Call::new("GET", "/nowhere").user("carol")).refused(403, "Forbidden");
}

fn negotiated(c: &Case) {
    c.call(&Call::new("GET", "/apis/parity.sutler.dev").accept("application/yaml"));
    c.call(&Call::new("GET", "/apis/parity.sutler.dev").accept("text/html"));
    c.call(&Call::new("GET", "/apis/parity.sutler.dev").accept("*/*")).is(200);
    c.call(&Call::new("GET", "/apis/parity.sutler.dev").without("accept")).is(200);
}
