//! What is shown and trusted now.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::task::JoinHandle;

use super::load::{Loaded, Pem, PemFiles, TlsError};

/// What one end shows and whom it trusts. Clones are the same one.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    loaded: ArcSwap<Loaded>,
    generation: AtomicU64,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store(generation {})", self.generation())
    }
}

impl Store {
    /// Holds these certificates.
    pub fn new(pem: Pem) -> Result<Self, TlsError> {
        let loaded = ArcSwap::from_pointee(Loaded::new(pem)?);
        Ok(Self(Arc::new(Inner { loaded, generation: AtomicU64::new(0) })))
    }

    /// Holds what is in these files now; [`Store::watch`] keeps it so.
    pub fn open(files: &PemFiles) -> Result<Self, TlsError> {
        Self::new(files.read()?)
    }

    /// Holds these certificates from now on, unless they cannot be used; says whether they are new.
    pub fn replace(&self, pem: Pem) -> Result<bool, TlsError> {
        if self.0.loaded.load().pem == pem {
            return Ok(false);
        }
        self.0.loaded.store(Arc::new(Loaded::new(pem)?));
        self.0.generation.fetch_add(1, Ordering::Release);
        Ok(true)
    }

    /// How often the certificates were replaced.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Looks at the files every `interval`, and takes over what has changed. The files are read
    /// rather than watched: mounted Secrets change by a link that is put elsewhere.
    pub fn watch(&self, files: PemFiles, interval: Duration) -> Watch {
        let store = self.clone();
        Watch(tokio::spawn(async move {
            let mut complained = String::new();
            let mut ticks = tokio::time::interval(interval.max(Duration::from_millis(10)));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let from = files.clone();
                let Ok(read) = tokio::task::spawn_blocking(move || from.read()).await else {
                    return;
                };
                match read.and_then(|pem| store.replace(pem)) {
                    Ok(true) => {
                        complained.clear();
                        tracing::info!(files = ?files, "the certificates were replaced");
                    }
                    Ok(false) => complained.clear(),
                    Err(error) => {
                        let text = error.to_string();
                        if text != complained {
                            tracing::warn!(%error, "the old certificates stay in use");
                            complained = text;
                        }
                    }
                }
            }
        }))
    }

    /// What a server of another protocol shows and demands now; none where there is nothing to show.
    pub fn server_config(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.0.loaded.load().server.clone()
    }

    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.0.loaded.load_full()
    }
}

/// Keeps a store like its files until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
