//! Copies of machines. The disks of one that is off are copied by their pool; those of one that runs by
//! QEMU, as they are at one moment.

use std::time::{Duration, Instant};

use sutler_provider::{Accepted, CloneRequest, CreateRequest, Error, Power, Result};
use uuid::Uuid;
use virt::connect::Connect;

use crate::{
    create::{self, From, Live, Part, Parts},
    fault::Done,
    find,
    host::Libvirt,
    names, plan, raw, remove,
    settings::Settings,
    show, storage,
    storage::Pool,
    volume::{GIB, NewVolume},
    xml::element,
};

/// How long copying the disks of a machine that runs may take.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// Copies a machine.
pub(crate) async fn copy(host: &Libvirt, request: CloneRequest) -> Result<Accepted> {
    plan::admit(&request.target)?;
    if request.linked {
        return Err(Error::unsupported("copies share no disks with their sources here"));
    }
    if request.snapshot.is_some() {
        let why = "a copy is made of what a machine is now, and not of a snapshot";
        return Err(Error::unsupported(why).at("spec.source.snapshotRef"));
    }
    // The name comes with the target, and with it the rest of what a first boot is told.
    if let Some(other) = request.customize.keys().find(|key| *key != "hostname") {
        let why = "what else changes in a guest is for its first-boot data";
        return Err(Error::unsupported(why).at(format!("spec.customization.{other}")));
    }
    let source = Uuid::parse_str(&request.source.0)
        .map_err(|_| Error::not_found(format!("there is no machine {}", request.source)))?;
    let settings = host.0.settings.clone();
    create::make(host, request.target, move |connect, target, uuid| {
        parts(connect, source, target, uuid, &settings)
    })
    .await
}

fn parts(
    connect: &Connect,
    source: Uuid,
    target: &CreateRequest,
    uuid: Uuid,
    settings: &Settings,
) -> Done<Parts> {
    let found = find::by_uuid(connect, source)?;
    let (domain, seen) =
        found.ok_or_else(|| Error::not_found(format!("there is no machine {source}")))?;
    if seen.mark.making.is_some() {
        return Err(Error::conflict(format!("machine {source} is being made")).into());
    }
    let runs = show::power(&domain)? != Power::Off;
    let pool = create::root_pool(target, settings);
    let into = Pool::find(connect, &pool, "placement.datastore")?;
    let mut live = Live { source, disks: Vec::new() };
    let mut disks = Vec::new();
    for (old, device) in show::disks(connect, &domain, &seen)?.iter().zip(&seen.disks) {
        let wanted = target.disks.iter().find(|disk| disk.name == old.name);
        // A kept disk that is asked for by its key is taken as it is; it is no copy.
        if let Some(by_key) = wanted.filter(|disk| disk.kept.is_some()) {
            disks.push(create::data_disk(connect, by_key, uuid, &pool)?);
            continue;
        }
        let size = match old.name.as_str() {
            plan::ROOT => target.class.as_ref().and_then(|class| class.root_gib),
            _ => wanted.map(|disk| disk.size_gib),
        };
        let bytes = old.size_gib.max(size.unwrap_or_default()) * GIB;
        let path = old.path.clone().ok_or_else(|| {
            Error::unsupported(format!("disk {} is no file, and cannot be copied", old.name))
        })?;
        let name = names::disk(uuid, &old.name, "qcow2")?;
        let new = into.path_of(&name);
        if runs {
            live.disks.push((device.device.clone(), new.clone()));
        }
        disks.push(Part {
            name: old.name.clone(),
            pool: pool.clone(),
            path: new,
            volume: NewVolume {
                name,
                format: "qcow2".to_owned(),
                bytes,
                thick: false,
                backing: None,
            },
            from: if runs { From::Itself } else { From::Copy(path) },
            kept: None,
        });
    }
    for disk in &target.disks {
        if disks.iter().all(|part| part.name != disk.name) {
            disks.push(create::data_disk(connect, disk, uuid, &pool)?);
        }
    }
    Ok(Parts { disks, pool, live: runs.then_some(live) })
}

/// Copies the disks of a machine that runs, and waits until that is done.
pub(crate) fn copy_live(connect: &Connect, live: &Live) -> Done {
    let found = find::by_uuid(connect, live.source)?;
    let (domain, seen) = found.ok_or_else(|| remove::gone(live.source))?;
    let copied = |device: &str| live.disks.iter().find(|(name, _)| name == device);
    let disks = seen.disks.iter().map(|disk| match copied(&disk.device) {
        Some((device, path)) => element("disk")
            .with("name", device)
            .with("backup", "yes")
            .with("type", "file")
            .child(element("driver").with("type", "qcow2"))
            .child(element("target").with("file", path)),
        None => element("disk").with("name", &disk.device).with("backup", "no"),
    });
    let xml = element("domainbackup").with("mode", "push").child(element("disks").children(disks));
    raw::begin_backup(&domain, &xml.to_string())?;
    let end = Instant::now() + PATIENCE;
    while raw::is_backed_up(&domain)? {
        if Instant::now() > end {
            return Err(Error::failed("the copy of the disks does not end").into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // QEMU lets go of the copies a moment later; this is answered after that.
    domain.job_info()?;
    for (_, path) in &live.disks {
        if storage::at_path_or_new(connect, path)?.is_none() {
            let why = format!("QEMU has not copied a disk to {path}");
            return Err(Error::failed(why).into());
        }
    }
    Ok(())
}
