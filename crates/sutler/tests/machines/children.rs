//! Programs that the server starts for its Providers, and watches over.

use std::{path::Path, process::Command, time::Duration};

use serde_json::{Value, json};

use crate::{
    lab::{self, INFRA, Lab, ready},
    server::Form,
};

/// The program for libvirt, on libvirt's own driver for tests: no hypervisor is needed for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_program_that_dies_is_started_again() {
    let program = Path::new(env!("CARGO_BIN_EXE_sutler")).with_file_name("sutler-libvirt");
    if !program.exists() {
        println!("SKIPPED: {} was not built", program.display());
        return;
    }
    lab::run(Form::Embedded, killed).await;
}

fn is_well(provider: &Value) -> bool {
    ready(provider)["status"] == "True"
}

async fn killed(lab: Lab) {
    lab.create(json!({"apiVersion": INFRA, "kind": "Provider", "metadata": {"name": "child"},
        "spec": {"type": "libvirt", "endpoint": "test:///default",
            "options": {"pool": "default-pool"},
            "healthCheck": {"interval": "1s", "failureThreshold": 1}}}))
        .await;
    let provider = lab.until_of(INFRA, "Provider", "child", "ready", is_well).await.unwrap();
    assert!(provider["status"]["version"].as_str().unwrap().contains("libvirt"), "{provider:#}");
    // What that driver has from the beginning is nobody's here.
    let told = |provider: &Value| provider["status"]["unmanaged"][0]["name"] == "test";
    lab.until_of(INFRA, "Provider", "child", "told of the driver's own machine", told).await;

    // It is back soon after a first death, and later after each that follows, until that is noticed.
    let unwell = lab.until_of(INFRA, "Provider", "child", "not ready", |object| !is_well(object));
    let mut pids = vec![started(&lab, 1).await];
    let kill = async {
        loop {
            let pid = pids[pids.len() - 1].clone();
            let killed = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
            assert!(killed.success(), "{pid} was not there");
            let next = started(&lab, pids.len() + 1).await;
            assert!(!pids.contains(&next), "{next} was started twice");
            pids.push(next);
        }
    };
    tokio::select! {
        _ = unwell => {}
        () = kill => {}
    }
    lab.until_of(INFRA, "Provider", "child", "ready again", is_well).await;
    let providers = lab.api(INFRA, "Provider");
    providers.delete("child", &kube::api::DeleteParams::default()).await.unwrap();
    lab.until_of(INFRA, "Provider", "child", "gone", Value::is_null).await;
}

/// The ID of the process that was started as the n-th for this case's Provider.
async fn started(lab: &Lab, number: usize) -> String {
    let whose = format!("provider={}/child ", lab.namespace);
    loop {
        let log = lab.log();
        let starts = log.lines().filter(|line| line.contains("started its program"));
        let pids = starts.filter(|line| line.contains(&whose)).filter_map(|line| {
            let rest = line.split_once("pid=")?.1;
            Some(rest.split_whitespace().next()?.to_owned())
        });
        if let Some(pid) = pids.skip(number - 1).next() {
            return pid;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
