//! Bytes on a connection, as no client library would send them.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Longer than any answer takes on a busy machine, and shorter than the server bears with somebody silent.
const LONG: Duration = Duration::from_secs(28);

/// Sends bytes and reads until the other side closes; `None` if it does not. What cannot be sent
/// because the other side has heard enough is left out.
pub(super) async fn exchange<S>(stream: &mut S, bytes: &[u8]) -> Option<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tokio::time::timeout(LONG, async {
        let (mut read, mut write) = tokio::io::split(stream);
        let send = async {
            let _ = write.write_all(bytes).await;
            let _ = write.flush().await;
        };
        let mut answer = Vec::new();
        let receive = async {
            // A reset after the answer is as good as an end.
            let _ = read.read_to_end(&mut answer).await;
        };
        tokio::join!(send, receive);
        answer
    })
    .await
    .ok()
}

/// Sends bytes and reads until an HTTP/2 connection is said to end; `None` if it is not.
pub(super) async fn goodbye<S>(stream: &mut S, bytes: &[u8]) -> Option<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    const GOAWAY: u8 = 7;
    tokio::time::timeout(LONG, async {
        stream.write_all(bytes).await.ok()?;
        loop {
            let mut head = [0u8; 9];
            stream.read_exact(&mut head).await.ok()?;
            if head[3] == GOAWAY {
                return Some(());
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            stream.read_exact(&mut payload).await.ok()?;
        }
    })
    .await
    .ok()?
}

/// The code of an HTTP/1 answer.
pub(super) fn code(answer: &[u8]) -> Option<u16> {
    let line = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "))?;
    std::str::from_utf8(line.get(..3)?).ok()?.parse().ok()
}

/// What every HTTP/2 connection begins with, and the client's settings.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A frame of HTTP/2.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is small").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// HEADERS of `GET https /`.
pub(super) const GET_ROOT: &[u8] = &[0x82, 0x84, 0x87, 0x41, 1, b'x'];
