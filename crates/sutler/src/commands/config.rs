//! `sutler config`: the contexts of a kubeconfig.

use clap::Subcommand;
use kube::config::Kubeconfig;
use serde_json::Value;

use crate::{
    cli::Globals,
    client::kubeconfig::{self, Source},
    error::Error,
    output::{format::Format, table},
    ui::Ui,
};

/// What to do with the kubeconfig.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the kubeconfig, without its secrets
    View {
        /// Show secrets too
        #[arg(long)]
        raw: bool,
        /// Only what the current context needs
        #[arg(long)]
        minify: bool,
        /// yaml, json or jsonpath=…
        #[arg(short = 'o', long, value_name = "FORMAT", default_value = "yaml", value_parser = str::parse::<Format>)]
        output: Format,
    },
    /// List the contexts
    GetContexts {
        /// name shows names alone
        #[arg(short = 'o', long, value_name = "FORMAT", value_parser = ["table", "name"], default_value = "table")]
        output: String,
    },
    /// Print the name of the current context
    CurrentContext,
    /// Make a context the current one
    UseContext {
        /// Its name
        name: String,
    },
    /// Set the namespace of the current context, or of --context
    SetNamespace {
        /// The namespace
        #[arg(value_name = "NAMESPACE")]
        target: String,
    },
}

/// Shows or changes the kubeconfig that counts.
pub(crate) fn run(command: &ConfigCommand, globals: &Globals, ui: &Ui) -> Result<(), Error> {
    let source = Source::detect(globals.kubeconfig.as_deref()).ok_or(kubeconfig::Error::Missing)?;
    let mut config = source.load()?;
    match command {
        ConfigCommand::View { raw, minify, output } => {
            if *minify {
                let context = source.context(&config, globals.context.as_deref())?;
                minimise(&mut config, &context);
            }
            let value: Value = match raw {
                true => serde_json::to_value(&config),
                false => kubeconfig::redacted(&config),
            }
            .map_err(|e| Error::Failed(e.to_string()))?;
            ui.print(&output.render(&value)?)?;
        }
        ConfigCommand::GetContexts { output } if output == "name" => {
            for context in &config.contexts {
                ui.line(&context.name)?;
            }
        }
        ConfigCommand::GetContexts { .. } => {
            let rows = contexts(&config, globals.context.as_deref());
            let header = ["CURRENT", "NAME", "CLUSTER", "SERVER", "USER", "NAMESPACE"];
            ui.print(&table::simple(&header, rows, ui.color))?;
        }
        ConfigCommand::CurrentContext => {
            ui.line(&source.context(&config, globals.context.as_deref())?)?;
        }
        ConfigCommand::UseContext { name } => {
            source.context(&config, Some(name))?;
            let file = source.set_current(name)?;
            ui.note(&format!("{name} is the current context now ({})", file.display()));
        }
        ConfigCommand::SetNamespace { target } => {
            let context = source.context(&config, globals.context.as_deref())?;
            let file = source.set_namespace(&context, target)?;
            ui.note(&format!("{context} works in namespace {target} now ({})", file.display()));
        }
    }
    Ok(())
}

fn contexts(config: &Kubeconfig, chosen: Option<&str>) -> Vec<Vec<String>> {
    let current = chosen.or(config.current_context.as_deref());
    config
        .contexts
        .iter()
        .map(|named| {
            let context = named.context.clone().unwrap_or_default();
            let server = config
                .clusters
                .iter()
                .find(|c| c.name == context.cluster)
                .and_then(|c| c.cluster.as_ref()?.server.clone());
            vec![
                if current == Some(named.name.as_str()) { "*".into() } else { String::new() },
                named.name.clone(),
                context.cluster,
                server.unwrap_or_else(|| "<missing>".into()),
                context.user.unwrap_or_default(),
                context.namespace.unwrap_or_else(|| "default".into()),
            ]
        })
        .collect()
}

/// Leaves what one context needs.
fn minimise(config: &mut Kubeconfig, name: &str) {
    config.contexts.retain(|c| c.name == name);
    let context = config.contexts.first().and_then(|c| c.context.clone()).unwrap_or_default();
    config.clusters.retain(|c| c.name == context.cluster);
    config.auth_infos.retain(|u| Some(&u.name) == context.user.as_ref());
    config.current_context = Some(name.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "current-context: a
clusters: [{name: k, cluster: {server: 'https://h'}}, {name: other, cluster: {server: 'https://o'}}]
users: [{name: u, user: {token: t}}, {name: v, user: {token: t}}]
contexts: [{name: a, context: {cluster: k, user: u}}, {name: b, context: {cluster: gone, user: v, namespace: n}}]
";

    #[test]
    fn contexts_show_where_they_lead() {
        let config = Kubeconfig::from_yaml(CONFIG).unwrap();
        let rows = contexts(&config, None);
        assert_eq!(rows[0], ["*", "a", "k", "https://h", "u", "default"]);
        assert_eq!(rows[1], ["", "b", "gone", "<missing>", "v", "n"]);
        assert_eq!(contexts(&config, Some("b"))[1][0], "*");
    }

    #[test]
    fn one_context_can_be_cut_out() {
        let mut config = Kubeconfig::from_yaml(CONFIG).unwrap();
        minimise(&mut config, "a");
        assert_eq!(
            (config.contexts.len(), config.clusters.len(), config.auth_infos.len()),
            (1, 1, 1)
        );
    }
}
