//! Work that goes on when its caller is gone, and what is known of it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use sutler_provider::{Error, Result, TaskId, TaskState};
use uuid::Uuid;

/// Tasks whose ends are remembered.
const REMEMBERED: usize = 10_000;

/// All work of this process. Another process knows nothing of it: what it did is then to be seen on the
/// host.
#[derive(Clone)]
pub(crate) struct Tasks(Arc<Inner>);

struct Inner {
    /// In no other process, so that nobody asks after a stranger's task.
    run: String,
    next: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By number, so that the oldest ends are forgotten first.
    states: BTreeMap<u64, Arc<Entry>>,
    /// The task at work on something, by what that is.
    at_work: HashMap<String, u64>,
}

struct Entry {
    id: TaskId,
    state: Mutex<TaskState>,
}

/// A task's own view of itself.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Entry>);

impl Progress {
    /// Tells how far it has come.
    pub(crate) fn say(&self, percent: Option<u8>, message: impl Into<String>) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*state, TaskState::Running { .. }) {
            *state = TaskState::Running { percent, message: Some(message.into()) };
        }
    }
}

impl Tasks {
    pub(crate) fn new() -> Self {
        let run = Uuid::new_v4().simple().to_string()[..8].to_owned();
        Self(Arc::new(Inner { run, next: AtomicU64::new(1), known: Mutex::default() }))
    }

    /// Begins work on `what`, or says that the same work is under way.
    pub(crate) fn begin<F>(
        &self,
        what: &str,
        work: impl FnOnce(Progress) -> F + Send + 'static,
    ) -> TaskId
    where
        F: Future<Output = Result<Option<String>>> + Send + 'static,
    {
        let (number, entry) = {
            let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(entry) = known.at_work.get(what).and_then(|number| known.states.get(number))
            {
                return entry.id.clone();
            }
            let number = self.0.next.fetch_add(1, Ordering::Relaxed);
            let state = TaskState::Running { percent: None, message: None };
            let id = TaskId(format!("{what}/{}-{number}", self.0.run));
            let entry = Arc::new(Entry { id, state: Mutex::new(state) });
            known.states.insert(number, entry.clone());
            known.at_work.insert(what.to_owned(), number);
            while known.states.len() > REMEMBERED {
                let oldest = known.states.keys().next().copied();
                oldest.map(|oldest| known.states.remove(&oldest));
            }
            (number, entry)
        };
        let (tasks, id, what) = (self.clone(), entry.id.clone(), what.to_owned());
        tokio::spawn(async move {
            // A task of its own, so that a panic ends the work and not its bookkeeping.
            let work = tokio::spawn(work(Progress(entry.clone())));
            let state = match work.await {
                Ok(Ok(id)) => TaskState::Done { id },
                Ok(Err(error)) => {
                    tracing::warn!(task = %entry.id, "{}: {error}", error.kind());
                    TaskState::Failed(error)
                }
                Err(panic) => {
                    TaskState::Failed(Error::internal(format!("the work failed: {panic}")))
                }
            };
            *entry.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
            let mut known = tasks.0.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.at_work.get(&what) == Some(&number) {
                known.at_work.remove(&what);
            }
        });
        id
    }

    /// The task that is at work on `what`.
    pub(crate) fn at_work(&self, what: &str) -> Option<TaskId> {
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.at_work.get(what).and_then(|number| known.states.get(number))?;
        Some(entry.id.clone())
    }

    /// How far a task has come.
    pub(crate) fn state(&self, id: &TaskId) -> TaskState {
        let number = id.0.rsplit_once('-').and_then(|(_, number)| number.parse::<u64>().ok());
        let known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        match number.and_then(|number| known.states.get(&number)).filter(|entry| entry.id == *id) {
            Some(entry) => entry.state.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            None => TaskState::Unknown,
        }
    }
}

/// One at a time for each name.
#[derive(Clone, Default)]
pub(crate) struct Locks(Arc<Mutex<HashMap<String, Weak<tokio::sync::Mutex<()>>>>>);

impl Locks {
    /// Waits for its turn at `name`.
    pub(crate) async fn take(&self, name: impl Into<String>) -> tokio::sync::OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if locks.len() > 1024 {
                locks.retain(|_, lock| lock.strong_count() > 0);
            }
            let place = locks.entry(name.into()).or_default();
            match place.upgrade() {
                Some(lock) => lock,
                None => {
                    let lock = Arc::new(tokio::sync::Mutex::new(()));
                    *place = Arc::downgrade(&lock);
                    lock
                }
            }
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn end(tasks: &Tasks, id: &TaskId) -> TaskState {
        loop {
            match tasks.state(id) {
                TaskState::Running { .. } => tokio::task::yield_now().await,
                state => return state,
            }
        }
    }

    #[tokio::test]
    async fn work_is_known_until_its_end_and_after() {
        let tasks = Tasks::new();
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let id = tasks.begin("create/a", |progress| async move {
            progress.say(Some(7), "half way");
            drop(wait.await);
            Ok(Some("a".to_owned()))
        });
        assert_eq!(tasks.begin("create/a", |_| async { Ok(None) }), id);
        assert_eq!(tasks.at_work("create/a"), Some(id.clone()));
        assert_ne!(tasks.begin("create/b", |_| async { Ok(None) }), id);
        assert!(matches!(tasks.state(&id), TaskState::Running { .. }));
        go.send(()).unwrap();
        assert_eq!(end(&tasks, &id).await, TaskState::Done { id: Some("a".to_owned()) });
        assert_eq!(Tasks::new().state(&id), TaskState::Unknown);
        assert_eq!(tasks.state(&TaskId::from("create/a/x-1")), TaskState::Unknown);
    }

    #[tokio::test]
    async fn work_that_panics_has_failed() {
        let tasks = Tasks::new();
        let id = tasks.begin("create/a", |_| async { panic!("oh") });
        assert!(matches!(end(&tasks, &id).await, TaskState::Failed(_)));
        while tasks.at_work("create/a").is_some() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_at_a_time_for_each_name() {
        let locks = Locks::default();
        let held = locks.take("a").await;
        let other = locks.take("b").await;
        assert!(futures::FutureExt::now_or_never(locks.take("a")).is_none());
        drop((held, other));
        assert!(futures::FutureExt::now_or_never(locks.take("a")).is_some());
    }
}
