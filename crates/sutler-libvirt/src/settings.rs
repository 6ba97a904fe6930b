//! What a Provider's `spec.options` say.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};
use sutler_provider::{Error, ErrorKind, Result};

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
    /// Folders where this process runs, whose files images and disks may be brought from and sent to.
    /// Whoever writes a record could otherwise read every file here through a guest.
    pub folders: Vec<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pool: "default".to_owned(),
            network: "default".to_owned(),
            accelerator: Accelerator::Auto,
            machine: "q35".to_owned(),
            architecture: None,
            folders: Vec::new(),
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
        if let Some(folder) = read.folders.iter().find(|folder| !folder.is_absolute()) {
            let why = format!("{} does not begin with a slash", folder.display());
            return Err(Error::invalid("spec.options.folders", why));
        }
        Ok(read)
    }

    /// The file at this path, or where it will be, with all links followed; refused where it is in none of
    /// the folders.
    pub(crate) fn file(&self, path: &Path, field: &str) -> Result<PathBuf> {
        let real = path.canonicalize().or_else(|_| {
            let (folder, name) = (path.parent(), path.file_name());
            let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
            Ok(folder.ok_or_else(missing)?.canonicalize()?.join(name.ok_or_else(missing)?))
        });
        let not_found = |error: std::io::Error| {
            Error::not_found(format!("{}: {error}", path.display())).at(field)
        };
        let real = real.map_err(not_found)?;
        let within = |folder: &PathBuf| folder.canonicalize().is_ok_and(|at| real.starts_with(at));
        if self.folders.iter().any(within) {
            return Ok(real);
        }
        let why = format!("{} is in no folder that spec.options.folders has", path.display());
        Err(Error::new(ErrorKind::Denied, why).at(field))
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
        let error = read(json!({"folders": ["srv"]})).unwrap_err();
        assert_eq!(error.field(), Some("spec.options.folders"));
    }

    #[test]
    fn files_are_touched_only_in_folders_that_are_named() {
        let all = tempfile::tempdir().unwrap();
        let (inside, outside) = (all.path().join("in"), all.path().join("out"));
        for folder in [&inside, &outside] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("image"), "x").unwrap();
        }
        std::os::unix::fs::symlink(outside.join("image"), inside.join("link")).unwrap();
        let settings = Settings { folders: vec![inside.clone()], ..Settings::default() };
        let kind = |path: PathBuf| settings.file(&path, "f").map(drop).map_err(|e| e.kind());
        assert_eq!(kind(inside.join("image")), Ok(()));
        assert_eq!(kind(inside.join("new")), Ok(()));
        for path in ["link", "../out/image", "../in2/image"] {
            assert!(kind(inside.join(path)).is_err(), "{path}");
        }
        assert_eq!(kind(outside.join("image")), Err(ErrorKind::Denied));
        assert_eq!(kind(outside.join("new")), Err(ErrorKind::Denied));
        let none = Settings::default().file(&inside.join("image"), "f").unwrap_err();
        assert_eq!((none.kind(), none.field()), (ErrorKind::Denied, Some("f")));
    }
}
