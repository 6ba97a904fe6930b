//! Requests: plain HTTP with JSON, so that answers can be printed as they came.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::{
    client::Body,
    core::{Status, response::StatusSummary},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::errors::{Error, Peer};

/// Asks for objects as they are.
pub(crate) const JSON: &str = "application/json";
/// Asks for rows and columns, or for objects where the server has no table.
pub(crate) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
/// Asks for metadata alone, of one object.
pub(crate) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
/// Asks for metadata alone, of a collection.
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A part of a path or a value of a query, safe to put there.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// The query of a request; empty values are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Adds a parameter, unless its value is empty.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((key, value));
        }
        self
    }

    /// Adds a parameter where there is a value.
    pub(crate) fn maybe(self, key: &'static str, value: Option<impl Into<String>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// A path with this query.
    pub(crate) fn on(&self, path: &str) -> String {
        let mut url = path.to_owned();
        for (i, (key, value)) in self.0.iter().enumerate() {
            url.push(if i == 0 { '?' } else { '&' });
            url.push_str(key);
            url.push('=');
            url.push_str(&encode(value));
        }
        url
    }
}

/// One server.
#[derive(Clone)]
pub(crate) struct Api {
    client: kube::Client,
    /// Which server that is, for messages.
    pub(crate) peer: Arc<Peer>,
    timeout: Option<Duration>,
}

impl Api {
    /// Talks through this client; no answer within `timeout` is an error.
    pub(crate) fn new(client: kube::Client, peer: Peer, timeout: Option<Duration>) -> Self {
        Self { client, peer: Arc::new(peer), timeout }
    }

    /// Reads.
    pub(crate) async fn get(&self, url: &str, accept: &str) -> Result<Value, Error> {
        Ok(self.call(Method::GET, url, accept, None).await?.1)
    }

    /// Creates, and answers with what was created.
    pub(crate) async fn post(&self, url: &str, body: &Value) -> Result<Value, Error> {
        Ok(self.call(Method::POST, url, JSON, Some((JSON, body))).await?.1)
    }

    /// Replaces.
    pub(crate) async fn put(&self, url: &str, body: &Value) -> Result<Value, Error> {
        Ok(self.call(Method::PUT, url, JSON, Some((JSON, body))).await?.1)
    }

    /// Changes; the content type says how the body is meant.
    pub(crate) async fn patch(
        &self,
        url: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<(StatusCode, Value), Error> {
        self.call(Method::PATCH, url, JSON, Some((content_type, body))).await
    }

    /// Deletes; the body holds the options.
    pub(crate) async fn delete(&self, url: &str, options: &Value) -> Result<Value, Error> {
        Ok(self.call(Method::DELETE, url, JSON, Some((JSON, options))).await?.1)
    }

    async fn call(
        &self,
        method: Method,
        url: &str,
        accept: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(StatusCode, Value), Error> {
        let started = Instant::now();
        let work = async {
            let (code, body) = self.open(method.clone(), url, accept, body).await?;
            let bytes = body.collect().await.map_err(|e| Error::from_kube(e, &self.peer))?;
            Ok((code, bytes.to_bytes()))
        };
        let (code, bytes) = match self.timeout {
            Some(limit) => tokio::time::timeout(limit, work)
                .await
                .map_err(|_| Error::timeout(&self.peer, limit.as_secs()))??,
            None => work.await?,
        };
        tracing::info!(
            target: "sutler::http",
            "{method} {url} {} in {} ms, {} bytes", code.as_u16(), started.elapsed().as_millis(), bytes.len()
        );
        if !code.is_success() {
            return Err(Error::Status {
                status: read_status(code, &bytes),
                peer: self.peer.clone(),
            });
        }
        let value = serde_json::from_slice(&bytes)
            .map_err(|e| Error::Answer { peer: self.peer.clone(), detail: e.to_string() })?;
        Ok((code, value))
    }

    /// Begins a watch: the answer's body, open until one side closes it.
    pub(crate) async fn stream(&self, url: &str, accept: &str) -> Result<Body, Error> {
        let opened = self.open(Method::GET, url, accept, None);
        let (code, body) = match self.timeout {
            Some(limit) => tokio::time::timeout(limit, opened)
                .await
                .map_err(|_| Error::timeout(&self.peer, limit.as_secs()))??,
            None => opened.await?,
        };
        tracing::info!(target: "sutler::http", "GET {url} {}", code.as_u16());
        if code.is_success() {
            return Ok(body);
        }
        let bytes = body.collect().await.map_err(|e| Error::from_kube(e, &self.peer))?.to_bytes();
        Err(Error::Status { status: read_status(code, &bytes), peer: self.peer.clone() })
    }

    async fn open(
        &self,
        method: Method,
        url: &str,
        accept: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(StatusCode, Body), Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header(header::ACCEPT, accept)
            .header(header::USER_AGENT, concat!("sutler/", env!("CARGO_PKG_VERSION")));
        let mut bytes = Vec::new();
        if let Some((content_type, value)) = body {
            request = request.header(header::CONTENT_TYPE, content_type);
            bytes = value.to_string().into_bytes();
        }
        let request = request
            .body(Body::from(bytes))
            .map_err(|e| Error::from_kube(kube::Error::HttpError(e), &self.peer))?;
        let response =
            self.client.send(request).await.map_err(|e| Error::from_kube(e, &self.peer))?;
        Ok((response.status(), response.into_body()))
    }
}

/// The `Status` of a refusal, made up from the code where a proxy answered with something else.
fn read_status(code: StatusCode, bytes: &[u8]) -> Box<Status> {
    match serde_json::from_slice::<Status>(bytes) {
        Ok(mut status) if status.status == Some(StatusSummary::Failure) => {
            if status.code == 0 {
                status.code = code.as_u16();
            }
            status.boxed()
        }
        _ => {
            let text = String::from_utf8_lossy(bytes);
            let text = text.trim();
            let message =
                if text.is_empty() { code.to_string() } else { format!("{code}: {text}") };
            Status::failure(&message, "").with_code(code.as_u16()).boxed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_encoded_and_leave_empty_values_out() {
        let query = Query::default()
            .with("labelSelector", "a in (b,c)")
            .with("fieldSelector", "")
            .maybe("limit", Some("5"))
            .maybe("continue", None::<String>);
        assert_eq!(query.on("/api"), "/api?labelSelector=a%20in%20%28b%2Cc%29&limit=5");
    }

    #[test]
    fn a_proxys_page_becomes_a_status() {
        let status = read_status(StatusCode::BAD_GATEWAY, b"<html>\n");
        assert_eq!(status.code, 502);
        assert!(status.message.contains("<html>"));
    }
}
