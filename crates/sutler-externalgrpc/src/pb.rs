//! Messages and service as the proto defines them; `tests/all/generated.rs` writes this code.

#![expect(
    missing_docs,
    clippy::allow_attributes,
    reason = "the proto says what is to be said, and the code is written by a generator"
)]

include!("generated/externalgrpc.rs.in");

/// The service's descriptors.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
