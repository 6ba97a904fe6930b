//! A domain in the words of the contract.

use std::collections::BTreeSet;

use jiff::Timestamp;
use roxmltree::Document;
use sutler_provider::{DiskInfo, Interface, Listing, Machine, MachineId, Power, Result, Snapshot};
use uuid::Uuid;
use virt::{
    connect::Connect,
    domain::{Domain, DomainState},
};

use crate::{
    addresses::{self, Cards},
    domain::{Seen, SeenDisk},
    fault::{Done, if_there},
    find,
    host::{Driver, Facts, Libvirt},
    plan::ROOT,
    storage,
    volume::GIB,
};

impl Libvirt {
    /// What a machine is like, or none where it is not there.
    pub(crate) async fn show(&self, id: &MachineId) -> Result<Option<Machine>> {
        let facts = self.facts().await?.clone();
        let (host, machine) = (self.clone(), id.clone());
        self.0
            .link
            .look(move |connect| {
                let Some((domain, seen)) = find::by_id(connect, &machine)? else { return Ok(None) };
                host.describe(connect, &facts, &domain, &seen).map(Some)
            })
            .await
    }

    /// Everything that can be told of one machine.
    pub(crate) fn describe(
        &self,
        connect: &Connect,
        facts: &Facts,
        domain: &Domain,
        seen: &Seen,
    ) -> Done<Machine> {
        let power = power(domain)?;
        let mut cards = Cards::new();
        if power == Power::On && facts.driver == Driver::Qemu {
            cards = self.addresses(connect, domain, seen)?;
        }
        let mut machine = self.sketch(facts, seen, power, &cards);
        machine.disks = Some(disks(connect, domain, seen)?);
        machine.snapshots = Some(snapshots(domain)?);
        Ok(machine)
    }

    fn addresses(&self, connect: &Connect, domain: &Domain, seen: &Seen) -> Done<Cards> {
        if seen.agent
            && let Some(told) = addresses::of_guest(domain)
        {
            if let (Ok(uuid), Some(run)) = (Uuid::parse_str(&seen.uuid), domain.id()) {
                self.0.addresses.learn(uuid, run, &told);
            }
            return Ok(addresses::of_machine(seen, &told));
        }
        let networks: BTreeSet<String> = seen.networks().collect();
        let leased = addresses::of_machine(seen, &addresses::leased(connect, networks)?);
        if leased.values().any(|card| !card.ips.is_empty()) {
            return Ok(leased);
        }
        Ok(addresses::of_machine(seen, &addresses::of_wire(domain)))
    }

    /// What a list tells of a machine: nothing that would take a call for each.
    fn sketch(&self, facts: &Facts, seen: &Seen, power: Power, cards: &Cards) -> Machine {
        let (token, installation) = seen.mark.owner.clone().unzip();
        let ours = token.is_some();
        let interfaces: Vec<Interface> = seen
            .cards
            .iter()
            .map(|card| {
                let told = cards.get(&card.mac);
                Interface {
                    name: seen.mark.nics.get(&card.mac).cloned(),
                    device: told.and_then(|told| told.device.clone()).or(card.device.clone()),
                    mac: Some(card.mac.clone()),
                    network: card.network.clone(),
                    ips: told.map(|told| told.ips.clone()).unwrap_or_default(),
                }
            })
            .collect();
        let mut ips: Vec<String> = interfaces
            .iter()
            .flat_map(|interface| interface.ips.iter())
            .filter(|ip| addresses::is_useful(ip))
            .cloned()
            .collect();
        // IPv4 first: it is what most people ask for.
        ips.sort_by_key(|ip| ip.contains(':'));
        Machine {
            token,
            installation,
            busy: seen.mark.making.is_some(),
            hostname: seen.mark.hostname.clone().filter(|_| ours),
            ips,
            cpu: seen.cpu,
            memory_mib: seen.memory_mib,
            most_cpu: seen.max_cpu,
            most_memory_mib: seen.max_memory_mib,
            interfaces: Some(interfaces),
            tags: seen.mark.tags.clone(),
            host: Some(facts.name.clone()),
            console_url: seen.vnc.clone(),
            created_at: seen.mark.made_at,
            ..Machine::new(seen.uuid.as_str(), seen.name.as_str(), power)
        }
    }

    /// All machines: two calls for each, and one for each network.
    pub(crate) async fn list(&self) -> Result<Listing> {
        let facts = self.facts().await?.clone();
        let host = self.clone();
        let machines = self
            .0
            .link
            .survey(move |connect| {
                let found = find::all(connect)?;
                let networks: BTreeSet<String> =
                    found.iter().flat_map(|(_, seen)| seen.networks()).collect();
                let leased = addresses::leased(connect, networks)?;
                let mut machines = Vec::with_capacity(found.len());
                for (domain, seen) in &found {
                    // One that has just gone is not there.
                    let Some(info) = if_there(domain.info())? else { continue };
                    let power = power_of(info.state.unwrap_or(DomainState::NoState));
                    let told = Uuid::parse_str(&seen.uuid).ok().zip(domain.id());
                    let told = told.and_then(|(uuid, run)| host.0.addresses.known(uuid, run));
                    let cards = match power {
                        Power::On => addresses::of_machine(seen, told.as_ref().unwrap_or(&leased)),
                        Power::Off | Power::Paused | Power::Unknown => Cards::new(),
                    };
                    machines.push(host.sketch(&facts, seen, power, &cards));
                    host.look_after(seen);
                }
                Ok(machines)
            })
            .await?;
        Ok(Listing { machines, complete: true })
    }
}

/// Whether a domain is on.
pub(crate) fn power(domain: &Domain) -> Done<Power> {
    Ok(power_of(domain.info()?.state.unwrap_or(DomainState::NoState)))
}

fn power_of(state: DomainState) -> Power {
    match state {
        DomainState::Running | DomainState::Blocked | DomainState::Shutdown => Power::On,
        DomainState::Paused | DomainState::PMSuspended => Power::Paused,
        DomainState::Shutoff | DomainState::Crashed => Power::Off,
        DomainState::NoState => Power::Unknown,
    }
}

/// The disks of a domain, with the sizes that the guest sees.
pub(crate) fn disks(connect: &Connect, domain: &Domain, seen: &Seen) -> Done<Vec<DiskInfo>> {
    let mut all = Vec::new();
    for (index, disk) in seen.disks.iter().enumerate() {
        all.push(one_disk(connect, domain, seen, disk, index)?);
    }
    Ok(all)
}

fn one_disk(
    connect: &Connect,
    domain: &Domain,
    seen: &Seen,
    disk: &SeenDisk,
    index: usize,
) -> Done<DiskInfo> {
    let mark = seen.mark.disks.get(&disk.device);
    let name = match (mark, index) {
        (Some(mark), _) => mark.name.clone(),
        (None, 0) => ROOT.to_owned(),
        (None, _) => disk.device.clone(),
    };
    let volume = match &disk.path {
        Some(path) => storage::at_path(connect, path)?,
        None => None,
    };
    let mut info = DiskInfo {
        bootable: name == ROOT,
        name,
        id: disk.path.clone(),
        path: disk.path.clone(),
        format: disk.format.clone(),
        kept: mark.and_then(|mark| mark.kept.clone()),
        ..DiskInfo::default()
    };
    if let Some(volume) = volume {
        let volume = storage::describe(&volume)?;
        info.size_gib = volume.gib();
        info.actual_bytes = Some(volume.taken);
        info.backing_file = volume.backing;
    } else if let Ok(block) = domain.block_info(&disk.device, 0) {
        // What is in no pool only QEMU knows.
        info.size_gib = block.capacity.div_ceil(GIB);
        info.actual_bytes = Some(block.allocation);
    }
    Ok(info)
}

/// The snapshots of a domain, oldest first.
pub(crate) fn snapshots(domain: &Domain) -> Done<Vec<Snapshot>> {
    let mut all = Vec::new();
    for snapshot in domain.list_all_snapshots(0)? {
        // One that has just gone is not there.
        let Some(xml) = if_there(snapshot.xml_desc(0))? else { continue };
        all.extend(snapshot_of(&xml));
    }
    all.sort_by_key(|snapshot| snapshot.created_at);
    Ok(all)
}

/// A description begins with this where memory was saved only because QEMU could not do without.
pub(crate) const DISKS_ALONE: &str = "[disks] ";

fn snapshot_of(xml: &str) -> Option<Snapshot> {
    let document = Document::parse(xml).ok()?;
    let root = document.root_element();
    let child = |name: &str| root.children().find(|node| node.has_tag_name(name));
    let text = |name: &str| child(name)?.text().map(|text| text.trim().to_owned());
    let name = text("name")?;
    let at = text("creationTime").and_then(|at| at.parse().ok());
    let memory = child("memory").and_then(|memory| memory.attribute("snapshot"));
    let described = root
        .children()
        .find(|node| node.has_tag_name("description"))
        .and_then(|node| node.text())
        .unwrap_or_default();
    let (alone, description) = match described.strip_prefix(DISKS_ALONE) {
        Some(rest) => (true, rest),
        None => (false, described),
    };
    Some(Snapshot {
        id: name.as_str().into(),
        name,
        created_at: at.and_then(|at| Timestamp::from_second(at).ok()),
        description: (!description.is_empty()).then(|| description.to_owned()),
        size_bytes: None,
        memory: !alone && memory.is_some_and(|memory| memory != "no"),
    })
}
