//! The rules that every provider keeps, on libvirt.

use std::{sync::Arc, time::Duration};

use sutler_conformance::{Options, Report, run};
use sutler_provider::Provider;
use sutler_rpc::{
    ClientSecurity, Listener, Remote, RemoteOptions, Server, ServerOptions, ServerSecurity,
};

use crate::lab::{self, Lab};

fn assert_kept(report: &Report, least: usize) {
    // What is wrong comes first: whoever shows what a test said may cut its end.
    assert!(report.is_ok(), "{}\n{}", report.broken(), report.table());
    println!("{}", report.table());
    let (passed, ..) = report.counts();
    assert!(passed >= least, "only {passed} cases could be asked of it: {}", report.table());
}

fn for_driver(word: &str) -> Options {
    Options {
        template: Some("base".to_owned()),
        poll: Duration::from_millis(20),
        patience: Duration::from_secs(120),
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

/// All cases on a real hypervisor, as `lab` has it or at the far end of a wire.
async fn on_guests(lab: &Lab, provider: Arc<dyn Provider>, only: Option<&str>, least: usize) {
    let exports = tempfile::tempdir().unwrap();
    let options = Options {
        template: Some(lab.template.clone()),
        linked: true,
        export_to: format!("file://{}", exports.path().display()),
        import_from: format!("file://{}", lab.path.display()),
        image: lab.image(),
        poll: Duration::from_millis(100),
        // They end early where they can; a busy machine is slow.
        patience: Duration::from_secs(240),
        parallel: 4,
        only: only.map(str::to_owned),
        ..Options::new(lab::word())
    };
    let (options, least) = match std::env::var("SUTLER_CASES") {
        Ok(only) => (Options { only: Some(only), ..options }, 0),
        Err(_) => (options, least),
    };
    let report = run(provider, &options).await;
    lab.remove_imports(&options.run);
    assert_kept(&report, least);
    lab.assert_nothing_left(&options.run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_guests() {
    let Some(lab) = Lab::open().await else { return };
    on_guests(&lab, lab.provider.clone(), None, 140).await;
}

/// Cases that between them send every request over the wire, and get every kind of answer. The others
/// would tell of the provider what they tell of it in process.
const OVER_THE_WIRE: &str = "platform.,unknown.,create.it_is_as_it_was_asked_for,\
    create.its_addresses_are_told,create.requests_at_the_same_time_make_one,\
    create.a_caller_that_is_gone_is_no_matter,delete.its_task_ends_after_the_machine,\
    delete.for_another_incarnation_it_is_refused,identity.what_is_nobodys_can_be_adopted,\
    power.a_shutdown_ends_with_off,reconfigure.cpu_and_memory_change,\
    reconfigure.a_disk_is_added_and_grows,snapshots.going_back_brings_back_what_was,\
    copies.a_copy_is_a_machine_of_its_own,transfer.,kept.it_comes_back_to_another_machine,\
    inventory.a_list_says_what_a_description_says,inventory.a_machine_that_is_gone_is_told_of,\
    guest.what_it_printed_comes_back";

#[tokio::test(flavor = "multi_thread")]
async fn real_guests_over_grpc() {
    let Some(lab) = Lab::open().await else { return };
    let (_folder, remote) = over_the_wire(lab.provider.clone()).await;
    let all = std::env::var_os("SUTLER_ALL_CASES").is_some();
    let (only, least) = if all { (None, 140) } else { (Some(OVER_THE_WIRE), 40) };
    on_guests(&lab, remote, only, least).await;
}
