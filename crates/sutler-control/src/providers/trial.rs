//! New credentials are tried before they take the place of those that work.

use std::{sync::Arc, time::Duration};

use sutler_provider::Error as ProviderError;

use crate::{
    context::Context,
    fleet::{Connection, Target, Trial},
};

/// How long a platform may take to say what it thinks of new credentials.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause after which those that were refused are tried again: some take effect late.
const AGAIN: Duration = Duration::from_secs(60);

/// What is known of new credentials.
pub(super) enum Tried {
    /// They work.
    Good,
    /// They do not.
    Bad(ProviderError),
    /// They are being tried.
    Open,
}

/// What is known of this target, on which nothing but the credentials is new. Where nothing is, they are
/// tried beside everything else.
pub(super) fn tried(context: &Arc<Context>, known: &Arc<Connection>, target: &Target) -> Tried {
    let now = context.clock.now();
    let (begin, tried) = known.update(|state| {
        let last = state.trial.take().filter(|trial| trial.target == *target);
        let fresh = last
            .as_ref()
            .is_some_and(|last| last.begun.saturating_add(AGAIN).is_ok_and(|end| now < end));
        let outcome = last.as_ref().and_then(|last| last.outcome.clone());
        let begin = match last {
            Some(last) if fresh => {
                state.trial = Some(last);
                false
            }
            _ => {
                let target = target.clone();
                state.trial = Some(Trial { target, begun: now, outcome: None });
                true
            }
        };
        let tried = match outcome {
            Some(Ok(())) => Tried::Good,
            Some(Err(error)) => Tried::Bad(error),
            None => Tried::Open,
        };
        (begin, tried)
    });
    if begin {
        let (context_, known, target) = (context.clone(), known.clone(), target.clone());
        context.tasks.spawn(async move { try_out(&context_, &known, target).await });
    }
    tried
}

async fn try_out(context: &Arc<Context>, known: &Arc<Connection>, target: Target) {
    let asked = async { context.outside.connector.connect(&target).await?.validate().await };
    let outcome = tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| {
        Err(ProviderError::unavailable(format!("it did not answer within {PATIENCE:?}")))
    });
    known.update(|state| {
        if let Some(trial) = state.trial.as_mut().filter(|trial| trial.target == target) {
            trial.outcome = Some(outcome.map(drop));
        }
    });
    context.wake_provider(&known.key);
}
