//! What is read once for all who need it fresh at the same time.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::sync::{AtomicU64, Ordering};

/// What was read last, and when that was begun.
pub(crate) struct Fresh<T> {
    clock: AtomicU64,
    /// Who reads holds the lock: one at a time is the point of it.
    last: Mutex<Option<(u64, Arc<T>)>>,
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self { clock: AtomicU64::new(0), last: Mutex::default() }
    }
}

impl<T> Fresh<T> {
    /// What `read` tells, or told somebody else, if it was begun after this was called.
    pub(crate) async fn read<F, E>(&self, read: impl FnOnce() -> F) -> Result<Arc<T>, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let came = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((begun, what)) = &*last
            && *begun > came
        {
            return Ok(what.clone());
        }
        let begun = self.clock.fetch_add(1, Ordering::SeqCst);
        let what = Arc::new(read().await?);
        *last = Some((begun, what.clone()));
        Ok(what)
    }
}
