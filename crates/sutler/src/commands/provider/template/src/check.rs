//! Requests that can never work are refused before anything is done, with the field that has to
//! change.

use std::{collections::BTreeSet, net::IpAddr};

use sutler_provider::{CreateRequest, Error, Result};

/// How long names may be.
pub const NAME_LIMIT: usize = 63;

/// Refuses a machine that cannot be made.
pub fn machine(request: &CreateRequest) -> Result<()> {
    let name = &request.name;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if name.is_empty() || name.len() > NAME_LIMIT || !name.chars().all(plain) {
        let rule = "small letters, digits, - and . , up to 63 of them";
        return Err(Error::invalid("name", format!("{name:?} is no name: {rule}")));
    }
    let Some(class) = &request.class else {
        return Err(Error::invalid("class", "a machine needs CPU and memory"));
    };
    if class.cpu == 0 || class.memory_mib == 0 {
        return Err(Error::invalid("class", "a machine without CPU or memory does nothing"));
    }
    // What is asked for and cannot be had is refused, never left out.
    if class.gpu.is_some() {
        return Err(Error::invalid("class.gpu", "there are no graphics cards"));
    }
    if request.managed_node.is_some() {
        return Err(Error::invalid("managedNode", "there are no managed nodes"));
    }
    if let Some(index) = request.disks.iter().position(|disk| disk.kept.is_some()) {
        let why = "there are no disks that outlive their machines";
        return Err(Error::unsupported(why).at(format!("disks[{index}].kept")));
    }
    let mut disks = BTreeSet::from(["root"]);
    for disk in &request.disks {
        if disk.size_gib == 0 || !disks.insert(&disk.name) {
            let what = format!("{:?} has no size, or its name is taken", disk.name);
            return Err(Error::invalid("disks", what));
        }
    }
    let mut cards = BTreeSet::new();
    for card in &request.nics {
        if !cards.insert(&card.name) {
            return Err(Error::invalid("networks", format!("two are called {:?}", card.name)));
        }
        let addresses = card.ip.iter().chain(&card.gateway).chain(&card.dns);
        for address in addresses {
            address
                .parse::<IpAddr>()
                .map_err(|_| Error::invalid("networks", format!("{address:?} is no address")))?;
        }
    }
    Ok(())
}
