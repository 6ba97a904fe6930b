//! Kubernetes nodes made of machines: groups of them, and each node's claim, joining and leaving.
//!
//! The chain is NodeGroup → VPSieNode → VirtualMachine → Provider, and each link has one duty. A group
//! ([`group`]) keeps as many records as it should. A record ([`node`]) claims one Kubernetes node: it
//! asks for a machine by making a VirtualMachine's record, waits for the node to join, labels it, and
//! sees to it that pods have left before the machine goes. Machines are none of its business beyond
//! that: the engine of `sutler-control` makes, finds and removes them, and both meet in the API alone.

mod bootstrap;
pub mod cluster;
mod conditions;
mod config;
mod context;
pub mod group;
pub mod node;
mod run;
mod scale;

pub use cluster::{ClusterConnector, Kubeconfigs};
pub use context::{Context, Settings};
pub use run::run;
