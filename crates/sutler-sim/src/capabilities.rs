//! What the simulated platform says that it can do.

use sutler_provider::Capabilities;

use crate::settings::{Feature, Ids, Settings};

pub(crate) fn of(settings: &Settings) -> Capabilities {
    let can = |feature| settings.can(feature);
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Capabilities {
        unique_by: settings.unique_by,
        token: settings.token,
        returns_id: settings.returns_id,
        list: can(Feature::List),
        list_lag: settings.list_lag,
        events: can(Feature::Events),
        addresses: can(Feature::Addresses),
        reuses_ids: settings.ids == Ids::Reused,
        name_limit: settings.name_limit,
        deadlines: settings.deadlines(),
        concurrency: settings.concurrency,
        per_template: settings.per_template,
        per_host: settings.per_host,
        reconfigure: can(Feature::Reconfigure),
        reconfigure_online: can(Feature::Reconfigure) && can(Feature::ReconfigureOnline),
        disk_growth_online: can(Feature::Reconfigure) && can(Feature::DiskGrowthOnline),
        graceful_shutdown: can(Feature::GracefulShutdown),
        pause: can(Feature::Pause),
        snapshots: can(Feature::Snapshots),
        memory_snapshots: can(Feature::Snapshots) && can(Feature::MemorySnapshots),
        clones: can(Feature::Clones),
        linked_clones: can(Feature::Clones) && can(Feature::LinkedClones),
        image_import: can(Feature::ImageImport),
        kept_disks: can(Feature::KeptDisks),
        disk_export: can(Feature::DiskExport),
        disk_import: can(Feature::DiskImport),
        export_compression: can(Feature::DiskExport),
        hardware_upgrade: can(Feature::HardwareUpgrade),
        guest_commands: can(Feature::GuestCommands),
        templates: can(Feature::Templates),
        hosts: can(Feature::Hosts),
        console: can(Feature::Console),
        live_migration: false,
        managed_nodes: can(Feature::ManagedNodes),
        disk_types: texts(&["thin", "thick"]),
        network_types: texts(&["bridge"]),
        export_formats: texts(&["qcow2", "raw"]),
        import_formats: texts(&["qcow2", "raw", "vmdk"]),
        transfer_backends: texts(&["pvc", "s3", "nfs"]),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    }
}
