//! The rules that every provider keeps, on libvirt.

use std::{sync::Arc, time::Duration};

use sutler_conformance::{Options, Report, run};
use sutler_provider::Provider;
use sutler_rpc::{
    ClientSecurity, Listener, Remote, RemoteOptions, Server, ServerOptions, ServerSecurity,
};

use crate::lab::{self, Lab};

fn assert_kept(report: &Report, least: usize) {
    println!("{}", report.table());
    assert!(report.is_ok(), "{}", report.table());
    let (passed, ..) = report.counts();
    assert!(passed >= least, "only {passed} cases could be asked of it: {}", report.table());
}

fn for_driver(word: &str) -> Options {
    Options {
        template: Some("base".to_owned()),
        poll: Duration::from_millis(20),
        patience: Duration::from_secs(20),
        parallel: 8,
        only: std::env::var("SUTLER_CASES").ok(),
        ..Options::new(word)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_for_tests_in_process() {
    let (_held, provider) = lab::driver();
    assert_kept(&run(provider, &for_driver("t1")).await, 90);
}

/// The provider at the far end of a Unix socket.
async fn over_the_wire(provider: Arc<dyn Provider>) -> (tempfile::TempDir, Arc<dyn Provider>) {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix:{}", folder.path().join("socket").display());
    let listener = Listener::bind(&address).await.unwrap();
    let server = Server::new(provider, ServerOptions::default());
    tokio::spawn(server.serve(listener, ServerSecurity::Plaintext, std::future::pending()));
    let options = RemoteOptions::new(ClientSecurity::Plaintext);
    (folder, Arc::new(Remote::new(address.parse().unwrap(), options).unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_driver_for_tests_over_grpc() {
    let (_held, provider) = lab::driver();
    let (_folder, remote) = over_the_wire(provider).await;
    assert_kept(&run(remote, &for_driver("t2")).await, 90);
}

#[tokio::test(flavor = "multi_thread")]
async fn real_guests() {
    let Some(lab) = Lab::open().await else { return };
    let exports = tempfile::tempdir().unwrap();
    let options = Options {
        template: Some(lab.template.clone()),
        linked: true,
        export_to: format!("file://{}", exports.path().display()),
        import_from: format!("file://{}", lab.path.display()),
        image: lab.image(),
        poll: Duration::from_millis(100),
        patience: Duration::from_secs(120),
        parallel: 4,
        only: std::env::var("SUTLER_CASES").ok(),
        ..Options::new(lab::word())
    };
    assert_kept(&run(lab.provider.clone(), &options).await, 120);
    lab.assert_nothing_left(&options.run).await;
}
