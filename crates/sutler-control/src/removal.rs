//! Things of ours that are taken off a platform, images and disks: what is remembered of that.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use sutler_provider::{Error, ErrorKind, Gate, Result, Started, TaskState};

use crate::fleet::Key;

/// The pause between two questions after a task.
const POLL: Duration = Duration::from_secs(2);

/// The pause before what failed is tried again.
pub(crate) const AGAIN: Duration = Duration::from_secs(15);

/// Removals by the UID of the record, its Provider, and what the thing is called there.
pub(crate) type Removals = BTreeMap<(String, Key, String), Removal>;

/// How a removal stands.
#[derive(Debug, Clone)]
pub(crate) enum Removal {
    /// It is under way.
    UnderWay,
    /// It is done.
    Gone,
    /// It failed, and is tried again then.
    Failed { error: Error, next: Timestamp },
}

impl Removal {
    /// How one stands that ended so. Errors of the kinds in `gone` say that there is nothing to remove.
    pub(crate) fn ended(result: Result<()>, gone: &[ErrorKind], now: Timestamp) -> Self {
        match result {
            Ok(()) => Self::Gone,
            Err(error) if gone.contains(&error.kind()) => Self::Gone,
            Err(error) => {
                let pause = error.pause().unwrap_or_default().max(AGAIN);
                let next = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
                Self::Failed { error, next }
            }
        }
    }
}

/// Waits for the end of a change, and tells whether there was anything to wait for.
pub(crate) async fn follow(gate: &Gate, started: Started) -> Result<bool> {
    let Some(task) = started.task else { return Ok(false) };
    loop {
        match gate.task(&task).await {
            Ok(TaskState::Running { .. }) => {}
            Ok(TaskState::Done { .. } | TaskState::Unknown) => return Ok(true),
            Ok(TaskState::Failed(error)) => return Err(error),
            Err(error) if error.kind().is_outage() => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(POLL).await;
    }
}
