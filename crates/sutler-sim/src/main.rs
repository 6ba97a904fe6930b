//! `sutler-sim`: a simulated hypervisor as a process of its own.

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, anyhow};
use clap::{Parser, Subcommand};
use serde_json::{Map, Value};
use sutler_frame::{Pod, ServeArgs, with_serve};
use sutler_provider::{Provider, SystemClock};
use sutler_sim::{Settings, Sim};

#[derive(Debug, Parser)]
#[command(version, about = "A simulated hypervisor that speaks provider.v1")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves a simulated hypervisor over gRPC
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    frame: ServeArgs,
    /// The folder that it lives in; in memory without one
    #[arg(long, value_name = "FOLDER", env = "SUTLER_SIM_STATE")]
    state: Option<PathBuf>,
    /// What kind of platform it is, as in a Provider's spec.options
    #[arg(long, value_name = "JSON", env = "SUTLER_SIM_OPTIONS")]
    options: Option<String>,
    /// How long a kind of call takes to be answered, as in create=150ms or list=2s
    #[arg(long, value_name = "CALL=TIME")]
    latency: Vec<String>,
    /// How long a kind of work takes, as in create=5s or boot=10s
    #[arg(long, value_name = "WORK=TIME")]
    work: Vec<String>,
    /// How likely a fault is, from 0 to 1, as in lostReply=0.01
    #[arg(long, value_name = "FAULT=CHANCE")]
    fault: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve(args) = Cli::parse_from(with_serve(std::env::args_os())).command;
    sutler_frame::serve("sim", &args.frame, async || make(&args)).await
}

fn make(args: &Serve) -> anyhow::Result<Arc<dyn Provider>> {
    let pod = Pod::read().context("the environment cannot be read")?;
    let settings = settings(args, pod.options)?;
    let clock = Arc::new(SystemClock);
    let sim = match &args.state {
        Some(folder) => Sim::open(folder, settings, clock),
        None => Sim::in_memory(settings, clock),
    };
    Ok(Arc::new(sim.context("the simulated hypervisor could not be opened")?))
}

/// Options come by argument, or with the pod that a manager made.
fn settings(args: &Serve, pod: Option<String>) -> anyhow::Result<Settings> {
    let mut options: Map<String, Value> = match args.options.as_ref().or(pod.as_ref()) {
        Some(text) => serde_json::from_str(text)
            .context("--options, or PROVIDER_OPTIONS without it, is no JSON object")?,
        None => Map::new(),
    };
    for (field, pairs) in
        [("latency", &args.latency), ("work", &args.work), ("faults", &args.fault)]
    {
        for pair in pairs {
            let (key, value) =
                pair.split_once('=').ok_or_else(|| anyhow!("{pair:?}: write it as name=value"))?;
            let value = match value.parse::<f64>() {
                Ok(number) if field == "faults" => Value::from(number),
                _ => Value::from(value),
            };
            let section = options.entry(field).or_insert_with(|| Value::Object(Map::new()));
            let section =
                section.as_object_mut().ok_or_else(|| anyhow!("options.{field} is no object"))?;
            section.insert(key.to_owned(), value);
        }
    }
    let named = |error: sutler_provider::Error| match error.field() {
        Some(field) => anyhow!("{field}: {error}"),
        None => anyhow!(error),
    };
    Settings::from_options(&options).map_err(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> anyhow::Result<Settings> {
        let all = ["sutler-sim", "serve"].into_iter().chain(args.iter().copied());
        let Command::Serve(args) = Cli::try_parse_from(all)?.command;
        settings(&args, None)
    }

    #[test]
    fn times_and_faults_are_read_or_refused_by_name() {
        let settings =
            read(&["--latency", "create=150ms", "--work", "boot=2s", "--fault", "lostReply=0.5"])
                .unwrap();
        assert_eq!(settings.latency.create.as_millis(), 150);
        assert_eq!(settings.work.boot.as_secs(), 2);
        assert_eq!(settings.faults.lost_reply, 0.5);
        for (args, want) in [
            (["--latency", "create"], "name=value"),
            (["--latency", "crate=1s"], "spec.options.latency.crate"),
            (["--fault", "lostReply=7"], "spec.options.faults.lostReply"),
            (["--options", "[]"], "no JSON object"),
        ] {
            let error = format!("{:#}", read(&args).unwrap_err());
            assert!(error.contains(want), "{args:?}: {error}");
        }
    }
}
