//! Commands in a guest.

use std::time::Duration;

use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, Made, refused},
};

cases! { "guest":
    a_command_says_how_it_ended [OBSERVED] guest_commands,
    what_it_printed_comes_back [OBSERVED] guest_commands,
    a_guest_that_is_off_runs_nothing [OWNER] guest_commands,
    a_stranger_runs_nothing [OWNER] guest_with_token,
}

pub(super) fn command(made: &Made, words: &[&str]) -> GuestCommand {
    GuestCommand {
        id: made.id.clone(),
        proof: made.proof(),
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        timeout: Duration::from_secs(30),
    }
}

/// Waits until the guest runs commands.
pub(super) async fn up(context: &Context, made: &Made) -> Check {
    context
        .until("the guest runs commands", || async {
            match context.provider.guest_exec(command(made, &["true"])).await {
                Ok(_) => Ok(Some(())),
                // It may have run, and does no harm.
                Err(error)
                    if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Indeterminate) =>
                {
                    Ok(None)
                }
                Err(error) => Err(error.into()),
            }
        })
        .await
}

async fn a_command_says_how_it_ended(context: &Context) -> Check {
    let made = context.make().await?;
    up(context, &made).await?;
    for (word, wanted) in [("true", true), ("false", false)] {
        let output = context.provider.guest_exec(command(&made, &[word])).await?;
        ensure!((output.exit_code == 0) == wanted, "{word} ended with {}", output.exit_code);
    }
    Ok(())
}

async fn what_it_printed_comes_back(context: &Context) -> Check {
    let made = context.make().await?;
    up(context, &made).await?;
    let output = context.provider.guest_exec(command(&made, &["echo", "hello"])).await?;
    ensure!(output.stdout.trim_end() == "hello", "it printed {:?}", output.stdout);
    Ok(())
}

async fn a_guest_that_is_off_runs_nothing(context: &Context) -> Check {
    let request = CreateRequest { power_on: false, ..context.request() };
    let made = context.make_like(request).await?;
    let answer = context.provider.guest_exec(command(&made, &["true"])).await;
    refused(answer, ErrorKind::Conflict, "a command in a machine that is off").map(drop)
}

async fn a_stranger_runs_nothing(context: &Context) -> Check {
    let made = context.make().await?;
    up(context, &made).await?;
    let stranger = GuestCommand { proof: context.stranger(), ..command(&made, &["true"]) };
    let answer = context.provider.guest_exec(stranger).await;
    refused(answer, ErrorKind::Conflict, "a command in somebody else's machine").map(drop)
}
