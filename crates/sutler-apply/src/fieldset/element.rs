//! One step of a path, its order and its text forms.

use std::{cmp::Ordering, fmt};

use serde_json::Value;

use crate::value;

/// How a child is selected in its parent.
#[derive(Debug, Clone)]
pub enum PathElement {
    /// A field of an object (`f:name`).
    Field(String),
    /// The item of a list map with these key values, sorted by name (`k:{"name":"a"}`).
    Key(Vec<(String, Value)>),
    /// The item of a set (`v:"a"`).
    Value(Value),
    /// The item of an atomic list at this place (`i:3`).
    Index(i64),
}

impl PathElement {
    /// A field of this name.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Reads the form that FieldsV1 uses for keys. `Ok(None)` is an element of a kind that is not
    /// known here, which readers skip.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        let rest = match text.as_bytes() {
            [_, b':', ..] => &text[2..],
            [_, _, ..] => return Err(format!("missing colon: {text}")),
            _ => return Err("key must be 2 characters long:".into()),
        };
        Ok(Some(match text.as_bytes()[0] {
            b'f' => Self::Field(rest.to_owned()),
            b'v' => Self::Value(leading_json(rest)?),
            b'k' => match leading_json(rest)? {
                Value::Object(map) => Self::Key(map.into_iter().collect()),
                Value::Null => Self::Key(Vec::new()),
                _ => return Err(format!("expect {{ or n: {text}")),
            },
            b'i' => Self::Index(rest.parse().map_err(|e| format!("invalid index {rest:?}: {e}"))?),
            _ => return Ok(None),
        }))
    }

    /// Appends the form that FieldsV1 uses for keys.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Key(fields) => {
                out.push_str("k:{");
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    value::json_string(name, false, out);
                    out.push(':');
                    value::json(value, out);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                value::json(value, out);
            }
            Self::Index(index) => {
                out.push_str("i:");
                out.push_str(&index.to_string());
            }
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

/// The first JSON value of the text; what follows it is ignored, as the real server does.
fn leading_json(text: &str) -> Result<Value, String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next() {
        Some(value) => value.map_err(|e| e.to_string()),
        None => Err("EOF".into()),
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(l), Self::Field(r)) => l.cmp(r),
            (Self::Key(l), Self::Key(r)) => {
                let differing = l
                    .iter()
                    .zip(r)
                    .map(|((ln, lv), (rn, rv))| ln.cmp(rn).then_with(|| value::compare(lv, rv)))
                    .find(|order| order.is_ne());
                differing.unwrap_or_else(|| l.len().cmp(&r.len()))
            }
            (Self::Value(l), Self::Value(r)) => value::compare(l, r),
            (Self::Index(l), Self::Index(r)) => l.cmp(r),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

/// As paths are printed: `.spec`, `[name="a"]`, `[="x"]`, `[3]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut out = String::new();
        match self {
            Self::Field(name) => return write!(f, ".{name}"),
            Self::Key(fields) => {
                out.push('[');
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    out.push_str(name);
                    out.push('=');
                    value::in_path(value, &mut out);
                }
                out.push(']');
            }
            Self::Value(value) => {
                out.push_str("[=");
                value::in_path(value, &mut out);
                out.push(']');
            }
            Self::Index(index) => return write!(f, "[{index}]"),
        }
        f.write_str(&out)
    }
}
