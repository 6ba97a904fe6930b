//! What an inventory shares between threads, and how it waits; `races.rs` puts others in their place.

use std::time::Duration;

pub(super) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

/// Waits that long, or for ever.
pub(super) async fn sleep(pause: Option<Duration>) {
    match pause {
        // A timer's grain: never wake before the time that was waited for.
        Some(pause) => tokio::time::sleep(pause + Duration::from_millis(1)).await,
        None => std::future::pending().await,
    }
}
