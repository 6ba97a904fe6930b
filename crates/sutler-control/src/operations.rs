//! Operations: one object per change of a machine, so that people see what is under way, how far it
//! has come and what became of it.

use std::sync::Arc;

use sutler_api::{
    infra::{VirtualMachine, VirtualMachineStatus},
    refs::LocalObjectRef,
};

use crate::{context::Context, machine::Error, plan::Report};

/// An operation that is under way.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    pub(crate) name: String,
}

/// Begins an operation where a change begins, and tells its name.
pub(crate) async fn begin(
    _context: &Arc<Context>,
    _vm: &VirtualMachine,
    _report: &Report,
) -> Result<Option<LocalObjectRef>, Error> {
    Ok(None)
}

/// Follows the change of a record's status.
pub(crate) async fn follow(
    _context: &Arc<Context>,
    _vm: &VirtualMachine,
    _report: &Report,
    _status: &VirtualMachineStatus,
    _written: bool,
) -> Result<(), Error> {
    Ok(())
}

/// Ends the operation of a record that goes off the books.
pub(crate) async fn finish_now(_context: &Arc<Context>, _vm: &VirtualMachine, _uid: &str) {}
