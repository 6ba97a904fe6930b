//! `autoscaler.vpsie.com/v1alpha1`: groups of Kubernetes nodes.

mod autoscaler_config;
mod condition;
pub mod next_nodes;
mod node_group;
mod policies;
pub mod records;
pub mod removal;
mod vpsie_node;

pub use autoscaler_config::*;
pub use condition::*;
pub use node_group::*;
pub use policies::*;
pub use vpsie_node::*;

/// The API group.
pub const GROUP: &str = "autoscaler.vpsie.com";

/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";
