//! Operations: one object per change of a machine, so that people see what is under way, how far it
//! has come and what became of it.
//!
//! Those that tell of a change that the record itself asked for are made and ended by the controller
//! of machines ([`change`]) and carry a label with the record's UID. Those that people make are
//! carried out by the controller here ([`control`]), which then follows the machine.

mod act;
mod call;
mod change;
pub(crate) mod control;
mod index;
mod report;
mod request;
mod standing;

pub(crate) use change::{Running, begin, finish_now, follow};
pub(crate) use index::{Operations, trim};
