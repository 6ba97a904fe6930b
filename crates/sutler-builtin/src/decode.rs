//! What the reference implementation makes of a JSON object when it reads it into its typed form
//! and writes it again: fields of the wrong type are refused, unknown ones dropped, empty values
//! left out or filled in as each type declares, times, quantities and base64 written in one form.

use base64::{
    Engine, alphabet,
    engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD},
};
use serde_json::{Map, Value};
use sutler_schema::quantity::QuantityError;

use crate::{
    Kind, quantity, time,
    types::{self, Field, Type, Types},
};

/// A value that does not fit its field. The text is the part after `cannot be handled as a Pod: `.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DecodeError(String);

/// Reads `object` as one of `kind`.
pub fn decode(kind: &Kind, object: Value) -> Result<Value, DecodeError> {
    let types = types::table();
    let root = types.named(kind.definition()).expect("every kind of the table has a type");
    struct_value(types, root, object)
}

/// Reads `object` as the struct `root`.
pub(crate) fn struct_value(
    types: &Types,
    root: usize,
    object: Value,
) -> Result<Value, DecodeError> {
    let mut decoder = Decoder { types, path: Vec::new(), owner: "", pointed: false, saved: None };
    let value = decoder.value(&Type::Struct(root), None, object)?;
    match decoder.saved {
        None => Ok(value),
        Some(error) => Err(error),
    }
}

struct Decoder<'t> {
    types: &'t Types,
    /// The JSON names from the root to the current field; lists and maps add none.
    path: Vec<&'static str>,
    /// The struct that the current field belongs to.
    owner: &'static str,
    /// Whether the value at hand stands behind a pointer.
    pointed: bool,
    /// The first mismatch; reading goes on, since worse ones take precedence.
    saved: Option<DecodeError>,
}

impl Decoder<'_> {
    /// `value` as it is written again. It is not null.
    fn value(
        &mut self,
        ty: &Type,
        shown: Option<&str>,
        value: Value,
    ) -> Result<Value, DecodeError> {
        let value = match (ty, value) {
            (Type::Pointer(inner), value) => {
                let outer = std::mem::replace(&mut self.pointed, true);
                let value = self.value(inner, shown, value);
                self.pointed = outer;
                return value;
            }
            (Type::Wrapped(inner), value) => return self.value(inner, shown, value),
            (Type::String, value @ Value::String(_))
            | (Type::Bool, value @ Value::Bool(_))
            | (Type::Any, value) => value,
            (Type::Int32, Value::Number(n))
                if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) =>
            {
                Value::Number(n)
            }
            (Type::Int64, Value::Number(n)) if n.is_i64() => Value::Number(n),
            (Type::Float64, Value::Number(n)) => Value::Number(n),
            (Type::Bytes, Value::String(text)) => match decode_base64(&text) {
                Some(bytes) => STANDARD.encode(bytes).into(),
                None => {
                    let offset = corrupt_offset(text.as_bytes());
                    self.save(format!("illegal base64 data at input byte {offset}"));
                    Value::Null
                }
            },
            (Type::Time, Value::String(text)) => optional(time::seconds(&text))?,
            (Type::MicroTime, Value::String(text)) => optional(time::micros(&text))?,
            (Type::Duration, value @ Value::String(_)) => value,
            (Type::Quantity, Value::String(text)) => quantity_value(&text)?,
            (Type::Quantity, Value::Number(n)) => quantity_value(&n.to_string())?,
            (Type::IntOrString, value @ Value::String(_)) => value,
            (Type::IntOrString, Value::Number(n))
                if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) =>
            {
                Value::Number(n)
            }
            (Type::RawExtension | Type::FieldsV1, value) => value,
            (Type::List(inner), Value::Array(list)) => {
                let shown = shown.and_then(|shown| shown.strip_prefix("[]"));
                let mut out = Vec::with_capacity(list.len());
                for item in list {
                    out.push(match item {
                        Value::Null => zero(self.types, inner),
                        item => self.value(inner, shown, item)?,
                    });
                }
                Value::Array(out)
            }
            (Type::Map(inner), Value::Object(map)) => {
                let shown = shown.and_then(|shown| shown.strip_prefix("map["));
                let shown = shown.and_then(|shown| shown.split_once(']')).map(|(_, value)| value);
                let mut out = Map::new();
                for (key, item) in map {
                    let item = match item {
                        Value::Null if **inner == Type::Bytes => "".into(),
                        Value::Null => zero(self.types, inner),
                        item => self.value(inner, shown, item)?,
                    };
                    out.insert(key, item);
                }
                Value::Object(out)
            }
            (Type::Struct(index), Value::Object(mut source)) => {
                let mut out = Map::new();
                let outer = self.owner;
                self.fields(*index, self.types.get(*index).bare, &mut source, &mut out)?;
                self.owner = outer;
                Value::Object(out)
            }
            (ty, value) => {
                self.mismatch(ty, shown, &value)?;
                Value::Null
            }
        };
        Ok(value)
    }

    fn fields(
        &mut self,
        index: usize,
        owner: &'static str,
        source: &mut Map<String, Value>,
        out: &mut Map<String, Value>,
    ) -> Result<(), DecodeError> {
        let types = self.types;
        for field in &types.get(index).fields {
            if field.name.is_empty() {
                if let Type::Struct(inner) = field.ty {
                    self.fields(inner, owner, source, out)?;
                }
                continue;
            }
            let value = match source.remove(field.name) {
                None | Some(Value::Null) => zero(types, &field.ty),
                Some(value) => {
                    self.path.push(field.name);
                    self.owner = owner;
                    self.pointed = false;
                    let value = self.value(&field.ty, field.shown, value)?;
                    self.path.pop();
                    value
                }
            };
            emit(types, field, value, out);
        }
        Ok(())
    }

    fn mismatch(
        &mut self,
        ty: &Type,
        shown: Option<&str>,
        value: &Value,
    ) -> Result<(), DecodeError> {
        let found = match (value, ty) {
            (Value::Number(n), Type::Int32 | Type::Int64) => format!("number {n}"),
            (Value::Number(_), _) => "number".to_owned(),
            (Value::String(_), _) => "string".to_owned(),
            (Value::Bool(_), _) => "bool".to_owned(),
            (Value::Array(_), _) => "array".to_owned(),
            (Value::Object(_), _) => "object".to_owned(),
            (Value::Null, _) => "null".to_owned(),
        };
        // These read themselves, and end the reading with their own words.
        let own = match ty {
            Type::Time | Type::MicroTime | Type::Duration => Some("string"),
            Type::IntOrString => Some("int32"),
            _ => None,
        };
        if let Some(own) = own {
            let found = match (value, ty) {
                (Value::Number(n), Type::IntOrString) => format!("number {n}"),
                _ => found,
            };
            // Only what may be absent knows where it stands.
            let place = match self.pointed {
                true => format!("struct field {}.{}", self.owner, self.path.join(".")),
                false => "value".to_owned(),
            };
            let text = format!("json: cannot unmarshal {found} into Go {place} of type {own}");
            return Err(DecodeError(text));
        }
        if *ty == Type::Quantity {
            return Err(DecodeError(QuantityError::Format.to_string()));
        }
        let shown = shown.map_or_else(|| self.types.shown(ty), str::to_owned);
        self.save(match self.path.is_empty() {
            true => format!("json: cannot unmarshal {found} into Go value of type {shown}"),
            false => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {shown}",
                self.owner,
                self.path.join(".")
            ),
        });
        Ok(())
    }

    fn save(&mut self, text: String) {
        self.saved.get_or_insert(DecodeError(text));
    }
}

fn optional(time: Result<Option<String>, String>) -> Result<Value, DecodeError> {
    time.map(|time| time.map_or(Value::Null, Value::String)).map_err(DecodeError)
}

fn quantity_value(text: &str) -> Result<Value, DecodeError> {
    quantity::canonical(text.trim())
        .map(Value::String)
        .map_err(|error| DecodeError(error.to_string()))
}

/// Adds a field to its object unless its type leaves such a value out.
fn emit(types: &Types, field: &Field, mut value: Value, out: &mut Map<String, Value>) {
    let empty = match (&field.ty, &value) {
        (_, Value::Null) => !matches!(field.ty, Type::Time | Type::MicroTime),
        (Type::String, Value::String(text)) => text.is_empty(),
        (Type::Bytes, Value::String(text)) => text.is_empty(),
        (Type::Bool, Value::Bool(flag)) => !flag,
        (Type::Int32 | Type::Int64 | Type::Float64, Value::Number(n)) => n.as_f64() == Some(0.0),
        (Type::List(_) | Type::Wrapped(_), Value::Array(list)) => list.is_empty(),
        (Type::Map(_), Value::Object(map)) => map.is_empty(),
        _ => false,
    };
    if field.omit_empty && empty {
        return;
    }
    if field.omit_zero && value == zero(types, &field.ty) {
        return;
    }
    // The stored form does not tell an empty list from none.
    if empty && matches!(field.ty, Type::List(_) | Type::Map(_)) {
        value = Value::Null;
    }
    out.insert(field.name.to_owned(), value);
}

/// How a value that is not given is written.
fn zero(types: &Types, ty: &Type) -> Value {
    match ty {
        Type::String => "".into(),
        Type::Bool => false.into(),
        Type::Int32 | Type::Int64 | Type::Float64 | Type::IntOrString => 0.into(),
        Type::Quantity => "0".into(),
        Type::Duration => "0s".into(),
        Type::Struct(index) => {
            let mut out = Map::new();
            zero_fields(types, *index, &mut out);
            Value::Object(out)
        }
        Type::Bytes
        | Type::Time
        | Type::MicroTime
        | Type::RawExtension
        | Type::FieldsV1
        | Type::Any
        | Type::Pointer(_)
        | Type::List(_)
        | Type::Map(_)
        | Type::Wrapped(_) => Value::Null,
    }
}

fn zero_fields(types: &Types, index: usize, out: &mut Map<String, Value>) {
    for field in &types.get(index).fields {
        match field.ty {
            Type::Struct(inner) if field.name.is_empty() => zero_fields(types, inner, out),
            _ if field.name.is_empty() => {}
            _ => emit(types, field, zero(types, &field.ty), out),
        }
    }
}

/// As lenient as the reference implementation: line breaks and stray bits at the end are ignored.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    const ENGINE: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
    if text.contains(['\r', '\n']) {
        return ENGINE.decode(text.replace(['\r', '\n'], "")).ok();
    }
    ENGINE.decode(text).ok()
}

/// Where the reference implementation stops reading base64: at the first byte that is not part of
/// it, or at the start of the last group if that is not complete.
fn corrupt_offset(text: &[u8]) -> usize {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let good = text.iter().take_while(|b| plain(b)).count();
    match (text.get(good), good % 4, text.get(good + 1)) {
        (None, over, _) => good - over,
        (Some(b'='), 2, None) => good + 1,
        (Some(b'='), 2, Some(b'=')) => good + 2,
        (Some(b'='), 3, _) => good + 1,
        (Some(_), _, _) => good,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lookup;

    fn read(group: &str, kind: &str, object: Value) -> Result<Value, String> {
        decode(lookup(group, "v1", kind).unwrap(), object).map_err(|error| error.to_string())
    }

    #[test]
    fn empty_values_are_left_out_or_filled_in() {
        let pod = read(
            "",
            "Pod",
            json!({
                "apiVersion": "v1", "kind": "Pod", "bogus": 1,
                "metadata": {"name": "a", "labels": {}, "annotations": {"x": null},
                    "creationTimestamp": null, "finalizers": []},
                "spec": {"hostNetwork": false, "nodeSelector": null, "volumes": [{"name": "v"}],
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": "0.5Gi"}}}]},
            }),
        );
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "annotations": {"x": ""}},
            "spec": {"volumes": [{"name": "v"}], "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "512Mi"}}}]},
            "status": {},
        });
        assert_eq!(pod.unwrap(), expected);
    }

    #[test]
    fn structs_times_and_lists_without_omission() {
        let role = read("rbac.authorization.k8s.io", "Role", json!({"rules": []})).unwrap();
        assert_eq!(role, json!({"metadata": {}, "rules": null}));
        let event = read("", "Event", json!({"eventTime": "2024-01-01T00:00:00.000001Z"})).unwrap();
        assert_eq!(
            event,
            json!({"metadata": {}, "involvedObject": {}, "source": {}, "firstTimestamp": null,
                "lastTimestamp": null, "eventTime": "2024-01-01T00:00:00.000001Z",
                "reportingComponent": "", "reportingInstance": ""})
        );
        let secret = read("", "Secret", json!({"data": {"a": null, "b": "Y\nR=="}})).unwrap();
        assert_eq!(secret, json!({"metadata": {}, "data": {"a": "", "b": "YQ=="}}));
    }

    #[test]
    fn mismatches_are_worded() {
        let cases = [
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": "three"}}),
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "apps",
                "Deployment",
                json!({"spec": {"replicas": 1.5}}),
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "",
                "Pod",
                json!({"spec": {"containers": [{"image": 1}]}}),
                "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string",
            ),
            (
                "",
                "Pod",
                json!({"spec": {"containers": {}}}),
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                "",
                "Pod",
                json!({"spec": {"restartPolicy": true}}),
                "json: cannot unmarshal bool into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
            ),
            (
                "",
                "ConfigMap",
                json!({"data": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "",
                "Pod",
                json!({"spec": "x"}),
                "json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec",
            ),
            (
                "",
                "Service",
                json!({"spec": {"ports": [{"targetPort": true}]}}),
                "json: cannot unmarshal bool into Go value of type int32",
            ),
            ("", "Secret", json!({"data": {"a": "a*bc"}}), "illegal base64 data at input byte 1"),
            ("", "Secret", json!({"data": {"a": "hello"}}), "illegal base64 data at input byte 4"),
            ("", "Secret", json!({"data": {"a": "YQ="}}), "illegal base64 data at input byte 3"),
        ];
        for (group, kind, object, expected) in cases {
            assert_eq!(read(group, kind, object).unwrap_err(), expected);
        }
    }

    #[test]
    fn reading_what_was_written_changes_nothing() {
        let object = json!({"metadata": {"creationTimestamp": "2024-01-01T01:00:00+01:00"},
            "spec": {"selector": null, "template": {}, "strategy": {"rollingUpdate": {"maxSurge": "10%"}}}});
        let once = read("apps", "Deployment", object).unwrap();
        assert_eq!(read("apps", "Deployment", once.clone()).unwrap(), once);
    }
}
