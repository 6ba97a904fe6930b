use std::{
    future::pending,
    sync::atomic::{AtomicU32, Ordering},
};

use futures::future::join_all;
use tokio::{sync::mpsc, task::JoinHandle, time::advance};

use super::*;
use crate::{
    capabilities::Deadlines,
    error::ErrorKind,
    guard::{
        calls::CallClass,
        limits::{BreakerLimits, RetryLimits},
        testing::{Fake, at, gate},
    },
};

mod breaker;
mod live;
mod retries;
mod time;
mod waiting;

const SECOND: Duration = Duration::from_secs(1);
const NOTHING: [u32; 0] = [];

fn look() -> Call {
    Call::new("describe", CallClass::Look)
}

/// A look that is sent once.
fn once() -> Call {
    Call { idempotent: false, ..look() }
}

fn change() -> Call {
    Call::new("power", CallClass::Change)
}

fn down() -> Error {
    Error::unavailable("connection refused")
}

/// Lets everybody else go on until they wait.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

async fn answered(gate: &Gate) -> Result<()> {
    gate.call(once(), |_| async { Ok(()) }).await
}

async fn fails(gate: &Gate, error: Error) -> Error {
    gate.call(once(), |_| async { Err::<(), _>(error.clone()) }).await.unwrap_err()
}

async fn open(gate: &Gate) {
    for _ in 0..5 {
        fails(gate, down()).await;
    }
    assert!(matches!(gate.breaker(), BreakerState::Open { .. }));
}

/// A call that is sent, says so, and then hangs.
fn hang(gate: &Arc<Gate>, call: Call, sent: &mpsc::UnboundedSender<u32>, tag: u32) -> Running {
    let (gate, sent) = (Arc::clone(gate), sent.clone());
    tokio::spawn(async move {
        gate.call(call, |_| {
            sent.send(tag).unwrap();
            pending()
        })
        .await
    })
}

type Running = JoinHandle<Result<()>>;

fn received(receiver: &mut mpsc::UnboundedReceiver<u32>) -> Vec<u32> {
    std::iter::from_fn(|| receiver.try_recv().ok()).collect()
}
