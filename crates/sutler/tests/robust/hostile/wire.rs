//! Bytes that are not the protocol, or too much of it.

use super::{
    CONFIG_MAPS, Hosted,
    raw::{GET_ROOT, PREFACE, code, exchange, frame, goodbye},
};
use crate::server::Who;

const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";

fn request(method: &str, target: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("{method} {target} HTTP/1.1\r\nhost: x\r\n{headers}\r\n{body}").into_bytes()
}

#[tokio::test]
async fn hostile_http1_is_cut_off() {
    let mut hosted = Hosted::start(&[]).await;
    let many: String = (0..3000).map(|n| format!("x-{n}: y\r\n")).collect();
    let wide: String = (0..900).map(|n| format!("x-{}: {}\r\n", n % 50, "y".repeat(100))).collect();
    let long = format!("x: {}\r\n", "y".repeat(1 << 20));
    let path = format!("/{}", "y".repeat(1 << 20));
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let chunked = "transfer-encoding: chunked\r\ncontent-type: application/json\r\n";
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"smuggled"}}"#;
    let smuggled = request("POST", CONFIG_MAPS, "content-type: application/json\r\n", object);
    let smuggled = String::from_utf8(smuggled).unwrap();
    for (bytes, codes) in [
        (request("GET", "/", &many, ""), &[431][..]),
        (request("GET", "/", &wide, ""), &[431]),
        (request("GET", "/", &long, ""), &[431]),
        (request("GET", &path, "", ""), &[414, 431]),
        (b"\0\x01\x02garbage\r\n\r\n".to_vec(), &[400]),
        (b"GET /version HTTP/9.9\r\n\r\n".to_vec(), &[400]),
        (request("GET", "/ver sion", "", ""), &[400]),
        (request("GET", "/", "a b: c\r\n", ""), &[400]),
        (request("GET", "/", "x: \0\r\n", ""), &[400]),
        (
            request("POST", CONFIG_MAPS, "content-length: 5\r\ncontent-length: 6\r\n", "abcdef"),
            &[400],
        ),
        (request("POST", CONFIG_MAPS, "content-length: -1\r\n", ""), &[400]),
        (request("POST", CONFIG_MAPS, "content-length: 99999999999999999999\r\n", ""), &[400]),
        // Larger than what is taken: told at once, and the connection is of no more use.
        (request("POST", CONFIG_MAPS, "content-length: 9999999999\r\n", "{"), &[413]),
        (request("POST", CONFIG_MAPS, chunked, &chunk.repeat(80)), &[413]),
        (request("POST", CONFIG_MAPS, chunked, "zz\r\n"), &[400]),
        (
            request("POST", CONFIG_MAPS, &format!("content-length: 0\r\n{chunked}"), "zz\r\n"),
            &[400],
        ),
        // A second request hidden behind the first must not be taken for one.
        (
            request(
                "POST",
                CONFIG_MAPS,
                &format!("{chunked}content-length: 4\r\n"),
                &format!("zz\r\n{smuggled}"),
            ),
            &[400],
        ),
    ] {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        let mut stream = hosted.address.tls(Who::Admin, HTTP1).await.unwrap();
        let answer = exchange(&mut stream, &bytes).await;
        let answer = answer.unwrap_or_else(|| panic!("{shown}: the connection hangs"));
        let text = String::from_utf8_lossy(&answer);
        // Cut without an answer is clear enough for a flood.
        assert!(
            code(&answer).is_some_and(|code| codes.contains(&code))
                || (answer.is_empty() && codes[0] == 431),
            "{shown}: {text:.300}"
        );
        if codes == [413] {
            assert!(text.contains("Request entity too large: limit is 3145728"), "{text}");
        }
    }
    // The first of two is answered, the garbage after it ends the connection.
    let mut stream = hosted.address.tls(Who::Admin, HTTP1).await.unwrap();
    let bytes = [request("GET", "/version", "", ""), b"GARBAGE\0\r\n\r\n".to_vec()].concat();
    let answer = exchange(&mut stream, &bytes).await.expect("it ends");
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("gitVersion") && text.contains("400 Bad Request"), "{text}");
    // No TLS.
    for bytes in [request("GET", "/", "", ""), request("POST", CONFIG_MAPS, "", object)] {
        let mut stream = hosted.address.tcp().await.unwrap();
        let answer = exchange(&mut stream, &bytes).await.expect("it ends");
        assert_eq!(code(&answer), Some(400));
        assert!(String::from_utf8_lossy(&answer).contains("HTTP request to an HTTPS server"));
    }
    for bytes in [&b"\x16\x03\x01\xff\xff"[..], b"\0\0\0\0\0\0\0\0\0\0", &[0xff; 70_000]] {
        let mut stream = hosted.address.tcp().await.unwrap();
        let closed = exchange(&mut stream, bytes).await;
        assert!(closed.is_some(), "{:?} hangs", &bytes[..5]);
    }
    hosted.is_unchanged().await;
    hosted.is_sound().await;
}

#[tokio::test]
async fn hostile_http2_is_cut_off() {
    let mut hosted = Hosted::start(&[]).await;
    const HEADERS: u8 = 1;
    const END: u8 = 5;
    let mut resets = PREFACE.to_vec();
    for n in 0..3000u32 {
        resets.extend(frame(HEADERS, END, 2 * n + 1, GET_ROOT));
        resets.extend(frame(3, 0, 2 * n + 1, &[0, 0, 0, 8]));
    }
    // Headers that never end.
    let mut endless = PREFACE.to_vec();
    endless.extend(frame(HEADERS, 0, 1, GET_ROOT));
    for _ in 0..2000 {
        endless.extend(frame(
            9,
            0,
            1,
            &[b"\0\x03abc\x7f\xf9\x0f".as_slice(), &[b'x'; 2040]].concat(),
        ));
    }
    for (what, bytes) in [
        ("no preface", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        ("garbage after the preface", [PREFACE, &[0xff; 4000]].concat()),
        ("a frame beyond the limit", [PREFACE, b"\xff\xff\xff\0\0\0\0\0\x01"].concat()),
        ("data on no stream", [PREFACE, &frame(0, 0, 0, b"x")].concat()),
        ("an even stream", [PREFACE, &frame(HEADERS, END, 2, GET_ROOT)].concat()),
        ("headers that cannot be read", [PREFACE, &frame(HEADERS, END, 1, &[0xff; 40])].concat()),
        ("a window that overflows", [PREFACE, &frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])].concat()),
        ("rapid resets", resets),
        ("endless headers", endless),
    ] {
        let mut stream = hosted.address.tls(Who::Admin, HTTP2).await.unwrap();
        let closed = exchange(&mut stream, &bytes).await;
        assert!(closed.is_some(), "{what}: the connection hangs");
    }
    // Who has no credentials is told to go after the first answer.
    let mut stream = hosted.address.tls(Who::Nobody, HTTP2).await.unwrap();
    let bytes = [PREFACE, &frame(HEADERS, END, 1, GET_ROOT)].concat();
    assert!(goodbye(&mut stream, &bytes).await.is_some(), "it is not told to go");
    hosted.is_unchanged().await;
    hosted.is_sound().await;
}
