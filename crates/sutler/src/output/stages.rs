//! How far a machine has come, for people: its stages as bars, or in one line.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{clock, ui::Tone};

/// How many characters a bar has.
const BAR: usize = 20;

/// A block of lines for one machine: its name and state, a line per stage, and what it waits for.
pub(crate) fn block(
    label: &str,
    state: &str,
    object: &Value,
    now: DateTime<Utc>,
    color: bool,
) -> Vec<String> {
    let status = &object["status"];
    let phase = status["phase"].as_str().unwrap_or("Pending");
    let mut lines = vec![format!("{label}  {}", Tone::of_state(phase).paint(phase, color))];
    for stage in stages(object) {
        lines.push(bar(stage, now, color));
    }
    lines.push(match waiting(object, now) {
        Some(waiting) => format!("  {}", Tone::Busy.paint(&waiting, color)),
        None => format!("  {}", Tone::Dim.paint(state, color)),
    });
    lines
}

/// Whether an object tells of stages.
pub(crate) fn has(object: &Value) -> bool {
    stages(object).next().is_some()
}

/// Its current stage: number, count, name and percent, such as `2/6 configure_vm 40 %`.
pub(crate) fn current(object: &Value) -> Option<String> {
    let all: Vec<&Value> = stages(object).collect();
    let open = |stage: &&Value| matches!(stage["state"].as_str(), Some("Running" | "Failed"));
    let index = all.iter().position(open)?;
    let name = all[index]["name"].as_str().unwrap_or_default();
    let percent = all[index]["percent"].as_i64().map(|percent| format!(" {percent} %"));
    Some(format!("{}/{} {name}{}", index + 1, all.len(), percent.unwrap_or_default()))
}

/// What an object waits for, since when, and when it is tried next.
pub(crate) fn waiting(object: &Value, now: DateTime<Utc>) -> Option<String> {
    let waiting = &object["status"]["waiting"];
    let reason = waiting["reason"].as_str()?;
    let mut text = format!("waits: {reason}");
    if let Some(message) = waiting["message"].as_str() {
        text.push_str(&format!(": {}", one_line(message)));
    }
    if let Some(since) = waiting["since"].as_str().and_then(clock::parse) {
        text.push_str(&format!(" (for {}", clock::age((now - since).num_seconds())));
        let next = waiting["nextAttempt"].as_str().and_then(clock::parse);
        let next = next.map(|next| (next - now).num_seconds()).filter(|left| *left > 0);
        if let Some(left) = next {
            text.push_str(&format!(", next try in {}", clock::age(left)));
        }
        text.push(')');
    }
    Some(text)
}

/// Text without line breaks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn stages(object: &Value) -> impl Iterator<Item = &Value> {
    object["status"]["stages"].as_array().into_iter().flatten()
}

fn bar(stage: &Value, now: DateTime<Utc>, color: bool) -> String {
    let state = stage["state"].as_str().unwrap_or("Pending");
    let (mark, tone, percent) = match state {
        "Completed" => ("✓", Tone::Good, Some(100)),
        "Running" => ("▸", Tone::Busy, stage["percent"].as_i64()),
        "Failed" => ("✗", Tone::Bad, stage["percent"].as_i64()),
        "Skipped" => ("-", Tone::Dim, None),
        _ => ("·", Tone::Dim, None),
    };
    let filled = percent.unwrap_or(0).clamp(0, 100) as usize * BAR / 100;
    let drawn = format!("{}{}", "█".repeat(filled), "░".repeat(BAR - filled));
    let number = percent.map_or_else(String::new, |percent| format!("{percent:>3} %"));
    let time = |key: &str| stage[key].as_str().and_then(clock::parse);
    let end = time("finishedAt").unwrap_or(now);
    let elapsed = time("startedAt")
        .filter(|_| state != "Pending")
        .map(|start| clock::age((end - start).num_seconds()))
        .unwrap_or_default();
    let name = stage["name"].as_str().unwrap_or_default();
    let message = match state {
        "Running" | "Failed" => one_line(stage["message"].as_str().unwrap_or_default()),
        _ => String::new(),
    };
    let line = format!("  {mark} {name:<15} {drawn} {number:>5} {elapsed:>6}  {message}");
    tone.paint(line.trim_end(), color)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine() -> Value {
        json!({"status": {"phase": "Provisioning", "stages": [
            {"name": "clone_template", "state": "Completed",
             "startedAt": "2030-01-01T00:00:00Z", "finishedAt": "2030-01-01T00:00:02Z"},
            {"name": "configure_vm", "state": "Running", "percent": 40, "message": "adds\na disk",
             "startedAt": "2030-01-01T00:00:02Z"},
            {"name": "start_vm", "state": "Pending"}],
            "waiting": {"reason": "Reconfiguring", "message": "a task", "since": "2030-01-01T00:00:02Z",
                        "nextAttempt": "2030-01-01T00:00:15Z"}}})
    }

    #[test]
    fn stages_are_drawn_as_bars() {
        let now = clock::parse("2030-01-01T00:00:07Z").unwrap();
        let lines = block("vm/demo", "", &machine(), now, false);
        assert_eq!(lines[0], "vm/demo  Provisioning");
        assert_eq!(lines[1], format!("  ✓ clone_template  {} 100 %     2s", "█".repeat(20)));
        let half = format!("{}{}", "█".repeat(8), "░".repeat(12));
        assert_eq!(lines[2], format!("  ▸ configure_vm    {half}  40 %     5s  adds a disk"));
        assert_eq!(lines[3].trim_end(), format!("  · start_vm        {}", "░".repeat(20)));
        assert_eq!(lines[4], "  waits: Reconfiguring: a task (for 5s, next try in 8s)");
    }

    #[test]
    fn the_current_stage_fits_a_cell() {
        assert_eq!(current(&machine()).unwrap(), "2/3 configure_vm 40 %");
        assert_eq!(current(&json!({})), None);
        assert!(has(&machine()) && !has(&json!({})));
    }
}
