//! Images that are fetched from elsewhere.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use sha2::{Digest as _, Sha256};
use sutler_provider::{ErrorKind, PrepareRequest, Provider as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::{corner::Corner, refused::assert_refused};

/// A server of one file, which hangs up in the middle of its first answer.
struct Web {
    url: String,
    /// From where on the file was asked for, each time.
    asked: Arc<Mutex<Vec<usize>>>,
}

impl Web {
    async fn serve(file: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/guest.qcow2", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = asked.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                answer(socket, &file, &noted).await;
            }
        });
        Self { url, asked }
    }

    /// From where on the file was asked for since the last time that this was.
    fn asked(&self) -> Vec<usize> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

async fn answer(mut socket: TcpStream, file: &[u8], asked: &Mutex<Vec<usize>>) {
    let mut head = vec![0; 4096];
    let count = socket.read(&mut head).await.unwrap();
    let head = String::from_utf8_lossy(&head[..count]).to_lowercase();
    let from = head.split("range: bytes=").nth(1).and_then(|rest| rest.split('-').next());
    let from = from.map_or(0, |from| from.parse::<usize>().unwrap());
    let first = {
        let mut asked = asked.lock().unwrap();
        asked.push(from);
        asked.len() == 1
    };
    let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
    let rest = &file[from..];
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", rest.len());
    let sent = if first { &rest[..rest.len() / 2] } else { rest };
    socket.write_all(head.as_bytes()).await.unwrap();
    // Whoever has had enough hangs up.
    drop(socket.write_all(sent).await);
}

fn from_url(corner: &Corner, url: &str, sum: String) -> PrepareRequest {
    let mut request = corner.image_from(Path::new(""));
    (request.image.path, request.image.url) = (None, Some(url.to_owned()));
    request.image.checksum = Some((sum, "sha256".to_owned()));
    request
}

/// What broke off is taken up again, what does not add up is not kept, and one that is there is not fetched
/// a second time.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_fetched_whole_and_once() {
    let Some(corner) = Corner::open() else { return };
    let file = std::fs::read(&corner.image).unwrap();
    let sum: String = Sha256::digest(&file).iter().map(|byte| format!("{byte:02x}")).collect();
    let half = file.len() / 2;
    let web = Web::serve(file).await;

    let wrong = from_url(&corner, &web.url, "00".repeat(32));
    let said = format!("its sha256 is {sum}, and should be 00");
    assert_refused(corner.bring(wrong).await, ErrorKind::Failed, &said);
    assert_eq!(web.asked(), [0, half], "the second time only for what was missing");
    corner.assert_empty();

    let right = from_url(&corner, &web.url, sum);
    // Both ask before either has it. The server hangs up on the first of all again.
    let (one, two) = tokio::join!(corner.bring(right.clone()), corner.bring(right.clone()));
    let image = one.unwrap();
    assert_eq!(image, two.unwrap());
    assert_eq!(corner.bring(right.clone()).await.unwrap(), image);
    assert_eq!(web.asked(), [0, half]);

    let made = corner.make(corner.request(Some(&image))).await.unwrap();
    let answer = corner.provider.image_remove(&right.target).await;
    assert_refused(answer, ErrorKind::Conflict, "is in use");
    corner.delete(&made).await;
    corner.remove_image(&right.target).await;
    corner.assert_empty();
}
