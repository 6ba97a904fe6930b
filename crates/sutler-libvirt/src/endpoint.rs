//! Where a host is, and how its connection is opened.

use std::{fmt, io::Write as _, path::Path, sync::Arc};

use sutler_provider::{Credentials, Error, Result};
use tempfile::TempDir;

const FIELD: &str = "spec.endpoint";
const SECRET: &str = "spec.credentialSecretRef";

/// A host's address, with the files that its connection needs.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// As libvirt takes it: it names files with secrets, and holds none.
    uri: String,
    /// As a person wrote it.
    shown: String,
    within: bool,
    /// Keys and certificates, which go with the last holder.
    _files: Option<Arc<TempDir>>,
}

impl Endpoint {
    /// Reads an address. Keys, certificates and known hosts come from the credentials; a host that is
    /// not known is never trusted because it answered first.
    pub(crate) fn new(text: &str, credentials: &Credentials, skip_verify: bool) -> Result<Self> {
        let wrong = |why: &str| {
            Error::invalid(
                FIELD,
                format!(
                    "{text:?} {why}: write qemu:///system, qemu:///session, \
                     qemu+ssh://USER@HOST/system, qemu+tls://HOST/system or test:///default"
                ),
            )
        };
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| wrong("is no libvirt address"))?;
        if rest.contains('?') || rest.contains('#') {
            return Err(wrong("has parameters, which are set by the Provider instead"));
        }
        let (host, path) = rest.split_once('/').ok_or_else(|| wrong("has no path"))?;
        if path.is_empty() {
            return Err(wrong("has no path"));
        }
        if host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
            return Err(wrong("has a password, which belongs in the Secret"));
        }
        let plain =
            |within| Self { uri: text.to_owned(), shown: text.to_owned(), within, _files: None };
        match (scheme, host.is_empty()) {
            ("qemu", true) => Ok(plain(false)),
            ("test", true) => Ok(plain(true)),
            ("qemu+ssh" | "qemu+libssh", false) => Self::ssh(text, rest, credentials, skip_verify),
            ("qemu+tls", false) => Self::tls(text, rest, credentials, skip_verify),
            _ => Err(wrong("is of a kind that is not served")),
        }
    }

    fn ssh(text: &str, rest: &str, credentials: &Credentials, skip_verify: bool) -> Result<Self> {
        if skip_verify {
            let why =
                "a host's key is always verified: put the host into known_hosts of the Secret";
            return Err(Error::invalid("spec.insecureSkipVerify", why));
        }
        let folder = folder()?;
        let key = store(&folder, "key", credentials, &["ssh-privatekey", "privateKey"])?;
        let hosts = store(&folder, "known_hosts", credentials, &["known_hosts", "knownHosts"])?;
        let user = credentials.get("username").and_then(|user| user.expose_str());
        let rest = match user.filter(|_| !rest.contains('@')) {
            Some(user) => format!("{user}@{rest}"),
            None => rest.to_owned(),
        };
        // The transport that runs `ssh` takes neither file; the one within libvirt takes both.
        let uri = format!(
            "qemu+libssh://{rest}?keyfile={key}&known_hosts={hosts}&known_hosts_verify=normal&sshauth=privkey"
        );
        Ok(Self { uri, shown: text.to_owned(), within: false, _files: Some(Arc::new(folder)) })
    }

    fn tls(text: &str, rest: &str, credentials: &Credentials, skip_verify: bool) -> Result<Self> {
        let folder = folder()?;
        store(&folder, "clientcert.pem", credentials, &["tls.crt"])?;
        store(&folder, "clientkey.pem", credentials, &["tls.key"])?;
        store(&folder, "cacert.pem", credentials, &["ca.crt"])?;
        let path = folder.path().display();
        let verify = if skip_verify { "&no_verify=1" } else { "" };
        let uri = format!("qemu+tls://{rest}?pkipath={path}{verify}");
        Ok(Self { uri, shown: text.to_owned(), within: false, _files: Some(Arc::new(folder)) })
    }

    /// As libvirt takes it.
    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// Whether the host is libvirt's own driver for tests, which lives in this process.
    pub(crate) fn is_within(&self) -> bool {
        self.within
    }

    /// Whether the host is this one, so that its files can be read here.
    pub(crate) fn is_local(&self) -> bool {
        self.shown.starts_with("qemu:///")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shown)
    }
}

/// A folder that nobody else can look into.
fn folder() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("sutler-libvirt-")
        .tempdir()
        .map_err(|error| Error::internal(format!("no folder for keys: {error}")))
}

/// Writes a secret to a file, and says where that is.
fn store(folder: &TempDir, name: &str, from: &Credentials, keys: &[&str]) -> Result<String> {
    let found = keys.iter().find_map(|key| from.get(key));
    let secret = found.ok_or_else(|| {
        Error::invalid(SECRET, format!("the Secret has no key {:?}", keys.first().unwrap_or(&"")))
    })?;
    let path = folder.path().join(name);
    write(&path, secret.expose())
        .map_err(|error| Error::internal(format!("{name} cannot be written: {error}")))?;
    Ok(path.display().to_string())
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(keys: &[&str]) -> Credentials {
        keys.iter().map(|key| ((*key).to_owned(), b"hush".to_vec())).collect()
    }

    #[test]
    fn addresses_become_what_libvirt_takes() {
        let local = Endpoint::new("qemu:///system", &Credentials::default(), false).unwrap();
        assert_eq!(local.uri(), "qemu:///system");
        assert!(local.is_local() && !local.is_within());
        let keys = secret(&["ssh-privatekey", "known_hosts", "username"]);
        let ssh = Endpoint::new("qemu+ssh://kvm7:2222/system", &keys, false).unwrap();
        assert!(ssh.uri().starts_with("qemu+libssh://hush@kvm7:2222/system?keyfile=/"));
        assert!(ssh.uri().contains("known_hosts_verify=normal"), "{}", ssh.uri());
        assert_eq!(
            format!("{ssh} {ssh:?}"),
            "qemu+ssh://kvm7:2222/system \"qemu+ssh://kvm7:2222/system\""
        );
        let keys = secret(&["tls.crt", "tls.key", "ca.crt"]);
        let tls = Endpoint::new("qemu+tls://kvm7/system", &keys, false).unwrap();
        assert!(tls.uri().contains("?pkipath=/") && !tls.uri().contains("no_verify"));
        let within = Endpoint::new("test:///default", &Credentials::default(), false).unwrap();
        assert!(within.is_within() && !within.is_local());
    }

    #[test]
    fn what_is_no_address_is_refused_and_the_field_named() {
        for text in [
            "",
            "qemu",
            "qemu://",
            "qemu:///",
            "xen:///system",
            "qemu+tcp://kvm7/system",
            "qemu+ssh:///system",
            "qemu://kvm7/system",
            "qemu:///system?no_verify=1",
            "qemu+tls://me:hush@kvm7/system",
        ] {
            let error = Endpoint::new(text, &Credentials::default(), false).unwrap_err();
            assert_eq!(error.field(), Some(FIELD), "{text}");
        }
        let error = Endpoint::new("qemu+ssh://kvm7/system", &secret(&["known_hosts"]), false);
        assert_eq!(error.unwrap_err().field(), Some(SECRET));
        let keys = secret(&["ssh-privatekey", "known_hosts"]);
        let error = Endpoint::new("qemu+ssh://kvm7/system", &keys, true).unwrap_err();
        assert_eq!(error.field(), Some("spec.insecureSkipVerify"));
    }

    #[test]
    fn keys_go_with_the_last_holder() {
        let keys = secret(&["tls.crt", "tls.key", "ca.crt"]);
        let endpoint = Endpoint::new("qemu+tls://kvm7/system", &keys, false).unwrap();
        let folder = endpoint.uri().split_once("pkipath=").unwrap().1.to_owned();
        assert_eq!(std::fs::read(format!("{folder}/clientkey.pem")).unwrap(), b"hush");
        let other = endpoint.clone();
        drop(endpoint);
        assert!(Path::new(&folder).exists());
        drop(other);
        assert!(!Path::new(&folder).exists());
    }
}
