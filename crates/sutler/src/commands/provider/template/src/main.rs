//! `provider-acme serve`: Acme over gRPC. `--help` tells how it listens, logs and protects itself.

use std::sync::Arc;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use provider_acme::{AcmeProvider, Platform};
use sutler_frame::{Pod, ServeArgs, with_serve};
use sutler_provider::Provider;

#[derive(Debug, Parser)]
#[command(version, about = "Acme as a provider")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves Acme over gRPC
    Serve(ServeArgs),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // A manager that deploys this program names no command.
    let Command::Serve(args) = Cli::parse_from(with_serve(std::env::args_os())).command;
    sutler_frame::serve("acme", &args, async || make()).await
}

/// Endpoint, credentials and options are what the Provider object says: as environment and mounts of
/// a pod, or set by whoever starts this.
fn make() -> anyhow::Result<Arc<dyn Provider>> {
    let pod = Pod::read().context("the environment cannot be read")?;
    let platform = Platform::connect(pod.endpoint.as_deref(), &pod.credentials)?;
    Ok(Arc::new(AcmeProvider::new(platform)))
}
