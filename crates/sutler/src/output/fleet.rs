//! A fleet at a glance: providers, machines and what is under way.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{stages, table};
use crate::{clock, ui::Tone};

/// What a fleet consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Connections to platforms.
    Providers,
    /// Machines.
    Machines,
    /// Changes in progress or done.
    Operations,
}

impl Part {
    /// All of them, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Providers, Self::Machines, Self::Operations];

    /// How its kind is asked for.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Providers => "providers.infra.virtrigaud.io",
            Self::Machines => "virtualmachines.infra.virtrigaud.io",
            Self::Operations => "operations.sutler.dev",
        }
    }
}

/// Everything that is shown, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct Fleet(BTreeMap<Part, BTreeMap<(String, String), Value>>);

impl Fleet {
    /// Takes what a list says: what is not in it is gone.
    pub(crate) fn replace(&mut self, part: Part, items: Vec<Value>) {
        self.0.insert(part, items.into_iter().map(|item| (key(&item), item)).collect());
    }

    /// Takes one object in, new or changed.
    pub(crate) fn put(&mut self, part: Part, object: Value) {
        self.0.entry(part).or_default().insert(key(&object), object);
    }

    /// Takes one object out.
    pub(crate) fn remove(&mut self, part: Part, object: &Value) {
        self.0.entry(part).or_default().remove(&key(object));
    }

    fn of(&self, part: Part) -> impl Iterator<Item = &Value> {
        self.0.get(&part).into_iter().flat_map(BTreeMap::values)
    }

    /// The whole page.
    pub(crate) fn page(&self, namespaces: bool, now: DateTime<Utc>, color: bool) -> Vec<String> {
        let mut lines = vec![self.summary(color), String::new()];
        let mut section = |text: String| {
            lines.extend(text.lines().map(str::to_owned));
            lines.push(String::new());
        };
        let providers: Vec<Vec<String>> =
            self.of(Part::Providers).map(|p| named(p, namespaces, provider(p))).collect();
        section(tabled(&["PROVIDER", "TYPE", "HEALTH", "MACHINES", "ORPHANS"], providers, color));
        let open: Vec<Vec<String>> = self
            .of(Part::Operations)
            .filter(|operation| is_open(operation))
            .map(|operation| named(operation, namespaces, running(operation, now)))
            .collect();
        if !open.is_empty() {
            let header = ["OPERATION", "TYPE", "TARGET", "STAGE", "AGE", "MESSAGE"];
            section(tabled(&header, open, color));
        }
        let machines: Vec<Vec<String>> =
            self.of(Part::Machines).map(|m| named(m, namespaces, machine(m, now))).collect();
        let header = ["MACHINE", "PHASE", "STAGE", "IP", "HOST", "AGE", "WAITS FOR"];
        section(tabled(&header, machines, color));
        lines
    }

    /// How many machines are in which phase.
    fn summary(&self, color: bool) -> String {
        let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
        for machine in self.of(Part::Machines) {
            *phases.entry(phase(machine)).or_default() += 1;
        }
        let all: usize = phases.values().sum();
        let parts: Vec<String> = phases
            .iter()
            .map(|(phase, count)| Tone::of_state(phase).paint(&format!("{count} {phase}"), color))
            .collect();
        let open = self.of(Part::Operations).filter(|operation| is_open(operation)).count();
        format!("{all} machines: {}; {open} operations under way", parts.join(", "))
    }
}

/// How an object stands, in one line, for those who read changes.
pub(crate) fn line(part: Part, object: &Value, now: DateTime<Utc>) -> String {
    let (namespace, name) = key(object);
    let (word, cells) = match part {
        Part::Providers => ("provider", provider(object)),
        Part::Machines => {
            let mut cells = machine(object, now);
            // Its age is no news.
            cells.remove(4);
            ("machine", cells)
        }
        Part::Operations => {
            let state = text(&object["status"]["state"]);
            let cells = running(object, now);
            ("operation", vec![cells[0].clone(), cells[1].clone(), state, cells[2].clone()])
        }
    };
    let cells: Vec<String> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
    format!("{word} {namespace}/{name} {}", cells.join(" "))
}

fn key(object: &Value) -> (String, String) {
    let metadata = &object["metadata"];
    (text(&metadata["namespace"]), text(&metadata["name"]))
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn named(object: &Value, namespaces: bool, mut cells: Vec<String>) -> Vec<String> {
    let (namespace, name) = key(object);
    cells.insert(0, if namespaces { format!("{namespace}/{name}") } else { name });
    cells
}

fn tabled(header: &[&str], rows: Vec<Vec<String>>, color: bool) -> String {
    table::simple(header, rows, color)
}

fn provider(object: &Value) -> Vec<String> {
    let status = &object["status"];
    let health = match text(&status["health"]) {
        health if health.is_empty() => "UNKNOWN".to_owned(),
        health => health,
    };
    let orphans = status["orphans"].as_array().map_or(0, Vec::len);
    let machines = status["connectedVMs"].as_i64().unwrap_or(0);
    vec![text(&object["spec"]["type"]), health, machines.to_string(), orphans.to_string()]
}

fn phase(object: &Value) -> &str {
    let deleted = object["metadata"]["deletionTimestamp"].is_string();
    match object["status"]["phase"].as_str() {
        _ if deleted => "Deleting",
        Some(phase) => phase,
        None => "Pending",
    }
}

fn machine(object: &Value, now: DateTime<Utc>) -> Vec<String> {
    let status = &object["status"];
    let created = object["metadata"]["creationTimestamp"].as_str();
    let waits = match (&status["waiting"]["reason"], &status["waiting"]["message"]) {
        (Value::String(reason), Value::String(message)) => {
            format!("{reason}: {}", stages::one_line(message))
        }
        (Value::String(reason), _) => reason.clone(),
        _ => String::new(),
    };
    vec![
        phase(object).to_owned(),
        stages::current(object).unwrap_or_default(),
        text(&status["ips"][0]),
        text(&status["host"]),
        clock::age_of(created, now),
        waits,
    ]
}

fn is_open(operation: &Value) -> bool {
    let state = operation["status"]["state"].as_str();
    matches!(state, None | Some("Pending" | "Running" | "Waiting"))
        && operation["status"]["finishedAt"].is_null()
}

fn running(object: &Value, now: DateTime<Utc>) -> Vec<String> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let stage = match status["percent"].as_i64() {
        Some(percent) => format!("{} {percent} %", text(&status["stage"])),
        None => text(&status["stage"]),
    };
    vec![
        text(&spec["type"]),
        text(&spec["targetRef"]["name"]),
        stage.trim().to_owned(),
        clock::age_of(object["metadata"]["creationTimestamp"].as_str(), now),
        stages::one_line(&text(&status["message"])),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_shows_providers_operations_and_machines() {
        let now = clock::parse("2030-01-01T00:01:00Z").unwrap();
        let mut fleet = Fleet::default();
        let provider = json!({"metadata": {"name": "sim", "namespace": "default"},
            "spec": {"type": "sim"}, "status": {"health": "HEALTHY", "connectedVMs": 2}});
        fleet.replace(Part::Providers, vec![provider.clone()]);
        let vm = json!({"metadata": {"name": "demo", "namespace": "default",
                "creationTimestamp": "2030-01-01T00:00:30Z"},
            "status": {"phase": "Provisioning", "waiting": {"reason": "Waiting", "message": "for\nit"},
                "stages": [{"name": "clone_template", "state": "Running", "percent": 10}]}});
        fleet.put(Part::Machines, vm.clone());
        fleet.put(
            Part::Operations,
            json!({"metadata": {"name": "op"},
            "spec": {"type": "provision", "targetRef": {"name": "demo"}},
            "status": {"state": "Running", "stage": "clone_template", "percent": 10}}),
        );
        fleet.put(
            Part::Operations,
            json!({"metadata": {"name": "old"},
            "status": {"state": "Completed"}}),
        );
        let page = fleet.page(false, now, false).join("\n");
        assert!(page.starts_with("1 machines: 1 Provisioning; 1 operations under way"), "{page}");
        for part in ["HEALTHY", "clone_template 10 %", "demo", "30s", "Waiting: for it"] {
            assert!(page.contains(part), "{part} in {page}");
        }
        assert!(!page.contains("old"), "{page}");
        assert_eq!(
            line(Part::Machines, &vm, now),
            "machine default/demo Provisioning 1/1 clone_template 10 % Waiting: for it"
        );
        assert_eq!(line(Part::Providers, &provider, now), "provider default/sim sim HEALTHY 2 0");
        fleet.remove(Part::Machines, &vm);
        assert!(fleet.page(false, now, false)[0].starts_with("0 machines"));
    }
}
