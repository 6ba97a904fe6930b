//! Looks whether a disk is there that was given to a machine nobody ever saw.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use sutler_provider::{DiskKey, ErrorKind, Gate, Result};

use super::{Work, key_of, plan::Looked};
use crate::fleet::lock;

/// The pause before a look that failed is taken again, or one for which nobody can be asked.
const AGAIN: Duration = Duration::from_secs(10);

/// Looks that are under way or were taken, by the UID of the disk's record.
pub(crate) type Looks = BTreeMap<String, Look>;

/// A look at the platform.
pub(crate) enum Look {
    /// It is under way.
    UnderWay,
    /// What it showed.
    Taken(Looked),
    /// It failed, and is taken again then.
    Failed(Timestamp),
}

/// What a look showed, if one was taken.
pub(super) fn looked(work: &Work) -> Looked {
    match lock(&work.context.disk_looks).get(&work.uid) {
        Some(Look::Taken(looked)) => *looked,
        Some(Look::UnderWay | Look::Failed(_)) | None => Looked::NotYet,
    }
}

/// Takes a look; it wakes the record. Tells when to come back should it not.
pub(super) fn take(work: &Work) -> Duration {
    let context = &work.context;
    let now = context.clock.now();
    match lock(&context.disk_looks).get(&work.uid) {
        Some(Look::Failed(next)) if *next > now => {
            return Duration::try_from(next.duration_since(now)).unwrap_or(AGAIN);
        }
        Some(Look::UnderWay) => return AGAIN,
        Some(Look::Taken(_) | Look::Failed(_)) | None => {}
    }
    let Some(connection) = context.fleet.get(&work.provider) else { return AGAIN };
    lock(&context.disk_looks).insert(work.uid.clone(), Look::UnderWay);
    let (context_, key, uid) = (context.clone(), work.key.clone(), work.uid.clone());
    context.tasks.spawn(async move {
        let result = look(&connection.gate, &key_of(&uid)).await;
        let next = context_.clock.now().saturating_add(AGAIN).unwrap_or(Timestamp::MAX);
        let look = result.map_or(Look::Failed(next), Look::Taken);
        lock(&context_.disk_looks).insert(uid, look);
        context_.wake_disk(&key);
    });
    AGAIN
}

async fn look(gate: &Gate, disk: &DiskKey) -> Result<Looked> {
    match gate.kept_disks().await {
        Ok(all) => Ok(match all.iter().find(|kept| kept.key == *disk) {
            Some(kept) => Looked::There(i32::try_from(kept.size_gib).unwrap_or(i32::MAX)),
            None => Looked::Absent,
        }),
        // A platform on which no disk outlives its machine has none of ours.
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Looked::Absent),
        Err(error) => Err(error),
    }
}

/// What was seen is old once the disk is given to somebody.
pub(super) fn forget(work: &Work) {
    lock(&work.context.disk_looks).remove(&work.uid);
}
