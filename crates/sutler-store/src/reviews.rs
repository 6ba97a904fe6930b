//! Questions about oneself and others: who am I, may I, what may I.

use serde_json::{Value, json};
use sutler_apply::update::{Track, track};
use sutler_builtin::{Kind, reviews};

use crate::{
    auth::{User, rbac::Attributes},
    negotiate,
    options::{OptionsKind, WriteOptions},
    status::ApiError,
    write::Ctx,
};

/// The review kind of a path.
pub(crate) fn find(group: &str, version: &str, resource: &str) -> Option<&'static Kind> {
    reviews().iter().find(|k| k.group == group && k.version == version && k.plural == resource)
}

/// Answers a review.
pub(crate) async fn answer(
    ctx: &Ctx<'_>,
    kind: &'static Kind,
    body: &[u8],
) -> Result<Value, ApiError> {
    let mut review = negotiate::decode_object(ctx.headers, body)?.value;
    if !review.is_object() {
        return Err(ApiError::bad_request(format!("the body must be a {}", kind.kind)));
    }
    let sent = |key: &str| review[key].as_str().unwrap_or_default();
    let (api_version, sent_kind) = (sent("apiVersion"), sent("kind"));
    let other = !api_version.is_empty() && api_version != kind.api_version()
        || !sent_kind.is_empty() && sent_kind != kind.kind;
    if other {
        let package = kind.group.split('.').next().unwrap_or_default();
        return Err(ApiError::bad_request(format!(
            "{sent_kind} in version {0:?} cannot be handled as a {1}: converting \
             ({0}.{sent_kind}) to ({package}.{1}): unknown conversion",
            api_version.rsplit('/').next().unwrap_or_default(),
            kind.kind
        )));
    }
    review["apiVersion"] = kind.api_version().into();
    review["kind"] = kind.kind.into();
    if review.get("metadata").is_none() {
        review["metadata"] = json!({});
    }
    if kind.kind != "SelfSubjectReview" {
        own(ctx, kind, &mut review)?;
    }
    match kind.kind {
        "SelfSubjectReview" => {
            review["status"] = json!({"userInfo": user_info(ctx.user)});
            review["metadata"]["creationTimestamp"] = ctx.inner.timestamp().into();
        }
        "SelfSubjectRulesReview" => {
            let namespace = text(&review, "/spec/namespace");
            if namespace.is_empty() {
                return Err(ApiError::bad_request("no namespace on request"));
            }
            let policy = ctx.inner.policy.get(ctx.inner).await?;
            review["status"] = policy.1.rules_for(ctx.user, namespace).review_status();
        }
        "SelfSubjectAccessReview" => {
            let user = ctx.user.clone();
            review["status"] = decide(ctx, &user, &review).await?;
        }
        // SubjectAccessReview and LocalSubjectAccessReview.
        _ => {
            let groups = review.pointer("/spec/groups").and_then(Value::as_array);
            let user = User {
                name: text(&review, "/spec/user").to_owned(),
                uid: text(&review, "/spec/uid").to_owned(),
                groups: groups
                    .into_iter()
                    .flatten()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
                ..User::default()
            };
            review["status"] = decide(ctx, &user, &review).await?;
        }
    }
    Ok(review)
}

/// Who asked owns the question, as with any object that is created.
fn own(ctx: &Ctx<'_>, kind: &'static Kind, review: &mut Value) -> Result<(), ApiError> {
    let options = WriteOptions::parse(OptionsKind::Create, ctx.query, ctx.headers)?;
    let api_version = kind.api_version();
    let node = kind.node();
    let zero = sutler_apply::zero::object(&node, &api_version, kind.kind);
    let creation = Track {
        old: None,
        node: &node,
        manager: &options.manager,
        api_version: &api_version,
        subresource: "",
        now: &ctx.inner.timestamp(),
        reset: &[],
        zero: Some(&zero),
    };
    track(review, &creation);
    Ok(())
}

async fn decide(ctx: &Ctx<'_>, user: &User, review: &Value) -> Result<Value, ApiError> {
    let spec = &review["spec"];
    let attributes = match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
        (Some(_), None) => Attributes {
            version: text(review, "/spec/resourceAttributes/version"),
            subresource: text(review, "/spec/resourceAttributes/subresource"),
            namespace: text(review, "/spec/resourceAttributes/namespace"),
            name: text(review, "/spec/resourceAttributes/name"),
            ..Attributes::resource(
                user,
                text(review, "/spec/resourceAttributes/verb"),
                text(review, "/spec/resourceAttributes/group"),
                text(review, "/spec/resourceAttributes/resource"),
            )
        },
        (None, Some(_)) => Attributes::path(
            user,
            text(review, "/spec/nonResourceAttributes/verb"),
            text(review, "/spec/nonResourceAttributes/path"),
        ),
        _ => {
            let error = sutler_schema::error::FieldError::invalid(
                "spec.resourceAttributes",
                Value::Null,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            );
            let gk = crate::status::GroupResource { group: "authorization.k8s.io", resource: "" };
            return Err(ApiError::invalid(gk, "", &[error]));
        }
    };
    let policy = ctx.inner.policy.get(ctx.inner).await?;
    let decision = policy.1.authorize(&attributes);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    Ok(status)
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
