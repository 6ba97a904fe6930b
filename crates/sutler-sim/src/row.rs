//! What the platform keeps of each thing.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, net::Ipv6Addr, time::Duration};
use sutler_provider::{
    DiskInfo, DiskKey, Error, ErrorKind, Interface, Machine, MachineId, Power, PowerOp,
    ReconfigureRequest, Snapshot, SnapshotId, SnapshotRequest,
};

use crate::faults::Leaves;

/// A machine, with what its platform knows and does not show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// What it is like. Token and installation are kept here even where the platform carries none.
    pub(crate) machine: Machine,
    /// Not seen yet.
    pub(crate) hidden: bool,
    /// Given up half made.
    pub(crate) broken: bool,
    /// The one piece of work that is being done to it.
    pub(crate) work: Option<u64>,
    /// The boot that is under way.
    pub(crate) boot: Option<u64>,
    /// Whether it is switched on once it is made.
    pub(crate) power_on: bool,
    /// Whether the guest runs and has its addresses.
    pub(crate) up: bool,
    /// What the guest calls itself once it is up.
    pub(crate) hostname: String,
    pub(crate) cards: Vec<Card>,
    pub(crate) saved: Vec<Saved>,
    /// What it was made from.
    pub(crate) image: Option<String>,
    /// The size that its image had.
    pub(crate) image_gib: u64,
    #[serde(with = "bytes")]
    pub(crate) user_data: Option<Vec<u8>>,
    #[serde(with = "bytes")]
    pub(crate) meta_data: Option<Vec<u8>>,
    /// Files that commands left in the guest.
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) hardware: u32,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Card {
    pub(crate) name: String,
    pub(crate) mac: String,
    pub(crate) network: Option<String>,
    pub(crate) ips: Vec<String>,
}

/// A snapshot, and what it goes back to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) info: Snapshot,
    pub(crate) cpu: Option<u32>,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) disks: Option<Vec<DiskInfo>>,
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) power: Power,
}

impl Row {
    /// A machine as it is described, for those that nobody asked us to make.
    pub(crate) fn of(machine: Machine, number: u64) -> Self {
        let cards = match &machine.interfaces {
            Some(interfaces) => interfaces
                .iter()
                .enumerate()
                .map(|(index, interface)| Card {
                    name: interface.name.clone().unwrap_or_else(|| format!("eth{index}")),
                    mac: interface.mac.clone().unwrap_or_else(|| mac(number)),
                    network: interface.network.clone(),
                    ips: interface.ips.clone(),
                })
                .collect(),
            None => vec![Card {
                name: "eth0".to_owned(),
                mac: mac(number),
                network: None,
                ips: match machine.ips.is_empty() {
                    true => addresses(number, false),
                    false => machine.ips.clone(),
                },
            }],
        };
        let saved = machine
            .snapshots
            .iter()
            .flatten()
            .map(|info| Saved {
                info: info.clone(),
                cpu: machine.cpu,
                memory_mib: machine.memory_mib,
                disks: machine.disks.clone(),
                files: BTreeMap::new(),
                power: Power::Off,
            })
            .collect();
        let mut row = Self {
            hidden: false,
            broken: machine.busy,
            work: None,
            boot: None,
            power_on: machine.power == Power::On,
            up: machine.power == Power::On,
            hostname: machine.hostname.clone().unwrap_or_else(|| machine.name.clone()),
            cards,
            saved,
            image: None,
            image_gib: 0,
            user_data: None,
            meta_data: None,
            files: BTreeMap::new(),
            hardware: 1,
            machine,
        };
        row.settle();
        row
    }

    /// Brings what is shown in line with what is.
    pub(crate) fn settle(&mut self) {
        let on = self.machine.power != Power::Off;
        self.up &= on;
        let up = self.up;
        let shown = &mut self.machine;
        shown.busy = self.work.is_some() || self.broken;
        shown.hostname = up.then(|| self.hostname.clone());
        let cards = self.cards.iter().enumerate().map(|(index, card)| Interface {
            name: Some(card.name.clone()),
            device: Some(format!("eth{index}")),
            mac: Some(card.mac.clone()),
            network: card.network.clone(),
            ips: if up { card.ips.clone() } else { Vec::new() },
        });
        shown.interfaces = Some(cards.collect());
        shown.ips = match up {
            true => self.cards.iter().flat_map(|card| card.ips.iter().cloned()).collect(),
            false => Vec::new(),
        };
        shown.snapshots = Some(self.saved.iter().map(|saved| saved.info.clone()).collect());
        shown.disks.get_or_insert_default();
        shown.raw.insert("hardwareVersion".to_owned(), self.hardware.to_string());
    }

    pub(crate) fn id(&self) -> &MachineId {
        &self.machine.id
    }

    /// The keys of its kept disks.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &DiskKey> {
        self.machine.disks.iter().flatten().filter_map(|disk| disk.kept.as_ref())
    }

    pub(crate) fn cpu(&self) -> u32 {
        self.machine.cpu.unwrap_or(0)
    }

    pub(crate) fn memory_mib(&self) -> u64 {
        self.machine.memory_mib.unwrap_or(0)
    }
}

/// Work that takes time. Where it is known as a task, its number is the task's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// The machine that it is done to, where it is one.
    pub(crate) machine: Option<MachineId>,
    pub(crate) doing: Doing,
    /// When it ends, for whoever finds it after a restart.
    pub(crate) due: Timestamp,
    pub(crate) takes: Duration,
    /// It does not end well.
    pub(crate) fails: Option<Leaves>,
}

/// What kind of work it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Doing {
    Make,
    Boot,
    Delete,
    Power(PowerOp),
    Reconfigure(Box<ReconfigureRequest>),
    SnapshotCreate(SnapshotRequest),
    SnapshotDelete(SnapshotId),
    SnapshotRevert(SnapshotId),
    Upgrade(u32),
    ImagePrepare(String, ImageRow),
    ImageRemove(String),
    Export(String, BlobRow),
    Import(String, BlobRow),
    KeptRemove(DiskKey),
}

impl Doing {
    /// What is happening, for people.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Make => "make the machine",
            Self::Boot => "boot",
            Self::Delete => "delete the machine",
            Self::Power(_) => "change its power",
            Self::Reconfigure(_) => "change the machine",
            Self::SnapshotCreate(_) => "take a snapshot",
            Self::SnapshotDelete(_) => "delete a snapshot",
            Self::SnapshotRevert(_) => "go back to a snapshot",
            Self::Upgrade(_) => "upgrade its hardware",
            Self::ImagePrepare(..) => "bring an image in",
            Self::ImageRemove(_) => "remove an image",
            Self::Export(..) => "send a disk out",
            Self::Import(..) => "bring a disk in",
            Self::KeptRemove(_) => "remove a kept disk",
        }
    }
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) made: Option<String>,
    pub(crate) error: Option<(ErrorKind, String)>,
}

impl Done {
    pub(crate) fn well(made: Option<String>) -> Self {
        Self { made, error: None }
    }

    pub(crate) fn badly(error: &Error) -> Self {
        Self { made: None, error: Some((error.kind(), error.message().to_owned())) }
    }

    pub(crate) fn result(&self) -> Result<Option<String>, Error> {
        match &self.error {
            None => Ok(self.made.clone()),
            Some((kind, message)) => Err(Error::new(*kind, message.clone())),
        }
    }
}

/// An image that was brought in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ImageRow {
    pub(crate) path: String,
    pub(crate) size_gib: u64,
    /// Whether it is there, rather than on its way.
    pub(crate) ready: bool,
    pub(crate) work: Option<u64>,
}

/// A disk that outlives its machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptRow {
    /// What tells it from one that was made anew under the same key.
    pub(crate) number: u64,
    pub(crate) size_gib: u64,
    /// Its removal, where that is under way.
    pub(crate) work: Option<u64>,
}

/// Bytes of a disk that are somewhere: brought in, or sent out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BlobRow {
    pub(crate) id: String,
    pub(crate) size_bytes: u64,
    pub(crate) checksum: String,
    pub(crate) format: String,
    pub(crate) ready: bool,
    pub(crate) work: Option<u64>,
}

/// Numbers that are given next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Next {
    /// The number in a machine's ID.
    pub(crate) id: u64,
    /// Addresses, snapshots and what else must never come twice.
    pub(crate) number: u64,
    /// Work, and so tasks.
    pub(crate) work: u64,
}

/// A hardware address that belongs to one number alone.
pub(crate) fn mac(number: u64) -> String {
    let [.., a, b, c, d, e] = number.to_be_bytes();
    format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}")
}

/// Addresses that belong to one number alone: 10.x, without those that networks keep for themselves.
pub(crate) fn addresses(number: u64, v6: bool) -> Vec<String> {
    let (rest, last) = (number / 254, number % 254 + 1);
    let mut all = vec![format!("10.{}.{}.{last}", rest / 256 % 256, rest % 256)];
    if v6 {
        all.push(Ipv6Addr::from_bits((0xfd00_u128 << 112) | u128::from(number + 1)).to_string());
    }
    all
}

/// First-boot data is nearly always text, which takes a quarter of the room as such.
mod bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(
        data: &Option<Vec<u8>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let form = data.as_ref().map(|data| match std::str::from_utf8(data) {
            Ok(text) => Form::Text(text.to_owned()),
            Err(_) => Form::Bytes(data.clone()),
        });
        form.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Ok(Option::<Form>::deserialize(from)?.map(|form| match form {
            Form::Text(text) => text.into_bytes(),
            Form::Bytes(data) => data,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, net::Ipv4Addr};

    use super::*;

    #[test]
    fn addresses_are_unique_and_usable() {
        let mut seen = BTreeSet::new();
        for number in 0..100_000 {
            let address: Ipv4Addr = addresses(number, false)[0].parse().unwrap();
            let [ten, .., last] = address.octets();
            assert!(ten == 10 && last != 0 && last != 255, "{address}");
            assert!(seen.insert(address), "{address} came twice");
            assert!(number > 2 || mac(number) == format!("02:00:00:00:00:0{number}"));
        }
        assert_eq!(addresses(0, true), ["10.0.0.1", "fd00::1"]);
    }
}
