//! Domains on a host, and whose they are. These calls block.

use sutler_provider::{Error, MachineId, Proof};
use uuid::Uuid;
use virt::{connect::Connect, domain::Domain};

use crate::{
    domain::Seen,
    fault::{Done, Fault, if_there},
    mark::{Mark, NAMESPACE, PREFIX},
};

/// A domain, if it is there. An ID that is no UUID is nobody's.
pub(crate) fn by_id(connect: &Connect, id: &MachineId) -> Done<Option<(Domain, Seen)>> {
    match Uuid::parse_str(&id.0) {
        Ok(uuid) => by_uuid(connect, uuid),
        Err(_) => Ok(None),
    }
}

/// A domain, if it is there.
pub(crate) fn by_uuid(connect: &Connect, uuid: Uuid) -> Done<Option<(Domain, Seen)>> {
    let Some(domain) = if_there(connect.lookup_domain_by_uuid(uuid))? else { return Ok(None) };
    Ok(read(&domain)?.map(|seen| (domain, seen)))
}

/// A domain that is the owner's: one that is not there is not found, one of somebody else is refused.
pub(crate) fn proven(connect: &Connect, id: &MachineId, proof: &Proof) -> Done<(Domain, Seen)> {
    let found = by_id(connect, id)?;
    let (domain, seen) =
        found.ok_or_else(|| Error::not_found(format!("there is no machine {id}")))?;
    check(id, &seen.mark, proof)?;
    Ok((domain, seen))
}

/// Refuses what is not the owner's.
pub(crate) fn check(id: &MachineId, mark: &Mark, proof: &Proof) -> Done {
    if mark.belongs_to(&proof.owner) {
        return Ok(());
    }
    let why = match &mark.owner {
        Some((token, installation)) => {
            format!(
                "machine {id} carries the token {token} of {installation}, and not {}",
                proof.owner.token
            )
        }
        None => format!("machine {id} carries no token, and is nobody's"),
    };
    Err(Error::conflict(why).into())
}

/// What a domain is like, or none if it has just gone.
pub(crate) fn read(domain: &Domain) -> Done<Option<Seen>> {
    let Some(xml) = if_there(domain.xml_desc(0))? else { return Ok(None) };
    let mut seen = Seen::read(&xml)?;
    // While it runs, libvirt tells what the guest has given back so far; what it was given is for its next
    // start.
    if seen.runs && seen.mark.room {
        let inactive = virt_sys::VIR_DOMAIN_XML_INACTIVE;
        let Some(xml) = if_there(domain.xml_desc(inactive))? else { return Ok(None) };
        seen.memory_mib = Seen::read(&xml)?.memory_mib;
    }
    Ok(Some(seen))
}

/// All domains.
pub(crate) fn all(connect: &Connect) -> Done<Vec<(Domain, Seen)>> {
    let mut found = Vec::new();
    for domain in connect.list_all_domains(0)? {
        if let Some(seen) = read(&domain)? {
            found.push((domain, seen));
        }
    }
    Ok(found)
}

/// Writes what is noted in a domain, for now and for its next start.
pub(crate) fn note(domain: &Domain, mark: &Mark) -> Done {
    let kind = i32::try_from(virt_sys::VIR_DOMAIN_METADATA_ELEMENT).unwrap_or_default();
    let mut flags = virt_sys::VIR_DOMAIN_AFFECT_CONFIG;
    if domain.is_active()? {
        flags |= virt_sys::VIR_DOMAIN_AFFECT_LIVE;
    }
    let text = mark.write_alone().to_string();
    domain
        .set_metadata(kind, Some(&text), Some(PREFIX), Some(NAMESPACE), flags)
        .map_err(Fault::from)
}
