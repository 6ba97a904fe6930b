//! Names of fields as CEL identifiers: `a-b` is written `a__dash__b`.

use std::borrow::Cow;

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The identifier for a field; nothing for a name that has none.
pub(super) fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    if !name.contains("__") && name.bytes().all(plain) {
        return Some(Cow::Borrowed(name));
    }
    let (mut out, mut rest) = (String::with_capacity(name.len() + 16), name);
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii() && plain(c as u8) => out.push(c),
            _ => return None,
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(Cow::Owned(out))
}

/// The field of an identifier; nothing for one that no field escapes to.
pub(super) fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let (mut out, mut rest) = (String::with_capacity(identifier.len()), identifier);
    while let Some(start) = rest.find("__") {
        out.push_str(&rest[..start]);
        let inner = &rest[start + 2..];
        let end = match inner.find('_') {
            Some(end) if end > 0 && inner[end..].starts_with("__") => end,
            _ => {
                // Not an escape: an underscore that stands for itself.
                out.push('_');
                rest = &rest[start + 1..];
                continue;
            }
        };
        match &inner[..end] {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            word if RESERVED.contains(&word) && identifier.len() == word.len() + 4 => {
                out.push_str(word);
            }
            _ => return None,
        }
        rest = &inner[end + 2..];
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let cases = [
            ("a", Some("a")),
            ("namespace", Some("__namespace__")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("_a_", Some("_a_")),
            ("1a", None),
            ("a b", None),
            ("é", None),
            ("", None),
        ];
        for (name, identifier) in cases {
            let escaped = escape(name);
            assert_eq!(escaped.as_deref(), identifier, "{name}");
            if let Some(identifier) = identifier {
                assert_eq!(unescape(identifier).as_deref(), Some(name));
            }
        }
        assert_eq!(unescape("a__foo__b"), None);
    }
}
