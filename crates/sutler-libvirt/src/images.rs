//! Images: brought to a pool once, and removed when no machine's disk is built upon them.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sutler_provider::{
    Error, ErrorKind, Image, PrepareRequest, Prepared, Result, Started, Template,
};
use virt::connect::Connect;

use crate::{
    download::{self, Wanted},
    fault::Done,
    find,
    host::Libvirt,
    names, qcow2,
    storage::{self, Pool},
    tasks::Progress,
    transfer,
    volume::{NewVolume, Volume},
};

/// A volume says in a few bytes that the one beside it is whole.
const WHOLE: &[u8] = b"whole\n";
const POOL: &str = "spec.source.libvirt.storagePool";

/// Brings an image to its pool, or says that it is there.
pub(crate) async fn prepare(host: &Libvirt, mut request: PrepareRequest) -> Result<Prepared> {
    let name = names::image(&request.target)?;
    let format = wishes(&request)?;
    if !request.verify {
        request.image.checksum = None;
    }
    let pool = pool_of(&request, &host.0.settings.pool);
    if let Some(found) = there_before(host, &request.image, &pool).await? {
        return Ok(found);
    }
    let source = source(host, &request.image)?;
    if !request.force
        && let Some(found) = brought(host, &pool, &name).await?
    {
        return Ok(found);
    }
    let (id, bringer) = (format!("{pool}/{name}"), host.clone());
    let told = id.clone();
    let task = host.0.tasks.begin(&format!("image/{id}"), move |progress| async move {
        let _turn = bringer.0.locks.take(name.clone()).await;
        if request.force || brought(&bringer, &pool, &name).await?.is_none() {
            let place = Place { pool, name, format };
            bring(&bringer, &request, &source, place, &progress).await?;
        }
        Ok(Some(told))
    });
    Ok(Prepared { id: Some(id), path: None, task: Some(task), size_bytes: None })
}

/// Refuses what is not done to images here, and gives the format that one is to have.
fn wishes(request: &PrepareRequest) -> Result<Option<&'static str>> {
    if let Some((_, how)) = request.image.checksum.as_ref().filter(|_| request.verify) {
        download::known_checksum(how)?;
    }
    let format = request.image.format.as_deref();
    known_format(format, "spec.source.libvirt.format")?;
    let at = |path: &str| {
        let mut keys = path.split('.');
        let first = request.options.get(keys.next().unwrap_or_default());
        keys.fold(first, |value, key| value?.get(key))
    };
    for (path, usual) in [
        ("storage.compression", "false"),
        ("storage.libvirt.allocationPolicy", "lazy"),
        ("storage.libvirt.preallocation", "off"),
        ("optimization.enableCompression", "false"),
        ("optimization.removeUnusedSpace", "false"),
        ("optimization.enableDeltaSync", "false"),
    ] {
        let said = at(path).map(|value| value.as_str().map_or(value.to_string(), str::to_owned));
        if said.is_some_and(|said| said != usual && said != "null") {
            let why = format!("images are stored here as they come: leave it out, or {usual}");
            return Err(Error::unsupported(why).at(format!("spec.prepare.{path}")));
        }
    }
    let mut wanted = None;
    for path in ["storage.preferredFormat", "optimization.convertFormat"] {
        let format = at(path).and_then(Value::as_str);
        wanted = wanted.or(known_format(format, &format!("spec.prepare.{path}"))?);
    }
    Ok(wanted)
}

fn known_format(format: Option<&str>, field: &str) -> Result<Option<&'static str>> {
    let Some(format) = format else { return Ok(None) };
    let known = transfer::FORMATS.into_iter().find(|known| *known == format);
    let why = || format!("images here are {}, and not {format}", transfer::FORMATS.join(" or "));
    known.map(Some).ok_or_else(|| Error::unsupported(why()).at(field))
}

/// Where an image goes.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) pool: String,
    pub(crate) name: String,
    /// The format that it is to have there; its own when absent.
    pub(crate) format: Option<&'static str>,
}

/// Where an image comes from.
enum Source {
    Url(String),
    File(PathBuf),
}

fn source(host: &Libvirt, image: &Image) -> Result<Source> {
    if let Some(url) = &image.url {
        return Ok(Source::Url(url.clone()));
    }
    let Some(path) = &image.path else {
        let name = image.template.as_ref().unwrap_or(&image.name);
        let why = format!("there is no volume {name:?}, and no path or url to bring it from");
        return Err(Error::not_found(why).at("spec.source.libvirt"));
    };
    let field = "spec.source.libvirt.path";
    if !host.0.link.endpoint().is_local() {
        let why = format!("{path} is in no storage pool of the host that runs");
        return Err(Error::not_found(why).at(field));
    }
    host.0.settings.file(Path::new(path), field).map(Source::File)
}

fn pool_of(request: &PrepareRequest, default: &str) -> String {
    let option = request.options.get("storage").or(Some(&Value::Null));
    let option = option.and_then(|storage| storage.get("libvirt")?.get("storagePool")?.as_str());
    let named = option.map(str::to_owned).or_else(|| request.image.storage.clone());
    named.unwrap_or_else(|| default.to_owned())
}

/// An image that somebody else put there is used as it is.
async fn there_before(host: &Libvirt, image: &Image, pool: &str) -> Result<Option<Prepared>> {
    let (image, pool) = (image.clone(), pool.to_owned());
    host.0
        .link
        .look(move |connect| {
            let pool = Pool::find(connect, &pool, POOL)?;
            let found = match (&image.template, &image.path, &image.url) {
                (Some(name), ..) => pool.volume(name)?,
                (None, Some(path), _) => storage::at_path(connect, path)?,
                (None, None, Some(_)) => None,
                (None, None, None) => pool.volume(&image.name)?,
            };
            let Some(volume) = found else { return Ok(None) };
            let its_pool = volume.lookup_storage_pool()?.name()?;
            let volume = storage::describe(&volume)?;
            Ok(Some(prepared(&its_pool, &volume)))
        })
        .await
}

fn prepared(pool: &str, volume: &Volume) -> Prepared {
    Prepared {
        id: Some(format!("{pool}/{}", volume.name)),
        path: Some(volume.path.clone()),
        task: None,
        size_bytes: Some(volume.bytes),
    }
}

/// An image that was brought here, whole.
pub(crate) async fn brought(host: &Libvirt, pool: &str, name: &str) -> Result<Option<Prepared>> {
    let (pool, name) = (pool.to_owned(), name.to_owned());
    host.0
        .link
        .look(move |connect| {
            let pool = Pool::find(connect, &pool, POOL)?;
            if pool.volume(&names::image_whole(&name))?.is_none() {
                return Ok(None);
            }
            let Some(volume) = pool.volume(&name)? else { return Ok(None) };
            Ok(Some(prepared(&pool.name, &storage::describe(&volume)?)))
        })
        .await
}

async fn bring(
    host: &Libvirt,
    request: &PrepareRequest,
    source: &Source,
    place: Place,
    progress: &Progress,
) -> Result<()> {
    let checksum = request.image.checksum.as_ref().map(|(sum, how)| (sum.as_str(), how.as_str()));
    let file = match source {
        Source::File(path) => {
            progress.say(Some(10), "checking");
            let (path_, sum) = (path.clone(), request.image.checksum.clone());
            let check = tokio::task::spawn_blocking(move || {
                let sum = sum.as_ref().map(|(sum, how)| (sum.as_str(), how.as_str()));
                download::verify(&path_, sum)
            });
            check.await.map_err(|panic| Error::internal(format!("checking failed: {panic}")))??;
            path.clone()
        }
        Source::Url(url) => {
            let wanted = Wanted {
                url,
                checksum,
                headers: headers(&request.image),
                credentials: &request.credentials,
                folder: &host.0.downloads,
            };
            download::fetch(&wanted, progress).await?
        }
    };
    let fetched = matches!(source, Source::Url(_)).then(|| file.clone());
    let format = request.image.format.clone();
    let told = progress.clone();
    let stored =
        host.0.link.long(move |connect| store(connect, &file, format.as_deref(), &place, &told));
    let stored = stored.await;
    // What cannot be used is not kept for another try; what was stored need not be.
    let keep = matches!(&stored, Err(error) if error.kind() != ErrorKind::Failed);
    if let Some(file) = fetched.filter(|_| !keep) {
        drop(std::fs::remove_file(file));
    }
    stored
}

fn headers(image: &Image) -> Vec<(String, String)> {
    let headers = image.source.values().find_map(|source| source.get("headers")?.as_object());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let pairs = headers.into_iter().flatten();
    pairs.filter_map(|(name, value)| Some((name.clone(), text(value)?))).collect()
}

/// Puts a file into a pool. Only when all of it is there does the volume beside it say so.
pub(crate) fn store(
    connect: &Connect,
    path: &Path,
    format: Option<&str>,
    place: &Place,
    progress: &Progress,
) -> Done {
    let unreadable =
        |error: std::io::Error| Error::failed(format!("the image cannot be read: {error}"));
    let mut file = File::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let mut head = vec![0; qcow2::HEAD.min(usize::try_from(length).unwrap_or(qcow2::HEAD))];
    file.read_exact(&mut head).map_err(unreadable)?;
    let kind = qcow2::read(&head, length, format)?;
    if length == 0 {
        return Err(Error::failed("the image is empty").into());
    }
    let Place { pool, name, format } = place;
    let into = Pool::find(connect, pool, POOL)?;
    let free = into.pool.info()?.available;
    if free < length {
        let why =
            format!("the image takes {} MiB, and pool {pool:?} has {}", length >> 20, free >> 20);
        return Err(Error::new(ErrorKind::Exhausted, why).into());
    }
    let arriving = names::image_arriving(name);
    for old in [&names::image_whole(name), name, &arriving] {
        into.remove(old)?;
    }
    let other = format.filter(|format| *format != kind.format);
    let new = NewVolume {
        name: if other.is_some() { arriving.clone() } else { name.clone() },
        format: kind.format.to_owned(),
        bytes: kind.bytes.unwrap_or(length),
        thick: false,
        backing: None,
    };
    let mut first = head.as_slice();
    let read = |buffer: &mut [u8]| match first.is_empty() {
        false => first.read(buffer),
        true => file.read(buffer),
    };
    let say = |done: u64| {
        let percent = 60 + u8::try_from(done * 39 / length).unwrap_or(39);
        progress.say(Some(percent), format!("stored {} of {} MiB", done >> 20, length >> 20));
    };
    let stored = into.make(&new).and_then(|volume| {
        storage::upload(connect, &volume, length, read, say)?;
        if let Some(format) = other {
            progress.say(Some(99), format!("making it {format}"));
            into.copy(
                &NewVolume { name: name.clone(), format: format.to_owned(), ..new },
                &volume,
            )?;
            into.remove(&arriving)?;
        }
        Ok(())
    });
    if let Err(fault) = stored {
        drop(into.remove(&arriving));
        drop(into.remove(name));
        return Err(fault);
    }
    crate::create::write_small(connect, pool, &names::image_whole(name), WHOLE)
}

/// Removes an image that was brought here, unless a disk is built upon it.
pub(crate) async fn remove(host: &Libvirt, target: &str) -> Result<Started> {
    let name = names::image(target)?;
    let remover = host.clone();
    host.carry(async move {
        let _turn = remover.0.locks.take(name.clone()).await;
        remover.0.link.change(move |connect| remove_everywhere(connect, &name)).await
    })
    .await?;
    Ok(Started::default())
}

fn remove_everywhere(connect: &Connect, name: &str) -> Done {
    loop {
        let pools = Pool::all(connect)?;
        let removed = remove_from(connect, &pools, name);
        // One that was stopped meanwhile is looked at as such.
        if removed.is_ok() || !Pool::were_stopped(&pools)? {
            return removed;
        }
    }
}

fn remove_from(connect: &Connect, pools: &[Pool], name: &str) -> Done {
    // What is built upon it where nobody sees it would be lost.
    let stopped = storage::stopped(connect)?;
    if !stopped.is_empty() {
        for (_, seen) in find::all(connect)? {
            let paths = seen.disks.iter().filter_map(|disk| disk.path.as_ref());
            if let Some(pool) = paths.filter_map(|path| storage::pool_at(&stopped, path)).next() {
                let why = format!(
                    "storage pool {pool:?}, which has a disk of {:?}, is not started: whether that is \
                     built upon the image cannot be seen",
                    seen.name
                );
                return Err(Error::unavailable(why).into());
            }
        }
    }
    for pool in pools {
        pool.remove(&names::image_arriving(name))?;
        let Some(volume) = pool.volume(name)? else {
            pool.remove(&names::image_whole(name))?;
            continue;
        };
        let path = storage::describe(&volume)?.path;
        if let Some(user) = built_upon(pools, &path)? {
            let why = format!("image {name:?} is in use: disk {user:?} is built upon it");
            return Err(Error::conflict(why).into());
        }
        pool.remove(&names::image_whole(name))?;
        pool.remove(name)?;
    }
    Ok(())
}

/// A volume that is an overlay of the one at this path.
fn built_upon(pools: &[Pool], path: &str) -> Done<Option<String>> {
    for pool in pools {
        for volume in storage::describe_all(pool)? {
            if volume.backing.as_deref() == Some(path) {
                return Ok(Some(volume.name));
            }
        }
    }
    Ok(None)
}

impl Libvirt {
    /// Volumes that machines can be made from: those of the default pool that are not ours, or are
    /// images that were brought here.
    pub(crate) async fn templates(&self) -> Result<Vec<Template>> {
        let pool = self.0.settings.pool.clone();
        self.0
            .link
            .look(move |connect| {
                let pool = Pool::find(connect, &pool, "spec.options.pool")?;
                let mut all = Vec::new();
                for volume in storage::describe_all(&pool)? {
                    let disk = ["qcow2", "raw"].contains(&volume.format.as_str());
                    if !disk || names::is_ours(&volume.name) || volume.name.ends_with(".iso") {
                        continue;
                    }
                    all.push(Template {
                        id: format!("{}/{}", pool.name, volume.name),
                        size_gib: Some(volume.gib()),
                        name: volume.name,
                        ..Template::default()
                    });
                }
                Ok(all)
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(options: Value) -> PrepareRequest {
        let options = options.as_object().cloned().unwrap_or_default();
        PrepareRequest { options, verify: true, ..PrepareRequest::default() }
    }

    #[test]
    fn what_is_asked_of_images_is_done_or_refused_by_name() {
        let formats = json!({"storage": {"preferredFormat": "raw", "compression": false,
            "libvirt": {"storagePool": "fast", "allocationPolicy": "lazy", "preallocation": "off"},
            "vsphere": {"datastore": "elsewhere"}}});
        assert_eq!(wishes(&request(formats)).unwrap(), Some("raw"));
        assert_eq!(wishes(&request(json!({}))).unwrap(), None);
        for (options, field) in [
            (json!({"storage": {"preferredFormat": "vmdk"}}), "storage.preferredFormat"),
            (json!({"storage": {"compression": true}}), "storage.compression"),
            (
                json!({"storage": {"libvirt": {"allocationPolicy": "eager"}}}),
                "storage.libvirt.allocationPolicy",
            ),
            (
                json!({"storage": {"libvirt": {"preallocation": "full"}}}),
                "storage.libvirt.preallocation",
            ),
            (json!({"optimization": {"convertFormat": "vhd"}}), "optimization.convertFormat"),
            (json!({"optimization": {"enableDeltaSync": true}}), "optimization.enableDeltaSync"),
        ] {
            let error = wishes(&request(options)).unwrap_err();
            assert_eq!(error.field(), Some(format!("spec.prepare.{field}").as_str()), "{error}");
        }
        let image = Image { format: Some("vmdk".to_owned()), ..Image::default() };
        let error = wishes(&PrepareRequest { image, ..request(json!({})) }).unwrap_err();
        assert_eq!(error.field(), Some("spec.source.libvirt.format"));
        let checksum = Some(("00".to_owned(), "md5".to_owned()));
        let image = Image { checksum, ..Image::default() };
        let md5 = PrepareRequest { image, ..request(json!({})) };
        let error = wishes(&md5).unwrap_err();
        assert_eq!(error.field(), Some("spec.source.checksumType"));
        wishes(&PrepareRequest { verify: false, ..md5 }).unwrap();
    }
}
