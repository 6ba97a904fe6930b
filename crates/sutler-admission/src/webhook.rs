//! The object that leads a cluster's API server to Sutler's checks.

use serde_json::{Value, json};
use sutler_api::names::{annotations, labels};

/// The name of the ValidatingWebhookConfiguration.
pub const NAME: &str = "sutler-admission";

/// The path that is asked.
pub const PATH: &str = "/admission";

/// Seconds that a write waits for an answer before it goes on without.
const PATIENCE: u32 = 5;

/// Where an API server finds Sutler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At an address, `https://host:port/admission`.
    Url(String),
    /// Behind a Service of its own cluster.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port.
        port: u16,
    },
}

/// The ValidatingWebhookConfiguration; `authority` is the certificate, in base64 of PEM, that Sutler is
/// known by.
///
/// Both webhooks are ignored when nobody answers. The checks are a help and not a wall: what they would
/// have refused is told by conditions instead, while a cluster that cannot remove its broken nodes, or
/// whose controllers cannot write because Sutler itself is away, is worse off than with a bad group.
/// For the same reason objects on their way out are not asked about, and of all Nodes only those that a
/// VPSieNode stands behind.
pub fn configuration(place: &Place, authority: &str) -> Value {
    let mut client = match place {
        Place::Url(url) => json!({ "url": url }),
        Place::Service { namespace, name, port } => json!({
            "service": { "namespace": namespace, "name": name, "port": port, "path": PATH },
        }),
    };
    client["caBundle"] = json!(authority);
    let webhook = |name: &str, more: Value| {
        let mut webhook = json!({
            "name": format!("{name}.admission.sutler.dev"),
            "clientConfig": client,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "matchPolicy": "Equivalent",
            "timeoutSeconds": PATIENCE,
        });
        if let (Some(webhook), Value::Object(more)) = (webhook.as_object_mut(), more) {
            webhook.extend(more);
        }
        webhook
    };
    let hours = annotations::SCALE_DOWN_ALLOWED_HOURS;
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": NAME },
        "webhooks": [
            webhook("groups", json!({
                "rules": [{
                    "apiGroups": [sutler_api::autoscaler::GROUP],
                    "apiVersions": [sutler_api::autoscaler::VERSION],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["nodegroups", "vpsienodes", "autoscalerconfigs"],
                    "scope": "*",
                }],
                "matchConditions": [{
                    "name": "is-here-to-stay",
                    "expression": "!has(object.metadata.deletionTimestamp)",
                }],
            })),
            webhook("nodes", json!({
                "rules": [{
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["UPDATE", "DELETE"],
                    "resources": ["nodes"],
                    "scope": "Cluster",
                }],
                "objectSelector": {
                    "matchExpressions": [{ "key": labels::VPSIE_NODE, "operator": "Exists" }],
                },
                "matchConditions": [{
                    "name": "goes-or-has-hours",
                    "expression": format!(
                        "request.operation == 'DELETE' || (has(object.metadata.annotations) && \
                         '{hours}' in object.metadata.annotations)"
                    ),
                }],
            })),
        ],
    })
}
