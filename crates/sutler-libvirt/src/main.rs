//! `sutler-libvirt`: machines on libvirt, as a process of its own.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, anyhow};
use clap::{Parser, Subcommand};
use serde_json::{Map, Value};
use sutler_frame::{Pod, ServeArgs, with_serve};
use sutler_libvirt::{Libvirt, Refusing, Settings};
use sutler_provider::Provider;

#[derive(Debug, Parser)]
#[command(version, about = "Virtual machines on libvirt, by provider.v1")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the machines of one host over gRPC
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    frame: ServeArgs,
    /// Where libvirt is, such as qemu:///system or qemu+ssh://me@host/system
    #[arg(long, value_name = "URI", env = "SUTLER_LIBVIRT_ENDPOINT")]
    endpoint: Option<String>,
    /// How machines are made, as in a Provider's spec.options
    #[arg(long, value_name = "JSON", env = "SUTLER_LIBVIRT_OPTIONS")]
    options: Option<String>,
    /// Where images are kept while they are fetched
    #[arg(long, value_name = "FOLDER", env = "SUTLER_LIBVIRT_DOWNLOADS")]
    downloads: Option<PathBuf>,
}

impl Serve {
    fn provider(&self, pod: &Pod) -> anyhow::Result<Arc<dyn Provider>> {
        let endpoint = self.endpoint.as_ref().or(pod.endpoint.as_ref());
        let endpoint = endpoint.map_or("qemu:///system", String::as_str);
        let mut options = match self.options.as_ref().or(pod.options.as_ref()) {
            None => Map::new(),
            Some(text) => match serde_json::from_str(text).context("--options")? {
                Value::Object(options) => options,
                _ => return Err(anyhow!("--options: it is no JSON object")),
            },
        };
        // A Provider's defaults are what its options do not say.
        for (name, option) in [("datastore", "pool"), ("network", "network")] {
            if let Some(value) = pod.defaults.get(name) {
                options.entry(option).or_insert_with(|| Value::String(value.clone()));
            }
        }
        let downloads = self.downloads.clone().unwrap_or_else(default_downloads);
        let skip = pod.insecure_skip_verify;
        let made = Settings::from_options(&options).and_then(|settings| {
            Libvirt::new(endpoint, &pod.credentials, skip, settings, downloads)
        });
        match made {
            Ok(host) => Ok(Arc::new(host)),
            // The server that started this program asks it what is wrong.
            Err(error) if self.frame.with_parent => Ok(Arc::new(Refusing::new(error))),
            Err(error) => Err(error.into()),
        }
    }
}

fn default_downloads() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).unwrap_or_else(std::env::temp_dir).join("sutler").join("libvirt-images")
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve(serve) = Cli::parse_from(with_serve(std::env::args_os())).command;
    let pod = Pod::read().context("the mounted credentials")?;
    sutler_frame::serve("libvirt", &serve.frame, async || serve.provider(&pod)).await
}
