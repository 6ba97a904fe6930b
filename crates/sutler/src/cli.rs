//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

use crate::{clock, commands, serve};

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 refused, not found or failed; 2 wrong usage; 3 the server cannot be
reached or does not know the credentials; 4 not in time.

The kubeconfig is the first of: --kubeconfig, $SUTLER_KUBECONFIG, $KUBECONFIG,
./.sutler/admin.kubeconfig, ~/.kube/config.";

/// One control plane for virtual machines on any hypervisor or cloud.
#[derive(Debug, Parser)]
#[command(name = "sutler", version, after_help = AFTER_HELP, max_term_width = 100)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    /// What holds for every command.
    #[command(flatten)]
    pub(crate) globals: Globals,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Globals {
    /// The kubeconfig to use
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace to work in
    #[arg(short = 'n', long, global = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// The address of the server, instead of the kubeconfig's
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Act as this user, where you may
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Act as a member of this group; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", requires = "as_user")]
    pub(crate) as_group: Vec<String>,
    /// How long one request may take; 0 is without end
    #[arg(long, global = true, value_name = "DURATION", default_value = "60s", value_parser = clock::parse_duration)]
    pub(crate) request_timeout: Duration,
    /// Say what is sent; -vv and -vvv say more
    #[arg(short = 'v', long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// No colours
    #[arg(long, global = true)]
    pub(crate) no_color: bool,
}

/// Everything the program can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the API: embedded, or as the controllers of a cluster
    Serve(serve::ServeArgs),
    /// Make objects as files say, creating what is not there
    Apply(commands::apply::ApplyArgs),
    /// Show objects
    #[command(visible_alias = "list")]
    Get(commands::get::GetArgs),
    /// Show everything about objects, with their events
    Describe(commands::describe::DescribeArgs),
    /// Delete objects and wait until they are gone
    Delete(commands::delete::DeleteArgs),
    /// Change an object in an editor
    Edit(commands::edit::EditArgs),
    /// Wait until objects are as wanted
    Wait(commands::wait::WaitArgs),
    /// Show the fleet live: providers, machines, operations
    Watch(commands::watch::WatchArgs),
    /// Show machines that carry our token and have no record
    Orphans(commands::orphans::OrphansArgs),
    /// Show what happened
    Events(commands::events::EventsArgs),
    /// List the kinds that the server has
    #[command(visible_alias = "api-resources")]
    Kinds(commands::kinds::KindsArgs),
    /// Print the CustomResourceDefinitions of all kinds
    Crds,
    /// Show and change kubeconfig contexts
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    /// Keep users and their tokens
    #[command(subcommand)]
    User(commands::user::UserCommand),
    /// Keep the encryption of stored secrets
    #[command(subcommand)]
    Secrets(commands::secrets::SecretsCommand),
    /// Write and check providers
    #[command(subcommand)]
    Provider(commands::provider::ProviderCommand),
    /// Print completions for a shell
    Completion(commands::completion::CompletionArgs),
    /// Print the versions of client and server
    Version(commands::version::VersionArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_go_anywhere() {
        let cli = Cli::parse_from(["sutler", "-n", "a", "get", "vm", "--context", "c", "-v"]);
        assert_eq!(cli.globals.namespace.as_deref(), Some("a"));
        assert_eq!(cli.globals.context.as_deref(), Some("c"));
        assert_eq!(cli.globals.verbose, 1);
        assert!(Cli::try_parse_from(["sutler", "get", "vm", "--as-group", "g"]).is_err());
        assert!(Cli::try_parse_from(["sutler", "get", "vm", "--request-timeout", "x"]).is_err());
    }
}
