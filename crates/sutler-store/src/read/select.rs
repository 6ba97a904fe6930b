//! Label and field selectors of a request.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value};
use sutler_schema::selector::{FieldSelector, LabelSelector};

use crate::{
    codec, object,
    registry::{Flavor, Resource},
    request::Query,
    status::ApiError,
};

/// Which objects a list, a watch or a collective delete is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn parse(query: &Query, resource: &Resource) -> Result<Self, ApiError> {
        let labels = match query.get("labelSelector") {
            Some(text) => {
                LabelSelector::parse(text).map_err(|e| ApiError::bad_request(e.to_string()))?
            }
            None => LabelSelector::default(),
        };
        let fields = match query.get("fieldSelector") {
            Some(text) => {
                FieldSelector::parse(text).map_err(|e| ApiError::bad_request(e.to_string()))?
            }
            None => FieldSelector::default(),
        };
        for term in &fields.terms {
            if !selectable(resource, &term.path) {
                return Err(unsupported(resource, &term.path));
            }
        }
        Ok(Self { labels, fields })
    }

    /// Restricts to one name, for a watch of a single object.
    pub(crate) fn with_name(mut self, name: &str) -> Self {
        self.fields.terms.push(sutler_schema::selector::FieldTerm {
            path: "metadata.name".into(),
            operator: sutler_schema::selector::FieldOperator::Equals,
            value: name.into(),
        });
        self
    }

    /// Whether everything is meant.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The only name that can match, if the selectors say so.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.fields.exact("metadata.name")
    }

    /// Whether an object is meant.
    pub(crate) fn matches(&self, resource: &Resource, object: &Value) -> bool {
        self.labels.matches(object::labels(object))
            && self.fields.matches(|path| field(resource, object, path))
    }

    /// Whether a stored object is meant, reading no more of it than needed.
    pub(crate) fn matches_stored(
        &self,
        resource: &Resource,
        key: &str,
        stored: &Bytes,
    ) -> Result<bool, ApiError> {
        if self.is_empty() {
            return Ok(true);
        }
        if let Some(name) = self.exact_name()
            && key.rsplit('/').next() != Some(name)
        {
            return Ok(false);
        }
        let names_only =
            self.fields.terms.iter().all(|t| matches!(t.path.as_str(), "metadata.name"));
        if self.labels.is_empty() && names_only && self.exact_name().is_some() {
            return Ok(self
                .fields
                .matches(|_| Cow::Borrowed(key.rsplit('/').next().unwrap_or(""))));
        }
        if self.fields.is_empty() {
            let glance = codec::glance(stored)?;
            return Ok(self.labels.matches(&glance.metadata.labels.unwrap_or_else(Map::new)));
        }
        let object = codec::decode(&resource.api_version, &resource.kind, stored, 0)?;
        Ok(self.matches(resource, &object))
    }
}

fn selectable(resource: &Resource, path: &str) -> bool {
    match path {
        "metadata.name" => true,
        "metadata.namespace" => resource.namespaced || resource.builtin().is_some(),
        _ => match &resource.flavor {
            Flavor::Builtin(kind) => sutler_builtin::selectable_fields(kind).contains(&path),
            Flavor::Custom(custom) => custom.selectable.iter().any(|(p, _)| p == path),
        },
    }
}

fn unsupported(resource: &Resource, path: &str) -> ApiError {
    ApiError::bad_request(match &resource.flavor {
        Flavor::Builtin(kind) => sutler_builtin::unsupported_field(kind, path),
        Flavor::Custom(_) => format!("field label not supported: {path}"),
    })
}

fn field<'v>(resource: &Resource, object: &'v Value, path: &str) -> Cow<'v, str> {
    match path {
        "metadata.name" => Cow::Borrowed(object::name(object)),
        "metadata.namespace" => Cow::Borrowed(object::namespace(object)),
        _ => match &resource.flavor {
            Flavor::Builtin(kind) => {
                sutler_builtin::field_value(kind, object, path).unwrap_or_default().into()
            }
            Flavor::Custom(custom) => {
                let found = custom.selectable.iter().find(|(p, _)| p == path);
                let values = found.map(|(_, p)| p.find(object)).unwrap_or_default();
                match values.first() {
                    Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
                    Some(Value::Null) | None => Cow::Borrowed(""),
                    Some(other) => Cow::Owned(other.to_string()),
                }
            }
        },
    }
}
