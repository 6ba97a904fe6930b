//! Why a text is no address, network, URL or version, in the words of the API.

use crate::{text::go_quote, validate::format::Format};

/// What is wrong with an IP address.
pub(super) fn ip(text: &str) -> Option<String> {
    let message = address(text)?;
    let quoted = go_quote(text);
    Some(format!(
        "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): \
         {message}"
    ))
}

/// What is wrong with a network in CIDR notation.
pub(super) fn cidr(text: &str) -> Option<String> {
    let message = prefix(text)?;
    let twice = "network address parse error during conversion from string: ".repeat(2);
    Some(format!("{twice}netip.ParsePrefix({}): {message}", go_quote(text)))
}

/// What is wrong with a URL.
pub(super) fn url(text: &str) -> Option<String> {
    let quoted = go_quote(text);
    if text.is_empty() {
        return Some(format!("parse {quoted}: empty url"));
    }
    if text.bytes().any(|c| c < b' ' || c == 0x7f) {
        return Some(format!("parse {quoted}: net/url: invalid control character in URL"));
    }
    if text.starts_with(':') {
        return Some(format!("parse {quoted}: missing protocol scheme"));
    }
    (!Format::Uri.admits(text)).then(|| format!("parse {quoted}: invalid URI for request"))
}

/// What is wrong with a version.
pub(super) fn semver(text: &str) -> Option<String> {
    if text.is_empty() {
        return Some("Version string empty".into());
    }
    let parts: Vec<&str> = text.splitn(3, '.').collect();
    let [major, minor, rest] = parts.as_slice() else {
        return Some("No Major.Minor.Patch elements found".into());
    };
    let (rest, build) = rest.split_once('+').map_or((*rest, None), |(a, b)| (a, Some(b)));
    let (patch, release) = rest.split_once('-').map_or((rest, None), |(a, b)| (a, Some(b)));
    for (name, part) in [("Major", *major), ("Minor", *minor), ("Patch", patch)] {
        if part.is_empty() || !part.bytes().all(|c| c.is_ascii_digit()) {
            let (name, part) = (name.to_lowercase(), go_quote(part));
            return Some(format!("Invalid character(s) found in {name} number {part}"));
        }
        if part.len() > 1 && part.starts_with('0') {
            let part = go_quote(part);
            return Some(format!("{name} number must not contain leading zeroes {part}"));
        }
    }
    let word = |part: &str| part.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    for part in release.into_iter().flat_map(|release| release.split('.')) {
        let digits = part.bytes().all(|c| c.is_ascii_digit());
        if part.is_empty() {
            return Some("Prerelease is empty".into());
        }
        if digits && part.len() > 1 && part.starts_with('0') {
            let part = go_quote(part);
            return Some(format!(
                "Numeric PreRelease version must not contain leading zeroes {part}"
            ));
        }
        if !word(part) {
            return Some(format!("Invalid character(s) found in prerelease {}", go_quote(part)));
        }
    }
    for part in build.into_iter().flat_map(|build| build.split('.')) {
        if part.is_empty() {
            return Some("Build meta data is empty".into());
        }
        if !word(part) {
            let part = go_quote(part);
            return Some(format!("Invalid character(s) found in build meta data {part}"));
        }
    }
    None
}

fn prefix(text: &str) -> Option<String> {
    let Some((ip, bits)) = text.rsplit_once('/') else { return Some("no '/'".into()) };
    if let Some(message) = address(ip) {
        return Some(format!("ParseAddr({}): {message}", go_quote(ip)));
    }
    if ip.contains('%') {
        return Some("IPv6 zones cannot be present in a prefix".into());
    }
    let signed = bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9');
    let number = bits.parse::<u32>().ok().filter(|_| !signed && !bits.starts_with('+'));
    let max = if ip.contains(':') { 128 } else { 32 };
    match number {
        None => Some(format!("bad bits after slash: {}", go_quote(bits))),
        Some(bits) if bits > max => Some("prefix length out of range".into()),
        Some(_) => None,
    }
}

/// The fault of an address, with the place where it shows if there is one.
fn address(text: &str) -> Option<String> {
    match text.find(['.', ':', '%']).map(|i| text.as_bytes()[i]) {
        Some(b'.') => v4(text),
        Some(b':') => v6(text),
        Some(_) => Some("missing IPv6 address".into()),
        None => Some("unable to parse IP".into()),
    }
}

fn at(message: &str, rest: &str) -> Option<String> {
    Some(format!("{message} (at {})", go_quote(rest)))
}

fn v4(text: &str) -> Option<String> {
    let (mut value, mut fields, mut digits) = (0u32, 0, 0);
    let bytes = text.as_bytes();
    for (i, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Some("IPv4 field has octet with leading zero".into());
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Some("IPv4 field has value >255".into());
                }
            }
            b'.' => {
                if i == 0 || i + 1 == bytes.len() || bytes[i - 1] == b'.' {
                    return at("IPv4 field must have at least one digit", &text[i..]);
                }
                if fields == 3 {
                    return Some("IPv4 address too long".into());
                }
                (fields, value, digits) = (fields + 1, 0, 0);
            }
            _ => return at("unexpected character", &text[i..]),
        }
    }
    (fields < 3).then(|| "IPv4 address too short".into())
}

fn v6(text: &str) -> Option<String> {
    let mut rest = text;
    if let Some((address, zone)) = text.split_once('%') {
        if zone.is_empty() {
            return Some("zone must be a non-empty string".into());
        }
        rest = address;
    }
    let (mut groups, mut ellipsis) = (0, false);
    if let Some(after) = rest.strip_prefix("::") {
        (rest, ellipsis) = (after, true);
        if rest.is_empty() {
            return None;
        }
    }
    while groups < 8 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return at("each group must have 4 or less digits", rest);
        }
        if digits == 0 {
            return at("each colon-separated field must have at least one digit", rest);
        }
        if rest.as_bytes().get(digits) == Some(&b'.') {
            if !ellipsis && groups != 6 {
                let message =
                    "embedded IPv4 address must replace the final 2 fields of the address";
                return at(message, rest);
            }
            if groups > 6 {
                let message =
                    "too many hex fields to fit an embedded IPv4 at the end of the address";
                return at(message, rest);
            }
            if let Some(message) = v4(rest) {
                return Some(message);
            }
            (rest, groups) = ("", groups + 2);
            break;
        }
        groups += 1;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return at("unexpected character, want colon", rest);
        };
        if after.is_empty() {
            return at("colon must be followed by more characters", rest);
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis {
                return at("multiple :: in address", rest);
            }
            (rest, ellipsis) = (after, true);
            if rest.is_empty() {
                break;
            }
        }
    }
    match (rest.is_empty(), groups < 8, ellipsis) {
        (false, _, _) => at("trailing garbage after address", rest),
        (true, true, false) => Some("address string too short".into()),
        (true, false, true) => Some("the :: must expand to at least one field of zeros".into()),
        _ => None,
    }
}
