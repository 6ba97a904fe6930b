//! Values that absent fields get, for `#[serde(default = "…")]`; schemas take them from there.

/// `N` as an int32.
pub(crate) fn int<const N: i32>() -> i32 {
    N
}

/// `true`.
pub(crate) fn yes() -> bool {
    true
}
