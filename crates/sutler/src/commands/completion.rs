//! `sutler completion`: words for the Tab key.

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use crate::{cli::Cli, error::Error, ui::Ui};

/// Flags of `completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Which shell
    pub(crate) shell: KnownShell,
}

/// The shells that are supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KnownShell {
    /// source <(sutler completion bash)
    Bash,
    /// source <(sutler completion zsh)
    Zsh,
    /// sutler completion fish | source
    Fish,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionArgs, ui: &Ui) -> Result<(), Error> {
    ui.print(&script(args.shell))?;
    Ok(())
}

fn script(shell: KnownShell) -> String {
    let shell = match shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sutler", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_know_the_commands() {
        for shell in [KnownShell::Bash, KnownShell::Zsh, KnownShell::Fish] {
            let script = script(shell);
            assert!(script.contains("describe") && script.contains("use-context"), "{shell:?}");
        }
    }
}
