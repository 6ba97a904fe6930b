//! What a Provider's status says.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;
use sutler_api::{
    conditions,
    infra::{
        BreakerState, CacheStatus, HealthState, Provider, ProviderCapability, ProviderStatus,
        ReportedCapabilities, UniqueBy,
    },
    names::{MANAGER, condition_types, reasons},
};
use sutler_provider::{Capabilities, ErrorKind, guard};

use super::{Problem, Runtime};
use crate::{
    context::Context,
    fleet::{Connection, Key, lock},
    machine::{Error, status_difference},
    orphans,
};

/// The least pause between two writes of one Provider's status.
const SPACING: Duration = Duration::from_secs(1);

/// Writes what is known, if it differs from what is written; or tells when to try that again.
pub(super) async fn publish(
    context: &Arc<Context>,
    provider: &Provider,
    runtime: &Runtime,
    connection: Option<&Arc<Connection>>,
    problem: Option<&Problem>,
) -> Result<Option<Duration>, Error> {
    let old = provider.status.clone().unwrap_or_default();
    let new = next_status(context, provider, runtime, &old, connection, problem);
    let Some(patch) = status_difference(&old, &new) else { return Ok(None) };
    // Two processes that see things differently must not answer each other without end.
    let now = context.clock.now();
    let key = Key::new(provider.namespace().unwrap_or_default(), provider.name_any());
    let written = lock(&context.provider_status_at).get(&key).copied();
    if let Some(at) = written
        && let Ok(since) = Duration::try_from(now.duration_since(at))
        && since < SPACING
    {
        return Ok(Some(SPACING - since));
    }
    lock(&context.provider_status_at).insert(key, now);
    let namespace = provider.namespace().unwrap_or_default();
    let api: Api<Provider> = Api::namespaced(context.client.clone(), &namespace);
    let body = json!({ "status": patch });
    let params = PatchParams::apply(MANAGER);
    match api.patch_status(&provider.name_any(), &params, &Patch::Merge(body)).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let ready = |status: &ProviderStatus| {
        conditions::find(&status.conditions, condition_types::READY).cloned()
    };
    if let Some(now) = ready(&new)
        && ready(&old).is_none_or(|old| old.status != now.status || old.reason != now.reason)
    {
        match now.status == "True" {
            true => context.recorder.note(provider, &now.reason, &now.message).await,
            false => context.recorder.warn(provider, &now.reason, &now.message).await,
        }
    }
    Ok(None)
}

/// What of the spec has no effect. One connection carries all calls, which is within any number that
/// may be allowed.
fn unserved(provider: &Provider, health_interval: Duration) -> Option<String> {
    let pooling = provider.spec.connection_pooling.as_ref()?;
    let idle = pooling.idle_timeout.to_std().ok()?;
    (idle < health_interval).then(|| {
        format!(
            "spec.connectionPooling.idleTimeout: the one connection is used every {} s to ask after \
             the platform's health, and is not closed in between",
            health_interval.as_secs()
        )
    })
}

fn next_status(
    context: &Context,
    provider: &Provider,
    runtime: &Runtime,
    old: &ProviderStatus,
    connection: Option<&Arc<Connection>>,
    problem: Option<&Problem>,
) -> ProviderStatus {
    let mut new = old.clone();
    let generation = provider.metadata.generation;
    let now = context.clock.now();
    let key = Key::new(provider.namespace().unwrap_or_default(), provider.name_any());
    new.observed_generation = generation;
    new.connected_vms = i32::try_from(context.users_of(&key).len()).ok();
    new.runtime = Some(runtime.status.clone());
    for (type_, said) in [
        (condition_types::TLS_CONFIGURED, &runtime.tls),
        (condition_types::CREDENTIALS_VALID, &runtime.credentials),
    ] {
        if said.is_none() {
            new.conditions.retain(|condition| condition.type_ != type_);
        }
    }
    let unserved = unserved(provider, context.settings.health_interval);
    if unserved.is_none() {
        new.conditions.retain(|condition| condition.type_ != condition_types::SUPPORTED);
    }
    let state = connection.map(|connection| connection.state());
    let mut set = |type_: &str, status: conditions::ConditionStatus, reason: &str, text: &str| {
        conditions::set(&mut new.conditions, type_, status, reason, text, generation, now);
    };
    if let Some(message) = &unserved {
        set(condition_types::SUPPORTED, false.into(), reasons::NOT_YET_SERVED, message);
    }
    let said = [
        (condition_types::PROVIDER_RUNTIME_READY, Some(&runtime.up)),
        (condition_types::TLS_CONFIGURED, runtime.tls.as_ref()),
        (condition_types::CREDENTIALS_VALID, runtime.credentials.as_ref()),
    ];
    for (type_, said) in said {
        if let Some(said) = said {
            set(type_, said.status, &said.reason, &said.message);
        }
    }
    let Some((connection, state)) = connection.zip(state) else {
        let (reason, message) = match problem {
            Some(problem) => (problem.reason.as_str(), problem.message.as_str()),
            None => (reasons::PENDING, "it was not looked at yet"),
        };
        set(condition_types::READY, false.into(), reason, message);
        set(condition_types::PROVIDER_AVAILABLE, false.into(), reason, message);
        new.healthy = Some(false);
        new.health = Some(HealthState::Unknown);
        return new;
    };
    let (well, reason, message) = match (problem, state.healthy, &state.error) {
        (Some(problem), _, _) => (false.into(), problem.reason.clone(), problem.message.clone()),
        (_, Some(true), _) if state.capabilities.is_some() => {
            (true.into(), reasons::READY.to_owned(), "the platform answers".to_owned())
        }
        // What is not up yet cannot be well: that is what there is to know.
        (None, _, _) if !runtime.is_up() => {
            (false.into(), runtime.up.reason.clone(), runtime.up.message.clone())
        }
        (_, _, Some(error)) => {
            (false.into(), error.kind().as_str().to_owned(), error.message().to_owned())
        }
        _ => (
            conditions::ConditionStatus::Unknown,
            reasons::PENDING.to_owned(),
            "its health is being asked after".to_owned(),
        ),
    };
    set(condition_types::READY, well, &reason, &message);
    set(condition_types::PROVIDER_AVAILABLE, well, &reason, &message);
    if let Some(capabilities) = &state.capabilities {
        set(
            condition_types::CAPABILITIES_REPORTED,
            true.into(),
            reasons::READY,
            "it told what it can do",
        );
        new.reported_capabilities = Some(reported(capabilities));
        new.capabilities = broad(capabilities);
        new.version.clone_from(&capabilities.version);
        if new.reported_capabilities != old.reported_capabilities {
            new.capabilities_detected_at = state.capabilities_at.map(Time);
        }
    }
    new.healthy = state.healthy;
    new.health = Some(match (state.healthy, &state.error) {
        (None, _) => HealthState::Unknown,
        (Some(true), _) => HealthState::Healthy,
        (Some(false), Some(error)) if unreachable(error.kind()) => HealthState::Unreachable,
        (Some(false), _) => HealthState::Unhealthy,
    });
    // The time of a check alone is worth a write only now and then.
    let changed = new != *old;
    let stale = old
        .last_health_check
        .as_ref()
        .is_none_or(|Time(at)| now.duration_since(*at).as_secs() >= 300);
    if changed || stale {
        new.last_health_check = state.checked_at.map(Time);
    }
    new.breaker = Some(match connection.gate.breaker() {
        guard::BreakerState::Closed => BreakerState::Closed,
        guard::BreakerState::Open { .. } => BreakerState::Open,
        guard::BreakerState::HalfOpen => BreakerState::HalfOpen,
    });
    let complete = connection.inventory.read(|view| view.complete_as_of());
    new.cache_status = Some(match (complete, &state.list_error) {
        (None, _) => CacheStatus::Rebuilding,
        (Some(_), Some(_)) => CacheStatus::Stale,
        (Some(_), None) => CacheStatus::Fresh,
    });
    new.orphans = orphans::report(&state);
    new.unmanaged = state.unmanaged.to_vec();
    new
}

fn unreachable(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Indeterminate)
}

fn reported(capabilities: &Capabilities) -> ReportedCapabilities {
    let yes = |value: bool| Some(value);
    ReportedCapabilities {
        supports_reconfigure_online: yes(capabilities.reconfigure_online),
        supports_disk_expansion_online: yes(capabilities.disk_growth_online),
        supports_snapshots: yes(capabilities.snapshots),
        supports_memory_snapshots: yes(capabilities.memory_snapshots),
        supports_linked_clones: yes(capabilities.linked_clones),
        supports_image_import: yes(capabilities.image_import),
        supports_disk_export: yes(capabilities.disk_export),
        supports_disk_import: yes(capabilities.disk_import),
        supports_export_compression: yes(capabilities.export_compression),
        supports_list: yes(capabilities.list),
        supports_events: yes(capabilities.events),
        supports_templates: yes(capabilities.templates),
        supports_guest_commands: yes(capabilities.guest_commands),
        supports_console: yes(capabilities.console),
        supports_pause: yes(capabilities.pause),
        supports_live_migration: yes(capabilities.live_migration),
        unique_by: Some(match capabilities.unique_by {
            sutler_provider::UniqueBy::Token => UniqueBy::Token,
            sutler_provider::UniqueBy::Name => UniqueBy::Name,
            sutler_provider::UniqueBy::None => UniqueBy::None,
        }),
        supported_disk_types: capabilities.disk_types.clone(),
        supported_network_types: capabilities.network_types.clone(),
        supported_export_formats: capabilities.export_formats.clone(),
        supported_import_formats: capabilities.import_formats.clone(),
        supported_export_backends: capabilities.transfer_backends.clone(),
        supported_import_backends: capabilities.transfer_backends.clone(),
        supported_transfer_modes: Vec::new(),
    }
}

fn broad(capabilities: &Capabilities) -> Vec<ProviderCapability> {
    let mut broad = vec![ProviderCapability::VirtualMachines];
    for (has, capability) in [
        (capabilities.snapshots, ProviderCapability::Snapshots),
        (capabilities.clones, ProviderCapability::Cloning),
        (capabilities.live_migration, ProviderCapability::LiveMigration),
        (capabilities.console, ProviderCapability::ConsoleAccess),
        (capabilities.disk_export || capabilities.disk_import, ProviderCapability::DiskManagement),
        (capabilities.templates, ProviderCapability::Templates),
    ] {
        if has {
            broad.push(capability);
        }
    }
    broad
}
