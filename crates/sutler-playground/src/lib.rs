//! A Kubernetes cluster that is played on simulated machines, so that groups of nodes can be tried and
//! tested where there is no cluster.
//!
//! What is played is what a cluster's own programs do, as far as groups of nodes need them:
//!
//! - the kubelet (`nodes.rs`, `pods.rs`): a machine that booted with a join document becomes a Node, which is
//!   no longer ready when its machine is off or gone; pods on it run, and end when they are asked to;
//! - the scheduler (`schedule.rs`): pods are bound to nodes that have room, by the filters that decisions on
//!   scaling use, or are marked `Unschedulable`;
//! - the controllers of ReplicaSets and Deployments (`workloads.rs`), and of pods whose node is gone.
//!
//! Everything goes through the API, as in a cluster, and is a function of what is in the caches: a pass
//! looks at all of it after something has happened, and nothing is polled. No container runs, and volumes,
//! networks, DaemonSets, Jobs and preemption are not played.

mod join;
mod nodes;
mod pods;
mod run;
mod schedule;
mod workloads;

pub use run::{Platforms, run};
