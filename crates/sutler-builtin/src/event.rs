//! Events have two forms: the stored one of the core group, and that of `events.k8s.io`, which
//! names some fields differently.

use serde_json::{Map, Value};

/// Field of the core group, field of `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// The form of `events.k8s.io/v1` of a stored event.
pub fn event_to_v1(mut event: Value) -> Value {
    if let Some(map) = event.as_object_mut() {
        rename(map, false);
        // Here an empty controller and instance are left out.
        for key in ["reportingController", "reportingInstance"] {
            if map.get(key).is_some_and(|value| value == "") {
                map.remove(key);
            }
        }
        map.insert("apiVersion".into(), "events.k8s.io/v1".into());
        map.insert("kind".into(), "Event".into());
    }
    event
}

/// The stored form of an event of `events.k8s.io/v1`.
pub fn event_from_v1(mut event: Value) -> Value {
    if let Some(map) = event.as_object_mut() {
        rename(map, true);
        for key in ["reportingComponent", "reportingInstance"] {
            map.entry(key).or_insert_with(|| "".into());
        }
        map.insert("apiVersion".into(), "v1".into());
        map.insert("kind".into(), "Event".into());
    }
    event
}

fn rename(map: &mut Map<String, Value>, to_core: bool) {
    let taken: Vec<(&str, Option<Value>)> = NAMES
        .iter()
        .map(|(core, v1)| if to_core { (*core, map.remove(*v1)) } else { (*v1, map.remove(*core)) })
        .collect();
    for (key, value) in taken {
        if let Some(value) = value {
            map.insert(key.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_ways() {
        let core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod"}, "message": "m", "reason": "r", "source": {},
            "firstTimestamp": null, "lastTimestamp": null, "count": 2, "eventTime": null,
            "reportingComponent": "", "reportingInstance": ""});
        let v1 = event_to_v1(core.clone());
        assert_eq!(v1["regarding"], json!({"kind": "Pod"}));
        assert_eq!(v1["note"], "m");
        assert_eq!(v1["deprecatedCount"], 2);
        assert_eq!(v1.get("reportingController"), None);
        assert_eq!(event_from_v1(v1), core);
    }
}
