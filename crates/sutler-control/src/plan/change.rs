//! How a machine differs from what is wanted.

use sutler_provider::{Capabilities, Machine, Power};

use super::{Desired, Record};

/// How a machine differs from what is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// What differs, for people: one line each.
    pub lines: Vec<String>,
    /// Whether it can only be mended while the machine is off.
    pub needs_off: bool,
    /// Disks that were ours and are no longer wanted.
    pub remove_disks: Vec<String>,
    /// Cards that were ours and are no longer wanted.
    pub remove_nics: Vec<String>,
    /// Whether its disks differ.
    pub of_disks: bool,
    /// Why it can never be mended.
    pub impossible: Option<(String, String)>,
}

impl Difference {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All of it in one line.
    pub fn text(&self) -> String {
        self.lines.join(", ")
    }
}

/// The name of a machine's first disk.
pub(crate) const ROOT_DISK: &str = "root";

/// Whether anything is wanted of a machine's disks.
pub(super) fn wants_disks(desired: &Desired) -> bool {
    let class = desired.request.class.as_ref();
    !desired.request.disks.is_empty() || class.is_some_and(|class| class.root_gib.is_some())
}

/// Compares a machine with what is wanted. What the platform does not tell does not differ.
pub(super) fn difference(
    desired: &Desired,
    record: &Record,
    machine: &Machine,
    capabilities: &Capabilities,
) -> Difference {
    let mut found = Difference::default();
    let running = machine.power != Power::Off;
    size(desired, machine, capabilities, running, &mut found);
    let before = found.lines.len();
    disks(desired, record, machine, capabilities, running, &mut found);
    found.of_disks = found.lines.len() > before || found.impossible.is_some();
    nics(desired, record, machine, &mut found);
    found
}

fn size(
    desired: &Desired,
    machine: &Machine,
    capabilities: &Capabilities,
    running: bool,
    found: &mut Difference,
) {
    let Some(class) = &desired.request.class else { return };
    let online = capabilities.reconfigure_online;
    let offline = |room: bool| running && !(online && room);
    if let Some(cpu) = machine.cpu.filter(|cpu| *cpu != class.cpu) {
        found.lines.push(format!("{cpu} CPUs should be {}", class.cpu));
        found.needs_off |= offline(machine.most_cpu.is_none_or(|most| class.cpu <= most));
    }
    if let Some(memory) = machine.memory_mib.filter(|memory| *memory != class.memory_mib) {
        found.lines.push(format!("{memory} MiB of memory should be {}", class.memory_mib));
        let room = machine.most_memory_mib.is_none_or(|most| class.memory_mib <= most);
        found.needs_off |= offline(room);
    }
}

fn disks(
    desired: &Desired,
    record: &Record,
    machine: &Machine,
    capabilities: &Capabilities,
    running: bool,
    found: &mut Difference,
) {
    let disks: Vec<(&str, u64)> = match &machine.disks {
        Some(told) => told.iter().map(|disk| (disk.name.as_str(), disk.size_gib)).collect(),
        // Where nobody has told of them yet, those count that were seen before we were started.
        None => record.seen_disks.iter().map(|(name, size)| (name.as_str(), *size)).collect(),
    };
    if disks.is_empty() && machine.disks.is_none() {
        return;
    }
    let root = desired.request.class.as_ref().and_then(|class| class.root_gib);
    let wanted = desired.request.disks.iter();
    let wanted = wanted.map(|disk| (disk.name.as_str(), disk.size_gib, disk.grow_online));
    let root = root.map(|size| (ROOT_DISK, size, true));
    for (name, size, grow_online) in root.into_iter().chain(wanted) {
        match disks.iter().find(|(known, _)| *known == name).map(|(_, has)| *has) {
            // A root disk is as large as its image at least: only growing is ever asked for.
            Some(has) if has >= size && name == ROOT_DISK => {}
            Some(has) if has == size => {}
            Some(has) if has > size => {
                found.impossible = Some((
                    format!("spec.disks[{name}].sizeGiB"),
                    format!(
                        "disk {name} has {has} GiB and cannot shrink to {size}: give it at least \
                         the size that it has, or remove it and add another one"
                    ),
                ));
            }
            Some(has) => {
                found.lines.push(format!("disk {name} of {has} GiB should have {size}"));
                found.needs_off |= running && !(grow_online && capabilities.disk_growth_online);
            }
            None if name == ROOT_DISK => {}
            None => {
                found.lines.push(format!("disk {name} is missing"));
                found.needs_off |= running && !capabilities.reconfigure_online;
            }
        }
    }
    // A disk that we did not make is not ours to remove.
    for (name, _) in disks {
        let wanted =
            name == ROOT_DISK || desired.request.disks.iter().any(|wanted| wanted.name == name);
        if !wanted && record.disks.iter().any(|known| known == name) {
            found.lines.push(format!("disk {name} should go"));
            found.remove_disks.push(name.to_owned());
            found.needs_off |= running && !capabilities.reconfigure_online;
        }
    }
}

fn nics(desired: &Desired, record: &Record, machine: &Machine, found: &mut Difference) {
    let Some(cards) = &machine.interfaces else { return };
    for wanted in &desired.request.nics {
        let card = cards.iter().find(|card| card.name.as_deref() == Some(&wanted.name));
        match card {
            None => found.lines.push(format!("network card {} is missing", wanted.name)),
            Some(card) => {
                let network = wanted.network.as_ref().filter(|_| card.network.is_some());
                if network.is_some() && network != card.network.as_ref() {
                    found.lines.push(format!("network card {} is on another network", wanted.name));
                }
            }
        }
    }
    for card in cards {
        let Some(name) = &card.name else { continue };
        let wanted = desired.request.nics.iter().any(|wanted| &wanted.name == name);
        if !wanted && record.nics.contains(name) {
            found.lines.push(format!("network card {name} should go"));
            found.remove_nics.push(name.clone());
        }
    }
}
