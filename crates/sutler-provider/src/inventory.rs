//! One inventory of a platform, shared by everybody who waits for something on it.
//!
//! [`View`] is what is known, and how fresh: a pure structure that takes lists, looks at single
//! machines and events in any order. [`Inventory`] keeps one up to date with at most one list per
//! interval, whatever the number of readers.

mod keeper;
#[cfg(test)]
mod races;
mod sync;
#[cfg(test)]
mod tests;
mod view;

pub use keeper::{Inventory, News, Settings, Source};
pub use view::{Seen, View};
