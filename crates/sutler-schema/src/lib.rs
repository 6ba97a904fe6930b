//! What a Kubernetes API server does with an object before it is stored: decoding, defaulting,
//! pruning, validation and CEL rules, as pure functions over JSON values and a schema tree.
//!
//! A write of a custom resource goes through these, in this order:
//! 1. [`decode::json`] or [`decode::yaml`];
//! 2. [`defaults::apply_defaults`];
//! 3. [`prune::coerce`], which drops unknown fields and normalises the metadata;
//! 4. [`meta::validate_object_meta`] or its sibling for updates, and [`validate::Validator`].
//!
//! Messages are part of the wire format: they equal those of kube-apiserver 1.36, from which the
//! expectations under `tests/recorded` were taken.

mod cel;
pub mod decode;
pub mod defaults;
pub mod error;
pub mod meta;
pub mod names;
pub mod node;
pub mod object_meta;
pub mod path;
pub mod prune;
pub mod quantity;
pub mod selector;
#[cfg(test)]
mod testing;
pub mod text;
pub mod time;
pub mod validate;
