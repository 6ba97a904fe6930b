//! A machine's serial console.

use futures::stream::{self, StreamExt as _};
use sutler_provider::{Console, MachineId, Proof, Result};
use tokio::sync::mpsc;
use virt::stream::Stream;

use crate::{find, host::Libvirt};

/// Pieces that may wait for a slow reader or writer.
const WAITING: usize = 64;
/// Bytes that are read at once.
const CHUNK: usize = 4096;

/// Opens a console, which is one reader's at a time: a second one takes it over.
pub(crate) async fn open(host: &Libvirt, id: &MachineId, proof: &Proof) -> Result<Console> {
    let (id, proof) = (id.clone(), proof.clone());
    // A stream needs its connection for as long as it is open.
    let (connect, console) = host
        .0
        .link
        .long(move |connect| {
            let (domain, _) = find::proven(connect, &id, &proof)?;
            let stream = Stream::new(connect, 0)?;
            domain.open_console(None, &stream, virt_sys::VIR_DOMAIN_CONSOLE_FORCE)?;
            Ok((connect.clone(), stream))
        })
        .await?;
    let (typed, mut keys) = mpsc::channel::<Vec<u8>>(WAITING);
    let (shown, lines) = mpsc::channel::<Vec<u8>>(WAITING);
    let (reader, writer) = (console.clone(), console);
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    };
    let read = move || {
        let mut buffer = vec![0; CHUNK];
        while let Ok(count) = reader.recv(&mut buffer) {
            let count = usize::try_from(count).unwrap_or_default();
            if count == 0 || shown.blocking_send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    };
    let write = move || {
        while let Some(bytes) = keys.blocking_recv() {
            let mut rest = bytes.as_slice();
            while !rest.is_empty() {
                match writer.send(rest).ok().and_then(|sent| usize::try_from(sent).ok()) {
                    Some(sent) if sent > 0 => rest = &rest[sent..],
                    _ => return,
                }
            }
        }
        // Nobody types any more: the reader is woken by the end of the stream.
        drop(writer.abort());
        drop(connect);
    };
    let failed = |error: std::io::Error| {
        sutler_provider::Error::internal(format!("no thread for a console: {error}"))
    };
    spawn("libvirt-console-out", Box::new(read)).map_err(failed)?;
    spawn("libvirt-console-in", Box::new(write)).map_err(failed)?;
    let output =
        stream::unfold(
            lines,
            |mut lines| async move { lines.recv().await.map(|bytes| (bytes, lines)) },
        );
    Ok(Console { output: output.boxed(), input: typed })
}
