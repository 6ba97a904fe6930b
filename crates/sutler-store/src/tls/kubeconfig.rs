//! Kubeconfigs: where the server is, how to verify it, and who one is.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Pki, TlsError, files};

/// The name of the cluster and the context.
const NAME: &str = "sutler";

/// A kubeconfig for the administrator, with the client certificate and its key in it.
pub fn kubeconfig(server_url: &str, pki: &Pki, namespace: &str) -> String {
    let user = format!(
        "    client-certificate-data: {}\n    client-key-data: {}\n",
        STANDARD.encode(&pki.admin.cert),
        STANDARD.encode(&pki.admin.key)
    );
    render(server_url, pki, namespace, "sutler-admin", &user)
}

/// A kubeconfig for a user with a bearer token.
pub fn kubeconfig_with_token(
    server_url: &str,
    pki: &Pki,
    namespace: &str,
    user: &str,
    token: &str,
) -> String {
    render(server_url, pki, namespace, user, &format!("    token: {}\n", quote(token)))
}

/// Writes a kubeconfig so that only its owner can read it, whole or not at all.
pub fn write_kubeconfig(path: &Path, kubeconfig: &str) -> Result<(), TlsError> {
    files::write_private(path, kubeconfig)
}

fn render(server_url: &str, pki: &Pki, namespace: &str, user: &str, credentials: &str) -> String {
    let authority = match &pki.server_ca {
        Some(pem) => format!("    certificate-authority-data: {}\n", STANDARD.encode(pem)),
        None => String::new(),
    };
    let (server, user, namespace) = (quote(server_url), quote(user), quote(namespace));
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {NAME}\nclusters:\n- name: {NAME}\n  \
         cluster:\n    server: {server}\n{authority}contexts:\n- name: {NAME}\n  context:\n    \
         cluster: {NAME}\n    user: {user}\n    namespace: {namespace}\nusers:\n- name: {user}\n  \
         user:\n{credentials}"
    )
}

/// A JSON string is a YAML string.
fn quote(text: &str) -> String {
    Value::from(text).to_string()
}
