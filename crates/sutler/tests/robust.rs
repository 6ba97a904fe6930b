//! The server under killing, hostile and careless clients: nothing acknowledged is lost, nothing
//! refused is written, and whoever behaves is served.
#![expect(clippy::panic, clippy::unwrap_used, reason = "what fails here fails the test")]

#[path = "robust/client.rs"]
mod client;
#[path = "robust/history.rs"]
mod history;
#[path = "robust/hostile.rs"]
mod hostile;
#[path = "robust/kill.rs"]
mod kill;
#[path = "robust/server.rs"]
mod server;
#[path = "robust/sync.rs"]
mod sync;
#[path = "../../sutler-kv/tests/all/trace.rs"]
mod trace;
#[path = "robust/watcher.rs"]
mod watcher;
#[path = "robust/writer.rs"]
mod writer;
