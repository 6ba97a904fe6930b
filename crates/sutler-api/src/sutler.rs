//! `sutler.dev/v1alpha1`: templates, applications, adoptions, agents, disks and operations.

mod agent;
mod application;
mod operation;
pub(crate) mod pending_adoption;
pub(crate) mod vm_disk;
mod vm_template;

pub use agent::*;
pub use application::*;
pub use operation::*;
pub use pending_adoption::*;
pub use vm_disk::*;
pub use vm_template::*;

/// The API group.
pub const GROUP: &str = "sutler.dev";

/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";
