//! Where a provider is.

use std::{fmt, path::PathBuf, str::FromStr};

use crate::DEFAULT_PORT;

/// Where a provider is: `host:port`, `host` with the default port, or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// Over the network.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket of this host.
    Unix(PathBuf),
    /// Something that is connected already.
    Named(String),
}

/// Why a text is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address of a provider: write host:port, [address]:port or unix:/path")]
pub struct BadAddress(String);

impl Address {
    /// The name that a server there should have.
    pub fn host(&self) -> &str {
        match self {
            Self::Tcp { host, .. } => host,
            Self::Unix(_) => "localhost",
            Self::Named(_) => "tunnel",
        }
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let wrong = || BadAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.starts_with('/') {
                true => Ok(Self::Unix(path.into())),
                false => Err(wrong()),
            };
        }
        let rest = ["tcp://", "grpc://", "dns:///"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme))
            .unwrap_or(text);
        let (host, port) = match rest.strip_prefix('[') {
            Some(inner) => {
                let (host, tail) = inner.split_once(']').ok_or_else(wrong)?;
                (
                    host,
                    tail.strip_prefix(':').or((tail.is_empty()).then_some("")).ok_or_else(wrong)?,
                )
            }
            None => rest.rsplit_once(':').unwrap_or((rest, "")),
        };
        let port = match port {
            "" if rest.ends_with(':') => return Err(wrong()),
            "" => DEFAULT_PORT,
            port => port.parse().map_err(|_| wrong())?,
        };
        let inner = rest.starts_with('[');
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c) || (inner && c == ':');
        if host.is_empty() || !host.chars().all(plain) {
            return Err(wrong());
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused() {
        for (text, want) in [
            ("lab:9443", "lab:9443"),
            ("lab", "lab:9443"),
            ("grpc://10.0.0.7:1", "10.0.0.7:1"),
            ("[::1]:7", "[::1]:7"),
            ("[::1]", "[::1]:9443"),
            ("unix:/run/x.sock", "unix:/run/x.sock"),
            ("unix:///run/x.sock", "unix:/run/x.sock"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), want);
        }
        for text in
            ["", ":1", "lab:", "lab:x", "lab:99999", "::1", "a/b:1", "unix:x", "[::1", "[::1]x"]
        {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
