//! Bodies and selectors as text: what kube-apiserver 1.36.3 made of them, recorded, against ours.

use serde_json::Value;
use sutler_schema::{
    decode::{DecodeError, Decoded, json, yaml},
    defaults::apply_defaults,
    node::Node,
    prune::coerce,
    selector::{FieldSelector, LabelSelector},
};

fn recorded() -> Value {
    serde_json::from_str(include_str!("recorded/texts.json")).unwrap()
}

fn each(kind: &str, at_least: usize, mut differs: impl FnMut(&str, &Value) -> Option<String>) {
    let all = recorded();
    let cases = all[kind].as_array().unwrap();
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let text = case["text"].as_str().unwrap();
            Some(format!("{text:?}\n   ours {}\n theirs {case}", differs(text, case)?))
        })
        .collect();
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases.len() >= at_least);
}

/// Decodes strictly: what is wrong with the body, or its spec.
fn read(node: &Node, decoded: Result<Decoded, DecodeError>) -> Result<Value, String> {
    let decoded = decoded.map_err(|error| error.0)?;
    let (mut value, mut strict) = (decoded.value, decoded.strict_errors);
    if !value.is_object() {
        return Err(String::new());
    }
    apply_defaults(&mut value, node);
    let unknown = coerce(&mut value, node).map_err(|error| error.0)?;
    strict.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
    match strict.is_empty() {
        true => Ok(value["spec"].clone()),
        false => Err(format!("strict decoding error: {}", strict.join(", "))),
    }
}

fn bodies(kind: &str, decode: fn(&[u8]) -> Result<Decoded, DecodeError>) {
    let schema: Value = serde_json::from_str(include_str!("recorded/schema.json")).unwrap();
    let node = Node::parse(&schema["schema"]).unwrap();
    each(kind, 20, |text, case| {
        let ours = read(&node, decode(text.as_bytes()));
        let same = match (&ours, case["message"].as_str()) {
            (Ok(spec), None) => {
                // Large floats are written differently, but are the same numbers.
                let theirs = json(case["spec"].to_string().as_bytes()).unwrap().value;
                let floats = |value: &Value| value["any"].as_f64();
                *spec == theirs || (floats(spec).is_some() && floats(spec) == floats(&theirs))
            }
            (Err(ours), Some(theirs)) => theirs.contains(ours.as_str()),
            _ => text.trim() == "{}",
        };
        (!same).then(|| format!("{ours:?}"))
    });
}

#[test]
fn json_bodies() {
    bodies("json", json);
}

#[test]
fn yaml_bodies() {
    bodies("yaml", yaml);
}

#[test]
fn label_selectors() {
    each("labels", 30, |text, case| {
        let ours = LabelSelector::parse(text).err().map(|error| error.0);
        (ours.as_deref() != case["message"].as_str()).then(|| format!("{ours:?}"))
    });
}

#[test]
fn field_selectors() {
    each("fields", 10, |text, case| {
        let ours = FieldSelector::parse(text).err().map(|error| error.0);
        // Which fields there are is not the parser's business.
        let theirs = case["message"].as_str().filter(|text| !text.contains("not supported"));
        (ours.as_deref() != theirs).then(|| format!("{ours:?}"))
    });
}
