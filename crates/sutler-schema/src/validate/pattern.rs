//! Regular expressions of schemas: RE2 syntax as the API reads it, translated for our engine,
//! which differs in Unicode classes, class operators and bare braces.

use regex::Regex;

/// Compiles an RE2 pattern.
pub(crate) fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    Regex::new(&translate(pattern))
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => escape(after, in_class, &mut out),
            '[' if in_class => match posix_class(rest) {
                Some(end) => {
                    out.push_str(&rest[..end]);
                    &rest[end..]
                }
                None => {
                    out.push_str("\\[");
                    after
                }
            },
            '[' => {
                in_class = true;
                out.push('[');
                open_class(after, &mut out)
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
                after
            }
            // Doubled, these are operators on classes in our engine.
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(c);
                after
            }
            '-' if in_class && after.starts_with('-') => {
                out.push_str("\\-");
                after
            }
            '{' if !in_class && !is_repetition(rest) => {
                out.push_str("\\{");
                after
            }
            _ => {
                out.push(c);
                after
            }
        };
    }
    out
}

/// Copies the negation and a leading `]`, which stands for itself.
fn open_class<'p>(mut rest: &'p str, out: &mut String) -> &'p str {
    if let Some(after) = rest.strip_prefix('^') {
        out.push('^');
        rest = after;
    }
    if let Some(after) = rest.strip_prefix(']') {
        out.push_str("\\]");
        rest = after;
    }
    rest
}

/// Translates what follows a backslash and returns what is left.
fn escape<'p>(rest: &'p str, in_class: bool, out: &mut String) -> &'p str {
    if let Some(literal) = rest.strip_prefix('Q') {
        let (literal, rest) = literal.split_once("\\E").unwrap_or((literal, ""));
        out.push_str(&regex::escape(literal));
        return rest;
    }
    let Some(c) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let class = match c {
        'd' => Some("0-9"),
        'w' => Some("0-9A-Za-z_"),
        's' => Some("\\t\\n\\f\\r "),
        'D' => Some("^0-9"),
        'W' => Some("^0-9A-Za-z_"),
        'S' => Some("^\\t\\n\\f\\r "),
        _ => None,
    };
    match class {
        Some(class) if in_class && !class.starts_with('^') => out.push_str(class),
        Some(class) => {
            out.push('[');
            out.push_str(class);
            out.push(']');
        }
        None if matches!(c, 'b' | 'B') && !in_class => {
            out.push_str("(?-u:\\");
            out.push(c);
            out.push(')');
        }
        None => {
            out.push('\\');
            out.push(c);
        }
    }
    &rest[c.len_utf8()..]
}

/// The length of a class as `[:alpha:]` at the start of `rest`.
fn posix_class(rest: &str) -> Option<usize> {
    let end = rest.strip_prefix("[:")?.find(":]")?;
    Some(end + 4)
}

/// Whether `rest` starts with `{n}`, `{n,}` or `{n,m}`.
fn is_repetition(rest: &str) -> bool {
    let Some((inner, _)) = rest[1..].split_once('}') else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    match inner.split_once(',') {
        None => digits(inner),
        Some((low, high)) => digits(low) && (high.is_empty() || digits(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn re2_meaning() {
        let cases = [
            (r"^\d+$", "12", true),
            (r"^\d+$", "١٢", false),
            (r"^\w+$", "é", false),
            (r"^[\w-]+$", "a-b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[\D]+$", "ab", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[[a]+$", "[a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^{a}$", "{a}", true),
            (r"^a{2,3}$", "aaa", true),
            (r"^a{,3}$", "a{,3}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^[]a]+$", "]a", true),
            (r"\bfoo\b", "a foo b", true),
            (r"^a$", "a\n", false),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-b", true),
            (r"^[a--]$", "-", true),
        ];
        for (pattern, text, wanted) in cases {
            let regex = compile(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert_eq!(regex.is_match(text), wanted, "{pattern} {text:?}");
        }
        assert!(compile("(").is_err());
    }
}
