//! Pools and volumes on a host. These calls block.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use sutler_provider::{Error, ErrorKind};
use virt::{connect::Connect, storage_pool::StoragePool, storage_vol::StorageVol, stream::Stream};

use crate::{
    fault::{Done, Fault, if_there, unless},
    names,
    volume::{NewVolume, Volume},
    xml,
};

/// Pools whose volumes are files in a folder.
const FOLDERS: [&str; 3] = ["dir", "fs", "netfs"];
/// Bytes that are sent or read at once.
const CHUNK: usize = 256 * 1024;
/// How long a pool may be busy before it is refreshed.
const REFRESH: Duration = Duration::from_secs(30);
/// How long a pool may take to notice a volume that was made in it.
const NOTICED: Duration = Duration::from_secs(5);

/// A pool that volumes can be made in.
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) pool: StoragePool,
    /// The folder that its volumes are in.
    pub(crate) path: String,
}

impl Pool {
    /// Finds a pool, which has to run and to be a folder.
    pub(crate) fn find(connect: &Connect, name: &str, field: &str) -> Done<Self> {
        let pool = connect.lookup_storage_pool_by_name(name).map_err(|error| {
            Fault::from(error).into_invalid(field, format!("there is no storage pool {name:?}"))
        })?;
        if !pool.is_active()? {
            let why = format!("storage pool {name:?} is not started");
            return Err(Error::unavailable(why).at(field).into());
        }
        Self::read(name.to_owned(), pool).map_err(|fault| fault.at(field))
    }

    fn read(name: String, pool: StoragePool) -> Done<Self> {
        let xml = pool.xml_desc(0)?;
        let document = xml::parse(&xml)?;
        let root = document.root_element();
        let kind = root.attribute("type").unwrap_or_default();
        if !FOLDERS.contains(&kind) {
            let why = format!(
                "storage pool {name:?} is of type {kind}, and only {} are served",
                FOLDERS.join(", ")
            );
            return Err(Error::unsupported(why).into());
        }
        let path = xml::child(root, "target")
            .and_then(|target| xml::text(target, "path"))
            .map(|path| path.trim_end_matches('/').to_owned())
            .ok_or_else(|| Error::internal(format!("storage pool {name:?} has no path")))?;
        Ok(Self { name, pool, path })
    }

    /// All pools that run and are folders.
    pub(crate) fn all(connect: &Connect) -> Done<Vec<Self>> {
        Self::those(connect, virt_sys::VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)
    }

    fn those(connect: &Connect, flags: u32) -> Done<Vec<Self>> {
        let mut pools = Vec::new();
        for pool in connect.list_all_storage_pools(flags)? {
            match pool.name().map_err(Fault::from).and_then(|name| Self::read(name, pool)) {
                Ok(pool) => pools.push(pool),
                Err(fault) if fault.error.kind() == ErrorKind::Unsupported => {}
                // One that was just removed is not there.
                Err(fault) if fault.error.kind() == ErrorKind::NotFound => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(pools)
    }

    /// Asks all pools that run. One that is stopped while it is asked is one that does not run.
    pub(crate) fn ask_all<T>(
        connect: &Connect,
        mut ask: impl FnMut(&Self) -> Done<T>,
    ) -> Done<Vec<T>> {
        let mut answers = Vec::new();
        for pool in Self::all(connect)? {
            match ask(&pool) {
                Ok(answer) => answers.push(answer),
                Err(_) if pool.was_stopped()? => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(answers)
    }

    /// Whether one of these was stopped since it was found.
    pub(crate) fn were_stopped(pools: &[Self]) -> Done<bool> {
        pools.iter().try_fold(false, |stopped, pool| Ok(stopped || pool.was_stopped()?))
    }

    fn was_stopped(&self) -> Done<bool> {
        Ok(!if_there(self.pool.is_active())?.unwrap_or_default())
    }

    /// Where a volume of this name is, or will be.
    pub(crate) fn path_of(&self, volume: &str) -> String {
        format!("{}/{volume}", self.path)
    }

    /// A volume, if it is there.
    pub(crate) fn volume(&self, name: &str) -> Done<Option<StorageVol>> {
        if_there(self.pool.lookup_storage_vol_by_name(name))
    }

    /// Makes a volume. One of this name is in the way.
    pub(crate) fn make(&self, new: &NewVolume) -> Done<StorageVol> {
        Ok(StorageVol::create_xml(&self.pool, &new.write().to_string(), new.flags())?)
    }

    /// Makes a volume with the contents of another, which may be in another pool.
    pub(crate) fn copy(&self, new: &NewVolume, from: &StorageVol) -> Done<StorageVol> {
        let xml = new.write().to_string();
        let copy = StorageVol::create_xml_from(&self.pool, &xml, from, new.flags())?;
        if copy.info()?.capacity < new.bytes {
            copy.resize(new.bytes, 0)?;
        }
        Ok(copy)
    }

    /// Removes a volume; one that is not there is no error.
    pub(crate) fn remove(&self, name: &str) -> Done {
        match self.volume(name)? {
            Some(volume) => unless(volume.delete(0), &[ErrorKind::NotFound]),
            None => Ok(()),
        }
    }
}

/// What a volume is like.
pub(crate) fn describe(volume: &StorageVol) -> Done<Volume> {
    Ok(Volume::read(&volume.xml_desc(0)?)?)
}

/// What the volumes of a pool are like. Those that go while they are looked at are gone.
pub(crate) fn describe_all(pool: &Pool) -> Done<Vec<Volume>> {
    let mut all = Vec::new();
    for volume in pool.pool.list_all_volumes(0)? {
        if let Some(xml) = if_there(volume.xml_desc(0))? {
            all.push(Volume::read(&xml)?);
        }
    }
    Ok(all)
}

/// The volume at this path, in whatever pool.
pub(crate) fn at_path(connect: &Connect, path: &str) -> Done<Option<StorageVol>> {
    if_there(connect.lookup_storage_vol_by_path(path))
}

/// The volume at this path, also if its pool has not noticed it yet: QEMU makes files by itself.
pub(crate) fn at_path_or_new(connect: &Connect, path: &str) -> Done<Option<StorageVol>> {
    if let Some(volume) = at_path(connect, path)? {
        return Ok(Some(volume));
    }
    refresh(connect, path)?;
    at_path(connect, path)
}

/// Lets the pool of a path look at what is there.
pub(crate) fn refresh(connect: &Connect, path: &str) -> Done {
    let folder = path.rsplit_once('/').map(|(folder, _)| folder).unwrap_or_default();
    let Some(pool) = Pool::all(connect)?.into_iter().find(|pool| pool.path == folder) else {
        return Ok(());
    };
    let end = Instant::now() + REFRESH;
    loop {
        match pool.pool.refresh(0).map_err(Fault::from) {
            // A pool is not refreshed while a volume is being made in it.
            Err(fault)
                if fault.error.message().contains("asynchronous jobs") && Instant::now() < end =>
            {
                std::thread::sleep(Duration::from_millis(100));
            }
            done => return done,
        }
    }
}

/// The pools that do not run, by their folders. What is in them nobody sees.
pub(crate) fn stopped(connect: &Connect) -> Done<BTreeMap<String, String>> {
    let pools = Pool::those(connect, virt_sys::VIR_CONNECT_LIST_STORAGE_POOLS_INACTIVE)?;
    Ok(pools.into_iter().map(|pool| (pool.path, pool.name)).collect())
}

/// Whether a path is in one of these folders, and in which pool.
pub(crate) fn pool_at<'a>(pools: &'a BTreeMap<String, String>, path: &str) -> Option<&'a String> {
    pools.get(path.rsplit_once('/')?.0)
}

/// Removes all volumes whose names begin so, from all pools.
pub(crate) fn remove_all(connect: &Connect, prefix: &str) -> Done {
    let remove = |pool: &Pool| -> Done {
        for name in pool.pool.list_volumes()? {
            if name.starts_with(prefix) && names::is_ours(&name) {
                pool.remove(&name)?;
            }
        }
        Ok(())
    };
    Pool::ask_all(connect, remove).map(drop)
}

/// Begins to fill a volume that was just made. A pool that looks at its folder at the same moment may
/// not know the volume for an instant.
fn begin_upload(connect: &Connect, volume: &StorageVol, length: u64) -> Done<Stream> {
    let end = Instant::now() + NOTICED;
    loop {
        let stream = Stream::new(connect, 0)?;
        match volume.upload(&stream, 0, length, 0).map_err(Fault::from) {
            Ok(()) => return Ok(stream),
            Err(fault) if fault.error.kind() == ErrorKind::NotFound && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(fault) => return Err(fault),
        }
    }
}

/// Fills a volume.
pub(crate) fn upload(
    connect: &Connect,
    volume: &StorageVol,
    length: u64,
    mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>,
    mut sent: impl FnMut(u64),
) -> Done {
    let stream = begin_upload(connect, volume, length)?;
    let mut buffer = vec![0; CHUNK];
    let mut done = 0;
    loop {
        let count = match read(&mut buffer) {
            Ok(count) => count,
            Err(error) => {
                drop(stream.abort());
                return Err(
                    Error::failed(format!("what is uploaded cannot be read: {error}")).into()
                );
            }
        };
        if count == 0 {
            break;
        }
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let taken = stream.send(rest)?;
            let taken = usize::try_from(taken).unwrap_or_default();
            if taken == 0 {
                return Err(Error::unavailable("libvirt takes no more of an upload").into());
            }
            rest = &rest[taken..];
            done += taken as u64;
        }
        sent(done);
    }
    Ok(stream.finish()?)
}

/// Reads a volume to its end.
pub(crate) fn download(
    connect: &Connect,
    volume: &StorageVol,
    mut write: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Done {
    let stream = Stream::new(connect, 0)?;
    volume.download(&stream, 0, 0, 0)?;
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = usize::try_from(stream.recv(&mut buffer)?).unwrap_or_default();
        if count == 0 {
            break;
        }
        if let Err(error) = write(&buffer[..count]) {
            drop(stream.abort());
            return Err(Error::failed(format!("what is downloaded cannot be kept: {error}")).into());
        }
    }
    Ok(stream.finish()?)
}
