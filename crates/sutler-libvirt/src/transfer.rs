//! Disks that are sent out and brought in: to and from files that this process can reach, or over HTTP.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};
use sutler_provider::{
    Error, ErrorKind, ExportRequest, Exported, ImportRequest, Imported, Power, Result,
};
use uuid::Uuid;
use virt::connect::Connect;

use crate::{
    copies,
    create::Live,
    download::{self, Wanted},
    fault::Done,
    find,
    host::Libvirt,
    images, names, plan, remove,
    settings::Settings,
    show,
    storage::{self, Pool},
    tasks::Progress,
    volume::{GIB, NewVolume},
};

/// Formats that disks are sent in and come in.
pub(crate) const FORMATS: [&str; 2] = ["qcow2", "raw"];
/// What disks pass through.
pub(crate) const BACKENDS: [&str; 2] = ["file", "http"];

/// Where a disk goes to or comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    File(PathBuf),
    Http(String),
}

impl Place {
    fn read(text: &str, field: &str, settings: &Settings) -> Result<Self> {
        match text.split_once("://") {
            Some(("file", path)) if path.starts_with('/') => {
                settings.file(Path::new(path), field).map(Self::File)
            }
            Some(("http" | "https", _)) => Ok(Self::Http(text.to_owned())),
            _ => {
                let why =
                    format!("{text:?} is no place for a disk: write file:///PATH or https://…");
                Err(Error::invalid(field, why))
            }
        }
    }
}

fn format_of(format: Option<&str>) -> Result<&'static str> {
    let wanted = format.unwrap_or("qcow2");
    let known = FORMATS.into_iter().find(|known| *known == wanted);
    known.ok_or_else(|| {
        Error::invalid("format", format!("{wanted:?} is none of {}", FORMATS.join(", ")))
    })
}

/// Sends a disk out. The same disk to the same place is one export.
pub(crate) async fn export(host: &Libvirt, request: ExportRequest) -> Result<Exported> {
    let format = format_of(request.format.as_deref())?;
    let place = Place::read(&request.destination, "destination", &host.0.settings)?;
    if request.compress {
        return Err(Error::unsupported("disks are not compressed on their way out").at("compress"));
    }
    if request.disk.snapshot.is_some() {
        return Err(Error::unsupported("a disk is sent as it is now").at("disk.snapshot"));
    }
    let machine = Uuid::parse_str(&request.disk.machine.0)
        .map_err(|_| Error::not_found(format!("there is no machine {}", request.disk.machine)))?;
    let name = request.disk.disk.clone().unwrap_or_else(|| plan::ROOT.to_owned());
    let wanted = name.clone();
    let size = host.0.link.look(move |connect| {
        let found = find::by_uuid(connect, machine)?;
        let (domain, seen) = found.ok_or_else(|| remove::gone(machine))?;
        let disks = show::disks(connect, &domain, &seen)?;
        let disk = disks.into_iter().find(|disk| disk.name == wanted);
        let disk = disk.ok_or_else(|| Error::not_found(format!("there is no disk {wanted:?}")))?;
        Ok(disk.size_gib * GIB)
    });
    let size = size.await?;
    let text = format!("{machine}/{name}/{}/{format}", request.destination);
    let digest = Sha256::digest(text.as_bytes());
    let id: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let (sender, number) = (host.clone(), id.clone());
    let task = host.0.tasks.begin(&format!("export/{id}"), move |progress| async move {
        let _turn = sender.0.locks.take(machine.to_string()).await;
        let export = Export { machine, disk: name, format, number };
        let sent = send(&sender, &export, &place, &request, &progress).await;
        // What was copied for the journey goes, whether or not it was made.
        let prefix = export.prefix();
        let clean = move |connect: &Connect| storage::remove_all(connect, &prefix);
        let cleaned = sender.0.link.change_in_task(clean).await;
        sent?;
        cleaned?;
        Ok(Some(export.number))
    });
    Ok(Exported { id, task: Some(task), size_bytes: Some(size), checksum: None })
}

/// A disk on its way out.
struct Export {
    machine: Uuid,
    disk: String,
    format: &'static str,
    number: String,
}

impl Export {
    /// Copies have names of their machine, and so go with it should nobody else remove them.
    fn prefix(&self) -> String {
        format!("{}export-{}-", names::of_machine(self.machine), self.number)
    }
}

async fn send(
    host: &Libvirt,
    export: &Export,
    place: &Place,
    request: &ExportRequest,
    progress: &Progress,
) -> Result<()> {
    progress.say(Some(5), "copying the disk");
    let (machine, disk, format) = (export.machine, export.disk.clone(), export.format);
    let (prefix, pool) = (export.prefix(), host.0.settings.pool.clone());
    let copy = move |connect: &Connect| copy(connect, machine, &disk, format, &prefix, &pool);
    let path = host.0.link.long(copy).await?;
    progress.say(Some(50), "sending it");
    let (file, folder) = match place {
        Place::File(file) => (file.with_extension("part"), None),
        Place::Http(_) => {
            let folder = tempfile::tempdir_in(&host.0.downloads).or_else(|_| tempfile::tempdir());
            let folder = folder.map_err(|error| Error::failed(format!("no folder: {error}")))?;
            (folder.path().join("disk"), Some(folder))
        }
    };
    let into = file.clone();
    host.0.link.long(move |connect| fetch(connect, &path, &into)).await?;
    match place {
        Place::File(to) => std::fs::rename(&file, to)
            .map_err(|error| Error::failed(format!("{} cannot be written: {error}", to.display()))),
        Place::Http(url) => {
            let sent = download::put(url, &file, &request.credentials).await;
            drop(folder);
            sent
        }
    }
}

/// Makes a copy of a disk that stands alone, in the wanted format, and says where it is.
fn copy(
    connect: &Connect,
    machine: Uuid,
    disk: &str,
    format: &str,
    prefix: &str,
    pool: &str,
) -> Done<String> {
    let found = find::by_uuid(connect, machine)?;
    let (domain, seen) = found.ok_or_else(|| remove::gone(machine))?;
    let by_name = seen.disks_by_name();
    let seen_disk =
        by_name.get(disk).ok_or_else(|| Error::not_found(format!("there is no disk {disk:?}")))?;
    let mut source = seen_disk.path.clone().unwrap_or_default();
    let into = Pool::find(connect, pool, "spec.options.pool")?;
    storage::remove_all(connect, prefix)?;
    if show::power(&domain)? != Power::Off {
        let path = into.path_of(&format!("{prefix}live.qcow2"));
        let disks = vec![(seen_disk.device.clone(), path.clone())];
        copies::copy_live(connect, &Live { source: machine, disks })?;
        if format == "qcow2" {
            return Ok(path);
        }
        source = path;
    }
    let from = storage::at_path(connect, &source)?.ok_or_else(|| {
        Error::unsupported(format!("disk {disk} is in no storage pool, and cannot be copied"))
    })?;
    let bytes = storage::describe(&from)?.bytes;
    let name = format!("{prefix}copy.{format}");
    let path = into.path_of(&name);
    let volume = NewVolume { name, format: format.to_owned(), bytes, thick: false, backing: None };
    into.copy(&volume, &from)?;
    Ok(path)
}

/// Writes a volume to a file.
fn fetch(connect: &Connect, path: &str, into: &Path) -> Done {
    let volume = storage::at_path(connect, path)?
        .ok_or_else(|| Error::not_found(format!("the copy at {path} is gone")))?;
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull => ErrorKind::Exhausted,
            _ => ErrorKind::Failed,
        };
        Error::new(kind, format!("{} cannot be written: {error}", into.display()))
    };
    let mut file = std::fs::File::create(into).map_err(failed)?;
    storage::download(connect, &volume, |bytes| file.write_all(bytes))?;
    file.sync_all().map_err(failed)?;
    Ok(())
}

/// Brings a disk in, under a name; a second one of this name is the first.
pub(crate) async fn import(host: &Libvirt, request: ImportRequest) -> Result<Imported> {
    let name = names::import(&request.target)?;
    let place = Place::read(&request.source, "source", &host.0.settings)?;
    if let Some(format) = &request.format {
        format_of(Some(format))?;
    }
    let pool = request.storage_hint.clone().unwrap_or_else(|| host.0.settings.pool.clone());
    let id = format!("{pool}/{name}");
    if let Some(found) = images::brought(host, &pool, &name).await? {
        return Ok(Imported {
            id,
            path: found.path,
            size_bytes: found.size_bytes,
            ..Imported::default()
        });
    }
    let (bringer, told) = (host.clone(), id.clone());
    let task = host.0.tasks.begin(&format!("import/{id}"), move |progress| async move {
        let _turn = bringer.0.locks.take(format!("image/{told}")).await;
        if images::brought(&bringer, &pool, &name).await?.is_none() {
            bring(&bringer, &request, &place, &pool, &name, &progress).await?;
        }
        Ok(Some(told))
    });
    Ok(Imported { id, task: Some(task), ..Imported::default() })
}

async fn bring(
    host: &Libvirt,
    request: &ImportRequest,
    place: &Place,
    pool: &str,
    name: &str,
    progress: &Progress,
) -> Result<()> {
    let checksum = request.checksum.as_deref().map(|sum| match sum.split_once(':') {
        Some((how, sum)) => (sum, how),
        None => (sum, "sha256"),
    });
    let file = match place {
        Place::File(path) => {
            download::verify(path, checksum)?;
            path.clone()
        }
        Place::Http(url) => {
            let wanted = Wanted {
                url,
                checksum,
                headers: Vec::new(),
                credentials: &request.credentials,
                folder: &host.0.downloads,
            };
            download::fetch(&wanted, progress).await?
        }
    };
    let (format, path) = (request.format.clone(), file.clone());
    let into = images::Place { pool: pool.to_owned(), name: name.to_owned(), format: None };
    let told = progress.clone();
    let stored = host
        .0
        .link
        .long(move |connect| images::store(connect, &path, format.as_deref(), &into, &told));
    let stored = stored.await;
    if matches!(place, Place::Http(_)) && stored.is_ok() {
        drop(std::fs::remove_file(file));
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_files_or_addresses() {
        let folder = tempfile::tempdir().unwrap();
        let folders = vec![folder.path().canonicalize().unwrap()];
        let settings = Settings { folders: folders.clone(), ..Settings::default() };
        let read = |text: &str| Place::read(text, "source", &settings);
        let file = read(&format!("file://{}/a.qcow2", folder.path().display())).unwrap();
        assert_eq!(file, Place::File(folders[0].join("a.qcow2")));
        assert!(matches!(read("https://x/y"), Ok(Place::Http(_))));
        for text in ["", "a", "file://a", "file:///a", "s3://bucket/a", "nfs://host/a"] {
            let error = read(text).unwrap_err();
            assert_eq!(error.field(), Some("source"), "{text}");
        }
        assert!(format_of(Some("vmdk")).is_err() && format_of(None).unwrap() == "qcow2");
    }
}
