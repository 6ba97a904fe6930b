//! The rules that the cases check, as the contract states them.

pub(crate) const ABSENCE: &str =
    "Absence is an answer, never an error, and an error never means absence.";
pub(crate) const ANSWERS: &str = "Every call is answered within its deadline.";
pub(crate) const BAD_INPUT: &str =
    "A request that can never work is refused as Invalid, and changes nothing.";
pub(crate) const CALLER_GONE: &str =
    "A change that was accepted goes on when its caller is gone, and happens once.";
pub(crate) const EVENTS: &str = "Events that follow the stream's beginning are not missed.";
pub(crate) const HONEST: &str =
    "What is reported as a capability works; what is not is refused as Unsupported.";
pub(crate) const KEPT: &str =
    "A disk that has a key outlives its machine, and is one machine's at a time.";
pub(crate) const LIST: &str =
    "A complete list shows every machine once, as a description of it does.";
pub(crate) const NOT_FOUND: &str = "A change of what is not there is refused as NotFound.";
pub(crate) const OBSERVED: &str =
    "What ended well can be seen: success is observed, not concluded from an answer.";
pub(crate) const ONCE: &str = "A change that is asked for twice ends as if it were asked for once.";
pub(crate) const OWNER: &str = "A machine is changed only for its owner; for anybody else it is a Conflict, and nothing changes.";
pub(crate) const TASKS: &str =
    "A task is known from its answer to its end, and its end does not change.";
pub(crate) const UNIQUE: &str = "What is reported to be unique is never there twice.";
