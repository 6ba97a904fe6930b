//! Where a machine goes, as a pure function of its policy, the hosts and who is where.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sutler_api::infra::VMPlacementPolicySpec;
use sutler_provider::{Host, Placement};

use super::{
    rules::{self, Rule},
    terms::Neighbour,
};

/// A machine that wants a place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Subject {
    /// Its record's namespace.
    pub(crate) namespace: String,
    /// Its record's labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Virtual CPUs.
    pub(crate) cpu: u32,
    /// Memory in MiB.
    pub(crate) memory_mib: u64,
    /// Disk space in GiB.
    pub(crate) disk_gib: u64,
    /// What its record and its Provider say of its place.
    pub(crate) wishes: Placement,
    /// Networks that it is plugged into.
    pub(crate) networks: Vec<String>,
}

/// What is known when a place is chosen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// The hosts of the platform.
    pub(crate) hosts: Vec<Host>,
    /// The other machines.
    pub(crate) neighbours: Vec<Neighbour>,
    /// CPUs and MiB that were promised on a host and that it does not show yet.
    pub(crate) promised: BTreeMap<String, (u32, u64)>,
}

/// Where a machine goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Placed {
    /// The host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// The datastore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) datastore: Option<String>,
    /// The folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) folder: Option<String>,
    /// The resource pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource_pool: Option<String>,
    /// Soft rules that are not kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unkept: Vec<String>,
}

/// Why a machine has no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// These rules leave no host, for people.
    Rules(String),
    /// A field makes no sense.
    Invalid(String, String),
    /// A field is not served.
    Unserved(String),
}

/// Chooses a place that keeps every hard rule, and as many soft ones as can be; the one that was
/// chosen before stays if it is as good as any.
pub(crate) fn decide(
    policy: &VMPlacementPolicySpec,
    subject: &Subject,
    around: &Surroundings,
    before: Option<&Placed>,
) -> Result<Placed, Unmet> {
    let rules = rules::of(policy, subject, around)?;
    let (hard, soft): (Vec<&Rule<'_>>, Vec<&Rule<'_>>) =
        rules.iter().partition(|rule| rule.weight.is_none());
    let mut in_the_way: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut best: Option<(Rank<'_>, &Host)> = None;
    for host in &around.hosts {
        if let Some((rule, why)) = hard.iter().find_map(|rule| Some((rule, (rule.objects)(host)?)))
        {
            in_the_way.entry(format!("{}: {why}", rule.name)).or_default().push(host.name.clone());
            continue;
        }
        let kept = soft.iter().filter(|rule| (rule.objects)(host).is_none());
        let rank = Rank {
            lost: -kept.filter_map(|rule| rule.weight).sum::<i64>(),
            moved: before.is_some_and(|before| before.host.as_ref() != Some(&host.name)),
            load: load(host, around),
            name: &host.name,
        };
        if best.as_ref().is_none_or(|(other, _)| rank < *other) {
            best = Some((rank, host));
        }
    }
    let Some((_, host)) = best else { return Err(Unmet::Rules(explain(&in_the_way))) };
    let unkept = soft.iter().filter(|rule| (rule.objects)(host).is_some());
    Ok(Placed {
        host: Some(host.name.clone()),
        datastore: rules::datastore(policy, subject, around, host, before),
        folder: rules::choose(policy, subject.wishes.folder.as_ref(), |c| &c.folders),
        resource_pool: rules::choose(policy, subject.wishes.resource_pool.as_ref(), |c| {
            &c.resource_pools
        }),
        unkept: unkept.map(|rule| rule.name.clone()).collect(),
    })
}

/// What makes one host better than another: the smaller, the better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    lost: i64,
    moved: bool,
    load: u128,
    name: &'a str,
}

/// How full a host is, in millionths of what is scarcer.
fn load(host: &Host, around: &Surroundings) -> u128 {
    let (cpu, memory) = around.promised.get(&host.name).copied().unwrap_or_default();
    let share = |used: u64, all: u64| u128::from(used) * 1_000_000 / u128::from(all.max(1));
    let cpu = u64::from(host.cpu_used.saturating_add(cpu));
    share(cpu, u64::from(host.cpu))
        .max(share(host.memory_mib_used.saturating_add(memory), host.memory_mib))
}

/// Which rule stands in the way on which hosts; not more than people read.
fn explain(in_the_way: &BTreeMap<String, Vec<String>>) -> String {
    const RULES: usize = 5;
    const HOSTS: usize = 5;
    if in_the_way.is_empty() {
        return "the platform shows no host".to_owned();
    }
    let mut worst: Vec<_> = in_the_way.iter().collect();
    worst.sort_by_key(|(rule, hosts)| (std::cmp::Reverse(hosts.len()), *rule));
    let lines = worst.iter().take(RULES).map(|(rule, hosts)| {
        let more = hosts.len().saturating_sub(HOSTS);
        let names = hosts.iter().take(HOSTS).cloned().collect::<Vec<_>>().join(", ");
        match more {
            0 => format!("{rule} ({names})"),
            more => format!("{rule} ({names} and {more} more)"),
        }
    });
    lines.collect::<Vec<_>>().join("; ")
}
