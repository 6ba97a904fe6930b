//! Programs that the server starts for its Providers, and watches over.

use std::{path::Path, process::Command, time::Duration};

use kube::{
    Api,
    api::{DeleteParams, DynamicObject, PostParams},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};

use crate::{
    kill,
    lab::{INFRA, api, ready},
};

const ENDPOINT: &str = "test:///default";

/// The program for libvirt, on libvirt's own driver for tests: no hypervisor is needed for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_program_that_dies_is_started_again() {
    let program = Path::new(env!("CARGO_BIN_EXE_sutler")).with_file_name("sutler-libvirt");
    if !program.exists() {
        println!("SKIPPED: {} was not built", program.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut server, client) = kill::start(folder.path()).await;
    let providers = api(&client, INFRA, "Provider", "default");
    let object = json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "child"},
        "spec": {"type": "libvirt", "endpoint": ENDPOINT, "options": {"pool": "default-pool"},
            "healthCheck": {"interval": "1s", "timeout": "1s", "failureThreshold": 1}}});
    let object = serde_json::from_value(object).unwrap();
    providers.create(&PostParams::default(), &object).await.unwrap();
    let provider = until(&providers, is_well).await;
    assert!(provider["status"]["version"].as_str().unwrap().contains("libvirt"), "{provider:#}");
    // What that driver has from the beginning is nobody's here.
    until(&providers, |provider| provider["status"]["unmanaged"][0]["name"] == "test").await;

    // It is back soon after a first death, and later after each that follows, until that is noticed.
    let kills = async {
        let mut known = Vec::new();
        loop {
            let pid = next_child(server.id(), &known).await;
            let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            assert!(killed.unwrap().success(), "{pid} was not there");
            known.push(pid);
        }
    };
    tokio::select! {
        _ = until(&providers, |provider| !is_well(provider)) => {}
        () = kills => {}
    }
    until(&providers, is_well).await;
    providers.delete("child", &DeleteParams::default()).await.unwrap();
    until(&providers, Value::is_null).await;
    assert_eq!(children(server.id()), Vec::<u32>::new(), "it goes with its Provider");
    kill::terminate(&mut server);
}

/// The server starts where libvirt's library is not: only the program for it names that.
#[test]
fn the_server_needs_no_library_of_libvirts() {
    let server = Path::new(env!("CARGO_BIN_EXE_sutler"));
    let names = |program: &Path| {
        let bytes = std::fs::read(program).unwrap();
        bytes.windows(b"libvirt.so".len()).any(|at| at == b"libvirt.so")
    };
    assert!(!names(server));
    let program = server.with_file_name("sutler-libvirt");
    assert!(!program.exists() || names(&program), "this would not see the library");
}

fn is_well(provider: &Value) -> bool {
    ready(provider)["status"] == "True"
}

async fn until(providers: &Api<DynamicObject>, done: fn(&Value) -> bool) -> Value {
    let condition = move |object: Option<&DynamicObject>| {
        done(&object.map(|object| serde_json::to_value(object).unwrap()).unwrap_or_default())
    };
    let wait = await_condition(providers.clone(), "child", condition);
    let found = tokio::time::timeout(kill::LONG, wait).await.expect("it comes to that").unwrap();
    found.map(|object| serde_json::to_value(object).unwrap()).unwrap_or_default()
}

/// A process of the Provider that was not there before.
async fn next_child(server: u32, known: &[u32]) -> u32 {
    loop {
        if let Some(new) = children(server).into_iter().find(|pid| !known.contains(pid)) {
            return new;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The living children of a server that serve this endpoint.
fn children(server: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap();
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
        let (Ok(stat), Ok(words)) = (read("stat"), read("cmdline")) else { return false };
        // After the name, which can hold anything, come the state and the parent.
        let mut fields = stat.rsplit_once(')').unwrap_or_default().1.split_whitespace();
        let parent = fields.nth(1).and_then(|parent| parent.parse::<u32>().ok());
        parent == Some(server) && words.contains(ENDPOINT)
    };
    pids.filter(is_child).collect()
}
