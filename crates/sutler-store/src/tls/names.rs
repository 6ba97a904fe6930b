//! The names that the server's certificate carries.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use rcgen::SanType;
use x509_parser::prelude::{GeneralName, X509Certificate};

use super::TlsError;

/// Loopback in all its forms, then `names`: host names, addresses, or addresses with a port.
/// Addresses that mean "any" are left out, since no client dials them.
pub(super) fn subject_alt_names(names: &[String]) -> Result<BTreeSet<Name>, TlsError> {
    let loopback = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut all = BTreeSet::new();
    for name in loopback.iter().chain(names) {
        match Name::parse(name) {
            Some(Name::Ip(ip)) if ip.is_unspecified() => {}
            Some(name) => {
                all.insert(name);
            }
            None => return Err(TlsError::Name(name.clone())),
        }
    }
    Ok(all)
}

/// One name of the server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Dns(String),
    Ip(IpAddr),
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Some(Self::Ip(address.ip()));
        }
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Some(Self::Ip(ip));
        }
        let host = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        is_host_name(&host).then_some(Self::Dns(host))
    }

    pub(super) fn to_san(&self) -> Result<SanType, rcgen::Error> {
        Ok(match self {
            Self::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
            Self::Ip(ip) => SanType::IpAddress(*ip),
        })
    }
}

fn is_host_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let labels = host.strip_prefix("*.").unwrap_or(host);
    // All digits and dots is a mistyped address, not a host.
    let numeric = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    host.len() <= 253 && !numeric && labels.split('.').all(label)
}

/// The names in a certificate.
pub(super) fn names_in(certificate: &X509Certificate<'_>) -> BTreeSet<Name> {
    let names = match certificate.subject_alternative_name() {
        Ok(Some(extension)) => extension.value.general_names.as_slice(),
        _ => &[],
    };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(Name::Dns(name.to_ascii_lowercase())),
        GeneralName::IPAddress(octets) => match octets.len() {
            4 => <[u8; 4]>::try_from(*octets).ok().map(|ip| Name::Ip(ip.into())),
            16 => <[u8; 16]>::try_from(*octets).ok().map(|ip| Name::Ip(ip.into())),
            _ => None,
        },
        _ => None,
    };
    names.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_people_write_them() {
        let given =
            ["Box.Example.org.", "10.1.2.3:6443", "[fe80::1]", "[::1]:1", "0.0.0.0", "[::]"];
        let names = subject_alt_names(&given.map(str::to_owned)).unwrap();
        let dns = |name: &str| Name::Dns(name.to_owned());
        let ip = |ip: &str| Name::Ip(ip.parse().unwrap());
        let want = [
            dns("box.example.org"),
            dns("localhost"),
            ip("10.1.2.3"),
            ip("127.0.0.1"),
            ip("::1"),
            ip("fe80::1"),
        ];
        assert_eq!(names, want.into());
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for bad in ["", "a b", "10.0.0", "999.1.1.1", "-x", "x-", "a..b", "https://x", "größe"] {
            let error = subject_alt_names(&[bad.to_owned()]).unwrap_err();
            assert!(matches!(&error, TlsError::Name(name) if name == bad), "{bad}");
        }
    }
}
