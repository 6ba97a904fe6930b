//! Addresses and networks.

use std::net::IpAddr;

use sutler_schema::{error::FieldError, path::Path};

use super::Errors;

pub(super) fn ip(errors: &mut Errors, path: &Path, value: &str) -> Option<IpAddr> {
    let parsed = parse(value);
    if parsed.is_none() {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(path, value, detail));
    }
    parsed
}

pub(super) fn cidr(errors: &mut Errors, path: &Path, value: &str) {
    let good = value.split_once('/').is_some_and(|(address, length)| {
        let most = match parse(address) {
            Some(IpAddr::V4(_)) => 32,
            Some(IpAddr::V6(_)) => 128,
            None => return false,
        };
        !length.is_empty()
            && length.bytes().all(|b| b.is_ascii_digit())
            && length.parse().is_ok_and(|length: u32| length <= most)
    });
    if !good {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid(path, value, detail));
    }
}

/// An address that others can reach.
pub(super) fn endpoint(errors: &mut Errors, path: &Path, value: &str) {
    let Some(address) = ip(errors, path, value) else { return };
    let (link_local, link_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => {
            (v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02)
        }
    };
    let faults = [
        (address.is_unspecified(), format!("may not be unspecified ({value})")),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".into()),
        (link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".into()),
        (
            link_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".into(),
        ),
    ];
    for (_, detail) in faults.into_iter().filter(|(fault, _)| *fault) {
        errors.push(FieldError::invalid(path, value, detail));
    }
}

/// As the reference implementation, which also takes leading zeros.
fn parse(value: &str) -> Option<IpAddr> {
    if let Ok(address) = value.parse() {
        return Some(address);
    }
    let trimmed: Vec<&str> = value
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    trimmed.join(".").parse().ok().map(IpAddr::V4)
}
