//! Health and metrics over HTTP.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::metrics::Metrics;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What is served over HTTP.
#[derive(Clone)]
pub(crate) struct Pages {
    pub(crate) metrics: Metrics,
    /// Whether calls are taken.
    pub(crate) ready: Arc<AtomicBool>,
}

impl Pages {
    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let ready = self.ready.load(Ordering::Relaxed);
        let (status, kind, body) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/healthz" | "/livez") => {
                (StatusCode::OK, "text/plain", "ok\n".to_owned())
            }
            (&Method::GET | &Method::HEAD, "/readyz") if ready => {
                (StatusCode::OK, "text/plain", "ok\n".to_owned())
            }
            (&Method::GET | &Method::HEAD, "/readyz") => {
                (StatusCode::SERVICE_UNAVAILABLE, "text/plain", "draining\n".to_owned())
            }
            (&Method::GET, "/metrics") => (StatusCode::OK, METRICS_TYPE, self.metrics.text()),
            _ => (StatusCode::NOT_FOUND, "text/plain", "not found\n".to_owned()),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
        response
    }
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, pages: Pages) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection for health could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let pages = pages.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let response = pages.answer(&request);
                async { Ok::<_, Infallible>(response) }
            });
            let serving = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(10))
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = serving.await {
                tracing::debug!(%error, "a connection for health broke");
            }
        });
    }
}
