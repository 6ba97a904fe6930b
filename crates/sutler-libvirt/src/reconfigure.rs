//! Changing machines until they are as desired: online where there is room for it.

use std::time::{Duration, Instant};

use sutler_provider::{Class, DiskInfo, Error, ErrorKind, ReconfigureRequest, Result, Started};
use uuid::Uuid;
use virt::{connect::Connect, domain::Domain};

use crate::{
    create::{self, Part},
    domain::{Card, DiskDef, Seen},
    fault::{Done, unless},
    find, guest,
    host::Libvirt,
    mark::{DiskMark, Mark},
    plan::{self, ROOT},
    settings::Settings,
    show,
    storage::{self, Pool},
    tasks::Progress,
    volume::GIB,
};

/// How long a guest may take to let go of a device: before it has booted it does not.
const LET_GO: Duration = Duration::from_secs(90);
/// A guest that did not hear is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Changes a machine.
pub(crate) async fn change(host: &Libvirt, request: ReconfigureRequest) -> Result<Started> {
    plan::admit(&request.desired)?;
    let facts = host.facts().await?;
    plan::fits(&request.desired, &facts.name, &facts.limits)?;
    let asked = request.clone();
    let look = host.0.link.look(move |connect| {
        let (domain, seen) = find::proven(connect, &asked.id, &asked.proof)?;
        let disks = show::disks(connect, &domain, &seen)?;
        let room = domain.is_active()?;
        let todo = differs(&asked, &seen, &disks, room)?;
        Ok(todo.then_some(seen.uuid))
    });
    let Some(uuid) = look.await? else { return Ok(Started::default()) };
    let changer = host.clone();
    let task = host.0.tasks.begin(&format!("reconfigure/{uuid}"), move |progress| async move {
        let _turn = changer.0.locks.take(uuid).await;
        let _turns = changer.turns(&request.desired.disks).await?;
        let settings = changer.0.settings.clone();
        let work = move |connect: &Connect| apply(connect, &request, &settings, &progress);
        changer.0.link.long(work).await?;
        Ok(None)
    });
    Ok(Started { task: Some(task) })
}

/// Whether there is anything to change. What can never be done is refused before anything is.
fn differs(
    request: &ReconfigureRequest,
    seen: &Seen,
    disks: &[DiskInfo],
    active: bool,
) -> Result<bool> {
    let desired = &request.desired;
    let mut todo = false;
    if let Some(class) = &desired.class {
        let (cpu, memory) = (seen.cpu.unwrap_or_default(), seen.memory_mib.unwrap_or_default());
        todo |= class.cpu != cpu || class.memory_mib != memory;
        if active {
            fits_live(class, seen)?;
        }
    }
    for (name, gib) in wanted_sizes(request) {
        match disks.iter().find(|disk| disk.name == name) {
            Some(disk) if disk.size_gib > gib => {
                let why = format!("it has {} GiB, and a disk does not shrink", disk.size_gib);
                return Err(Error::invalid(format!("spec.disks[{name}].sizeGiB"), why));
            }
            Some(disk) => todo |= disk.size_gib < gib,
            None => todo = true,
        }
    }
    for nic in &desired.nics {
        let moved = |card: &&Card| {
            let here = seen.mark.nics.get(&card.mac) == Some(&nic.name);
            here && nic.network.is_some() && card.network.is_some() && card.network != nic.network
        };
        if seen.cards.iter().any(|card| moved(&card)) {
            let why = "a card stays in its network: give another one another name";
            return Err(Error::unsupported(why).at(format!("spec.networks[{}]", nic.name)));
        }
    }
    let named = |name: &String| seen.mark.nics.values().any(|known| known == name);
    todo |= desired.nics.iter().any(|nic| !named(&nic.name));
    todo |= request.remove_nics.iter().any(named);
    todo |= request.remove_disks.iter().any(|name| disks.iter().any(|disk| disk.name == *name));
    todo |= desired.tags != seen.mark.tags;
    Ok(todo)
}

/// Refuses what a machine that runs has no room for.
fn fits_live(class: &Class, seen: &Seen) -> Result<()> {
    let most = (seen.max_cpu.unwrap_or_default(), seen.max_memory_mib.unwrap_or_default());
    if class.cpu <= most.0 && class.memory_mib <= most.1 {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "while it runs it has room for {} CPUs and {} MiB: switch it off first",
        most.0, most.1
    )))
}

/// The disks that are wanted, with their sizes in GiB.
fn wanted_sizes(request: &ReconfigureRequest) -> Vec<(&str, u64)> {
    let class = request.desired.class.as_ref();
    let root = class.and_then(|class| class.root_gib).map(|gib| (ROOT, gib));
    let data = request.desired.disks.iter().map(|disk| (disk.name.as_str(), disk.size_gib));
    root.into_iter().chain(data).collect()
}

fn apply(
    connect: &Connect,
    request: &ReconfigureRequest,
    settings: &Settings,
    progress: &Progress,
) -> Done {
    let (domain, seen) = find::proven(connect, &request.id, &request.proof)?;
    let desired = &request.desired;
    if let Some(class) = &desired.class {
        progress.say(Some(10), "changing CPUs and memory");
        resize(&domain, &seen, class)?;
    }
    progress.say(Some(30), "changing disks");
    for name in &request.remove_disks {
        remove_disk(connect, &domain, name)?;
    }
    let disks = show::disks(connect, &domain, &seen)?;
    for (name, gib) in wanted_sizes(request) {
        if let Some(disk) = disks.iter().find(|disk| disk.name == name && disk.size_gib < gib) {
            grow(connect, &domain, &seen, disk, gib)?;
        }
    }
    let uuid = Uuid::parse_str(&seen.uuid).unwrap_or_default();
    for disk in &desired.disks {
        if disks.iter().any(|known| known.name == disk.name) {
            continue;
        }
        let pool = create::root_pool(desired, settings);
        let part = create::data_disk(connect, disk, uuid, &pool)?;
        add_disk(connect, &domain, part, desired.class.as_ref())?;
    }
    progress.say(Some(70), "changing network cards");
    cards(&domain, request, uuid, settings)?;
    let now = find::read(&domain)?.unwrap_or(seen);
    if now.mark.tags != desired.tags {
        find::note(&domain, &Mark { tags: desired.tags.clone(), ..now.mark })?;
    }
    Ok(())
}

/// Flags for now and for the next start.
fn both(domain: &Domain) -> Done<u32> {
    let live = if domain.is_active()? { virt_sys::VIR_DOMAIN_AFFECT_LIVE } else { 0 };
    Ok(live | virt_sys::VIR_DOMAIN_AFFECT_CONFIG)
}

fn resize(domain: &Domain, seen: &Seen, class: &Class) -> Done {
    let flags = both(domain)?;
    let active = domain.is_active()?;
    let config = virt_sys::VIR_DOMAIN_AFFECT_CONFIG;
    if active {
        fits_live(class, seen)?;
    }
    if seen.cpu != Some(class.cpu) {
        let most = seen.max_cpu.unwrap_or_default();
        // What it has can never be more than what it may have.
        if class.cpu > most {
            domain.set_vcpus_flags(class.cpu, virt_sys::VIR_DOMAIN_VCPU_MAXIMUM | config)?;
        }
        domain.set_vcpus_flags(class.cpu, flags)?;
        if !active && most == seen.cpu.unwrap_or(most) && class.cpu < most {
            domain.set_vcpus_flags(class.cpu, virt_sys::VIR_DOMAIN_VCPU_MAXIMUM | config)?;
        }
    }
    if seen.memory_mib != Some(class.memory_mib) {
        let kib = class.memory_mib * 1024;
        let most = seen.max_memory_mib.unwrap_or_default();
        if class.memory_mib > most {
            domain.set_memory_flags(kib, virt_sys::VIR_DOMAIN_MEM_MAXIMUM | config)?;
        }
        domain.set_memory_flags(kib, flags)?;
        if !active && most == seen.memory_mib.unwrap_or(most) && class.memory_mib < most {
            domain.set_memory_flags(kib, virt_sys::VIR_DOMAIN_MEM_MAXIMUM | config)?;
        }
    }
    Ok(())
}

fn grow(connect: &Connect, domain: &Domain, seen: &Seen, disk: &DiskInfo, gib: u64) -> Done {
    let by_name = seen.disks_by_name();
    let device = by_name.get(disk.name.as_str()).map(|disk| disk.device.clone());
    let device = device.unwrap_or_else(|| disk.name.clone());
    if domain.is_active()? {
        let bytes = virt_sys::VIR_DOMAIN_BLOCK_RESIZE_BYTES;
        domain.block_resize(&device, gib * GIB, bytes)?;
        guest::fill(domain, seen, &plan::serial(&disk.name));
        return Ok(());
    }
    let path = disk.path.clone().unwrap_or_default();
    let volume = storage::at_path(connect, &path)?.ok_or_else(|| {
        Error::unsupported(format!("disk {} is in no storage pool, and cannot grow", disk.name))
    })?;
    create::grow(&volume, gib * GIB)
}

/// Makes a disk and plugs it in. It is noted first, so that it goes with its machine whatever happens.
fn add_disk(connect: &Connect, domain: &Domain, part: Part, class: Option<&Class>) -> Done {
    let Some(mut seen) = find::read(domain)? else { return Ok(()) };
    forget_half_made(connect, &mut seen, &part)?;
    let bus = class.map_or_else(|| "virtio".to_owned(), plan::bus);
    let taken = |device: &str| {
        seen.disks.iter().any(|disk| disk.device == device)
            || seen.mark.disks.contains_key(device)
            || (device == "sda" && seen.seed.is_some())
    };
    let free = (0..).map(|index| plan::device(&bus, index)).find(|device| !taken(device));
    let device = free.unwrap_or_default();
    let mut mark = seen.mark.clone();
    mark.disks
        .insert(device.clone(), DiskMark { name: part.name.clone(), kept: part.kept.clone() });
    find::note(domain, &mark)?;
    create::make_disk(connect, &part)?;
    let disk = DiskDef {
        device,
        bus,
        path: part.path.clone(),
        format: part.volume.format.clone(),
        cache: class.and_then(|class| class.extra.get("libvirt.cache").cloned()),
        iops: class.and_then(|class| class.iops),
        serial: plan::serial(&part.name),
    };
    Ok(domain.attach_device_flags(&disk.write().to_string(), both(domain)?)?)
}

/// Removes what is left of a disk of this name that nobody has plugged in: it was made, or was to be removed,
/// when this program was ended. While it is there, none of its name can be made.
fn forget_half_made(connect: &Connect, seen: &mut Seen, part: &Part) -> Done {
    let plugged = seen.disks.iter().any(|disk| disk.path.as_ref() == Some(&part.path));
    if plugged || !matches!(part.from, create::From::Nothing) || part.kept.is_some() {
        return Ok(());
    }
    let devices: Vec<&String> = seen.disks.iter().map(|disk| &disk.device).collect();
    seen.mark.disks.retain(|device, mark| mark.name != part.name || devices.contains(&device));
    Pool::find(connect, &part.pool, "placement.datastore")?.remove(&part.volume.name)
}

/// Unplugs a disk, and removes it unless it outlives its machine.
fn remove_disk(connect: &Connect, domain: &Domain, name: &str) -> Done {
    let Some(seen) = find::read(domain)? else { return Ok(()) };
    if name == ROOT {
        return Err(Error::invalid("spec.disks", "a machine keeps its root disk").into());
    }
    let Some(disk) = seen.disks_by_name().get(name).copied() else { return Ok(()) };
    let (Some(path), Some(mark)) = (&disk.path, seen.mark.disks.get(&disk.device)) else {
        return Ok(());
    };
    let plug = DiskDef {
        device: disk.device.clone(),
        bus: disk.bus.clone().unwrap_or_else(|| "virtio".to_owned()),
        path: path.clone(),
        format: disk.format.clone().unwrap_or_else(|| "qcow2".to_owned()),
        cache: None,
        iops: None,
        serial: plan::serial(name),
    };
    let gone = |seen: &Seen| seen.disks.iter().all(|known| known.device != disk.device);
    unplug(domain, &plug.write().to_string(), gone, &format!("disk {name}"))?;
    if mark.kept.is_none()
        && let Some(volume) = storage::at_path(connect, path)?
    {
        unless(volume.delete(0), &[ErrorKind::NotFound])?;
    }
    let mut mark = seen.mark.clone();
    mark.disks.remove(&disk.device);
    find::note(domain, &mark)
}

/// Takes a device out, now and for the next start. A guest that runs has to let go of it.
fn unplug(domain: &Domain, xml: &str, gone: impl Fn(&Seen) -> bool, what: &str) -> Done {
    let fine = [ErrorKind::NotFound, ErrorKind::Conflict];
    let (live, config) = (virt_sys::VIR_DOMAIN_AFFECT_LIVE, virt_sys::VIR_DOMAIN_AFFECT_CONFIG);
    // One after the other: a guest that held on to it before has it no more for its next start.
    unless(domain.detach_device_flags(xml, config), &fine)?;
    if domain.is_active()? {
        unless(domain.detach_device_flags(xml, live), &fine)?;
    }
    let end = Instant::now() + LET_GO;
    let mut asked = Instant::now();
    loop {
        match find::read(domain)? {
            Some(seen) if !gone(&seen) => {}
            _ => return Ok(()),
        }
        if Instant::now() >= end {
            let why = format!("the guest does not let go of {what} within {LET_GO:?}");
            return Err(Error::unavailable(why).into());
        }
        if asked.elapsed() >= ASK_AGAIN {
            asked = Instant::now();
            // It may be at it, or may just have let go.
            if let Err(error) = domain.detach_device_flags(xml, live) {
                tracing::debug!("asked again for {what}: {}", error.message());
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn cards(domain: &Domain, request: &ReconfigureRequest, uuid: Uuid, settings: &Settings) -> Done {
    let Some(seen) = find::read(domain)? else { return Ok(()) };
    let mut mark = seen.mark.clone();
    let of = |name: &String| seen.mark.nics.iter().find(|(_, known)| *known == name);
    for name in &request.remove_nics {
        let Some((mac, _)) = of(name) else { continue };
        let nic = seen.cards.iter().find(|card| card.mac == *mac);
        if let Some(nic) = nic {
            let gone = |seen: &Seen| seen.cards.iter().all(|card| card.mac != *mac);
            unplug(domain, &nic.write().to_string(), gone, &format!("network card {name}"))?;
        }
        mark.nics.remove(mac);
    }
    for nic in request.desired.nics.iter().filter(|nic| of(&nic.name).is_none()) {
        let card = plan::card(uuid, nic, settings);
        mark.nics.insert(card.mac.clone(), nic.name.clone());
        domain.attach_device_flags(&card.write().to_string(), both(domain)?)?;
    }
    match mark == seen.mark {
        true => Ok(()),
        false => find::note(domain, &mark),
    }
}
