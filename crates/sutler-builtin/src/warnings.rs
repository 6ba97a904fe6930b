//! What is accepted and yet most likely a mistake: texts for `Warning` headers.

use serde_json::Value;
use sutler_schema::path::Path;

use crate::{
    Kind,
    json::{at, get, items, text},
    quantity,
};

/// What is odd about a written object.
pub fn warnings(kind: &Kind, object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    match (kind.group, kind.kind) {
        ("", "Secret") => tls_pair(object, &mut found),
        ("", "Pod") => memory(get(object, "spec"), &Path::new("spec"), &mut found),
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => {
            let path = Path::new("spec").child("template").child("spec");
            memory(at(object, &["spec", "template", "spec"]), &path, &mut found);
        }
        _ => {}
    }
    found
}

/// A pair without anything that looks like a certificate or a key.
fn tls_pair(secret: &Value, found: &mut Vec<String>) {
    use base64::{Engine, engine::general_purpose::STANDARD};
    if text(secret, "type") != "kubernetes.io/tls" {
        return;
    }
    for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
        let given = at(secret, &["data", key]).as_str().unwrap_or_default();
        let bytes = STANDARD.decode(given).unwrap_or_default();
        if !bytes.windows(MARK.len()).any(|part| part == MARK) {
            found.push(format!("tls: failed to find any PEM data in {what} input"));
            return;
        }
    }
}

/// How a block of PEM begins.
const MARK: &[u8] = b"-----BEGIN ";

/// Parts of a byte.
fn memory(spec: &Value, path: &Path, found: &mut Vec<String>) {
    for list in ["initContainers", "containers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            let path = path.child(list).index(i).child("resources");
            for resource in ["memory", "ephemeral-storage"] {
                for side in ["limits", "requests"] {
                    let given = at(container, &["resources", side, resource]);
                    if let Some(given) = given.as_str().filter(|given| !quantity::is_whole(given)) {
                        let path = path.child(side).key(resource);
                        found.push(format!(
                            "{path}: fractional byte value {given:?} is invalid, must be an integer"
                        ));
                    }
                }
            }
        }
    }
}
