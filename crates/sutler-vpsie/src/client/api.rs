//! What VPSie can be asked, whichever way it is asked.

use async_trait::async_trait;
use sutler_provider::Result;

use super::types::{
    Action, Cluster, NewVm, Node, NodeGroup, Offering, OsImage, Pending, Snapshot, Vm,
};
use crate::settings::Dialect;

/// VPSie's API. A list holds everything there is, or is an error. What is not there is told as such only
/// where VPSie says so; no error means it.
#[async_trait]
pub trait VpsieApi: Send + Sync + 'static {
    /// Which dialect it is.
    fn dialect(&self) -> Dialect;

    /// All machines but managed nodes, which may or may not be among them.
    async fn list_vms(&self) -> Result<Vec<Vm>>;

    /// One machine by the ID that its dialect uses.
    async fn get_vm(&self, id: &str) -> Result<Option<Vm>>;

    /// Machines that are being made; empty where the dialect cannot tell.
    async fn list_pending(&self) -> Result<Vec<Pending>>;

    /// All machines of the account with managed nodes among them; empty where the dialect has no such
    /// list.
    async fn list_all_nodes(&self) -> Result<Vec<Vm>>;

    /// Asks for a machine. That it was taken is all that is told.
    async fn create_vm(&self, vm: &NewVm) -> Result<()>;

    /// Asks for a machine's end; false where it is not there.
    async fn delete_vm(&self, id: &str) -> Result<bool>;

    /// Changes a machine's power.
    async fn act(&self, id: &str, action: Action) -> Result<()>;

    /// Changes a machine's size.
    async fn resize_vm(&self, id: &str, cpu: u32, memory_mib: u64) -> Result<()>;

    /// All managed clusters.
    async fn list_k8s_clusters(&self) -> Result<Vec<Cluster>>;

    /// All nodes of a cluster, masters too; none where the cluster is not there.
    async fn list_k8s_nodes(&self, cluster: &str) -> Result<Option<Vec<Node>>>;

    /// All groups of a cluster.
    async fn list_k8s_node_groups(&self, cluster: &str) -> Result<Vec<NodeGroup>>;

    /// Asks for a group. Its number is not told.
    async fn create_k8s_node_group(&self, cluster: &str, name: &str, size: i64) -> Result<()>;

    /// Asks for one more worker of a group. That it was taken is all that is told.
    async fn add_k8s_node(&self, cluster: &str, group: i64) -> Result<()>;

    /// Asks for the end of a worker, by its UUID; false where it is not there.
    async fn delete_k8s_node(&self, cluster: &str, identifier: &str) -> Result<bool>;

    /// Asks for one worker less in a group. VPSie picks which.
    async fn reduce_k8s_node_group(&self, cluster: &str, group: i64) -> Result<()>;

    /// Sizes that are offered.
    async fn list_offerings(&self) -> Result<Vec<Offering>>;

    /// Operating systems that are offered.
    async fn list_images(&self) -> Result<Vec<OsImage>>;

    /// A machine's snapshots.
    async fn list_snapshots(&self, vm: &str) -> Result<Vec<Snapshot>>;

    /// Asks for a snapshot. Its ID is not told.
    async fn create_snapshot(&self, vm: &str, name: &str, note: &str) -> Result<()>;

    /// Asks for a machine to be put back to a snapshot.
    async fn rollback_snapshot(&self, snapshot: &str) -> Result<()>;

    /// Asks for a snapshot's end; false where it is not there.
    async fn delete_snapshot(&self, snapshot: &str) -> Result<bool>;
}
