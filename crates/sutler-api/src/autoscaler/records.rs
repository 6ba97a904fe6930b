//! What the records of a group are called.

/// Digits of a record's number: fixed, so that no name is the beginning of another.
const WIDTH: usize = 4;

/// The highest number, and so the most nodes of a group.
pub const MOST: u32 = 9999;

/// The name of a group's record by its number.
pub fn name_of(group: &str, number: u32) -> String {
    format!("{group}-{number:0WIDTH$}")
}
