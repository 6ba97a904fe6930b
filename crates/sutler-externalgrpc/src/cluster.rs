//! Which cluster's nodes are driven.

use std::fmt;

use kube::ResourceExt as _;
use sutler_api::autoscaler::{ClusterRef, NodeGroup};

/// The cluster that a cluster-autoscaler looks after: groups of other clusters are not shown to it.
#[derive(Clone)]
pub enum Cluster {
    /// The one that the NodeGroups are in: groups without `spec.clusterRef`.
    Own,
    /// One that groups of a namespace name in `spec.clusterRef`.
    Other {
        /// The namespace of the groups, and of the Secret.
        namespace: String,
        /// The Secret that they name.
        secret: ClusterRef,
        /// A client of that cluster, where the Nodes are.
        nodes: kube::Client,
    },
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("Own"),
            Self::Other { namespace, secret, .. } => {
                write!(f, "Other({namespace}/{}, key {})", secret.name, secret.key)
            }
        }
    }
}

impl Cluster {
    /// Whether the group's nodes are of this cluster.
    pub fn has(&self, group: &NodeGroup) -> bool {
        match (self, &group.spec.cluster_ref) {
            (Self::Own, None) => true,
            (Self::Other { namespace, secret, .. }, Some(named)) => {
                named == secret && group.namespace().as_deref() == Some(namespace)
            }
            (Self::Own, Some(_)) | (Self::Other { .. }, None) => false,
        }
    }
}
