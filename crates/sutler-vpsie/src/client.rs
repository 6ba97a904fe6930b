//! VPSie's API: what it can be asked ([`VpsieApi`]), and how it is asked over HTTP ([`connect`]).

mod api;
mod auth;
pub mod fault;
mod govpsie;
mod http;
mod pages;
#[cfg(test)]
mod races;
mod retry_after;
#[cfg(test)]
mod tests;
mod types;
mod v2;
mod wire;

pub use api::VpsieApi;
pub use http::Connection;
pub use types::{
    Action, Cluster, NewVm, Node, NodeGroup, Offering, OsImage, Pending, Role, Snapshot, Vm,
};

use std::sync::Arc;

use sutler_provider::Result;

use crate::settings::Dialect;

/// What is shared between threads is made of these; `races.rs` puts others in their place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering};
}

/// The API at the far end of a connection. Nothing is sent yet.
pub fn connect(connection: &Connection) -> Result<Arc<dyn VpsieApi>> {
    let http = http::Http::new(connection)?;
    Ok(match connection.dialect {
        Dialect::Govpsie => Arc::new(govpsie::Govpsie(http)),
        Dialect::V2 => Arc::new(v2::V2(http)),
    })
}
