//! The HTTP of it.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, header, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};

use super::{
    faults::{self, Fault, When},
    govpsie,
    reply::{self, Asked, Reply, Text},
    v2,
    world::World,
};
use crate::settings::Dialect;

type Shared = Arc<Mutex<World>>;

/// The connection is to be cut.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
struct Cut;

pub(super) async fn serve(listener: TcpListener, world: Shared) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(one(socket, world.clone()));
    }
}

pub(super) async fn one<I>(io: I, world: Shared)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(request, world.clone()));
    // A client that goes away, or a connection that is cut, is no concern of ours.
    drop(
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(io), service)
            .await,
    );
}

fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(request: Request<Incoming>, world: Shared) -> Result<Response<Full<Bytes>>, Cut> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Cut)?.to_bytes();
    let method = head.method.as_str().to_owned();
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let text = |name: &str| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.map(str::to_owned)
    };
    let seen = Seen {
        method,
        path,
        content_type: text(header::CONTENT_TYPE.as_str()),
        bearer: text(header::AUTHORIZATION.as_str()),
        vpsie_auth: text("vpsie-auth"),
        body,
    };
    let fault = {
        let mut world = lock(&world);
        if world.shape.auto {
            world.tick();
        }
        world.log.push(reply::Request {
            method: seen.method.clone(),
            path: seen.path.clone(),
            body: serde_json::from_slice(&seen.body).unwrap_or_default(),
        });
        faults::take(&mut world.faults, &seen.method, &seen.path)
    };
    let carry_out = || route(&mut lock(&world), &seen).unwrap_or_else(|reply| reply);
    let settled = || lock(&world).settled.send_modify(|count| *count += 1);
    let reply = match fault {
        None => carry_out(),
        Some(Fault::TooMany { retry_after }) => {
            let reply = Reply::wrong(429, "Too many requests");
            let mut response = write(reply)?;
            let value = retry_after.parse().map_err(|_| Cut)?;
            response.headers_mut().insert(header::RETRY_AFTER, value);
            return Ok(response);
        }
        Some(Fault::Status(when, status, message)) => {
            if when == When::After {
                carry_out();
            }
            Reply::wrong(status, &message)
        }
        Some(Fault::Hang(when)) => {
            if when == When::After {
                carry_out();
            }
            settled();
            std::future::pending::<Infallible>().await;
            return Err(Cut);
        }
        Some(Fault::Cut(when)) => {
            if when == When::After {
                carry_out();
            }
            settled();
            return Err(Cut);
        }
        Some(Fault::Envelope { code, message }) => {
            let mut body = json!({"error": true, "message": message});
            if let Some(code) = code {
                body["code"] = code.into();
            }
            Reply::ok(body)
        }
        Some(Fault::Malformed) => {
            carry_out();
            Reply { status: 200, body: Text::Page("{\"error\": fal".to_owned()) }
        }
        Some(Fault::Elsewhere) => Reply::no_route(&seen.method, &seen.path),
        Some(Fault::Body(body)) => Reply::ok(body),
        Some(Fault::Flood(size)) => {
            Reply { status: 200, body: Text::Page(format!("\"{}\"", "x".repeat(size))) }
        }
    };
    settled();
    write(reply)
}

fn write(reply: Reply) -> Result<Response<Full<Bytes>>, Cut> {
    let (kind, bytes) = match reply.body {
        Text::Json(value) => ("application/json", value.to_string()),
        Text::Page(page) => ("text/html", page),
    };
    let status = StatusCode::from_u16(reply.status).map_err(|_| Cut)?;
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, kind)
        .header("x-request-id", "fake-request")
        .body(Full::new(Bytes::from(bytes)))
        .map_err(|_| Cut)
}

/// A request as it came.
pub(super) struct Seen {
    method: String,
    path: String,
    content_type: Option<String>,
    bearer: Option<String>,
    vpsie_auth: Option<String>,
    body: Bytes,
}

fn route(world: &mut World, seen: &Seen) -> Result<Reply, Reply> {
    let dialect = world.shape.dialect;
    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let query = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let login = match dialect {
        Dialect::Govpsie => "/apps/v2/auth/from/api",
        Dialect::V2 => "/v2/auth/from/api",
    };
    if path == login {
        return log_in(world, seen);
    }
    let token = match dialect {
        Dialect::Govpsie if seen.bearer.is_none() => seen.vpsie_auth.as_deref(),
        Dialect::V2 if seen.vpsie_auth.is_none() => {
            seen.bearer.as_deref().and_then(|bearer| bearer.strip_prefix("Bearer "))
        }
        Dialect::Govpsie | Dialect::V2 => None,
    };
    if !token.is_some_and(|token| world.knows(token)) {
        return Err(Reply::wrong(401, "Unauthorized"));
    }
    let body: Option<Value> = match seen.body.is_empty() {
        true => None,
        false if seen.method == "GET" => return Err(Reply::wrong(400, "GET takes no body")),
        false if seen.content_type.as_deref() != Some("application/json") => {
            return Err(Reply::wrong(415, "application/json is needed"));
        }
        false => {
            let read = serde_json::from_slice(&seen.body);
            Some(read.map_err(|_| Reply::wrong(400, "the body is no JSON"))?)
        }
    };
    let parts = path.trim_start_matches('/').split('/').collect();
    let asked = Asked { method: &seen.method, parts, query, body: body.as_ref() };
    let reply = match dialect {
        Dialect::Govpsie => govpsie::route(world, &asked),
        Dialect::V2 => v2::route(world, &asked),
    };
    reply.unwrap_or_else(|| Err(Reply::no_route(&seen.method, path)))
}

fn log_in(world: &mut World, seen: &Seen) -> Result<Reply, Reply> {
    if seen.method != "POST" {
        return Err(Reply::wrong(405, "POST alone"));
    }
    let body = String::from_utf8_lossy(&seen.body).into_owned();
    let (id, secret) = match (world.shape.dialect, seen.content_type.as_deref()) {
        (Dialect::Govpsie, Some("application/json")) => {
            let body: Value =
                serde_json::from_str(&body).map_err(|_| Reply::wrong(400, "no JSON"))?;
            let map = reply::fields(Some(&body), &["clientId", "clientSecret"], &[])?;
            (reply::text(map, "clientId")?, reply::text(map, "clientSecret")?)
        }
        (Dialect::V2, Some("application/x-www-form-urlencoded")) => {
            let get = |name: &str| {
                let pairs = body.split('&').filter_map(|pair| pair.split_once('='));
                let value = pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value);
                let decoded = percent_encoding::percent_decode_str(value.unwrap_or_default());
                decoded.decode_utf8_lossy().into_owned()
            };
            (get("clientId"), get("clientSecret"))
        }
        _ => return Err(Reply::wrong(415, "another content type is needed")),
    };
    let Some((token, expires)) = world.log_in(&id, &secret) else {
        return Err(Reply::wrong(401, "Invalid credentials"));
    };
    let access = json!({"token": token, "expires": expires.to_string()});
    Ok(Reply::ok(match world.shape.dialect {
        Dialect::Govpsie => json!({"error": false, "token": {"access": access, "refresh": {}}}),
        Dialect::V2 => json!({"error": false, "accessToken": access, "refreshToken": {}}),
    }))
}
