//! NodeGroups as the stock cluster-autoscaler drives them.
//!
//! cluster-autoscaler asks cloud providers that it does not know itself over gRPC
//! (`--cloud-provider=externalgrpc`). [`CloudProvider`] answers it from the NodeGroups, VPSieNodes and
//! Nodes of a Kubernetes API, and writes what it decides into `spec.desiredNodes` and, where certain
//! nodes are to go, into the annotation of [`sutler_api::autoscaler::removal`]. It makes and removes
//! nothing itself: that is the NodeGroup controller's duty.
//!
//! - A read is answered from watches that all calls share (`cache`), and never shows less than what
//!   this process has written itself.
//! - A write is decided on what the API holds at that moment and names the version that it was
//!   decided on (`resize`). When an answer is lost, the group is looked at before anything is sent
//!   again, so that no size is changed twice.
//!
//! [`serve()`] serves it on connections that somebody else accepted, [`listen_tls`] accepts them with
//! certificates that may change while it listens.

mod cache;
mod cluster;
mod error;
mod groups;
mod instances;
mod listen;
mod node_bytes;
mod options;
mod owner;
pub mod pb;
mod resize;
mod serve;
mod service;
mod template;

pub use cluster::Cluster;
pub use error::Error;
pub use listen::{Connection, listen_tls};
pub use node_bytes::encode_node;
pub use serve::{ServeError, serve};
pub use service::CloudProvider;

/// The label that nodes with a GPU have, its value the GPU's type. cluster-autoscaler waits for the
/// GPU of a node that has it to show before it counts the node as ready.
pub const GPU_LABEL: &str = "sutler.dev/gpu";
