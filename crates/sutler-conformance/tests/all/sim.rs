//! The simulated platform keeps every rule: in process, over the wire, and in its many shapes.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sutler_conformance::{Options, Outcome, Report, cases, run};
use sutler_provider::{Provider, SystemClock};
use sutler_rpc::{
    ClientSecurity, Listener, Pem, Remote, RemoteOptions, Server, ServerOptions, ServerSecurity,
    Store,
};
use sutler_sim::{Settings, Sim};

pub(crate) fn options() -> Options {
    Options {
        poll: Duration::from_millis(5),
        patience: Duration::from_secs(120),
        parallel: 16,
        ..Options::new("t1")
    }
}

pub(crate) fn platform(options: Value) -> Sim {
    let settings = Settings::from_options(options.as_object().unwrap()).unwrap();
    Sim::in_memory(settings, Arc::new(SystemClock)).unwrap()
}

fn assert_kept(report: &Report) {
    assert!(report.is_ok(), "{}", report.table());
}

/// Everything takes a while and is answered with tasks.
fn slow() -> Value {
    json!({
        "latency": {"create": "2ms", "list": "1ms"},
        "work": {
            "create": "15ms", "start": "5ms", "boot": "10ms", "stop": "5ms", "shutdown": "10ms",
            "delete": "10ms", "reconfigure": "10ms", "snapshot": "10ms", "clone": "15ms",
            "image": "5ms", "transfer": "10ms"
        }
    })
}

#[test]
fn there_are_enough_cases_and_each_has_a_name_of_its_own() {
    let all = cases();
    let mut names: Vec<&String> = all.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all.len());
    assert!(all.len() >= 100, "{}", all.len());
    assert!(all.iter().all(|(_, rule)| rule.ends_with('.')));
}

#[tokio::test]
async fn in_process_all_rules_are_kept_and_nothing_is_left() {
    let sim = platform(json!({}));
    let report = run(Arc::new(sim.clone()), &options()).await;
    assert_kept(&report);
    let (passed, skipped, _) = report.counts();
    assert!(passed >= 100, "{passed} passed");
    assert_eq!(skipped, 0, "{}", report.table());
    assert!(sim.is_empty(), "{:?}", sim.machines());
    assert!(sim.kept().is_empty(), "{:?}", sim.kept());
}

#[tokio::test]
async fn with_tasks_all_rules_are_kept() {
    assert_kept(&run(Arc::new(platform(slow())), &options()).await);
}

#[tokio::test]
async fn lesser_platforms_keep_their_rules_and_say_what_they_lack() {
    for (shape, least) in [
        (json!({"uniqueBy": "Name"}), 100),
        (json!({"uniqueBy": "Name", "token": false}), 80),
        (json!({"uniqueBy": "None", "token": false}), 70),
        (json!({"ids": "Reused"}), 100),
        (json!({"returnsId": false}), 100),
        (json!({"tasks": false, "work": {"create": "5ms", "delete": "5ms"}}), 100),
        (
            json!({"without": [
                "events", "addresses", "reconfigure", "gracefulShutdown", "pause", "snapshots",
                "clones", "imageImport", "keptDisks", "diskExport", "diskImport", "hardwareUpgrade",
                "guestCommands", "templates", "hosts", "console"
            ]}),
            50,
        ),
        (json!({"without": ["list", "linkedClones", "memorySnapshots", "reconfigureOnline"]}), 80),
    ] {
        let report = run(Arc::new(platform(shape.clone())), &options()).await;
        assert!(report.is_ok(), "{shape}\n{}", report.table());
        let (passed, skipped, _) = report.counts();
        assert!(passed >= least, "{shape}: {passed} passed, {skipped} skipped");
        for result in &report.results {
            if let Outcome::Skipped(why) = &result.outcome {
                assert!(why.contains("report"), "{}: {why}", result.name);
            }
        }
    }
}

/// Certificates for both ends.
fn certificates() -> (Pem, Pem) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = ca.self_signed(&key).unwrap().pem().into_bytes();
    let issue = |name: &str| {
        let own = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        let cert = params.signed_by(&own, &rcgen::Issuer::from_params(&ca, &key)).unwrap();
        let (cert, key) = (cert.pem().into_bytes(), own.serialize_pem().into_bytes());
        Pem { cert, key, ca: root.clone() }
    };
    (issue("provider.test"), issue("manager.test"))
}

/// The platform over the wire, both ends proven.
async fn over_the_wire(sim: Sim, extensions: bool) -> Remote {
    let (server, client) = certificates();
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.address().parse().unwrap();
    let security = ServerSecurity::Tls {
        store: Store::new(server).unwrap(),
        allowed_names: vec!["manager.test".to_owned()],
    };
    let options = ServerOptions { extensions, ..ServerOptions::default() };
    tokio::spawn(async move {
        let server = Server::new(Arc::new(sim), options);
        server.serve(listener, security, std::future::pending()).await.unwrap();
    });
    let store = Store::new(client).unwrap();
    let security = ClientSecurity::Tls { store, skip_verify: false };
    let server_name = Some("provider.test".to_owned());
    Remote::new(address, RemoteOptions { server_name, ..RemoteOptions::new(security) }).unwrap()
}

#[tokio::test]
async fn over_the_wire_all_rules_are_kept() {
    let sim = platform(json!({}));
    let remote = over_the_wire(sim.clone(), true).await;
    let report = run(Arc::new(remote), &options()).await;
    assert_kept(&report);
    assert_eq!(report.counts().1, 0, "{}", report.table());
    assert!(sim.is_empty(), "{:?}", sim.machines());
    assert!(sim.kept().is_empty(), "{:?}", sim.kept());
}

#[tokio::test]
async fn over_the_wire_with_tasks_all_rules_are_kept() {
    let remote = over_the_wire(platform(slow()), true).await;
    assert_kept(&run(Arc::new(remote), &options()).await);
}

/// What `provider.v1` alone cannot say is reported as absent, and the rest is kept. One case asks for
/// what its messages have no place for: a machine that is made and not switched on.
#[tokio::test]
async fn without_extensions_the_rules_that_are_left_are_kept() {
    let remote = over_the_wire(platform(json!({})), false).await;
    let report = run(Arc::new(remote), &options()).await;
    let broken: Vec<&str> = report.failures().map(|(result, _)| result.name.as_str()).collect();
    let without_a_place = ["create.it_is_off_where_that_was_asked_for"];
    let unexpected: Vec<_> = broken.iter().filter(|name| !without_a_place.contains(name)).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}\n{}", report.table());
}

#[tokio::test]
async fn a_provider_that_is_not_there_fails_the_suite() {
    let address = "127.0.0.1:1".parse().unwrap();
    let remote = Remote::new(address, RemoteOptions::new(ClientSecurity::Plaintext)).unwrap();
    let report = run(Arc::new(remote) as Arc<dyn Provider>, &options()).await;
    assert_eq!(report.counts(), (0, 0, 1));
    assert!(report.table().contains("cannot be reached"), "{}", report.table());
}
