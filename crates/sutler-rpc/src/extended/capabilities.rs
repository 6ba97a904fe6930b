//! What a platform can do.

use std::time::Duration;

use sutler_provider::{Capabilities, Deadlines, UniqueBy};

use crate::{malformed::Malformed, pb::extended as pb, status::millis};

impl From<Capabilities> for pb::Capabilities {
    fn from(capabilities: Capabilities) -> Self {
        let Capabilities {
            unique_by,
            token,
            list,
            list_lag,
            events,
            addresses,
            returns_id,
            reuses_ids,
            name_limit,
            deadlines,
            concurrency,
            per_template,
            per_host,
            reconfigure_online,
            reconfigure,
            disk_growth_online,
            graceful_shutdown,
            pause,
            snapshots,
            memory_snapshots,
            clones,
            linked_clones,
            image_import,
            kept_disks,
            disk_export,
            disk_import,
            export_compression,
            hardware_upgrade,
            guest_commands,
            templates,
            hosts,
            console,
            live_migration,
            managed_nodes,
            disk_types,
            network_types,
            export_formats,
            import_formats,
            transfer_backends,
            version,
        } = capabilities;
        let unique_by = match unique_by {
            UniqueBy::Token => pb::UniqueBy::Token,
            UniqueBy::Name => pb::UniqueBy::Name,
            UniqueBy::None => pb::UniqueBy::None,
        };
        Self {
            unique_by: unique_by.into(),
            token,
            list,
            list_lag_ms: millis(list_lag),
            events,
            addresses,
            returns_id,
            reuses_ids,
            name_limit: count(name_limit),
            deadlines: Some(deadlines.into()),
            concurrency: count(concurrency),
            per_template: count(per_template),
            per_host: count(per_host),
            reconfigure_online,
            reconfigure,
            disk_growth_online,
            graceful_shutdown,
            pause,
            snapshots,
            memory_snapshots,
            clones,
            linked_clones,
            image_import,
            kept_disks,
            disk_export,
            disk_import,
            export_compression,
            hardware_upgrade,
            guest_commands,
            templates,
            hosts,
            console,
            live_migration,
            managed_nodes,
            disk_types,
            network_types,
            export_formats,
            import_formats,
            transfer_backends,
            version,
        }
    }
}

impl TryFrom<pb::Capabilities> for Capabilities {
    type Error = Malformed;

    fn try_from(capabilities: pb::Capabilities) -> Result<Self, Malformed> {
        let pb::Capabilities {
            unique_by,
            token,
            list,
            list_lag_ms,
            events,
            addresses,
            returns_id,
            reuses_ids,
            name_limit,
            deadlines,
            concurrency,
            per_template,
            per_host,
            reconfigure_online,
            reconfigure,
            disk_growth_online,
            graceful_shutdown,
            pause,
            snapshots,
            memory_snapshots,
            clones,
            linked_clones,
            image_import,
            kept_disks,
            disk_export,
            disk_import,
            export_compression,
            hardware_upgrade,
            guest_commands,
            templates,
            hosts,
            console,
            live_migration,
            managed_nodes,
            disk_types,
            network_types,
            export_formats,
            import_formats,
            transfer_backends,
            version,
        } = capabilities;
        let unique_by = match pb::UniqueBy::try_from(unique_by) {
            Ok(pb::UniqueBy::Token) => UniqueBy::Token,
            Ok(pb::UniqueBy::Name) => UniqueBy::Name,
            // The most careful reading of what is not said or not known.
            Ok(pb::UniqueBy::None | pb::UniqueBy::Unspecified) | Err(_) => UniqueBy::None,
        };
        if unique_by == UniqueBy::Token && !token {
            return Err(Malformed::new("unique_by", "machines carry no tokens"));
        }
        let otherwise = Self::default();
        let name_limit = if name_limit == 0 { count(otherwise.name_limit) } else { name_limit };
        let concurrency = if concurrency == 0 { count(otherwise.concurrency) } else { concurrency };
        Ok(Self {
            unique_by,
            token,
            list,
            list_lag: Duration::from_millis(list_lag_ms),
            events,
            addresses,
            returns_id,
            reuses_ids,
            name_limit: size(name_limit),
            deadlines: deadlines.map(Into::into).unwrap_or_default(),
            concurrency: size(concurrency),
            per_template: size(per_template),
            per_host: size(per_host),
            reconfigure_online,
            reconfigure,
            disk_growth_online,
            graceful_shutdown,
            pause,
            snapshots,
            memory_snapshots,
            clones,
            linked_clones,
            image_import,
            kept_disks,
            disk_export,
            disk_import,
            export_compression,
            hardware_upgrade,
            guest_commands,
            templates,
            hosts,
            console,
            live_migration,
            managed_nodes,
            disk_types,
            network_types,
            export_formats,
            import_formats,
            transfer_backends,
            version,
        })
    }
}

impl From<Deadlines> for pb::Deadlines {
    fn from(Deadlines { look, list, make, change, transfer }: Deadlines) -> Self {
        Self {
            look_ms: millis(look),
            list_ms: millis(list),
            make_ms: millis(make),
            change_ms: millis(change),
            transfer_ms: millis(transfer),
        }
    }
}

impl From<pb::Deadlines> for Deadlines {
    fn from(deadlines: pb::Deadlines) -> Self {
        let pb::Deadlines { look_ms, list_ms, make_ms, change_ms, transfer_ms } = deadlines;
        let otherwise = Self::default();
        let or = |ms: u64, otherwise| if ms == 0 { otherwise } else { Duration::from_millis(ms) };
        Self {
            look: or(look_ms, otherwise.look),
            list: or(list_ms, otherwise.list),
            make: or(make_ms, otherwise.make),
            change: or(change_ms, otherwise.change),
            transfer: or(transfer_ms, otherwise.transfer),
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
