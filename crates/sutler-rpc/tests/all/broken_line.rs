//! Lines that break, hang, or never come about.

use std::{sync::Arc, time::Duration};

use sutler_provider::{Deadlines, ErrorKind, Provider as _};
use sutler_rpc::{Address, ClientSecurity, Remote, RemoteOptions};
use sutler_sim::{Call, Fault, Latency, Planned, Settings};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::Instant,
};

use crate::support::{PATIENCE, Running, options, plain, request, sim};

/// A line that can be cut.
async fn line(to: &Running) -> (Address, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let (cut, is_cut) = watch::channel(false);
    let to = to.address.to_string();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let (to, mut is_cut) = (to.clone(), is_cut.clone());
            tokio::spawn(async move {
                let mut far = TcpStream::connect(to).await.unwrap();
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                    _ = is_cut.wait_for(|cut| *cut) => {}
                }
            });
        }
    });
    (address, cut)
}

#[tokio::test]
async fn a_line_that_breaks_in_the_middle_of_a_create_leaves_its_outcome_open() {
    for extensions in [true, false] {
        let latency = Latency { create: Duration::from_millis(300), ..Latency::default() };
        let behind = sim(Settings { latency, ..Settings::default() });
        let (server, _) = plain(Arc::new(behind.clone()), extensions).await;
        let (address, cut) = line(&server).await;
        let there = Remote::new(address, options(ClientSecurity::Plaintext)).unwrap();
        there.list().await.unwrap();
        let creating = tokio::spawn({
            let there = there.clone();
            async move { there.create(request("web")).await }
        });
        while behind.calls_of(Call::Create) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cut.send(true).unwrap();
        let error = creating.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
        // It goes on without its caller, as on a real platform.
        let end = Instant::now() + PATIENCE;
        while behind.is_empty() && Instant::now() < end {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!((behind.len(), behind.calls_of(Call::Create)), (1, 1));
        // The line is whole again, and the same provider goes on.
        cut.send(false).unwrap();
        assert_eq!(there.list().await.unwrap().machines.len(), 1);
    }
}

#[tokio::test]
async fn what_was_never_sent_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Address = listener.local_addr().unwrap().to_string().parse().unwrap();
    drop(listener);
    let there = Remote::new(address, options(ClientSecurity::Plaintext)).unwrap();
    let error = there.create(request("web")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.message().contains("cannot be reached"), "{error}");
    let unix: Address = "unix:/nowhere/at/all".parse().unwrap();
    let there = Remote::new(unix, options(ClientSecurity::Plaintext)).unwrap();
    assert_eq!(there.list().await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn silence_ends_with_the_deadline() {
    let behind = sim(Settings::default());
    behind.plan(Planned::on(Call::Create, Fault::LostReply));
    behind.plan(Planned::on(Call::Describe, Fault::LostReply));
    let (server, _) = plain(Arc::new(behind), true).await;
    let short = Duration::from_millis(300);
    let deadlines = Deadlines { look: short, make: short, ..Deadlines::default() };
    let options = RemoteOptions { deadlines, ..RemoteOptions::new(ClientSecurity::Plaintext) };
    let there = Remote::new(server.address.clone(), options).unwrap();
    let began = Instant::now();
    let error = there.create(request("web")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    let error = there.describe(&"vm-1".into()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(began.elapsed() < PATIENCE);
}

#[tokio::test]
async fn one_that_hangs_does_not_slow_another() {
    let stuck = sim(Settings::default());
    stuck.plan(Planned::on(Call::List, Fault::LostReply).times(u32::MAX));
    let (_stuck_server, hanging) = plain(Arc::new(stuck), true).await;
    let (_server, well) = plain(Arc::new(sim(Settings::default())), true).await;
    let waiting: Vec<_> = (0..300)
        .map(|_| {
            let hanging = hanging.clone();
            tokio::spawn(async move { hanging.list().await })
        })
        .collect();
    let began = Instant::now();
    for n in 0..50 {
        well.create(request(&format!("m-{n}"))).await.unwrap();
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    assert!(waiting.iter().all(|task| !task.is_finished()));
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_server_that_ends_lets_its_calls_end() {
    let latency = Latency { create: Duration::from_millis(400), ..Latency::default() };
    let behind = sim(Settings { latency, ..Settings::default() });
    let (server, there) = plain(Arc::new(behind.clone()), true).await;
    let creating = tokio::spawn({
        let there = there.clone();
        async move { there.create(request("web")).await }
    });
    while behind.calls_of(Call::Create) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.end().await;
    creating.await.unwrap().unwrap();
    let error = there.create(request("late")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
