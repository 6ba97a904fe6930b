//! Everything the crate does with whole objects, against what a real server did with them.

mod pipeline;
mod properties;
mod protobuf;
mod refused;
mod stored;
mod tables;
