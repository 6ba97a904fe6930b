//! One module per command.

pub(crate) mod apply;
pub(crate) mod board;
pub(crate) mod completion;
pub(crate) mod config;
pub(crate) mod crds;
pub(crate) mod delete;
pub(crate) mod describe;
pub(crate) mod edit;
pub(crate) mod events;
pub(crate) mod get;
pub(crate) mod kinds;
pub(crate) mod orphans;
pub(crate) mod provider;
pub(crate) mod secrets;
pub(crate) mod user;
pub(crate) mod version;
pub(crate) mod wait;
pub(crate) mod watch;

use std::process::ExitCode;

use crate::{
    cli::{Cli, Command, Globals},
    error::Error,
    serve,
    session::Session,
    ui::Ui,
};

/// Does what the command line says.
pub(crate) fn run(cli: Cli, ui: &Ui) -> Result<ExitCode, Error> {
    let Cli { globals, command } = cli;
    match command {
        Command::Serve(args) => serve::run(args, &globals),
        Command::Crds => crds::run(ui).map(done),
        Command::Completion(args) => completion::run(&args, ui).map(done),
        Command::Config(command) => config::run(&command, &globals, ui).map(done),
        Command::Secrets(command) => secrets::run(&command, ui).map(done),
        Command::Provider(command) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(provider::run(&command, ui))
        }
        client => {
            // One thread is enough for one person's requests, and quick to start.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(talk(client, &globals, ui)).map(done)
        }
    }
}

fn done((): ()) -> ExitCode {
    ExitCode::SUCCESS
}

async fn talk(command: Command, globals: &Globals, ui: &Ui) -> Result<(), Error> {
    if let Command::Version(args) = &command {
        return version::run(args, globals, ui).await;
    }
    let session = Session::open(globals).await?;
    match command {
        Command::Apply(args) => apply::run(&session, &args, ui).await,
        Command::Get(args) => get::run(&session, &args, ui).await,
        Command::Describe(args) => describe::run(&session, &args, ui).await,
        Command::Delete(args) => delete::run(&session, &args, ui).await,
        Command::Edit(args) => edit::run(&session, &args, ui).await,
        Command::Wait(args) => wait::run(&session, &args, ui).await,
        Command::Watch(args) => watch::run(&session, &args, ui).await,
        Command::Orphans(args) => orphans::run(&session, &args, ui).await,
        Command::Events(args) => events::run(&session, &args, ui).await,
        Command::Kinds(args) => kinds::run(&session, &args, ui).await,
        Command::User(command) => user::run(&session, &command, ui).await,
        Command::Serve(_)
        | Command::Crds
        | Command::Completion(_)
        | Command::Config(_)
        | Command::Secrets(_)
        | Command::Provider(_)
        | Command::Version(_) => Ok(()),
    }
}
