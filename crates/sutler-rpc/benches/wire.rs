//! What the wire costs: the same provider in process and over gRPC with mutual TLS on loopback, and
//! 10,000 machines described one by one and by one list.
//!
//! `SUTLER_BENCH_MACHINES` and `SUTLER_BENCH_SECONDS` measure other numbers for other times.
#![expect(clippy::unwrap_used, reason = "what fails ends the bench")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sutler_provider::{
    Class, CreateRequest, Image, MachineId, Owner, Provider, SystemClock, Token,
};
use sutler_rpc::{
    ClientSecurity, Listener, Pem, Remote, RemoteOptions, Server, ServerOptions, ServerSecurity,
    Store,
};
use sutler_sim::{Settings, Sim};

/// Calls that are under way at the same time.
const CALLERS: usize = 64;

const NAME: &str = "127.0.0.1";

#[tokio::main]
async fn main() {
    let number =
        |name: &str, or: usize| std::env::var(name).map_or(or, |text| text.parse().unwrap());
    let count = number("SUTLER_BENCH_MACHINES", 10_000);
    let span = Duration::from_secs(number("SUTLER_BENCH_SECONDS", 5) as u64);
    let here: Arc<dyn Provider> = Arc::new(filled(count).await);
    let there: Arc<dyn Provider> = Arc::new(served(here.clone()).await);
    let listing = here.list().await.unwrap();
    let ids: Arc<Vec<MachineId>> = Arc::new(listing.machines.into_iter().map(|m| m.id).collect());

    for callers in [1, CALLERS] {
        let one = load(&here, &ids, callers, span).await;
        let two = load(&there, &ids, callers, span).await;
        println!(
            "describe, {callers} at a time: in process {:.0} calls/s, p99 {:?}; over gRPC with \
             mTLS {:.0} calls/s, p99 {:?}; ratio {:.4} of the calls, {:.0} times the p99",
            one.rate,
            one.p99,
            two.rate,
            two.p99,
            two.rate / one.rate,
            two.p99.as_secs_f64() / one.p99.as_secs_f64().max(1e-9),
        );
    }
    for (name, provider) in [("in process", &here), ("over gRPC with mTLS", &there)] {
        let listed = best_of(3, async || {
            assert_eq!(provider.list().await.unwrap().machines.len(), count);
        })
        .await;
        let singly = best_of(1, async || {
            for id in ids.iter() {
                assert!(provider.describe(id).await.unwrap().is_some());
            }
        })
        .await;
        let at_once = best_of(1, async || describe_all(provider, &ids).await).await;
        println!(
            "{count} describes {name}: by list {listed:?}; one by one {singly:?}, {:.1} times as \
             long; {CALLERS} at a time {at_once:?}, {:.1} times as long",
            singly.as_secs_f64() / listed.as_secs_f64(),
            at_once.as_secs_f64() / listed.as_secs_f64(),
        );
    }
}

/// A platform with this many machines.
async fn filled(count: usize) -> Sim {
    let sim = Sim::in_memory(Settings::default(), Arc::new(SystemClock)).unwrap();
    for number in 0..count {
        let owner = Owner {
            token: Token::new(format!("uid-{number}"), 1),
            installation: "bench".to_owned(),
            namespace: "default".to_owned(),
            name: format!("vm-{number}"),
        };
        let request = CreateRequest {
            class: Some(Class::new(2, 2048)),
            image: Some(Image { name: "debian-13".to_owned(), ..Image::default() }),
            ..CreateRequest::new(owner, format!("vm-{number}"))
        };
        sim.create(request).await.unwrap();
    }
    sim
}

/// The same provider at the other end of a connection with certificates.
async fn served(provider: Arc<dyn Provider>) -> Remote {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap().pem();
    let issue = || {
        let own = rcgen::KeyPair::generate().unwrap();
        let leaf = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap();
        let issuer = rcgen::Issuer::from_params(&params, &key);
        let cert = leaf.signed_by(&own, &issuer).unwrap().pem().into_bytes();
        let pem = Pem { cert, key: own.serialize_pem().into(), ca: ca.clone().into() };
        Store::new(pem).unwrap()
    };
    let listener = Listener::bind(&format!("{NAME}:0")).await.unwrap();
    let address = listener.address().parse().unwrap();
    let security = ServerSecurity::Tls { store: issue(), allowed_names: Vec::new() };
    tokio::spawn(async move {
        let server = Server::new(provider, ServerOptions::default());
        server.serve(listener, security, std::future::pending()).await.unwrap();
    });
    let security = ClientSecurity::Tls { store: issue(), skip_verify: false };
    Remote::new(address, RemoteOptions::new(security)).unwrap()
}

struct Load {
    rate: f64,
    p99: Duration,
}

/// Describes machines for a while, so many at a time.
async fn load(
    provider: &Arc<dyn Provider>,
    ids: &Arc<Vec<MachineId>>,
    callers: usize,
    span: Duration,
) -> Load {
    provider.validate().await.unwrap();
    let begun = Instant::now();
    let end = begun + span;
    let callers: Vec<_> = (0..callers)
        .map(|caller| {
            let (provider, ids) = (provider.clone(), ids.clone());
            tokio::spawn(async move {
                let mut took = Vec::new();
                for id in ids.iter().cycle().skip(caller * 101) {
                    let begun = Instant::now();
                    assert!(provider.describe(id).await.unwrap().is_some());
                    took.push(begun.elapsed());
                    if begun > end {
                        break;
                    }
                    // In process nothing ever waits, and others would not get their turn.
                    tokio::task::consume_budget().await;
                }
                took
            })
        })
        .collect();
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await.unwrap());
    }
    let rate = took.len() as f64 / begun.elapsed().as_secs_f64();
    took.sort();
    Load { rate, p99: took[took.len() * 99 / 100] }
}

async fn describe_all(provider: &Arc<dyn Provider>, ids: &Arc<Vec<MachineId>>) {
    let next = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (provider, ids, next) = (provider.clone(), ids.clone(), next.clone());
            tokio::spawn(async move {
                while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                    assert!(provider.describe(id).await.unwrap().is_some());
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

/// The shortest of some runs.
async fn best_of(runs: usize, run: impl AsyncFn()) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..runs {
        let begun = Instant::now();
        run().await;
        best = best.min(begun.elapsed());
    }
    best
}
