//! A write is on disk before it is answered. To kill the process cannot show that, as the kernel
//! keeps what was written; so the calls that the server makes are watched.

use std::{
    ffi::OsStr,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{
    client::Client,
    history::{Kind, marks},
    server::{Server, Who},
    trace,
};

const WRITES: usize = 24;

#[tokio::test]
async fn sync_before_answer() {
    let usable = Command::new("strace")
        .args(["-D", "-f", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !usable {
        println!("SKIPPED: strace is not there or may not trace; syncs are not checked");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (trace, data) = (folder.path().join("trace"), folder.path().join("data"));
    let calls = "trace=fdatasync,fsync,pwrite64,write,writev,sendto,sendmsg";
    // The tracer is put aside (-D), so that the process that was started is the server.
    let words = ["strace", "-D", "-f", "-y", "-qq", "-s", "9000", "-e", calls, "-e", "signal=none"];
    let mut words: Vec<&OsStr> = words.map(OsStr::new).to_vec();
    words.extend([OsStr::new("-o"), trace.as_os_str()]);
    let child = Server::spawn(&words, &data, "sqlite");
    let server = Server::ready(child, &data).expect("it starts");

    // One client, one request after the other: what is sent to it after a write is its answer.
    let mut client = Client::new(&server.address(), Who::Admin);
    for n in 0..WRITES {
        let (name, mark) = (format!("sync-{}", n / 4), format!("mark-{n}."));
        let target = format!("{}/{name}", Kind::ConfigMap.path());
        let applied = format!("{target}?fieldManager=sync&force=true");
        let object = Kind::ConfigMap.object(&name, &mark);
        let changes = json!({"metadata": {"annotations": marks(&mark)}});
        let (method, target, content, body) = match n % 4 {
            0 => ("POST", Kind::ConfigMap.path(), "application/json", object),
            1 => ("PUT", &*target, "application/json", object),
            2 => ("PATCH", &*target, "application/merge-patch+json", changes),
            _ => ("PATCH", &*applied, "application/apply-patch+yaml", object),
        };
        let headers = [("content-type", content)];
        let answer = client.send(method, target, &headers, body.to_string()).await.unwrap();
        assert!(matches!(answer.code, 200 | 201), "{answer:?}");
    }
    drop(client);
    server.terminate();
    let trace = std::fs::read(&trace).unwrap();
    check(&String::from_utf8_lossy(&trace), WRITES).unwrap();
}

/// Checks for every mark that its write was synced before anything was sent to a client.
fn check(trace: &str, marks: usize) -> Result<(), String> {
    let calls = trace::calls(trace);
    (0..marks)
        .try_for_each(|n| trace::check(&calls, "sutler.db-wal", &format!("mark-{n}."), is_sent))
}

fn is_sent(call: &trace::Call<'_>) -> bool {
    let sends = matches!(call.name, "write" | "writev" | "sendto" | "sendmsg");
    // The runtime wakes itself through sockets of another family.
    let socket = |file: &str| file.starts_with("socket:") || file.starts_with("TCP:");
    sends && call.file().is_some_and(socket)
}

/// What counts as an answer here; the rest of the check is tested where the store is.
#[test]
fn the_check_of_syncs_can_fail() {
    let append = r#"7 pwrite64(9</x/sutler.db-wal>, "..mark-0. ..", 8192, 56) = 8192"#;
    let sync = "7 fdatasync(9</x/sutler.db-wal>) = 0";
    let answer = r#"8 sendto(12<socket:[1]>, "...", 24, 0, NULL, 0) = 24"#;
    let to_itself = r#"8 write(5<UNIX:[1]>, "x", 1) = 1"#;
    for (lines, good) in [
        (vec![append, sync, answer], true),
        (vec![append, to_itself, sync, answer], true),
        (vec![append, answer, sync], false),
        (vec![append, answer, sync, answer], false),
        (vec![append, sync, to_itself], false),
    ] {
        assert_eq!(check(&lines.join("\n"), 1).is_ok(), good, "{lines:?}");
    }
}
