//! The built-in Kubernetes kinds that the embedded API server serves, as data and pure functions.
//!
//! The table in [`kinds`] says which there are; `data/` holds the facts about their fields (written
//! by `tools/generate`); the rest of the crate is what the API does with their objects: reading
//! them ([`decode()`], [`decode_protobuf`]), defaults, the changes that each kind makes on create and
//! update, validation, field selectors and tables.
//!
//! A new object passes through `decode`, [`apply_defaults`], [`admit_create`], [`prepare_for_create`]
//! and [`validate_create`]; a changed one through `decode`, [`apply_defaults`], [`admit_update`],
//! [`prepare_for_update`] and [`validate_update`].

mod admission;
mod decode;
mod defaults;
mod event;
mod image;
mod json;
mod kind;
mod print;
mod protobuf;
mod quantity;
mod schema;
mod select;
mod strategy;
mod time;
mod types;
mod unstructured;
mod validate;
mod warnings;

pub use admission::{admit_create, admit_update};
pub use decode::{DecodeError, decode};
pub use defaults::apply_defaults;
pub use event::{event_from_v1, event_to_v1};
pub use kind::{Kind, Role, Scope, Subresource, kinds, lookup, reviews};
pub use print::{Column, cells, columns, row_conditions};
pub use protobuf::{ProtobufError, decode_protobuf, encode_protobuf, encode_protobuf_event};
pub use schema::{definitions, definitions_v2};
pub use select::{field_value, selectable_fields, unsupported_field};
pub use strategy::{
    assign_cluster_ip, assign_node_ports, is_cluster_ip, needs_cluster_ip, prepare_for_create,
    prepare_for_update,
};
pub use unstructured::misfit;
pub use validate::{validate_create, validate_update};
pub use warnings::warnings;
