//! Images from elsewhere: fetched into a file here, taken up again where they broke off, and checked.

use std::{
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use reqwest::{StatusCode, header};
use sha2::{Digest as _, Sha256, Sha512};
use sutler_provider::{Credentials, Error, ErrorKind, Result};

use tokio::io::AsyncReadExt as _;

use crate::tasks::Progress;

/// How often a download that broke off is taken up again.
const TRIES: u32 = 5;
const CONNECT: Duration = Duration::from_secs(20);
/// Without a byte for this long, a download has broken off.
const SILENCE: Duration = Duration::from_secs(60);

/// A file that is to be fetched.
pub(crate) struct Wanted<'a> {
    pub(crate) url: &'a str,
    /// What it must add up to, and how: `sha256` or `sha512`.
    pub(crate) checksum: Option<(&'a str, &'a str)>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) credentials: &'a Credentials,
    /// Where it is kept on its way.
    pub(crate) folder: &'a Path,
}

/// Fetches a file. What was fetched before a failure stays for the next try.
pub(crate) async fn fetch(wanted: &Wanted<'_>, progress: &Progress) -> Result<PathBuf> {
    std::fs::create_dir_all(wanted.folder).map_err(|error| {
        Error::internal(format!("{} cannot be made: {error}", wanted.folder.display()))
    })?;
    let name = hex(&Sha256::digest(wanted.url.as_bytes()));
    let path = wanted.folder.join(format!("{name}.part"));
    let client = client()?;
    let mut tries = 0;
    loop {
        match piece(&client, wanted, &path, progress).await {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::Unavailable && tries < TRIES => {
                tries += 1;
                tracing::warn!(url = wanted.url, "{error}; trying again");
                tokio::time::sleep(Duration::from_secs(1 << tries)).await;
            }
            Err(error) => return Err(error),
        }
    }
    progress.say(Some(60), "checking");
    if let Err(error) = verify(&path, wanted.checksum) {
        // What is wrong is not taken up again.
        drop(std::fs::remove_file(&path));
        return Err(error);
    }
    Ok(path)
}

/// Sends a file.
pub(crate) async fn put(url: &str, path: &Path, credentials: &Credentials) -> Result<()> {
    let file = tokio::fs::File::open(path).await.map_err(|error| full(path, &error))?;
    let length = file.metadata().await.map_err(|error| full(path, &error))?.len();
    let body = stream::unfold(file, |mut file| async move {
        let mut buffer = vec![0; 256 * 1024];
        match file.read(&mut buffer).await {
            Ok(0) => None,
            Ok(count) => {
                buffer.truncate(count);
                Some((Ok(buffer), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    let request = client()?
        .put(url)
        .header(header::CONTENT_LENGTH, length)
        .body(reqwest::Body::wrap_stream(body));
    let answer = with_secret(request, credentials).send().await;
    let lost = |error: reqwest::Error| Error::failed(format!("{url}: {}", error.without_url()));
    match answer.map_err(lost)?.status() {
        status if status.is_success() => Ok(()),
        status => Err(Error::new(kind_of(status), format!("{url} answers {status}"))),
    }
}

/// A request with what its receiver wants to know.
fn with_secret(
    request: reqwest::RequestBuilder,
    credentials: &Credentials,
) -> reqwest::RequestBuilder {
    let secret = |key: &str| credentials.get(key).and_then(|secret| secret.expose_str());
    match (secret("token"), secret("username")) {
        (Some(token), _) => request.bearer_auth(token),
        (None, Some(user)) => request.basic_auth(user, secret("password")),
        (None, None) => request,
    }
}

fn kind_of(status: StatusCode) -> ErrorKind {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Denied,
        StatusCode::NOT_FOUND | StatusCode::GONE => ErrorKind::NotFound,
        status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Failed,
    }
}

fn client() -> Result<reqwest::Client> {
    // Another one may be installed already, which is as good.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .read_timeout(SILENCE)
        .build()
        .map_err(|error| Error::internal(format!("no client for downloads: {error}")))
}

/// Fetches what is missing of a file.
async fn piece(
    client: &reqwest::Client,
    wanted: &Wanted<'_>,
    path: &Path,
    progress: &Progress,
) -> Result<()> {
    let here = std::fs::metadata(path).map(|file| file.len()).unwrap_or_default();
    let mut request = client.get(wanted.url);
    for (name, value) in &wanted.headers {
        request = request.header(name, value);
    }
    request = with_secret(request, wanted.credentials);
    if here > 0 {
        request = request.header(header::RANGE, format!("bytes={here}-"));
    }
    let lost = |error: reqwest::Error| {
        Error::unavailable(format!("{}: {}", wanted.url, error.without_url()))
    };
    let response = request.send().await.map_err(lost)?;
    let (mut file, mut done) = match response.status() {
        StatusCode::PARTIAL_CONTENT if here > 0 => (open(path, true)?, here),
        // All of it was here.
        StatusCode::RANGE_NOT_SATISFIABLE => return Ok(()),
        status if status.is_success() => (open(path, false)?, 0),
        status => {
            return Err(Error::new(kind_of(status), format!("{} answers {status}", wanted.url)));
        }
    };
    let all = response.content_length().map(|rest| rest + done);
    let mut body = response.bytes_stream();
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(lost)?;
        file.write_all(&bytes).map_err(|error| full(path, &error))?;
        done += bytes.len() as u64;
        let percent =
            all.filter(|all| *all > 0).map(|all| u8::try_from(done * 60 / all).unwrap_or(60));
        progress.say(
            percent,
            format!("fetched {} of {} MiB", done >> 20, all.unwrap_or_default() >> 20),
        );
    }
    match all {
        Some(all) if done < all => {
            Err(Error::unavailable(format!("{}: it broke off after {done} bytes", wanted.url)))
        }
        _ => file.sync_all().map_err(|error| full(path, &error)),
    }
}

fn open(path: &Path, go_on: bool) -> Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.create(true).write(true).truncate(!go_on).open(path);
    let mut file = file.map_err(|error| full(path, &error))?;
    file.seek(SeekFrom::End(0)).map_err(|error| full(path, &error))?;
    Ok(file)
}

fn full(path: &Path, error: &std::io::Error) -> Error {
    let why = format!("{} cannot be written: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::StorageFull => Error::new(ErrorKind::Exhausted, why),
        _ => Error::failed(why),
    }
}

/// Checksums that are made here.
pub(crate) enum Checksum {
    Sha256,
    Sha512,
}

/// A checksum by its name. Others do not show that nobody meddled with a file.
pub(crate) fn known_checksum(how: &str) -> Result<Checksum> {
    match how.to_lowercase().as_str() {
        "sha256" => Ok(Checksum::Sha256),
        "sha512" => Ok(Checksum::Sha512),
        other => {
            let why =
                format!("checksums by {other} are not made here: there are sha256 and sha512");
            Err(Error::invalid("spec.source.checksumType", why))
        }
    }
}

/// Whether a file adds up to what was said of it.
pub(crate) fn verify(path: &Path, checksum: Option<(&str, &str)>) -> Result<()> {
    let Some((sum, how)) = checksum else { return Ok(()) };
    let sum = sum.rsplit(':').next().unwrap_or(sum).trim().to_lowercase();
    let found = match known_checksum(how)? {
        Checksum::Sha256 => digest::<Sha256>(path)?,
        Checksum::Sha512 => digest::<Sha512>(path)?,
    };
    match found == sum {
        true => Ok(()),
        false => Err(Error::failed(format!("its {how} is {found}, and should be {sum}"))),
    }
}

fn digest<D: sha2::Digest>(path: &Path) -> Result<String> {
    let failed = |error: std::io::Error| {
        Error::failed(format!("{} cannot be read: {error}", path.display()))
    };
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut digest = D::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Ok(hex(&digest.finalize()));
        }
        digest.update(&buffer[..count]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::tasks::Tasks;

    const WHOLE: &[u8] = b"0123456789";
    const SUM: &str = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882";

    /// A server that sends half of the file and hangs up, and then what it is asked for.
    async fn server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/image", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 4096];
                let count = socket.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..count]).to_lowercase();
                let from =
                    head.split("range: bytes=").nth(1).and_then(|rest| rest.split('-').next());
                let answer = match from.map(|from| from.parse::<usize>().unwrap()) {
                    None => b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234".to_vec(),
                    Some(from) if from < WHOLE.len() => {
                        let rest = &WHOLE[from..];
                        let head = format!(
                            "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\n\r\n",
                            rest.len()
                        );
                        [head.as_bytes(), rest].concat()
                    }
                    Some(_) => {
                        b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n".to_vec()
                    }
                };
                socket.write_all(&answer).await.unwrap();
            }
        });
        url
    }

    fn progress() -> Progress {
        let (sender, receiver) = std::sync::mpsc::channel();
        Tasks::new().begin("test", move |progress| async move {
            sender.send(progress).unwrap();
            Ok(None)
        });
        receiver.recv().unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_broke_off_is_taken_up_again_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.part");
        let (url, progress) = (server().await, progress());
        let wanted = Wanted {
            url: &url,
            checksum: Some((SUM, "sha256")),
            headers: Vec::new(),
            credentials: &Credentials::default(),
            folder: folder.path(),
        };
        let client = client().unwrap();
        let error = piece(&client, &wanted, &path, &progress).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"01234");
        piece(&client, &wanted, &path, &progress).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), WHOLE);
        // All of it is here.
        piece(&client, &wanted, &path, &progress).await.unwrap();
        verify(&path, wanted.checksum).unwrap();
        let error = verify(&path, Some(("00", "sha256"))).unwrap_err();
        assert!(error.message().contains(SUM), "{error}");
        let error = verify(&path, Some((SUM, "md5"))).unwrap_err();
        assert_eq!(error.field(), Some("spec.source.checksumType"));
    }
}
