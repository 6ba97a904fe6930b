//! Reading settings from a Provider's options, with the name of the field that is wrong.

use serde_json::{Map, Value};
use sutler_provider::Error;

use super::Settings;

const ROOT: &str = "spec.options";

pub(super) fn read(options: &Map<String, Value>) -> Result<Settings, Error> {
    serde_json::from_value(Value::Object(options.clone())).map_err(|error| {
        let (path, error) = blame(options).unwrap_or_else(|| (ROOT.to_owned(), error));
        Error::invalid(path, error.to_string())
    })
}

pub(super) fn wrong(field: &str, why: &str) -> Error {
    Error::invalid(format!("{ROOT}.{field}"), why)
}

/// The deepest place whose value alone is refused. All fields have defaults, so each can be tried
/// without its neighbours.
fn blame(options: &Map<String, Value>) -> Option<(String, serde_json::Error)> {
    let alone = |path: &[Step]| {
        let value = path.iter().rev().fold(Value::Null, |inner, step| match step {
            Step::Leaf(value) => (*value).clone(),
            Step::Key(key) => Value::Object(Map::from_iter([((*key).to_owned(), inner)])),
            Step::Index(_) => Value::Array(vec![inner]),
        });
        serde_json::from_value::<Settings>(value).err()
    };
    let top = Value::Object(options.clone());
    let mut path: Vec<Step> = vec![Step::Leaf(&top)];
    let mut found = None;
    loop {
        let Some(Step::Leaf(value)) = path.pop() else { return found };
        let steps: Vec<(Step, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (Step::Key(key), value)).collect(),
            Value::Array(list) => {
                list.iter().enumerate().map(|(index, value)| (Step::Index(index), value)).collect()
            }
            _ => return found,
        };
        let deeper = steps.into_iter().find_map(|(step, value)| {
            let mut path = path.clone();
            path.extend([step, Step::Leaf(value)]);
            alone(&path).map(|error| (path, error))
        });
        let Some((next, error)) = deeper else { return found };
        found = Some((print(&next), error));
        path = next;
    }
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
    Leaf(&'a Value),
}

fn print(path: &[Step<'_>]) -> String {
    path.iter().fold(ROOT.to_owned(), |text, step| match step {
        Step::Key(key) => format!("{text}.{key}"),
        Step::Index(index) => format!("{text}[{index}]"),
        Step::Leaf(_) => text,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sutler_provider::ErrorKind;

    use super::*;

    fn read(value: Value) -> Result<Settings, Error> {
        Settings::from_options(value.as_object().unwrap())
    }

    #[test]
    fn errors_name_the_field() {
        for (value, field) in [
            (json!({"latency": {"create": "soon"}}), "spec.options.latency.create"),
            (json!({"latency": {"create": 5}}), "spec.options.latency.create"),
            (json!({"latency": {"crate": "5s"}}), "spec.options.latency.crate"),
            (json!({"seed": 1, "colour": "red"}), "spec.options.colour"),
            (json!({"uniqueBy": "Luck"}), "spec.options.uniqueBy"),
            (
                json!({"hosts": [{"name": "a"}, {"name": "b", "cpu": "x"}]}),
                "spec.options.hosts[1].cpu",
            ),
            (json!({"without": ["list", "sense"]}), "spec.options.without[1]"),
            (json!({"faults": {"lostReply": 2.0}}), "spec.options.faults.lostReply"),
            (json!({"hosts": [{"name": "a"}, {"name": "a"}]}), "spec.options.hosts[1].name"),
            (json!({"token": false}), "spec.options.uniqueBy"),
            (json!({"latency": {"create": "10m"}}), "spec.options.latency.create"),
            (json!({"tasks": false, "work": {"delete": "10m"}}), "spec.options.work.delete"),
            (json!({"appears": "Made", "work": {"create": "6m"}}), "spec.options.work.create"),
        ] {
            let error = read(value.clone()).unwrap_err();
            assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some(field)), "{value}");
        }
    }

    #[test]
    fn nothing_is_the_default_and_settings_are_read_as_they_are_written() {
        assert_eq!(read(json!({})).unwrap(), Settings::default());
        let some =
            read(json!({"seed": 7, "latency": {"create": "150ms"}, "listLag": "2s"})).unwrap();
        assert_eq!(some.latency.create.as_millis(), 150);
        assert_eq!(read(serde_json::to_value(&some).unwrap()).unwrap(), some);
    }
}
