//! The controller of Providers: connects, asks after their health, and says what they can do.

mod deploy;
mod runtime;
mod status;
mod trial;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    runtime::controller::Action,
};
use serde_json::json;
use sutler_api::{
    infra::{HealthCheck, Naming, Provider},
    names::{MANAGER, finalizers, reasons},
    sutler::VMDisk,
};
use sutler_provider::{
    BreakerLimits, Credentials, Error as ProviderError, ErrorKind,
    guard::Limits,
    inventory::{News, Settings as InventorySettings},
};

use crate::{
    context::Context,
    fleet::{Connection, Dial, GateSource, Key, Target, lock},
    index::Reference,
    machine::Error,
    orphans, unmanaged,
};

pub(crate) use deploy::watch as watch_deployments;
use runtime::Runtime;
pub(crate) use runtime::certificates_of;
use trial::Tried;

/// The next try after an error of the API.
pub(crate) fn error_policy(_: Arc<Provider>, _: &Error, context: Arc<Context>) -> Action {
    context.counters.count_api_error();
    Action::requeue(Duration::from_secs(2))
}

/// Looks at one Provider.
pub(crate) async fn reconcile(
    provider: Arc<Provider>,
    context: Arc<Context>,
) -> Result<Action, Error> {
    context.counters.count_reconcile("Provider");
    let key = Key::new(provider.namespace().unwrap_or_default(), provider.name_any());
    if provider.metadata.deletion_timestamp.is_some() {
        return delete(&context, &provider, &key).await;
    }
    if !provider.finalizers().iter().any(|name| name == finalizers::PROVIDER) {
        set_finalizer(&context, &provider, true).await?;
    }
    let (runtime, connected) = connect(&context, &provider, &key).await?;
    let connection = match connected {
        Ok(connection) => connection,
        Err(problem) => {
            release(&context, &key);
            status::publish(&context, &provider, &runtime, None, Some(&problem)).await?;
            context.wake_all(&context.users_of(&key));
            return Ok(Action::requeue(problem.retry.unwrap_or(Duration::from_secs(300))));
        }
    };
    let next = check_health(&context, &provider, &connection);
    let again = status::publish(&context, &provider, &runtime, Some(&connection), None).await?;
    Ok(Action::requeue(again.map_or(next, |again| again.min(next))))
}

/// Why there is no connection.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) retry: Option<Duration>,
}

impl Problem {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        Self { reason: reason.to_owned(), message: message.into(), retry: None }
    }
}

impl From<&ProviderError> for Problem {
    fn from(error: &ProviderError) -> Self {
        let field = error.field().map(|field| format!("{field}: ")).unwrap_or_default();
        let mut problem = Self::new(error.kind().as_str(), format!("{field}{}", error.message()));
        problem.retry = error.kind().is_retryable().then_some(Duration::from_secs(30));
        problem
    }
}

/// Lets a connection go that cannot be used any more.
fn release(context: &Context, key: &Key) {
    context.fleet.remove(key);
    context.outside.connector.release(key);
}

/// How the Provider runs, and the connection that it asks for, made or changed as needed.
async fn connect(
    context: &Arc<Context>,
    provider: &Provider,
    key: &Key,
) -> Result<(Runtime, Result<Arc<Connection>, Problem>), Error> {
    let (mut runtime, dial) = runtime::prepare(context, provider, key).await?;
    let discovery = provider.spec.discovery.clone().unwrap_or_default();
    let (interval, timeout) = match (discovery.interval.to_std(), discovery.timeout.to_std()) {
        (Ok(interval), Ok(timeout)) => (interval.max(Duration::from_millis(100)), timeout),
        (Err(error), _) | (_, Err(error)) => {
            let message = format!("spec.discovery: {error}");
            return Ok((runtime, Err(Problem::new(reasons::INVALID, message))));
        }
    };
    let dial = match dial {
        Ok(dial) => dial,
        Err(problem) => return Ok((runtime, Err(problem))),
    };
    let target = match target(context, provider, key, dial).await? {
        Ok(target) => target,
        Err(problem) => return Ok((runtime, Err(problem))),
    };
    let known = context.fleet.get(key);
    let old = lock(&context.targets).get(key).cloned();
    let connection = match (known, old) {
        (Some(known), Some(old)) if old == target => known,
        (Some(known), Some(old)) if has_to_be_tried(context, &known, &old, &target) => {
            match trial::tried(context, &known, &target) {
                Tried::Open => known,
                Tried::Bad(error) => {
                    runtime.keeps_old_credentials(&error);
                    known
                }
                Tried::Good => match open(context, key, &target).await {
                    Ok(connection) => connection,
                    Err(error) => return Ok((runtime, Err(Problem::from(&error)))),
                },
            }
        }
        (known, old) => match (open(context, key, &target).await, known, old) {
            (Ok(connection), _, _) => connection,
            // Half a Secret, or one that was mixed up, must not end what works.
            (Err(error), Some(known), Some(old)) if old.differs_in_certificates(&target) => {
                runtime.keeps_old_certificates(&error);
                known
            }
            (Err(error), _, _) => return Ok((runtime, Err(Problem::from(&error)))),
        },
    };
    connection.update(|state| {
        state.discovery_timeout = timeout;
        state.hashed = provider.spec.naming == Naming::Hashed;
        state.defaults = provider.spec.defaults.clone().unwrap_or_default();
        state.type_ = provider.spec.type_.to_string();
    });
    apply_limits(context, provider, &connection, interval);
    Ok((runtime, Ok(connection)))
}

/// Whether a target has new credentials that may be wrong, while the old ones work.
fn has_to_be_tried(context: &Context, known: &Connection, old: &Target, new: &Target) -> bool {
    old.differs_in_credentials(new)
        && known.state().healthy == Some(true)
        && context.outside.connector.makes_another(new)
}

/// Opens a connection, or changes the one that is there: what is known of the platform stays.
async fn open(
    context: &Arc<Context>,
    key: &Key,
    target: &Target,
) -> Result<Arc<Connection>, ProviderError> {
    let provider = context.outside.connector.connect(target).await?;
    let changed = lock(&context.targets).insert(key.clone(), target.clone());
    let connection = match context.fleet.get(key) {
        // Another platform under the same name has other machines.
        Some(known) if changed.is_some_and(|old| old.endpoint == target.endpoint) => {
            let another = known.gate.set_provider(provider);
            known.update(|state| {
                if another {
                    state.healthy = None;
                }
                // Whether it can be reached this way shows only when it is tried.
                state.checked_at = None;
            });
            known
        }
        _ => {
            let seed = context.settings.seed ^ u64::from_le_bytes(seed_of(key));
            let clock = context.clock.clone();
            Connection::new(key.clone(), provider, Limits::default(), clock, seed)
        }
    };
    context.fleet.insert(connection.clone());
    Ok(connection)
}

fn seed_of(key: &Key) -> [u8; 8] {
    use sha2::{Digest as _, Sha256};
    let digest = Sha256::digest(key.to_string().as_bytes());
    let mut seed = [0; 8];
    seed.copy_from_slice(&digest[..8]);
    seed
}

async fn target(
    context: &Context,
    provider: &Provider,
    key: &Key,
    dial: Option<Dial>,
) -> Result<Result<Target, Problem>, Error> {
    let mut credentials = Credentials::default();
    if let Some(reference) = &provider.spec.credential_secret_ref {
        let secret = Key::new(reference.namespace_or(&key.namespace), &reference.name);
        let Some(found) = context.secret(&secret).await? else {
            let message = format!(
                "spec.credentialSecretRef: Secret {} is not in namespace {}: create it",
                secret.name, secret.namespace
            );
            return Ok(Err(Problem::new(reasons::REFERENCE_NOT_FOUND, message)));
        };
        let data = found.data.clone().unwrap_or_default();
        credentials = data.into_iter().map(|(key, value)| (key, value.0)).collect();
    }
    Ok(Ok(Target {
        key: key.clone(),
        uid: provider.uid().unwrap_or_default(),
        type_: provider.spec.type_.to_string(),
        endpoint: provider.spec.endpoint.clone(),
        insecure_skip_verify: provider.spec.insecure_skip_verify,
        options: provider.spec.options.clone().map(|options| options.0).unwrap_or_default(),
        credentials,
        dial,
    }))
}

fn apply_limits(
    context: &Context,
    provider: &Provider,
    connection: &Connection,
    interval: Duration,
) {
    let rate = provider.spec.rate_limit.clone().unwrap_or_default();
    let capabilities = connection.capabilities();
    let limits = Limits {
        #[expect(clippy::cast_precision_loss, reason = "a rate of 2^52 calls is no rate")]
        qps: rate.qps.max(1) as f64,
        burst: u32::try_from(rate.burst.max(1)).unwrap_or(u32::MAX),
        breaker: BreakerLimits { open: context.settings.breaker_pause, ..Default::default() },
        ..Limits::default()
    };
    let limits = match &capabilities {
        Some(capabilities) => limits.with_capabilities(capabilities),
        None => limits,
    };
    if connection.gate.limits() != limits {
        connection.gate.set_limits(limits);
    }
    if let Some(capabilities) = &capabilities {
        connection.inventory.set_settings(InventorySettings {
            interval,
            // Where the platform tells of changes, lists only correct what was missed.
            resync: match capabilities.events {
                true => Duration::from_secs(600).max(interval),
                false => Duration::from_secs(60).max(interval),
            },
            lag: capabilities.list_lag,
            list: capabilities.list,
            events: capabilities.events,
        });
    }
}

/// Asks after the platform's health when it is time, beside everything else, and tells when to look
/// again.
fn check_health(
    context: &Arc<Context>,
    provider: &Provider,
    connection: &Arc<Connection>,
) -> Duration {
    let settings = provider.spec.health_check.clone();
    let interval = settings
        .as_ref()
        .and_then(|check| check.interval.to_std().ok())
        .unwrap_or(context.settings.health_interval)
        .max(Duration::from_secs(1));
    let settings = settings.unwrap_or_default();
    let now = context.clock.now();
    let due = connection.update(|state| {
        let next = match state.checked_at {
            Some(at) if state.capabilities.is_some() => at.saturating_add(interval).unwrap_or(at),
            // Until it told what it can do, nothing can be done on it.
            Some(at) => at.saturating_add(interval.min(Duration::from_secs(5))).unwrap_or(at),
            None => Timestamp::MIN,
        };
        if state.checking || next > now {
            return Some(next);
        }
        if !settings.enabled && state.capabilities.is_some() {
            return Some(now.saturating_add(interval).unwrap_or(now));
        }
        state.checking = true;
        state.checked_at = Some(now);
        None
    });
    if let Some(next) = due {
        let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default();
        return wait.max(Duration::from_millis(100)).min(interval);
    }
    // Without a wish, the platform's own deadlines hold.
    let wish = provider.spec.health_check.as_ref();
    let limit = wish.and_then(|check| check.timeout.to_std().ok()).filter(|limit| !limit.is_zero());
    let (context_, connection_) = (context.clone(), connection.clone());
    context.tasks.spawn(async move { check(context_, connection_, settings, limit).await });
    interval
}

async fn check(
    context: Arc<Context>,
    connection: Arc<Connection>,
    settings: HealthCheck,
    limit: Option<Duration>,
) {
    let asked = async {
        connection.gate.validate().await?;
        connection.gate.capabilities().await
    };
    let result = match limit {
        None => asked.await,
        Some(limit) => tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| {
            Err(ProviderError::unavailable(format!("it did not answer within {limit:?}")))
        }),
    };
    let now = context.clock.now();
    let threshold = |number: i32| u32::try_from(number).unwrap_or(1).max(1);
    let first = connection.update(|state| {
        state.checking = false;
        let well = result.is_ok();
        state.streak = match state.last_result == Some(well) {
            true => state.streak.saturating_add(1),
            false => 1,
        };
        state.last_result = Some(well);
        let needed = match well {
            true => threshold(settings.success_threshold),
            false => threshold(settings.failure_threshold),
        };
        // The first answer counts at once; later ones have to be in a row.
        if state.healthy.is_none() || state.streak >= needed {
            state.healthy = Some(well);
        }
        match result {
            Ok(capabilities) => {
                state.error = None;
                let new = state.capabilities.as_deref() != Some(&capabilities);
                let first = state.capabilities.is_none();
                if new {
                    state.capabilities = Some(Arc::new(capabilities));
                    state.capabilities_at = Some(now);
                }
                new.then_some(first)
            }
            Err(error) => {
                tell(&connection.key, "validate", state.error.as_ref(), &error);
                state.error = Some(error);
                None
            }
        }
    });
    if let Some(first) = first {
        if let Some(provider) = Context::cached(&context.providers, &connection.key) {
            let discovery = provider.spec.discovery.clone().unwrap_or_default();
            let interval = discovery.interval.to_std().unwrap_or(Duration::from_secs(10));
            let interval = interval.max(Duration::from_millis(100));
            apply_limits(&context, &provider, &connection, interval);
        }
        if first {
            keep_inventory(&context, &connection);
        }
        context.wake_all(&context.users_of(&connection.key));
    }
    context.wake_provider(&connection.key);
}

/// Warns of a look at a platform that failed: once, for as long as it fails in the same way.
fn tell(provider: &Key, call: &str, before: Option<&ProviderError>, error: &ProviderError) {
    let known = before.is_some_and(|before| before.to_string() == error.to_string());
    match known {
        true => tracing::debug!(%provider, call, %error, "a look at a platform failed again"),
        false => tracing::warn!(%provider, call, %error, "a look at a platform failed"),
    }
}

/// Keeps the connection's inventory, and wakes those whose machines changed.
fn keep_inventory(context: &Arc<Context>, connection: &Arc<Connection>) {
    let (context_, connection) = (context.clone(), connection.clone());
    context.tasks.spawn(async move {
        let source = GateSource(connection.gate.clone());
        let news = |news: News| take_news(&context_, &connection, news);
        tokio::select! {
            biased;
            () = connection.closed() => {}
            () = connection.inventory.keep(&source, &news) => {}
        }
    });
}

fn take_news(context: &Arc<Context>, connection: &Arc<Connection>, news: News) {
    match news {
        News::Changed(ids) => {
            for id in ids {
                let seen = connection.inventory.read(|view| view.get(&id).cloned());
                let index = lock(&context.index);
                let mut keys = index.users(&Reference::Machine(connection.key.clone(), id));
                if let Some(seen) = seen {
                    match &seen.machine.token {
                        Some(token) => keys.extend(index.of_uid(&token.uid)),
                        None => {
                            keys.extend(index.of_name(&connection.key, &seen.machine.name));
                            if let Some(hostname) = &seen.machine.hostname {
                                keys.extend(index.of_name(&connection.key, hostname));
                            }
                        }
                    }
                }
                drop(index);
                context.wake_all(&keys);
            }
        }
        News::Listed { complete } => {
            let waiting = lock(&context.lookers).remove(&connection.key).unwrap_or_default();
            context.wake_all(&waiting);
            connection.update(|state| state.list_error = None);
            if complete {
                orphans::sweep(context, connection);
                unmanaged::sweep(context, connection);
            }
        }
        News::Failed { error, .. } if error.kind() == ErrorKind::Unsupported => {}
        News::Failed { call, error } => {
            connection.update(|state| {
                tell(&connection.key, call, state.list_error.as_ref(), &error);
                state.list_error = Some(error);
            });
            // Whoever waits for what it would have shown can say so.
            let waiting = lock(&context.lookers).remove(&connection.key).unwrap_or_default();
            context.wake_all(&waiting);
        }
    }
}

async fn delete(context: &Arc<Context>, provider: &Provider, key: &Key) -> Result<Action, Error> {
    if !provider.finalizers().iter().any(|name| name == finalizers::PROVIDER) {
        return Ok(Action::await_change());
    }
    let users = context.users_of(key);
    let disks = disks_on(context, key);
    if users.is_empty() && disks.is_empty() {
        release(context, key);
        lock(&context.targets).remove(key);
        set_finalizer(context, provider, false).await?;
        return Ok(Action::await_change());
    }
    // Machines can only be removed while their provider is there. It goes on working until then.
    let (runtime, connection) = connect(context, provider, key).await?;
    let connection = connection.ok();
    let next = connection.as_ref().map(|connection| check_health(context, provider, connection));
    let (count, kind, first) = match users.first() {
        Some(first) => (users.len(), "VirtualMachines", Some(first)),
        None => (disks.len(), "VMDisks", disks.first()),
    };
    let first = first.map(ToString::to_string).unwrap_or_default();
    let message = format!("{count} {kind} are still on it, {first} among them");
    let problem = Problem::new(reasons::DELETING, message);
    status::publish(context, provider, &runtime, connection.as_ref(), Some(&problem)).await?;
    Ok(Action::requeue(next.unwrap_or(Duration::from_secs(30))))
}

/// The VMDisks on a Provider: they are looked through only when it is to go.
fn disks_on(context: &Context, provider: &Key) -> Vec<Key> {
    let on = |disk: &VMDisk| {
        let own = disk.namespace().unwrap_or_default();
        let reference = &disk.spec.provider_ref;
        *provider == Key::new(reference.namespace_or(&own), &reference.name)
    };
    let disks = context.disks.state_filter(|disk| on(disk));
    disks
        .iter()
        .map(|disk| Key::new(disk.namespace().unwrap_or_default(), disk.name_any()))
        .collect()
}

async fn set_finalizer(context: &Context, provider: &Provider, wanted: bool) -> Result<(), Error> {
    let mut names: Vec<String> = provider.finalizers().to_vec();
    names.retain(|name| name != finalizers::PROVIDER);
    if wanted {
        names.push(finalizers::PROVIDER.to_owned());
    }
    let body = json!({ "metadata": {
        "finalizers": names,
        "resourceVersion": provider.resource_version(),
    }});
    let namespace = provider.namespace().unwrap_or_default();
    let api: Api<Provider> = Api::namespaced(context.client.clone(), &namespace);
    let params = PatchParams::apply(MANAGER);
    match api.patch(&provider.name_any(), &params, &Patch::Merge(body)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
