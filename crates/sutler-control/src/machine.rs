//! The controller of VirtualMachines: fetch, plan, carry out one step, say so.

mod copy;
mod disk;
mod execute;
mod facts;
mod guest_data;
pub mod hooks;
pub(crate) mod image;
pub(crate) mod pace;
mod resolve;
mod status;

pub use status::difference as status_difference;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{ResourceExt as _, runtime::controller::Action};
use sutler_api::{infra::VirtualMachine, names::reasons};

use crate::{
    context::{Context, ProviderClaims},
    fleet::{Connection, Key, State, lock},
    kit::version_of,
    plan::{Blocker, Inputs, Plan, Platform, Record, Report, Step, Waiting, plan},
    rules::{Rule, broken},
};

/// Why a reconcile did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API refused or failed.
    #[error("the API did not answer as needed")]
    Api(#[from] kube::Error),
}

/// The pause after which a record is looked at even if nothing happened to it.
const RESYNC: Duration = Duration::from_secs(1800);

/// The pause after a write that came too late: what is there now is known by then.
pub(crate) const AGAIN: Duration = Duration::from_millis(50);

/// The pause after which a claim on a machine that another record has is tried again.
const REFUSED: Duration = Duration::from_secs(10);

/// The next try after an error of the API.
pub(crate) fn error_policy(
    vm: Arc<VirtualMachine>,
    error: &Error,
    context: Arc<Context>,
) -> Action {
    let Error::Api(source) = error;
    context.counters.count_api_error();
    let record = Key::new(vm.namespace().unwrap_or_default(), vm.name_any());
    let error = source as &dyn std::error::Error;
    // What is refused now is refused in a second as well, and somebody should know.
    if matches!(source, kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422)) {
        tracing::warn!(%record, error, "the API server refuses what is written about a machine");
        return Action::requeue(Duration::from_secs(30));
    }
    tracing::debug!(%record, error, "a machine's record is tried again");
    Action::requeue(Duration::from_secs(1))
}

/// Looks at one record.
pub(crate) async fn reconcile(
    cached: Arc<VirtualMachine>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    let Some(uid) = cached.uid() else { return Ok(Action::await_change()) };
    if context.slot(&uid, |slot| slot.gone) {
        return Ok(Action::await_change());
    }
    let vm = freshest(&context, &uid, cached);
    context.counters.count_reconcile("VirtualMachine");
    let record = match Record::read(&vm) {
        Ok(record) => record,
        Err(message) => {
            let report = status::unreadable(message);
            status::publish(&context, &vm, None, &report).await?;
            return Ok(Action::await_change());
        }
    };
    let key = Key::new(&record.namespace, &record.name);
    let provider =
        Key::new(vm.spec.provider_ref.namespace_or(&record.namespace), &vm.spec.provider_ref.name);
    let (connection, state) = platform(&context, &provider);
    let capabilities = state.as_ref().ok().and_then(|state| state.capabilities.clone());
    let desired = match (&state, &capabilities) {
        (Ok(state), Some(capabilities)) => {
            resolve::resolve(&context, &vm, &record, state, capabilities).await
        }
        (Ok(_), None) => Err(not_ready(&provider, "it has not told yet what it can do")),
        (Err(blocker), _) => Err(blocker.clone()),
    };
    let now = context.clock.now();
    let claims = ProviderClaims { context: &context, provider: &provider };
    let memory = context.slot(&uid, |slot| {
        slot.memory.knows(record.id.as_ref(), now);
        slot.memory.is_of(record.token().map(|token| token.incarnation));
        if desired.as_ref().is_ok_and(|desired| desired.revert.is_none()) {
            // Should it be wanted again, that is another time.
            slot.memory.accepted.remove("revert");
        }
        slot.memory.clone()
    });
    let decide = |platform: Result<Platform<'_>, &Blocker>| {
        let desired = desired.as_ref();
        plan(&Inputs { record: &record, desired, platform, memory: &memory, claims: &claims, now })
    };
    let next = match (&connection, &state, &capabilities) {
        (Some(connection), Ok(state), Some(capabilities)) => connection.inventory.read(|view| {
            decide(Ok(Platform {
                capabilities,
                view,
                list_error: state.list_error.as_ref(),
                discovery_timeout: state.discovery_timeout,
                hashed: state.hashed && record.group.is_none(),
                installation: &context.installation,
            }))
        }),
        (_, Err(blocker), _) => decide(Err(blocker)),
        _ => decide(Err(&not_ready(&provider, "it has not told yet what it can do"))),
    };
    if let Some(seen) = &next.report.machine {
        context.slot(&uid, |slot| {
            let since = slot.memory.busy_since.unwrap_or(now);
            slot.memory.busy_since = seen.machine.busy.then_some(since);
        });
    }
    tracing::trace!(%key, step = ?next.step, reason = %next.report.reason, "planned");
    let phase = vm.status.as_ref().and_then(|status| status.phase);
    if memory.is_looking() && phase == Some(next.report.phase) {
        // A look at a task or a machine is no news: what comes of it is said when it is there.
        return Ok(Action::requeue(RESYNC));
    }
    carry_out(&context, &vm, &record, desired.as_ref().ok(), connection, next).await
}

async fn carry_out(
    context: &Arc<Context>,
    vm: &Arc<VirtualMachine>,
    record: &Record,
    desired: Option<&crate::plan::Desired>,
    connection: Option<Arc<Connection>>,
    next: Plan,
) -> Result<Action, Error> {
    let now = context.clock.now();
    let wake = match &next.step {
        Step::Wait(at) | Step::LookUntil(_, at) => Some(*at),
        _ => None,
    };
    // What must be on record before the provider is asked is written by the step itself.
    let step_was =
        execute::execute(context, vm, record, desired, connection.as_ref(), &next).await?;
    let report = next.report;
    if broken(Rule::NobodyBlocksTheNeighbour) {
        let calls = std::mem::take(&mut *lock(&context.held_up));
        futures::future::join_all(calls).await;
    }
    let said = match step_was {
        // The record is gone, or has changed under our hands: what was planned is void.
        execute::Done::Void => return Ok(Action::requeue(AGAIN)),
        execute::Done::Refused(why) => {
            let next = now.saturating_add(REFUSED).unwrap_or(now);
            let report = refused(report, why, next);
            let said = status::publish(context, vm, desired, &report).await?;
            said.into_iter().chain([next]).min()
        }
        execute::Done::Gone => return Ok(Action::await_change()),
        execute::Done::Wrote(fresh) => status::publish(context, &fresh, desired, &report).await?,
        execute::Done::Nothing => status::publish(context, vm, desired, &report).await?,
    };
    let at = [wake, said].into_iter().flatten().min();
    Ok(Action::requeue(match at {
        Some(at) => Duration::try_from(at.duration_since(now))
            .unwrap_or_default()
            .max(Duration::from_millis(1))
            .min(RESYNC),
        None => RESYNC,
    }))
}

/// What is said of a machine that another record has: nothing of that machine.
fn refused(report: Report, why: String, next: Timestamp) -> Report {
    let waiting = Some(Waiting { next: Some(next) });
    Report { ready: false, message: why, waiting, machine: None, ..report }
}

/// The newer of the cached record and the one that our last write left.
fn freshest(context: &Context, uid: &str, cached: Arc<VirtualMachine>) -> Arc<VirtualMachine> {
    context.slot(uid, |slot| match &slot.written {
        Some(written) if version_of(&**written) > version_of(&*cached) => written.clone(),
        Some(_) => {
            slot.written = None;
            cached
        }
        None => cached,
    })
}

fn platform(
    context: &Context,
    provider: &Key,
) -> (Option<Arc<Connection>>, Result<State, Blocker>) {
    if let Some(connection) = context.fleet.get(provider) {
        let state = connection.state();
        return (Some(connection), Ok(state));
    }
    let blocker = match Context::cached(&context.providers, provider) {
        None => {
            let message = format!(
                "spec.providerRef: Provider {} is not in namespace {}: create it",
                provider.name, provider.namespace
            );
            Blocker::waits(reasons::REFERENCE_NOT_FOUND, message, Duration::from_secs(300))
        }
        Some(object) => not_ready(provider, &why_not_ready(&object)),
    };
    (None, Err(blocker))
}

fn not_ready(provider: &Key, why: &str) -> Blocker {
    let message = format!("Provider {provider} is not ready: {why}");
    Blocker::waits(reasons::PROVIDER_NOT_READY, message, Duration::from_secs(60))
}

fn why_not_ready(provider: &sutler_api::infra::Provider) -> String {
    let ready = provider.status.as_ref().and_then(|status| {
        sutler_api::conditions::find(&status.conditions, sutler_api::names::condition_types::READY)
    });
    ready.map_or_else(|| "it was not looked at yet".to_owned(), |ready| ready.message.clone())
}
