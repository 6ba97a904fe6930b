//! `sutler provider`: for those who write providers.

mod new;

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use clap::{Args, Subcommand};
use rand::Rng as _;
use sutler_conformance::{Options, Outcome};
use sutler_rpc::{Address, ClientSecurity, PemFiles, Remote, RemoteOptions, Store};

use crate::{client::errors::chain, error::Error, ui::Ui};

/// What to do with a provider.
#[derive(Debug, Subcommand)]
pub(crate) enum ProviderCommand {
    /// Begin a provider of your own
    ///
    /// Writes a crate that compiles, serves gRPC and keeps every rule of the contract for what it
    /// reports. What is left is to put a platform behind it.
    New(new::NewArgs),
    /// Check that a provider keeps every rule of the contract
    ///
    /// Makes, changes and deletes machines of its own, and touches no others. Ends with 1 when a
    /// rule is broken, and tells what was sent, what came back, and which rule that breaks.
    Conformance(ConformanceArgs),
}

/// Which provider, and how to reach it.
#[derive(Debug, Args)]
pub(crate) struct ConformanceArgs {
    /// Where it listens: HOST:PORT or unix:PATH
    #[arg(required_unless_present = "list")]
    endpoint: Option<String>,
    /// Our certificate
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The CA certificates to trust
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
    /// The name that the provider's certificate must have, where it is not that of the endpoint
    #[arg(long, value_name = "NAME", requires = "tls_cert")]
    tls_server_name: Option<String>,
    /// Talk to it without any protection
    #[arg(long, conflicts_with = "tls_cert")]
    insecure: bool,
    /// The template to make machines from; the first that the platform lists by default
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// Only cases whose names contain this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Seconds that the platform may take for one step
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    patience: u64,
    /// Cases at the same time
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    parallel: usize,
    /// Also write the results as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// List the cases and the rules that they check, and do nothing
    #[arg(long)]
    list: bool,
}

/// Does it.
pub(crate) async fn run(command: &ProviderCommand, ui: &Ui) -> Result<ExitCode, Error> {
    let args = match command {
        ProviderCommand::New(args) => return new::run(args, ui),
        ProviderCommand::Conformance(args) => args,
    };
    if args.list {
        for (name, rule) in sutler_conformance::cases() {
            ui.line(&format!("{name}: {rule}"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let remote = connect(args)?;
    if let Some(warning) = remote.security().warning() {
        ui.note(warning);
    }
    let word: u32 = rand::rng().random();
    let options = Options {
        template: args.template.clone(),
        patience: Duration::from_secs(args.patience),
        parallel: args.parallel,
        only: args.only.clone(),
        ..Options::new(format!("c{word:08x}"))
    };
    let report = sutler_conformance::run(Arc::new(remote), &options).await;
    if let Some(path) = &args.junit {
        std::fs::write(path, report.junit())
            .map_err(|source| Error::Failed(format!("{}: {source}", path.display())))?;
    }
    ui.print(&report.table())?;
    let ran = report.results.iter().any(|result| !matches!(result.outcome, Outcome::Skipped(_)));
    if !ran {
        let what = "no case was run: --only names none, or the provider reports no capability";
        return Err(Error::Failed(what.to_owned()));
    }
    Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn connect(args: &ConformanceArgs) -> Result<Remote, Error> {
    let endpoint = args.endpoint.as_deref().unwrap_or_default();
    let address: Address = endpoint
        .parse()
        .map_err(|error: sutler_rpc::client::BadAddress| Error::Usage(chain(&error)))?;
    let local = matches!(address, Address::Unix(_));
    let security = match (&args.tls_cert, &args.tls_key, &args.tls_ca) {
        (Some(cert), Some(key), Some(ca)) => {
            let files = PemFiles { cert: cert.clone(), key: key.clone(), ca: ca.clone() };
            let store = Store::open(&files).map_err(|error| Error::Usage(chain(&error)))?;
            ClientSecurity::Tls { store, skip_verify: false }
        }
        _ if args.insecure || local => ClientSecurity::Plaintext,
        _ => {
            let what = "a provider is not talked to without protection unless that is asked for: \
                        give --tls-cert, --tls-key and --tls-ca, or --insecure";
            return Err(Error::Usage(what.to_owned()));
        }
    };
    let mut options = RemoteOptions::new(security);
    options.server_name.clone_from(&args.tls_server_name);
    Remote::new(address, options).map_err(|error| Error::Failed(chain(&error)))
}
