//! JSON in text fields. What is written has exact keys; what is read may have keys of any case, since
//! Go's decoders take them so.

use serde_json::{Map, Value};

use crate::malformed::Malformed;

/// An object as text; an empty one is empty text.
pub(crate) fn text(map: &Map<String, Value>) -> String {
    match map.is_empty() {
        true => String::new(),
        false => Value::Object(map.clone()).to_string(),
    }
}

/// The object in a text; empty text and `null` are the empty one.
pub(crate) fn map(field: &str, text: &str) -> Result<Map<String, Value>, Malformed> {
    match parse(field, text)? {
        Value::Null => Ok(Map::new()),
        Value::Object(map) => Ok(map),
        _ => Err(Malformed::new(field, "it is no JSON object")),
    }
}

/// The JSON in a text; empty text is `null`.
pub(crate) fn parse(field: &str, text: &str) -> Result<Value, Malformed> {
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_str(text).map_err(|error| Malformed::new(field, error.to_string()))
}

/// An object whose keys are looked up whatever their case; an exact key goes before others.
pub(crate) struct Fields<'a> {
    field: String,
    map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// Takes a value as an object; `null` is none.
    pub(crate) fn of(field: &str, value: &'a Value) -> Result<Option<Self>, Malformed> {
        match value {
            Value::Null => Ok(None),
            Value::Object(map) => Ok(Some(Self { field: field.to_owned(), map })),
            _ => Err(Malformed::new(field, "it is no JSON object")),
        }
    }

    /// The value of a key; `null` is none.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        let folded = || {
            self.map.iter().find(|(have, _)| have.eq_ignore_ascii_case(key)).map(|(_, value)| value)
        };
        self.map.get(key).or_else(folded).filter(|value| !value.is_null())
    }

    /// The name of a key within the whole message.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.field)
    }

    pub(crate) fn wrong(&self, key: &str, why: &str) -> Malformed {
        Malformed::new(self.name(key), why)
    }

    /// A text; empty is none.
    pub(crate) fn text(&self, key: &str) -> Result<Option<String>, Malformed> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(self.wrong(key, "it is no text")),
        }
    }

    /// A whole number from 0; 0 is none.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, Malformed> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => match value.as_u64() {
                Some(0) => Ok(None),
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong(key, "it is no number from 0")),
            },
        }
    }

    /// A number that fits; 0 is none.
    pub(crate) fn small<T: TryFrom<u64>>(&self, key: &str) -> Result<Option<T>, Malformed> {
        let number = self.number(key)?;
        number
            .map(|number| T::try_from(number).map_err(|_| self.wrong(key, "it is too large")))
            .transpose()
    }

    /// A list; absent is empty.
    pub(crate) fn list(&self, key: &str) -> Result<&'a [Value], Malformed> {
        match self.get(key) {
            None => Ok(&[]),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => Err(self.wrong(key, "it is no list")),
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&self, key: &str) -> Result<Vec<String>, Malformed> {
        let text = |value: &Value| {
            value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(key, "it has no texts"))
        };
        self.list(key)?.iter().map(text).collect()
    }

    /// The object of a key.
    pub(crate) fn object(&self, key: &str) -> Result<Option<Fields<'a>>, Malformed> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => Fields::of(&self.name(key), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_found_in_any_case_and_exact_ones_go_first() {
        let value = json!({"cpu": 1, "CPU": 2, "memorymib": 3, "Null": null});
        let fields = Fields::of("class", &value).unwrap().unwrap();
        assert_eq!(fields.number("CPU").unwrap(), Some(2));
        assert_eq!(fields.number("MemoryMiB").unwrap(), Some(3));
        assert_eq!(fields.text("Null").unwrap(), None);
        assert_eq!(fields.number("Absent").unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let value = json!({"CPU": "two", "DNS": [1], "Name": 5});
        let fields = Fields::of("class_json", &value).unwrap().unwrap();
        assert_eq!(fields.number("CPU").unwrap_err().field, "class_json.CPU");
        assert_eq!(fields.texts("DNS").unwrap_err().field, "class_json.DNS");
        assert_eq!(fields.text("Name").unwrap_err().field, "class_json.Name");
        assert!(map("x_json", "[1]").is_err() && map("x_json", "{").is_err());
        assert!(map("x_json", "").unwrap().is_empty() && map("x_json", "null").unwrap().is_empty());
    }
}
