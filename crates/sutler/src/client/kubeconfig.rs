//! Kubeconfigs: which one counts, what its contexts say, and changes that keep the rest.

use std::{
    ffi::OsString,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use kube::config::{Kubeconfig, KubeconfigError};
use serde_json::Value;

use super::{errors::chain, yaml};

/// Where `sutler serve` leaves the administrator's kubeconfig by default.
pub(crate) const LOCAL: &str = ".sutler/admin.kubeconfig";

/// Which files count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The files, first one first; several where `$KUBECONFIG` lists them.
    pub(crate) paths: Vec<PathBuf>,
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.paths.iter().map(|p| p.display().to_string()).collect();
        f.write_str(&names.join(":"))
    }
}

/// Why no kubeconfig can be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is none.
    #[error(
        "no kubeconfig found: start a server here with `sutler serve` (it writes {LOCAL}), or give --kubeconfig, $SUTLER_KUBECONFIG or $KUBECONFIG"
    )]
    Missing,
    /// It cannot be read.
    #[error("kubeconfig {file}: {detail}")]
    Load {
        /// Which file.
        file: String,
        /// Why.
        detail: String,
    },
    /// The context is not in it.
    #[error("kubeconfig {file} has no context {name:?}; it has {known}")]
    Context {
        /// Which file.
        file: String,
        /// What was asked for.
        name: String,
        /// What is there.
        known: String,
    },
    /// It has no current context.
    #[error(
        "kubeconfig {file} has no current context: give --context, or choose one with `sutler config use-context` from {known}"
    )]
    NoContext {
        /// Which file.
        file: String,
        /// What is there.
        known: String,
    },
    /// It cannot be written.
    #[error("kubeconfig {file} cannot be written: {detail}")]
    Write {
        /// Which file.
        file: String,
        /// Why.
        detail: String,
    },
}

/// Finds the kubeconfig that counts: the flag, `$SUTLER_KUBECONFIG`, `$KUBECONFIG`, the data
/// folder here, then the one in the home folder.
pub(crate) fn find(
    flag: Option<&Path>,
    env: impl Fn(&str) -> Option<OsString>,
    exists: impl Fn(&Path) -> bool,
) -> Option<Source> {
    if let Some(path) = flag {
        return Some(Source { paths: vec![path.to_owned()] });
    }
    for name in ["SUTLER_KUBECONFIG", "KUBECONFIG"] {
        let Some(value) = env(name) else { continue };
        let paths: Vec<PathBuf> =
            std::env::split_paths(&value).filter(|p| !p.as_os_str().is_empty()).collect();
        if !paths.is_empty() {
            return Some(Source { paths });
        }
    }
    let home = env("HOME").map(|home| Path::new(&home).join(".kube/config"));
    [Some(PathBuf::from(LOCAL)), home]
        .into_iter()
        .flatten()
        .find(|path| exists(path))
        .map(|path| Source { paths: vec![path] })
}

impl Source {
    /// The one for these flags, in this environment.
    pub(crate) fn detect(flag: Option<&Path>) -> Option<Self> {
        find(flag, |name| std::env::var_os(name), Path::exists)
    }

    /// Reads and joins the files. As everywhere, the first to say something wins, and files of
    /// a list that are not there are passed over.
    pub(crate) fn load(&self) -> Result<Kubeconfig, Error> {
        let mut merged: Option<Kubeconfig> = None;
        for path in &self.paths {
            if self.paths.len() > 1 && !path.exists() {
                continue;
            }
            let fail = |error: KubeconfigError| Error::Load {
                file: path.display().to_string(),
                detail: match &error {
                    KubeconfigError::ReadConfig(io, _) => io.to_string(),
                    other => chain(other),
                },
            };
            let next = Kubeconfig::read_from(path).map_err(fail)?;
            merged = Some(match merged {
                Some(first) => first.merge(next).map_err(fail)?,
                None => next,
            });
        }
        merged.ok_or_else(|| Error::Load {
            file: self.to_string(),
            detail: "none of these files is there".into(),
        })
    }

    /// The context that counts: the one asked for, or the current one.
    pub(crate) fn context(
        &self,
        config: &Kubeconfig,
        wanted: Option<&str>,
    ) -> Result<String, Error> {
        let name = wanted.or(config.current_context.as_deref()).unwrap_or_default();
        if name.is_empty() {
            return Err(Error::NoContext { file: self.to_string(), known: known(config) });
        }
        if !config.contexts.iter().any(|c| c.name == name) {
            return Err(Error::Context {
                file: self.to_string(),
                name: name.to_owned(),
                known: known(config),
            });
        }
        Ok(name.to_owned())
    }

    /// Makes a context the current one, in the file that says which is.
    pub(crate) fn set_current(&self, name: &str) -> Result<PathBuf, Error> {
        self.change(
            |config| config.current_context.is_some(),
            |config| {
                config.current_context = Some(name.to_owned());
            },
        )
    }

    /// Sets the namespace of a context, in the file that has the context.
    pub(crate) fn set_namespace(&self, context: &str, namespace: &str) -> Result<PathBuf, Error> {
        self.change(
            |config| config.contexts.iter().any(|c| c.name == context),
            |config| {
                for named in config.contexts.iter_mut().filter(|c| c.name == context) {
                    if let Some(context) = &mut named.context {
                        context.namespace = Some(namespace.to_owned());
                    }
                }
            },
        )
    }

    /// Changes the first file that fits, or the first of all.
    fn change(
        &self,
        fits: impl Fn(&Kubeconfig) -> bool,
        change: impl FnOnce(&mut Kubeconfig),
    ) -> Result<PathBuf, Error> {
        let mut chosen: Option<(PathBuf, Kubeconfig)> = None;
        for path in &self.paths {
            let file = path.display().to_string();
            let text = match fs::read_to_string(path) {
                Ok(text) => text,
                Err(_) if self.paths.len() > 1 => continue,
                Err(e) => return Err(Error::Load { file, detail: e.to_string() }),
            };
            let config = Kubeconfig::from_yaml(&text)
                .map_err(|e| Error::Load { file, detail: chain(&e) })?;
            if fits(&config) {
                chosen = Some((path.clone(), config));
                break;
            }
            chosen = chosen.or(Some((path.clone(), config)));
        }
        let Some((path, mut config)) = chosen else { return Err(Error::Missing) };
        change(&mut config);
        write(&path, &config)?;
        Ok(path)
    }
}

/// Writes a kubeconfig that only its owner can read, whole or not at all.
pub(crate) fn write(path: &Path, config: &Kubeconfig) -> Result<(), Error> {
    let fail = |detail: String| Error::Write { file: path.display().to_string(), detail };
    let mut value = serde_json::to_value(config).map_err(|e| fail(e.to_string()))?;
    drop_nulls(&mut value);
    let text = yaml::to_string(&value).map_err(fail)?;
    // A link keeps pointing where it points: what is behind it is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let save = || {
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(&target).map_err(|e| e.error)?;
        Ok::<_, std::io::Error>(())
    };
    save().map_err(|e| fail(e.to_string()))
}

/// The kubeconfig as JSON, without what must not be shown.
pub(crate) fn redacted(config: &Kubeconfig) -> Result<Value, serde_json::Error> {
    const SHOWN: [&str; 8] = [
        "username",
        "tokenFile",
        "client-certificate",
        "client-key",
        "as",
        "as-uid",
        "as-groups",
        "exec",
    ];
    let mut value = serde_json::to_value(config)?;
    drop_nulls(&mut value);
    for cluster in value["clusters"].as_array_mut().into_iter().flatten() {
        let Some(cluster) = cluster.get_mut("cluster").and_then(Value::as_object_mut) else {
            continue;
        };
        if let Some(data) = cluster.get_mut("certificate-authority-data") {
            *data = "DATA+OMITTED".into();
        }
        if let Some(Value::String(proxy)) = cluster.get_mut("proxy-url")
            && let Some((scheme, rest)) = proxy.split_once("://")
            && let Some((_, host)) = rest.rsplit_once('@')
        {
            *proxy = format!("{scheme}://REDACTED@{host}");
        }
    }
    for user in value["users"].as_array_mut().into_iter().flatten() {
        let Some(user) = user.get_mut("user").and_then(Value::as_object_mut) else { continue };
        for (key, value) in user.iter_mut() {
            match key.as_str() {
                "exec" => {
                    for variable in value["env"].as_array_mut().into_iter().flatten() {
                        if let Some(value) = variable.get_mut("value") {
                            *value = "REDACTED".into();
                        }
                    }
                }
                "client-certificate-data" => *value = "DATA+OMITTED".into(),
                "auth-provider" => *value = serde_json::json!({"name": value["name"]}),
                key if SHOWN.contains(&key) => {}
                _ => *value = "REDACTED".into(),
            }
        }
    }
    Ok(value)
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn known(config: &Kubeconfig) -> String {
    let names: Vec<&str> = config.contexts.iter().map(|c| c.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "apiVersion: v1
kind: Config
current-context: a
clusters:
- name: k
  cluster: {server: 'https://h:1', certificate-authority-data: Q0E=, proxy-url: 'http://u:p@proxy:1'}
users:
- name: u
  user: {token: s3cret, password: s3cret, client-key-data: s3cret, odd: s3cret, username: bob, exec: {command: get, env: [{name: X, value: s3cret}]}, auth-provider: {name: gcp, config: {id-token: s3cret}}}
contexts:
- name: a
  context: {cluster: k, user: u}
- name: b
  context: {cluster: k, user: u, namespace: prod}
";

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(k, _)| *k == name).map(|(_, v)| OsString::from(v))
    }

    #[test]
    fn the_nearest_kubeconfig_wins() {
        let all = [("SUTLER_KUBECONFIG", "/s"), ("KUBECONFIG", "/k:/l"), ("HOME", "/h")];
        let paths = |source: Option<Source>| source.map(|s| s.to_string());
        assert_eq!(paths(find(Some(Path::new("/f")), env(&all), |_| true)), Some("/f".into()));
        assert_eq!(paths(find(None, env(&all), |_| true)), Some("/s".into()));
        assert_eq!(paths(find(None, env(&all[1..]), |_| true)), Some("/k:/l".into()));
        assert_eq!(paths(find(None, env(&all[2..]), |_| true)), Some(LOCAL.into()));
        let only_home = |p: &Path| p.starts_with("/h");
        assert_eq!(paths(find(None, env(&all[2..]), only_home)), Some("/h/.kube/config".into()));
        assert_eq!(find(None, env(&all[2..]), |_| false), None);
        assert_eq!(paths(find(None, env(&[("KUBECONFIG", "")]), |_| true)), Some(LOCAL.into()));
    }

    #[test]
    fn nothing_secret_is_shown() {
        let config = Kubeconfig::from_yaml(CONFIG).unwrap();
        let shown = redacted(&config).unwrap().to_string();
        assert!(!shown.contains("s3cret") && !shown.contains("u:p@"), "{shown}");
        assert!(shown.contains("bob") && shown.contains("https://h:1") && shown.contains("gcp"));
    }

    #[test]
    fn contexts_are_found_or_listed() {
        let config = Kubeconfig::from_yaml(CONFIG).unwrap();
        let source = Source { paths: vec!["f".into()] };
        assert_eq!(source.context(&config, None).unwrap(), "a");
        assert_eq!(source.context(&config, Some("b")).unwrap(), "b");
        let error = source.context(&config, Some("x")).unwrap_err().to_string();
        assert!(error.contains("it has a, b"), "{error}");
    }

    #[test]
    fn changes_keep_the_rest_and_the_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("1"), folder.path().join("2"));
        fs::write(&first, "apiVersion: v1\nkind: Config\nclusters: []\n").unwrap();
        fs::write(&second, CONFIG).unwrap();
        let source = Source { paths: vec![first, second.clone(), folder.path().join("none")] };
        assert_eq!(source.set_current("b").unwrap(), second);
        assert_eq!(source.set_namespace("a", "dev").unwrap(), second);
        let config = source.load().unwrap();
        assert_eq!(config.current_context.as_deref(), Some("b"));
        let a = config.contexts.iter().find(|c| c.name == "a").unwrap();
        assert_eq!(a.context.as_ref().unwrap().namespace.as_deref(), Some("dev"));
        let text = fs::read_to_string(&second).unwrap();
        assert!(text.contains("s3cret") && text.contains("odd"), "{text}");
        assert_eq!(fs::metadata(&second).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
