//! Authentication, RBAC and the reviews.
//!
//! The real server learns of new roles from a watch: what a binding grants is waited for.

use serde_json::{Value, json};

use super::{cm, toy};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("access":
    no_credentials, bad_token, malformed_header, basic_auth, forbidden_get, forbidden_list, forbidden_create, forbidden_verbs, forbidden_cluster, forbidden_subresource, forbidden_custom, forbidden_all_namespaces, forbidden_before_missing, forbidden_non_resource, forbidden_named,
    role_grants, role_by_name, role_by_group, role_of_cluster, role_view, role_edit, role_admin, role_wildcards, role_missing_role, role_revoked, watch_needs_watch, deletecollection_verb, patch_verb, apply_create_verb, status_is_apart,
    review_allowed, review_denied, review_non_resource, review_subresource, review_all, review_bad, review_of_group, rules_review, rules_review_bad, whoami, whoami_groups, whoami_bad,
    escalation_role, escalation_binding, escalation_by_escalate, escalation_by_bind, escalation_update, binding_immutable, binding_bad, role_bad, cluster_role_bad, default_roles, aggregated_role, impersonation_denied, create_name_unknown,
);

fn as_user(method: &'static str, path: &str, user: &'static str) -> Call {
    Call::new(method, path).user(user)
}

/// Binds a role of this namespace to a user.
fn grant(c: &Case, user: &str, rules: Value) {
    c.post("role", &json!({"metadata": {"name": format!("for-{user}")}, "rules": rules})).is(201);
    bind(
        c,
        &format!("for-{user}"),
        "Role",
        json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}]),
    );
}

fn bind(c: &Case, role: &str, kind: &str, subjects: Value) {
    c.post("rb", &json!({"metadata": {"name": format!("b-{role}")}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}, "subjects": subjects})).is(201);
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

/// Waits until the user's request is not refused for lack of rights.
fn allowed(c: &Case, call: Call) -> crate::case::Reply {
    c.until_call(&call, |reply| reply.status != 403)
}

fn no_credentials(c: &Case) {
    c.call(&Call::new("GET", "cm").anonymous()).refused(401, "Unauthorized");
    c.call(&Call::new("POST", "cm").json(&cm("a")).anonymous()).refused(401, "Unauthorized");
    c.call(&Call::new("GET", "toy/a").anonymous()).refused(401, "Unauthorized");
    c.call(&Call::new("GET", "/nowhere").anonymous()).refused(401, "Unauthorized");
}

fn bad_token(c: &Case) {
    c.call(&Call::new("GET", "cm").user("not-a-token")).refused(401, "Unauthorized");
    c.call(&Call::new("GET", "/healthz").user("not-a-token"));
}

fn malformed_header(c: &Case) {
    for value in [
        "Bearer",
        "Bearer ",
        "bearer token-admin",
        "Token token-admin",
        "token-admin",
        "Bearer  token-admin",
        "Bearer token-admin extra",
    ] {
        c.call(&Call::new("GET", "cm").anonymous().header("authorization", value));
    }
}

fn basic_auth(c: &Case) {
    c.call(&Call::new("GET", "cm").anonymous().header("authorization", "Basic YWRtaW46eA=="))
        .is(401);
}

fn forbidden_get(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&as_user("GET", "cm/a", "carol"))
        .refused(403, "Forbidden")
        .says("User \"carol\" cannot get resource \"configmaps\"");
}

fn forbidden_list(c: &Case) {
    c.call(&as_user("GET", "cm", "carol")).refused(403, "Forbidden").says("cannot list resource");
    c.call(&as_user("GET", "cm?watch=true", "carol"))
        .refused(403, "Forbidden")
        .says("cannot watch resource");
    c.call(&as_user("GET", "cm?fieldSelector=metadata.name%3Da", "carol"))
        .refused(403, "Forbidden");
}

fn forbidden_create(c: &Case) {
    c.call(&as_user("POST", "cm", "carol").json(&cm("a")))
        .refused(403, "Forbidden")
        .says("cannot create resource");
    // Whoever may not, is not told what is wrong.
    c.call(&as_user("POST", "cm", "carol").text("application/json", "{")).refused(403, "Forbidden");
    c.get("cm/a").is(404);
}

fn forbidden_verbs(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&as_user("PUT", "cm/a", "carol").json(&cm("a")))
        .refused(403, "Forbidden")
        .says("cannot update");
    c.call(&as_user("PATCH", "cm/a", "carol").text("application/merge-patch+json", "{}"))
        .refused(403, "Forbidden")
        .says("cannot patch");
    c.call(&as_user("DELETE", "cm/a", "carol")).refused(403, "Forbidden").says("cannot delete");
    c.call(&as_user("DELETE", "cm", "carol"))
        .refused(403, "Forbidden")
        .says("cannot deletecollection");
    c.call(&as_user("HEAD", "cm/a", "carol"));
    c.get("cm/a").is(200);
}

fn forbidden_cluster(c: &Case) {
    c.call(&as_user("GET", "node", "carol")).refused(403, "Forbidden").says("at the cluster scope");
    c.call(&as_user("GET", "ns/{ns}", "carol")).refused(403, "Forbidden");
    c.call(&as_user("GET", "world", "carol")).refused(403, "Forbidden");
    c.call(&as_user("POST", "ns", "carol").json(&json!({"metadata": {"name": "{ns}-9"}})))
        .refused(403, "Forbidden");
}

fn forbidden_subresource(c: &Case) {
    c.call(&as_user("GET", "toy/a/status", "carol")).refused(403, "Forbidden").says("toys/status");
    c.call(&as_user("GET", "deploy/a/scale", "carol"))
        .refused(403, "Forbidden")
        .says("deployments/scale");
    c.call(&as_user("POST", "pod/a/eviction", "carol").json(&json!({})))
        .refused(403, "Forbidden")
        .says("pods/eviction");
}

fn forbidden_custom(c: &Case) {
    c.call(&as_user("GET", "toy/a", "carol"))
        .refused(403, "Forbidden")
        .says("in API group \"parity.sutler.dev\"")
        .has("/details/group", "parity.sutler.dev");
    c.call(&as_user("POST", "toy", "carol").json(&toy("a", json!({"size": 1}))))
        .refused(403, "Forbidden");
}

fn forbidden_all_namespaces(c: &Case) {
    c.call(&as_user("GET", "/api/v1/configmaps", "carol"))
        .refused(403, "Forbidden")
        .says("at the cluster scope");
}

fn forbidden_before_missing(c: &Case) {
    c.call(&as_user("GET", "cm/none", "carol")).refused(403, "Forbidden");
    c.call(&as_user("GET", "/api/v1/namespaces/{ns}/gadgets", "carol")).refused(403, "Forbidden");
    c.call(&as_user("GET", "/apis/none.example/v1/namespaces/{ns}/gadgets", "carol"))
        .refused(403, "Forbidden");
}

fn forbidden_non_resource(c: &Case) {
    c.call(&as_user("GET", "/nowhere", "carol"))
        .refused(403, "Forbidden")
        .says("cannot get path \"/nowhere\"");
    c.call(&as_user("POST", "/api", "carol").json(&json!({}))).refused(403, "Forbidden");
    c.call(&as_user("DELETE", "/metrics", "carol")).refused(403, "Forbidden");
}

fn forbidden_named(c: &Case) {
    grant(
        c,
        "carol",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get", "update"]}]),
    );
    c.post("cm", &cm("mine")).is(201);
    allowed(c, as_user("GET", "cm/mine", "carol")).is(200);
    c.call(&as_user("GET", "cm/other", "carol")).refused(403, "Forbidden");
    c.call(&as_user("GET", "cm", "carol")).refused(403, "Forbidden");
}

fn role_grants(c: &Case) {
    grant(c, "alice", json!([rule(&[""], &["configmaps"], &["get", "list", "create"])]));
    allowed(c, as_user("GET", "cm", "alice")).is(200);
    c.call(&as_user("POST", "cm", "alice").json(&cm("a"))).is(201);
    c.call(&as_user("GET", "cm/a", "alice")).is(200);
    c.call(&as_user("DELETE", "cm/a", "alice")).refused(403, "Forbidden");
    c.call(&as_user("GET", "secret", "alice")).refused(403, "Forbidden");
    c.call(&as_user("GET", "/api/v1/namespaces/default/configmaps", "alice"))
        .refused(403, "Forbidden");
}

fn role_by_name(c: &Case) {
    grant(
        c,
        "alice",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get", "list", "watch"]}]),
    );
    c.post("cm", &cm("a")).is(201);
    c.post("cm", &cm("b")).is(201);
    allowed(c, as_user("GET", "cm/a", "alice")).is(200);
    // A list by name counts as naming.
    c.call(&as_user("GET", "cm?fieldSelector=metadata.name%3Da", "alice")).is(200).items(&["a"]);
    c.call(&as_user("GET", "cm?fieldSelector=metadata.name%3Db", "alice"))
        .refused(403, "Forbidden");
}

fn role_by_group(c: &Case) {
    c.post(
        "role",
        &json!({"metadata": {"name": "r"}, "rules": [rule(&[""], &["configmaps"], &["list"])]}),
    )
    .is(201);
    bind(
        c,
        "r",
        "Role",
        json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "ops"}]),
    );
    allowed(c, as_user("GET", "cm", "bob")).is(200);
    c.call(&as_user("GET", "cm", "alice")).refused(403, "Forbidden");
}

fn role_of_cluster(c: &Case) {
    c.post("crole", &json!({"metadata": {"name": "{ns}"}, "rules": [rule(&["parity.sutler.dev"], &["worlds"], &["list"])]})).is(201);
    c.post("crb", &json!({"metadata": {"name": "{ns}"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "{ns}"}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "dave"}]})).is(201);
    let call = as_user("GET", "world?labelSelector=of%3D{ns}", "dave");
    allowed(c, call).is(200);
    c.delete("crb/{ns}").is(200);
    c.delete("crole/{ns}").is(200);
}

fn role_view(c: &Case) {
    bind(
        c,
        "view",
        "ClusterRole",
        json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]),
    );
    allowed(c, as_user("GET", "cm", "alice")).is(200);
    c.call(&as_user("GET", "pod", "alice")).is(200);
    c.call(&as_user("GET", "secret", "alice")).refused(403, "Forbidden");
    c.call(&as_user("POST", "cm", "alice").json(&cm("a"))).refused(403, "Forbidden");
}

fn role_edit(c: &Case) {
    bind(
        c,
        "edit",
        "ClusterRole",
        json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]),
    );
    allowed(c, as_user("POST", "cm", "alice").json(&cm("a"))).is(201);
    c.call(&as_user("GET", "secret", "alice")).is(200);
    c.call(&as_user("GET", "role", "alice")).refused(403, "Forbidden");
}

fn role_admin(c: &Case) {
    bind(
        c,
        "admin",
        "ClusterRole",
        json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}]),
    );
    allowed(c, as_user("GET", "role", "alice")).is(200);
    c.call(&as_user("POST", "role", "alice").json(
        &json!({"metadata": {"name": "r"}, "rules": [rule(&[""], &["configmaps"], &["get"])]}),
    ))
    .is(201);
    c.call(&as_user("GET", "ns/{ns}", "alice")).is(200);
    c.call(&as_user("DELETE", "ns/{ns}", "alice")).refused(403, "Forbidden");
}

fn role_wildcards(c: &Case) {
    grant(c, "alice", json!([rule(&["*"], &["*"], &["*"])]));
    allowed(c, as_user("GET", "toy", "alice")).is(200);
    c.call(&as_user("POST", "toy", "alice").json(&toy("a", json!({"size": 1})))).is(201);
    c.call(&as_user("GET", "toy/a/scale", "alice"));
    c.call(&as_user("GET", "/api/v1/namespaces/{ns}/gadgets", "alice")).is(404);
    c.call(&as_user("GET", "node", "alice")).refused(403, "Forbidden");
}

fn role_missing_role(c: &Case) {
    bind(
        c,
        "none",
        "Role",
        json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "carol"}]),
    );
    // A sentinel of another user says that the binding has been seen.
    grant(c, "alice", json!([rule(&[""], &["configmaps"], &["list"])]));
    allowed(c, as_user("GET", "cm", "alice")).is(200);
    c.call(&as_user("GET", "cm", "carol")).is(403);
}

fn role_revoked(c: &Case) {
    grant(c, "alice", json!([rule(&[""], &["configmaps"], &["list"])]));
    allowed(c, as_user("GET", "cm", "alice")).is(200);
    c.delete("rb/b-for-alice").is(200);
    c.until_call(&as_user("GET", "cm", "alice"), |reply| reply.status == 403);
}

fn watch_needs_watch(c: &Case) {
    grant(c, "alice", json!([rule(&[""], &["configmaps"], &["list"])]));
    allowed(c, as_user("GET", "cm", "alice")).is(200);
    c.call(&as_user("GET", "cm?watch=true&timeoutSeconds=1", "alice")).refused(403, "Forbidden");
}

fn deletecollection_verb(c: &Case) {
    grant(c, "alice", json!([rule(&[""], &["configmaps"], &["delete"])]));
    c.post("cm", &cm("a")).is(201);
    allowed(c, as_user("DELETE", "cm/a", "alice")).is(200);
    c.call(&as_user("DELETE", "cm", "alice")).refused(403, "Forbidden");
}

fn patch_verb(c: &Case) {
    grant(c, "alice", json!([rule(&[""], &["configmaps"], &["patch"])]));
    c.post("cm", &cm("a")).is(201);
    allowed(c, as_user("PATCH", "cm/a", "alice").text("application/merge-patch+json", "{}"))
        .is(200);
    c.call(&as_user("PUT", "cm/a", "alice").json(&cm("a"))).refused(403, "Forbidden");
}

fn apply_create_verb(c: &Case) {
    grant(c, "alice", json!([rule(&[""], &["configmaps"], &["patch"])]));
    c.post("cm", &cm("a")).is(201);
    allowed(c, as_user("PATCH", "cm/a", "alice").text("application/merge-patch+json", "{}"))
        .is(200);
    // What is not there would be created.
    c.call(
        &as_user("PATCH", "cm/new?fieldManager=m", "alice")
            .text("application/apply-patch+yaml", &cm("new").to_string()),
    );
    c.call(
        &as_user("PATCH", "cm/a?fieldManager=m", "alice")
            .text("application/apply-patch+yaml", &cm("a").to_string()),
    )
    .is(200);
    c.call(
        &as_user("PUT", "lease/new", "alice")
            .json(&json!({"metadata": {"name": "new"}, "spec": {}})),
    )
    .is(403);
}

fn status_is_apart(c: &Case) {
    grant(c, "alice", json!([rule(&["parity.sutler.dev"], &["toys"], &["get", "patch"])]));
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    allowed(c, as_user("GET", "toy/a", "alice")).is(200);
    c.call(
        &as_user("PATCH", "toy/a/status", "alice")
            .text("application/merge-patch+json", "{\"status\":{\"phase\":\"x\"}}"),
    )
    .refused(403, "Forbidden");
}

fn access(attributes: Value) -> Value {
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}})
}

fn review_allowed(c: &Case) {
    c.post("ssar", &access(json!({"namespace": "{ns}", "verb": "get", "resource": "pods"})))
        .is(201)
        .has("/status/allowed", true);
    grant(c, "alice", json!([rule(&[""], &["configmaps"], &["list"])]));
    let call = as_user("POST", "ssar", "alice")
        .json(&access(json!({"namespace": "{ns}", "verb": "list", "resource": "configmaps"})));
    c.until_call(&call, |reply| reply.at("/status/allowed") == true);
}

fn review_denied(c: &Case) {
    c.call(
        &as_user("POST", "ssar", "carol")
            .json(&access(json!({"namespace": "{ns}", "verb": "list", "resource": "configmaps"}))),
    )
    .is(201)
    .has("/status/allowed", false);
    c.call(
        &as_user("POST", "ssar", "carol")
            .json(&access(json!({"verb": "*", "resource": "*", "group": "*"}))),
    )
    .is(201)
    .has("/status/allowed", false);
}

fn review_non_resource(c: &Case) {
    let review =
        |path: &str| json!({"spec": {"nonResourceAttributes": {"path": path, "verb": "get"}}});
    c.call(&as_user("POST", "ssar", "carol").json(&review("/metrics")))
        .is(201)
        .has("/status/allowed", false);
    c.call(&as_user("POST", "ssar", "carol").json(&review("/api/x")))
        .is(201)
        .has("/status/allowed", true);
}

fn review_subresource(c: &Case) {
    grant(c, "alice", json!([rule(&["apps"], &["deployments/scale"], &["get"])]));
    let review = |sub: &str| {
        access(
            json!({"namespace": "{ns}", "verb": "get", "group": "apps", "resource": "deployments", "subresource": sub}),
        )
    };
    let call = as_user("POST", "ssar", "alice").json(&review("scale"));
    c.until_call(&call, |reply| reply.at("/status/allowed") == true);
    c.call(&as_user("POST", "ssar", "alice").json(&review("")))
        .is(201)
        .has("/status/allowed", false);
    c.call(&as_user("POST", "ssar", "alice").json(&review("status")))
        .is(201)
        .has("/status/allowed", false);
}

fn review_all(c: &Case) {
    c.post("ssar", &access(json!({"verb": "*", "resource": "*", "group": "*"})))
        .is(201)
        .has("/status/allowed", true);
}

fn review_bad(c: &Case) {
    c.post("ssar", &json!({"spec": {}})).is(422);
    c.post("ssar", &json!({})).is(422);
    c.post("ssar", &json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}, "nonResourceAttributes": {"path": "/", "verb": "get"}}})).is(422);
    c.post("ssar", &json!({"metadata": {"name": "x", "namespace": "y"}, "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}));
    c.post("ssar", &json!({"kind": "Pod", "apiVersion": "v1"})).is(400);
    c.get("ssar").is(405);
}

fn review_of_group(c: &Case) {
    c.post(
        "role",
        &json!({"metadata": {"name": "r"}, "rules": [rule(&[""], &["configmaps"], &["list"])]}),
    )
    .is(201);
    bind(
        c,
        "r",
        "Role",
        json!([{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "auditors"}]),
    );
    let call = as_user("POST", "ssar", "dave")
        .json(&access(json!({"namespace": "{ns}", "verb": "list", "resource": "configmaps"})));
    c.until_call(&call, |reply| reply.at("/status/allowed") == true);
}

fn rules_review(c: &Case) {
    grant(c, "alice", json!([rule(&["parity.sutler.dev"], &["toys"], &["get", "list"])]));
    let call = as_user("POST", "ssrr", "alice").json(&json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "{ns}"}}));
    let reply =
        c.until_call(&call.quiet(), |reply| reply.body.to_string().contains("parity.sutler.dev"));
    let reply = reply.is(201).has("/status/incomplete", false);
    let rules = reply.at("/status/resourceRules").as_array().cloned().unwrap_or_default();
    c.note(
        "of toys",
        json!(rules.iter().filter(|rule| rule["resources"][0] == "toys").collect::<Vec<_>>()),
    );
    let basic =
        rules.iter().any(|rule| rule["resources"].to_string().contains("selfsubjectaccessreviews"));
    c.check(basic, "everybody may review themselves");
}

fn rules_review_bad(c: &Case) {
    c.post("ssrr", &json!({"spec": {}})).is(400);
    c.post("ssrr", &json!({})).is(400);
}

fn whoami(c: &Case) {
    c.post("ssr", &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}))
        .is(201)
        .has("/status/userInfo/username", "admin");
    c.call(&as_user("POST", "ssr", "carol").json(&json!({})))
        .is(201)
        .has("/status/userInfo/username", "carol");
}

fn whoami_groups(c: &Case) {
    c.call(&as_user("POST", "ssr", "bob").json(&json!({})))
        .is(201)
        .has("/status/userInfo/groups", json!(["devs", "ops", "system:authenticated"]))
        .shows("/status/userInfo/uid");
}

fn whoami_bad(c: &Case) {
    c.post("ssr", &json!({"kind": "Pod", "apiVersion": "v1"})).is(400);
    c.call(&Call::new("POST", "ssr").json(&json!({})).anonymous()).is(401);
    c.post("ssr?dryRun=All", &json!({})).is(201);
}

fn may_write_roles(c: &Case, more: &[Value]) {
    let mut rules = vec![rule(
        &["rbac.authorization.k8s.io"],
        &["roles", "rolebindings"],
        &["get", "list", "create", "update", "patch"],
    )];
    rules.extend_from_slice(more);
    grant(c, "alice", json!(rules));
    allowed(c, as_user("GET", "role", "alice").quiet()).is(200);
}

fn escalation_role(c: &Case) {
    may_write_roles(c, &[rule(&[""], &["configmaps"], &["get"])]);
    let role = |name: &str, verb: &str| json!({"metadata": {"name": name}, "rules": [rule(&[""], &["configmaps"], &[verb])]});
    c.call(&as_user("POST", "role", "alice").json(&role("mine", "get"))).is(201);
    c.call(&as_user("POST", "role", "alice").json(&role("more", "delete")))
        .refused(403, "Forbidden")
        .says("is attempting to grant RBAC permissions not currently held");
    c.call(&as_user("POST", "role", "alice").json(&role("all", "*"))).refused(403, "Forbidden");
    c.get("role/more").is(404);
}

fn escalation_binding(c: &Case) {
    may_write_roles(c, &[rule(&[""], &["configmaps"], &["get"])]);
    c.post(
        "role",
        &json!({"metadata": {"name": "strong"}, "rules": [rule(&[""], &["secrets"], &["*"])]}),
    )
    .is(201);
    c.post(
        "role",
        &json!({"metadata": {"name": "weak"}, "rules": [rule(&[""], &["configmaps"], &["get"])]}),
    )
    .is(201);
    let binding = |role: &str| json!({"metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}, "subjects": [{"kind": "User", "name": "carol"}]});
    c.until_call(&as_user("POST", "rb", "alice").json(&binding("weak")), |reply| {
        reply.status == 201 || reply.status == 409
    });
    c.call(&as_user("POST", "rb", "alice").json(&binding("strong"))).refused(403, "Forbidden");
    c.call(&as_user("POST", "rb", "alice").json(&binding("none")));
}

fn escalation_by_escalate(c: &Case) {
    may_write_roles(c, &[rule(&["rbac.authorization.k8s.io"], &["roles"], &["escalate"])]);
    c.call(
        &as_user("POST", "role", "alice").json(
            &json!({"metadata": {"name": "x"}, "rules": [rule(&[""], &["secrets"], &["*"])]}),
        ),
    )
    .is(201);
}

fn escalation_by_bind(c: &Case) {
    c.post(
        "role",
        &json!({"metadata": {"name": "strong"}, "rules": [rule(&[""], &["secrets"], &["*"])]}),
    )
    .is(201);
    may_write_roles(
        c,
        &[
            json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "resourceNames": ["strong"], "verbs": ["bind"]}),
        ],
    );
    let binding = |role: &str| json!({"metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}, "subjects": [{"kind": "User", "name": "carol"}]});
    c.call(&as_user("POST", "rb", "alice").json(&binding("strong"))).is(201);
}

fn escalation_update(c: &Case) {
    c.post(
        "role",
        &json!({"metadata": {"name": "x"}, "rules": [rule(&[""], &["secrets"], &["get"])]}),
    )
    .is(201);
    may_write_roles(c, &[rule(&[""], &["configmaps"], &["get"])]);
    c.call(&as_user("PATCH", "role/x", "alice").text(
        "application/merge-patch+json",
        &json!({"rules": [rule(&[""], &["secrets"], &["get", "list"])]}).to_string(),
    ))
    .refused(403, "Forbidden");
    // Any change of a role that grants more than one holds.
    c.call(&as_user("PATCH", "role/x", "alice").text(
        "application/merge-patch+json",
        &json!({"metadata": {"labels": {"a": "b"}}}).to_string(),
    ))
    .refused(403, "Forbidden");
}

fn binding_immutable(c: &Case) {
    bind(c, "view", "ClusterRole", json!([]));
    c.merge("rb/b-view", &json!({"roleRef": {"name": "edit"}}))
        .refused(422, "Invalid")
        .blames("roleRef");
    c.merge("rb/b-view", &json!({"subjects": [{"kind": "User", "name": "x"}]}))
        .is(200)
        .has("/subjects/0/apiGroup", "rbac.authorization.k8s.io");
}

fn binding_bad(c: &Case) {
    let binding = |role: Value, subjects: Value| json!({"metadata": {"name": "b"}, "roleRef": role, "subjects": subjects});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"});
    c.post("rb", &binding(json!({}), json!([]))).refused(422, "Invalid");
    c.post("rb", &binding(json!({"kind": "Pod", "name": "r"}), json!([]))).refused(422, "Invalid");
    c.post("rb", &binding(role.clone(), json!([{"kind": "Alien", "name": "x"}])))
        .refused(422, "Invalid");
    c.post("rb", &binding(role.clone(), json!([{"kind": "User"}]))).refused(422, "Invalid");
    c.post("rb", &binding(role.clone(), json!([{"kind": "ServiceAccount", "name": "x"}]))).is(201);
    c.delete("rb/b").is(200);
    c.post("rb", &binding(role, json!([{"kind": "ServiceAccount", "name": "BAD", "namespace": "n"}, {"kind": "User", "apiGroup": "x", "name": "y"}]))).refused(422, "Invalid");
    c.post("crb", &json!({"metadata": {"name": "{ns}"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}})).refused(422, "Invalid");
}

fn role_bad(c: &Case) {
    let role = |rule: Value| json!({"metadata": {"name": "r"}, "rules": [rule]});
    c.post("role", &role(json!({}))).refused(422, "Invalid");
    c.post("role", &role(json!({"apiGroups": [""], "resources": ["pods"], "verbs": []})))
        .refused(422, "Invalid");
    c.post("role", &role(json!({"apiGroups": [""], "verbs": ["get"]}))).refused(422, "Invalid");
    c.post("role", &role(json!({"resources": ["pods"], "verbs": ["get"]}))).refused(422, "Invalid");
    c.post("role", &role(json!({"nonResourceURLs": ["/x"], "verbs": ["get"]})))
        .refused(422, "Invalid");
    c.post("role", &role(json!({"apiGroups": "", "resources": ["pods"], "verbs": ["get"]})))
        .is(400);
}

fn cluster_role_bad(c: &Case) {
    let role = |rule: Value| json!({"metadata": {"name": "{ns}"}, "rules": [rule]});
    c.post("crole", &role(json!({"nonResourceURLs": ["/x"], "apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}))).refused(422, "Invalid");
    c.post("crole", &role(json!({"nonResourceURLs": ["/x*"], "verbs": ["get"]}))).is(201);
    c.delete("crole/{ns}").is(200);
}

fn default_roles(c: &Case) {
    for name in ["cluster-admin", "admin", "edit", "view"] {
        let role = c.call(&Call::new("GET", &format!("crole/{name}")).quiet()).is(200);
        c.note(
            name,
            json!([
                role.at("/metadata/labels"),
                role.at("/metadata/annotations"),
                role.at("/aggregationRule")
            ]),
        );
    }
    let admin = c.call(&Call::new("GET", "crole/cluster-admin").quiet()).is(200);
    c.note("rules", admin.at("/rules").clone());
    let binding = c.call(&Call::new("GET", "crb/cluster-admin").quiet()).is(200);
    c.note("binding", json!([binding.at("/roleRef"), binding.at("/subjects")]));
}

fn aggregated_role(c: &Case) {
    let role = json!({"metadata": {"name": "{ns}"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"of": "{ns}"}}]}, "rules": []});
    c.post("crole", &role).is(201).shows("/aggregationRule");
    c.delete("crole/{ns}").is(200);
}

fn impersonation_denied(c: &Case) {
    c.call(&as_user("GET", "cm", "carol").header("impersonate-user", "admin"))
        .refused(403, "Forbidden");
}

fn create_name_unknown(c: &Case) {
    grant(
        c,
        "alice",
        json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["create", "get"]}]),
    );
    allowed(c, as_user("GET", "cm/a", "alice")).is(404);
    // The name of what is created is not known when rights are looked at.
    c.call(&as_user("POST", "cm", "alice").json(&cm("a"))).refused(403, "Forbidden");
}
