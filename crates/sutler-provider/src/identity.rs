//! Who a machine belongs to, and how that is proven.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A machine's ID on its platform. Some platforms give a dead machine's ID to a new one, so an ID
/// alone proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MachineId(pub String);

/// A task's ID on its platform.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

/// A snapshot's ID on its platform.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SnapshotId(pub String);

/// The key of a disk that outlives its machines: whoever asks for a disk of the same key means the same
/// disk. It carries the UID of the disk's record, so a disk that has it is that record's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiskKey(pub String);

macro_rules! text {
    ($($name:ident),*) => {$(
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    )*};
}

text!(MachineId, TaskId, SnapshotId, DiskKey);

/// The ownership token: a record's UID and which of its machines is meant, counted from 1. A record
/// whose machine was lost gets another one under the next incarnation, so a late arrival of the
/// first can be told apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The record's UID.
    pub uid: String,
    /// Which machine of that record.
    pub incarnation: u32,
}

impl Token {
    /// The token of a record's `incarnation`-th machine.
    pub fn new(uid: impl Into<String>, incarnation: u32) -> Self {
        Self { uid: uid.into(), incarnation }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.uid, self.incarnation)
    }
}

/// Why a text is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no ownership token: it is a UID, a dash and a number from 1")]
pub struct TokenError(String);

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let error = || TokenError(text.to_owned());
        let (uid, incarnation) = text.rsplit_once('-').ok_or_else(error)?;
        let canonical = !incarnation.starts_with(['0', '+']);
        let incarnation = incarnation.parse().map_err(|_| error())?;
        if uid.is_empty() || !canonical {
            return Err(error());
        }
        Ok(Self { uid: uid.to_owned(), incarnation })
    }
}

impl Serialize for Token {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Whom a change is made for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The ownership token.
    pub token: Token,
    /// Which control plane the record lives in: several may share one platform.
    pub installation: String,
    /// The record's namespace.
    pub namespace: String,
    /// The record's name.
    pub name: String,
}

/// What must hold of a machine before it is changed. The provider checks as much of it as its
/// platform can hold, as close to the change as it can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Whom the change is made for.
    pub owner: Owner,
    /// The name that the machine must have on the platform, where there is no token to compare; none
    /// for one that was adopted.
    pub name: Option<String>,
}

/// The name of a machine on a platform: the record's name and five characters of its UID's hash, so
/// that names prove ownership and never clash. Long names are cut, to `limit` in all.
pub fn platform_name(name: &str, uid: &str, limit: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijkmnopqrstuvwxyz0234567";
    let digest = Sha256::digest(uid.as_bytes());
    let suffix: String =
        digest.iter().take(5).map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect();
    let room = limit.saturating_sub(suffix.len() + 1);
    let cut: String = name.chars().take(room).collect();
    format!("{}-{suffix}", cut.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn tokens_are_read_as_they_are_written(uid in "[0-9a-f-]{1,36}", incarnation in 1u32..) {
            let token = Token { uid, incarnation };
            prop_assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        }

        #[test]
        fn platform_names_fit_and_keep_their_hash(name in "[a-z][a-z0-9-]{0,80}", uid in "[0-9a-f]{8}") {
            let full = platform_name(&name, &uid, 200);
            let short = platform_name(&name, &uid, 30);
            prop_assert!(short.len() <= 30);
            prop_assert_eq!(full.rsplit('-').next(), short.rsplit('-').next());
            prop_assert!(short.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "-", "-1", "a", "a-", "a-0", "a-01", "a-+1", "a-x", "a-99999999999"] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }

    #[test]
    fn records_of_one_name_have_different_machines() {
        let (a, b) = (platform_name("web", "uid-a", 63), platform_name("web", "uid-b", 63));
        assert_ne!(a, b);
        assert!(a.starts_with("web-") && a.len() == 9, "{a}");
    }
}
