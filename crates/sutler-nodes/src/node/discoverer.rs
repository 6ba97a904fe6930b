//! Addresses of nodes that a machine may be whose ID was not told: they joined before it was found.

use jiff::Timestamp;
use sutler_control::kit::Key;

use super::record::{Machine, Record};
use crate::cluster::Index;

/// Addresses that are handed on at most.
const MOST: usize = 50;

/// The addresses of nodes that nobody has and that the record's machine may be, or none where those that
/// are written down are right. Whether a machine with such an address is of the record's group is the
/// engine's to prove: it knows what the platform says. Where the group's machines are installed by our
/// own bootstrap, the label that it gives a node is the proof, and nodes without it are left out.
pub(super) fn addresses(
    record: &Record,
    group: &str,
    managed: bool,
    machine: &Machine,
    index: &Index,
) -> Option<Vec<String>> {
    if machine.id.is_some() {
        return None;
    }
    let mut found: Vec<String> = index
        .free()
        .filter(|seen| joined_after(seen.created_at, record.asked_at))
        .filter(|seen| match managed {
            true => seen.group.as_ref().is_none_or(|labelled| labelled == group),
            false => seen.group.as_deref() == Some(group),
        })
        .chain(index.of_record(&record.key))
        .flat_map(|seen| seen.internal.iter().chain(&seen.external))
        .cloned()
        .collect();
    found.sort();
    found.dedup();
    found.truncate(MOST);
    (found != machine.hints).then_some(found)
}

fn joined_after(joined: Option<Timestamp>, asked: Timestamp) -> bool {
    joined.is_none_or(|joined| joined.as_second() >= asked.as_second())
}

/// Whether a node carries what our bootstrap gave the machine of this record.
pub(super) fn is_labelled(seen: &crate::cluster::Seen, key: &Key, group: &str) -> bool {
    seen.is_claimed_by(key) && seen.group.as_deref() == Some(group)
}
