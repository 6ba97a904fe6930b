//! Questions about oneself and others: who am I, may I, what may I.

use serde_json::{Value, json};
use sutler_apply::update::{Track, track};
use sutler_builtin::{Kind, reviews};
use sutler_schema::error::FieldError;

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
    review = sutler_builtin::decode(kind, review).map_err(|why| {
        ApiError::bad_request(format!(
            "{0} in version {1:?} cannot be handled as a {0}: {why}",
            kind.kind, kind.version
        ))
    })?;
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
        (Some(_), Some(path)) => {
            // In the names of Go's fields, as it is printed there.
            let shown = json!({"Path": text(path, "/path"), "Verb": text(path, "/verb")});
            let why = "cannot be specified in combination with resourceAttributes";
            return Err(invalid(FieldError::invalid("spec.nonResourceAttributes", shown, why)));
        }
        (None, None) => {
            let why =
                "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(invalid(FieldError::invalid("spec.resourceAttributes", Value::Null, why)));
        }
    };
    refuse_metadata(review)?;
    let policy = ctx.inner.policy.get(ctx.inner).await?;
    let decision = policy.1.authorize(&attributes);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    Ok(status)
}

fn invalid(error: FieldError) -> ApiError {
    let gk = crate::status::GroupResource { group: "authorization.k8s.io", resource: "" };
    ApiError::invalid(gk, "", &[error])
}

/// A review has no name: it is an answer, and no object. Only reviews within a namespace have one.
fn refuse_metadata(review: &Value) -> Result<(), ApiError> {
    let Some(given) = review["metadata"].as_object() else { return Ok(()) };
    let local = review["kind"] == "LocalSubjectAccessReview";
    let odd = |key: &&String| {
        !matches!(key.as_str(), "managedFields" | "creationTimestamp" | "namespace")
    };
    if local || !given.keys().any(|key| odd(&key)) {
        return Ok(());
    }
    let mut shown: Vec<String> = given
        .iter()
        .filter(|(key, _)| odd(key))
        .map(|(key, value)| format!("{key:?}:{value}"))
        .collect();
    let owners: Vec<String> = given
        .get("managedFields")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|owner| {
            let fields = ["manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1"];
            let fields: Vec<String> =
                fields.iter().map(|key| format!("{key:?}:{}", owner[*key])).collect();
            format!("{{{}}}", fields.join(","))
        })
        .collect();
    if !owners.is_empty() {
        shown.push(format!("\"managedFields\":[{}]", owners.join(",")));
    }
    // The fields are shown in the order of their declaration, which a value of ours does not keep.
    let body = format!("Invalid value: {{{}}}: must be empty", shown.join(","));
    let mut refused = invalid(FieldError::invalid("metadata", Value::Null, "must be empty"));
    refused.message = format!(".authorization.k8s.io \"\" is invalid: metadata: {body}");
    if let Some(cause) = refused.details.as_mut().and_then(|d| d.pointer_mut("/causes/0/message")) {
        *cause = body.into();
    }
    Err(refused)
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
