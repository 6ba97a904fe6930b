//! The contract as messages of `provider.v1`, which carry less than it says. What they cannot carry
//! is refused where it would be missed ([`payload::uncarried`]), and unknown where it is told.

pub(crate) mod capabilities;
pub(crate) mod identity;
pub(crate) mod kinds;
pub(crate) mod machine;
pub(crate) mod payload;
mod read;
pub(crate) mod transfer;

use crate::pb::base as pb;

/// A task on the wire; an empty ID is none.
pub(crate) fn task_from(task: Option<pb::TaskRef>) -> Option<sutler_provider::TaskId> {
    task.map(|task| task.id).filter(|id| !id.is_empty()).map(Into::into)
}

pub(crate) fn task_to(task: Option<sutler_provider::TaskId>) -> Option<pb::TaskRef> {
    task.map(|task| pb::TaskRef { id: task.0 })
}

/// Empty text is none.
pub(crate) fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
