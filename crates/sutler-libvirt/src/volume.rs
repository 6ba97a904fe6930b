//! Volumes as XML.

use roxmltree::Node;
use sutler_provider::Error;

use crate::xml::{self, Element, child, element, text};

/// A GiB in bytes.
pub(crate) const GIB: u64 = 1 << 30;

/// A volume to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewVolume {
    pub(crate) name: String,
    pub(crate) format: String,
    pub(crate) bytes: u64,
    /// Whether its space is taken at once.
    pub(crate) thick: bool,
    /// The path and format of what it is an overlay of.
    pub(crate) backing: Option<(String, String)>,
}

impl NewVolume {
    /// How libvirt makes it: of qcow2 it takes space at once only when it is told to write the tables too.
    pub(crate) fn flags(&self) -> u32 {
        match self.thick && self.format == "qcow2" {
            true => virt_sys::VIR_STORAGE_VOL_CREATE_PREALLOC_METADATA,
            false => 0,
        }
    }

    /// As libvirt takes it.
    pub(crate) fn write(&self) -> Element {
        let format = |name: &str| element("format").with("type", name);
        let allocation = if self.thick { self.bytes } else { 0 };
        element("volume")
            .child(element("name").text(&self.name))
            .child(element("capacity").with("unit", "bytes").text(self.bytes))
            .child(element("allocation").with("unit", "bytes").text(allocation))
            .child(element("target").child(format(&self.format)))
            .children(self.backing.as_ref().map(|(path, kind)| {
                element("backingStore").child(element("path").text(path)).child(format(kind))
            }))
    }
}

/// A volume that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) format: String,
    pub(crate) bytes: u64,
    pub(crate) taken: u64,
    /// The path of what it is an overlay of.
    pub(crate) backing: Option<String>,
}

impl Volume {
    /// Reads what `virStorageVolGetXMLDesc` tells.
    pub(crate) fn read(xml: &str) -> Result<Self, Error> {
        let document = xml::parse(xml)?;
        let volume = document.root_element();
        let target = child(volume, "target");
        let format = target.and_then(|target| child(target, "format")?.attribute("type"));
        let path = |node: Node<'_, '_>| text(node, "path");
        Ok(Self {
            name: text(volume, "name").unwrap_or_default(),
            path: target.and_then(path).unwrap_or_default(),
            format: format.unwrap_or("raw").to_owned(),
            bytes: child(volume, "capacity").and_then(bytes).unwrap_or_default(),
            taken: child(volume, "allocation").and_then(bytes).unwrap_or_default(),
            backing: child(volume, "backingStore").and_then(path),
        })
    }

    /// Its size in whole GiB.
    pub(crate) fn gib(&self) -> u64 {
        self.bytes.div_ceil(GIB)
    }
}

/// libvirt tells sizes in bytes.
fn bytes(node: Node<'_, '_>) -> Option<u64> {
    node.text()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlays_name_what_they_are_on() {
        let new = NewVolume {
            name: "a&b".to_owned(),
            format: "qcow2".to_owned(),
            bytes: 3 * GIB,
            thick: false,
            backing: Some(("/pool/debian".to_owned(), "qcow2".to_owned())),
        };
        let read = Volume::read(&new.write().to_string()).unwrap();
        assert_eq!((read.name.as_str(), read.format.as_str()), ("a&b", "qcow2"));
        assert_eq!((read.bytes, read.taken, read.gib()), (3 * GIB, 0, 3));
        assert_eq!(read.backing.as_deref(), Some("/pool/debian"));
        let thick = NewVolume { thick: true, backing: None, ..new };
        assert_eq!(Volume::read(&thick.write().to_string()).unwrap().taken, 3 * GIB);
    }
}
