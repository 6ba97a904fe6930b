//! What a domain of ours says about itself, in libvirt's own place for such notes: whose it is, how
//! far it has come, and what its disks and cards are called in its record.

use std::{collections::BTreeMap, str::FromStr as _};

use jiff::Timestamp;
use roxmltree::Node;
use sutler_provider::{DiskKey, Owner, Token};
use uuid::Uuid;

use crate::xml::{Element, element};

/// The namespace of our notes.
pub(crate) const NAMESPACE: &str = "https://sutler.dev/xmlns/libvirt/1";
/// The prefix that it is written with.
pub(crate) const PREFIX: &str = "sutler";

/// From which the UUIDs of domains are made.
const UUIDS: Uuid = Uuid::from_u128(0x6d0c_19d0_4d0a_5cf5_9d5b_3e1e_7f1c_52a1);

/// What is noted in a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Whose it is, and which control plane's.
    pub(crate) owner: Option<(Token, String)>,
    /// When it was made.
    pub(crate) made_at: Option<Timestamp>,
    /// Who is making it, and since when; none once that is done.
    pub(crate) making: Option<Making>,
    /// Disks by their device in the guest.
    pub(crate) disks: BTreeMap<String, DiskMark>,
    /// The names of network cards by their hardware address.
    pub(crate) nics: BTreeMap<String, String>,
    /// Whether its memory can grow while it runs. It then starts with all that it can have, and its guest
    /// gives back what it should not.
    pub(crate) room: bool,
    /// Tags.
    pub(crate) tags: Vec<String>,
    /// The name that the guest was given.
    pub(crate) hostname: Option<String>,
}

/// A machine that is not yet what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Making {
    /// The process that makes it.
    pub(crate) by: String,
    /// Since when.
    pub(crate) since: Timestamp,
}

/// What is noted of a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DiskMark {
    /// Its name in the record.
    pub(crate) name: String,
    /// Its key, where it outlives the machine.
    pub(crate) kept: Option<DiskKey>,
}

/// The UUID of the machine with this token. The same request makes the same UUID, and libvirt refuses
/// a second domain of one UUID: that is what makes a request safe to repeat.
pub(crate) fn uuid_of(owner: &Owner) -> Uuid {
    let text = format!("{}/{}", owner.installation, owner.token);
    Uuid::new_v5(&UUIDS, text.as_bytes())
}

impl Mark {
    /// Whether this is the owner's.
    pub(crate) fn belongs_to(&self, owner: &Owner) -> bool {
        self.owner.as_ref().is_some_and(|(token, installation)| {
            *token == owner.token && *installation == owner.installation
        })
    }

    /// As it stands within `metadata`.
    pub(crate) fn write(&self) -> Element {
        self.fill(element("sutler:machine").with("xmlns:sutler", NAMESPACE))
    }

    /// As libvirt takes it alone: it writes the namespace itself, on the outermost element.
    pub(crate) fn write_alone(&self) -> Element {
        self.fill(element("machine"))
    }

    fn fill(&self, machine: Element) -> Element {
        let (token, installation) = self.owner.clone().unzip();
        machine
            .with_some("token", token)
            .with_some("installation", installation)
            .with_some("madeAt", self.made_at)
            .with_some("makingBy", self.making.as_ref().map(|making| &making.by))
            .with_some("makingSince", self.making.as_ref().map(|making| making.since))
            .with_some("hostname", self.hostname.as_ref())
            .with_some("room", self.room.then_some("yes"))
            .children(self.disks.iter().map(|(device, disk)| {
                element("disk")
                    .with("device", device)
                    .with("name", &disk.name)
                    .with_some("key", disk.kept.as_ref())
            }))
            .children(
                self.nics
                    .iter()
                    .map(|(mac, name)| element("nic").with("mac", mac).with("name", name)),
            )
            .children(self.tags.iter().map(|tag| element("tag").text(tag)))
    }

    /// Reads it from the element that [`Mark::write`] wrote. What cannot be read counts as not noted:
    /// a domain without a token is nobody's.
    pub(crate) fn read(node: Node<'_, '_>) -> Self {
        let text = |name: &str| node.attribute(name).map(str::to_owned);
        let time = |name: &str| node.attribute(name).and_then(|at| at.parse().ok());
        let token = node.attribute("token").and_then(|token| Token::from_str(token).ok());
        let ours = |name: &'static str| {
            let elements = node.children().filter(Node::is_element);
            elements.filter(move |child| child.has_tag_name(name))
        };
        let of = |child: Node<'_, '_>, name: &str| child.attribute(name).map(str::to_owned);
        Self {
            owner: token.zip(text("installation")),
            made_at: time("madeAt"),
            making: text("makingBy")
                .zip(time("makingSince"))
                .map(|(by, since)| Making { by, since }),
            disks: ours("disk")
                .filter_map(|disk| {
                    let kept = of(disk, "key").map(DiskKey);
                    Some((of(disk, "device")?, DiskMark { name: of(disk, "name")?, kept }))
                })
                .collect(),
            nics: ours("nic").filter_map(|nic| Some((of(nic, "mac")?, of(nic, "name")?))).collect(),
            tags: ours("tag").filter_map(|tag| tag.text().map(str::to_owned)).collect(),
            hostname: text("hostname"),
            room: text("room").is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            token: Token::new("8d6f7a52-0000-4000-8000-000000000000", 2),
            installation: "here".to_owned(),
            namespace: "ns".to_owned(),
            name: "web".to_owned(),
        }
    }

    #[test]
    fn what_is_noted_comes_back() {
        let kept = Some(DiskKey::from("sutler-1"));
        let mark = Mark {
            owner: Some((owner().token, "here".to_owned())),
            made_at: Some("2026-01-02T03:04:05Z".parse().unwrap()),
            making: Some(Making {
                by: "kvm7 4711".to_owned(),
                since: "2026-01-02T03:04:00Z".parse().unwrap(),
            }),
            disks: BTreeMap::from([
                ("vda".to_owned(), DiskMark { name: "root".to_owned(), kept: None }),
                ("vdb".to_owned(), DiskMark { name: "data".to_owned(), kept }),
            ]),
            nics: BTreeMap::from([("52:54:00:00:00:01".to_owned(), "lan".to_owned())]),
            tags: vec!["a<b".to_owned(), "c&d".to_owned()],
            hostname: Some("web".to_owned()),
            room: true,
        };
        let text = mark.write().to_string();
        let document = roxmltree::Document::parse(&text).unwrap();
        assert_eq!(Mark::read(document.root_element()), mark);
        assert!(mark.belongs_to(&owner()));
        let other = Owner { installation: "elsewhere".to_owned(), ..owner() };
        assert!(!mark.belongs_to(&other) && !Mark::default().belongs_to(&owner()));
    }

    #[test]
    fn a_request_has_one_uuid() {
        assert_eq!(uuid_of(&owner()), uuid_of(&owner()));
        let next = Owner { token: Token::new(owner().token.uid, 3), ..owner() };
        let elsewhere = Owner { installation: "elsewhere".to_owned(), ..owner() };
        assert_ne!(uuid_of(&owner()), uuid_of(&next));
        assert_ne!(uuid_of(&owner()), uuid_of(&elsewhere));
    }
}
