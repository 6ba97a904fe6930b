//! Guests' addresses: from the guest itself, then from the networks that gave them out, then from the
//! host's own table.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use uuid::Uuid;
use virt::{connect::Connect, domain::Domain};

use crate::{
    domain::Seen,
    fault::Done,
    raw::{self, Lease},
};

/// A guest's cards by hardware address.
pub(crate) type Cards = BTreeMap<String, Card>;

/// A card as its guest, or its network, tells of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Card {
    /// Its name in the guest.
    pub(crate) device: Option<String>,
    pub(crate) ips: Vec<String>,
}

/// What guests have told of themselves, for as long as they run: a list of all machines asks no guest.
#[derive(Default)]
pub(crate) struct Addresses(Mutex<HashMap<Uuid, (u32, Cards)>>);

impl Addresses {
    /// What the guest of this run has told.
    pub(crate) fn known(&self, machine: Uuid, run: u32) -> Option<Cards> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&machine).filter(|(of, _)| *of == run).map(|(_, cards)| cards.clone())
    }

    pub(crate) fn learn(&self, machine: Uuid, run: u32, cards: &Cards) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(machine, (run, cards.clone()));
    }

    pub(crate) fn forget(&self, machine: Uuid) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&machine);
    }
}

/// Asks the guest; none where it does not answer.
pub(crate) fn of_guest(domain: &Domain) -> Option<Cards> {
    asked(domain, virt_sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT).filter(told)
}

/// Asks the host what it has seen on its wires.
pub(crate) fn of_wire(domain: &Domain) -> Cards {
    asked(domain, virt_sys::VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP).unwrap_or_default()
}

fn told(cards: &Cards) -> bool {
    cards.values().any(|card| !card.ips.is_empty())
}

fn asked(domain: &Domain, source: virt_sys::virDomainInterfaceAddressesSource) -> Option<Cards> {
    let found = domain.interface_addresses(source, 0).ok()?;
    let mut cards = Cards::new();
    for interface in found {
        let Some(mac) = interface.hwaddr else { continue };
        let card = cards.entry(mac.to_lowercase()).or_default();
        card.device = Some(interface.name);
        card.ips.extend(interface.addrs.into_iter().map(|address| address.addr));
    }
    Some(cards)
}

/// Addresses that networks have given out, by hardware address.
pub(crate) fn leased(connect: &Connect, names: impl IntoIterator<Item = String>) -> Done<Cards> {
    let mut cards = Cards::new();
    for name in names {
        // A network that is gone has given out nothing that still counts.
        let Ok(network) = connect.lookup_network_by_name(&name) else { continue };
        for Lease { mac, ip, .. } in raw::leases(&network).unwrap_or_default() {
            cards.entry(mac).or_default().ips.push(ip);
        }
    }
    Ok(cards)
}

/// Whether an address is of use to others: not the machine's own loop, nor one that is good on its own
/// wire alone.
pub(crate) fn is_useful(ip: &str) -> bool {
    match ip.parse() {
        Ok(std::net::IpAddr::V4(ip)) => !ip.is_loopback() && !ip.is_link_local(),
        Ok(std::net::IpAddr::V6(ip)) => !ip.is_loopback() && !ip.is_unicast_link_local(),
        Err(_) => false,
    }
}

/// The cards that a machine has, of all that are known.
pub(crate) fn of_machine(seen: &Seen, known: &Cards) -> Cards {
    let mine = |card: &crate::domain::Card| Some((card.mac.clone(), known.get(&card.mac)?.clone()));
    seen.cards.iter().filter_map(mine).collect()
}
