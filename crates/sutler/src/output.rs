//! How answers look.

pub(crate) mod describe;
pub(crate) mod events;
pub(crate) mod fleet;
pub(crate) mod format;
pub(crate) mod stages;
pub(crate) mod status;
pub(crate) mod table;
