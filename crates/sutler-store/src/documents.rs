//! What is asked of the server itself: health, version, and which kinds there are.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};
use sha2::Digest;

use crate::{
    body::Body,
    discovery, openapi,
    registry::Registry,
    request::Query,
    respond::{json_response, nowhere, plain, set, typed_response},
    server::Inner,
    status::ApiError,
    write::Ctx,
};

/// Answers what is asked of the server itself.
pub(crate) fn answer(ctx: &Ctx<'_>, method: &Method) -> Result<Response<Body>, ApiError> {
    if *method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    let inner = ctx.inner;
    let registry = &inner.registry;
    let path = ctx.info.path.trim_end_matches('/');
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let found = match parts.as_slice() {
        [] => Some(json!({"paths": root_paths(registry)})),
        ["version"] => Some(version(inner)),
        ["api" | "apis"] if wants_aggregated(ctx.headers) => {
            return Ok(aggregated(registry, parts[0] == "api", ctx.headers));
        }
        ["api"] => Some(discovery::api_versions(host(ctx.headers))),
        ["apis"] => Some(discovery::api_groups(registry)),
        ["api", version] => discovery::api_resources(registry, "", version),
        ["apis", group] => discovery::api_group(registry, group),
        ["apis", group, version] => discovery::api_resources(registry, group, version),
        ["healthz" | "livez" | "readyz", "ping"] => return Ok(plain(StatusCode::OK, "ok")),
        ["openapi", ..] => return Ok(openapi::answer(inner, &parts[1..], ctx.headers, ctx.query)),
        _ => None,
    };
    Ok(found.map_or_else(|| nowhere(ctx), |body| json_response(StatusCode::OK, &body)))
}

/// The aggregated document, which clients keep and ask for again by its tag.
fn aggregated(registry: &Registry, core: bool, headers: &HeaderMap) -> Response<Body> {
    let body = discovery::aggregated(registry, core);
    let mut tag = String::from("\"");
    for byte in sha2::Sha256::digest(body.to_string().as_bytes()) {
        tag.push_str(&format!("{byte:02X}"));
    }
    tag.push('"');
    let known = headers.get(header::IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    let mut response = typed_response(
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        &body,
    );
    if known.is_some_and(|known| known.contains(&tag)) {
        // The headers stay: clients put them on what they have kept, and read it by its type.
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Body::whole(Bytes::new());
    }
    if let Ok(value) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, value);
    }
    set(&mut response, header::CACHE_CONTROL, "public");
    response
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|v| v.to_str().ok()).unwrap_or("")
}

fn wants_aggregated(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok());
    accepted.flat_map(|v| v.split(',')).any(|clause| {
        clause.contains("as=APIGroupDiscoveryList")
            && clause.contains("v=v2")
            && !clause.contains("v=v2beta1")
            && clause.trim().starts_with("application/json")
    })
}

fn root_paths(registry: &Registry) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/api",
        "/api/v1",
        "/apis",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for resource in registry.iter().filter(|r| !r.group.is_empty()) {
        paths.push(format!("/apis/{}", resource.group));
        paths.push(format!("/apis/{}", resource.api_version));
    }
    paths.sort();
    paths.dedup();
    paths
}

/// The API that is spoken, in the fields that clients read, and who speaks it.
fn version(inner: &Inner) -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": format!("v1.36.3+sutler-{}", inner.version),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": concat!("linux/", "amd64"),
    })
}

/// Whether the server lives and is ready, for everybody.
pub(crate) fn health(inner: &Inner, path: &str, query: &Query) -> Response<Body> {
    let stopping = *inner.stopping.borrow();
    let ready = !(stopping && path == "/readyz");
    let name = path.trim_start_matches('/');
    let text = match (ready, query.has("verbose")) {
        (true, false) => "ok".to_owned(),
        (true, true) => format!("[+]ping ok\n[+]store ok\n{name} check passed\n"),
        (false, _) => {
            format!("[+]ping ok\n[-]shutdown failed: reason withheld\n{name} check failed\n")
        }
    };
    let code = if ready { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    plain(code, text)
}
