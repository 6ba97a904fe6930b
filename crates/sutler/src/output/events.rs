//! Events, oldest first, as people read them.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::clock;

/// The columns of [`row`].
pub(crate) const HEADER: [&str; 5] = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];

/// When an event was last seen.
pub(crate) fn last_seen(event: &Value) -> Option<DateTime<Utc>> {
    [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ]
    .into_iter()
    .find_map(|time| time.as_str().and_then(clock::parse))
}

/// Oldest first.
pub(crate) fn sort(events: &mut [Value]) {
    events.sort_by_key(last_seen);
}

/// One event as cells.
pub(crate) fn row(event: &Value, now: DateTime<Utc>) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["involvedObject"];
    vec![
        seen(event, now),
        text(&event["type"]),
        text(&event["reason"]),
        format!("{}/{}", text(&object["kind"]).to_lowercase(), text(&object["name"])),
        text(&event["message"]).trim().replace('\n', " "),
    ]
}

/// `3m`, or `3m (x4 over 10m)` where it happened again and again.
fn seen(event: &Value, now: DateTime<Utc>) -> String {
    let ago = |at: DateTime<Utc>| clock::age((now - at).num_seconds());
    let Some(last) = last_seen(event) else { return "<unknown>".to_owned() };
    let count = event["series"]["count"].as_i64().or(event["count"].as_i64()).unwrap_or(1);
    let first = [&event["firstTimestamp"], &event["eventTime"]]
        .into_iter()
        .find_map(|time| time.as_str().and_then(clock::parse));
    match first {
        Some(first) if count > 1 => format!("{} (x{count} over {})", ago(last), ago(first)),
        _ => ago(last),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_sorted_and_repeated_ones_counted() {
        let now = clock::parse("2026-01-01T01:00:00Z").unwrap();
        let mut events = vec![
            json!({"lastTimestamp": "2026-01-01T00:59:00Z", "firstTimestamp": "2026-01-01T00:50:00Z",
                "count": 4, "type": "Warning", "reason": "Slow", "message": "a\nb",
                "involvedObject": {"kind": "VirtualMachine", "name": "web"}}),
            json!({"eventTime": "2026-01-01T00:30:00.000000Z", "lastTimestamp": null,
                "type": "Normal", "reason": "Made", "involvedObject": {"kind": "VMSet", "name": "s"}}),
        ];
        sort(&mut events);
        assert_eq!(row(&events[0], now)[..4], ["30m", "Normal", "Made", "vmset/s"]);
        assert_eq!(
            row(&events[1], now),
            ["60s (x4 over 10m)", "Warning", "Slow", "virtualmachine/web", "a b"]
        );
    }
}
