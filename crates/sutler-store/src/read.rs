//! Requests that change nothing.

pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod select;
pub(crate) mod table;
pub(crate) mod watch;
