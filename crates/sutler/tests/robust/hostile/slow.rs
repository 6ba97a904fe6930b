//! Clients that take up room and do nothing with it, beside one that works.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use futures::future::join_all;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{CONFIG_MAPS, Hosted};
use crate::{client::Client, server::Who};

/// How many of each kind.
const MANY: usize = 150;
const DEAF: usize = 12;
const WRITES: usize = 150;
/// What all the writes together weigh exceeds any buffer between server and client many times.
const WEIGHT: usize = 200_000;
/// A write that takes longer was held up by somebody.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_slowness_holds_nobody_up() {
    let mut hosted = Hosted::start(&[]).await;
    let address = hosted.address.clone();
    let start = hosted.admin.get(CONFIG_MAPS).await.unwrap().version();

    // Nothing at all, half a head, half a body.
    let mut silent = Vec::new();
    for _ in 0..4 * MANY {
        silent.push(address.tcp().await.unwrap());
    }
    let mut slow = Vec::new();
    for n in 0..MANY {
        let mut stream = address.tls(Who::Admin, b"http/1.1").await.unwrap();
        let bytes = match n % 3 {
            0 => "GET /version HTTP/1.1\r\nhost: x\r\nx: ".to_owned(),
            1 => "G".to_owned(),
            _ => {
                format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{{")
            }
        };
        stream.write_all(bytes.as_bytes()).await.unwrap();
        slow.push((n % 3 == 2, stream));
    }
    // Watches that nobody reads.
    let mut deaf = Vec::new();
    for _ in 0..DEAF {
        let mut client = Client::new(&address, Who::Admin);
        let target = format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}");
        let response = client.open("GET", &target, &[], "").await.unwrap();
        assert_eq!(response.status(), 200);
        deaf.push((client, response.into_body()));
    }

    let mut versions = Vec::new();
    let mut longest = Duration::ZERO;
    for n in 0..WRITES {
        let changes = json!({"data": {"a": format!("{n}-{}", "x".repeat(WEIGHT))}});
        let content = [("content-type", "application/merge-patch+json")];
        let target = format!("{CONFIG_MAPS}/one");
        let begun = Instant::now();
        let answer =
            hosted.admin.send("PATCH", &target, &content, changes.to_string()).await.unwrap();
        longest = longest.max(begun.elapsed());
        assert_eq!(answer.code, 200, "{:?}", answer.text().get(..300));
        versions.push(answer.version());
    }
    assert!(longest < LONG, "a write took {longest:?}");
    println!("the longest write took {longest:?}, {} KiB", hosted.server.rss());
    // One copy of the log is kept, and no copy for each watcher.
    let log = (WRITES * WEIGHT / 1024) as u64;
    let most = hosted.rss * 3 + 150 * 1024 + 2 * log;
    assert!(hosted.server.rss() < most, "{} KiB of {most}", hosted.server.rss());

    // Who starts to read now sees all of it in order, or is told that it is too late, or is cut.
    for (n, (_client, body)) in deaf.into_iter().enumerate() {
        let seen = read_all(body, *versions.last().unwrap()).await;
        match seen {
            Some(seen) => assert_eq!(seen, versions, "watcher {n}"),
            None => println!("watcher {n} was told that it is too late, or cut"),
        }
    }

    // Whoever sent nothing useful is cut in the end; a body has longer than this test lasts.
    let silent = silent.into_iter().map(|mut stream| async move { stream.read_u8().await });
    let slow = slow.into_iter().filter(|(body, _)| !body);
    let slow = slow.map(|(_, mut stream)| async move { stream.read_u8().await });
    let cut = async { (join_all(silent).await, join_all(slow).await) };
    let (silent, slow) =
        tokio::time::timeout(Duration::from_secs(60), cut).await.expect("all are cut");
    assert!(silent.iter().chain(&slow).all(Result::is_err), "somebody was sent something");
    hosted.rss += log;
    hosted.is_sound().await;
}

/// The versions that a watch tells, up to one; `None` if it is cut or ends in an error.
async fn read_all(mut body: hyper::body::Incoming, last: u64) -> Option<Vec<u64>> {
    let mut versions = Vec::new();
    let mut rest = BytesMut::new();
    loop {
        let frame =
            tokio::time::timeout(LONG, body.frame()).await.expect("a watch goes on or ends");
        let Some(Ok(frame)) = frame else { return None };
        rest.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let event: Value = serde_json::from_slice(&rest.split_to(end + 1)).expect("it is JSON");
            if event["type"] == "ERROR" {
                assert_eq!(event["object"]["code"], 410, "{event}");
                return None;
            }
            let version = &event["object"]["metadata"]["resourceVersion"];
            let version = version.as_str().and_then(|v| v.parse().ok()).expect("a version");
            versions.push(version);
            if version >= last {
                return Some(versions);
            }
        }
    }
}
