//! Who asks, and what they may do: authentication, impersonation and role-based authorization.
//!
//! A request passes through three steps, each a pure function over an immutable snapshot:
//! [`authn::Authenticator`] turns headers and a verified client certificate into a [`User`];
//! [`impersonate`] lets that user act as another; [`rbac::Policy`] decides.

use std::collections::BTreeMap;

pub mod authn;
pub mod bootstrap;
pub(crate) mod gofmt;
pub mod impersonate;
pub mod rbac;
#[cfg(test)]
mod recorded;
pub mod users;

/// The group of everybody who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of those who did not; only impersonation can name it here.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user name of a request without credentials; only impersonation can name it here.
pub const ANONYMOUS: &str = "system:anonymous";
/// Members of this group may do everything, whatever the roles say.
pub const MASTERS: &str = "system:masters";
/// What user names of service accounts start with.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The one on whose behalf a request runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name that bindings and refusals speak of.
    pub name: String,
    /// Tells apart two users that had the same name at different times; often empty.
    pub uid: String,
    /// The groups, `system:authenticated` among them.
    pub groups: Vec<String>,
    /// What the authenticator knows beyond that, such as the credential's fingerprint.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A member of `system:masters`: what the server itself and its controllers act as.
    pub fn privileged(name: &str) -> Self {
        let groups = vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()];
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// Whether the user belongs to `group`.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|held| held == group)
    }

    /// Adds `system:authenticated` unless the groups already say whether the user is.
    fn authenticated(mut self) -> Self {
        if !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

/// Whether a path is served without credentials: the three health probes, and nothing below them.
pub fn is_public_path(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz")
}

/// Namespace and name of the service account that `username` stands for, if it is well formed.
fn service_account(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

fn is_dns_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        && bytes[0] != b'-'
        && bytes[bytes.len() - 1] != b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_probes_are_public() {
        for path in ["/healthz", "/livez", "/readyz"] {
            assert!(is_public_path(path), "{path}");
        }
        for path in ["/", "/version", "/livez/ping", "/healthz/", "/readyz?verbose", "/metrics"] {
            assert!(!is_public_path(path), "{path}");
        }
    }

    #[test]
    fn service_account_names_are_split() {
        assert_eq!(service_account("system:serviceaccount:a:b.c"), Some(("a", "b.c")));
        for bad in [
            "system:serviceaccount:a",
            "system:serviceaccount:a:b:c",
            "system:serviceaccount::b",
            "system:serviceaccount:a:",
            "system:serviceaccount:A:b",
            "system:serviceaccount:a.b:c",
            "jane",
        ] {
            assert_eq!(service_account(bad), None, "{bad}");
        }
    }

    #[test]
    fn authenticated_is_added_once() {
        let groups = |user: User| user.authenticated().groups;
        assert_eq!(groups(User::default()), [AUTHENTICATED]);
        let already = User { groups: vec![AUTHENTICATED.into()], ..User::default() };
        assert_eq!(groups(already), [AUTHENTICATED]);
    }
}
