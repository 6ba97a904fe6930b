//! Providers that are programs of their own, started and watched over by this one.
//!
//! A program that links a library which not every host has is kept apart: `sutler` starts without it.
//! Each Provider has a process, reached over a Unix socket in a folder that nobody else can look into.
//! The process ends with this one, however that ends, because its standard input does.

use std::{
    collections::BTreeMap,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use sutler_control::fleet::{Key, Target};
use sutler_provider::{Credentials, Error, Provider, Result};
use sutler_rpc::{ClientSecurity, Remote, RemoteOptions};
use tokio::{process::Command, task::AbortHandle};

use super::folder::Folder;

/// The pause before a process that ended is started again: it doubles up to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));
/// After this long a start counts as having gone well.
const WELL: Duration = Duration::from_secs(60);

/// The processes of Providers.
#[derive(Default)]
pub(super) struct Children(Mutex<BTreeMap<Key, Known>>);

struct Known {
    like: Like,
    provider: Arc<dyn Provider>,
    watcher: AbortHandle,
}

impl Drop for Known {
    /// The process ends with the task that watches over it.
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// What makes two processes the same.
#[derive(Clone, PartialEq)]
struct Like {
    program: PathBuf,
    endpoint: String,
    skip_verify: bool,
    options: Map<String, Value>,
    credentials: Credentials,
}

impl Children {
    /// The provider that `program` serves.
    pub(super) fn connect(&self, target: &Target, program: &str) -> Result<Arc<dyn Provider>> {
        let like = Like {
            program: find(program)?,
            endpoint: target.endpoint.clone(),
            skip_verify: target.insecure_skip_verify,
            options: target.options.clone(),
            credentials: target.credentials.clone(),
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&target.key).filter(|known| known.like == like) {
            return Ok(known.provider.clone());
        }
        let start = Start::new(like.clone())?;
        let address = start.address();
        let address = address
            .parse()
            .map_err(|error| Error::internal(format!("{address} is no address: {error}")))?;
        let remote = Remote::new(address, RemoteOptions::new(ClientSecurity::Plaintext))?;
        let provider: Arc<dyn Provider> = Arc::new(remote);
        let watcher = tokio::spawn(watch_over(target.key.clone(), start)).abort_handle();
        known.insert(target.key.clone(), Known { like, provider: provider.clone(), watcher });
        Ok(provider)
    }

    /// Ends a Provider's process.
    pub(super) fn release(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// The program, beside this one or where programs are.
pub(crate) fn find(program: &str) -> Result<PathBuf> {
    let beside = std::env::current_exe().ok();
    let beside = beside.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = beside.into_iter().chain(std::env::split_paths(&path));
    let found = folders.find_map(|folder| Some(folder.join(program)).filter(|path| path.is_file()));
    found.ok_or_else(|| {
        Error::unsupported(format!(
            "spec.type: the program {program} is not installed, neither beside sutler nor in PATH; a \
             provider that runs elsewhere is reached with spec.runtime.mode: Remote"
        ))
    })
}

/// How a process is started.
struct Start {
    like: Like,
    /// Has the socket and the credentials, and goes with this.
    folder: Folder,
}

impl Start {
    fn new(like: Like) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::internal(format!("no folder for a provider's process: {error}"))
        };
        let folder = Folder::new().map_err(failed)?;
        let start = Self { like, folder };
        std::fs::create_dir(start.secrets()).map_err(failed)?;
        for (key, secret) in start.like.credentials.iter() {
            // A key that were a path would be written elsewhere; a Secret's keys have no slashes.
            let Some(name) = Path::new(key).file_name() else { continue };
            let path = start.secrets().join(name);
            let mut options = std::fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(0o600).open(path);
            file.and_then(|mut file| file.write_all(secret.expose())).map_err(failed)?;
        }
        Ok(start)
    }

    fn secrets(&self) -> PathBuf {
        self.folder.path().join("credentials")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.like.program);
        command
            .arg("serve")
            .args(["--listen", &self.address(), "--health-port", "0", "--with-parent"])
            .args(["--endpoint", &self.like.endpoint])
            .args(["--options", &Value::Object(self.like.options.clone()).to_string()])
            .env("SUTLER_CREDENTIALS", self.secrets())
            .env("TLS_INSECURE_SKIP_VERIFY", self.like.skip_verify.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        command
    }
}

/// Starts a process, and starts it again when it ends.
async fn watch_over(key: Key, start: Start) {
    let mut pause = PAUSES.0;
    loop {
        let began = Instant::now();
        // One that died has left its socket behind.
        drop(std::fs::remove_file(start.socket()));
        match start.command().spawn() {
            Ok(mut child) => {
                tracing::info!(provider = %key, pid = child.id(), "started its program");
                // Held open until this process ends.
                let _input = child.stdin.take();
                match child.wait().await {
                    Ok(status) => tracing::warn!(provider = %key, %status, "its program ended"),
                    Err(error) => tracing::warn!(provider = %key, "its program: {error}"),
                }
            }
            Err(error) => tracing::warn!(provider = %key, "its program cannot start: {error}"),
        }
        if began.elapsed() > WELL {
            pause = PAUSES.0;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(program: &str) -> Like {
        Like {
            program: PathBuf::from(program),
            endpoint: "test:///default".to_owned(),
            skip_verify: false,
            options: Map::new(),
            credentials: [("password", b"hush".to_vec())].into_iter().collect(),
        }
    }

    #[test]
    fn what_is_not_installed_is_named() {
        let error = find("sutler-nothing").unwrap_err();
        assert!(error.message().contains("sutler-nothing is not installed"), "{error}");
    }

    #[test]
    fn secrets_are_in_a_file_of_their_own_and_go_with_the_process() {
        let start = Start::new(like("true")).unwrap();
        let path = start.secrets().join("password");
        assert_eq!(std::fs::read(&path).unwrap(), b"hush");
        let shown = format!("{:?}", start.command());
        assert!(!shown.contains("hush"), "{shown}");
        drop(start);
        assert!(!path.exists());
    }
}
