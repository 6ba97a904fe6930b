//! Requests that change nothing.

pub(crate) mod answer;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod select;
pub(crate) mod table;
mod token;
pub(crate) mod watch;
