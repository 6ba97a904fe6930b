//! What single kinds need beyond their schema when they are written: grants must be held by who
//! makes them, namespaces hold until they are empty, pods get their grace.

use std::sync::Arc;

use serde_json::Value;
use sutler_schema::error::FieldError;

use super::Ctx;
use crate::{
    auth::{
        rbac::{
            self,
            escalation::{self, Refusal},
        },
        users,
    },
    object,
    registry::Resource,
    server::Inner,
    status::{ApiError, GroupResource},
};

/// Checks and completes an object that is about to be created.
pub(crate) async fn before_create(
    ctx: &Ctx<'_>,
    resource: &Resource,
    object: &mut Value,
) -> Result<(), ApiError> {
    if resource.is("", "services") {
        give_out(resource, object)?;
    }
    grants(ctx, resource, object, None).await
}

/// Checks an object that is about to be changed.
pub(crate) async fn before_update(
    ctx: &Ctx<'_>,
    resource: &Resource,
    subresource: &str,
    new: &mut Value,
    old: &Value,
) -> Result<(), ApiError> {
    if !subresource.is_empty() {
        return Ok(());
    }
    if resource.is("", "services") {
        let seed = seed(object::uid(new));
        sutler_builtin::assign_node_ports(new, seed);
    }
    grants(ctx, resource, new, Some(old)).await
}

/// Checks an object that is about to be deleted.
pub(crate) async fn before_delete(
    _ctx: &Ctx<'_>,
    resource: &Resource,
    old: &Value,
) -> Result<(), ApiError> {
    let name = object::name(old);
    if resource.is("", "namespaces") && IMMORTAL.contains(&name) {
        let why = "this namespace may not be deleted";
        return Err(ApiError::forbidden(resource.gr(), name, why));
    }
    Ok(())
}

/// Namespaces without which nothing works.
const IMMORTAL: [&str; 4] = ["default", "kube-system", "kube-public", users::NAMESPACE];

/// Takes note that objects of a resource were written.
pub(crate) fn after_write(inner: &Arc<Inner>, resource: &Resource) {
    inner.policy.touched(resource);
}

/// How long an object may take to end after its deletion.
pub(crate) fn grace_period(resource: &Resource, old: &Value, asked: Option<i64>) -> i64 {
    if !resource.is("", "pods") {
        return 0;
    }
    let text = |pointer: &str| old.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    // A pod that runs nowhere, or no longer, has nothing to end.
    if text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Failed" | "Succeeded")
    {
        return 0;
    }
    let own = old.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    asked.or(own).unwrap_or(30).max(0)
}

/// Whether a kind's deletion is a process, and its answer shows that.
pub(crate) fn is_graceful(resource: &Resource) -> bool {
    resource.is("", "pods")
}

/// Whether an object is held by something other than `metadata.finalizers`.
pub(crate) fn holds(resource: &Resource, object: &Value) -> bool {
    resource.is("", "namespaces")
        && object
            .pointer("/spec/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|f| !f.is_empty())
}

/// Marks what a kind shows while it ends.
pub(crate) fn mark_terminating(resource: &Resource, object: &mut Value) {
    if resource.is("", "namespaces") {
        object["status"]["phase"] = "Terminating".into();
    }
}

/// Whether an object under deletion goes when its last finalizer does.
pub(crate) fn may_vanish(resource: &Resource, object: &Value) -> bool {
    let grace = object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    grace.unwrap_or(0) == 0 && !holds(resource, object)
}

/// Whether a delete answers with the object instead of a `Status`.
pub(crate) fn deletes_with_object(resource: &Resource) -> bool {
    const CORE: [&str; 6] = [
        "pods",
        "services",
        "serviceaccounts",
        "persistentvolumes",
        "persistentvolumeclaims",
        "namespaces",
    ];
    match resource.builtin() {
        Some(_) if resource.group.is_empty() => CORE.contains(&resource.plural.as_str()),
        Some(_) => resource.is("storage.k8s.io", "storageclasses"),
        None => false,
    }
}

/// Nobody hands out more than they have: roles, bindings, and users with their groups.
async fn grants(
    ctx: &Ctx<'_>,
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let inner = ctx.inner;
    if resource.group == rbac::GROUP {
        return check_grant(ctx, resource, new, old).await;
    }
    if resource.is("", "secrets")
        && object::namespace(new) == users::NAMESPACE
        && users::is_user_secret(new)
    {
        let problems = users::validate_user_secret(new);
        if !problems.is_empty() {
            return Err(ApiError::bad_request(problems.join("; ")));
        }
        let policy = inner.policy.get(inner).await?;
        for check in users::user_secret_checks(new) {
            let attributes = check.attributes(ctx.user);
            let decision = policy.1.authorize(&attributes);
            if !decision.allowed {
                let why = rbac::forbidden_cause(&attributes, &decision.reason);
                return Err(ApiError::forbidden(resource.gr(), object::name(new), &why));
            }
        }
    }
    Ok(())
}

async fn check_grant(
    ctx: &Ctx<'_>,
    resource: &Resource,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let policy = ctx.inner.policy.get(ctx.inner).await?;
    let write = |plural| escalation::Write {
        user: ctx.user,
        resource: plural,
        namespace: &ctx.info.namespace,
        url_name: if old.is_some() { &ctx.info.name } else { "" },
        new,
        old,
    };
    let checked = match resource.plural.as_str() {
        "roles" => escalation::check_role(&policy.1, &write("roles")),
        "clusterroles" => escalation::check_role(&policy.1, &write("clusterroles")),
        "rolebindings" => escalation::check_binding(&policy.1, &write("rolebindings")),
        _ => escalation::check_binding(&policy.1, &write("clusterrolebindings")),
    };
    checked.map_err(|refusal| match refusal {
        Refusal::Forbidden { name, why, .. } => ApiError::forbidden(resource.gr(), &name, &why),
        Refusal::RoleNotFound { resource, name } => {
            ApiError::not_found(GroupResource { group: rbac::GROUP, resource }, &name)
        }
        refusal @ Refusal::UnknownRoleKind(_) => ApiError::internal(refusal),
    })
}

/// Gives a service the address and the ports that it does not name itself.
fn give_out(resource: &Resource, service: &mut Value) -> Result<(), ApiError> {
    if sutler_builtin::needs_cluster_ip(service) {
        let ip = cluster_ip(object::uid(service));
        sutler_builtin::assign_cluster_ip(service, &ip);
    } else if let Some(ip) = service.pointer("/spec/clusterIP").and_then(Value::as_str)
        && let Ok(address) = ip.parse()
        && !sutler_builtin::is_cluster_ip(address)
    {
        let why = format!(
            "failed to allocate IP {ip}: the provided network does not match the current range"
        );
        let error = FieldError::invalid("spec.clusterIPs", serde_json::json!([ip]), why);
        return Err(ApiError::invalid(resource.gk(), object::name(service), &[error]));
    }
    let seed = seed(object::uid(service));
    sutler_builtin::assign_node_ports(service, seed);
    Ok(())
}

/// A number that is the same for an object whenever it is asked for.
fn seed(uid: &str) -> u64 {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(uid.as_bytes());
    digest.iter().take(8).fold(0, |seed, byte| seed << 8 | u64::from(*byte))
}

/// An address for a service. Nothing routes it here; clients expect the field to be set.
fn cluster_ip(uid: &str) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(uid.as_bytes());
    // Neither .0 nor .255 in the last place.
    format!("10.{}.{}.{}", 96 + digest[0] % 16, digest[1], 1 + digest[2] % 254)
}
