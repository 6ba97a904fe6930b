//! A policy's fields as rules over hosts. What must hold objects to a host; what should hold has a
//! weight.

mod near;

use sutler_api::{
    infra::{
        IsolationLevel, PlacementConstraints, ResourceConstraints, RuleScope, SecurityConstraints,
        TrustLevel, VMPlacementPolicySpec,
    },
    quantity::Quantity,
};
use sutler_provider::Host;

use super::{
    decide::{Placed, Subject, Surroundings, Unmet},
    terms::labels_of,
};
pub(crate) use near::keeps_away;

/// The weight of a soft rule that names none.
const WEIGHT: i64 = 50;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Why a rule objects to a host, for people.
type Objection<'a> = Box<dyn Fn(&Host) -> Option<String> + 'a>;

/// One rule.
pub(crate) struct Rule<'a> {
    /// The field that it stands in.
    pub(crate) name: String,
    /// How much it counts; none where it must hold.
    pub(crate) weight: Option<i64>,
    /// Why it objects to a host.
    pub(crate) objects: Objection<'a>,
}

/// Rules as they are gathered.
#[derive(Default)]
pub(super) struct Rules<'a>(Vec<Rule<'a>>);

impl<'a> Rules<'a> {
    fn add(
        &mut self,
        name: impl Into<String>,
        weight: Option<i64>,
        objects: impl Fn(&Host) -> Option<String> + 'a,
    ) {
        self.0.push(Rule { name: name.into(), weight, objects: Box::new(objects) });
    }

    /// A host's property must be among these; nothing is asked where there are none.
    fn among(
        &mut self,
        name: String,
        weight: Option<i64>,
        allowed: &'a [String],
        of: fn(&Host) -> Option<&String>,
    ) {
        if allowed.is_empty() {
            return;
        }
        self.add(name, weight, move |host| match of(host) {
            Some(value) if allowed.contains(value) => None,
            Some(value) => Some(format!("{value} is not among {}", allowed.join(", "))),
            None => Some(format!("the host tells nothing that is among {}", allowed.join(", "))),
        });
    }

    /// A host's property must not be among these.
    fn not_among(
        &mut self,
        name: String,
        weight: Option<i64>,
        excluded: &'a [String],
        of: fn(&Host) -> Option<&String>,
    ) {
        if excluded.is_empty() {
            return;
        }
        self.add(name, weight, move |host| {
            let value = of(host).filter(|value| excluded.contains(value))?;
            Some(format!("{value} is excluded"))
        });
    }
}

/// All rules for a machine, the platform's own first.
pub(crate) fn of<'a>(
    policy: &'a VMPlacementPolicySpec,
    subject: &'a Subject,
    around: &'a Surroundings,
) -> Result<Vec<Rule<'a>>, Unmet> {
    let mut rules = Rules::default();
    platform(&mut rules, subject, around);
    if let Some(hard) = &policy.hard {
        constraints(&mut rules, "spec.hard", None, hard, subject);
    }
    if let Some(soft) = &policy.soft {
        constraints(&mut rules, "spec.soft", Some(WEIGHT), soft, subject);
    }
    if let Some(resources) = &policy.resource_constraints {
        resource_rules(&mut rules, resources, subject, around)?;
    }
    if let Some(security) = &policy.security_constraints {
        security_rules(&mut rules, security)?;
    }
    near::affinity(&mut rules, policy, subject, around)?;
    near::anti_affinity(&mut rules, policy, subject, around)?;
    Ok(rules.0)
}

/// Whether a strictness means that a rule must hold.
pub(super) fn weight(scope: Option<RuleScope>, otherwise: RuleScope) -> Option<i64> {
    match scope.unwrap_or(otherwise) {
        RuleScope::Strict => None,
        RuleScope::Preferred => Some(WEIGHT),
    }
}

/// What no policy can change: the host answers, has room, and is where the record says.
fn platform<'a>(rules: &mut Rules<'a>, subject: &'a Subject, around: &'a Surroundings) {
    rules.add("host", None, |host| (!host.online).then(|| "it does not answer".to_owned()));
    let wishes = &subject.wishes;
    for (field, wish, of) in [
        ("host", &wishes.host, (|host| Some(&host.name)) as fn(&Host) -> Option<&String>),
        ("cluster", &wishes.cluster, |host| host.cluster.as_ref()),
        ("zone", &wishes.zone, |host| host.zone.as_ref()),
        ("region", &wishes.region, |host| host.region.as_ref()),
    ] {
        let Some(wish) = wish else { continue };
        rules.add(format!("spec.placement.{field} of the machine"), None, move |host| {
            let other = of(host).filter(|is| *is != wish)?;
            Some(format!("{wish} is asked for, and the host has {other}"))
        });
    }
    rules.add("room", None, |host| {
        let (cpu, memory) = free(host, around);
        let fits = u64::from(subject.cpu) <= cpu && subject.memory_mib <= memory;
        (!fits).then(|| {
            format!(
                "{cpu} CPUs and {memory} MiB are left for {} and {}",
                subject.cpu, subject.memory_mib
            )
        })
    });
}

/// CPUs and MiB that are neither given out nor promised.
fn free(host: &Host, around: &Surroundings) -> (u64, u64) {
    let (cpu, memory) = around.promised.get(&host.name).copied().unwrap_or_default();
    let cpu = u64::from(host.cpu).saturating_sub(u64::from(host.cpu_used) + u64::from(cpu));
    let used = host.memory_mib_used.saturating_add(memory);
    (cpu, host.memory_mib.saturating_sub(used))
}

fn constraints<'a>(
    rules: &mut Rules<'a>,
    root: &str,
    weight: Option<i64>,
    constraints: &'a PlacementConstraints,
    subject: &'a Subject,
) {
    // No platform tells of taints, so that every toleration is met.
    let PlacementConstraints {
        clusters,
        datastores,
        hosts,
        folders,
        resource_pools,
        networks,
        zones,
        regions,
        node_selector,
        tolerations: _,
        excluded_clusters,
        excluded_datastores,
        excluded_hosts,
    } = constraints;
    let name = |field: &str| format!("{root}.{field}");
    rules.among(name("hosts"), weight, hosts, |host| Some(&host.name));
    rules.not_among(name("excludedHosts"), weight, excluded_hosts, |host| Some(&host.name));
    rules.among(name("clusters"), weight, clusters, |host| host.cluster.as_ref());
    rules.not_among(name("excludedClusters"), weight, excluded_clusters, |h| h.cluster.as_ref());
    rules.among(name("zones"), weight, zones, |host| host.zone.as_ref());
    rules.among(name("regions"), weight, regions, |host| host.region.as_ref());
    for (key, value) in node_selector {
        rules.add(name("nodeSelector"), weight, move |host| {
            let differs = labels_of(host).get(key) != Some(value);
            differs.then(|| format!("the host is not labelled {key}={value}"))
        });
    }
    if !datastores.is_empty() || !excluded_datastores.is_empty() {
        let field = if datastores.is_empty() { "excludedDatastores" } else { "datastores" };
        rules.add(name(field), weight, move |host| {
            let allowed = |store: &String| {
                (datastores.is_empty() || datastores.contains(store))
                    && !excluded_datastores.contains(store)
            };
            match &subject.wishes.datastore {
                Some(wish) if !allowed(wish) => Some(format!("{wish} is asked for")),
                Some(_) => None,
                None if host.datastores.iter().any(allowed) => None,
                None => Some("the host has no datastore that is allowed".to_owned()),
            }
        });
    }
    for (field, allowed, wish) in [
        ("folders", folders, &subject.wishes.folder),
        ("resourcePools", resource_pools, &subject.wishes.resource_pool),
    ] {
        if allowed.is_empty() {
            continue;
        }
        rules.add(name(field), weight, move |_| {
            let wish = wish.as_ref().filter(|wish| !allowed.contains(wish))?;
            Some(format!("{wish} is asked for, and is not among {}", allowed.join(", ")))
        });
    }
    if !networks.is_empty() {
        rules.add(name("networks"), weight, move |_| {
            let other = subject.networks.iter().find(|network| !networks.contains(network))?;
            Some(format!("{other} is asked for, and is not among {}", networks.join(", ")))
        });
    }
}

fn resource_rules<'a>(
    rules: &mut Rules<'a>,
    constraints: &'a ResourceConstraints,
    subject: &'a Subject,
    around: &'a Surroundings,
) -> Result<(), Unmet> {
    let name = |field: &str| format!("spec.resourceConstraints.{field}");
    let bytes = |quantity: &Option<Quantity>, field: &str| {
        let bytes = quantity.as_ref().map(Quantity::to_u64).transpose();
        bytes.map_err(|error| Unmet::Invalid(name(field), error.to_string()))
    };
    if let Some(least) = constraints.min_cpu_per_host.and_then(|least| u64::try_from(least).ok()) {
        rules.add(name("minCPUPerHost"), None, move |host| {
            let (cpu, _) = free(host, around);
            (cpu < least).then(|| format!("{cpu} CPUs are left, and not {least}"))
        });
    }
    if let Some(least) = bytes(&constraints.min_memory_per_host, "minMemoryPerHost")? {
        let least = least.div_ceil(MIB);
        rules.add(name("minMemoryPerHost"), None, move |host| {
            let (_, memory) = free(host, around);
            (memory < least).then(|| format!("{memory} MiB are left, and not {least}"))
        });
    }
    if let Some(least) = bytes(&constraints.min_disk_space_per_host, "minDiskSpacePerHost")? {
        let least = least.div_ceil(GIB);
        rules.add(name("minDiskSpacePerHost"), None, move |host| {
            let Some(all) = host.disk_gib else { return Some(no_disk_told()) };
            let left = all.saturating_sub(host.disk_gib_used);
            (left < least).then(|| format!("{left} GiB are left, and not {least}"))
        });
    }
    // What counts is the share once the machine is there.
    let over = |used: u64, all: u64, most: i32| {
        let share = used.saturating_mul(100) / all.max(1);
        let most = u64::try_from(most).unwrap_or(0);
        (share > most).then(|| format!("{share}% would be in use, and {most}% may be"))
    };
    if let Some(most) = constraints.max_cpu_utilization {
        rules.add(name("maxCPUUtilization"), None, move |host| {
            let (cpu, _) = free(host, around);
            let used = u64::from(host.cpu).saturating_sub(cpu) + u64::from(subject.cpu);
            over(used, u64::from(host.cpu), most)
        });
    }
    if let Some(most) = constraints.max_memory_utilization {
        rules.add(name("maxMemoryUtilization"), None, move |host| {
            let (_, memory) = free(host, around);
            let used = host.memory_mib.saturating_sub(memory).saturating_add(subject.memory_mib);
            over(used, host.memory_mib, most)
        });
    }
    if let Some(most) = constraints.max_disk_utilization {
        rules.add(name("maxDiskUtilization"), None, move |host| {
            let Some(all) = host.disk_gib else { return Some(no_disk_told()) };
            over(host.disk_gib_used.saturating_add(subject.disk_gib), all, most)
        });
    }
    for feature in &constraints.required_features {
        offers(rules, name("requiredFeatures"), None, feature.clone());
    }
    for feature in &constraints.preferred_features {
        offers(rules, name("preferredFeatures"), Some(WEIGHT), feature.clone());
    }
    Ok(())
}

fn no_disk_told() -> String {
    "the host does not tell its disk space".to_owned()
}

fn offers(rules: &mut Rules<'_>, name: String, weight: Option<i64>, feature: String) {
    rules.add(name, weight, move |host| {
        let offered = host.features.iter().any(|offered| offered.eq_ignore_ascii_case(&feature));
        (!offered).then(|| format!("the host does not offer {feature}"))
    });
}

/// The labels by which a host tells how far it is trusted and keeps machines apart.
const ISOLATION: &str = "sutler.dev/isolation-level";
const TRUST: &str = "sutler.dev/trust-level";

fn security_rules(rules: &mut Rules<'_>, constraints: &SecurityConstraints) -> Result<(), Unmet> {
    let name = |field: &str| format!("spec.securityConstraints.{field}");
    for (field, required, feature) in [
        ("requireSecureBoot", constraints.require_secure_boot, "secure-boot"),
        ("requireTPM", constraints.require_tpm, "tpm"),
        ("requireEncryptedStorage", constraints.require_encrypted_storage, "encrypted-storage"),
        ("requireNUMATopology", constraints.require_numa_topology, "numa"),
    ] {
        if required == Some(true) {
            offers(rules, name(field), None, feature.to_owned());
        }
    }
    const ISOLATIONS: [&str; 4] = ["none", "basic", "strict", "maximum"];
    const TRUSTS: [&str; 4] = ["untrusted", "basic", "trusted", "highly-trusted"];
    let isolation = constraints.isolation_level.map(IsolationLevel::as_str);
    let trust = constraints.trust_level.map(TrustLevel::as_str);
    for (field, label, levels, least) in
        [("isolationLevel", ISOLATION, ISOLATIONS, isolation), ("trustLevel", TRUST, TRUSTS, trust)]
    {
        let Some(least) = least.and_then(|least| levels.iter().position(|l| *l == least)) else {
            continue;
        };
        rules.add(name(field), None, move |host| {
            let told = host.labels.get(label);
            let level = told.and_then(|told| levels.iter().position(|level| level == told));
            let wanted = levels[least];
            (level.unwrap_or(0) < least)
                .then(|| format!("the host is not labelled {label}={wanted} or higher"))
        });
    }
    if !constraints.allowed_security_groups.is_empty() {
        return Err(Unmet::Unserved(name("allowedSecurityGroups")));
    }
    if !constraints.denied_security_groups.is_empty() {
        return Err(Unmet::Unserved(name("deniedSecurityGroups")));
    }
    Ok(())
}

/// What a policy chooses where the record names nothing: the first that must be, or should be.
pub(super) fn choose(
    policy: &VMPlacementPolicySpec,
    wish: Option<&String>,
    of: fn(&PlacementConstraints) -> &Vec<String>,
) -> Option<String> {
    let hard = policy.hard.as_ref().and_then(|hard| of(hard).first());
    let soft = policy.soft.as_ref().and_then(|soft| of(soft).first());
    wish.or(hard).or(soft).cloned()
}

/// The datastore for a machine on a host; none leaves it to the platform.
pub(super) fn datastore(
    policy: &VMPlacementPolicySpec,
    subject: &Subject,
    around: &Surroundings,
    host: &Host,
    before: Option<&Placed>,
) -> Option<String> {
    if let Some(wish) = &subject.wishes.datastore {
        return Some(wish.clone());
    }
    near::best_datastore(policy, around, host, before.and_then(|before| before.datastore.as_ref()))
}
