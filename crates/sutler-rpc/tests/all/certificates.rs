//! Who is let in, who is not and why, and what happens when certificates change.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use sutler_provider::{ErrorKind, Provider as _};
use sutler_rpc::{
    ClientSecurity, Pem, PemFiles, RemoteOptions, Security, ServerOptions, ServerSecurity, Store,
};
use sutler_sim::Settings;

use crate::support::{
    Authority, PATIENCE, Running, client_tls, make, options, remote, request, server_tls, sim,
};

const NAME: &str = "provider.test";

fn named(security: ClientSecurity) -> RemoteOptions {
    RemoteOptions { server_name: Some(NAME.to_owned()), ..options(security) }
}

async fn start(security: ServerSecurity) -> Running {
    Running::start(Arc::new(sim(Settings::default())), security, ServerOptions::default()).await
}

#[tokio::test]
async fn both_ends_prove_who_they_are() {
    let ca = Authority::new();
    let server = start(server_tls(ca.issue(NAME, 9, ca.pem()))).await;
    let there = remote(&server, named(client_tls(ca.issue("manager.test", 9, ca.pem()))));
    assert_eq!(there.security(), Security::MutualTls);
    assert_eq!(there.security().warning(), None);
    there.validate().await.unwrap();
    make(&there, "web").await;
}

#[tokio::test]
async fn whoever_is_refused_is_told_why() {
    let (ca, other) = (Authority::named("one"), Authority::named("two"));
    let twin = Authority::named("one");
    let good_client = || ca.issue("manager.test", 9, ca.pem());
    let good_server = || ca.issue(NAME, 9, ca.pem());
    for (server, client, want) in [
        (other.issue(NAME, 9, ca.pem()), good_client(), "(wrong CA)"),
        (twin.issue(NAME, 9, ca.pem()), good_client(), "(wrong CA)"),
        (ca.issue(NAME, -2, ca.pem()), good_client(), "certificate has expired"),
        (ca.issue("other.test", 9, ca.pem()), good_client(), "(wrong name)"),
        (
            good_server(),
            Pem { ca: ca.pem().into(), ..Pem::default() },
            "wants a client certificate, and we have none",
        ),
        (
            good_server(),
            other.issue("manager.test", 9, ca.pem()),
            "a CA that the provider does not trust",
        ),
        (
            good_server(),
            twin.issue("manager.test", 9, ca.pem()),
            "a CA that the provider does not trust",
        ),
        (good_server(), ca.issue("manager.test", -2, ca.pem()), "our certificate has expired"),
    ] {
        let server = start(server_tls(server)).await;
        let there = remote(&server, named(client_tls(client)));
        // Nothing was sent, so a change is refused rather than open.
        let error = there.create(request("web")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.message().contains(want), "{error}");
    }
}

#[tokio::test]
async fn names_that_may_come_in_can_be_listed() {
    let ca = Authority::new();
    let store = Store::new(ca.issue(NAME, 9, ca.pem())).unwrap();
    let allowed_names = vec!["manager.test".to_owned()];
    let server = start(ServerSecurity::Tls { store, allowed_names }).await;
    let there = remote(&server, named(client_tls(ca.issue("manager.test", 9, ca.pem()))));
    there.validate().await.unwrap();
    let there = remote(&server, named(client_tls(ca.issue("other.test", 9, ca.pem()))));
    assert!(there.validate().await.is_err());
}

#[tokio::test]
async fn what_is_not_protected_says_so() {
    let ca = Authority::new();
    let server = start(server_tls(ca.issue("other.test", 9, ca.pem()))).await;
    let store = Store::new(ca.issue("manager.test", 9, ca.pem())).unwrap();
    let there = remote(&server, named(ClientSecurity::Tls { store, skip_verify: true }));
    there.validate().await.unwrap();
    assert_eq!(there.security(), Security::Unverified);
    assert!(there.security().warning().is_some());
    let there = remote(&server, options(ClientSecurity::Plaintext));
    assert_eq!(there.security(), Security::Plaintext);
    assert!(there.validate().await.is_err());
}

#[tokio::test]
async fn what_cannot_be_used_changes_nothing() {
    let ca = Authority::new();
    let (one, two) = (ca.issue(NAME, 9, ca.pem()), ca.issue(NAME, 9, ca.pem()));
    let store = Store::new(one.clone()).unwrap();
    let mixed = Pem { key: two.key.clone(), ..one.clone() };
    assert!(store.replace(mixed).is_err());
    assert!(store.replace(Pem { ca: b"nothing".to_vec(), ..one.clone() }).is_err());
    assert!(store.replace(Pem { cert: one.cert[..40].to_vec(), ..one.clone() }).is_err());
    assert_eq!(store.generation(), 0);
    assert!(!store.replace(one).unwrap());
    assert!(store.replace(two).unwrap());
    assert_eq!(store.generation(), 1);
}

/// Leaf and CA of both ends change under load, in the order that a change of CA takes, and
/// connections are ended by the server all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_rotate_under_load_and_no_call_fails() {
    let (old, new) = (Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let files = PemFiles::in_folder(folder.path());
    let write = |pem: &Pem| {
        for (path, data) in [(&files.cert, &pem.cert), (&files.key, &pem.key), (&files.ca, &pem.ca)]
        {
            std::fs::write(path, data).unwrap();
        }
    };
    write(&old.issue(NAME, 9, old.pem()));
    let server_store = Store::open(&files).unwrap();
    let _watch = server_store.watch(files.clone(), Duration::from_millis(20));
    let security = ServerSecurity::Tls { store: server_store.clone(), allowed_names: Vec::new() };
    let server_options = ServerOptions {
        connection_age: Some(Duration::from_millis(150)),
        ..ServerOptions::default()
    };
    let behind = sim(Settings::default());
    let server = Running::start(Arc::new(behind.clone()), security, server_options).await;
    let client_store = Store::new(old.issue("manager.test", 9, old.pem())).unwrap();
    let tls = ClientSecurity::Tls { store: client_store.clone(), skip_verify: false };
    let there = remote(&server, named(tls));
    let stop = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicUsize::new(0));
    let load: Vec<_> = (0..8)
        .map(|worker| {
            let (there, stop, calls) = (there.clone(), stop.clone(), calls.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    there.create(request(&format!("w{worker}-{n}"))).await.unwrap();
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let both = format!("{}{}", old.pem(), new.pem());
    let rounds = [
        (old.issue(NAME, 9, &both), old.issue("manager.test", 9, &both)),
        (new.issue(NAME, 9, &both), new.issue("manager.test", 9, &both)),
        (new.issue(NAME, 9, new.pem()), new.issue("manager.test", 9, new.pem())),
        (new.issue(NAME, 9, new.pem()), new.issue("manager.test", 9, new.pem())),
    ];
    for (round, (server_pem, client_pem)) in rounds.into_iter().enumerate() {
        write(&server_pem);
        tokio::time::timeout(PATIENCE, async {
            while server_store.generation() as usize <= round {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
        .unwrap();
        client_store.replace(client_pem).unwrap();
        let enough = calls.load(Ordering::Relaxed) + 200;
        while calls.load(Ordering::Relaxed) < enough && load.iter().all(|task| !task.is_finished())
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for worker in load {
        worker.await.unwrap();
    }
    assert_eq!(behind.len(), calls.load(Ordering::Relaxed));
    // Whoever still has a certificate of the old CA is not let in any more.
    let late = client_tls(old.issue("manager.test", 9, new.pem()));
    let error = remote(&server, named(late)).validate().await.unwrap_err();
    assert!(error.message().contains("does not trust"), "{error}");
}
