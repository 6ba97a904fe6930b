//! Messages and services as the protos define them; `tests/all/generated.rs` writes this code.

/// `provider.v1`: the wire form of providers written for VirtRigaud.
#[expect(
    missing_docs,
    clippy::allow_attributes,
    reason = "the protos say what is to be said, and the code is written by a generator"
)]
pub mod base {
    include!("generated/provider.v1.rs.in");
}

/// `sutler.provider.v1`: what the base service lacks.
#[expect(
    missing_docs,
    clippy::allow_attributes,
    clippy::large_enum_variant,
    reason = "the protos say what is to be said, and the code is written by a generator"
)]
pub mod extended {
    include!("generated/sutler.provider.v1.rs.in");
}

/// Both services' descriptors, as reflection serves them.
pub const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
