//! What VPSie can do, by dialect.

use std::time::Duration;

use sutler_provider::{Capabilities, Deadlines, UniqueBy};

use crate::settings::{Dialect, Settings};

/// The longest name: it becomes a host name.
pub(super) const NAME_LIMIT: usize = 63;

/// A call of ours is up to six of VPSie's, of up to half a minute each, and as long for its turn. None is
/// sent later than that.
const DEADLINES: Deadlines = Deadlines {
    look: Duration::from_secs(150),
    list: Duration::from_secs(300),
    make: Duration::from_secs(240),
    change: Duration::from_secs(240),
    transfer: Duration::from_secs(1800),
};

pub(super) fn of(settings: &Settings) -> Capabilities {
    let govpsie = settings.dialect == Dialect::Govpsie;
    Capabilities {
        // Nothing keeps VPSie from making two machines of one name.
        unique_by: UniqueBy::None,
        // Notes could hold a token, but a managed node has none that we could write, and what finds one
        // kind of machine must find the other.
        token: false,
        list: true,
        list_lag: settings.list_lag,
        addresses: true,
        // One dialect tells it for plain machines alone, which is as good as not at all.
        returns_id: false,
        // Nobody says that a number is given once only.
        reuses_ids: true,
        name_limit: NAME_LIMIT,
        deadlines: DEADLINES,
        concurrency: 8,
        // Of those that the other dialect has, none are documented.
        snapshots: govpsie,
        templates: !govpsie,
        managed_nodes: true,
        version: Some(match settings.dialect {
            Dialect::Govpsie => "govpsie".to_owned(),
            Dialect::V2 => "v2".to_owned(),
        }),
        ..Capabilities::default()
    }
}
