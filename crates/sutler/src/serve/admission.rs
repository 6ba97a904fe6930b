//! Checks of writes that no schema can make: in process for the embedded API server, and as a webhook
//! for that of a cluster.

mod authority;
mod door;
mod webhook;

use sutler_admission::{Denial, Kind, Operation, Who, check};
use sutler_store::{
    admit::{self, Admit, Attempt},
    status::ApiError,
};

pub(super) use webhook::open;

/// The user that the controllers are to the embedded API server.
pub(super) const USER: &str = "system:sutler";

/// The checks, where the API server is in this process.
#[derive(Debug)]
pub(super) struct InProcess;

impl Admit for InProcess {
    fn admit(&self, attempt: &Attempt<'_>) -> Result<Vec<String>, ApiError> {
        let kind = Kind::of(attempt.group, attempt.resource);
        let Some(kind) = kind.filter(|_| attempt.subresource.is_empty()) else {
            return Ok(Vec::new());
        };
        let operation = match attempt.operation {
            admit::Operation::Create => Operation::Create,
            admit::Operation::Update => Operation::Update,
            admit::Operation::Delete => Operation::Delete,
        };
        let user = attempt.user.name.as_str();
        let who = Who { user, sutler: user == USER };
        check(operation, kind, attempt.old, attempt.new, &who).map_err(|refusals| {
            let Denial { code, reason, message, details } =
                Denial::new(operation, kind, attempt.name, &refusals);
            ApiError { code, reason, message, details: Some(details), continue_token: None }
        })
    }
}
