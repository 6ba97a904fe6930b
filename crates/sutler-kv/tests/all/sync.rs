//! A write is on disk before it is acknowledged. To kill the process cannot show that, as the
//! kernel keeps what was written; so the calls it makes are watched.

use std::process::{Command, Stdio};

use crate::{child, trace};

#[test]
fn the_sync_comes_before_the_answer() {
    let usable = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !usable {
        println!("SKIPPED: strace is not there or may not trace; syncs are not checked");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let program = [
        "strace",
        "-f",
        "-y",
        "-qq",
        "-s",
        "9000",
        "-e",
        "trace=fdatasync,fsync,write,pwrite64",
        "-e",
        "signal=none",
        "-o",
        trace.to_str().unwrap(),
    ];
    let output = child::command(&program, &folder.path().join("store.db"), child::FEW)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let acknowledged = printed.lines().filter(|line| line.starts_with("ack ")).count();
    assert_eq!(acknowledged, 48);
    let trace = std::fs::read_to_string(&trace).unwrap();
    // Removals print no mark.
    let marked = printed.lines().filter(|line| line.contains(" mark-")).count();
    assert_eq!(check(&trace).unwrap(), marked);
}

/// Checks every acknowledgement of a marked value. Answers with how many were checked.
fn check(trace: &str) -> Result<usize, String> {
    let calls = trace::calls(trace);
    let mut checked = 0;
    for answer in calls.iter().filter(|call| call.name == "write" && call.rest.contains("ack ")) {
        let Some(mark) = answer.rest.split_once("mark-").map(|(_, rest)| rest) else { continue };
        let mark = mark.split_once('.').ok_or("a mark has no end")?.0;
        let mark = format!("mark-{mark}.");
        let answers = |call: &trace::Call<'_>| {
            call.name == "write" && call.rest.contains("ack ") && call.rest.contains(&mark)
        };
        trace::check(&calls, "store.db-wal", &mark, answers)?;
        checked += 1;
    }
    Ok(checked)
}

#[test]
fn the_check_can_fail() {
    let append = r#"7 pwrite64(9</x/store.db-wal>, "..mark-1-2-3. ..", 8192, 56) = 8192"#;
    let sync = "7 fdatasync(9</x/store.db-wal>) = 0";
    let answer = r#"8 write(1<pipe:[1]>, "ack 3 t/a/1 mark-1-2-3.\n", 24) = 24"#;
    let began = "7 fdatasync(9</x/store.db-wal> <unfinished ...>";
    let ended = "7 <... fdatasync resumed>) = 0";
    let failed = "7 <... fdatasync resumed>) = -1 EIO (Input/output error)";
    let other = "7 fdatasync(8</x/store.db>) = 0";
    for (lines, good) in [
        (vec![append, sync, answer], true),
        (vec![append, began, ended, answer], true),
        (vec![append, answer, sync], false),
        (vec![append, answer], false),
        (vec![sync, append, answer], false),
        (vec![append, began, answer, ended], false),
        (vec![append, began, failed, answer], false),
        (vec![append, other, answer], false),
        (vec![append, answer, sync, answer], false),
        (vec![sync, answer], false),
    ] {
        assert_eq!(check(&lines.join("\n")).is_ok(), good, "{lines:?}");
    }
}
