//! What a platform can do, in the few words of `provider.v1`.

use sutler_provider::{Capabilities, UniqueBy};

use crate::pb::base as pb;

/// What the base service says of these capabilities.
pub(crate) fn to(capabilities: Capabilities) -> pb::GetCapabilitiesResponse {
    let can = capabilities;
    let moves = can.disk_export || can.disk_import;
    pb::GetCapabilitiesResponse {
        supports_reconfigure_online: can.reconfigure_online,
        supports_disk_expansion_online: can.disk_growth_online,
        supports_snapshots: can.snapshots,
        supports_memory_snapshots: can.memory_snapshots,
        supports_linked_clones: can.linked_clones,
        supports_image_import: can.image_import,
        supported_disk_types: can.disk_types,
        supported_network_types: can.network_types,
        supports_disk_export: can.disk_export,
        supports_disk_import: can.disk_import,
        supported_export_formats: can.export_formats,
        supported_import_formats: can.import_formats,
        supports_export_compression: can.export_compression,
        supported_export_backends: can.transfer_backends.clone(),
        supported_import_backends: can.transfer_backends,
        supported_transfer_modes: moves.then(|| "relay".to_owned()).into_iter().collect(),
    }
}

/// What a provider without the Extensions can do. It carries no tokens, so its machines are known by
/// their hashed names, and found in the list before anything is created again.
pub(crate) fn from(
    answer: pb::GetCapabilitiesResponse,
    unique_by: UniqueBy,
    list: bool,
) -> Capabilities {
    let pb::GetCapabilitiesResponse {
        supports_reconfigure_online,
        supports_disk_expansion_online,
        supports_snapshots,
        supports_memory_snapshots,
        supports_linked_clones,
        supports_image_import,
        supported_disk_types,
        supported_network_types,
        supports_disk_export,
        supports_disk_import,
        supported_export_formats,
        supported_import_formats,
        supports_export_compression,
        supported_export_backends,
        supported_import_backends,
        supported_transfer_modes: _,
    } = answer;
    let mut transfer_backends = supported_export_backends;
    transfer_backends.extend(supported_import_backends);
    transfer_backends.sort();
    transfer_backends.dedup();
    Capabilities {
        unique_by: if unique_by == UniqueBy::Token { UniqueBy::Name } else { unique_by },
        token: false,
        list,
        addresses: true,
        returns_id: true,
        // Names are IDs on some platforms, and names come again.
        reuses_ids: true,
        reconfigure: true,
        reconfigure_online: supports_reconfigure_online,
        disk_growth_online: supports_disk_expansion_online,
        graceful_shutdown: true,
        snapshots: supports_snapshots,
        memory_snapshots: supports_memory_snapshots,
        // Nothing else is said of copies.
        clones: supports_linked_clones,
        linked_clones: supports_linked_clones,
        image_import: supports_image_import,
        disk_export: supports_disk_export,
        disk_import: supports_disk_import,
        export_compression: supports_export_compression,
        disk_types: supported_disk_types,
        network_types: supported_network_types,
        export_formats: supported_export_formats,
        import_formats: supported_import_formats,
        transfer_backends,
        ..Capabilities::default()
    }
}
