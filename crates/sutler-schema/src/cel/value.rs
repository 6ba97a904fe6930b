//! Values of expressions. What comes from the object stays where it is and is read when needed.

use std::{borrow::Cow, sync::Arc};

use chrono::{DateTime, FixedOffset, TimeDelta};
use kube_cel::cel;
use serde_json::{Map as JsonMap, Value};

use super::{
    Error,
    escape::{escape, unescape},
};
use crate::{
    node::{ListType, Node, Type},
    quantity::Quantity,
    time::{parse_duration, parse_rfc3339},
};

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    Bytes(Arc<Vec<u8>>),
    Time(DateTime<FixedOffset>),
    Duration(TimeDelta),
    List(List<'a>),
    Map(Map<'a>),
    Type(&'static str),
    Optional(Option<Arc<Val<'a>>>),
    Quantity(Arc<Quantity>),
    /// A value of the function library: an address, a URL …
    Foreign(cel::Value),
    /// A named format.
    Named(&'static str),
    /// A value that the schema says nothing about; it can only be compared.
    Opaque(&'a Value),
}

/// A list of the object, or one that the expression made.
#[derive(Debug, Clone)]
pub(super) enum List<'a> {
    Json { items: &'a [Value], node: &'a Node },
    Made(Arc<Vec<Val<'a>>>),
}

/// An object or map of the object, or a map that the expression made.
#[derive(Debug, Clone)]
pub(super) enum Map<'a> {
    Json { fields: &'a JsonMap<String, Value>, node: &'a Node },
    Made(Arc<Vec<(Val<'a>, Val<'a>)>>),
}

impl<'a> Val<'a> {
    /// Reads a JSON value by its schema.
    pub(super) fn read(value: &'a Value, node: &'a Node) -> Result<Self, Error> {
        let wanted = |what: &str| {
            Error::new(format!("invalid data, expected {what}, got {}", go_type(value)))
        };
        if value.is_null() {
            return match node.nullable {
                true => Ok(Self::Null),
                false => Err(Error::new("invalid data, got null for schema with nullable=false")),
            };
        }
        Ok(match node.ty {
            Type::IntOrString => match value {
                Value::String(text) => Self::Text(Cow::Borrowed(text)),
                Value::Number(number) if number.is_i64() => {
                    Self::Int(number.as_i64().unwrap_or_default())
                }
                _ => {
                    return Err(Error::new(
                        "invalid data, expected XIntOrString value to be either a string or integer",
                    ));
                }
            },
            Type::Object => {
                let fields = value.as_object().ok_or_else(|| {
                    Error::new(
                        "invalid data, expected a map for the provided schema with type=object",
                    )
                })?;
                Self::Map(Map::Json { fields, node })
            }
            Type::Array => {
                let items = value.as_array().ok_or_else(|| {
                    Error::new(
                        "invalid data, expected an array for the provided schema with type=array",
                    )
                })?;
                Self::List(List::Json { items, node })
            }
            Type::String => {
                let text = value.as_str().ok_or_else(|| wanted("string"))?;
                read_text(text, node.format.as_deref())?
            }
            Type::Number => Self::Double(value.as_f64().ok_or_else(|| wanted("float"))?),
            Type::Integer => Self::Int(value.as_i64().ok_or_else(|| wanted("int"))?),
            Type::Boolean => Self::Bool(value.as_bool().ok_or_else(|| wanted("bool"))?),
            Type::Any => Self::Opaque(value),
        })
    }

    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn list(items: Vec<Val<'a>>) -> Self {
        Self::List(List::Made(Arc::new(items)))
    }

    pub(super) fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The name of the value's type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Time(_) => "google.protobuf.Timestamp",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Foreign(_) => "object",
            Self::Named(_) => "kubernetes.NamedFormat",
            Self::Opaque(_) => "unknown",
        }
    }

    /// The size that costs are reckoned with.
    pub(super) fn cost_size(&self) -> u64 {
        let size = match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::List(list) => list.len(),
            Self::Map(map) => map.len(),
            _ => 1,
        };
        size as u64
    }
}

fn read_text<'a>(text: &'a str, format: Option<&str>) -> Result<Val<'a>, Error> {
    Ok(match format {
        Some("duration") => {
            let duration = parse_duration(text).ok_or_else(|| {
                Error::new(format!("Invalid duration {text}: unable to parse {text} as duration"))
            })?;
            Val::Duration(duration)
        }
        Some("date") => {
            let time = parse_rfc3339(&format!("{text}T00:00:00Z"));
            Val::Time(time.map_err(|error| {
                Error::new(format!("Invalid date formatted string {text}: {error}"))
            })?)
        }
        Some("date-time") => {
            // A time without a zone is taken as UTC.
            let time = parse_rfc3339(text).or_else(|_| parse_rfc3339(&format!("{text}Z")));
            Val::Time(time.map_err(|error| {
                Error::new(format!("Invalid date-time formatted string {text}: {error}"))
            })?)
        }
        Some("byte") => {
            use base64::{Engine as _, engine::general_purpose::URL_SAFE};
            let bytes = URL_SAFE.decode(text).map_err(|error| {
                Error::new(format!("Invalid byte formatted string {text}: {error}"))
            })?;
            Val::Bytes(Arc::new(bytes))
        }
        _ => Val::Text(Cow::Borrowed(text)),
    })
}

impl<'a> List<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Json { items, .. } => items.len(),
            Self::Made(items) => items.len(),
        }
    }

    pub(super) fn get(&self, i: usize) -> Option<Result<Val<'a>, Error>> {
        match self {
            Self::Json { items, node } => {
                let item = items.get(i)?;
                Some(match &node.items {
                    Some(child) => Val::read(item, child),
                    None => Ok(Val::Opaque(item)),
                })
            }
            Self::Made(items) => items.get(i).cloned().map(Ok),
        }
    }

    pub(super) fn to_vec(&self) -> Result<Vec<Val<'a>>, Error> {
        match self {
            Self::Made(items) => Ok(items.to_vec()),
            Self::Json { .. } => (0..self.len()).filter_map(|i| self.get(i)).collect(),
        }
    }

    /// How the items are identified; lists that an expression made are plain.
    pub(super) fn kind(&self) -> &'a ListType {
        match self {
            Self::Json { node, .. } => &node.list_type,
            Self::Made(_) => &ListType::Atomic,
        }
    }
}

impl<'a> Map<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Json { fields, .. } => fields.len(),
            Self::Made(entries) => entries.len(),
        }
    }

    /// The value of a key, if it is there. A null field of an object counts as absent.
    pub(super) fn get(&self, key: &Val<'_>) -> Result<Option<Val<'a>>, Error> {
        match self {
            Self::Json { .. } => match key {
                Val::Text(name) => self.field(name),
                _ => Err(Error::overload()),
            },
            Self::Made(entries) => {
                for (name, value) in entries.iter() {
                    if super::ops::equal(name, key)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
        }
    }

    /// As [`Map::get`] with a name.
    pub(super) fn field(&self, name: &str) -> Result<Option<Val<'a>>, Error> {
        let Self::Json { fields, node } = self else {
            return self.get(&Val::Text(Cow::Borrowed(name)));
        };
        if node.properties.is_empty() {
            let (Some(value), Some(child)) = (fields.get(name), &node.additional) else {
                return Ok(None);
            };
            return Val::read(value, child).map(Some);
        }
        let Some(name) = unescape(name) else { return Ok(None) };
        match (fields.get(&*name), node.properties.get(&*name)) {
            (Some(value), Some(child)) if !value.is_null() => Val::read(value, child).map(Some),
            _ => Ok(None),
        }
    }

    /// The keys that expressions see.
    pub(super) fn keys(&self) -> Vec<Val<'a>> {
        match self {
            Self::Made(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
            Self::Json { fields, node } => {
                let is_object = !node.properties.is_empty();
                let names = fields.keys().filter(|name| match is_object {
                    true => node.properties.contains_key(*name),
                    false => node.additional.is_some(),
                });
                let names = names.map(|name| match is_object {
                    true => escape(name).unwrap_or(Cow::Borrowed(name)),
                    false => Cow::Borrowed(name.as_str()),
                });
                names.map(Val::Text).collect()
            }
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
