//! The Python client; the scripts are in `python/` and fail by themselves.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Stdio,
};

use kube::api::{Api, ObjectMeta, PostParams};

use crate::{
    embedded::Embedded,
    support::{Place, Run},
};

fn script(namespace: &'static str, file: &str) {
    let Some(place) = Place::new(namespace) else { return };
    let Some(mut command) = place.python(file) else { return };
    let run = Run::from(command.output().unwrap());
    assert_eq!(run.code, 0, "{file}\n{}{}", run.out, run.err);
    assert_eq!(run.out, "done\n", "{file} ended early\n{}", run.err);
}

#[test]
fn core_objects() {
    script("python-core", "core.py");
}

#[test]
fn custom_objects() {
    script("python-custom", "custom.py");
}

#[test]
fn dynamic_client() {
    script("python-dynamic", "dynamic_client.py");
}

#[test]
fn watches_and_pages() {
    script("python-watch", "watching.py");
}

/// On a server inside this process, whose history can be cut at the right moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_are_gone() {
    let Some(place) = Place::new("python-expired") else { return };
    let Some(mut command) = place.python("expired.py") else { return };
    let embedded = Embedded::start().await;
    let namespace = k8s_openapi::api::core::v1::Namespace {
        metadata: ObjectMeta { name: Some(place.namespace.into()), ..Default::default() },
        ..Default::default()
    };
    Api::all(embedded.client()).create(&PostParams::default(), &namespace).await.unwrap();
    let kubeconfig = embedded.listen(&place.path("")).await;
    let mut script = command.env("KUBECONFIG", kubeconfig).stdin(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(script.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    if line == "compact\n" {
        embedded.engine.compact(embedded.engine.version()).await.unwrap();
        script.stdin.take().unwrap().write_all(b"\n").unwrap();
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    let run = Run::from(script.wait_with_output().unwrap());
    assert_eq!((run.code, line.as_str()), (0, "done\n"), "{}", run.err);
}
