//! Acme as a provider of machines.

pub mod check;
pub mod platform;
pub mod provider;

pub use platform::Platform;
pub use provider::AcmeProvider;
