//! The row of a pod: its containers' states as one word.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::*;

pub(super) fn cells(pod: &Value, now: DateTime<Utc>) -> Vec<Value> {
    let (spec, status) = (get(pod, "spec"), get(pod, "status"));
    let meta = get(pod, "metadata");
    let summary = summary(pod);
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, since(last, now))
        }
        _ => summary.restarts.to_string(),
    };
    let gates = items(spec, "readinessGates");
    let holds = |gate: &&Value| {
        let ty = text(gate, "conditionType");
        let condition = items(status, "conditions").iter().find(|c| text(c, "type") == ty);
        condition.is_some_and(|condition| text(condition, "status") == "True")
    };
    let gates = match gates.len() {
        0 => "<none>".to_owned(),
        all => format!("{}/{all}", gates.iter().filter(holds).count()),
    };
    let ip = items(status, "podIPs").first().map_or("", |row| text(row, "ip"));
    vec![
        text(meta, "name").into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age(meta, now).into(),
        or(ip, "<none>").into(),
        or(text(spec, "nodeName"), "<none>").into(),
        or(text(status, "nominatedNodeName"), "<none>").into(),
        gates.into(),
    ]
}

struct Summary<'p> {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: Option<&'p str>,
}

fn summary(pod: &Value) -> Summary<'_> {
    let (spec, status) = (get(pod, "spec"), get(pod, "status"));
    let phase = text(status, "phase");
    let conditions = items(status, "conditions");
    let mut reason = or(text(status, "reason"), phase).to_owned();
    let gated = |condition: &Value| {
        text(condition, "type") == "PodScheduled" && text(condition, "reason") == "SchedulingGated"
    };
    if conditions.iter().any(gated) {
        reason = "SchedulingGated".into();
    }
    let init = items(spec, "initContainers");
    let total = items(spec, "containers").len() + init.iter().filter(|c| sidecar(c)).count();
    let mut sum = Summary { reason, ready: 0, total, restarts: 0, last_restart: None };
    let (sidecars, initializing) =
        init_states(init, items(status, "initContainerStatuses"), &mut sum);
    let is = |ty: &str| {
        let condition = conditions.iter().find(|condition| text(condition, "type") == ty);
        condition.is_some_and(|condition| text(condition, "status") == "True")
    };
    if !initializing || is("Initialized") {
        (sum.restarts, sum.last_restart) = sidecars;
        container_states(items(status, "containerStatuses"), is("Ready"), &mut sum);
    }
    if has(get(pod, "metadata"), "deletionTimestamp") {
        if text(status, "reason") == "NodeLost" {
            sum.reason = "Unknown".into();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            sum.reason = "Terminating".into();
        }
    }
    sum
}

fn sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

/// Counts init containers up to the first that is not done, which gives the reason. Returns what
/// of the restarts belongs to containers that go on running, and whether there was such a first.
fn init_states<'p>(
    init: &[Value],
    statuses: &'p [Value],
    sum: &mut Summary<'p>,
) -> ((i64, Option<&'p str>), bool) {
    let mut sidecars = (0, None);
    for (i, status) in statuses.iter().enumerate() {
        let name = text(status, "name");
        let runs_on =
            init.iter().any(|container| text(container, "name") == name && sidecar(container));
        sum.restarts += int(status, "restartCount");
        later(&mut sum.last_restart, status);
        if runs_on {
            sidecars.0 += int(status, "restartCount");
            later(&mut sidecars.1, status);
        }
        let (ended, waiting) =
            (at(status, &["state", "terminated"]), at(status, &["state", "waiting"]));
        if !ended.is_null() && int(ended, "exitCode") == 0 {
            continue;
        }
        if runs_on && flag(status, "started") {
            sum.ready += usize::from(flag(status, "ready"));
            continue;
        }
        let waits_for = text(waiting, "reason");
        sum.reason = if !ended.is_null() {
            format!("Init:{}", end_reason(ended))
        } else if !waits_for.is_empty() && waits_for != "PodInitializing" {
            format!("Init:{waits_for}")
        } else {
            format!("Init:{i}/{}", init.len())
        };
        return (sidecars, true);
    }
    (sidecars, false)
}

fn container_states<'p>(statuses: &'p [Value], pod_ready: bool, sum: &mut Summary<'p>) {
    let (mut running, mut failure) = (false, String::new());
    for status in statuses.iter().rev() {
        sum.restarts += int(status, "restartCount");
        later(&mut sum.last_restart, status);
        let (ended, waiting) =
            (at(status, &["state", "terminated"]), at(status, &["state", "waiting"]));
        if !text(waiting, "reason").is_empty() {
            sum.reason = text(waiting, "reason").into();
        } else if !ended.is_null() {
            sum.reason = end_reason(ended);
            if int(ended, "exitCode") != 0 {
                failure.clone_from(&sum.reason);
            }
        } else if flag(status, "ready") && has(get(status, "state"), "running") {
            running = true;
            sum.ready += 1;
        }
    }
    if sum.reason == "Completed" {
        if running && pod_ready {
            sum.reason = "Running".into();
        } else if !failure.is_empty() {
            sum.reason = failure;
        } else if running {
            sum.reason = "NotReady".into();
        }
    }
}

fn end_reason(ended: &Value) -> String {
    match (text(ended, "reason"), int(ended, "signal")) {
        ("", 0) => format!("ExitCode:{}", int(ended, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Keeps the later of two timestamps; in one form, their texts sort as they do.
fn later<'p>(last: &mut Option<&'p str>, status: &'p Value) {
    let ended = at(status, &["lastState", "terminated", "finishedAt"]).as_str();
    if ended > *last {
        *last = ended;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(pod: Value) -> Vec<String> {
        let now = "2024-01-01T01:00:00Z".parse().unwrap();
        let cells = cells(&pod, now);
        cells.iter().map(|cell| cell.as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn states() {
        let pod = |status: Value| {
            json!({"metadata": {"name": "p", "creationTimestamp": "2024-01-01T00:00:00Z"},
                "spec": {"containers": [{"name": "a"}, {"name": "b"}],
                    "initContainers": [{"name": "i"}]}, "status": status})
        };
        let cases = [
            (json!({"phase": "Pending"}), "0/2 Pending 0"),
            (
                json!({"phase": "Pending", "initContainerStatuses": [
                    {"name": "i", "state": {"running": {}}}]}),
                "0/2 Init:0/1 0",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"finishedAt": "2024-01-01T00:59:00Z"}}}]}),
                "0/2 Init:CrashLoopBackOff 3 (60s ago)",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"ready": true, "state": {"running": {}}},
                    {"ready": false, "restartCount": 1, "state": {"terminated": {"exitCode": 2}}}]}),
                "1/2 ExitCode:2 1",
            ),
            (
                json!({"phase": "Running", "containerStatuses": [
                    {"ready": true, "state": {"running": {}}},
                    {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
                "1/2 NotReady 0",
            ),
            (json!({"phase": "Failed", "reason": "Evicted"}), "0/2 Evicted 0"),
        ];
        for (status, expected) in cases {
            let row = row(pod(status));
            assert_eq!(row[1..4].join(" "), expected);
            assert_eq!(row[4..], ["60m", "<none>", "<none>", "<none>", "<none>"]);
        }
        let mut going = pod(json!({"phase": "Running"}));
        going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
        assert_eq!(row(going)[2], "Terminating");
    }
}
