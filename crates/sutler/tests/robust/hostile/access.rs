//! Requests by those who may not: unknown, expired, or without the right.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{CONFIG_MAPS, Hosted, refused};
use crate::{client::Client, server::Who};

const USERS: &str = "/api/v1/namespaces/sutler-system/secrets";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const SYSTEM_BINDINGS: &str =
    "/apis/rbac.authorization.k8s.io/v1/namespaces/sutler-system/rolebindings";

/// A user's Secret with one token.
fn user(name: &str, token: &str, expires: Option<&str>) -> Value {
    let hash: String =
        Sha256::digest(token.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut record = json!({"id": "t1", "sha256": hash, "created": "2024-01-01T00:00:00Z"});
    if let Some(expires) = expires {
        record["expires"] = expires.into();
    }
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "sutler.dev/user",
        "metadata": {"name": format!("user-{name}"), "namespace": "sutler-system"},
        "stringData": {"username": name, "groups": "", "tokens": json!([record]).to_string()},
    })
}

fn binding(user: &str, role: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    })
}

#[tokio::test]
async fn hostile_users_are_refused() {
    let mut hosted = Hosted::start(&[
        (USERS, user("viewer", "token-of-viewer", None)),
        (USERS, user("editor", "token-of-editor", None)),
        (USERS, user("late", "token-of-late", Some("2024-01-02T00:00:00Z"))),
        (BINDINGS, binding("viewer", "view", "ClusterRole")),
        (BINDINGS, binding("editor", "edit", "ClusterRole")),
        (BINDINGS, binding("late", "cluster-admin", "ClusterRole")),
        (SYSTEM_BINDINGS, binding("editor", "edit", "ClusterRole")),
    ])
    .await;
    let address = hosted.address.clone();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});

    for header in [
        None,
        Some("Bearer nonsense"),
        Some("Bearer token-of-late"),
        Some("Bearer "),
        Some("Bearer"),
        Some("Basic dmlld2VyOnRva2VuLW9mLXZpZXdlcg=="),
        Some("token-of-viewer"),
        Some("Bearer \u{ff}\u{fe}"),
    ] {
        let mut nobody = Client::new(&address, Who::Nobody);
        nobody.headers.extend(header.map(|header| ("authorization", header.to_owned())));
        for (method, path) in
            [("GET", CONFIG_MAPS), ("POST", CONFIG_MAPS), ("GET", "/version"), ("GET", "/nope")]
        {
            let answer = nobody.json(method, path, &object).await.unwrap();
            refused(&answer, 401, "Unauthorized", &format!("{method} {path} {header:?}"));
        }
        // Health is for everybody, if not for those who claim to be somebody they are not.
        if header.is_none() {
            assert_eq!(nobody.get("/livez").await.unwrap().code, 200);
        }
    }

    let mut viewer = Client::with_token(&address, "token-of-viewer");
    let mut editor = Client::with_token(&address, "token-of-editor");
    assert_eq!(viewer.get(CONFIG_MAPS).await.unwrap().code, 200);
    let one = format!("{CONFIG_MAPS}/one");
    for (method, path, message) in [
        (
            "POST",
            CONFIG_MAPS,
            r#"configmaps is forbidden: User "viewer" cannot create resource "configmaps" in API group "" in the namespace "default""#,
        ),
        (
            "PUT",
            &one,
            r#"configmaps "one" is forbidden: User "viewer" cannot update resource "configmaps" in API group "" in the namespace "default""#,
        ),
        (
            "DELETE",
            &one,
            r#"configmaps "one" is forbidden: User "viewer" cannot delete resource "configmaps" in API group "" in the namespace "default""#,
        ),
        (
            "DELETE",
            CONFIG_MAPS,
            r#"configmaps is forbidden: User "viewer" cannot deletecollection resource "configmaps" in API group "" in the namespace "default""#,
        ),
        (
            "GET",
            "/api/v1/namespaces/default/secrets",
            r#"secrets is forbidden: User "viewer" cannot list resource "secrets" in API group "" in the namespace "default""#,
        ),
        (
            "GET",
            "/api/v1/configmaps",
            r#"configmaps is forbidden: User "viewer" cannot list resource "configmaps" in API group "" at the cluster scope"#,
        ),
        (
            "GET",
            "/api/v1/nodes",
            r#"nodes is forbidden: User "viewer" cannot list resource "nodes" in API group "" at the cluster scope"#,
        ),
        (
            "GET",
            "/api/v1/namespaces/..%2Fdefault/configmaps",
            r#"default "configmaps" is forbidden: User "viewer" cannot get resource "default" in API group "" in the namespace "..""#,
        ),
        (
            "POST",
            BINDINGS,
            r#"rolebindings.rbac.authorization.k8s.io is forbidden: User "viewer" cannot create resource "rolebindings" in API group "rbac.authorization.k8s.io" in the namespace "default""#,
        ),
        ("GET", "/nope", r#"forbidden: User "viewer" cannot get path "/nope""#),
    ] {
        let answer = viewer.json(method, path, &object).await.unwrap();
        refused(&answer, 403, message, &format!("{method} {path}"));
        assert_eq!(answer.value()["message"], message);
        assert_eq!(answer.value()["reason"], "Forbidden");
    }

    // Nobody becomes somebody else, nor makes somebody who can do more.
    for (header, value) in [
        ("impersonate-user", "admin"),
        ("impersonate-user", "system:serviceaccount:kube-system:default"),
    ] {
        let answer = viewer.send("GET", CONFIG_MAPS, &[(header, value)], "").await.unwrap();
        refused(&answer, 403, r#"User "viewer" cannot impersonate"#, value);
    }
    let answer =
        viewer.send("GET", CONFIG_MAPS, &[("impersonate-group", "system:masters")], "").await;
    refused(&answer.unwrap(), 400, "without impersonating a user name", "a group alone");
    let mallory = user("mallory", "token-of-mallory", None);
    let answer = editor.json("POST", USERS, &mallory).await.unwrap();
    refused(&answer, 403, "", "a user by somebody who may write Secrets");
    let text = answer.text();
    assert!(text.contains("impersonate") && text.contains("mallory"), "{text}");
    let mut masters = user("viewer", "token-of-viewer", None);
    masters["stringData"]["groups"] = "system:masters".into();
    let answer = editor.json("PUT", &format!("{USERS}/user-viewer"), &masters).await.unwrap();
    assert_eq!(answer.code, 403, "{answer:?}");
    let patch = json!({"stringData": {"groups": "system:masters"}}).to_string();
    let content = [("content-type", "application/merge-patch+json")];
    let target = format!("{USERS}/user-viewer");
    let answer = editor.send("PATCH", &target, &content, patch).await.unwrap();
    assert_eq!(answer.code, 403, "{answer:?}");
    let mut unlike = Client::with_token(&address, "token-of-mallory");
    assert_eq!(unlike.get(CONFIG_MAPS).await.unwrap().code, 401);
    // A role beyond one's own cannot be given, even by who may write bindings.
    let answer =
        editor.json("POST", BINDINGS, &binding("editor", "cluster-admin", "ClusterRole")).await;
    assert_eq!(answer.unwrap().code, 403);
    hosted.is_unchanged().await;
    hosted.is_sound().await;
}
