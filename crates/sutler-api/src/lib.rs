//! Resource kinds, labels, conditions and CRDs of Sutler.
//!
//! Every kind is a [`kube::CustomResource`] in one of three groups: [`infra`] (machines),
//! [`autoscaler`] (Kubernetes nodes) and [`sutler`] (templates, applications, operations).
//! Manifests written for the systems that the first two groups come from apply unchanged.
//!
//! [`crds`] gives the definitions as they are served. Use it instead of the `crd()` that kube
//! derives: it makes schemas structural in our own way (absent instead of null, defaults, list
//! types, rules that look at the object before) and is what `deploy/crds` holds.
//!
//! Fields with a default are plain values; fields without one are `Option`s, empty lists or empty
//! maps, and are left out when they are written.

pub mod autoscaler;
pub mod conditions;
#[cfg(feature = "corpus")]
pub mod corpus;
pub mod crd;
mod defaults;
pub mod duration;
pub mod free_form;
pub mod infra;
pub mod names;
pub mod patterns;
pub mod progress;
pub mod quantity;
pub mod refs;
mod strings;
pub mod sutler;

pub use crd::{crd_yaml, crds};
