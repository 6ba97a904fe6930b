//! `sutler-vpsie`: an account on VPSie, as a process of its own.

use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use clap::{Parser, Subcommand};
use serde_json::{Map, Value};
use sutler_frame::{Pod, ServeArgs, with_serve};
use sutler_provider::{Provider, SystemClock};
use sutler_vpsie::{Settings, Vpsie};

#[derive(Debug, Parser)]
#[command(version, about = "Machines and managed Kubernetes nodes on VPSie, by provider.v1")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the machines of one account over gRPC
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    frame: ServeArgs,
    /// Where VPSie's API is; https://api.vpsie.com without it
    #[arg(long, value_name = "URL", env = "SUTLER_VPSIE_ENDPOINT")]
    endpoint: Option<String>,
    /// How machines are made, as in a Provider's spec.options
    #[arg(long, value_name = "JSON", env = "SUTLER_VPSIE_OPTIONS")]
    options: Option<String>,
}

impl Serve {
    fn provider(&self, pod: &Pod) -> anyhow::Result<Arc<dyn Provider>> {
        let endpoint = self.endpoint.as_ref().or(pod.endpoint.as_ref());
        let endpoint = endpoint.map_or("", String::as_str);
        let mut options = match self.options.as_ref().or(pod.options.as_ref()) {
            None => Map::new(),
            Some(text) => match serde_json::from_str(text).context("--options")? {
                Value::Object(options) => options,
                _ => return Err(anyhow!("--options: it is no JSON object")),
            },
        };
        // A Provider's defaults are what its options do not say.
        if let Some(region) = pod.defaults.get("region") {
            options.entry("datacenter").or_insert_with(|| Value::String(region.clone()));
        }
        let named = |error: sutler_provider::Error| match error.field() {
            Some(field) => anyhow!("{field}: {error}"),
            None => anyhow!(error),
        };
        let settings = Settings::from_options(&options).map_err(named)?;
        let (skip, clock) = (pod.insecure_skip_verify, Arc::new(SystemClock));
        let vpsie = Vpsie::new(endpoint, &pod.credentials, skip, settings, clock);
        Ok(Arc::new(vpsie.map_err(named)?))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Command::Serve(serve) = Cli::parse_from(with_serve(std::env::args_os())).command;
    let pod = Pod::read().context("the mounted credentials")?;
    sutler_frame::serve("vpsie", &serve.frame, async || serve.provider(&pod)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(args: &[&str], credentials: &[(&str, &str)]) -> anyhow::Result<Arc<dyn Provider>> {
        let all = ["sutler-vpsie", "serve"].into_iter().chain(args.iter().copied());
        let Command::Serve(serve) = Cli::try_parse_from(all)?.command;
        let pairs = credentials.iter().map(|(key, value)| (*key, value.as_bytes().to_vec()));
        serve.provider(&Pod { credentials: pairs.collect(), ..Pod::default() })
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let token = [("token", "t")];
        assert!(made(&[], &token).is_ok());
        for (args, credentials, want) in [
            (&[][..], &[][..], "spec.credentialSecretRef"),
            (&["--options", "{\"dialect\":\"v9\"}"], &token, "spec.options"),
            (&["--options", "[]"], &token, "no JSON object"),
            (&["--endpoint", "http://api.vpsie.com"], &token, "spec.endpoint"),
        ] {
            let Err(error) = made(args, credentials) else { panic!("{args:?} was taken") };
            assert!(format!("{error:#}").contains(want), "{args:?}: {error:#}");
        }
    }
}
