//! `infra.virtrigaud.io/v1beta1`: machines, and what they are made of and on.

mod machine;
mod provider;
pub(crate) mod virtual_machine;
mod vm_class;
mod vm_clone;
mod vm_image;
mod vm_migration;
mod vm_network_attachment;
mod vm_placement_policy;
mod vm_set;
mod vm_snapshot;

pub use machine::*;
pub use provider::*;
pub use virtual_machine::*;
pub use vm_class::*;
pub use vm_clone::*;
pub use vm_image::*;
pub use vm_migration::*;
pub use vm_network_attachment::*;
pub use vm_placement_policy::*;
pub use vm_set::*;
pub use vm_snapshot::*;

/// The API group.
pub const GROUP: &str = "infra.virtrigaud.io";

/// The version that is served and stored.
pub const VERSION: &str = "v1beta1";
