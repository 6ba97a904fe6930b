//! A disk that fails: here the kernel refuses to let a file grow, which SQLite sees as an error of
//! the disk in the middle of a commit.

use std::process::Stdio;

use sutler_kv::engine::{Engine as _, Range, Version};
use sutler_kv::sqlite::{Options, Sqlite};

use crate::child;

#[tokio::test]
async fn after_an_error_of_the_disk_nothing_more_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    // The limit is in blocks of 512 bytes; without the trap its signal would end the process.
    let limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 40000; exec \"$@\"", "sh"];
    let output = child::command(&limited, &path, child::UNTIL_REFUSED)
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = printed.lines().map(words).collect();
    let of = |kind: &'static str| lines.iter().filter(move |line| line[0] == kind);
    let acknowledged: Vec<Version> = of("ack").map(|line| line[1].parse().unwrap()).collect();
    assert!(acknowledged.len() > 50, "{printed}");
    let refused: Vec<String> = of("refused").map(|line| line.join(" ")).collect();
    assert_eq!(refused.len(), 3);
    for refusal in refused {
        assert!(refusal.contains("takes no more until it is restarted"), "{refusal}");
    }
    assert_eq!(of("unexpected").count(), 0);
    let (count, last) = (acknowledged.len().to_string(), acknowledged.last().unwrap().to_string());
    assert_eq!(of("read").next().unwrap()[1..], [count, last]);

    let store = Sqlite::open(&path, Options::default()).unwrap();
    let page = store.list(Range::default()).await.unwrap();
    let there: Vec<Version> = page.records.iter().map(|record| record.version).collect();
    assert!(acknowledged.iter().all(|version| there.contains(version)));
    // What was refused may be there or not, but it is at most the one commit that failed.
    assert!(there.len() <= acknowledged.len() + 1);
}
