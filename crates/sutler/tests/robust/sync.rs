//! A write is on disk before it is answered. To kill the process cannot show that, as the kernel
//! keeps what was written; so the calls that the server makes are watched.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{
    client::Client,
    history::{Kind, marks},
    server::{Server, Who},
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

/// Checks for every mark: between the end of the call that first appends it to the write-ahead log
/// and the beginning of the next call that sends anything to a client, a sync of that log begins
/// and succeeds.
fn check(trace: &str, marks: usize) -> Result<(), String> {
    let calls = calls(trace);
    for n in 0..marks {
        let mark = format!("mark-{n}.");
        let appended = calls
            .iter()
            .find(|call| call.name == "pwrite64" && is_log(call) && call.rest.contains(&mark))
            .ok_or_else(|| format!("{mark} was never appended"))?;
        let answer = calls
            .iter()
            .find(|call| is_sent(call) && call.begun > appended.begun)
            .ok_or_else(|| format!("{mark} was never answered"))?;
        calls
            .iter()
            .find(|call| {
                matches!(call.name, "fsync" | "fdatasync")
                    && is_log(call)
                    && call.result == Some("0")
                    && call.begun > appended.ended
                    && call.ended < answer.begun
            })
            .ok_or_else(|| format!("{mark} was answered before it was synced"))?;
    }
    Ok(())
}

/// A call as the trace has it: the lines where it begins and ends, and what stands in between.
struct Call<'a> {
    name: &'a str,
    rest: &'a str,
    result: Option<&'a str>,
    begun: usize,
    ended: usize,
}

/// What the call's first argument is open on.
fn file<'a>(call: &Call<'a>) -> Option<&'a str> {
    call.rest.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(file, _)| file)
}

fn is_log(call: &Call<'_>) -> bool {
    file(call).is_some_and(|file| Path::new(file).ends_with("sutler.db-wal"))
}

fn is_sent(call: &Call<'_>) -> bool {
    let sends = matches!(call.name, "write" | "writev" | "sendto" | "sendmsg");
    // The runtime wakes itself through sockets of another family.
    sends && file(call).is_some_and(|file| file.starts_with("socket:") || file.starts_with("TCP:"))
}

/// Joins calls that the trace has in two parts, because another thread's came in between.
fn calls(trace: &str) -> Vec<Call<'_>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((thread, line)) = line.split_once(' ') else { continue };
        let line = line.trim_start();
        let result = line.rsplit_once(" = ").map(|(_, result)| result.trim());
        if line.starts_with("<... ") {
            if let Some(call) = open.remove(thread) {
                calls[call].ended = at;
                calls[call].result = result;
            }
        } else if let Some((name, rest)) = line.split_once('(') {
            let unfinished = rest.ends_with("<unfinished ...>");
            if unfinished {
                open.insert(thread, calls.len());
            }
            let ended = if unfinished { usize::MAX } else { at };
            let result = if unfinished { None } else { result };
            calls.push(Call { name, rest, result, begun: at, ended });
        }
    }
    calls
}

#[test]
fn the_check_of_syncs_can_fail() {
    let append = r#"7 pwrite64(9</x/sutler.db-wal>, "..mark-0. ..", 8192, 56) = 8192"#;
    let sync = "7 fdatasync(9</x/sutler.db-wal>) = 0";
    let answer = r#"8 sendto(12<socket:[1]>, "...", 24, 0, NULL, 0) = 24"#;
    let began = "7 fdatasync(9</x/sutler.db-wal> <unfinished ...>";
    let ended = "7 <... fdatasync resumed>) = 0";
    let failed = "7 <... fdatasync resumed>) = -1 EIO (Input/output error)";
    let other = "7 fdatasync(8</x/sutler.db>) = 0";
    for (lines, good) in [
        (vec![append, sync, answer], true),
        (vec![append, began, ended, answer], true),
        (vec![append, answer, sync], false),
        (vec![append, answer], false),
        (vec![append, answer, sync, answer], false),
        (vec![sync, append, answer], false),
        (vec![append, began, answer, ended], false),
        (vec![append, began, failed, answer], false),
        (vec![append, other, answer], false),
        (vec![append, sync], false),
        (vec![sync, answer], false),
    ] {
        assert_eq!(check(&lines.join("\n"), 1).is_ok(), good, "{lines:?}");
    }
}
