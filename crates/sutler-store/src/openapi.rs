//! OpenAPI documents, as far as `kubectl apply`, `diff` and `explain` read them: every schema, and
//! for every resource the operations with the parameters that clients look for.
//!
//! They are made when asked for: clients keep them by the hash in their address, and nothing here
//! has to.

mod paths;
mod schemas;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::Digest;

use crate::{
    body::Body,
    registry::{Flavor, Registry},
    request::Query,
    respond::{json_response, page_not_found, response},
    server::Inner,
    status::ApiError,
};

/// `/openapi/…`; `path` is what follows.
pub(crate) fn answer(
    inner: &Inner,
    path: &[&str],
    headers: &HeaderMap,
    query: &Query,
) -> Response<Body> {
    let registry = &inner.registry;
    let hash = hash(inner);
    let document = match path {
        ["v2"] if !accepts_json(headers) => {
            let error = ApiError::not_acceptable("application/json");
            return json_response(StatusCode::NOT_ACCEPTABLE, &error.to_status());
        }
        ["v2"] => v2(inner),
        ["v3"] => v3_index(registry, &hash),
        ["v3", "api", version] => match v3(inner, "", version) {
            Some(document) => document,
            None => return page_not_found(),
        },
        ["v3", "apis", group, version] => match v3(inner, group, version) {
            Some(document) => document,
            None => return page_not_found(),
        },
        _ => return page_not_found(),
    };
    let etag = format!("\"{hash}\"");
    let known = headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let mut response = if known.is_some_and(|known| known.contains(&etag)) {
        response(StatusCode::NOT_MODIFIED, Body::whole(Bytes::new()))
    } else {
        json_response(StatusCode::OK, &document)
    };
    if let Ok(value) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    if query.get("hash") == Some(&hash) {
        let forever = HeaderValue::from_static("public, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, forever);
    }
    response
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let mut values =
        headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).peekable();
    values.peek().is_none() || values.any(|v| v.contains("application/json") || v.contains("*/*"))
}

/// Changes when a document does.
fn hash(inner: &Inner) -> String {
    let mut digest = sha2::Sha256::new();
    digest.update(inner.version.as_bytes());
    for resource in inner.registry.iter() {
        digest.update(resource.api_version.as_bytes());
        digest.update(resource.kind.as_bytes());
        if let Flavor::Custom(custom) = &resource.flavor {
            digest.update(custom.schema_text().as_bytes());
        }
    }
    digest.finalize().iter().map(|b| format!("{b:02X}")).collect()
}

/// Every group and version that has resources, core first.
fn group_versions(registry: &Registry) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = registry
        .iter()
        .map(|r| (r.group.clone(), r.version.clone()))
        .chain(sutler_builtin::reviews().iter().map(|k| (k.group.into(), k.version.into())))
        .collect();
    all.sort();
    all.dedup();
    all
}

fn v3_index(registry: &Registry, hash: &str) -> Value {
    let mut paths = Map::new();
    for (group, version) in group_versions(registry) {
        let path = if group.is_empty() {
            format!("api/{version}")
        } else {
            format!("apis/{group}/{version}")
        };
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    json!({"paths": paths})
}

fn v3(inner: &Inner, group: &str, version: &str) -> Option<Value> {
    let registry = &inner.registry;
    let in_group =
        |r: &&std::sync::Arc<crate::registry::Resource>| r.group == group && r.version == version;
    if !group_versions(registry).iter().any(|(g, v)| g == group && v == version) {
        return None;
    }
    let mut all_paths = Map::new();
    let mut wanted: Vec<String> = Vec::new();
    let mut components = Map::new();
    for resource in registry.iter().filter(in_group) {
        paths::add(&mut all_paths, resource, paths::Version::V3);
        match &resource.flavor {
            Flavor::Builtin(kind) => wanted.push(kind.definition().to_owned()),
            Flavor::Custom(custom) => {
                schemas::add_custom(&mut components, resource, &custom.schema())
            }
        }
    }
    let asked =
        sutler_builtin::reviews().iter().filter(|k| k.group == group && k.version == version);
    wanted.extend(asked.map(|kind| kind.definition().to_owned()));
    schemas::add_referenced(&mut components, wanted);
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v1.36.3+sutler-{}", inner.version)},
        "paths": all_paths,
        "components": {"schemas": components},
    }))
}

fn v2(inner: &Inner) -> Value {
    let mut all_paths = Map::new();
    let mut definitions = sutler_builtin::definitions_v2();
    for resource in inner.registry.iter() {
        paths::add(&mut all_paths, resource, paths::Version::V2);
        if let Flavor::Custom(custom) = &resource.flavor {
            schemas::add_custom_v2(&mut definitions, resource, &custom.schema());
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": format!("v1.36.3+sutler-{}", inner.version)},
        "paths": all_paths,
        "definitions": definitions,
    })
}
