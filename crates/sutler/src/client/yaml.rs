//! YAML in and out. What is read keeps its positions, so that an error can point at the line.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A line and column of a file, counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// The line; 0 where it is not known.
    pub(crate) line: u64,
    /// The column.
    pub(crate) column: u64,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    /// Where it begins.
    pub(crate) at: Position,
    /// What it is.
    pub(crate) data: Data,
}

/// What stands at a place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Data {
    /// A string, number, boolean or null.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file; the position is the key's.
    Map(Vec<(String, Position, Node)>),
}

/// What is wrong with a text, and where.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{message}")]
pub(crate) struct SyntaxError {
    /// Where.
    pub(crate) at: Position,
    /// What.
    pub(crate) message: String,
}

/// Reads all documents of a text. Words and numbers mean what they mean to kubectl: `on` and
/// `yes` are booleans, and a leading zero is octal, so a manifest says the same to both.
pub(crate) fn parse(text: &str) -> Result<Vec<Node>, SyntaxError> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let documents = serde_saphyr::from_multiple_with_options::<Spanned<Data>>(text, options)
        .map_err(syntax_error)?;
    Ok(documents.into_iter().map(Node::from).collect())
}

/// Writes a value the way every YAML reader understands it: `"On"` is quoted.
pub(crate) fn to_string(value: &impl Serialize) -> Result<String, String> {
    let options = serde_saphyr::ser_options! {
        // Long lines stay whole: they are easier to search, edit and paste.
        folded_wrap_chars: 1 << 20,
    };
    let mut text =
        serde_saphyr::to_string_with_options(value, options).map_err(|e| e.to_string())?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn syntax_error(error: serde_saphyr::Error) -> SyntaxError {
    let at = error.location().map(position).unwrap_or_default();
    let mut message = error.without_snippet().to_string();
    // The position is printed in front, where editors look for it.
    if let Some(cut) = message.rfind(" at line ") {
        message.truncate(cut);
    }
    SyntaxError { at, message }
}

fn position(at: serde_saphyr::Location) -> Position {
    Position { line: at.line(), column: at.column() }
}

impl Node {
    /// The value alone.
    pub(crate) fn to_value(&self) -> Value {
        match &self.data {
            Data::Scalar(value) => value.clone(),
            Data::List(items) => items.iter().map(Self::to_value).collect(),
            Data::Map(entries) => Value::Object(
                entries.iter().map(|(k, _, v)| (k.clone(), v.to_value())).collect::<Map<_, _>>(),
            ),
        }
    }

    /// The value under a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.data {
            Data::Map(entries) => entries.iter().find(|(k, _, _)| k == key).map(|(_, _, v)| v),
            Data::Scalar(_) | Data::List(_) => None,
        }
    }

    /// Where the value at a field path stands, as the server writes such paths
    /// (`spec.disks[0].sizeGiB`, `.spec.disks[name="root"]`, `data[key]`): the place of the
    /// deepest part that is there.
    pub(crate) fn locate(&self, path: &str) -> Position {
        let (mut node, mut at, mut rest) = (self, self.at, path);
        loop {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let step = match &node.data {
                Data::Scalar(_) => None,
                Data::List(items) => step_into_list(items, rest),
                Data::Map(entries) => step_into_map(entries, rest),
            };
            match step {
                Some((place, next, after)) => (node, at, rest) = (next, place, after),
                None => return at,
            }
        }
    }

    /// Moves all positions down, for a text that is a part of a file.
    pub(crate) fn shift(&mut self, lines: u64) {
        self.at.line += lines;
        match &mut self.data {
            Data::Scalar(_) => {}
            Data::List(items) => items.iter_mut().for_each(|n| n.shift(lines)),
            Data::Map(entries) => {
                for (_, at, node) in entries {
                    at.line += lines;
                    node.shift(lines);
                }
            }
        }
    }
}

type Step<'a> = (Position, &'a Node, &'a str);

fn step_into_list<'a>(items: &'a [Node], path: &'a str) -> Option<Step<'a>> {
    let (inside, rest) = path.strip_prefix('[')?.split_once(']')?;
    let item = match inside.parse::<usize>() {
        Ok(index) => items.get(index)?,
        Err(_) => items.iter().find(|item| {
            inside.split(',').all(|pair| {
                let (key, want) = pair.split_once('=').unwrap_or((pair, ""));
                let have = item.get(key).map(|value| value.to_value().to_string());
                have.as_deref() == Some(want)
            })
        })?,
    };
    Some((item.at, item, rest))
}

fn step_into_map<'a>(entries: &'a [(String, Position, Node)], path: &'a str) -> Option<Step<'a>> {
    if let Some((inside, rest)) = path.strip_prefix('[').and_then(|p| p.split_once(']')) {
        let key = inside.trim_matches(['"', '\'']);
        let (_, at, node) = entries.iter().find(|(k, _, _)| k == key)?;
        return Some((*at, node, rest));
    }
    // Keys may hold dots themselves: the longest one that fits is meant.
    let ends = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    let (key, at, node) = entries
        .iter()
        .filter(|(k, _, _)| path.strip_prefix(k.as_str()).is_some_and(ends))
        .max_by_key(|(k, _, _)| k.len())?;
    Some((*at, node, &path[key.len()..]))
}

impl From<Spanned<Data>> for Node {
    fn from(spanned: Spanned<Data>) -> Self {
        Self { at: position(spanned.referenced), data: spanned.value }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        let at = Position::default();
        let data = match value {
            Value::Array(items) => Data::List(items.into_iter().map(Self::from).collect()),
            Value::Object(map) => {
                Data::Map(map.into_iter().map(|(k, v)| (k, at, Self::from(v))).collect())
            }
            scalar => Data::Scalar(scalar),
        };
        Self { at, data }
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DataVisitor)
    }
}

struct DataVisitor;

impl<'de> Visitor<'de> for DataVisitor {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Data, E> {
        match Number::from_f64(value) {
            Some(number) => Ok(Data::Scalar(Value::Number(number))),
            None => Err(E::custom(format!("{value} is no number that JSON can hold"))),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Data, E> {
        Ok(Data::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Data, E> {
        Ok(Data::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Data, D::Error> {
        Data::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Data, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Data>>()? {
            items.push(Node::from(item));
        }
        Ok(Data::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let node = Node::from(map.next_value::<Spanned<Data>>()?);
            entries.push((key.value, position(key.referenced), node));
        }
        Ok(Data::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const VM: &str = "\
apiVersion: v1
metadata:
  labels:
    app.kubernetes.io/name: web
spec:
  powerState: \"On\"
  disks:
  - name: root
    sizeGiB: 0
  - name: data
    sizeGiB: 5
";

    fn at(line: u64, column: u64) -> Position {
        Position { line, column }
    }

    #[test]
    fn fields_are_found_by_the_paths_that_servers_write() {
        let node = &parse(VM).unwrap()[0];
        for (path, want) in [
            ("spec.disks[0].sizeGiB", at(9, 5)),
            (".spec.disks[name=\"data\"].sizeGiB", at(11, 5)),
            ("metadata.labels.app.kubernetes.io/name", at(4, 5)),
            ("metadata.labels[app.kubernetes.io/name]", at(4, 5)),
            ("spec.disks[0].missing", at(8, 5)),
            ("spec.disks[7]", at(7, 3)),
            ("nothing", at(1, 1)),
        ] {
            assert_eq!(node.locate(path), want, "{path}");
        }
    }

    #[test]
    fn documents_are_told_apart_and_empty_ones_skipped() {
        let nodes = parse("---\na: 1\n---\n# nothing\n---\nb: [x, 'on', on, 010]\n").unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes[0].to_value(), json!({"a": 1}));
        assert_eq!(nodes[1].to_value(), json!({"b": ["x", "on", true, 8]}));
        assert_eq!(nodes[1].get("b").unwrap().at, at(6, 4));
    }

    #[test]
    fn mistakes_have_a_place() {
        let error = parse("a: 1\nb: [1, 2\nc: 3\n").unwrap_err();
        assert!(error.at.line >= 2, "{error:?}");
        let error = parse("a: 1\na: 2\n").unwrap_err();
        assert_eq!(error.at.line, 2, "{error:?}");
        assert!(error.message.contains("duplicate"), "{error:?}");
        assert!(!error.message.contains("at line"), "{error:?}");
    }

    #[test]
    fn words_that_yaml_1_1_takes_for_booleans_are_quoted() {
        let text =
            to_string(&json!({"powerState": "On", "a": "no", "n": 1, "s": "x\ny\n"})).unwrap();
        for word in ["\"On\"", "\"no\"", "n\": 1", "s: |"] {
            let plain = text.replace('\'', "\"");
            assert!(plain.contains(word), "{word} in {text}");
        }
        assert_eq!(parse(&text).unwrap()[0].to_value()["powerState"], "On");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let long = "word ".repeat(60);
        let value = json!({"a": {"b": [1, 2.5, null, true, "x: y", "#", "", " lead", long]},
            "t": "line\n  two\n", "date": "2026-01-01", "oct": "010", "e": [], "m": {}});
        assert_eq!(parse(&to_string(&value).unwrap()).unwrap()[0].to_value(), value);
    }
}
