//! Certificates of both ends, read anew while they are in use.
//!
//! A [`Store`] holds what one end shows and whom it trusts. It is filled from files that are looked at
//! again and again ([`Store::watch`]), or from a Secret by whoever watches that ([`Store::replace`]).
//! Connections that are open go on; new ones use what is there when they are made. What cannot be
//! used (a key that belongs to another certificate, half a file) changes nothing.

mod explain;
mod io;
mod load;
mod store;

use std::fmt;

pub(crate) use explain::{client_side, server_side};
pub(crate) use io::{BoxedStream, Rewound, Stream};
pub(crate) use load::alternative_names;
pub use load::{Pem, PemFiles, TlsError};
pub use store::{Store, Watch};

/// How a connection is protected, for a condition and a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Security {
    /// Both ends have proven who they are.
    MutualTls,
    /// Encrypted, and the other end may be anybody: verification was switched off.
    Unverified,
    /// Anybody on the way can read and change everything.
    Plaintext,
    /// A socket of this host, guarded by its file's permissions.
    Local,
}

impl Security {
    /// What there is to warn of.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::MutualTls | Self::Local => None,
            Self::Unverified => {
                Some("the other end's certificate is not verified, because that was asked for")
            }
            Self::Plaintext => Some(
                "the connection is not encrypted and nobody is verified, because that was asked for",
            ),
        }
    }
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::MutualTls => "MutualTLS",
            Self::Unverified => "Unverified",
            Self::Plaintext => "Plaintext",
            Self::Local => "Local",
        })
    }
}

/// How a client protects its connections. There is no default: plaintext has to be written down.
#[derive(Debug, Clone)]
pub enum ClientSecurity {
    /// With these certificates.
    Tls {
        /// What we show, and whom we trust.
        store: Store,
        /// Whether the server may be anybody.
        skip_verify: bool,
    },
    /// Not at all.
    Plaintext,
}

/// How a server protects its connections. There is no default: plaintext has to be written down.
#[derive(Debug, Clone)]
pub enum ServerSecurity {
    /// With these certificates; clients must show one that the store's CA has signed.
    Tls {
        /// What we show, and whom we trust.
        store: Store,
        /// Names of which a client's certificate must have one; any where this is empty.
        allowed_names: Vec<String>,
    },
    /// Not at all.
    Plaintext,
}
