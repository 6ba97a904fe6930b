//! Requests that change something: decode, shape, own, prepare, validate, admit, commit.

pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod delete;
pub(crate) mod guard;
pub(crate) mod patch;
pub(crate) mod scale;
pub(crate) mod update;

pub(crate) use decode::{decode_body, shape};

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::{
    auth::User,
    request::{Query, RequestInfo},
    server::Inner,
};

/// What every handler knows of its request.
pub(crate) struct Ctx<'a> {
    pub(crate) inner: &'a Arc<Inner>,
    pub(crate) user: &'a User,
    pub(crate) info: &'a RequestInfo,
    pub(crate) query: &'a Query,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) warnings: Mutex<Vec<String>>,
}

impl Ctx<'_> {
    pub(crate) fn warn(&self, texts: impl IntoIterator<Item = String>) {
        self.warnings.lock().unwrap_or_else(|e| e.into_inner()).extend(texts);
    }
}

/// What a write came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// 200, 201 or 202.
    pub(crate) code: StatusCode,
    /// The object as it is now.
    pub(crate) object: Value,
    /// Its wire form, where it is at hand.
    pub(crate) wire: Option<Bytes>,
    /// What `object` is.
    pub(crate) shape: Shape,
}

/// What an answer to a write is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An object of the resource.
    Object,
    /// A list of such objects.
    List,
    /// A `Status` or another kind.
    Other,
}

impl Outcome {
    pub(crate) fn ok(object: Value) -> Self {
        Self { code: StatusCode::OK, object, wire: None, shape: Shape::Object }
    }

    pub(crate) fn success(code: StatusCode, details: Value) -> Self {
        let mut object = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        });
        match details {
            Value::Null => object["code"] = code.as_u16().into(),
            details => object["details"] = details,
        }
        Self { code, object, wire: None, shape: Shape::Other }
    }
}
