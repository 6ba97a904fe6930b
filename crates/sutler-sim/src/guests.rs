//! Guests that are up, for those who play what runs in them.

use sutler_provider::{MachineId, Power};
use tokio::sync::watch;

use crate::{row::Row, sim::Sim};

/// A guest that is up: what software in it would find out about its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its machine.
    pub id: MachineId,
    /// What it calls itself.
    pub hostname: String,
    /// Its addresses.
    pub ips: Vec<String>,
    /// Its processors.
    pub cpu: u32,
    /// Its memory.
    pub memory_mib: u64,
    /// What its first boot read.
    pub user_data: Option<Vec<u8>>,
}

impl Guest {
    fn read(row: &Row) -> Self {
        Self {
            id: row.machine.id.clone(),
            hostname: row.hostname.clone(),
            ips: row.machine.ips.clone(),
            cpu: row.cpu(),
            memory_mib: row.memory_mib(),
            user_data: row.user_data.clone(),
        }
    }
}

impl Sim {
    /// The guests that are up. A paused one is not: nothing in it goes on.
    pub fn guests(&self) -> Vec<Guest> {
        let core = self.0.lock();
        let up = |row: &&std::sync::Arc<Row>| row.up && row.machine.power == Power::On;
        core.state.machines.values().filter(up).map(|row| Guest::read(row)).collect()
    }

    /// A number that is another one whenever something has changed on the platform.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }
}
