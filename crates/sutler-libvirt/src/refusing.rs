//! A host that cannot even be tried, because of what its Provider says of it.

use async_trait::async_trait;
use sutler_provider::{
    Accepted, Capabilities, CreateRequest, DeleteRequest, Error, Listing, Machine, MachineId,
    PowerRequest, Provider, ReconfigureRequest, Result, Started, TaskId, TaskState,
};

/// Answers every call with what is wrong. A program that ended instead would tell it to nobody but its log,
/// and the server that started it would only see that it is gone.
pub struct Refusing(Error);

impl Refusing {
    /// Refuses everything for this.
    pub fn new(why: Error) -> Self {
        Self(why)
    }
}

#[async_trait]
impl Provider for Refusing {
    async fn validate(&self) -> Result<()> {
        Err(self.0.clone())
    }

    async fn capabilities(&self) -> Result<Capabilities> {
        Err(self.0.clone())
    }

    async fn create(&self, _: CreateRequest) -> Result<Accepted> {
        Err(self.0.clone())
    }

    async fn delete(&self, _: DeleteRequest) -> Result<Started> {
        Err(self.0.clone())
    }

    async fn power(&self, _: PowerRequest) -> Result<Started> {
        Err(self.0.clone())
    }

    async fn reconfigure(&self, _: ReconfigureRequest) -> Result<Started> {
        Err(self.0.clone())
    }

    async fn describe(&self, _: &MachineId) -> Result<Option<Machine>> {
        Err(self.0.clone())
    }

    async fn task(&self, _: &TaskId) -> Result<TaskState> {
        Err(self.0.clone())
    }

    async fn list(&self) -> Result<Listing> {
        Err(self.0.clone())
    }
}
