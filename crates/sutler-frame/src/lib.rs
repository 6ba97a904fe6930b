//! The frame that every provider's binary runs in.
//!
//! A binary parses [`ServeArgs`] along with what its platform needs, makes its provider, and calls
//! [`serve`]: the rest is here. Logs go to standard error as text or JSON, metrics and health are
//! served over HTTP, gRPC has health and reflection, certificates are read anew while it runs, and
//! SIGTERM lets calls under way end.
//!
//! The frame also takes the arguments, environment and mounts that VirtRigaud's manager gives to a
//! provider's pod, so that either side can deploy it: `--port`, `--health-port`, `LOG_LEVEL`,
//! `LOG_FORMAT`, `VIRTRIGAUD_PROVIDER_INSECURE`, `VIRTRIGAUD_PROVIDER_ALLOWED_SANS`, and what
//! [`Pod`] reads.

mod args;
mod http;
pub mod logs;
mod metrics;
mod pod;
mod run;
mod security;

pub use args::{ServeArgs, with_serve};
pub use pod::Pod;
pub use run::{FrameError, serve};
