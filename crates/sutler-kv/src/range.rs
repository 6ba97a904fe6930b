//! Key ranges. Keys sort by their bytes, which for UTF-8 is the order of code points.

use std::ops::Bound;

/// The first string that sorts after every string with this prefix; absent where there is none.
pub(crate) fn prefix_end(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        if let Some(next) = successor(last) {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// Where a page begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start<'a> {
    /// At this key, if it exists.
    At(&'a str),
    /// After this key.
    After(&'a str),
}

impl<'a> Start<'a> {
    /// After `after` where that is not before the prefix's range, else at the prefix.
    pub(crate) fn of(prefix: &'a str, after: Option<&'a str>) -> Self {
        match after {
            Some(after) if after >= prefix => Self::After(after),
            _ => Self::At(prefix),
        }
    }

    pub(crate) fn bound(self) -> Bound<&'a str> {
        match self {
            Self::At(key) => Bound::Included(key),
            Self::After(key) => Bound::Excluded(key),
        }
    }
}

fn successor(c: char) -> Option<char> {
    match c {
        // The code points in between are surrogates, which are no characters.
        '\u{d7ff}' => Some('\u{e000}'),
        char::MAX => None,
        _ => char::from_u32(u32::from(c) + 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_end_of_a_prefix() {
        for (prefix, end) in [
            ("", None),
            ("a", Some("b")),
            ("pods/", Some("pods0")),
            ("x\u{10ffff}", Some("y")),
            ("\u{10ffff}", None),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{7f}", Some("a\u{80}")),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
        }
    }

    proptest! {
        #[test]
        fn a_range_holds_exactly_what_begins_with_the_prefix(
            prefix in "[ab\u{d7ff}\u{10ffff}]{0,3}",
            key in "[ab\u{d7ff}\u{e000}\u{10ffff}]{0,5}",
        ) {
            let inside = key >= prefix && prefix_end(&prefix).is_none_or(|end| key < end);
            prop_assert_eq!(inside, key.starts_with(&prefix));
        }
    }
}
