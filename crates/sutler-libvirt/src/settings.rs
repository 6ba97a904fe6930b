//! What a Provider's `spec.options` say.

use serde::Deserialize;
use serde_json::{Map, Value};
use sutler_provider::{Error, Result};

/// How machines are made where a request does not say it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// The storage pool of disks that name none.
    pub pool: String,
    /// The network of cards that name none.
    pub network: String,
    /// How guests' instructions are run.
    pub accelerator: Accelerator,
    /// The machine type.
    pub machine: String,
    /// The processors' architecture; the host's own when absent.
    pub architecture: Option<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pool: "default".to_owned(),
            network: "default".to_owned(),
            accelerator: Accelerator::Auto,
            machine: "q35".to_owned(),
            architecture: None,
        }
    }
}

/// How guests' instructions are run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// By the host's processor where a guest was seen to run on it, else by a program.
    #[default]
    Auto,
    /// By the host's processor.
    Kvm,
    /// By a program.
    Tcg,
}

impl Settings {
    /// Reads options, and refuses those that it does not know.
    pub fn from_options(options: &Map<String, Value>) -> Result<Self> {
        let read: Self = Deserialize::deserialize(&Value::Object(options.clone()))
            .map_err(|error| Error::invalid("spec.options", error.to_string()))?;
        for (name, value) in [("pool", &read.pool), ("network", &read.network)] {
            if value.is_empty() {
                return Err(Error::invalid(format!("spec.options.{name}"), "a name is needed"));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_read_or_refused_by_name() {
        let read = |options: Value| Settings::from_options(options.as_object().unwrap());
        assert_eq!(read(json!({})).unwrap(), Settings::default());
        let read_all =
            read(json!({"pool": "fast", "network": "lan", "accelerator": "tcg"})).unwrap();
        assert_eq!((read_all.pool.as_str(), read_all.accelerator), ("fast", Accelerator::Tcg));
        assert!(read(json!({"pol": "x"})).unwrap_err().message().contains("pol"));
        assert_eq!(read(json!({"pool": ""})).unwrap_err().field(), Some("spec.options.pool"));
    }
}
