//! The provider contract on the wire.
//!
//! Any [`Provider`](sutler_provider::Provider) becomes a gRPC server ([`Server`]), and any endpoint
//! becomes a provider ([`Remote`]). Two services carry it:
//!
//! - `provider.v1.Provider` (`base`): the wire form of providers written for VirtRigaud, in any
//!   language and in both directions. It knows neither tokens nor error kinds.
//! - `sutler.provider.v1.Extensions` (`extended`): the whole contract. Each call is optional; where
//!   one is not there, the call of the base service is used.
//!
//! Connections are mutually authenticated with certificates that are read anew while they are in use
//! ([`tls`]); plaintext has to be asked for, and [`Security`] tells that it was.

mod base;
pub mod client;
mod extended;
mod json;
mod malformed;
pub mod pb;
pub mod server;
mod status;
pub mod tls;

pub use client::{Address, Remote, RemoteOptions};
pub use malformed::Malformed;
pub use server::{Hand, Listener, Server, ServerOptions};
pub use status::{error_of, status_of};
pub use tls::{ClientSecurity, Pem, PemFiles, Security, ServerSecurity, Store};

/// The port that providers listen on by default.
pub const DEFAULT_PORT: u16 = 9443;

/// The installation that machines belong to when they were made through `provider.v1`, whose callers
/// do not say where they live.
pub const BASE_INSTALLATION: &str = "provider.v1";
