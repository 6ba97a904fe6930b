//! What kind of platform is simulated.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sutler_provider::{Deadlines, Error, Template, UniqueBy};

mod chances;
pub(crate) mod duration;
mod options;
mod times;

pub use chances::{Chances, OutageChance};
pub use times::{DeadlineSettings, Latency, WorkTimes};

/// What kind of platform is simulated. The default is a quick and honest one: everything happens at
/// once, tokens are unique, and nothing goes wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Settings {
    /// Where all randomness comes from.
    pub seed: u64,
    /// What is refused a second time.
    pub unique_by: UniqueBy,
    /// Whether names are unique besides tokens; says nothing where `unique_by` is not `Token`.
    pub unique_names: bool,
    /// Whether machines carry ownership tokens.
    pub token: bool,
    /// How IDs are given.
    pub ids: Ids,
    /// Whether creates tell the machine's ID.
    pub returns_id: bool,
    /// When a machine that is being made is first seen.
    pub appears: Appears,
    /// Whether work that takes time is answered with a task; otherwise the call waits for its end.
    pub tasks: bool,
    /// How many finished tasks are remembered.
    pub task_history: usize,
    /// How long calls take to be answered.
    pub latency: Latency,
    /// How long the work behind them takes.
    pub work: WorkTimes,
    /// By how many percent times are longer or shorter, at random.
    pub jitter: u8,
    /// What the capabilities say of how long calls take; longer latencies are refused.
    pub deadlines: DeadlineSettings,
    /// How far behind the present lists are.
    #[serde(with = "duration")]
    pub list_lag: Duration,
    /// Calls that may be under way at the same time, as the capabilities say.
    pub concurrency: usize,
    /// Creates from one template at the same time, as the capabilities say.
    pub per_template: usize,
    /// Changes on one host at the same time, as the capabilities say.
    pub per_host: usize,
    /// How long names may be.
    pub name_limit: usize,
    /// Events that a slow subscriber can be behind before it loses some.
    pub event_buffer: usize,
    /// Whether machines have IPv6 addresses too.
    pub ipv6: bool,
    /// How many addresses are left out before the first, so that platforms on one network differ.
    pub first_address: u64,
    /// What the platform puts behind the hostname that it was asked for.
    pub hostname_suffix: String,
    /// Whether nodes of managed groups are called as the platform pleases, whatever was asked for.
    pub own_names: bool,
    /// Hosts that machines run on.
    pub hosts: Vec<HostSettings>,
    /// What may be used in all.
    pub quota: Quota,
    /// Templates that are there.
    pub templates: Vec<TemplateSettings>,
    /// Whether images that are neither a template nor prepared are refused.
    pub strict_templates: bool,
    /// What the platform cannot do.
    pub without: BTreeSet<Feature>,
    /// What goes wrong, and how often.
    pub faults: Chances,
    /// Whether every change is remembered.
    pub history: bool,
    /// Whether changes are forced to the disk before they are answered. Without it they outlive the
    /// process, but not a power failure.
    pub sync: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 0,
            unique_by: UniqueBy::Token,
            unique_names: true,
            token: true,
            ids: Ids::Increasing,
            returns_id: true,
            appears: Appears::Accepted,
            tasks: true,
            task_history: 10_000,
            latency: Latency::default(),
            work: WorkTimes::default(),
            jitter: 0,
            deadlines: DeadlineSettings::default(),
            list_lag: Duration::ZERO,
            concurrency: 64,
            per_template: 0,
            per_host: 0,
            name_limit: 63,
            event_buffer: 4096,
            ipv6: false,
            first_address: 0,
            hostname_suffix: String::new(),
            own_names: false,
            hosts: vec![HostSettings::default()],
            quota: Quota::default(),
            templates: vec![TemplateSettings::default()],
            strict_templates: false,
            without: BTreeSet::new(),
            faults: Chances::default(),
            history: false,
            sync: false,
        }
    }
}

impl Settings {
    /// Reads the settings from a Provider's `spec.options`; an error names the field below it.
    pub fn from_options(options: &Map<String, Value>) -> Result<Self, Error> {
        let settings = options::read(options)?;
        settings.check()?;
        Ok(settings)
    }

    /// Whether these settings can be simulated truthfully.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |field: &str, why: &str| Err(options::wrong(field, why));
        if self.unique_by == UniqueBy::Token && !self.token {
            return wrong("uniqueBy", "tokens cannot be unique where machines carry none");
        }
        if self.jitter > 100 {
            return wrong("jitter", "more than 100 percent");
        }
        if self.name_limit < 8 {
            return wrong("nameLimit", "less than 8 characters");
        }
        if self.event_buffer == 0 || self.event_buffer > 1 << 20 {
            return wrong("eventBuffer", "not between 1 and 1048576");
        }
        if self.concurrency == 0 {
            return wrong("concurrency", "no call could ever be made");
        }
        if self.hosts.is_empty() {
            return wrong("hosts", "there is none");
        }
        for (index, host) in self.hosts.iter().enumerate() {
            if host.name.is_empty() || self.hosts[..index].iter().any(|h| h.name == host.name) {
                return wrong(&format!("hosts[{index}].name"), "empty, or given twice");
            }
        }
        self.faults.check()?;
        times::check(self)
    }

    pub(crate) fn can(&self, feature: Feature) -> bool {
        !self.without.contains(&feature)
    }

    pub(crate) fn deadlines(&self) -> Deadlines {
        self.deadlines.into()
    }
}

/// How machines get their IDs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ids {
    /// Each ID is given once.
    #[default]
    Increasing,
    /// The lowest one that is free, so that a dead machine's ID is given again.
    Reused,
}

/// When a machine that is being made is first seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Appears {
    /// As soon as its making began; it is busy until it is made.
    #[default]
    Accepted,
    /// Once it is made.
    Made,
}

/// A host of the simulated platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct HostSettings {
    /// Its name.
    pub name: String,
    /// Virtual CPUs that it can give out.
    pub cpu: u32,
    /// Memory in MiB that it can give out.
    pub memory_mib: u64,
    /// The compute cluster that it is part of.
    pub cluster: Option<String>,
    /// The zone that it is in.
    pub zone: Option<String>,
    /// The region that it is in.
    pub region: Option<String>,
    /// Datastores that its machines can be on.
    pub datastores: Vec<String>,
    /// Labels that it has.
    pub labels: BTreeMap<String, String>,
    /// What its hardware offers.
    pub features: Vec<String>,
}

impl Default for HostSettings {
    /// One that is never full in practice.
    fn default() -> Self {
        Self {
            name: "sim-1".to_owned(),
            cpu: 1 << 20,
            memory_mib: 1 << 32,
            cluster: None,
            zone: None,
            region: None,
            datastores: Vec::new(),
            labels: BTreeMap::new(),
            features: Vec::new(),
        }
    }
}

/// What may be used in all; what is absent is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Quota {
    /// Machines.
    pub machines: Option<usize>,
    /// Virtual CPUs.
    pub cpu: Option<u64>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
}

/// A template of the simulated platform.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TemplateSettings {
    /// Its name, which is its ID too.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The host that has it, where only one does.
    pub host: Option<String>,
    /// Size of its disk in GiB.
    pub size_gib: u64,
}

impl Default for TemplateSettings {
    fn default() -> Self {
        Self { name: "debian-13".to_owned(), description: None, host: None, size_gib: 10 }
    }
}

impl TemplateSettings {
    pub(crate) fn shown(&self) -> Template {
        Template {
            id: self.name.clone(),
            name: self.name.clone(),
            host: self.host.clone(),
            description: self.description.clone(),
            size_gib: Some(self.size_gib),
        }
    }
}

/// Something that a platform may be unable to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Feature {
    /// List machines.
    List,
    /// Tell of disks and snapshots in lists, and not only when asked for one machine.
    ListedDisks,
    /// Tell of changes.
    Events,
    /// Tell guests' addresses.
    Addresses,
    /// Change CPU, memory, disks and cards.
    Reconfigure,
    /// Change CPU and memory while a machine runs.
    ReconfigureOnline,
    /// Grow disks while a machine runs.
    DiskGrowthOnline,
    /// Ask a guest to shut down.
    GracefulShutdown,
    /// Stop a machine in the middle.
    Pause,
    /// Take snapshots.
    Snapshots,
    /// Save memory with a snapshot.
    MemorySnapshots,
    /// Copy machines.
    Clones,
    /// Let copies share their parent's disks.
    LinkedClones,
    /// Bring images in.
    ImageImport,
    /// Let disks outlive their machines.
    KeptDisks,
    /// Send disks out.
    DiskExport,
    /// Bring disks in.
    DiskImport,
    /// Give virtual hardware a newer version.
    HardwareUpgrade,
    /// Run commands in a guest.
    GuestCommands,
    /// List templates.
    Templates,
    /// List hosts.
    Hosts,
    /// Open a console.
    Console,
    /// Make nodes of managed groups.
    ManagedNodes,
}
