//! A client of HTTP/1.1 that does as it is told: one request at a time, no retries.

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;

use crate::server::{Address, Who};

/// JSON.
pub(crate) const JSON: &str = "application/json";

/// A connection that is opened again when it is gone.
pub(crate) struct Client {
    address: Address,
    who: Who,
    /// Headers of every request.
    pub(crate) headers: Vec<(&'static str, String)>,
    sender: Option<http1::SendRequest<Full<Bytes>>>,
}

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The status code.
    pub(crate) code: u16,
    /// Its headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
}

/// Why nothing came back: whether the request was carried out is unknown.
#[derive(Debug)]
pub(crate) struct Gone;

impl<E: std::error::Error> From<E> for Gone {
    fn from(_: E) -> Self {
        Self
    }
}

impl Client {
    /// A client that is not connected yet.
    pub(crate) fn new(address: &Address, who: Who) -> Self {
        Self { address: address.clone(), who, headers: Vec::new(), sender: None }
    }

    /// The same, with a bearer token.
    pub(crate) fn with_token(address: &Address, token: &str) -> Self {
        let mut client = Self::new(address, Who::Nobody);
        client.headers.push(("authorization", format!("Bearer {token}")));
        client
    }

    /// Sends a request and takes the head of the answer.
    pub(crate) async fn open(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<http::Response<Incoming>, Gone> {
        let mut request =
            Request::builder().method(method).uri(target).header(header::HOST, "sutler");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("the request can be made");
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => connect(&self.address, self.who).await?,
        };
        if sender.ready().await.is_err() {
            sender = connect(&self.address, self.who).await?;
        }
        let answer = sender.send_request(request).await?;
        self.sender = Some(sender);
        Ok(answer)
    }

    /// Sends a request and takes the whole answer.
    pub(crate) async fn send(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, Gone> {
        let (parts, body) = self.open(method, target, headers, body).await?.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { code: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// Gets something.
    pub(crate) async fn get(&mut self, target: &str) -> Result<Answer, Gone> {
        self.send("GET", target, &[], "").await
    }

    /// Sends a JSON body.
    pub(crate) async fn json(
        &mut self,
        method: &str,
        target: &str,
        body: &Value,
    ) -> Result<Answer, Gone> {
        self.send(method, target, &[("content-type", JSON)], body.to_string()).await
    }
}

async fn connect(address: &Address, who: Who) -> Result<http1::SendRequest<Full<Bytes>>, Gone> {
    let stream = address.tls(who, b"http/1.1").await?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(async move {
        // What ends it shows in the requests that it carried.
        let _ = connection.await;
    });
    Ok(sender)
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The version of the object or list in the body.
    pub(crate) fn version(&self) -> u64 {
        let version = &self.value()["metadata"]["resourceVersion"];
        version
            .as_str()
            .and_then(|v| v.parse().ok())
            .unwrap_or_else(|| panic!("no version: {self:?}"))
    }
}
