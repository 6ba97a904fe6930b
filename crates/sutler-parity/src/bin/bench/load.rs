//! The work that is measured.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use futures::future::try_join_all;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use sutler_parity::target::Target;

use crate::{Size, servers::Server};

/// Requests in flight.
const FLIGHT: usize = 64;
const PAGE: usize = 500;
const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";

/// What one server did.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) creates: f64,
    pub(crate) updates: f64,
    pub(crate) page: Duration,
    pub(crate) pages: Duration,
    pub(crate) whole: Duration,
    pub(crate) fan_out: f64,
    pub(crate) start: Option<Duration>,
    pub(crate) rss_loaded: u64,
    pub(crate) rss_watched: u64,
}

/// Everything, in order, on one server.
pub(crate) async fn all(server: &Server, size: Size) -> Result<Figures> {
    let client = Client { target: server.target.clone(), token: server.token.clone() };
    let creates = client.creates(size.objects).await?;
    println!("  creates {creates:.0}/s");
    let updates = client.updates(size.updates).await?;
    println!("  updates {updates:.0}/s");
    let (page, pages) = client.pages(size.objects).await?;
    let whole = client.whole(size.objects).await?;
    println!("  page {page:?}, all pages {pages:?}, whole {whole:?}");
    let rss_loaded = server.rss();
    let fan_out = client.fan_out(size.watchers).await?;
    println!("  fan-out {fan_out:.0} events/s");
    let rss_watched = server.rss();
    let start = server.started;
    Ok(Figures { creates, updates, page, pages, whole, fan_out, start, rss_loaded, rss_watched })
}

/// Creates per second, on a target that needs no token.
pub(crate) async fn creates(target: &Arc<dyn Target>, objects: usize) -> Result<f64> {
    let client = Client { target: target.clone(), token: String::new() };
    let rate = client.creates(objects).await?;
    println!("  creates {rate:.0}/s");
    Ok(rate)
}

#[derive(Clone)]
struct Client {
    target: Arc<dyn Target>,
    token: String,
}

impl Client {
    fn request(&self, method: Method, path: &str, body: Bytes) -> Result<Request<Bytes>> {
        let mut request = Request::builder().method(method).uri(path);
        if !self.token.is_empty() {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.token));
        }
        Ok(request.header(header::CONTENT_TYPE, "application/json").body(body)?)
    }

    async fn call(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let response = self.target.send(self.request(method, path, body)?).await?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(anyhow::Error::from_boxed)?;
        let body = body.to_bytes();
        if !status.is_success() {
            bail!("{status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(body)
    }

    /// Runs `total` numbered jobs, so many in flight; jobs per second.
    async fn rate<F, W>(&self, total: usize, job: F) -> Result<f64>
    where
        F: Fn(Self, usize) -> W + Send + Sync + Clone + 'static,
        W: Future<Output = Result<()>> + Send,
    {
        let next = Arc::new(AtomicUsize::new(0));
        let begun = Instant::now();
        let workers = (0..FLIGHT).map(|_| {
            let (client, next, job) = (self.clone(), next.clone(), job.clone());
            tokio::spawn(async move {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= total {
                        return anyhow::Ok(());
                    }
                    job(client.clone(), n).await?;
                }
            })
        });
        for worker in try_join_all(workers).await? {
            worker?;
        }
        Ok(total as f64 / begun.elapsed().as_secs_f64())
    }

    async fn creates(&self, total: usize) -> Result<f64> {
        self.rate(total, |client, n| async move {
            client.call(Method::POST, COLLECTION, object(n, "first")).await.map(drop)
        })
        .await
    }

    async fn updates(&self, total: usize) -> Result<f64> {
        self.rate(total, |client, n| async move {
            let path = format!("{COLLECTION}/{}", name(n));
            client.call(Method::PUT, &path, object(n, "second")).await.map(drop)
        })
        .await
    }

    /// The median page of 500, and all of them.
    async fn pages(&self, expected: usize) -> Result<(Duration, Duration)> {
        let mut token = String::new();
        let mut times = Vec::new();
        let mut seen = 0;
        loop {
            let path = format!("{COLLECTION}?limit={PAGE}&continue={token}");
            let begun = Instant::now();
            let body = self.call(Method::GET, &path, Bytes::new()).await?;
            times.push(begun.elapsed());
            // Reading the answer is not the server's time.
            let list: Value = serde_json::from_slice(&body)?;
            seen += list["items"].as_array().map_or(0, Vec::len);
            match list.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(next) if !next.is_empty() => token = next.to_owned(),
                _ => break,
            }
        }
        if seen < expected {
            bail!("{seen} of {expected} objects were listed");
        }
        let all = times.iter().sum();
        times.sort_unstable();
        Ok((times[times.len() / 2], all))
    }

    async fn whole(&self, expected: usize) -> Result<Duration> {
        let begun = Instant::now();
        let body = self.call(Method::GET, COLLECTION, Bytes::new()).await?;
        let took = begun.elapsed();
        let list: Value = serde_json::from_slice(&body)?;
        let seen = list["items"].as_array().map_or(0, Vec::len);
        if seen < expected {
            bail!("{seen} of {expected} objects were listed")
        }
        Ok(took)
    }

    /// Events per second, over all watchers, while one object changes.
    async fn fan_out(&self, watchers: usize) -> Result<f64> {
        const CHANGES: usize = 50;
        let list = self.call(Method::GET, &format!("{COLLECTION}?limit=1"), Bytes::new()).await?;
        let list: Value = serde_json::from_slice(&list)?;
        let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        let path =
            format!("{COLLECTION}?watch=1&resourceVersion={}", version.context("no version")?);
        let mut opened = Vec::with_capacity(watchers);
        for _ in 0..watchers {
            let response =
                self.target.send(self.request(Method::GET, &path, Bytes::new())?).await?;
            if !response.status().is_success() {
                bail!("a watch was answered with {}", response.status());
            }
            opened.push(response.into_body());
        }
        let begun = Instant::now();
        let readers: Vec<_> = opened
            .into_iter()
            .map(|mut body| {
                tokio::spawn(async move {
                    let mut lines = 0;
                    while lines < CHANGES {
                        let frame = body.frame().await.context("a watch ended")?;
                        let frame = frame.map_err(anyhow::Error::from_boxed)?;
                        let data = frame.into_data().unwrap_or_default();
                        lines += data.iter().filter(|b| **b == b'\n').count();
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for n in 0..CHANGES {
            let path = format!("{COLLECTION}/{}", name(0));
            self.call(Method::PUT, &path, object(0, &format!("change-{n}"))).await?;
        }
        for reader in try_join_all(readers).await? {
            reader?;
        }
        Ok((watchers * CHANGES) as f64 / begun.elapsed().as_secs_f64())
    }
}

fn name(n: usize) -> String {
    // Spread over the key space, as names are in life.
    format!("object-{:08x}-{n}", (n as u32).wrapping_mul(2_654_435_761))
}

/// A ConfigMap of about a kilobyte.
fn object(n: usize, text: &str) -> Bytes {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name(n), "labels": {"app": "bench", "n": n.to_string()}},
        "data": {"text": text, "fill": "x".repeat(800)},
    });
    Bytes::from(object.to_string())
}
