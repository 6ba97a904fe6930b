//! Server-side apply, managed fields and the patch types of Kubernetes, over JSON values whose type
//! is a [`Node`](sutler_schema::node::Node).
//!
//! - [`apply`](mod@apply): a configuration is merged into the live object, with conflicts between
//!   managers.
//! - [`update`]: who owns what after a create, update or patch.
//! - [`managed`]: `metadata.managedFields` as data, and its mapping to the scale subresource.
//! - [`fieldset`]: sets of field paths and their `FieldsV1` form.
//! - [`patch`]: JSON patch, merge patch and strategic merge patch.
//! - [`zero`]: the object of a built-in kind before anything is set.

pub mod apply;
mod engine;
pub mod fieldset;
mod last_applied;
pub mod managed;
pub mod patch;
mod scale;
mod schema;
#[cfg(test)]
mod testing;
mod time;
mod typed;
pub mod update;
mod value;
pub mod zero;
