//! Text as Go's `fmt` prints it: refusals quote names and lists that way, and clients compare them.

/// `%q` of a string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if c < ' ' || c == '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c.is_ascii() || is_print(c) => out.push(c),
            c if u32::from(c) < 0x1_0000 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// `%q` of a list of strings.
pub(crate) fn quote_list<S: AsRef<str>>(items: &[S]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quote(item.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

/// `%#v` of a list of strings.
pub(crate) fn go_list<S: AsRef<str>>(items: &[S]) -> String {
    if items.is_empty() {
        return "[]string(nil)".to_owned();
    }
    let quoted: Vec<String> = items.iter().map(|item| quote(item.as_ref())).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}

/// `%v` of several errors joined into one, each text once.
pub(crate) fn join_errors(errors: &[String]) -> String {
    let mut seen: Vec<&str> = Vec::with_capacity(errors.len());
    for error in errors {
        if !seen.contains(&error.as_str()) {
            seen.push(error);
        }
    }
    match seen.as_slice() {
        [one] => (*one).to_owned(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// Go's `unicode.IsPrint` for characters beyond ASCII. The standard library escapes what it deems
/// unprintable by the same categories; the leading letter keeps it from escaping combining marks,
/// which both count as printable.
fn is_print(c: char) -> bool {
    let mut text = String::from("a");
    text.push(c);
    text.escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        for (text, want) in [
            ("jane", r#""jane""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\n\t\x01\x7f\x07", r#""\n\t\x01\x7f\a""#),
            ("größe 日本", r#""größe 日本""#),
            ("'", r#""'""#),
            ("\u{a0}\u{200b}", r#""\u00a0\u200b""#),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(quote(text), want);
        }
        assert_eq!(quote_list(&["a", "b"]), r#"["a" "b"]"#);
        assert_eq!(quote_list::<&str>(&[]), "[]");
        assert_eq!(go_list(&["a", "b"]), r#"[]string{"a", "b"}"#);
        assert_eq!(go_list::<&str>(&[]), "[]string(nil)");
    }

    #[test]
    fn errors_are_joined_without_repeats() {
        assert_eq!(join_errors(&["a".into()]), "a");
        assert_eq!(join_errors(&["a".into(), "b".into(), "a".into()]), "[a, b]");
        assert_eq!(join_errors(&["a".into(), "a".into()]), "a");
    }
}
