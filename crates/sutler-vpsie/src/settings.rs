//! What a Provider's `spec.options` say.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value};
use sutler_provider::{Error, Result};

/// What a Provider's `spec.options` say.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// How the API is spoken.
    pub dialect: Dialect,
    /// The data centre of machines that name no region.
    pub datacenter: Option<String>,
    /// The project that machines are made in, and whose machines are listed.
    pub project: Option<String>,
    /// Sizes that machines can have. With the dialect `v2` those that VPSie offers are taken where this is
    /// empty; the other one has no list of them that is documented.
    pub plans: Vec<Plan>,
    /// SSH keys that are put into machines, by their IDs.
    pub ssh_keys: Vec<String>,
    /// A script that runs when a machine is made, by its ID.
    pub script: Option<String>,
    /// Clusters whose workers are looked after; all of the account's when absent.
    pub clusters: Option<BTreeSet<String>>,
    /// The numbers that workers have as `node_type`, where neither their role nor their name tells.
    pub worker_node_types: BTreeSet<i64>,
    /// How long after a request its machine may still show up for the first time.
    #[serde(deserialize_with = "duration")]
    pub list_lag: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            dialect: Dialect::default(),
            datacenter: None,
            project: None,
            plans: Vec::new(),
            ssh_keys: Vec::new(),
            script: None,
            clusters: None,
            worker_node_types: BTreeSet::new(),
            list_lag: Duration::from_secs(15 * 60),
        }
    }
}

/// How the API is spoken: the vendor's programs do it in two ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// As the vendor's Go library does: header `Vpsie-Auth`, paths under `/api/v2` and `/apps/v2`, machines
    /// by UUID.
    #[default]
    Govpsie,
    /// As the vendor's autoscaler does: bearer tokens, paths under `/v2`, machines by number.
    V2,
}

/// A size that machines can have.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Its ID on VPSie.
    pub id: String,
    /// Virtual CPUs.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The root disk in GiB.
    pub disk_gib: u64,
}

impl Settings {
    /// Reads options, and refuses those that it does not know.
    pub fn from_options(options: &Map<String, Value>) -> Result<Self> {
        let read: Self = Deserialize::deserialize(&Value::Object(options.clone()))
            .map_err(|error| Error::invalid("spec.options", error.to_string()))?;
        read.check()?;
        Ok(read)
    }

    fn check(&self) -> Result<()> {
        let named = [
            ("datacenter", self.datacenter.as_ref()),
            ("project", self.project.as_ref()),
            ("script", self.script.as_ref()),
        ];
        for (name, value) in named {
            if value.is_some_and(String::is_empty) {
                return Err(Error::invalid(field(name), "it is empty: leave it out, or name one"));
            }
        }
        if self.ssh_keys.iter().any(String::is_empty) {
            return Err(Error::invalid(field("sshKeys"), "one of them is empty"));
        }
        if self.clusters.as_ref().is_some_and(|all| all.iter().any(|one| !is_plain(one))) {
            let why = "a cluster is named by its ID, of letters, digits, - and _";
            return Err(Error::invalid(field("clusters"), why));
        }
        for plan in &self.plans {
            if plan.id.is_empty() || plan.cpu == 0 || plan.memory_mib == 0 || plan.disk_gib == 0 {
                let why = format!("plan {:?} needs id, cpu, memoryMib and diskGib", plan.id);
                return Err(Error::invalid(field("plans"), why));
            }
        }
        match self.dialect {
            Dialect::Govpsie if self.ssh_keys.len() > 1 => Err(Error::invalid(
                field("sshKeys"),
                "the dialect govpsie takes one key: name one, or use v2",
            )),
            Dialect::V2 if self.script.is_some() => Err(Error::invalid(
                field("script"),
                "the dialect v2 has no scripts: leave it out, or use govpsie",
            )),
            Dialect::V2 if !self.worker_node_types.is_empty() => Err(Error::invalid(
                field("workerNodeTypes"),
                "nodes have roles in the dialect v2: leave it out",
            )),
            Dialect::Govpsie | Dialect::V2 => Ok(()),
        }
    }
}

/// Whether a text can stand in a path of the API, and in an ID of ours, as it is.
pub(crate) fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !text.is_empty() && text.len() <= 128 && text.chars().all(plain)
}

fn field(name: &str) -> String {
    format!("spec.options.{name}")
}

/// A duration as people write it, such as `15m`.
fn duration<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    let wrong = || de::Error::custom(format!("{text:?} is no duration: write it as in 15m"));
    let read: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(read).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(options: Value) -> Result<Settings> {
        Settings::from_options(options.as_object().unwrap())
    }

    #[test]
    fn options_are_read() {
        assert_eq!(read(json!({})).unwrap(), Settings::default());
        let all = read(json!({
            "dialect": "v2", "datacenter": "dc-1", "project": "7", "clusters": ["a-b"],
            "plans": [{"id": "s", "cpu": 1, "memoryMib": 512, "diskGib": 10}],
            "sshKeys": ["k1", "k2"], "listLag": "90s",
        }))
        .unwrap();
        assert_eq!((all.dialect, all.list_lag.as_secs()), (Dialect::V2, 90));
        assert_eq!(all.plans[0].memory_mib, 512);
        assert_eq!(read(json!({"workerNodeTypes": [2]})).unwrap().worker_node_types, [2].into());
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        for (options, field, word) in [
            (json!({"datacentre": "x"}), "spec.options", "datacentre"),
            (json!({"dialect": "v3"}), "spec.options", "v3"),
            (json!({"listLag": "soon"}), "spec.options", "soon"),
            (json!({"listLag": "-1s"}), "spec.options", "-1s"),
            (json!({"datacenter": ""}), "spec.options.datacenter", "empty"),
            (json!({"clusters": ["a/b"]}), "spec.options.clusters", "ID"),
            (json!({"sshKeys": ["a", "b"]}), "spec.options.sshKeys", "one key"),
            (json!({"dialect": "v2", "script": "s"}), "spec.options.script", "no scripts"),
            (
                json!({"plans": [{"id": "a", "cpu": 0, "memoryMib": 1, "diskGib": 1}]}),
                "spec.options.plans",
                "cpu",
            ),
        ] {
            let error = read(options.clone()).unwrap_err();
            assert_eq!(error.field(), Some(field), "{options}");
            assert!(error.message().contains(word), "{options}: {error}");
        }
    }
}
