//! JSON patch (RFC 6902), with the liberties that the real server's library takes: negative indices
//! count from the end, replacing a field that is absent sets it, copying one that is absent sets
//! null.

use serde_json::Value;

use super::PatchError;

/// How many operations a patch may have.
pub const OPERATIONS_MOST: usize = 10_000;

/// How many bytes of JSON its copies may add: each can double the document.
const COPIES_MOST: usize = 3 * 1024 * 1024;

/// Applies the operations in order. The document may be half-changed after an error.
pub fn json(doc: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let operations = decode(patch)?;
    if operations.len() > OPERATIONS_MOST {
        return Err(PatchError::TooLarge(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {OPERATIONS_MOST}, got {}",
            operations.len()
        )));
    }
    let mut copied = 0;
    for operation in operations {
        run(doc, &operation, &mut copied).map_err(PatchError::Unprocessable)?;
    }
    Ok(())
}

struct Operation<'a> {
    op: &'a str,
    path: Option<&'a str>,
    from: Option<&'a str>,
    value: Option<&'a Value>,
}

fn decode(patch: &Value) -> Result<Vec<Operation<'_>>, PatchError> {
    let bad = |found: &Value, into: &str| {
        PatchError::BadRequest(format!(
            "error decoding patch: json: cannot unmarshal {} into Go {into}",
            json_kind(found)
        ))
    };
    let items = match patch {
        Value::Array(items) => items,
        Value::Null => return Ok(Vec::new()),
        other => return Err(bad(other, "value of type []handlers.jsonPatchOp")),
    };
    let mut operations = Vec::with_capacity(items.len().min(OPERATIONS_MOST));
    for item in items {
        let text = |name: &str| match item.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(other) => {
                Err(bad(other, &format!("struct field jsonPatchOp.{name} of type string")))
            }
        };
        if !item.is_object() && !item.is_null() {
            return Err(bad(item, "value of type handlers.jsonPatchOp"));
        }
        operations.push(Operation {
            op: text("op")?.unwrap_or("unknown"),
            path: text("path")?,
            from: text("from")?,
            value: item.get("value"),
        });
    }
    Ok(operations)
}

/// What Go's decoder calls a JSON value.
pub(super) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Runs one operation; `copied` is the size of all copies so far.
fn run(doc: &mut Value, operation: &Operation, copied: &mut usize) -> Result<(), String> {
    let value = || operation.value.cloned().unwrap_or(Value::Null);
    match operation.op {
        "add" => {
            let path =
                operation.path.ok_or("add operation failed to decode path: missing value")?;
            add(doc, path, value(), || {
                format!(
                    "add operation does not apply: doc is missing path: \"{path}\": missing value"
                )
            })
        }
        "remove" => {
            let path =
                operation.path.ok_or("remove operation failed to decode path: missing value")?;
            let (parent, key) = find_mut(doc, path).ok_or_else(|| {
                format!(
                    "remove operation does not apply: doc is missing path: \"{path}\": missing value"
                )
            })?;
            remove(parent, &key)
                .map(|_| ())
                .map_err(|e| format!("error in remove for path: '{path}': {e}"))
        }
        "replace" => replace(doc, operation, value()),
        "move" => {
            let from = operation.from.ok_or("move operation failed to decode from")?;
            let (parent, key) = find_mut(doc, from).ok_or_else(|| {
                format!("move operation does not apply: doc is missing from path: {from}")
            })?;
            let moved = remove(parent, &key)
                .map_err(|e| format!("error in move for path: '{key}': {e}"))?;
            let path = operation.path.ok_or("move operation failed to decode path")?;
            add(doc, path, moved, || {
                format!("move operation does not apply: doc is missing destination path: {path}")
            })
        }
        "copy" => {
            let from = operation.from.ok_or("copy operation failed to decode from")?;
            let (parent, key) = find(doc, from).ok_or_else(|| {
                format!("copy operation does not apply: doc is missing from path: {from}")
            })?;
            let value = get(parent, &key)
                .map_err(|e| format!("error in copy for from: '{from}': {e}"))?
                .unwrap_or(&Value::Null);
            let path = operation.path.ok_or("copy operation failed to decode path")?;
            *copied = copied.saturating_add(size(value));
            if *copied > COPIES_MOST {
                return Err(format!(
                    "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {COPIES_MOST}"
                ));
            }
            let value = value.clone();
            add(doc, path, value, || {
                format!("copy operation does not apply: doc is missing destination path: {path}")
            })
        }
        "test" => test(doc, operation),
        other => Err(format!("Unexpected kind: {other}")),
    }
}

/// How long a value is as JSON.
fn size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

fn replace(doc: &mut Value, operation: &Operation, value: Value) -> Result<(), String> {
    let path = operation.path.ok_or("replace operation failed to decode path")?;
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err("replace operation value must be object or array".into());
        }
        *doc = value;
        return Ok(());
    }
    let (parent, key) = find_mut(doc, path).ok_or_else(|| {
        format!("replace operation does not apply: doc is missing path: {path}: missing value")
    })?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => {
            let place = index(&key, items.len()).map_err(|_| {
                format!(
                    "replace operation does not apply: doc is missing key: {path}: missing value"
                )
            })?;
            items[place] = value;
        }
        _ => {}
    }
    Ok(())
}

fn test(doc: &Value, operation: &Operation) -> Result<(), String> {
    let path = operation.path.ok_or("test operation failed to decode path")?;
    let found = if path.is_empty() {
        Some(doc)
    } else {
        let (parent, key) = find(doc, path).ok_or_else(|| {
            format!("test operation does not apply: is missing path: {path}: missing value")
        })?;
        get(parent, &key).map_err(|e| format!("error in test for path: '{path}': {e}"))?
    };
    // An absent field tests like null.
    if found.unwrap_or(&Value::Null) == operation.value.unwrap_or(&Value::Null) {
        Ok(())
    } else {
        Err(format!("testing value {path} failed: test failed"))
    }
}

fn add(
    doc: &mut Value,
    path: &str,
    value: Value,
    missing: impl Fn() -> String,
) -> Result<(), String> {
    let (parent, key) = find_mut(doc, path).ok_or_else(missing)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let place = index(&key, items.len() + 1)
                .map_err(|e| format!("error in add for path: '{path}': {e}"))?;
            items.insert(place, value);
        }
        _ => {}
    }
    Ok(())
}

fn remove(parent: &mut Value, key: &str) -> Result<Value, String> {
    match parent {
        Value::Object(fields) => fields
            .remove(key)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value")),
        Value::Array(items) => {
            let place = index(key, items.len())?;
            Ok(items.remove(place))
        }
        _ => Err("missing value".into()),
    }
}

fn get<'a>(parent: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    match parent {
        Value::Array(items) => Ok(items.get(index(key, items.len())?)),
        other => Ok(other.get(key)),
    }
}

/// The place that an index names in a list of this length.
fn index(key: &str, len: usize) -> Result<usize, String> {
    let index: i64 =
        key.parse().map_err(|_| format!("value was not a proper array index: '{key}'"))?;
    let invalid = || format!("Unable to access invalid index: {index}: invalid index referenced");
    let length = i64::try_from(len).unwrap_or(i64::MAX);
    let place = if index < 0 { index.saturating_add(length) } else { index };
    if (0..length).contains(&place) {
        usize::try_from(place).map_err(|_| invalid())
    } else {
        Err(invalid())
    }
}

/// The tokens of a pointer; what stands before the first slash is not looked at.
fn tokens(path: &str) -> Option<(Vec<String>, String)> {
    let (_, rest) = path.split_once('/')?;
    let mut tokens: Vec<String> = rest.split('/').map(unescape).collect();
    let last = tokens.pop()?;
    Some((tokens, last))
}

fn unescape(token: &str) -> String {
    let mut out = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(place) = rest.find('~') {
        out.push_str(&rest[..place]);
        let (text, used) = match rest.as_bytes().get(place + 1) {
            Some(b'0') => ("~", 2),
            Some(b'1') => ("/", 2),
            _ => ("~", 1),
        };
        out.push_str(text);
        rest = &rest[place + used..];
    }
    out.push_str(rest);
    out
}

/// The object or array that holds the last token of the path, and that token.
fn find<'a>(doc: &'a Value, path: &str) -> Option<(&'a Value, String)> {
    let (parents, last) = tokens(path)?;
    let mut place = doc;
    for token in &parents {
        place = get(place, token).ok()??;
    }
    (place.is_object() || place.is_array()).then_some((place, last))
}

fn find_mut<'a>(doc: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parents, last) = tokens(path)?;
    let mut place = doc;
    for token in &parents {
        place = match place {
            Value::Array(items) => {
                let i = index(token, items.len()).ok()?;
                &mut items[i]
            }
            Value::Object(fields) => fields.get_mut(token)?,
            _ => return None,
        };
    }
    (place.is_object() || place.is_array()).then_some((place, last))
}

#[cfg(test)]
mod tests;
