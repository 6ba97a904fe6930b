//! `sutler version`: which client, which server.

use clap::Args;
use serde_json::json;

use crate::{
    cli::Globals, client::api::JSON, error::Error, output::format::Format, session::Session, ui::Ui,
};

/// Flags of `version`.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// The client alone; no server is asked
    #[arg(long)]
    pub(crate) client: bool,
    /// json or yaml
    #[arg(short = 'o', long, value_name = "FORMAT", value_parser = str::parse::<Format>)]
    pub(crate) output: Option<Format>,
}

/// Prints versions. The client's is printed even where the server cannot be asked.
pub(crate) async fn run(args: &VersionArgs, globals: &Globals, ui: &Ui) -> Result<(), Error> {
    let client = env!("CARGO_PKG_VERSION");
    let server = match args.client {
        true => None,
        false => Some(ask(globals).await),
    };
    if let Some(format) = args.output.as_ref().filter(|f| !f.is_table()) {
        let mut value = json!({"clientVersion": {"version": client}});
        if let Some(Ok((_, version))) = &server {
            value["serverVersion"] = version.clone();
        }
        ui.print(&format.render(&value)?)?;
    } else {
        ui.line(&format!("client: sutler {client}"))?;
        if let Some(Ok((address, version))) = &server {
            let text = version["gitVersion"].as_str().unwrap_or("unknown");
            ui.line(&format!("server: {text} at {address}"))?;
        }
    }
    match server {
        Some(Err(error)) => Err(error),
        _ => Ok(()),
    }
}

async fn ask(globals: &Globals) -> Result<(String, serde_json::Value), Error> {
    let session = Session::open(globals).await?;
    let version = session.api.get("/version", JSON).await?;
    Ok((session.api.peer.server.clone(), version))
}
