//! What a manager tells a provider's pod.

use std::{collections::BTreeMap, io, path::Path};

use sutler_provider::Credentials;

/// Where the credentials are mounted in a pod.
const CREDENTIALS: &str = "/etc/virtrigaud/credentials";

/// What a manager tells a provider's pod by environment and mounts; all of it may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// `PROVIDER_TYPE`.
    pub type_: Option<String>,
    /// `PROVIDER_ENDPOINT`: where the platform is.
    pub endpoint: Option<String>,
    /// `PROVIDER_NAMESPACE`.
    pub namespace: Option<String>,
    /// `PROVIDER_NAME`.
    pub name: Option<String>,
    /// `TLS_INSECURE_SKIP_VERIFY`: whether the platform's own certificate is not verified.
    pub insecure_skip_verify: bool,
    /// `PROVIDER_OPTIONS`: the Provider's `spec.options` as JSON, which the provider checks.
    pub options: Option<String>,
    /// `PROVIDER_DEFAULT_*`, by what follows, in lower case.
    pub defaults: BTreeMap<String, String>,
    /// The files of the mounted Secret.
    pub credentials: Credentials,
}

impl Pod {
    /// Reads the environment of this process and the usual mounts, or the folder that
    /// `SUTLER_CREDENTIALS` names.
    pub fn read() -> io::Result<Self> {
        let folder = std::env::var_os("SUTLER_CREDENTIALS").unwrap_or_else(|| CREDENTIALS.into());
        Self::from_parts(std::env::vars(), Path::new(&folder))
    }

    /// Reads these variables, and credentials from this folder, if it is there.
    pub fn from_parts(
        variables: impl IntoIterator<Item = (String, String)>,
        credentials: &Path,
    ) -> io::Result<Self> {
        let mut pod = Self { credentials: read_folder(credentials)?, ..Self::default() };
        for (key, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
            match key.as_str() {
                "PROVIDER_TYPE" => pod.type_ = Some(value),
                "PROVIDER_ENDPOINT" => pod.endpoint = Some(value),
                "PROVIDER_NAMESPACE" => pod.namespace = Some(value),
                "PROVIDER_NAME" => pod.name = Some(value),
                "PROVIDER_OPTIONS" => pod.options = Some(value),
                "TLS_INSECURE_SKIP_VERIFY" => pod.insecure_skip_verify = is_true(&value),
                _ => {
                    if let Some(name) = key.strip_prefix("PROVIDER_DEFAULT_") {
                        pod.defaults.insert(name.to_ascii_lowercase(), value);
                    }
                }
            }
        }
        Ok(pod)
    }
}

pub(crate) fn is_true(text: &str) -> bool {
    ["1", "t", "true", "yes"].contains(&text.to_ascii_lowercase().as_str())
}

/// A mounted Secret: one file a key, beside links that begin with dots.
fn read_folder(folder: &Path) -> io::Result<Credentials> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Credentials::default()),
        Err(error) => return Err(error),
    };
    let mut pairs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or(".");
        if !name.starts_with('.') && path.is_file() {
            pairs.push((name.to_owned(), std::fs::read(&path)?));
        }
    }
    Ok(pairs.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_and_mounts_are_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("username"), "me\n").unwrap();
        std::fs::write(folder.path().join("..data"), "not a key").unwrap();
        let variables = [
            ("PROVIDER_TYPE", "sim"),
            ("PROVIDER_ENDPOINT", "sim://lab"),
            ("PROVIDER_OPTIONS", "{}"),
            ("PROVIDER_DEFAULT_STORAGE_POD", "pod"),
            ("TLS_INSECURE_SKIP_VERIFY", "true"),
            ("HOME", "/nowhere"),
        ];
        let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let pod = Pod::from_parts(variables, folder.path()).unwrap();
        assert_eq!(pod.endpoint.as_deref(), Some("sim://lab"));
        assert_eq!(pod.options.as_deref(), Some("{}"));
        assert_eq!(pod.defaults["storage_pod"], "pod");
        assert!(pod.insecure_skip_verify && pod.name.is_none());
        assert_eq!(pod.credentials.get("username").unwrap().expose_str(), Some("me"));
        assert!(pod.credentials.get("..data").is_none());
        assert!(Pod::from_parts([], Path::new("/nowhere/at/all")).unwrap().credentials.is_empty());
    }
}
