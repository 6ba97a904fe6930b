//! Structural schemas: defaulting, pruning, validation and CEL rules.

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
