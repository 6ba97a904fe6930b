//! String formats that the API checks; any other format is ignored.

use std::{net::Ipv6Addr, sync::LazyLock};

use regex::Regex;

use crate::{names::is_dns1123_label, time::parse_duration};

/// A checked string format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    BsonObjectId,
    Uri,
    Email,
    Hostname,
    Ipv4,
    Ipv6,
    Cidr,
    Mac,
    Uuid,
    Uuid3,
    Uuid4,
    Uuid5,
    Isbn,
    Isbn10,
    Isbn13,
    CreditCard,
    Ssn,
    HexColor,
    RgbColor,
    Byte,
    Password,
    Date,
    Duration,
    DateTime,
    ShortName,
    LongName,
}

impl Format {
    /// The format of this name, dashes ignored.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name.replace('-', "").as_str() {
            "bsonobjectid" => Self::BsonObjectId,
            "uri" => Self::Uri,
            "email" => Self::Email,
            "hostname" => Self::Hostname,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "cidr" => Self::Cidr,
            "mac" => Self::Mac,
            "uuid" => Self::Uuid,
            "uuid3" => Self::Uuid3,
            "uuid4" => Self::Uuid4,
            "uuid5" => Self::Uuid5,
            "isbn" => Self::Isbn,
            "isbn10" => Self::Isbn10,
            "isbn13" => Self::Isbn13,
            "creditcard" => Self::CreditCard,
            "ssn" => Self::Ssn,
            "hexcolor" => Self::HexColor,
            "rgbcolor" => Self::RgbColor,
            "byte" => Self::Byte,
            "password" => Self::Password,
            "date" => Self::Date,
            "duration" => Self::Duration,
            "datetime" => Self::DateTime,
            "k8sshortname" => Self::ShortName,
            "k8slongname" => Self::LongName,
            _ => return None,
        })
    }

    /// Whether `text` is of this format.
    pub(crate) fn admits(self, text: &str) -> bool {
        match self {
            Self::BsonObjectId => text.len() == 24 && all_hex(text),
            Self::Uri => is_request_uri(text),
            Self::Email => is_email(text),
            Self::Hostname => is_hostname(text),
            Self::Ipv4 => text.contains('.') && is_ip(text),
            Self::Ipv6 => text.contains(':') && is_ip(text),
            Self::Cidr => is_cidr(text),
            Self::Mac => is_mac(text),
            Self::Uuid => is_uuid(text, None, false),
            Self::Uuid3 => is_uuid(text, Some(b'3'), false),
            Self::Uuid4 => is_uuid(text, Some(b'4'), true),
            Self::Uuid5 => is_uuid(text, Some(b'5'), true),
            Self::Isbn => is_isbn10(text) || is_isbn13(text),
            Self::Isbn10 => is_isbn10(text),
            Self::Isbn13 => is_isbn13(text),
            Self::CreditCard => is_credit_card(text),
            Self::Ssn => matches(&SSN, text),
            Self::HexColor => {
                let digits = text.strip_prefix('#').unwrap_or(text);
                matches!(digits.len(), 3 | 6) && all_hex(digits)
            }
            Self::RgbColor => matches(&RGB, text),
            Self::Byte => matches(&BASE64, text),
            Self::Password => true,
            Self::Date => is_date(text),
            Self::Duration => parse_duration(text).is_some(),
            Self::DateTime => is_date_time(text),
            Self::ShortName => is_dns1123_label(text).is_empty(),
            Self::LongName => is_long_name(text),
        }
    }
}

type Pattern = LazyLock<Regex>;

macro_rules! pattern {
    ($pattern:expr) => {
        LazyLock::new(|| Regex::new($pattern).expect("the pattern is well-formed"))
    };
}

static SSN: Pattern = pattern!("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$");
static RGB: Pattern = pattern!(
    r"^rgb\([\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*,[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*\)$"
);
static BASE64: Pattern =
    pattern!("^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$");
static CARD: Pattern = pattern!(
    "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|(222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}|6[27][0-9]{14})$"
);
static HOSTNAME: Pattern = pattern!(
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
);
static CLOCK: Pattern =
    pattern!("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$");
static EMAIL: Pattern = pattern!(
    r#"^(?:[^<>"]*<)?(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x{80}-\x{10ffff}]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x{80}-\x{10ffff}]+)*|"[^"]*")@(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x{80}-\x{10ffff}]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\x{80}-\x{10ffff}]+)*|\[[^\]]*\])>?$"#
);

fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.is_match(text)
}

fn all_hex(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_hexdigit())
}

/// An absolute URI, or a path that starts with a slash.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|c| c < b' ' || c == 0x7f) {
        return false;
    }
    let (scheme, rest) = match scheme(text) {
        Some((scheme, rest)) => (scheme, rest),
        None if text.starts_with(':') => return false,
        None => ("", text),
    };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        // An opaque URI needs a scheme.
        return !scheme.is_empty();
    }
    let path = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        None => rest,
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            if !is_host(host) {
                return false;
            }
            path
        }
    };
    escapes_are_valid(path)
}

fn scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let mut bytes = scheme.bytes();
    let first = bytes.next().is_some_and(|c| c.is_ascii_alphabetic());
    (first && bytes.all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c)))
        .then_some((scheme, rest))
}

fn is_host(host: &str) -> bool {
    let port_ok = |port: &str| port.bytes().all(|c| c.is_ascii_digit());
    if let Some(rest) = host.strip_prefix('[') {
        let Some((_, port)) = rest.rsplit_once(']') else { return false };
        return port.is_empty() || port.strip_prefix(':').is_some_and(port_ok);
    }
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let bad = |c: char| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}');
    port_ok(port) && !name.contains(bad) && escapes_are_valid(name)
}

fn escapes_are_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().filter(|(_, c)| **c == b'%').all(|(i, _)| {
        bytes.get(i + 1..i + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    })
}

fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let bracketed = text.contains('<') == text.ends_with('>');
    bracketed && matches(&EMAIL, text)
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && matches(&HOSTNAME, text)
}

/// An IPv4 address, whose numbers may have leading zeros, or an IPv6 address.
pub(crate) fn is_ip(text: &str) -> bool {
    match text.contains(':') {
        true => is_ipv6(text),
        false => is_ipv4(text),
    }
}

fn is_ipv4(text: &str) -> bool {
    let mut parts = 0;
    for part in text.split('.') {
        parts += 1;
        let digits = part.trim_start_matches('0');
        let number: u32 = match digits {
            "" if !part.is_empty() => 0,
            _ if digits.len() <= 3 && digits.bytes().all(|c| c.is_ascii_digit()) => {
                digits.parse().unwrap_or(256)
            }
            _ => 256,
        };
        if number > 255 {
            return false;
        }
    }
    parts == 4
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let max = if address.contains(':') { 128 } else { 32 };
    let digits = !bits.is_empty() && bits.len() < 9 && bits.bytes().all(|c| c.is_ascii_digit());
    is_ip(address) && digits && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: [usize; 3]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len())
            && parts.iter().all(|part| part.len() == digits && all_hex(part))
    };
    groups(':', 2, [6, 8, 20]) || groups('-', 2, [6, 8, 20]) || groups('.', 4, [3, 4, 10])
}

/// Hexadecimal digits in groups of 8, 4, 4, 4 and 12, the dashes between them optional.
fn is_uuid(text: &str, version: Option<u8>, variant: bool) -> bool {
    let bytes = text.as_bytes();
    let (mut i, mut digits) = (0, 0);
    for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 && bytes.get(i) == Some(&b'-') {
            i += 1;
        }
        for position in 0..length {
            let Some(c) = bytes.get(i).filter(|c| c.is_ascii_hexdigit()) else { return false };
            let first = position == 0;
            if first && group == 2 && version.is_some_and(|version| *c != version) {
                return false;
            }
            if first && group == 3 && variant && !b"89abAB".contains(c) {
                return false;
            }
            i += 1;
            digits += 1;
        }
    }
    digits == 32 && i == bytes.len()
}

fn without_spaces_and_dashes(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{0c}' | '-')).collect()
}

fn is_isbn10(text: &str) -> bool {
    let text = without_spaces_and_dashes(text);
    let bytes = text.as_bytes();
    if bytes.len() != 10 || !bytes[..9].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match bytes[9] {
        b'X' => 10,
        c if c.is_ascii_digit() => u32::from(c - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(&bytes[..9]).map(|(i, c)| i * u32::from(c - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let text = without_spaces_and_dashes(text);
    let bytes = text.as_bytes();
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let digit = |i: usize| u32::from(bytes[i] - b'0');
    let sum: u32 = (0..12).map(|i| if i % 2 == 0 { digit(i) } else { 3 * digit(i) }).sum();
    digit(12) == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let text = without_spaces_and_dashes(text);
    if !matches(&CARD, &text) {
        return false;
    }
    let digits = text.bytes().rev().map(|c| u32::from(c - b'0')).enumerate();
    let sum: u32 = digits
        .map(|(i, digit)| match (i % 2 == 1, digit * 2) {
            (false, _) => digit,
            (true, double) if double > 9 => double - 9,
            (true, double) => double,
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(i, c)| match i {
            4 | 7 => c == b'-',
            _ => c.is_ascii_digit(),
        })
        && chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()
}

fn is_date_time(text: &str) -> bool {
    if text.len() < 4 {
        return false;
    }
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else { return false };
    let Some(fields) = is_date(date).then(|| CLOCK.captures(clock)).flatten() else {
        return false;
    };
    &fields[1] <= "23" && &fields[2] <= "59" && &fields[3] <= "59"
}

/// A subdomain whose labels may be of any length.
fn is_long_name(text: &str) -> bool {
    text.len() <= 253 && crate::names::is_dns1123_subdomain(text).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let cases = [
            ("uri", "http://a.b/c?d=%41", true),
            ("uri", "/a/b", true),
            ("uri", "a/b", false),
            ("uri", "mailto:a@b", true),
            ("uri", "http://a b/", false),
            ("uri", "http://a/%zz", false),
            ("email", "a@b.c", true),
            ("email", "a b@c", false),
            ("email", "A <a@b.c>", true),
            ("hostname", "a.example.com", true),
            ("hostname", "-a", false),
            ("hostname", "a_b", false),
            ("ipv4", "1.2.3.4", true),
            ("ipv4", "01.2.3.4", true),
            ("ipv4", "1.2.3", false),
            ("ipv4", "1.2.3.256", false),
            ("ipv4", "::ffff:1.2.3.4", true),
            ("ipv6", "::1", true),
            ("ipv6", "1.2.3.4", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("cidr", "::/0", true),
            ("mac", "01:23:45:67:89:ab", true),
            ("mac", "0123.4567.89ab", true),
            ("mac", "01:23", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("uuid", "123e4567e89b12d3a456426614174000", true),
            ("uuid", "123", false),
            ("uuid4", "123e4567-e89b-42d3-a456-426614174000", true),
            ("uuid4", "123e4567-e89b-12d3-a456-426614174000", false),
            ("isbn", "0321751043", true),
            ("isbn13", "978-0321751041", true),
            ("isbn10", "0321751044", false),
            ("creditcard", "4111 1111 1111 1111", true),
            ("creditcard", "4111 1111 1111 1112", false),
            ("ssn", "123-45-6789", true),
            ("hexcolor", "#fff", true),
            ("hexcolor", "#ffff", false),
            ("rgbcolor", "rgb(1, 2,255)", true),
            ("rgbcolor", "rgb(1,2,256)", false),
            ("byte", "aGk=", true),
            ("byte", "aGk", false),
            ("byte", "", false),
            ("password", "", true),
            ("date", "2026-02-28", true),
            ("date", "2026-02-30", false),
            ("duration", "1h", true),
            ("duration", "2 days", true),
            ("duration", "soon", false),
            ("date-time", "2026-01-02T03:04:05Z", true),
            ("datetime", "2026-01-02T03:04:05.5+01:00", true),
            ("date-time", "2026-01-02", false),
            ("date-time", "2026-01-02T25:04:05Z", false),
            ("k8s-short-name", "a-b", true),
            ("k8s-short-name", "a.b", false),
            ("k8s-long-name", "a.b", true),
            ("bsonobjectid", "507f1f77bcf86cd799439011", true),
        ];
        for (name, text, wanted) in cases {
            let format = Format::of(name).unwrap();
            assert_eq!(format.admits(text), wanted, "{name} {text:?}");
        }
        assert_eq!(Format::of("int-or-string"), None);
        assert_eq!(Format::of("quantity"), None);
    }
}
