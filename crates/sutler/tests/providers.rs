//! `sutler provider` against providers on the wire.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    process::{Command, Output},
    sync::Arc,
};

use serde_json::json;
use sutler_provider::{Credentials, Provider, SystemClock};
use sutler_rpc::{Listener, Server, ServerOptions, ServerSecurity};
use sutler_sim::{Settings, Sim};

/// What `sutler provider new` writes, as it is before a name is filled in.
#[path = "../src/commands/provider/template/src/check.rs"]
#[expect(unreachable_pub, reason = "it is the root of its own crate")]
mod check;
#[path = "../src/commands/provider/template/src/platform.rs"]
#[expect(unreachable_pub, reason = "it is the root of its own crate")]
mod platform;
#[path = "../src/commands/provider/template/src/provider.rs"]
#[expect(unreachable_pub, reason = "it is the root of its own crate")]
mod provider;

async fn served() -> String {
    let options = json!({});
    let settings = Settings::from_options(options.as_object().unwrap()).unwrap();
    serve(Arc::new(Sim::in_memory(settings, Arc::new(SystemClock)).unwrap())).await
}

async fn serve(provider: Arc<dyn Provider>) -> String {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.address().to_owned();
    tokio::spawn(async move {
        let server = Server::new(provider, ServerOptions::default());
        server.serve(listener, ServerSecurity::Plaintext, std::future::pending()).await.unwrap();
    });
    address
}

async fn conformance(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sutler"));
    command.args(["provider", "conformance"]).args(words);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_keeps_the_rules_passes_and_the_results_are_written_down() {
    let address = served().await;
    let folder = tempfile::tempdir().unwrap();
    let junit = folder.path().join("junit.xml");
    let output = conformance(&[&address, "--insecure", "--junit", junit.to_str().unwrap()]).await;
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let xml = std::fs::read_to_string(junit).unwrap();
    let cases = text(&conformance(&["--list"]).await.stdout);
    assert!(cases.lines().count() >= 60, "{cases}");
    for case in cases.lines().filter_map(|line| line.split(": ").next()) {
        let last = case.rsplit('.').next().unwrap();
        assert!(xml.contains(last), "{case} is not in the results");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_talked_to_without_protection_unless_asked_for() {
    let address = served().await;
    let output = conformance(&[&address]).await;
    let err = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("--insecure") && err.contains("--tls-cert"), "{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_not_there_fails_the_suite() {
    let output = conformance(&["127.0.0.1:1", "--insecure", "--patience", "5"]).await;
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_provider_keeps_every_rule_for_what_it_reports() {
    let platform = platform::Platform::connect(None, &Credentials::default()).unwrap();
    let address = serve(Arc::new(provider::AcmeProvider::new(platform))).await;
    let output = conformance(&[&address, "--insecure"]).await;
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    // Skipping nearly everything would pass as well.
    let passed = out.lines().find_map(|line| line.split_once(" passed, ")?.0.parse::<u32>().ok());
    assert!(passed.is_some_and(|passed| passed >= 60), "{out}");
}
