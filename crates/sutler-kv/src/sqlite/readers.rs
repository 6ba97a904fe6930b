//! The threads that read.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::read::Reader;
use super::{OpenError, Options, Shared, gone, schema};
use crate::engine::{Error, Record};

type Job = Box<dyn FnOnce(&mut Reader) + Send>;

/// A few threads, each with a connection of its own, that take reads from one queue. A read of many
/// keys takes milliseconds, too long for a thread of the async runtime; and threads of our own
/// bound how many connections, and with them how much cache, there are.
///
/// A read of one key is a handful of pages, most of them cached: 12 µs, against 67 µs with the two
/// changes of thread. It is done where it is asked for, while there is a connection to spare.
pub(super) struct Readers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    spare: Vec<Mutex<Reader>>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    stopped: bool,
}

impl Readers {
    pub(super) fn start(
        path: &Path,
        options: &Options,
        shared: &Arc<Shared>,
    ) -> Result<Self, OpenError> {
        let count = options.readers.max(1);
        // Half of the cache is the writer's.
        let cache = options.cache / 2 / (2 * count);
        let reader = || {
            let connection = schema::open_reader(path, cache)?;
            Ok(Reader::new(connection, shared.clone()))
        };
        let mut readers = Self { queue: Arc::default(), threads: Vec::new(), spare: Vec::new() };
        for at in 0..count {
            readers.spare.push(Mutex::new(reader()?));
            let reader = reader()?;
            let queue = readers.queue.clone();
            let thread = std::thread::Builder::new()
                .name(format!("store-reader-{at}"))
                .spawn(move || queue.serve(reader))
                .map_err(OpenError::Thread)?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&mut Reader) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |reader| {
            // Nobody waits for it any more.
            if reply.is_closed() {
                return;
            }
            reply.send(read(reader)).ok();
        });
        self.queue.lock().waiting.push_back(job);
        self.queue.wake.notify_one();
        answer.await.map_err(|_| gone())?
    }

    /// Reads one key.
    pub(super) async fn get(&self, key: &str) -> Result<Option<Record>, Error> {
        let key: Arc<str> = key.into();
        for spare in &self.spare {
            if let Ok(mut reader) = spare.try_lock() {
                return reader.get(&key);
            }
        }
        self.run(move |reader| reader.get(&key)).await
    }

    /// Ends the threads; what waits is not read any more.
    pub(super) fn stop(&mut self) {
        self.queue.lock().stopped = true;
        self.queue.wake.notify_all();
        self.spare.clear();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a reader of the store had panicked");
            }
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Queue {
    fn lock(&self) -> std::sync::MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut reader: Reader) {
        while let Some(job) = self.take() {
            job(&mut reader);
        }
    }

    fn take(&self) -> Option<Job> {
        let mut jobs = self
            .wake
            .wait_while(self.lock(), |jobs| jobs.waiting.is_empty() && !jobs.stopped)
            .unwrap_or_else(PoisonError::into_inner);
        if jobs.stopped { None } else { jobs.waiting.pop_front() }
    }
}
