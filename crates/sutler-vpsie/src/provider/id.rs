//! IDs of machines: VPSie's own for plain ones, and the cluster's with the node's for managed ones.

use sutler_provider::MachineId;

use crate::settings::is_plain;

/// What an ID names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Which {
    /// A plain machine, by the ID of its dialect.
    Vm(String),
    /// A worker of a managed cluster.
    Node {
        cluster: String,
        /// Its number or UUID, whichever its dialect tells.
        key: String,
    },
    /// Nothing that VPSie could have.
    Nothing,
}

const NODE: &str = "node.";

impl Which {
    pub(super) fn read(id: &MachineId) -> Self {
        let Some(rest) = id.0.strip_prefix(NODE) else {
            return match is_plain(&id.0) {
                true => Self::Vm(id.0.clone()),
                false => Self::Nothing,
            };
        };
        match rest.split_once('.') {
            Some((cluster, key)) if is_plain(cluster) && is_plain(key) => {
                Self::Node { cluster: cluster.to_owned(), key: key.to_owned() }
            }
            _ => Self::Nothing,
        }
    }
}

/// The ID of a worker.
pub(super) fn of_node(cluster: &str, key: &str) -> MachineId {
    MachineId(format!("{NODE}{cluster}.{key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let node = Which::Node { cluster: "c-1".to_owned(), key: "42".to_owned() };
        assert_eq!(Which::read(&of_node("c-1", "42")), node);
        assert_eq!(Which::read(&"8f6-a".into()), Which::Vm("8f6-a".to_owned()));
        for wrong in ["", "node.", "node.a", "node.a.", "node.a.b.c", "a/b", "../vm", "a b"] {
            assert_eq!(Which::read(&wrong.into()), Which::Nothing, "{wrong}");
        }
    }
}
