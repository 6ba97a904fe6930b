//! Formats of names, labels and keys. Each check returns the messages of what is wrong, none
//! when the value is well-formed.

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// A label of RFC 1123: lower-case letters, digits and dashes, at most 63 bytes.
pub fn is_dns1123_label(value: &str) -> Vec<String> {
    let mut errors = longer_than(63, value);
    if !label_shape(value) {
        if subdomain_shape(value) {
            errors.push("must not contain dots".into());
        } else {
            errors.push(regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                 '-', and must start and end with an alphanumeric character",
                DNS1123_LABEL,
                &["my-name", "123-abc"],
            ));
        }
    }
    errors
}

/// Labels of RFC 1123 with dots between them, at most 253 bytes.
pub fn is_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = longer_than(253, value);
    if !subdomain_shape(value) {
        errors.push(subdomain_error());
    }
    errors
}

/// A label of RFC 1035: as RFC 1123, but the first character is a letter.
pub fn is_dns1035_label(value: &str) -> Vec<String> {
    let mut errors = longer_than(63, value);
    if !(label_shape(value) && value.as_bytes()[0].is_ascii_lowercase()) {
        errors.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// `*.` and a subdomain.
pub fn is_wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = longer_than(253, value);
    if !value.strip_prefix("*.").is_some_and(subdomain_shape) {
        errors.push(regex_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
             subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and \
             end with an alphanumeric character",
            &format!(r"\*\.{DNS1123_SUBDOMAIN}"),
            &["*.example.com"],
        ));
    }
    errors
}

/// A label key: a name, or a subdomain, a slash and a name.
pub fn is_qualified_name(value: &str) -> Vec<String> {
    const SHAPE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
                         and end with an alphanumeric character";
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    let mut errors = Vec::new();
    let mut parts = value.split('/');
    let first = parts.next().unwrap_or_default();
    let name = match (parts.next(), parts.next()) {
        (None, _) => first,
        (Some(name), None) => {
            if first.is_empty() {
                errors.push("prefix part must be non-empty".into());
            } else {
                if first.len() > 253 {
                    errors.push("prefix part must be no more than 253 bytes".into());
                }
                if !subdomain_shape(first) {
                    errors.push(format!("prefix part {}", subdomain_error()));
                }
            }
            name
        }
        (Some(_), Some(_)) => {
            let shape = regex_error(SHAPE, LABEL_KEY, EXAMPLES);
            errors.push(format!(
                "a valid label key {shape} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            ));
            return errors;
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".into());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".into());
    }
    if !label_key_shape(name) {
        errors.push(format!("name part {}", regex_error(SHAPE, LABEL_KEY, EXAMPLES)));
    }
    errors
}

/// A label value: empty, or shaped as the name of a label key.
pub fn is_label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".into());
    }
    if !value.is_empty() && !label_key_shape(value) {
        errors.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', \
             '_' or '.', and must start and end with an alphanumeric character",
            &format!("({LABEL_KEY})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// A name that can stand as one segment of a URL path.
pub fn is_path_segment_name(value: &str) -> Vec<String> {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    is_path_segment_prefix(value)
}

/// The beginning of a name that can stand as one segment of a URL path.
pub fn is_path_segment_prefix(value: &str) -> Vec<String> {
    let found = ["/", "%"].iter().filter(|part| value.contains(**part));
    found.map(|part| format!("may not contain '{part}'")).collect()
}

/// A key of a ConfigMap or Secret.
pub fn is_config_map_key(value: &str) -> Vec<String> {
    let mut errors = longer_than(253, value);
    let shape = |c: u8| c.is_ascii_alphanumeric() || b"-._".contains(&c);
    if value.is_empty() || !value.bytes().all(shape) {
        errors.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if value == "." || value == ".." {
        errors.push(format!("must not be '{value}'"));
    } else if value.starts_with("..") {
        errors.push("must not start with '..'".into());
    }
    errors
}

/// The name of an environment variable: printable ASCII without `=`.
pub fn is_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".into());
    }
    if value.chars().any(|c| !(' '..='~').contains(&c) || c == '=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters \
             other than '='"
                .into(),
        );
    }
    errors
}

/// The name of a port (RFC 6335).
pub fn is_port_name(value: &str) -> Vec<String> {
    let mut errors = longer_than(15, value);
    let shape = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    if value.is_empty() || !value.bytes().all(shape) {
        errors
            .push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !value.bytes().any(|c| c.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".into());
    }
    if value.contains("--") {
        errors.push("must not contain consecutive hyphens".into());
    }
    if value.starts_with('-') || value.ends_with('-') {
        errors.push("must not begin or end with a hyphen".into());
    }
    errors
}

/// A port number other than zero.
pub fn is_port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { vec![] } else { vec![range_error(1, 65535)] }
}

/// A whole number and a percent sign.
pub fn is_percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
        return vec![];
    }
    vec![regex_error(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// The name of an HTTP header.
pub fn is_http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        return vec![];
    }
    vec![regex_error(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        "[-A-Za-z0-9]+",
        &["X-Header-Name"],
    )]
}

/// An identifier of the C language.
pub fn is_c_identifier(value: &str) -> Vec<String> {
    let shape = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let first = value.bytes().next().is_some_and(|c| shape(c) && !c.is_ascii_digit());
    if first && value.bytes().all(shape) {
        return vec![];
    }
    vec![regex_error(
        "a valid C identifier must start with alphabetic character or '_', followed by a string \
         of alphanumeric characters or '_'",
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// The message for a number outside `lo..=hi`.
pub fn range_error(lo: i64, hi: i64) -> String {
    format!("must be between {lo} and {hi}, inclusive")
}

/// The message for a value that does not match a pattern.
pub fn regex_error(message: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    let examples = examples.join(" or ");
    format!("{message} (e.g. {examples}regex used for validation is '{pattern}')")
}

fn longer_than(max: usize, value: &str) -> Vec<String> {
    if value.len() > max { vec![format!("must be no more than {max} characters")] } else { vec![] }
}

fn subdomain_error() -> String {
    regex_error(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
         or '.', and must start and end with an alphanumeric character",
        DNS1123_SUBDOMAIN,
        &["example.com"],
    )
}

fn label_shape(value: &str) -> bool {
    let bytes = value.as_bytes();
    let edge = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|c| edge(c) || *c == b'-')
}

fn subdomain_shape(value: &str) -> bool {
    value.split('.').all(label_shape)
}

fn label_key_shape(value: &str) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Check = fn(&str) -> Vec<String>;

    #[test]
    fn accepted_and_refused() {
        let cases: &[(Check, &str, usize)] = &[
            (is_dns1123_label, "a-1", 0),
            (is_dns1123_label, "", 1),
            (is_dns1123_label, "-a", 1),
            (is_dns1123_label, "A", 1),
            (is_dns1123_subdomain, "a.b-c.1", 0),
            (is_dns1123_subdomain, "a..b", 1),
            (is_dns1123_subdomain, "é", 1),
            (is_dns1035_label, "1a", 1),
            (is_dns1035_label, "", 1),
            (is_dns1035_label, "a1", 0),
            (is_qualified_name, "a.b/C_d", 0),
            (is_qualified_name, "a/b/c", 1),
            (is_qualified_name, "/c", 1),
            (is_qualified_name, "", 2),
            (is_qualified_name, "A.b/", 3),
            (is_label_value, "", 0),
            (is_label_value, "a b", 1),
            (is_path_segment_name, "..", 1),
            (is_path_segment_name, "a/b%c", 2),
            (is_path_segment_prefix, "..", 0),
            (is_config_map_key, "..a", 1),
            (is_config_map_key, "a b", 1),
            (is_port_name, "a--b-", 2),
            (is_env_var_name, "A=B", 1),
            (is_percent, "%", 1),
            (is_percent, "93%", 0),
            (is_c_identifier, "1a", 1),
            (is_wildcard_dns1123_subdomain, "*.a.b", 0),
            (is_wildcard_dns1123_subdomain, "*", 1),
            (is_http_header_name, "X-A", 0),
        ];
        for (check, value, faults) in cases {
            assert_eq!(check(value).len(), *faults, "{value:?}: {:?}", check(value));
        }
    }

    #[test]
    fn messages() {
        assert_eq!(is_dns1123_label("a.b"), ["must not contain dots"]);
        let long = "a".repeat(64);
        assert_eq!(is_dns1123_label(&long), ["must be no more than 63 characters"]);
        assert_eq!(is_qualified_name(&long), ["name part must be no more than 63 bytes"]);
        assert_eq!(is_label_value(&long), ["must be no more than 63 bytes"]);
        assert_eq!(
            is_dns1123_subdomain("A"),
            ["a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                 characters, '-' or '.', and must start and end with an alphanumeric character \
                 (e.g. 'example.com', regex used for validation is \
                 '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"]
        );
        assert_eq!(
            is_label_value("a b"),
            ["a valid label must be an empty string or consist of alphanumeric characters, \
                 '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"]
        );
        assert_eq!(is_port_number(0), ["must be between 1 and 65535, inclusive"]);
    }
}
