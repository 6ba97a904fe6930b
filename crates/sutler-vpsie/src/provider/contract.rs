//! The contract: each call's way in.

use async_trait::async_trait;
use sutler_provider::{
    Accepted, Capabilities, CreateRequest, DeleteRequest, Error, Listing, Machine, MachineId,
    PowerRequest, Proof, Provider, ReconfigureRequest, Result, SnapshotId, SnapshotRequest,
    Snapshotted, Started, TaskId, TaskState, Template,
};

use super::{Vpsie, capabilities};

#[async_trait]
impl Provider for Vpsie {
    async fn validate(&self) -> Result<()> {
        let there = self.0.clusters().await?;
        let named = self.0.settings.clusters.iter().flatten();
        match named.into_iter().find(|named| !there.contains(named)) {
            None => Ok(()),
            Some(missing) => {
                let why =
                    format!("the account has no cluster {missing}: leave it out, or name another");
                Err(Error::invalid("spec.options.clusters", why))
            }
        }
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Ok(capabilities::of(&self.0.settings))
    }

    async fn create(&self, request: CreateRequest) -> Result<Accepted> {
        let inner = self.0.clone();
        self.carry(async move { inner.create(&request).await }).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Started> {
        let inner = self.0.clone();
        self.carry(async move { inner.delete(&request).await }).await
    }

    async fn power(&self, request: PowerRequest) -> Result<Started> {
        let inner = self.0.clone();
        self.carry(async move { inner.power(&request).await }).await
    }

    async fn reconfigure(&self, _request: ReconfigureRequest) -> Result<Started> {
        Err(Error::unsupported(
            "VPSie's machines keep their size: one dialect can change it, in a way that is not documented",
        ))
    }

    async fn describe(&self, id: &MachineId) -> Result<Option<Machine>> {
        match self.0.describe(id).await? {
            Some(machine) => Ok(Some(self.0.with_snapshots(machine).await)),
            None => Ok(None),
        }
    }

    async fn task(&self, id: &TaskId) -> Result<TaskState> {
        self.0.task(id).await
    }

    async fn list(&self) -> Result<Listing> {
        self.0.list().await
    }

    async fn snapshot_create(&self, request: SnapshotRequest) -> Result<Snapshotted> {
        let inner = self.0.clone();
        self.carry(async move { inner.snapshot_create(&request).await }).await
    }

    async fn snapshot_delete(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        let (inner, id, proof, snapshot) =
            (self.0.clone(), id.clone(), proof.clone(), snapshot.clone());
        self.carry(async move { inner.snapshot_delete(&id, &proof, &snapshot).await }).await
    }

    async fn snapshot_revert(
        &self,
        id: &MachineId,
        proof: &Proof,
        snapshot: &SnapshotId,
    ) -> Result<Started> {
        let (inner, id, proof, snapshot) =
            (self.0.clone(), id.clone(), proof.clone(), snapshot.clone());
        self.carry(async move { inner.snapshot_revert(&id, &proof, &snapshot).await }).await
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        let template = |image: crate::client::OsImage| {
            let id = image.id?;
            let name = [image.name, image.version].into_iter().flatten().collect::<Vec<_>>();
            Some(Template {
                // What is named in a request is the ID.
                name: id.clone(),
                id,
                host: None,
                description: Some(name.join(" ")).filter(|name| !name.is_empty()),
                size_gib: image.min_disk.and_then(|gib| u64::try_from(gib).ok()),
            })
        };
        Ok(self.0.api.list_images().await?.into_iter().filter_map(template).collect())
    }
}
