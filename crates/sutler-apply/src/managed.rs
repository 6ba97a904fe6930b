//! `metadata.managedFields`: which manager owns which fields.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Map, Value};

pub use crate::scale::{ReplicasPath, from_scale, to_scale};
use crate::{fieldset::FieldSet, time, value};

/// How a manager came to own fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By create, update or one of the other patch types.
    Update,
}

impl Operation {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells one entry from another. Appliers have one entry whatever the version they used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// The name given as `fieldManager`.
    pub manager: String,
    /// How it came to own the fields.
    pub operation: Operation,
    /// The version used, for updaters; empty for appliers.
    pub api_version: String,
    /// The subresource written to; empty for the object itself.
    pub subresource: String,
}

impl ManagerId {
    /// The identity of a manager that uses this version and subresource.
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self::of_entry(manager, operation, api_version, subresource)
    }

    fn of_entry(manager: &str, operation: Operation, api_version: &str, sub: &str) -> Self {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: sub.to_owned(),
        }
    }

    /// The identity as one text, by which the real server sorts where it has to break a tie.
    pub(crate) fn key(&self) -> String {
        let mut out = String::from("{");
        let mut field = |name: &str, text: &str| {
            if !text.is_empty() {
                if out.len() > 1 {
                    out.push(',');
                }
                value::json_string(name, true, &mut out);
                out.push(':');
                value::json_string(text, true, &mut out);
            }
        };
        field("manager", &self.manager);
        field("operation", self.operation.as_str());
        field("apiVersion", &self.api_version);
        field("subresource", &self.subresource);
        out.push('}');
        out
    }
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    /// The version in which the fields are named.
    pub api_version: String,
    /// The fields.
    pub fields: FieldSet,
    /// When the set last grew, in seconds since 1970.
    pub time: Option<i64>,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managed {
    /// By identity.
    pub entries: BTreeMap<ManagerId, Owned>,
}

/// Why managed fields cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ManagedError {
    /// What is wrong with them.
    pub reason: String,
}

impl Managed {
    /// Reads the list that stands under `metadata.managedFields`. A list that is not made of
    /// entries counts as absent.
    pub fn decode(list: Option<&Value>) -> Result<Self, ManagedError> {
        let mut managed = Self::default();
        for (i, entry) in raw_entries(list).unwrap_or_default().into_iter().enumerate() {
            let fail = |reason: String| ManagedError { reason };
            let operation = match entry.operation {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(fail("operation must be `Apply` or `Update`".into())),
            };
            if entry.api_version.is_empty() {
                return Err(fail("apiVersion must not be empty".into()));
            }
            match entry.fields_type {
                "FieldsV1" => {}
                "" => return Err(fail(format!("missing fieldsType in managed fields entry {i}"))),
                other => {
                    let other = value::quoted(other);
                    return Err(fail(format!(
                        "invalid fieldsType {other} in managed fields entry {i}"
                    )));
                }
            }
            let fields = match entry.fields {
                Some(fields) => FieldSet::from_value(fields)
                    .map_err(|e| fail(format!("error decoding versioned set: {e}")))?,
                None => FieldSet::new(),
            };
            let (version, sub) = (entry.api_version, entry.subresource);
            managed.entries.insert(
                ManagerId::of_entry(entry.manager, operation, version, sub),
                Owned { api_version: version.to_owned(), fields, time: entry.time },
            );
        }
        Ok(managed)
    }

    /// Reads the managed fields of an object.
    pub fn of_object(object: &Value) -> Result<Self, ManagedError> {
        Self::decode(list_of(object))
    }

    /// The list for `metadata.managedFields`; none if nobody owns anything.
    pub fn encode(&self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        let mut entries: Vec<(&ManagerId, &Owned)> = self.entries.iter().collect();
        entries.sort_by(|(li, lo), (ri, ro)| {
            li.operation
                .cmp(&ri.operation)
                .then_with(|| lo.time.unwrap_or(0).cmp(&ro.time.unwrap_or(0)))
                .then_with(|| li.manager.cmp(&ri.manager))
                .then_with(|| lo.api_version.cmp(&ro.api_version))
                .then_with(|| li.subresource.cmp(&ri.subresource))
        });
        Some(Value::Array(entries.into_iter().map(|(id, owned)| encode(id, owned)).collect()))
    }

    /// Writes the managed fields into an object, or removes them if nobody owns anything.
    pub fn store(&self, object: &mut Value) {
        match self.encode() {
            None => remove_from(object),
            Some(list) => {
                let Some(object) = object.as_object_mut() else { return };
                let metadata = object.entry("metadata").or_insert_with(|| Map::new().into());
                if let Some(metadata) = metadata.as_object_mut() {
                    metadata.insert("managedFields".into(), list);
                }
            }
        }
    }

    /// Keeps at most `most` updaters: the oldest are merged, version by version, under the name
    /// `ancient-changes`.
    pub(crate) fn cap_updaters(&mut self, most: usize) {
        let is_update = |id: &&ManagerId| id.operation == Operation::Update;
        let mut count = self.entries.keys().filter(is_update).count();
        if count <= most {
            return;
        }
        let mut updaters: Vec<(i64, String, ManagerId)> = self
            .entries
            .iter()
            .filter(|(id, _)| is_update(id))
            .map(|(id, owned)| (owned.time.unwrap_or(0), id.key(), id.clone()))
            .collect();
        updaters.sort_by(|l, r| l.0.cmp(&r.0).then_with(|| l.1.cmp(&r.1)));
        let mut first_of_version: BTreeMap<String, ManagerId> = BTreeMap::new();
        for (_, _, id) in updaters {
            if count <= most {
                return;
            }
            let Some(owned) = self.entries.get(&id).cloned() else { continue };
            let version = owned.api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            let bucket = ManagerId::new("ancient-changes", Operation::Update, &version, "");
            if !self.entries.contains_key(&bucket)
                && let Some(oldest) = self.entries.remove(first)
            {
                self.entries.insert(bucket.clone(), oldest);
            }
            self.entries.remove(&id);
            let before = self.entries.get(&bucket).map(|b| &b.fields);
            let fields = match before {
                Some(before) => owned.fields.union(before),
                None => owned.fields,
            };
            self.entries.insert(bucket, Owned { api_version: version, fields, time: owned.time });
            count -= 1;
        }
    }
}

/// What a client wrote under `managedFields` in an update.
pub(crate) enum Given {
    /// Nothing usable: the stored ones stay.
    Absent,
    /// An empty list, or one empty entry: ownership starts anew.
    Reset,
    /// These.
    Managed(Managed),
}

/// What the object says. The metadata of custom resources is decoded in a way that does not tell
/// an empty list from none.
pub(crate) fn given(object: &Value, custom: bool) -> Given {
    let Some(list) = list_of(object).and_then(Value::as_array) else { return Given::Absent };
    match list.as_slice() {
        [] if custom => return Given::Absent,
        [] => return Given::Reset,
        [Value::Object(only)] if only.values().all(Value::is_null) => return Given::Reset,
        _ => {}
    }
    match Managed::of_object(object) {
        Ok(managed) if !managed.entries.is_empty() => Given::Managed(managed),
        _ => Given::Absent,
    }
}

/// Takes the managed fields out of an object.
pub(crate) fn remove_from(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

pub(crate) fn list_of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Whether the object carries a readable list of managed fields, even an empty one.
pub(crate) fn is_given(object: &Value) -> bool {
    raw_entries(list_of(object)).is_some()
}

/// The name under which a request is recorded: the `fieldManager` parameter, or what stands before
/// the first slash of the user agent, printable characters only, at most 128 bytes.
pub fn manager_name(field_manager: &str, user_agent: &str) -> String {
    if !field_manager.is_empty() {
        return field_manager.to_owned();
    }
    let mut name = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars() {
        if c.is_control() || (c.is_whitespace() && c != ' ') {
            continue;
        }
        if name.len() + c.len_utf8() > 128 {
            break;
        }
        name.push(c);
    }
    name
}

fn encode(id: &ManagerId, owned: &Owned) -> Value {
    let mut entry = Map::new();
    let mut text = |name: &str, text: &str| {
        if !text.is_empty() {
            entry.insert(name.to_owned(), Value::String(text.to_owned()));
        }
    };
    text("apiVersion", &owned.api_version);
    text("fieldsType", "FieldsV1");
    text("manager", &id.manager);
    text("operation", id.operation.as_str());
    text("subresource", &id.subresource);
    if let Some(time) = owned.time {
        text("time", &time::format(time));
    }
    entry.insert("fieldsV1".to_owned(), owned.fields.to_value());
    Value::Object(entry)
}

struct RawEntry<'a> {
    manager: &'a str,
    operation: &'a str,
    api_version: &'a str,
    fields_type: &'a str,
    subresource: &'a str,
    fields: Option<&'a Value>,
    time: Option<i64>,
}

fn raw_entries(list: Option<&Value>) -> Option<Vec<RawEntry<'_>>> {
    list?.as_array()?.iter().map(raw_entry).collect()
}

fn raw_entry(entry: &Value) -> Option<RawEntry<'_>> {
    let entry = entry.as_object()?;
    let text = |name: &str| match entry.get(name) {
        None | Some(Value::Null) => Some(""),
        Some(value) => value.as_str(),
    };
    let time = match text("time")? {
        "" => None,
        stamp => Some(time::parse(stamp)?),
    };
    Some(RawEntry {
        manager: text("manager")?,
        operation: text("operation")?,
        api_version: text("apiVersion")?,
        fields_type: text("fieldsType")?,
        subresource: text("subresource")?,
        fields: entry.get("fieldsV1").filter(|fields| !fields.is_null()),
        time,
    })
}

/// As the manager is named in conflicts: its name, subresource and, for updaters, version.
pub(crate) fn describe(id: &ManagerId) -> String {
    let mut out = value::quoted(&id.manager);
    if !id.subresource.is_empty() {
        out.push_str(" with subresource ");
        value::quote(&id.subresource, &mut out);
    }
    if id.operation == Operation::Update {
        out.push_str(" using ");
        out.push_str(&id.api_version);
    }
    out
}

/// Orders identities as the real server sorts their texts.
pub(crate) fn by_key(left: &ManagerId, right: &ManagerId) -> Ordering {
    left.key().cmp(&right.key())
}

#[cfg(test)]
mod tests;
