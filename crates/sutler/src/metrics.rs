//! Metrics in Prometheus' text form, on a listener of their own.

use std::{convert::Infallible, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text::encode},
    metrics::{MetricType, gauge::Gauge, info::Info},
    registry::{Registry, Unit},
};
use sutler_kv::stats::{Histogram, Stats};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

mod control;

pub(crate) use control::ControlMetrics;

/// The content type of the text form.
const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a client may take to send its headers.
const HEADERS: Duration = Duration::from_secs(10);

/// A registry that knows the build; others add what they count.
pub(crate) fn registry(started: f64) -> Registry {
    let mut registry = Registry::default();
    let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("sutler_build", "The build that runs", build);
    let start = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
    start.set(started);
    registry.register("process_start_time_seconds", "When the process started, since 1970", start);
    registry
}

/// The API server's own counts, read when somebody asks.
#[derive(Debug)]
pub(crate) struct ApiMetrics(pub(crate) Arc<sutler_store::metrics::Metrics>);

impl Collector for ApiMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let kind = MetricType::Counter;
        let mut requests =
            encoder.encode_descriptor("sutler_api_requests", "Requests answered", None, kind)?;
        for (verb, class, count) in self.0.requests().filter(|(_, _, count)| *count > 0) {
            requests
                .encode_family(&[("verb", verb), ("code", class)])?
                .encode_counter::<NoLabelSet, u64, u64>(&count, None)?;
        }
        let help = "Time spent on requests";
        let unit = Some(&Unit::Seconds);
        let mut time = encoder.encode_descriptor("sutler_api_request", help, unit, kind)?;
        for (verb, spent) in self.0.time().filter(|(_, spent)| !spent.is_zero()) {
            time.encode_family(&[("verb", verb)])?
                .encode_counter::<NoLabelSet, f64, u64>(&spent.as_secs_f64(), None)?;
        }
        let mut watches = encoder.encode_descriptor(
            "sutler_api_watches",
            "Watches open",
            None,
            MetricType::Gauge,
        )?;
        watches.encode_gauge(&self.0.watches())?;
        let behind = "Times that a watch fell behind and read the log again";
        let expired = "Watches that ended with 410 because the log no longer reached back";
        for (name, help, count) in [
            ("sutler_api_watches_behind", behind, self.0.watches_behind()),
            ("sutler_api_watches_expired", expired, self.0.watches_expired()),
        ] {
            count_of(&mut encoder, name, help, count)?;
        }
        Ok(())
    }
}

/// The store's own counts, and the size of its files, read when somebody asks.
#[derive(Debug)]
pub(crate) struct StoreMetrics {
    /// What it counts.
    pub(crate) stats: Arc<Stats>,
    /// Its database.
    pub(crate) database: PathBuf,
}

impl Collector for StoreMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let stats = &self.stats;
        for (name, help, count) in [
            ("sutler_store_writes", "Writes committed", stats.writes()),
            ("sutler_store_conflicts", "Writes refused as out of date", stats.refused()),
            ("sutler_store_failed_writes", "Writes of commits that failed", stats.failed()),
            ("sutler_store_compactions", "Times that history was forgotten", stats.compactions()),
            ("sutler_store_checkpoints", "Moves of the write-ahead log", stats.checkpoints()),
        ] {
            count_of(&mut encoder, name, help, count)?;
        }
        histogram(
            encoder.encode_descriptor(
                "sutler_store_commit_writes",
                "Writes per commit",
                None,
                MetricType::Histogram,
            )?,
            stats.batches(),
            1.0,
        )?;
        histogram(
            encoder.encode_descriptor(
                "sutler_store_commit",
                "Time per commit, its sync included",
                Some(&Unit::Seconds),
                MetricType::Histogram,
            )?,
            stats.commits(),
            1e-6,
        )?;
        let mut size = encoder.encode_descriptor(
            "sutler_store_size",
            "Size of the store's files",
            Some(&Unit::Bytes),
            MetricType::Gauge,
        )?;
        for (file, ending) in [("database", ""), ("log", "-wal")] {
            let mut path = self.database.clone().into_os_string();
            path.push(ending);
            let bytes = std::fs::metadata(path).map(|file| file.len()).unwrap_or_default();
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            size.encode_family(&[("file", file)])?.encode_gauge(&bytes)?;
        }
        Ok(())
    }
}

fn count_of(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    count: u64,
) -> Result<(), std::fmt::Error> {
    let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    counter.encode_counter::<NoLabelSet, u64, u64>(&count, None)
}

fn histogram(
    mut encoder: MetricEncoder<'_>,
    histogram: &Histogram,
    unit: f64,
) -> Result<(), std::fmt::Error> {
    let bound = |bound: Option<u64>| bound.map_or(f64::MAX, |bound| bound as f64 * unit);
    let buckets: Vec<(f64, u64)> =
        histogram.buckets().map(|(upper, count)| (bound(upper), count)).collect();
    let count = buckets.iter().map(|(_, count)| count).sum();
    encoder.encode_histogram::<NoLabelSet>(histogram.sum() as f64 * unit, count, &buckets, None)
}

/// Serves a registry until `stop` says so; answers with the address and the task.
pub(crate) async fn serve(
    listen: SocketAddr,
    registry: Arc<Registry>,
    stop: watch::Receiver<bool>,
) -> io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    Ok((address, tokio::spawn(accept(listener, registry, stop))))
}

async fn accept(listener: TcpListener, registry: Arc<Registry>, mut stop: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, mostly: going on at once would only spin.
                tracing::warn!(%error, "metrics: a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let registry = registry.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let response = answer(request.method(), request.uri().path(), &registry);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut server = auto::Builder::new(TokioExecutor::new());
            server.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS);
            if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(error, "metrics: a connection ended badly");
            }
        });
    }
}

fn answer(method: &Method, path: &str, registry: &Registry) -> Response<Full<Bytes>> {
    let reply = |code: StatusCode, kind: &'static str, body: String| {
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = code;
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
        response
    };
    match (method, path) {
        (&Method::GET, "/metrics") => {
            let mut text = String::new();
            match encode(&mut text, registry) {
                Ok(()) => reply(StatusCode::OK, TEXT, text),
                Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", String::new()),
            }
        }
        // Whatever becomes of platforms and of the cluster, this process lives.
        (&Method::GET, "/livez" | "/readyz" | "/healthz") => {
            reply(StatusCode::OK, "text/plain", "ok".into())
        }
        (_, "/metrics") => reply(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "use GET\n".into()),
        _ => reply(StatusCode::NOT_FOUND, "text/plain", "see /metrics\n".into()),
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn metrics_are_served_until_the_end() {
        let (stop, stopped) = watch::channel(false);
        let registry = Arc::new(registry(1.5));
        let (address, task) =
            serve("127.0.0.1:0".parse().unwrap(), registry, stopped).await.unwrap();
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        assert!(text.contains("sutler_build_info{version=\"") && text.contains("# EOF"), "{text}");
        stop.send_replace(true);
        task.await.unwrap();
    }

    #[tokio::test]
    async fn the_store_is_counted() {
        use sutler_kv::{
            engine::{Action, Engine as _, Expect, Write},
            sqlite::{Options, Sqlite},
        };
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("x.db");
        let store = Sqlite::open(&database, Options::default()).unwrap();
        for key in ["a/b/1", "a/b/2", "a/b/2"] {
            let action = Action::Put(Bytes::from_static(b"x"));
            let write = Write { key: key.into(), expect: Expect::Absent, action, also: Vec::new() };
            let _ = store.write(write).await;
        }
        let mut registry = registry(0.0);
        let stats = store.stats().clone();
        registry.register_collector(Box::new(StoreMetrics { stats, database }));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "sutler_store_writes_total 2",
            "sutler_store_conflicts_total 1",
            "sutler_store_commit_writes_bucket{le=\"1.0\"} 2",
            "sutler_store_commit_writes_sum 2.0",
            "sutler_store_commit_seconds_bucket{le=\"+Inf\"} 2",
            "sutler_store_commit_seconds_count 2",
            "sutler_store_compactions_total 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        let size =
            text.lines().find_map(|l| l.strip_prefix("sutler_store_size_bytes{file=\"log\"} "));
        assert!(size.unwrap().parse::<u64>().unwrap() > 0, "{text}");
    }

    #[tokio::test]
    async fn other_paths_say_where_to_look() {
        let registry = registry(0.0);
        assert_eq!(answer(&Method::POST, "/metrics", &registry).status(), 405);
        for path in ["/livez", "/readyz", "/healthz"] {
            let response = answer(&Method::GET, path, &registry);
            assert_eq!(response.status(), 200);
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
        }
        let response = answer(&Method::GET, "/", &registry);
        assert_eq!(response.status(), 404);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "see /metrics\n");
    }
}
