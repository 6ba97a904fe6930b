//! From an HTTP request to its handler and back.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    auth::{User, impersonate, is_public_path, rbac},
    body::Body,
    discovery,
    negotiate::{self, Form},
    openapi,
    options::{OptionsKind, WriteOptions},
    read::{get, list, table, watch},
    registry::Resource,
    request::{Query, RequestInfo},
    reviews,
    serve::ClientCert,
    server::{ApiServer, Inner, TrustedUser},
    status::ApiError,
    subresource,
    write::{self, Ctx, Outcome},
};

/// Names a request in logs, here and at the client.
const AUDIT_ID: header::HeaderName = header::HeaderName::from_static("audit-id");

/// Answers a request.
pub(crate) async fn handle<B>(server: ApiServer, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let (parts, body) = request.into_parts();
    let inner = server.0;
    let path = parts.uri.path().to_owned();
    let query = Query::parse(parts.uri.query());
    if is_public_path(&path) {
        // Whoever shows credentials must have good ones, here too.
        if parts.headers.contains_key(header::AUTHORIZATION)
            && let Err(error) = identify(&inner, &parts).await
        {
            return refused(&error);
        }
        return health(&inner, &path, &query);
    }
    let info = RequestInfo::parse(&parts.method, &path, &query);
    let begun = tokio::time::Instant::now();
    let response = answer(&inner, &parts, &info, &query, body).await;
    inner.metrics.answered(info.verb, response.status(), begun.elapsed());
    let mut response = response;
    if let Ok(id) = HeaderValue::from_str(&inner.ids.uid()) {
        response.headers_mut().insert(AUDIT_ID, id);
    }
    if parts.method == Method::HEAD {
        *response.body_mut() = Body::whole(Bytes::new());
    }
    response
}

/// Who asks, whether they may, and then the answer.
async fn answer<B>(
    inner: &Arc<Inner>,
    parts: &http::request::Parts,
    info: &RequestInfo,
    query: &Query,
    body: B,
) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let user = match identify(inner, parts).await {
        Ok(user) => user,
        Err(error) => return refused(&error),
    };
    let user = match permit(inner, &parts.headers, user, info).await {
        Ok(user) => user,
        Err(error) => return refused(&error),
    };
    let ctx = Ctx {
        inner,
        user: &user,
        info,
        query,
        headers: &parts.headers,
        warnings: Mutex::new(Vec::new()),
    };
    let answered = if info.path.starts_with("//") {
        Ok(page_not_found())
    } else if info.path.contains("//") {
        Ok(nowhere(&ctx))
    } else if info.is_resource {
        resource_request(&ctx, &parts.method, body).await
    } else {
        other_request(&ctx, &parts.method).await
    };
    let mut response = answered.unwrap_or_else(|error| refused(&error));
    for warning in ctx.warnings.lock().unwrap_or_else(|e| e.into_inner()).drain(..) {
        if let Ok(value) = HeaderValue::from_str(&format!("299 - {}", quoted(&warning))) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// A quoted string of an HTTP header: control characters have no place in it.
fn quoted(text: &str) -> String {
    let clean: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", clean.replace('\\', "\\\\").replace('"', "\\\""))
}

async fn identify(inner: &Arc<Inner>, parts: &http::request::Parts) -> Result<User, ApiError> {
    if let Some(TrustedUser(user)) = parts.extensions.get::<TrustedUser>() {
        return Ok(User::clone(user));
    }
    inner.policy.refresh_users(inner).await?;
    let certificate = parts.extensions.get::<ClientCert>().map(|c| c.0.as_slice());
    inner.authn.authenticate(&parts.headers, certificate, inner.clock.now()).map_err(|error| {
        tracing::debug!(%error, path = parts.uri.path(), "unauthenticated");
        ApiError::unauthorized()
    })
}

/// The user to go on as: the one who asks, or whom they may act for; if that one may ask this.
async fn permit(
    inner: &Arc<Inner>,
    headers: &HeaderMap,
    user: User,
    info: &RequestInfo,
) -> Result<User, ApiError> {
    let wanted = impersonate::requested(headers)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    if wanted.is_none() && user.is_in(crate::auth::MASTERS) {
        return Ok(user);
    }
    let policy = inner.policy.get(inner).await?;
    let user = match wanted {
        Some(wanted) => inner
            .impersonator
            .authorize(&policy.1, &attributes(&user, info), &wanted)
            .map_err(|denied| {
                let mut error =
                    ApiError::plain(StatusCode::FORBIDDEN, "Forbidden", denied.to_string());
                error.details = Some(details([
                    ("name", &denied.name),
                    ("group", &denied.group),
                    ("kind", &denied.resource),
                ]));
                error
            })?,
        None => user,
    };
    let attributes = attributes(&user, info);
    let decision = policy.1.authorize(&attributes);
    if decision.allowed {
        return Ok(user);
    }
    let message = rbac::forbidden_message(&attributes, &decision.reason);
    let mut error = ApiError::plain(StatusCode::FORBIDDEN, "Forbidden", message);
    error.details = Some(details([
        ("name", asked_name(info)),
        ("group", &info.group),
        ("kind", &info.resource),
    ]));
    Err(error)
}

/// The one object that a request is about, if it is about one.
fn asked_name(info: &RequestInfo) -> &String {
    if info.name.is_empty() { &info.selected } else { &info.name }
}

fn details(fields: [(&str, &String); 3]) -> Value {
    let set = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Value::Object(set.map(|(key, value)| (key.to_owned(), value.clone().into())).collect())
}

fn attributes<'a>(user: &'a User, info: &'a RequestInfo) -> rbac::Attributes<'a> {
    if !info.is_resource {
        return rbac::Attributes::path(user, info.verb, &info.path);
    }
    rbac::Attributes {
        version: &info.version,
        subresource: &info.subresource,
        namespace: &info.namespace,
        name: asked_name(info),
        path: &info.path,
        ..rbac::Attributes::resource(user, info.verb, &info.group, &info.resource)
    }
}

async fn resource_request<B>(
    ctx: &Ctx<'_>,
    method: &Method,
    body: B,
) -> Result<Response<Body>, ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let info = ctx.info;
    if let Some(kind) = reviews::find(&info.group, &info.version, &info.resource) {
        if *method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let body = negotiate::read_body(body).await?;
        let answer = reviews::answer(ctx, kind, &body).await?;
        return Ok(json_response(StatusCode::CREATED, &answer));
    }
    let Some(resource) = ctx.inner.registry.find(&info.group, &info.version, &info.resource) else {
        return Ok(nowhere(ctx));
    };
    let placed = resource.namespaced || info.namespace.is_empty() || resource.is("", "namespaces");
    if info.excess || !placed {
        return Ok(nowhere(ctx));
    }
    if !subresource::exists(resource, &info.subresource) {
        return match resource.custom() {
            Some(_) => Err(ApiError::not_found(resource.gr(), &info.name)),
            None => Ok(nowhere(ctx)),
        };
    }
    // A namespaced object has no address without its namespace.
    let homeless = resource.namespaced && info.namespace.is_empty();
    if homeless && !info.name.is_empty() {
        return Ok(nowhere(ctx));
    }
    if homeless && matches!(info.verb, "create" | "deletecollection") {
        return match resource.custom() {
            Some(_) => Ok(page_not_found()),
            None => Err(ApiError::method_not_allowed()),
        };
    }
    if *method == Method::HEAD {
        return Err(ApiError::method_not_allowed());
    }
    if let Some(why) = bad_name(&info.name) {
        return Err(ApiError::bad_request(format!(
            "Name parameter invalid: {:?}: {why}",
            info.name
        )));
    }
    if matches!(info.verb, "update" | "patch") && info.name.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let form = negotiate::accept(ctx.headers).map_err(|error| {
        if resource.custom().is_some() || !matches!(info.verb, "get" | "list") {
            return error;
        }
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, \
                       application/yaml, application/vnd.kubernetes.protobuf";
        let mut error = ApiError::plain(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message);
        error.details = Some(json!({}));
        error
    })?;
    let verb_is_known = discovery::verbs(resource).contains(&info.verb);
    if info.subresource.is_empty() && !verb_is_known {
        return Err(ApiError::method_not_allowed());
    }
    match info.verb {
        "watch" => {
            let body = watch::open(ctx, resource, form)?;
            Ok(response(StatusCode::OK, body))
        }
        "list" => list_response(ctx, resource, form).await,
        "get" => get_response(ctx, resource, form).await,
        _ => {
            let body = negotiate::read_body(body).await?;
            let outcome = write_request(ctx, resource, &body).await?;
            Ok(outcome_response(ctx, resource, form, outcome))
        }
    }
}

/// An address that leads nowhere: within the built-in groups that is a `Status`.
fn nowhere(ctx: &Ctx<'_>) -> Response<Body> {
    let info = ctx.info;
    let parts: Vec<&str> = info.path.split('/').filter(|p| !p.is_empty()).collect();
    let group = match parts.as_slice() {
        ["api", ..] => "",
        ["apis", group, ..] => group,
        _ => return page_not_found(),
    };
    let builtin = |r: &Arc<Resource>| r.builtin().is_some() && r.group == group;
    if !ctx.inner.registry.iter().any(builtin) {
        return page_not_found();
    }
    let message = "the server could not find the requested resource";
    let mut error = ApiError::plain(StatusCode::NOT_FOUND, "NotFound", message);
    error.details = Some(json!({}));
    refused(&error)
}

/// Names that mean something in a path.
fn bad_name(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        _ => None,
    }
}

async fn write_request(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    body: &[u8],
) -> Result<Outcome, ApiError> {
    let info = ctx.info;
    match (info.verb, info.subresource.as_str()) {
        ("create", "") if !info.name.is_empty() => Err(ApiError::method_not_allowed()),
        ("create", "") if resource.namespaced && info.namespace.is_empty() => {
            Err(ApiError::method_not_allowed())
        }
        ("create", "") => {
            let options = WriteOptions::parse(OptionsKind::Create, ctx.query, ctx.headers)?;
            let object = write::decode_body(ctx, resource, &options, body)?;
            write::create::create(ctx, resource, object, &options).await
        }
        ("update" | "patch", "scale") => {
            write::scale::write(ctx, resource, body, info.verb == "patch").await
        }
        ("update", "" | "status") => {
            let options = WriteOptions::parse(OptionsKind::Update, ctx.query, ctx.headers)?;
            let object = write::decode_body(ctx, resource, &options, body)?;
            write::update::update(ctx, resource, object, &options).await
        }
        ("patch", "" | "status") => write::patch::patch(ctx, resource, body).await,
        ("delete", "") => write::delete::delete(ctx, resource, body).await,
        ("deletecollection", "") => write::delete::delete_collection(ctx, resource, body).await,
        (_, "") => Err(ApiError::method_not_allowed()),
        ("delete", _) if resource.custom().is_some() => {
            let message =
                format!("delete is not supported on resources of kind \"{}\"", resource.gr());
            let code = StatusCode::METHOD_NOT_ALLOWED;
            let mut error = ApiError::plain(code, "MethodNotAllowed", message);
            error.details = Some(json!({"group": resource.group, "kind": resource.plural}));
            Err(error)
        }
        _ => subresource::write(ctx, resource, body).await,
    }
}

async fn get_response(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    form: Form,
) -> Result<Response<Body>, ApiError> {
    if ctx.info.subresource == "scale" {
        let scale = write::scale::read(ctx, resource).await?;
        let include = table::Include::parse(ctx.query.get("includeObject"))?;
        let answer = match form {
            Form::Plain => scale,
            Form::Partial => table::partial(&scale),
            Form::Table => table::of_scale(&scale, include, ctx.inner.clock.now()),
        };
        return Ok(json_response(StatusCode::OK, &answer));
    }
    if !matches!(ctx.info.subresource.as_str(), "" | "status") {
        return Err(ApiError::method_not_allowed());
    }
    if form == Form::Plain && !resource.converted {
        let wire = get::wire(ctx, resource).await?;
        return Ok(response(StatusCode::OK, Body::whole(wire)));
    }
    let object = get::object(ctx, resource).await?;
    Ok(outcome_response(ctx, resource, form, Outcome::ok(object)))
}

async fn list_response(
    ctx: &Ctx<'_>,
    resource: &Arc<Resource>,
    form: Form,
) -> Result<Response<Body>, ApiError> {
    let options = list::ListOptions::parse(ctx.query, resource)?;
    if form == Form::Plain {
        let body = list::body(ctx, resource, options).await?;
        return Ok(response(StatusCode::OK, body));
    }
    let listed = list::collect(ctx, resource, &options).await?;
    let mut objects = Vec::with_capacity(listed.records.len());
    for record in &listed.records {
        objects.push(resource.decode(record)?);
    }
    let metadata = list::list_meta(&listed);
    let answer = match form {
        Form::Table => {
            let include = table::Include::parse(ctx.query.get("includeObject"))?;
            table::of_objects(resource, metadata, objects.iter(), include, ctx.inner.clock.now())
        }
        _ => table::partial_list(metadata, objects.iter()),
    };
    Ok(json_response(StatusCode::OK, &answer))
}

fn outcome_response(
    ctx: &Ctx<'_>,
    resource: &Resource,
    form: Form,
    outcome: Outcome,
) -> Response<Body> {
    let Outcome { code, mut object, wire, status } = outcome;
    if status {
        return json_response(code, &object);
    }
    if let (Form::Plain, Some(wire)) = (form, wire) {
        return response(code, Body::whole(wire));
    }
    match form {
        Form::Plain => {
            if resource.converted {
                object = sutler_builtin::event_to_v1(object);
            }
            json_response(code, &object)
        }
        Form::Partial => json_response(code, &table::partial(&object)),
        Form::Table => {
            let include = table::Include::parse(ctx.query.get("includeObject"));
            let include = match include {
                Ok(include) => include,
                Err(error) => return refused(&error),
            };
            let now = ctx.inner.clock.now();
            json_response(code, &table::of_object(resource, &object, include, now, true))
        }
    }
}

async fn other_request(ctx: &Ctx<'_>, method: &Method) -> Result<Response<Body>, ApiError> {
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
            let body = discovery::aggregated(registry, parts[0] == "api");
            return Ok(typed_response(
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                &body,
            ));
        }
        ["api"] => Some(discovery::api_versions(host(ctx.headers))),
        ["apis"] => Some(discovery::api_groups(registry)),
        ["api", version] => discovery::api_resources(registry, "", version),
        ["apis", group] => discovery::api_group(registry, group),
        ["apis", group, version] => discovery::api_resources(registry, group, version),
        ["openapi", ..] => return Ok(openapi::answer(inner, &parts[1..], ctx.headers, ctx.query)),
        _ => None,
    };
    Ok(found.map_or_else(|| nowhere(ctx), |body| json_response(StatusCode::OK, &body)))
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

fn root_paths(registry: &crate::registry::Registry) -> Vec<String> {
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
        "major": "1", "minor": "36", "gitVersion": format!("v1.36.3+sutler-{}", inner.version),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": concat!("linux/", "amd64"),
    })
}

fn health(inner: &Inner, path: &str, query: &Query) -> Response<Body> {
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
    let mut response = response(code, Body::whole(text));
    set(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    response
}

/// An answer with a JSON body that is there already.
pub(crate) fn response(code: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    set(&mut response, header::CONTENT_TYPE, "application/json");
    set(&mut response, header::CACHE_CONTROL, "no-cache, private");
    response
}

/// An answer of one JSON value.
pub(crate) fn json_response(code: StatusCode, body: &Value) -> Response<Body> {
    let mut text = body.to_string();
    text.push('\n');
    response(code, Body::whole(text))
}

pub(crate) fn typed_response(content_type: &'static str, body: &Value) -> Response<Body> {
    let mut response = json_response(StatusCode::OK, body);
    set(&mut response, header::CONTENT_TYPE, content_type);
    response
}

fn set(response: &mut Response<Body>, name: header::HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn refused(error: &ApiError) -> Response<Body> {
    let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = json_response(code, &error.to_status());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// What an address that leads nowhere is answered with.
pub(crate) fn page_not_found() -> Response<Body> {
    let mut response = response(StatusCode::NOT_FOUND, Body::whole("404 page not found\n"));
    set(&mut response, header::CONTENT_TYPE, "text/plain; charset=utf-8");
    response
}
