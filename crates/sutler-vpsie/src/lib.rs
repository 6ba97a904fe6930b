//! Machines and managed Kubernetes nodes on VPSie, as a provider.
//!
//! [`Vpsie`] is a [`Provider`](sutler_provider::Provider) for one account. What it rests upon:
//!
//! - VPSie tells no ID when it makes a machine, refuses nothing twice, and its managed nodes carry nothing
//!   of ours. So a create answers that it was taken, and the list shows everything that there is: machines,
//!   and the workers of the account's clusters, which no list of machines shows (`provider/inventory`).
//! - The API is spoken in two dialects, as the vendor's own programs do ([`Dialect`]); [`VpsieApi`] is what
//!   both have in common, and [`client::connect`] gives either.
//! - Whether something has happened is never guessed: what every answer means is one table
//!   ([`client::fault`]), and a list lacks nothing or is an error.
//!
//! With the feature `fake`, `fake` is a stand-in for VPSie's API on the loopback interface.

pub mod client;
#[cfg(feature = "fake")]
pub mod fake;
mod provider;
mod settings;

pub use client::{Connection, VpsieApi};
pub use provider::{Vpsie, raw};
pub use settings::{Dialect, Plan, Settings};
