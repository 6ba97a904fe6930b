//! Credentials, which are never printed.

use std::{collections::BTreeMap, fmt};

/// A value that no log, status or error text shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The value, for the one place that sends it.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// The value as text, where it is text; a line end that an editor left is not part of it.
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok().map(|text| text.trim_end_matches(['\n', '\r']))
    }
}

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// What a Provider's Secret holds: `username` and `password`, `token`, `tls.crt`, `tls.key`,
/// `ca.crt`, and what else a platform needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credentials(BTreeMap<String, Secret>);

impl Credentials {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Secret> {
        self.0.get(key)
    }

    /// All keys with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<String>> FromIterator<(K, Vec<u8>)> for Credentials {
    fn from_iter<I: IntoIterator<Item = (K, Vec<u8>)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(key, value)| (key.into(), Secret(value))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_a_secret() {
        let credentials: Credentials = [("password", b"hunter2\n".to_vec())].into_iter().collect();
        let printed = format!("{credentials:?} {credentials:#?}");
        assert!(printed.contains("password") && !printed.contains("hunter2"), "{printed}");
        assert_eq!(credentials.get("password").unwrap().expose_str(), Some("hunter2"));
    }
}
