//! `sutler.dev/v1alpha1`: templates, applications, adoptions, agents and operations.

mod agent;
mod application;
mod operation;
pub(crate) mod pending_adoption;
mod vm_template;

pub use agent::*;
pub use application::*;
pub use operation::*;
pub use pending_adoption::*;
pub use vm_template::*;

/// The API group.
pub const GROUP: &str = "sutler.dev";

/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";
