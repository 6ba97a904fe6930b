//! Making machines.
//!
//! The domain comes first, marked as being made, so that whatever is made for it can be found and removed
//! by anybody; then its volumes, whose names say whose they are; then the mark is taken off and it is
//! started. A machine whose maker died is removed by whoever sees it next.

use sutler_provider::{
    Accepted, CreateRequest, Disk, DiskKey, Error, ErrorKind, Image, MachineId, Result,
};
use uuid::Uuid;
use virt::{connect::Connect, storage_vol::StorageVol};

use crate::{
    copies,
    domain::{Domain, Seen},
    fault::{Done, Fault, unless},
    find,
    host::{Driver, Libvirt},
    kept, mark, names,
    plan::{self, DiskPlan, Ground, ROOT},
    remove, seed,
    settings::Settings,
    storage::{self, Pool},
    tasks::Progress,
    volume::{GIB, NewVolume, Volume},
};

/// The size of a root disk that is made from nothing.
const BLANK_GIB: u64 = 10;

/// What a machine is made of, once the host was asked.
pub(crate) struct Parts {
    /// The root disk first.
    pub(crate) disks: Vec<Part>,
    /// The pool of what the first boot is given.
    pub(crate) pool: String,
    /// A machine that runs, whose disks are copied to these paths before anything else.
    pub(crate) live: Option<Live>,
}

/// A disk.
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) pool: String,
    pub(crate) path: String,
    pub(crate) volume: NewVolume,
    pub(crate) from: From,
    pub(crate) kept: Option<DiskKey>,
}

/// What a disk is made from.
pub(crate) enum From {
    Nothing,
    /// It shares the disk of an image.
    Overlay,
    /// It is a copy of the volume at this path.
    Copy(String),
    /// It is there, or will be by the time it is its turn.
    Itself,
}

/// Disks of a machine that runs, by their devices, and where each is copied to.
pub(crate) struct Live {
    pub(crate) source: Uuid,
    pub(crate) disks: Vec<(String, String)>,
}

/// Makes a machine, or finds it.
pub(crate) async fn create(host: &Libvirt, request: CreateRequest) -> Result<Accepted> {
    plan::admit(&request)?;
    let settings = host.0.settings.clone();
    make(host, request, move |connect, request, uuid| parts(connect, request, uuid, &settings))
        .await
}

/// Makes a machine of the parts that `parts` finds on the host.
pub(crate) async fn make(
    host: &Libvirt,
    request: CreateRequest,
    parts: impl FnOnce(&Connect, &CreateRequest, Uuid) -> Done<Parts> + Send + 'static,
) -> Result<Accepted> {
    let uuid = mark::uuid_of(&request.owner);
    let id = MachineId(uuid.to_string());
    let what = work_name(uuid);
    if let Some(task) = host.0.tasks.at_work(&what) {
        return Ok(Accepted { id: Some(id), task: Some(task) });
    }
    let turn = host.0.locks.take(uuid.to_string()).await;
    if found(host, &request, uuid).await? {
        return Ok(Accepted { id: Some(id), task: None });
    }
    let facts = host.facts().await?;
    plan::fits(&request, &facts.name, &facts.limits)?;
    let accel = host.accel().await?;
    let first_boot = facts.driver == Driver::Qemu;
    let (settings, facts) = (host.0.settings.clone(), facts.clone());
    let making = host.making();
    // Until the domain that has them is there for others to see.
    let turns = host.turns(&request.disks).await?;
    let asked = request.clone();
    let (domain, parts) = host
        .0
        .link
        .change(move |connect| {
            networks(connect, &asked, uuid, &settings)?;
            let parts = parts(connect, &asked, uuid)?;
            let pool = Pool::find(connect, &parts.pool, "placement.datastore")?;
            let ignition = first_boot && asked.ignition;
            let seed = first_boot && !asked.ignition;
            let ground = Ground {
                uuid,
                accel,
                arch: settings.architecture.as_deref().unwrap_or(&facts.arch),
                settings: &settings,
                limits: &facts.limits,
                disks: parts.all(),
                seed: seed.then(|| pool.path_of(&names::seed(uuid))),
                ignition: ignition.then(|| pool.path_of(&names::ignition(uuid))),
                making,
            };
            let domain = plan::domain(&asked, ground);
            connect.define_domain_xml(&domain.write().to_string())?;
            Ok((domain, parts))
        })
        .await?;
    drop(turns);
    let (maker, name) = (host.clone(), id.0.clone());
    let task = host.0.tasks.begin(&what, move |progress| async move {
        let _turn = turn;
        let made = fill(&maker, &request, domain, parts, &progress).await;
        match made {
            Ok(()) => Ok(Some(name)),
            Err(error) => Err(undo(&maker, uuid, error).await),
        }
    });
    Ok(Accepted { id: Some(id), task: Some(task) })
}

/// The name of the work that makes a machine.
pub(crate) fn work_name(uuid: Uuid) -> String {
    format!("create/{uuid}")
}

/// Whether the machine of a request is there. What somebody left half made is removed first.
async fn found(host: &Libvirt, request: &CreateRequest, uuid: Uuid) -> Result<bool> {
    let seen = host.0.link.look(move |connect| find::by_uuid(connect, uuid)).await?;
    let Some((_, seen)) = seen else { return Ok(false) };
    if !seen.mark.belongs_to(&request.owner) {
        let why =
            format!("machine {uuid} was made for this request, and is not its owner's any more");
        return Err(Error::conflict(why));
    }
    if host.is_left(&seen) {
        remove::all(host, uuid).await?;
        return Ok(false);
    }
    Ok(true)
}

impl Libvirt {
    /// Whether a machine is half made, and nobody is at it.
    fn is_left(&self, seen: &Seen) -> bool {
        let Some(making) = &seen.mark.making else { return false };
        let ours = making.by == self.0.maker.write();
        ours || self.0.maker.is_gone(making, self.now())
    }

    /// Removes a machine that was left half made.
    pub(crate) fn look_after(&self, seen: &Seen) {
        let Ok(uuid) = Uuid::parse_str(&seen.uuid) else { return };
        if !self.is_left(seen) || self.0.tasks.at_work(&work_name(uuid)).is_some() {
            return;
        }
        let host = self.clone();
        self.0.tasks.begin(&format!("clean/{uuid}"), move |_| async move {
            let _turn = host.0.locks.take(uuid.to_string()).await;
            let seen = host.0.link.look(move |connect| find::by_uuid(connect, uuid)).await?;
            // It may have been made anew, or been removed, while this waited.
            if let Some((_, seen)) = seen
                && host.is_left(&seen)
            {
                tracing::info!(machine = %uuid, "removing what was left half made");
                remove::all(&host, uuid).await?;
            }
            Ok(None)
        });
    }
}

impl Parts {
    fn all(&self) -> Vec<DiskPlan> {
        let plan = |disk: &Part| DiskPlan {
            name: disk.name.clone(),
            path: disk.path.clone(),
            format: disk.volume.format.clone(),
            kept: disk.kept.clone(),
        };
        self.disks.iter().map(plan).collect()
    }
}

/// Networks have to be there before anything is made.
fn networks(connect: &Connect, request: &CreateRequest, uuid: Uuid, settings: &Settings) -> Done {
    for nic in plan::cards_of(request) {
        let crate::domain::Source::Network(name) = plan::card(uuid, &nic, settings).source else {
            continue;
        };
        let field = format!("spec.networks[{}]", nic.name);
        let network = connect.lookup_network_by_name(&name).map_err(|error| {
            Fault::from(error).into_invalid(&field, format!("there is no network {name:?}"))
        })?;
        if !network.is_active()? {
            let why = format!("network {name:?} is not started");
            return Err(Error::unavailable(why).at(field).into());
        }
    }
    Ok(())
}

/// What a request's machine is made of.
fn parts(
    connect: &Connect,
    request: &CreateRequest,
    uuid: Uuid,
    settings: &Settings,
) -> Done<Parts> {
    let pool = root_pool(request, settings);
    let mut disks = vec![root(connect, request, uuid, &pool)?];
    for disk in &request.disks {
        disks.push(data_disk(connect, disk, uuid, &pool)?);
    }
    Ok(Parts { disks, pool, live: None })
}

/// The pool of a request's root disk.
pub(crate) fn root_pool(request: &CreateRequest, settings: &Settings) -> String {
    let class = request.class.as_ref().and_then(|class| class.storage.clone());
    class.or_else(|| request.placement.datastore.clone()).unwrap_or_else(|| settings.pool.clone())
}

/// The format of disks of this type, and whether their space is taken at once.
fn kind_of(type_: Option<&str>, disk: &str) -> Result<(&'static str, bool)> {
    match type_.unwrap_or_default() {
        "raw" => Ok(("raw", false)),
        "thick" | "eagerzeroedthick" => Ok(("qcow2", true)),
        "" | "thin" => Ok(("qcow2", false)),
        other => {
            let why = format!("disks here are {}, and not {other}", plan::DISK_TYPES.join(", "));
            Err(Error::unsupported(why).at(format!("spec.disks[{disk}].type")))
        }
    }
}

fn root(connect: &Connect, request: &CreateRequest, uuid: Uuid, pool: &str) -> Done<Part> {
    let class = request.class.as_ref();
    let wanted = class.and_then(|class| class.root_gib).map(|gib| gib * GIB);
    let (format, thick) = kind_of(class.and_then(|class| class.disk_type.as_deref()), ROOT)?;
    let into = Pool::find(connect, pool, "placement.datastore")?;
    let part = |format: &str, bytes, backing, from| -> Done<Part> {
        let name = names::disk(uuid, ROOT, format)?;
        Ok(Part {
            name: ROOT.to_owned(),
            pool: pool.to_owned(),
            path: into.path_of(&name),
            volume: NewVolume { name, format: format.to_owned(), bytes, thick, backing },
            from,
            kept: None,
        })
    };
    let Some(image) = &request.image else {
        return part(format, wanted.unwrap_or(BLANK_GIB * GIB), None, From::Nothing);
    };
    let found = image_volume(connect, image, pool)?;
    let found = storage::describe(&found)?;
    let bytes = wanted.unwrap_or(found.bytes);
    if bytes < found.bytes {
        let why = format!("the image needs {} GiB", found.gib());
        return Err(Error::invalid("spec.disks[root].sizeGiB", why).into());
    }
    if image.take_over {
        let Volume { name, path, format, .. } = found;
        return Ok(Part {
            name: ROOT.to_owned(),
            pool: pool.to_owned(),
            path,
            volume: NewVolume { name, format, bytes, thick: false, backing: None },
            from: From::Itself,
            kept: None,
        });
    }
    // What was brought here is not taken away while a disk is built upon it.
    let shared = image.linked || names::is_ours(&found.name);
    if shared && format == "qcow2" && !thick {
        return part("qcow2", bytes, Some((found.path, found.format)), From::Overlay);
    }
    part(format, bytes, None, From::Copy(found.path))
}

/// The volume of an image: prepared, or there before.
fn image_volume(connect: &Connect, image: &Image, pool: &str) -> Done<StorageVol> {
    let field = "spec.imageRef";
    let missing =
        |what: &str| Fault::from(Error::not_found(format!("there is no {what}")).at(field));
    if let Some((pool, volume)) = image.id.as_deref().and_then(|id| id.split_once('/'))
        && !pool.is_empty()
    {
        let found = Pool::find(connect, pool, field)?.volume(volume)?;
        return found.ok_or_else(|| missing(&format!("volume {volume:?} in pool {pool:?}")));
    }
    for path in [&image.path, &image.id].into_iter().flatten() {
        if let Some(volume) = storage::at_path(connect, path)? {
            return Ok(volume);
        }
    }
    let named = [&image.template, &image.id].into_iter().flatten().next();
    let name = match (named, &image.path, &image.url) {
        (Some(name), ..) => name.clone(),
        (None, Some(path), _) => return Err(missing(&format!("volume at {path}"))),
        (None, None, Some(url)) => {
            let why = format!("{url} was not brought here: an image is prepared first");
            return Err(Error::invalid(field, why).into());
        }
        (None, None, None) => image.name.clone(),
    };
    let pool = image.storage.as_deref().unwrap_or(pool);
    let found = Pool::find(connect, pool, field)?.volume(&name)?;
    found.ok_or_else(|| missing(&format!("image {name:?} in pool {pool:?}")))
}

/// A disk besides the root disk, which is made, or is there if it outlives its machines.
pub(crate) fn data_disk(connect: &Connect, disk: &Disk, uuid: Uuid, pool: &str) -> Done<Part> {
    let pool = disk.storage.clone().unwrap_or_else(|| pool.to_owned());
    let field = format!("spec.disks[{}].storageClass", disk.name);
    let into = Pool::find(connect, &pool, &field)?;
    let (format, thick) = kind_of(Some(&disk.type_), &disk.name)?;
    let bytes = disk.size_gib * GIB;
    if let Some(key) = &disk.kept {
        return kept::take(connect, disk, key, &into, uuid);
    }
    let name = names::disk(uuid, &disk.name, format)?;
    Ok(Part {
        name: disk.name.clone(),
        path: into.path_of(&name),
        volume: NewVolume { name, format: format.to_owned(), bytes, thick, backing: None },
        pool,
        from: From::Nothing,
        kept: None,
    })
}

/// Makes a machine's volumes, takes the mark off, and starts it.
async fn fill(
    host: &Libvirt,
    request: &CreateRequest,
    domain: Domain,
    parts: Parts,
    progress: &Progress,
) -> Result<()> {
    let link = &host.0.link;
    let Parts { disks, pool, live } = parts;
    let uuid = domain.uuid;
    if let Some((name, contents)) = first_boot(&domain, request)? {
        progress.say(Some(5), "writing what the first boot is given");
        let pool = pool.clone();
        let write = move |connect: &Connect| write_small(connect, &pool, &name, &contents);
        link.change_in_task(write).await?;
    }
    if let Some(live) = live {
        progress.say(Some(10), "copying the disks of a machine that runs");
        // Nobody removes or switches it meanwhile: libvirt 9 dies of a machine that ends while its disks
        // are copied.
        let _turn = host.0.locks.take(live.source.to_string()).await;
        link.long(move |connect| copies::copy_live(connect, &live)).await?;
    }
    let count = disks.len();
    for (index, disk) in disks.into_iter().enumerate() {
        let percent = 10 + u8::try_from(index * 80 / count).unwrap_or_default();
        progress.say(Some(percent), format!("making disk {}", disk.name));
        link.long(move |connect| make_disk(connect, &disk)).await?;
    }
    progress.say(Some(90), "starting");
    let (now, on) = (host.now(), request.power_on);
    link.change_in_task(move |connect| {
        let (domain, seen) = find::by_uuid(connect, uuid)?
            .ok_or_else(|| Error::failed("the machine was removed while it was made"))?;
        if on {
            unless(domain.create(), &[ErrorKind::Conflict])?;
        }
        let mark = mark::Mark { making: None, made_at: Some(now), ..seen.mark };
        find::note(&domain, &mark)
    })
    .await
}

/// The volume that the first boot is given, with its name.
fn first_boot(domain: &Domain, request: &CreateRequest) -> Result<Option<(String, Vec<u8>)>> {
    if domain.ignition.is_some() {
        let contents = request.user_data.clone().unwrap_or_else(|| b"{}".to_vec());
        return Ok(Some((names::ignition(domain.uuid), contents)));
    }
    if domain.seed.is_none() {
        return Ok(None);
    }
    let macs: Vec<String> = domain.nics.iter().map(|nic| nic.mac.clone()).collect();
    let contents = seed::volume(domain.uuid, request, &macs)?;
    Ok(Some((names::seed(domain.uuid), contents)))
}

/// Writes a small volume, over one that is there.
pub(crate) fn write_small(connect: &Connect, pool: &str, name: &str, contents: &[u8]) -> Done {
    let pool = Pool::find(connect, pool, "placement.datastore")?;
    pool.remove(name)?;
    let length = contents.len() as u64;
    let volume = pool.make(&NewVolume {
        name: name.to_owned(),
        format: "raw".to_owned(),
        bytes: length,
        thick: false,
        backing: None,
    })?;
    let mut rest = contents;
    storage::upload(
        connect,
        &volume,
        length,
        |buffer| std::io::Read::read(&mut rest, buffer),
        |_| (),
    )
}

/// Makes a disk. One that outlives its machines may be there, and grows then.
pub(crate) fn make_disk(connect: &Connect, disk: &Part) -> Done {
    let pool = Pool::find(connect, &disk.pool, "placement.datastore")?;
    match &disk.from {
        From::Nothing | From::Overlay => {
            match disk.kept.as_ref().and(pool.volume(&disk.volume.name)?) {
                Some(volume) => grow(&volume, disk.volume.bytes),
                None => pool.make(&disk.volume).map(drop),
            }
        }
        From::Copy(path) => {
            let from = storage::at_path(connect, path)?
                .ok_or_else(|| Error::not_found(format!("the disk at {path} is gone")))?;
            pool.copy(&disk.volume, &from).map(drop)
        }
        From::Itself => {
            let volume = storage::at_path(connect, &disk.path)?
                .ok_or_else(|| Error::not_found(format!("the disk at {} is gone", disk.path)))?;
            // Of a disk that was brought here, nobody need know any more that it came whole.
            pool.remove(&names::image_whole(&disk.volume.name))?;
            grow(&volume, disk.volume.bytes)
        }
    }
}

/// Makes a volume larger, if it is smaller.
pub(crate) fn grow(volume: &StorageVol, bytes: u64) -> Done {
    let Volume { bytes: now, .. } = storage::describe(volume)?;
    if now < bytes {
        volume.resize(bytes, 0)?;
    }
    Ok(())
}

/// Removes what was made of a machine, and says why it came to that.
async fn undo(host: &Libvirt, uuid: Uuid, error: Error) -> Error {
    match remove::all(host, uuid).await {
        Ok(()) => error,
        Err(left) => {
            let why = format!("{}; what was made of it is still there: {left}", error.message());
            Error::new(error.kind(), why)
        }
    }
}
