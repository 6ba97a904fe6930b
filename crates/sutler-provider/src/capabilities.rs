//! What a platform can do, as data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a platform can do. The controllers ask nothing of it that is not reported here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    /// What the platform refuses to have twice.
    pub unique_by: UniqueBy,
    /// Whether a machine can carry the ownership token.
    pub token: bool,
    /// Whether all machines can be listed.
    pub list: bool,
    /// How far behind the present a list may be.
    pub list_lag: Duration,
    /// Whether changes are told as they happen.
    pub events: bool,
    /// Whether guests' addresses are told.
    pub addresses: bool,
    /// Whether a create tells the machine's ID. Where it does not, the machine is looked for, and a
    /// request whose machine never shows is not sent again.
    pub returns_id: bool,
    /// Whether a machine's ID may be given again after its death.
    pub reuses_ids: bool,
    /// How long a machine's name may be.
    pub name_limit: usize,
    /// How long each call may take.
    pub deadlines: Deadlines,
    /// Calls that may be under way at the same time.
    pub concurrency: usize,
    /// Creates from one template that may be under way at the same time; 0 is any number.
    pub per_template: usize,
    /// Changes on one host that may be under way at the same time; 0 is any number.
    pub per_host: usize,
    /// CPU and memory can change while a machine runs.
    pub reconfigure_online: bool,
    /// CPU, memory, disks and cards can change at all.
    pub reconfigure: bool,
    /// Disks can grow while a machine runs.
    pub disk_growth_online: bool,
    /// The guest can be asked to shut down.
    pub graceful_shutdown: bool,
    /// Machines can be stopped in the middle.
    pub pause: bool,
    /// Snapshots can be taken.
    pub snapshots: bool,
    /// Snapshots can include memory.
    pub memory_snapshots: bool,
    /// Machines can be copied.
    pub clones: bool,
    /// Copies can share their parent's disks.
    pub linked_clones: bool,
    /// Images can be brought in from outside.
    pub image_import: bool,
    /// Disks can outlive their machines and be given to others.
    pub kept_disks: bool,
    /// Disks can be sent out.
    pub disk_export: bool,
    /// Disks can be brought in.
    pub disk_import: bool,
    /// Disks can be compressed on the way out.
    pub export_compression: bool,
    /// Virtual hardware can be given a newer version.
    pub hardware_upgrade: bool,
    /// Commands can be run in a guest.
    pub guest_commands: bool,
    /// Templates can be listed.
    pub templates: bool,
    /// Hosts can be listed.
    pub hosts: bool,
    /// A console can be opened.
    pub console: bool,
    /// Machines can move between hosts while they run.
    pub live_migration: bool,
    /// Machines can be nodes of a managed Kubernetes group.
    pub managed_nodes: bool,
    /// Disk types that it makes.
    pub disk_types: Vec<String>,
    /// Network types that it makes.
    pub network_types: Vec<String>,
    /// Disk formats that it sends out.
    pub export_formats: Vec<String>,
    /// Disk formats that it takes in.
    pub import_formats: Vec<String>,
    /// Storage that disks can pass through.
    pub transfer_backends: Vec<String>,
    /// The version of the platform.
    pub version: Option<String>,
}

impl Default for Capabilities {
    /// The least that a platform can do, and the most careful reading of it.
    fn default() -> Self {
        Self {
            unique_by: UniqueBy::None,
            token: false,
            list: false,
            list_lag: Duration::ZERO,
            events: false,
            addresses: false,
            returns_id: true,
            reuses_ids: true,
            name_limit: 63,
            deadlines: Deadlines::default(),
            concurrency: 8,
            per_template: 0,
            per_host: 0,
            reconfigure_online: false,
            reconfigure: false,
            disk_growth_online: false,
            graceful_shutdown: false,
            pause: false,
            snapshots: false,
            memory_snapshots: false,
            clones: false,
            linked_clones: false,
            image_import: false,
            kept_disks: false,
            disk_export: false,
            disk_import: false,
            export_compression: false,
            hardware_upgrade: false,
            guest_commands: false,
            templates: false,
            hosts: false,
            console: false,
            live_migration: false,
            managed_nodes: false,
            disk_types: Vec::new(),
            network_types: Vec::new(),
            export_formats: Vec::new(),
            import_formats: Vec::new(),
            transfer_backends: Vec::new(),
            version: None,
        }
    }
}

/// What a platform refuses to have twice, and so how far "never two" reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum UniqueBy {
    /// A second machine with the same ownership token.
    Token,
    /// A second machine of the same name.
    Name,
    /// Nothing: an extra may appear after a lost request, and is reaped.
    #[default]
    None,
}

/// How long calls may take. What a call did is certain to show within this time and the list's lag,
/// or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deadlines {
    /// Validate, capabilities, describe, task status and other looks at one thing.
    pub look: Duration,
    /// A list of everything.
    pub list: Duration,
    /// Create, reconfigure, clone, image preparation, snapshot.
    pub make: Duration,
    /// Delete, power.
    pub change: Duration,
    /// Export and import of disks.
    pub transfer: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            look: Duration::from_secs(30),
            list: Duration::from_secs(120),
            make: Duration::from_secs(300),
            change: Duration::from_secs(120),
            transfer: Duration::from_secs(1800),
        }
    }
}
