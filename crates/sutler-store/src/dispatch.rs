//! From an HTTP request to its handler and back.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    accept::{self, Endpoint, Media, accept},
    auth::{User, impersonate, is_public_path, rbac},
    body::Body,
    discovery, documents, media, negotiate,
    options::{OptionsKind, WriteOptions},
    read::{answer, watch},
    registry::Resource,
    request::{Query, RequestInfo, escapes_are_whole},
    respond::{add_warnings, json_response, nowhere, page_not_found, plain, refused, response},
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
    if !escapes_are_whole(&path) {
        return plain(StatusCode::BAD_REQUEST, "400 Bad Request");
    }
    let query = Query::parse(parts.uri.query());
    if is_public_path(&path) {
        // Whoever shows credentials must have good ones, here too.
        if parts.headers.contains_key(header::AUTHORIZATION)
            && let Err(error) = identify(&inner, &parts).await
        {
            return refused(&error);
        }
        return documents::health(&inner, &path, &query);
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

/// Who asks, whether they may, and then the answer, in the encoding that was asked for.
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
    let mut warnings = Vec::new();
    if spaced_token(&parts.headers) {
        let text = "the provided Authorization header contains extra space before the bearer \
                    token, and is ignored";
        warnings.push(text.to_owned());
    }
    let answered = answer_in_json(inner, parts, info, query, body, &mut warnings).await;
    let (response, agreed) = answered.unwrap_or_else(|error| (refused(&error), Media::Json));
    let media = if response.status().is_success() {
        agreed
    } else {
        // A refusal has one form; who accepts none of its encodings gets it for people to read.
        accept(&parts.headers, query, Endpoint::Document).map_or(Media::Pretty, |a| a.media)
    };
    let response = media::encode(response, media).await;
    let mut response = response.unwrap_or_else(|error| refused(&error));
    if info.verb != "watch" {
        response = media::compress(&parts.headers, response);
    }
    add_warnings(&mut response, warnings.into_iter());
    response
}

async fn answer_in_json<B>(
    inner: &Arc<Inner>,
    parts: &http::request::Parts,
    info: &RequestInfo,
    query: &Query,
    body: B,
    warnings: &mut Vec<String>,
) -> Result<(Response<Body>, Media), ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let user = identify(inner, parts).await?;
    let user = permit(inner, &parts.headers, user, info).await?;
    let ctx = Ctx {
        inner,
        user: &user,
        info,
        query,
        headers: &parts.headers,
        warnings: Mutex::new(Vec::new()),
    };
    let answered = if info.path.starts_with("//") {
        Ok((page_not_found(), Media::Json))
    } else if info.path.contains("//") {
        Ok((nowhere(&ctx), Media::Json))
    } else if info.is_resource {
        resource_request(&ctx, &parts.method, body).await
    } else {
        document_request(&ctx, &parts.method)
    };
    warnings.extend(ctx.warnings.into_inner().unwrap_or_else(|e| e.into_inner()));
    answered
}

/// Whether there is a token that does not count because of one blank too many.
fn spaced_token(headers: &HeaderMap) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let mut parts = value.unwrap_or_default().trim().splitn(3, ' ');
    parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
        && parts.next() == Some("")
        && parts.next().is_some()
}

fn document_request(ctx: &Ctx<'_>, method: &Method) -> Result<(Response<Body>, Media), ApiError> {
    let response = documents::answer(ctx, method)?;
    let one_form = matches!(ctx.info.path.trim_end_matches('/'), "/version" | "")
        || ctx.info.path.starts_with("/openapi");
    let json =
        response.headers().get(header::CONTENT_TYPE).is_some_and(|v| v == "application/json");
    if one_form || !json || !response.status().is_success() {
        return Ok((response, Media::Json));
    }
    let agreed = accept(ctx.headers, ctx.query, Endpoint::Document)?;
    if agreed.media == Media::Protobuf {
        return Err(ApiError::not_acceptable("application/json, application/yaml"));
    }
    Ok((response, agreed.media))
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
) -> Result<(Response<Body>, Media), ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let info = ctx.info;
    if let Some(kind) = reviews::find(&info.group, &info.version, &info.resource) {
        if *method != Method::POST {
            return Err(ApiError::method_not_allowed());
        }
        let agreed = accept(ctx.headers, ctx.query, Endpoint::Builtin { list: false })?;
        let body = negotiate::read_body(body).await?;
        let answer = reviews::answer(ctx, kind, &body).await?;
        return Ok((json_response(StatusCode::CREATED, &answer), agreed.media));
    }
    if info.group.is_empty() && info.version == "v1" && info.resource == "bindings" {
        return bindings_request(ctx, method, body).await;
    }
    let lost = |response| Ok((response, Media::Json));
    let Some(resource) = ctx.inner.registry.find(&info.group, &info.version, &info.resource) else {
        return lost(nowhere(ctx));
    };
    let placed = resource.namespaced || info.namespace.is_empty() || resource.is("", "namespaces");
    if info.excess || !placed {
        return lost(nowhere(ctx));
    }
    if !subresource::exists(resource, &info.subresource) {
        return match resource.custom() {
            Some(_) => Err(ApiError::not_found(resource.gr(), &info.name)),
            None => lost(nowhere(ctx)),
        };
    }
    // A namespaced object has no address without its namespace.
    let homeless = resource.namespaced && info.namespace.is_empty();
    if homeless && !info.name.is_empty() {
        return lost(nowhere(ctx));
    }
    if homeless && matches!(info.verb, "create" | "deletecollection") {
        return match resource.custom() {
            Some(_) => lost(page_not_found()),
            None => Err(ApiError::method_not_allowed()),
        };
    }
    if *method == Method::HEAD && resource.builtin().is_some() {
        return Err(ApiError::method_not_allowed());
    }
    if info.verb == "watch" && !matches!(*method, Method::GET | Method::HEAD) {
        return Err(ApiError::method_not_allowed());
    }
    if let Some(why) = bad_name(&info.name) {
        return Err(ApiError::bad_request(format!(
            "Name parameter invalid: {:?}: {why}",
            info.name
        )));
    }
    if matches!(info.verb, "update" | "patch") && info.name.is_empty() {
        return Err(match resource.custom() {
            Some(_) => ApiError::bad_request("name must be provided"),
            None => ApiError::method_not_allowed(),
        });
    }
    let verb_is_known = discovery::verbs(resource).contains(&info.verb);
    if info.subresource.is_empty() && !verb_is_known {
        return Err(ApiError::method_not_allowed());
    }
    let endpoint = match resource.custom() {
        Some(_) => Endpoint::Custom,
        None => Endpoint::Builtin { list: matches!(info.verb, "list" | "watch") },
    };
    if bad_name(&info.namespace).is_some() {
        let message = format!("invalid key: \"/{}/{}\"", resource.plural, info.namespace);
        return Err(ApiError::plain(StatusCode::INTERNAL_SERVER_ERROR, "", message));
    }
    if info.verb == "watch" {
        let agreed = accept::accept_stream(ctx.headers, endpoint)?;
        let body = watch::open(ctx, resource, agreed.form)?;
        let response = response(StatusCode::OK, body);
        return Ok(match agreed.media {
            Media::Protobuf => (media::encode_events(response), Media::Json),
            _ => (response, Media::Json),
        });
    }
    let agreed = accept(ctx.headers, ctx.query, endpoint)?;
    let response = match info.verb {
        "list" => answer::list_response(ctx, resource, agreed.form).await?,
        "get" => answer::get_response(ctx, resource, agreed.form).await?,
        _ => {
            let body = negotiate::read_body(body).await?;
            answer::can_be_shown(ctx, resource, agreed.form)?;
            let outcome = write_request(ctx, resource, &body).await?;
            answer::outcome_response(ctx, resource, agreed.form, outcome)?
        }
    };
    Ok((response, agreed.media))
}

/// Bindings are written and never seen again.
async fn bindings_request<B>(
    ctx: &Ctx<'_>,
    method: &Method,
    body: B,
) -> Result<(Response<Body>, Media), ApiError>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Display,
{
    let info = ctx.info;
    let Some(pods) = ctx.inner.registry.builtin("", "pods") else {
        return Ok((nowhere(ctx), Media::Json));
    };
    if !info.name.is_empty() {
        return Ok((nowhere(ctx), Media::Json));
    }
    if *method != Method::POST || info.namespace.is_empty() {
        return Err(ApiError::method_not_allowed());
    }
    let agreed = accept(ctx.headers, ctx.query, Endpoint::Builtin { list: false })?;
    let body = negotiate::read_body(body).await?;
    let outcome = subresource::bind(ctx, pods, None, &body).await?;
    Ok((answer::outcome_response(ctx, pods, agreed.form, outcome)?, agreed.media))
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
        // Of a custom kind, the name in the address of a create counts for nothing.
        ("create", "") if !info.name.is_empty() && resource.custom().is_none() => {
            Err(ApiError::method_not_allowed())
        }
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
        (verb @ ("create" | "delete"), _) if resource.custom().is_some() => {
            let message =
                format!("{verb} is not supported on resources of kind \"{}\"", resource.gr());
            let code = StatusCode::METHOD_NOT_ALLOWED;
            let mut error = ApiError::plain(code, "MethodNotAllowed", message);
            error.details = Some(json!({"group": resource.group, "kind": resource.plural}));
            Err(error)
        }
        _ => subresource::write(ctx, resource, body).await,
    }
}
