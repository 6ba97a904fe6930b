//! What volumes are called: each says in its name what it is for, so that nothing is ever taken for ours
//! that is not.

use sutler_provider::{DiskKey, Error, Result};
use uuid::Uuid;

/// Names that a file system takes have up to 255 bytes.
const LIMIT: usize = 200;
const KEPT: &str = "sutler-disk-";
const IMAGE: &str = "sutler-image-";
const IMPORT: &str = "sutler-import-";

/// What the names of all volumes of one machine begin with.
pub(crate) fn of_machine(machine: Uuid) -> String {
    format!("sutler-{machine}-")
}

/// A machine's disk.
pub(crate) fn disk(machine: Uuid, name: &str, format: &str) -> Result<String> {
    let name = format!("{}{}.{format}", of_machine(machine), encode(name));
    within_limit(name, "spec.disks")
}

/// A machine's data for its first boot.
pub(crate) fn seed(machine: Uuid) -> String {
    format!("{}seed.iso", of_machine(machine))
}

/// A machine's Ignition config.
pub(crate) fn ignition(machine: Uuid) -> String {
    format!("{}ignition.json", of_machine(machine))
}

/// A disk that outlives its machines.
pub(crate) fn kept(key: &DiskKey) -> Result<String> {
    within_limit(format!("{KEPT}{}.qcow2", encode(&key.0)), "spec.disks")
}

/// The key of a disk that outlives its machines, if the volume is one.
pub(crate) fn key_of(volume: &str) -> Option<DiskKey> {
    decode(volume.strip_prefix(KEPT)?.strip_suffix(".qcow2")?).map(DiskKey)
}

/// An image that was brought here.
pub(crate) fn image(target: &str) -> Result<String> {
    if target.is_empty() {
        return Err(Error::invalid("metadata.name", "an image needs a name"));
    }
    within_limit(format!("{IMAGE}{}", encode(target)), "metadata.name")
}

/// A disk that was brought here, and becomes a machine's own.
pub(crate) fn import(target: &str) -> Result<String> {
    if target.is_empty() {
        return Err(Error::invalid("target", "a disk needs a name"));
    }
    within_limit(format!("{IMPORT}{}", encode(target)), "target")
}

/// The volume beside an image that says that all of it is there.
pub(crate) fn image_whole(image: &str) -> String {
    format!("{image}.ok")
}

/// An image on its way to another format.
pub(crate) fn image_arriving(image: &str) -> String {
    format!("{image}.in")
}

/// Whether the volume is of our making.
pub(crate) fn is_ours(volume: &str) -> bool {
    let rest = volume.strip_prefix("sutler-").unwrap_or_default();
    let machine = rest.get(..36).is_some_and(|uuid| Uuid::parse_str(uuid).is_ok());
    machine || [KEPT, IMAGE, IMPORT].iter().any(|prefix| volume.starts_with(prefix))
}

fn within_limit(name: String, field: &str) -> Result<String> {
    match name.len() <= LIMIT {
        true => Ok(name),
        false => Err(Error::invalid(field, "a volume's name would be longer than 200 characters")),
    }
}

/// Small letters, digits and dashes stand for themselves; any other byte is `_` and two digits.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => encoded.push(char::from(byte)),
            other => encoded.push_str(&format!("_{other:02x}")),
        }
    }
    encoded
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'_' => {
                let (digits, after) = rest.split_at_checked(2)?;
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = after;
            }
            plain => bytes.push(*plain),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keys_come_back_from_names(key in "\\PC{1,40}") {
            if let Ok(name) = kept(&DiskKey(key.clone())) {
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)));
                prop_assert_eq!(key_of(&name), Some(DiskKey(key)));
                prop_assert!(is_ours(&name));
            }
        }
    }

    #[test]
    fn names_tell_what_they_are_for() {
        let machine = Uuid::from_u128(5);
        assert!(disk(machine, "root", "qcow2").unwrap().starts_with(&of_machine(machine)));
        assert!(is_ours(&seed(machine)) && is_ours(&image("debian").unwrap()));
        for foreign in ["debian.qcow2", "sutler", "sutler-old.qcow2", "sutler-disc-1.qcow2"] {
            assert!(!is_ours(foreign), "{foreign}");
        }
        assert_ne!(image("A").unwrap(), image("a").unwrap());
        assert_eq!(key_of("sutler-image-x.qcow2"), None);
        assert!(image("").is_err() && kept(&DiskKey("k".repeat(300))).is_err());
    }
}
