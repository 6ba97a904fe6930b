//! The API as one process sees it: slow, failing, and with watches that break, lag and repeat.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use rand::{Rng as _, rngs::StdRng};
use sutler_store::{Body, Trusted, auth::User};

use crate::{process::Fuse, world::World};

/// Kinds of which the invariants want to know.
const JUDGED: [&str; 10] = [
    "/virtualmachines",
    "/providers",
    "/vmimages",
    "/vmsnapshots",
    "/vmclones",
    "/vmsets",
    "/vmdisks",
    "/nodegroups",
    "/vpsienodes",
    "/nodes",
];

/// How an API call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// It is late, and its answer is new.
    Slow(Duration),
    /// Its answer is late, and by then old.
    Late(Duration),
    /// It is refused, and nothing is applied.
    Refused,
    /// It is applied, and the answer is an error.
    Lost,
}

/// What decides how calls go wrong; shared by all clients of one process.
pub struct Dice {
    /// Where chance comes from.
    pub rng: StdRng,
    /// How likely a call goes wrong.
    pub calls: f64,
    /// How likely a watch does.
    pub watches: f64,
    /// Whether answers are late as well as calls.
    pub late: bool,
}

/// The API as one process sees it.
#[derive(Clone)]
pub struct FaultyApi {
    inner: Trusted,
    name: String,
    dice: Arc<Mutex<Dice>>,
    fuse: Fuse,
    world: Arc<World>,
}

impl FaultyApi {
    /// The API for the process of this name.
    pub fn new(world: &Arc<World>, name: &str, dice: Arc<Mutex<Dice>>, fuse: Fuse) -> Self {
        let user = User {
            name: "system:sutler".to_owned(),
            groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            ..User::default()
        };
        Self {
            inner: world.server.as_user(user),
            name: name.to_owned(),
            dice,
            fuse,
            world: world.clone(),
        }
    }

    fn trouble(&self) -> Trouble {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        let (which, how): (f64, f64) = (dice.rng.random(), dice.rng.random());
        let pause = |most: f64| Duration::from_millis((how * most) as u64);
        match () {
            () if which >= dice.calls => Trouble::None,
            () if how < 0.25 && dice.late => Trouble::Late(pause(40_000.0)),
            () if how < 0.5 => Trouble::Slow(pause(6_000.0)),
            () if how < 0.75 => Trouble::Refused,
            () => Trouble::Lost,
        }
    }
}

impl tower::Service<Request<kube::client::Body>> for FaultyApi {
    type Response = Response<FaultyBody>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let mut api = self.clone();
        Box::pin(async move {
            let query = request.uri().query().unwrap_or_default();
            let watch = query.contains("watch=");
            let line = format!("{} {}", request.method(), request.uri().path());
            let judged = request.method() != http::Method::GET
                && JUDGED.iter().any(|kind| request.uri().path().contains(kind));
            let delete = request.method() == http::Method::DELETE;
            let trouble = if watch { Trouble::None } else { api.trouble() };
            api.fuse.burn("before", &line).await;
            let answer = match trouble {
                Trouble::Refused => {
                    api.world.log.line(&api.name, format_args!("{line} refused"));
                    return Ok(failure());
                }
                Trouble::Slow(pause) => {
                    tokio::time::sleep(pause).await;
                    api.inner.call(request).await
                }
                Trouble::None | Trouble::Late(_) | Trouble::Lost => api.inner.call(request).await,
            };
            let mut response = match answer {
                Ok(response) => response,
                Err(never) => match never {},
            };
            if !watch && judged && response.status().is_success() {
                let (parts, body) = response.into_parts();
                let bytes = collect(body).await;
                if let Ok(object) = serde_json::from_slice(&bytes) {
                    if delete {
                        api.world.deleted(api.name != "user", &object);
                    }
                    api.world.written(object);
                }
                response = Response::from_parts(parts, Body::whole(bytes));
            }
            if !watch {
                api.world
                    .log
                    .line(&api.name, format_args!("{line} {} {trouble:?}", response.status()));
            }
            if let Trouble::Late(pause) = trouble {
                tokio::time::sleep(pause).await;
            }
            api.fuse.burn("after", &line).await;
            if trouble == Trouble::Lost {
                return Ok(failure());
            }
            let dice = watch.then(|| api.dice.clone());
            Ok(response.map(|body| FaultyBody {
                inner: Some(body),
                dice,
                pause: None,
                again: None,
            }))
        })
    }
}

async fn collect(mut body: Body) -> Bytes {
    let mut all = Vec::new();
    while let Some(Ok(frame)) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
    {
        all.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    all.into()
}

fn failure() -> Response<FaultyBody> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the connection broke", "reason": "InternalError", "code": 500,
    });
    let body = Body::whole(status.to_string());
    let mut response =
        Response::new(FaultyBody { inner: Some(body), dice: None, pause: None, again: None });
    *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
    response
}

/// An answer's body; that of a watch loses, repeats and delays what it carries.
pub struct FaultyBody {
    inner: Option<Body>,
    dice: Option<Arc<Mutex<Dice>>>,
    pause: Option<(Pin<Box<tokio::time::Sleep>>, Bytes)>,
    again: Option<Bytes>,
}

impl http_body::Body for FaultyBody {
    type Data = Bytes;
    type Error = sutler_store::status::ApiError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some((sleep, _)) = &mut self.pause {
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let frame = self.pause.take().map(|(_, bytes)| Ok(Frame::data(bytes)));
            return Poll::Ready(frame);
        }
        if let Some(bytes) = self.again.take() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let Some(inner) = &mut self.inner else { return Poll::Ready(None) };
        let frame = match Pin::new(inner).poll_frame(cx) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame,
        };
        let (Some(Ok(data)), Some(dice)) = (&frame, &self.dice) else { return Poll::Ready(frame) };
        let Some(bytes) = data.data_ref().cloned() else { return Poll::Ready(frame) };
        let (which, how, chance) = {
            let mut dice = dice.lock().unwrap_or_else(PoisonError::into_inner);
            let (which, how): (f64, f64) = (dice.rng.random(), dice.rng.random());
            (which, how, dice.watches)
        };
        if which >= chance {
            return Poll::Ready(frame);
        }
        match () {
            // It ends before this could be read.
            () if how < 0.2 => {
                self.inner = None;
                Poll::Ready(None)
            }
            () if how < 0.5 => {
                self.again = Some(bytes);
                Poll::Ready(frame)
            }
            () => {
                let pause = Duration::from_millis((how * 8000.0) as u64);
                self.pause = Some((Box::pin(tokio::time::sleep(pause)), bytes));
                self.poll_frame(cx)
            }
        }
    }
}
