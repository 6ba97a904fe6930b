//! The three patch types that are computed on the server and know nothing of ownership.

mod json;
mod merge;
mod order;
mod strategic;

pub use self::{
    json::{OPERATIONS_MOST, json},
    merge::{check_merge, merge},
    strategic::strategic,
};

/// Why a patch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself is malformed (400, reason `BadRequest`).
    #[error("{0}")]
    BadRequest(String),
    /// The patch has too many operations (413, reason `RequestEntityTooLarge`).
    #[error("{0}")]
    TooLarge(String),
    /// The patch does not apply to this object (422, reason `Invalid`). Clients see no more than
    /// [`PatchError::UNPROCESSABLE`].
    #[error("{0}")]
    Unprocessable(String),
    /// The patch breaks a rule for which there is no better answer (500, no reason).
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// The message that clients see for [`PatchError::Unprocessable`].
    pub const UNPROCESSABLE: &'static str =
        "the server rejected our request due to an error in our request";

    /// The message of the Status.
    pub fn message(&self) -> &str {
        match self {
            Self::BadRequest(text) | Self::TooLarge(text) | Self::Internal(text) => text,
            Self::Unprocessable(_) => Self::UNPROCESSABLE,
        }
    }
}
