use std::path::Path;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::tls::{Pki, server_config};

/// Answers by path: `/who` with what it knows of the client, `/wait` once released, `/never`
/// never, `/401` with that, anything else at once.
#[derive(Clone, Default)]
struct Testing {
    entered: Arc<Notify>,
    release: Arc<Notify>,
}

impl tower::Service<Request<Incoming>> for Testing {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            this.entered.notify_one();
            let mut answer = Response::new(Full::from("ok"));
            match request.uri().path() {
                "/wait" => this.release.notified().await,
                "/never" => std::future::pending().await,
                "/401" => *answer.status_mut() = http::StatusCode::UNAUTHORIZED,
                "/who" => {
                    let certificate = request.extensions().get::<ClientCert>();
                    let peer = request.extensions().get::<PeerAddr>().unwrap();
                    let user = certificate.map(|der| {
                        crate::auth::authn::certificate_user(&der.0, std::time::SystemTime::now())
                    });
                    let user = user.map_or("nobody".to_owned(), |user| user.unwrap().name);
                    *answer.body_mut() = Full::from(format!("{user} {}", peer.0.ip()));
                }
                _ => {}
            }
            Ok(answer)
        })
    }
}

struct Server {
    address: SocketAddr,
    dir: tempfile::TempDir,
    service: Testing,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Shutdown>,
}

fn short() -> Limits {
    // Long enough for a busy machine, short enough to wait for.
    let quick = Duration::from_millis(300);
    Limits {
        handshake_timeout: quick,
        header_timeout: quick,
        shutdown_grace: Duration::from_secs(20),
        ..Limits::default()
    }
}

fn patient() -> Limits {
    Limits { shutdown_grace: Duration::from_secs(60), ..Limits::default() }
}

async fn start(limits: Limits) -> Server {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::ensure(dir.path(), &[], std::time::SystemTime::now()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let service = Testing::default();
    let shutdown = async move {
        let _ = stopped.await;
    };
    let ended =
        tokio::spawn(serve(listener, server_config(&pki), service.clone(), limits, shutdown));
    Server { address, dir, service, stop, ended }
}

impl Server {
    async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn tls(&self, protocol: &[u8], certificate: bool) -> TlsStream<TcpStream> {
        let file = |name: &str| std::fs::read(Path::join(self.dir.path(), name)).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&file("ca.crt")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match certificate {
            false => builder.with_no_client_auth(),
            true => {
                let chain = vec![CertificateDer::from_pem_slice(&file("admin.crt")).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(&file("admin.key")).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("localhost").unwrap();
        connector.connect(name, self.tcp().await).await.unwrap()
    }

    async fn h1(&self, certificate: bool) -> (http1::SendRequest<Empty<Bytes>>, JoinHandle<bool>) {
        let io = TokioIo::new(self.tls(b"http/1.1", certificate).await);
        let (send, connection) = http1::handshake(io).await.unwrap();
        (send, tokio::spawn(async move { connection.await.is_ok() }))
    }

    async fn h2(&self, certificate: bool) -> (http2::SendRequest<Empty<Bytes>>, JoinHandle<bool>) {
        let io = TokioIo::new(self.tls(b"h2", certificate).await);
        let (send, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        (send, tokio::spawn(async move { connection.await.is_ok() }))
    }

    /// The server still serves whatever happened before.
    async fn check(&self) {
        let (mut send, _) = self.h1(false).await;
        let answer = send.send_request(get("/")).await.unwrap();
        assert_eq!(answer.status(), 200);
    }

    async fn finish(self) -> Shutdown {
        let _ = self.stop.send(());
        self.ended.await.unwrap()
    }
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path).header("host", "localhost").body(Empty::new()).unwrap()
}

async fn text(answer: Response<Incoming>) -> String {
    String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Everything until the server closes; a reset counts as closing.
async fn drain(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all).await;
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn both_protocols_carry_who_the_client_is() {
    let server = start(patient()).await;
    for (certificate, want) in [(false, "nobody 127.0.0.1"), (true, "sutler-admin 127.0.0.1")] {
        let (mut send, _) = server.h1(certificate).await;
        for _ in 0..2 {
            send.ready().await.unwrap();
            let answer = send.send_request(get("/who")).await.unwrap();
            assert_eq!(answer.headers()["content-length"], want.len().to_string());
            assert_eq!(text(answer).await, want);
        }
        let (mut send, _) = server.h2(certificate).await;
        let answer = send.send_request(get("https://localhost/who")).await.unwrap();
        assert_eq!(answer.version(), http::Version::HTTP_2);
        assert_eq!(text(answer).await, want);
    }
    assert_eq!(server.finish().await, Shutdown { cut: 0 });
}

#[tokio::test]
async fn slow_clients_are_dropped() {
    let server = start(short()).await;
    // Before the handshake, in it, after it without a request, and within a request's head.
    let mut silent = server.tcp().await;
    let mut slow = server.tcp().await;
    slow.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    let mut idle = server.tls(b"http/1.1", false).await;
    let mut idle2 = server.tls(b"h2", false).await;
    let mut halting = server.tls(b"http/1.1", false).await;
    halting.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
    assert_eq!(drain(&mut silent).await, "");
    drain(&mut slow).await;
    assert_eq!(drain(&mut idle).await, "");
    drain(&mut idle2).await;
    assert_eq!(drain(&mut halting).await, "");
    // One that halts in its second request is no better.
    let mut second = server.tls(b"http/1.1", false).await;
    second.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut first = [0u8; 12];
    second.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    second.write_all(b"GET / HT").await.unwrap();
    drain(&mut second).await;
    server.check().await;
    assert_eq!(server.finish().await, Shutdown { cut: 0 });
}

#[tokio::test]
async fn a_slow_answer_is_no_slow_client() {
    let server = start(Limits { idle_timeout: Duration::from_millis(1), ..short() }).await;
    let (mut send, _) = server.h1(false).await;
    let (mut send2, _) = server.h2(false).await;
    let one = tokio::spawn(async move { send.send_request(get("/wait")).await });
    server.service.entered.notified().await;
    let two = tokio::spawn(async move { send2.send_request(get("https://h/wait")).await });
    server.service.entered.notified().await;
    // Other connections come and go for longer than any of the limits.
    for _ in 0..2 {
        drain(&mut server.tls(b"http/1.1", false).await).await;
    }
    server.service.release.notify_waiters();
    for answer in [one, two] {
        assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    }
}

#[tokio::test]
async fn idle_connections_are_closed_politely() {
    let server = start(Limits { idle_timeout: Duration::from_millis(50), ..short() }).await;
    let (mut send, closed) = server.h1(false).await;
    assert_eq!(send.send_request(get("/")).await.unwrap().status(), 200);
    assert!(closed.await.unwrap());
    let (mut send, closed) = server.h2(false).await;
    assert_eq!(send.send_request(get("https://h/")).await.unwrap().status(), 200);
    assert!(closed.await.unwrap());
    server.finish().await;
}

#[tokio::test]
async fn header_floods_are_answered_by_431() {
    let server = start(patient()).await;
    let big = format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let lines: String = (0..200).map(|i| format!("X-{i}: y\r\n")).collect();
    let many = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    for flood in [big, many] {
        let mut stream = server.tls(b"http/1.1", false).await;
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(flood.as_bytes()).await;
        let answer = drain(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431"), "{answer:?}");
    }
    let (mut send, _) = server.h2(false).await;
    send.send_request(get("https://h/")).await.unwrap();
    let mut flood = get("https://h/");
    for i in 0..20 {
        let name = http::HeaderName::from_bytes(format!("x-{i}").as_bytes()).unwrap();
        flood.headers_mut().insert(name, "y".repeat(5000).parse().unwrap());
    }
    // A client that knows the limit refuses by itself.
    match send.send_request(flood).await {
        Ok(answer) => assert_eq!(answer.status(), 431),
        Err(error) => {
            assert!(error.is_user() || format!("{error:?}").contains("Http2"), "{error:?}")
        }
    }
    server.check().await;
    server.finish().await;
}

#[tokio::test]
async fn garbage_is_closed_and_harms_nobody() {
    let server = start(patient()).await;
    for garbage in [&b"\x00\x01\x02\x03\x04\x05\x06\x07"[..], b"\x16\x03\x01\x00\x05hello", b"\x80"]
    {
        let mut stream = server.tcp().await;
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        drain(&mut stream).await;
    }
    let mut stream = server.tls(b"h2", false).await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: this is not HTTP/2\r\n\r\n").await.unwrap();
    drain(&mut stream).await;
    let mut stream = server.tls(b"http/1.1", false).await;
    stream.write_all(b"\x00\xff\r\n\r\n").await.unwrap();
    assert!(drain(&mut stream).await.starts_with("HTTP/1.1 400"));
    server.check().await;
    assert_eq!(server.finish().await, Shutdown { cut: 0 });
}

#[tokio::test]
async fn plain_http_is_told_what_is_wrong() {
    let server = start(patient()).await;
    let mut stream = server.tcp().await;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = vec![0; connection::PLAIN_HTTP.len()];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, connection::PLAIN_HTTP);
    stream.shutdown().await.unwrap();
    assert_eq!(drain(&mut stream).await, "");
    server.finish().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let server = start(Limits { max_connections: 1, ..patient() }).await;
    let (mut send, held) = server.h1(false).await;
    send.send_request(get("/")).await.unwrap();
    let second = async {
        let (mut send, _) = server.h1(false).await;
        send.send_request(get("/")).await.unwrap().status()
    };
    let mut second = Box::pin(second);
    let early = tokio::time::timeout(Duration::from_millis(50), &mut second).await;
    assert!(early.is_err());
    drop(send);
    held.await.unwrap();
    assert_eq!(second.await, 200);
    server.finish().await;
}

#[tokio::test]
async fn a_shutdown_lets_requests_finish_and_takes_no_more() {
    let server = start(patient()).await;
    let (mut kept, idle_closed) = server.h1(false).await;
    kept.send_request(get("/")).await.unwrap();
    server.service.entered.notified().await;
    let fresh = server.tls(b"http/1.1", false).await;
    let half = server.tcp().await;
    let (mut one, _) = server.h1(false).await;
    let one = tokio::spawn(async move { one.send_request(get("/wait")).await });
    server.service.entered.notified().await;
    let (mut two, _) = server.h2(false).await;
    let two = tokio::spawn(async move { two.send_request(get("https://h/wait")).await });
    server.service.entered.notified().await;

    let Server { address, service, stop, mut ended, dir: _dir } = server;
    stop.send(()).unwrap();
    assert!(idle_closed.await.unwrap(), "an idle connection is closed at once");
    let (mut fresh, mut half) = (fresh, half);
    assert_eq!(drain(&mut fresh).await, "");
    assert_eq!(drain(&mut half).await, "");
    assert!(TcpStream::connect(address).await.is_err(), "nobody new is let in");
    assert!(futures::poll!(&mut ended).is_pending());
    service.release.notify_waiters();
    assert_eq!(one.await.unwrap().unwrap().status(), 200);
    assert_eq!(two.await.unwrap().unwrap().status(), 200);
    assert_eq!(ended.await.unwrap(), Shutdown { cut: 0 });
}

#[tokio::test]
async fn a_shutdown_ends_in_any_case() {
    let limits = Limits { shutdown_grace: Duration::from_millis(50), ..Limits::default() };
    let server = start(limits).await;
    let (mut send, _) = server.h1(false).await;
    let stuck = tokio::spawn(async move { send.send_request(get("/never")).await });
    server.service.entered.notified().await;
    assert_eq!(server.finish().await, Shutdown { cut: 1 });
    assert!(stuck.await.unwrap().is_err());
}

#[tokio::test]
async fn without_credentials_an_http2_connection_ends_after_the_answer() {
    let server = start(patient()).await;
    let (mut send, closed) = server.h2(false).await;
    let answer = send.send_request(get("https://h/401")).await.unwrap();
    assert_eq!(answer.status(), 401);
    assert_eq!(text(answer).await, "ok");
    assert!(closed.await.unwrap());
    server.finish().await;
}

#[tokio::test(start_paused = true)]
async fn accept_errors_back_off_but_a_failed_client_does_not_count() {
    let mut trouble = Trouble::default();
    trouble.add(&io::ErrorKind::ConnectionAborted.into());
    assert!(trouble.pause.is_none());
    let mut last = Duration::ZERO;
    for _ in 0..20 {
        // Out of file descriptors.
        trouble.add(&io::Error::from_raw_os_error(24));
        let pause = trouble.pause.unwrap() - Instant::now();
        assert!(pause >= last && pause <= Duration::from_secs(2), "{pause:?}");
        last = pause;
    }
    assert!(last >= Duration::from_secs(1));
}
