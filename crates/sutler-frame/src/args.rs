//! Arguments that all providers' binaries take.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use crate::logs::LogFormat;

/// Where the certificates are mounted in a pod.
pub(crate) const TLS_FOLDER: &str = "/etc/virtrigaud/tls";

/// Arguments that all providers' binaries take.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Where to listen: host:port, or unix:/path
    #[arg(long, value_name = "ADDRESS", env = "SUTLER_LISTEN")]
    pub listen: Option<String>,
    /// The port to listen on, at all addresses; --listen goes before it
    #[arg(long, value_name = "PORT", default_value_t = sutler_rpc::DEFAULT_PORT)]
    pub port: u16,
    /// The port for health and metrics over HTTP; 0 for none
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub health_port: u16,
    /// One more address for health and metrics over HTTP
    #[arg(long, value_name = "ADDRESS", env = "SUTLER_METRICS")]
    pub metrics: Option<String>,
    /// Serve without encryption and let anybody in
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key", "tls_ca"])]
    pub insecure: bool,
    /// The certificate that is shown
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "tls_ca")]
    pub tls_cert: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The CA certificates that a client's must be signed by
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
    /// The folder that has tls.crt, tls.key and ca.crt, where no files are named
    #[arg(long, value_name = "FOLDER", env = "SUTLER_TLS_FOLDER", default_value = TLS_FOLDER)]
    pub tls_folder: PathBuf,
    /// Names of which a client's certificate must have one
    #[arg(
        long,
        value_name = "NAME",
        env = "VIRTRIGAUD_PROVIDER_ALLOWED_SANS",
        value_delimiter = ','
    )]
    pub allowed_names: Vec<String>,
    /// Serve provider.v1 alone
    #[arg(long)]
    pub without_extensions: bool,
    /// End when standard input does: with the program that holds it open
    #[arg(long)]
    pub with_parent: bool,
    /// How many seconds calls under way may take at the end
    #[arg(long, value_name = "SECONDS", default_value_t = 25)]
    pub drain: u64,
    /// What is logged: error, warn, info, debug or trace, or target=level,…
    #[arg(long, value_name = "LEVEL", env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
    /// How it is logged
    #[arg(long, value_enum, env = "LOG_FORMAT", default_value = "text", ignore_case = true)]
    pub log_format: LogFormat,
}

impl ServeArgs {
    /// Where to listen.
    pub fn address(&self) -> String {
        self.listen.clone().unwrap_or_else(|| format!("0.0.0.0:{}", self.port))
    }
}

/// The arguments with `serve` put in where VirtRigaud's manager, which knows no commands, left it
/// out.
pub fn with_serve(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    let first = args.get(1).and_then(|first| first.to_str()).unwrap_or_default();
    let asks = ["--help", "-h", "--version", "-V"].contains(&first);
    if first.starts_with("--") && !asks {
        args.insert(1, "serve".into());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(args: &[&str]) -> Vec<OsString> {
        let all = std::iter::once("x").chain(args.iter().copied()).map(OsString::from);
        with_serve(all).into_iter().skip(1).collect()
    }

    #[test]
    fn a_managers_arguments_mean_serve() {
        assert_eq!(
            filled(&["--port=1", "--health-port=2"]),
            ["serve", "--port=1", "--health-port=2"]
        );
        assert_eq!(filled(&["serve", "--port=1"]), ["serve", "--port=1"]);
        assert_eq!(filled(&["--help"]), ["--help"]);
        assert!(filled(&[]).is_empty());
    }
}
