//! `admission.k8s.io/v1`: the question of a cluster's API server, and the answer.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Denial, Kind, Operation, Who, check};

/// The version that is spoken.
const VERSION: &str = "admission.k8s.io/v1";

/// Why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum NotAReview {
    /// It is not an AdmissionReview in JSON.
    #[error("the body is no AdmissionReview")]
    Malformed(#[from] serde_json::Error),
    /// It is one of another version.
    #[error("{0:?} is not spoken here: ask in {VERSION}")]
    Version(String),
    /// It asks nothing.
    #[error("the AdmissionReview has no request")]
    Empty,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    resource: Resource,
    #[serde(default)]
    sub_resource: String,
    #[serde(default)]
    name: String,
    operation: String,
    #[serde(default)]
    user_info: User,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    resource: String,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

/// Answers an AdmissionReview. `sutler` is the user that Sutler's controllers are.
pub fn answer(body: &[u8], sutler: &str) -> Result<Value, NotAReview> {
    let review: Review = serde_json::from_slice(body)?;
    if review.api_version != VERSION || review.kind != "AdmissionReview" {
        return Err(NotAReview::Version(format!("{} {}", review.api_version, review.kind)));
    }
    let request = review.request.ok_or(NotAReview::Empty)?;
    let mut response = json!({ "uid": request.uid, "allowed": true });
    match judge(&request, sutler) {
        Ok(warnings) if warnings.is_empty() => {}
        Ok(warnings) => response["warnings"] = json!(warnings),
        Err(denial) => {
            response["allowed"] = json!(false);
            response["status"] = denial.status();
        }
    }
    Ok(json!({ "apiVersion": VERSION, "kind": "AdmissionReview", "response": response }))
}

fn judge(request: &Request, sutler: &str) -> Result<Vec<String>, Denial> {
    let operation = match request.operation.as_str() {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        _ => return Ok(Vec::new()),
    };
    let kind = Kind::of(&request.resource.group, &request.resource.resource);
    let Some(kind) = kind.filter(|_| request.sub_resource.is_empty()) else {
        return Ok(Vec::new());
    };
    let present = |object: &Value| !object.is_null();
    let old = Some(&request.old_object).filter(|object| present(object));
    let new = Some(&request.object).filter(|object| present(object));
    let user = request.user_info.username.as_str();
    let who = Who { user, sutler: user == sutler };
    check(operation, kind, old, new, &who).map_err(|refusals| {
        let told = new.or(old).and_then(|object| object.pointer("/metadata/name")?.as_str());
        Denial::new(operation, kind, told.unwrap_or(&request.name), &refusals)
    })
}
