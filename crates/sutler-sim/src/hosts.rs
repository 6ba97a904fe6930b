//! Hosts: who runs a machine, and what is left.

use sutler_provider::{Error, ErrorKind, Host, Placement, Result};

use crate::{
    settings::{HostSettings, Settings},
    state::{State, Used},
    txn::Txn,
};

/// The host for a machine of this size: the one that is named, or the one with most left where the
/// machine is to be.
pub(crate) fn place(
    txn: &Txn<'_>,
    placement: &Placement,
    cpu: u32,
    memory_mib: u64,
) -> Result<String> {
    fits_somewhere(txn.settings, cpu, memory_mib)?;
    within_quota(txn, 1, i64::from(cpu), signed(memory_mib))?;
    let hosts = there(&txn.settings.hosts, placement)?;
    let named = placement.host.as_deref();
    let host = match named {
        Some(name) => {
            if txn.offline.contains(name) {
                return Err(Error::unavailable(format!("host {name:?} does not answer")));
            }
            hosts.into_iter().find(|host| has_room(txn.state, host, cpu, memory_mib))
        }
        None => hosts
            .into_iter()
            .filter(|host| !txn.offline.contains(&host.name))
            .filter(|host| has_room(txn.state, host, cpu, memory_mib))
            .min_by_key(|host| (load(txn.state, host), &host.name)),
    };
    host.map(|host| host.name.clone()).ok_or_else(|| {
        let place = named.map_or_else(|| "no host".to_owned(), |name| format!("host {name:?} not"));
        exhausted(format!("{place} has {cpu} CPUs and {memory_mib} MiB left"))
    })
}

/// The hosts that a placement leaves. What names a place that is nowhere never works.
fn there<'a>(hosts: &'a [HostSettings], placement: &Placement) -> Result<Vec<&'a HostSettings>> {
    let mut left: Vec<&HostSettings> = hosts.iter().collect();
    let mut keep = |field: &str, wanted: &Option<String>, is: fn(&HostSettings, &str) -> bool| {
        let Some(wanted) = wanted else { return Ok(()) };
        left.retain(|host| is(host, wanted));
        match left.is_empty() {
            true => Err(Error::invalid(
                format!("spec.placement.{field}"),
                format!("there is no {field} {wanted:?}, or none together with the rest"),
            )),
            false => Ok(()),
        }
    };
    keep("region", &placement.region, |host, wanted| host.region.as_deref() == Some(wanted))?;
    keep("zone", &placement.zone, |host, wanted| host.zone.as_deref() == Some(wanted))?;
    keep("cluster", &placement.cluster, |host, wanted| host.cluster.as_deref() == Some(wanted))?;
    keep("datastore", &placement.datastore, |host, wanted| {
        host.datastores.iter().any(|store| store == wanted)
    })?;
    keep("host", &placement.host, |host, wanted| host.name == wanted)?;
    Ok(left)
}

/// Whether a machine can change its size where it is.
pub(crate) fn resize(
    txn: &Txn<'_>,
    host: Option<&str>,
    old: (u32, u64),
    new: (u32, u64),
) -> Result<()> {
    fits_somewhere(txn.settings, new.0, new.1)?;
    let cpu = i64::from(new.0) - i64::from(old.0);
    let memory = signed(new.1) - signed(old.1);
    within_quota(txn, 0, cpu, memory)?;
    let Some(host) = txn.settings.hosts.iter().find(|known| Some(known.name.as_str()) == host)
    else {
        return Ok(());
    };
    let used = txn.state.used.get(&host.name).copied().unwrap_or_default();
    if (cpu > 0 && signed(used.cpu).saturating_add(cpu) > i64::from(host.cpu))
        || (memory > 0 && signed(used.memory_mib).saturating_add(memory) > signed(host.memory_mib))
    {
        return Err(exhausted(format!("host {:?} has not that much left", host.name)));
    }
    Ok(())
}

/// All hosts, with what they gave out.
pub(crate) fn show(
    settings: &Settings,
    state: &State,
    offline: &impl Fn(&str) -> bool,
) -> Vec<Host> {
    let show = |host: &HostSettings| {
        let used = state.used.get(&host.name).copied().unwrap_or_default();
        Host {
            name: host.name.clone(),
            online: !offline(&host.name),
            cpu: host.cpu,
            cpu_used: u32::try_from(used.cpu).unwrap_or(u32::MAX),
            memory_mib: host.memory_mib,
            memory_mib_used: used.memory_mib,
            disk_gib: None,
            disk_gib_used: 0,
            cluster: host.cluster.clone(),
            zone: host.zone.clone(),
            region: host.region.clone(),
            datastores: host.datastores.clone(),
            labels: host.labels.clone(),
            features: host.features.clone(),
        }
    };
    settings.hosts.iter().map(show).collect()
}

/// What is larger than every host never works.
fn fits_somewhere(settings: &Settings, cpu: u32, memory_mib: u64) -> Result<()> {
    let too_large = |field: &str| {
        let why = "no host is that large, even when it is empty";
        Err(Error::invalid(format!("spec.resources.{field}"), why))
    };
    if settings.hosts.iter().all(|host| host.cpu < cpu) {
        return too_large("cpu");
    }
    if settings.hosts.iter().all(|host| host.cpu < cpu || host.memory_mib < memory_mib) {
        return too_large("memoryMiB");
    }
    Ok(())
}

fn within_quota(txn: &Txn<'_>, machines: usize, cpu: i64, memory_mib: i64) -> Result<()> {
    let (quota, state) = (&txn.settings.quota, &txn.state);
    let over = |limit: Option<u64>, used: u64, more: i64| {
        more > 0 && limit.is_some_and(|limit| signed(used).saturating_add(more) > signed(limit))
    };
    let what = if quota.machines.is_some_and(|limit| state.machines.len() + machines > limit) {
        "machines"
    } else if over(quota.cpu, state.total.cpu, cpu) {
        "CPUs"
    } else if over(quota.memory_mib, state.total.memory_mib, memory_mib) {
        "memory"
    } else {
        return Ok(());
    };
    Err(exhausted(format!("the quota of {what} is used up")))
}

fn has_room(state: &State, host: &HostSettings, cpu: u32, memory_mib: u64) -> bool {
    let used = state.used.get(&host.name).copied().unwrap_or_default();
    used.cpu + u64::from(cpu) <= u64::from(host.cpu)
        && used.memory_mib.saturating_add(memory_mib) <= host.memory_mib
}

/// How full a host is, in millionths of what is scarcer.
fn load(state: &State, host: &HostSettings) -> u128 {
    let Used { cpu, memory_mib } = state.used.get(&host.name).copied().unwrap_or_default();
    let share = |used: u64, all: u64| u128::from(used) * 1_000_000 / u128::from(all.max(1));
    share(cpu, u64::from(host.cpu)).max(share(memory_mib, host.memory_mib))
}

fn exhausted(message: String) -> Error {
    Error::new(ErrorKind::Exhausted, message)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
