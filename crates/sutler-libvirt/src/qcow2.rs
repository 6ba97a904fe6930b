//! What a disk image's first bytes say.

use sutler_provider::{Error, Result};

/// Bytes that have to be looked at.
pub(crate) const HEAD: usize = 104;

/// A disk image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) format: &'static str,
    /// Bytes that a guest sees; none where that is the file's own length.
    pub(crate) bytes: Option<u64>,
}

/// Reads what an image is. An image that reaches for other files of the host is refused: whoever made it
/// would read them through a guest.
pub(crate) fn read(head: &[u8], length: u64, wanted: Option<&str>) -> Result<Kind> {
    let broken = |why: &str| Error::failed(format!("the image cannot be used: {why}"));
    let is = |magic: &[u8]| head.starts_with(magic);
    if !is(b"QFI\xfb") {
        return match wanted {
            Some("qcow2") => Err(broken("it is said to be qcow2, and does not begin like one")),
            _ if is(b"KDMV") || is(b"# Disk DescriptorFile") => {
                Err(broken("it is a vmdk; convert it to qcow2 or raw first"))
            }
            _ if is(b"\x1f\x8b") || is(b"\xfd7zXZ") || is(b"BZh") || is(b"\x28\xb5\x2f\xfd") => {
                Err(broken("it is compressed; unpack it first"))
            }
            _ => Ok(Kind { format: "raw", bytes: None }),
        };
    }
    if wanted == Some("raw") {
        return Err(broken("it is said to be raw, and is qcow2"));
    }
    let four = |at: usize| {
        head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
    };
    let eight = |at: usize| {
        head.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes)
    };
    let cut = || broken("it ends within its header");
    let version = four(4).ok_or_else(cut)?;
    if !(2..=3).contains(&version) {
        return Err(broken(&format!("qcow2 version {version} is not known")));
    }
    if eight(8).ok_or_else(cut)? != 0 {
        return Err(broken("it is an overlay of another file"));
    }
    // Bit 2 of what a reader must understand: the data is in another file.
    if version == 3 && eight(72).ok_or_else(cut)? & 4 != 0 {
        return Err(broken("its data is in another file"));
    }
    // QEMU takes what is behind a file's end for zeros, and the guest for an empty disk.
    let entries = u64::from(four(36).ok_or_else(cut)?);
    let table = eight(40).ok_or_else(cut)?.saturating_add(entries * 8);
    if table.max(eight(48).ok_or_else(cut)?) > length {
        return Err(broken("it is cut off: its tables are behind its end"));
    }
    match eight(24).ok_or_else(cut)? {
        0 => Err(broken("it has no size")),
        bytes => Ok(Kind { format: "qcow2", bytes: Some(bytes) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least that a file of the head below has.
    const LENGTH: u64 = 0x30010;

    fn head(backing: u64, size: u64, features: u64) -> Vec<u8> {
        let mut head = b"QFI\xfb".to_vec();
        head.extend(3_u32.to_be_bytes());
        head.extend(backing.to_be_bytes());
        head.extend([0; 8]);
        head.extend(size.to_be_bytes());
        head.resize(36, 0);
        head.extend(2_u32.to_be_bytes());
        head.extend(0x30000_u64.to_be_bytes());
        head.extend(0x10000_u64.to_be_bytes());
        head.resize(72, 0);
        head.extend(features.to_be_bytes());
        head.resize(HEAD, 0);
        head
    }

    #[test]
    fn images_are_known_by_their_beginning() {
        let kind = read(&head(0, 7 << 30, 0), LENGTH, Some("qcow2")).unwrap();
        assert_eq!(kind, Kind { format: "qcow2", bytes: Some(7 << 30) });
        assert_eq!(read(&[0; HEAD], LENGTH, None).unwrap(), Kind { format: "raw", bytes: None });
    }

    #[test]
    fn what_is_broken_or_reaches_out_is_refused() {
        for (head, wanted, want) in [
            (head(512, 1 << 30, 0), None, "overlay"),
            (head(0, 1 << 30, 4), None, "another file"),
            (head(0, 0, 0), None, "no size"),
            (head(0, 1, 0)[..20].to_vec(), None, "ends within"),
            (vec![0; HEAD], Some("qcow2"), "does not begin"),
            (head(0, 1, 0), Some("raw"), "is qcow2"),
            (b"\x1f\x8b whatever".to_vec(), None, "compressed"),
            (b"KDMV whatever".to_vec(), None, "vmdk"),
        ] {
            let error = read(&head, LENGTH, wanted).unwrap_err();
            assert!(error.message().contains(want), "{want}: {error}");
        }
        let error = read(&head(0, 1 << 30, 0), 0x3000f, None).unwrap_err();
        assert!(error.message().contains("cut off"), "{error}");
    }
}
