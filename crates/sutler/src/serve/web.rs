//! Requests that lifecycle hooks send to guests.

use std::{pin::pin, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::{Either, select};
use http::{Request, Uri, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use sutler_control::machine::hooks::Web;
use sutler_provider::{Error, ErrorKind, Result};
use tokio::net::TcpStream;

/// A small HTTP/1 client: one connection per request, no redirects, plain text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Http;

#[async_trait]
impl Web for Http {
    async fn get(&self, url: &str, timeout: Duration) -> Result<()> {
        let uri: Uri = url.parse().map_err(|error| {
            Error::invalid("httpGet", format!("{url:?} is no address")).because(error)
        })?;
        if uri.scheme_str() != Some("http") {
            return Err(Error::unsupported(format!(
                "httpGet: {url}: this build sends hooks' requests without TLS only: use scheme HTTP"
            )));
        }
        match tokio::time::timeout(timeout, send(&uri)).await {
            Ok(result) => result,
            Err(_) => {
                let message = format!("GET {url}: no answer within {} s", timeout.as_secs());
                Err(Error::unavailable(message))
            }
        }
    }
}

async fn send(uri: &Uri) -> Result<()> {
    let failed = |what: &str| Error::unavailable(format!("GET {uri}: {what}"));
    let host = uri.host().ok_or_else(|| Error::invalid("httpGet", "there is no host"))?;
    let address = (host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| failed("the guest cannot be reached").because(error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed("the connection broke").because(error))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or(host, |authority| authority.as_str());
    let request = Request::get(path)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("sutler/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| Error::invalid("httpGet", "no request").because(error))?;
    let (answer, drive) = (pin!(sender.send_request(request)), pin!(connection));
    let response = match select(answer, drive).await {
        Either::Left((response, _)) => response,
        // The connection may end with the answer already there: only the answer itself tells.
        Either::Right((_, answer)) => answer.await,
    };
    let status = response
        .map_err(|error| failed("the connection ended without an answer").because(error))?
        .status();
    match status.as_u16() {
        0..400 => Ok(()),
        code => Err(Error::new(ErrorKind::Failed, format!("GET {uri}: the guest answered {code}"))),
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    async fn guest(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /up?x=1 HTTP/1.1\r\n"));
            stream.write_all(answer).await.unwrap();
        });
        format!("http://{address}/up?x=1")
    }

    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn any_status_below_400_is_a_success() {
        for answer in
            [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n"]
        {
            Http.get(&guest(answer).await, SOON).await.unwrap();
        }
        let error = Http.get(&guest(b"HTTP/1.1 500 Oh\r\n\r\n").await, SOON).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.message().contains("500"));
    }

    #[tokio::test]
    async fn what_cannot_be_sent_says_why() {
        let error = Http.get("https://10.0.0.1:443/", SOON).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let error = Http.get(&guest(b"").await, SOON).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}
