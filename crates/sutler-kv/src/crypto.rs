//! Encryption at rest: chosen values are sealed with XChaCha20-Poly1305.
//!
//! A sealed value is bound to its key, its version and whether it is a removal, so that whoever
//! can write to the file cannot put one record's value in another's place, nor an old one in a
//! new one's. Keys of records and the sizes of values stay readable.
//!
//! To change the key: [`Keyring::with_new_key`], [`save`](Keyring::save) it (now the file has both),
//! [`reseal`](crate::sqlite::Sqlite::reseal) the store, then save [`Keyring::newest_only`].
//! [`rotate`](crate::sqlite::Sqlite::rotate) does all of it; after a crash at any point the file
//! still opens the store, and doing it again ends it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, AeadCore as _, KeyInit as _, OsRng, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::{Zeroize as _, Zeroizing};

/// Names a key within its keyring. The highest seals.
pub type KeyId = u32;

/// The length of a nonce, which is random and stands before the ciphertext.
const NONCE: usize = 24;

/// What a file of keys begins with.
const HEADER: &str = "\
# Keys that seal secrets at rest, one `number:key` a line. The highest number seals, all open.
# Whoever has this file can read the secrets of the store; without it they are lost.
";

/// The keys that seal and open values; at least one. Never printed.
#[derive(Clone)]
pub struct Keyring {
    keys: BTreeMap<KeyId, Zeroizing<[u8; 32]>>,
}

/// Why keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key file {path}")]
    Read {
        /// Where it is.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file cannot be written.
    #[error("cannot write the key file {path}")]
    Write {
        /// Where it would be.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others than the owner may use the file.
    #[error("the key file {path} has mode {mode:04o}, which lets others use it: chmod 600 it")]
    Loose {
        /// Where it is.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// What was given is not a list of keys.
    #[error("entry {entry} of the keys is not `number:key` with a key of 32 bytes in base64")]
    Malformed {
        /// Which entry, counted from 1.
        entry: usize,
    },
    /// Two keys have one number.
    #[error("key {id} is given twice")]
    Twice {
        /// The number.
        id: KeyId,
    },
    /// There is no key.
    #[error("no key is given")]
    Empty,
    /// Values are sealed with a key that was not given.
    #[error("the store has values sealed with key {id}, which is not given: add it to the keys")]
    Missing {
        /// The number of the key.
        id: KeyId,
    },
    /// A key is not the one that sealed.
    #[error(
        "key {id} is not the key {id} that sealed the store's values: give the keys that belong \
         to this store"
    )]
    Wrong {
        /// The number of the key.
        id: KeyId,
    },
}

impl Keyring {
    /// One new key.
    pub fn generate() -> Self {
        Self { keys: BTreeMap::from([(1, new_key())]) }
    }

    /// Keys given as text: `number:key` with the key in base64, separated by commas or blanks; a
    /// lone key needs no number. Lines that begin with `#` are skipped.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let entries: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .flat_map(|line| line.split(|c: char| c == ',' || c.is_whitespace()))
            .filter(|entry| !entry.is_empty())
            .collect();
        let mut keys = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            let malformed = || KeyError::Malformed { entry: at + 1 };
            let (id, key) = match entry.split_once(':') {
                Some((id, key)) => (id.parse().map_err(|_| malformed())?, key),
                None if entries.len() == 1 => (1, *entry),
                None => return Err(malformed()),
            };
            if keys.insert(id, decode(key).ok_or_else(malformed)?).is_some() {
                return Err(KeyError::Twice { id });
            }
        }
        if keys.is_empty() { Err(KeyError::Empty) } else { Ok(Self { keys }) }
    }

    /// The keys in a file, which nobody but its owner may use.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let failed = |source| KeyError::Read { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Loose { path: path.to_owned(), mode });
        }
        let mut text = Zeroizing::new(String::new());
        file.read_to_string(&mut text).map_err(failed)?;
        Self::parse(&text)
    }

    /// The keys in a file, which is made with one new key where there is none.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyError> {
        match Self::load(path) {
            Err(KeyError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                let keyring = Self::generate();
                keyring.save(path)?;
                Ok(keyring)
            }
            result => result,
        }
    }

    /// Puts the keys in a file, in one step, with mode 0600. It is on disk when this returns.
    pub fn save(&self, path: &Path) -> Result<(), KeyError> {
        let mut text = Zeroizing::new(HEADER.to_owned());
        text.push_str(&self.to_text('\n'));
        text.push('\n');
        replace(path, text.as_bytes())
            .map_err(|source| KeyError::Write { path: path.to_owned(), source })
    }

    /// The keys as [`Keyring::parse`] reads them, with a comma or a blank between them.
    pub fn to_text(&self, between: char) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::new());
        for (id, key) in &self.keys {
            let key = Zeroizing::new(STANDARD.encode(key.as_slice()));
            if !text.is_empty() {
                text.push(between);
            }
            text.push_str(&format!("{id}:"));
            text.push_str(&key);
        }
        text
    }

    /// These keys and a new one, which from then on seals.
    pub fn with_new_key(&self) -> Self {
        let mut keyring = self.clone();
        keyring.keys.insert(self.newest().saturating_add(1), new_key());
        keyring
    }

    /// The key that seals, alone.
    pub fn newest_only(&self) -> Self {
        let mut keyring = self.clone();
        keyring.keys.retain(|id, _| *id == self.newest());
        keyring
    }

    /// The number of the key that seals.
    pub fn newest(&self) -> KeyId {
        *self.keys.keys().next_back().expect("a keyring has a key")
    }

    /// The numbers of all keys.
    pub fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.keys.keys().copied()
    }

    /// All keys of both; where a number is in both, that of `other`.
    pub(crate) fn merged(&self, other: &Self) -> Self {
        let mut keyring = self.clone();
        keyring.keys.extend(other.keys.iter().map(|(id, key)| (*id, key.clone())));
        keyring
    }

    /// Seals with the newest key.
    pub(crate) fn seal(&self, bound: &[u8], value: &[u8]) -> Vec<u8> {
        let key = &self.keys[&self.newest()];
        let nonce = XChaCha20Poly1305::generate_nonce(&mut OsRng);
        let payload = Payload { msg: value, aad: bound };
        let sealed = cipher(key).encrypt(&nonce, payload).expect("a value is below 256 GB");
        let mut out = Vec::with_capacity(NONCE + sealed.len());
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&sealed);
        out
    }

    /// What was sealed with that key and bound to that; says only that it fails, as an attacker
    /// must not learn why.
    pub(crate) fn open(&self, id: KeyId, bound: &[u8], sealed: &[u8]) -> Result<Vec<u8>, KeyError> {
        let key = self.keys.get(&id).ok_or(KeyError::Missing { id })?;
        let (nonce, sealed) = sealed.split_at_checked(NONCE).ok_or(KeyError::Wrong { id })?;
        let payload = Payload { msg: sealed, aad: bound };
        let nonce = XNonce::from_slice(nonce);
        cipher(key).decrypt(nonce, payload).map_err(|_| KeyError::Wrong { id })
    }

    /// Something only the newest key can have sealed; stored to recognise the key again.
    pub(crate) fn proof(&self) -> Vec<u8> {
        self.seal(&[PROOF], &[])
    }

    /// Whether a proof is by our key of that number.
    pub(crate) fn check(&self, id: KeyId, proof: &[u8]) -> Result<(), KeyError> {
        self.open(id, &[PROOF], proof).map(|_| ())
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Keyring").field(&self.keys.keys()).finish()
    }
}

/// What is bound to a sealed value begins with its purpose.
const PROOF: u8 = 0;
const RECORD: u8 = 1;

/// What a record's value is bound to.
pub(crate) fn bound(key: &str, version: u64, deleted: bool) -> Vec<u8> {
    let mut bound = Vec::with_capacity(10 + key.len());
    bound.push(RECORD);
    bound.extend_from_slice(&version.to_be_bytes());
    bound.push(u8::from(deleted));
    bound.extend_from_slice(key.as_bytes());
    bound
}

fn cipher(key: &[u8; 32]) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(key.into())
}

fn new_key() -> Zeroizing<[u8; 32]> {
    let mut key = XChaCha20Poly1305::generate_key(&mut OsRng);
    let kept = Zeroizing::new(key.into());
    key.as_mut_slice().zeroize();
    kept
}

fn decode(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let bytes = Zeroizing::new(STANDARD.decode(text).ok()?);
    Some(Zeroizing::new(bytes.as_slice().try_into().ok()?))
}

/// Puts a private file in the place of another, so that a crash leaves the one or the other.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    // What a crash left of an earlier try may have another mode.
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    sync_folder(path)
}

/// Makes the name of a new file durable.
pub(crate) fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
