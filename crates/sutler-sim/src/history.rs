//! What happened to machines, for those who check it afterwards.

use jiff::Timestamp;
use sutler_provider::{MachineId, Owner, Token};

use crate::faults::Call;

/// One change of one machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// When.
    pub at: Timestamp,
    /// What made it happen.
    pub cause: Cause,
    /// For whom, where a call did.
    pub by: Option<Owner>,
    /// What happened.
    pub what: Happened,
    /// To which machine.
    pub id: MachineId,
    /// What it was called; for one that is gone, before.
    pub name: String,
    /// The token that it carried; for one that is gone, before. The platform knows it even where it
    /// shows none.
    pub token: Option<Token>,
    /// The control plane that gave it the token.
    pub installation: Option<String>,
}

/// What made a change happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// A call.
    Call(Call),
    /// Work that a call had begun.
    Work,
    /// Somebody behind our back.
    Outside,
}

/// What happened to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// It came to be.
    Made,
    /// It became different.
    Changed,
    /// It ceased to be.
    Gone,
}
