use proptest::prelude::*;
use serde_json::{Value, json};

use super::escalation::{self, Write};
use super::*;
use crate::auth::recorded::{self, list, text};

#[test]
fn decides_as_the_real_server_did() {
    let recorded = recorded::load();
    let policy = recorded::policy(&recorded);
    for case in list(&recorded, "decisions") {
        let user = recorded::user(case);
        let request = match case["path"].as_str() {
            Some(path) => Attributes::path(&user, text(case, "verb"), path),
            None => Attributes {
                subresource: text(case, "subresource"),
                namespace: text(case, "namespace"),
                name: text(case, "name"),
                ..Attributes::resource(
                    &user,
                    text(case, "verb"),
                    text(case, "group"),
                    text(case, "resource"),
                )
            },
        };
        let decision = policy.authorize(&request);
        assert_eq!(decision.allowed, case["allowed"], "{case}");
        assert_eq!(policy.allows(&request), decision.allowed, "{case}");
        // Without a reason on record, several bindings allow it and the real one picks any.
        if let Some(reason) = case["reason"].as_str() {
            assert_eq!(decision.reason, reason, "{case}");
        }
    }
}

#[test]
fn refuses_in_the_words_of_the_real_server() {
    let recorded = recorded::load();
    let user = |name: &str| User { name: name.to_owned(), ..User::default() };
    let (jane, odd, wide) = (user("jane"), user("a<b>&\"c"), user("größe 日本\u{a0}x"));
    let dangling = user("dangling");
    let list_ = |verb, group, resource| Attributes::resource(&jane, verb, group, resource);
    let requests = [
        Attributes { namespace: "default", ..list_("list", "", "configmaps") },
        list_("list", "", "configmaps"),
        Attributes { namespace: "default", name: "x", ..list_("get", "", "configmaps") },
        Attributes {
            namespace: "ns1",
            name: "x",
            subresource: "scale",
            ..list_("get", "apps", "deployments")
        },
        Attributes::path(&jane, "get", "/metrics"),
        Attributes { name: "n", ..Attributes::resource(&odd, "get", "", "nodes") },
        Attributes { namespace: "ns1", ..list_("deletecollection", "", "pods") },
        Attributes { namespace: "ns1", name: "ns1", ..list_("get", "", "namespaces") },
        Attributes::resource(&dangling, "list", "", "nodes"),
        Attributes {
            namespace: "ns1",
            name: "p",
            subresource: "eviction",
            ..list_("create", "", "pods")
        },
        Attributes::path(&jane, "get", "/a<b"),
        Attributes::resource(&wide, "list", "", "nodes"),
    ];
    let policy = recorded::policy(&recorded);
    let answers = list(&recorded, "forbidden");
    assert_eq!(answers.len(), requests.len());
    for (request, answer) in requests.iter().zip(answers) {
        let decision = policy.authorize(request);
        assert!(!decision.allowed);
        assert_eq!(forbidden_message(request, &decision.reason), answer["message"]);
    }
}

#[test]
fn escalation_is_refused_as_the_real_server_did() {
    const RESOURCES: [&str; 4] = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];
    let recorded = recorded::load();
    let policy = recorded::policy(&recorded);
    for case in list(&recorded, "escalation") {
        let user = recorded::user(case);
        let path: Vec<&str> = text(case, "path").split('/').skip(4).collect();
        let (namespace, path) = match path.as_slice() {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let resource = *RESOURCES.iter().find(|resource| **resource == path[0]).unwrap();
        let url_name = path.get(1).copied().unwrap_or_default();
        let old = list(&recorded, "objects").iter().find(|object| {
            object["metadata"]["name"] == url_name && object["kind"] == case["body"]["kind"]
        });
        let new = &case["body"];
        let write = Write { user: &user, resource, namespace, url_name, new, old };
        let answer = match resource.ends_with("bindings") {
            true => escalation::check_binding(&policy, &write),
            false => escalation::check_role(&policy, &write),
        };
        match answer {
            Ok(()) => assert!(case["code"].as_u64().unwrap() < 300, "{case}"),
            Err(refusal) => {
                assert_eq!(refusal.to_string(), case["message"], "{case}");
                let code = match refusal {
                    escalation::Refusal::Forbidden { .. } => 403,
                    escalation::Refusal::RoleNotFound { .. } => 404,
                    escalation::Refusal::UnknownRoleKind(_) => 500,
                };
                assert_eq!(case["code"], code);
            }
        }
    }
}

#[test]
fn the_collector_may_touch_owners_of_any_role() {
    let user = User { name: "gc".into(), ..User::default() };
    let policy = Policy::default();
    let old = json!({"metadata": {"name": "r", "finalizers": ["a"]},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    let check = |new: &Value| {
        let (namespace, url_name, old) = ("", "r", Some(&old));
        let write = Write { user: &user, resource: "clusterroles", namespace, url_name, new, old };
        escalation::check_role(&policy, &write)
    };
    let mut new = old.clone();
    new["metadata"]["finalizers"] = json!([]);
    new["metadata"]["ownerReferences"] = json!([{"name": "x"}]);
    assert_eq!(check(&new), Ok(()));
    new["metadata"]["labels"] = json!({"a": "b"});
    assert!(check(&new).is_err());
}

#[test]
fn reviews_list_what_the_real_server_lists() {
    let recorded = recorded::load();
    let policy = recorded::policy(&recorded);
    let sorted = |value: &Value| {
        let mut rules: Vec<String> =
            value.as_array().unwrap().iter().map(Value::to_string).collect();
        rules.sort();
        rules
    };
    for case in list(&recorded, "reviews") {
        let user = recorded::user(case);
        let status = policy.rules_for(&user, text(case, "namespace")).review_status();
        for part in ["resourceRules", "nonResourceRules"] {
            assert_eq!(sorted(&status[part]), sorted(&case["status"][part]), "{case}");
        }
        assert_eq!(status["incomplete"], case["status"]["incomplete"]);
        assert_eq!(status.get("evaluationError"), case["status"].get("evaluationError"));
    }
}

#[test]
fn aggregation_collects_by_label_and_through_others() {
    let rule =
        |resource: &str| json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]});
    let plain = |name: &str, labels: Value, resource: &str| json!({"metadata": {"name": name, "labels": labels}, "rules": [rule(resource)]});
    let collect = |name: &str, labels: Value, selectors: Value, rules: Value| {
        json!({"metadata": {"name": name, "labels": labels}, "rules": rules,
            "aggregationRule": {"clusterRoleSelectors": selectors}})
    };
    let roles = [
        collect("outer", json!({}), json!([{"matchLabels": {"to": "outer"}}]), json!(null)),
        collect(
            "inner",
            json!({"to": "outer", "x": "1"}),
            json!([{"matchExpressions": [{"key": "x", "operator": "In", "values": ["1", "2"]}]}]),
            json!([rule("stale")]),
        ),
        collect(
            "broken",
            json!({}),
            json!([{"matchExpressions": [{"key": "x", "operator": "Near"}]}]),
            json!([rule("kept")]),
        ),
        // Two that collect each other settle on what they collect besides.
        collect("loop1", json!({"l": "2"}), json!([{"matchLabels": {"l": "1"}}]), json!([])),
        collect("loop2", json!({"l": "1"}), json!([{"matchLabels": {"l": "2"}}]), json!([])),
        plain("a", json!({"x": "1"}), "pods"),
        plain("b", json!({"x": "2"}), "pods"),
        plain("c", json!({"x": "3"}), "nodes"),
        plain("d", json!({"l": "1"}), "events"),
    ];
    let outdated = aggregate::outdated(&roles);
    let events = json!([rule("events")]);
    let want = [
        ("inner", json!([rule("pods")])),
        ("loop1", events.clone()),
        ("loop2", events),
        ("outer", json!([rule("pods")])),
    ];
    let want: Vec<(String, Vec<Value>)> = want
        .into_iter()
        .map(|(name, rules)| (name.to_owned(), rules.as_array().unwrap().clone()))
        .collect();
    assert_eq!(outdated, want);

    let bind = |role: &str| {
        json!({"metadata": {"name": role}, "subjects": [{"kind": "User", "name": role}],
            "roleRef": {"kind": "ClusterRole", "name": role}})
    };
    let bindings = [bind("outer"), bind("broken")];
    let policy = Policy::build(&roles, [], &bindings, []);
    let may = |name: &str, resource: &str| {
        let user = User { name: name.to_owned(), ..User::default() };
        policy.allows(&Attributes::resource(&user, "get", "", resource))
    };
    assert!(may("outer", "pods") && !may("outer", "stale") && !may("outer", "nodes"));
    assert!(may("broken", "kept"));
}

#[test]
fn a_shard_is_replaced_alone() {
    let role = |resource: &str| {
        json!({"metadata": {"name": "r"},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]})
    };
    let binding = |kind: &str| {
        json!({"metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "u"}],
            "roleRef": {"kind": kind, "name": "r"}})
    };
    let user = User { name: "u".into(), ..User::default() };
    let may = |policy: &Policy, namespace, resource| {
        policy.allows(&Attributes { namespace, ..Attributes::resource(&user, "get", "", resource) })
    };
    let one = Policy::default().with_namespace("n1", [&role("pods")], [&binding("Role")]);
    let two = one.with_namespace("n2", [], [&binding("ClusterRole")]);
    assert!(may(&two, "n1", "pods") && !may(&two, "n2", "nodes"));
    // A binding follows its role by name, whichever came first.
    let three = two.with_cluster([&role("nodes")], []);
    assert!(may(&three, "n1", "pods") && may(&three, "n2", "nodes") && !may(&three, "", "nodes"));
    let four = three.with_namespace("n1", [], []);
    assert!(!may(&four, "n1", "pods") && may(&four, "n2", "nodes"));
    assert!(may(&three, "n1", "pods"), "a snapshot does not change");
}

#[test]
fn astronomical_grants_are_refused_in_bounded_time() {
    let many = |prefix: &str| (0..3000).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let grant =
        Rule { api_groups: many("g"), resources: many("r"), verbs: many("v"), ..Rule::default() };
    let half = Rule { resources: vec!["*".into()], ..grant.clone() };
    let half = Rule { verbs: half.verbs[..2999].to_vec(), ..half };
    assert!(!cover::uncovered(&[&half], std::slice::from_ref(&grant)).is_empty());
    let all = || vec!["*".to_owned()];
    let full = Rule { api_groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    assert!(cover::uncovered(&[&full], &[grant]).is_empty());
}

/// The rules read straight off their description, with no index and no shortcut.
fn naive(objects: &[Value], request: &Attributes<'_>) -> bool {
    let s = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let has = |list: &Value, wanted: &str| {
        list.as_array().is_some_and(|list| list.iter().any(|item| item == wanted))
    };
    if request.user.groups.iter().any(|group| group == "system:masters") {
        return true;
    }
    objects.iter().filter(|o| s(o, "kind").ends_with("Binding")).any(|binding| {
        let namespace = s(&binding["metadata"], "namespace");
        if !namespace.is_empty() && namespace != request.namespace {
            return false;
        }
        let applies = binding["subjects"].as_array().unwrap().iter().any(|subject| {
            let name = s(subject, "name");
            match s(subject, "kind").as_str() {
                "User" => name == request.user.name,
                "Group" => request.user.groups.contains(&name),
                _ => {
                    let own = s(subject, "namespace");
                    let place = if own.is_empty() { &namespace } else { &own };
                    !place.is_empty()
                        && request.user.name == format!("system:serviceaccount:{place}:{name}")
                }
            }
        });
        let role = objects.iter().find(|o| {
            let home = match s(&binding["roleRef"], "kind").as_str() {
                "Role" => namespace.clone(),
                _ => String::new(),
            };
            s(o, "kind") == s(&binding["roleRef"], "kind")
                && s(&o["metadata"], "name") == s(&binding["roleRef"], "name")
                && s(&o["metadata"], "namespace") == home
        });
        let rules = role.map(|role| role["rules"].as_array().unwrap().clone()).unwrap_or_default();
        applies
            && rules.iter().any(|rule| {
                let verb = has(&rule["verbs"], "*") || has(&rule["verbs"], request.verb);
                let sub = request.subresource;
                if !request.is_resource {
                    let urls = rule["nonResourceURLs"].as_array().cloned().unwrap_or_default();
                    return verb
                        && urls.iter().filter_map(Value::as_str).any(|url| {
                            match url.split_once('*') {
                                Some((start, _)) => request.path.starts_with(start),
                                None => request.path == url,
                            }
                        });
                }
                let full = match sub {
                    "" => request.resource.to_owned(),
                    sub => format!("{}/{sub}", request.resource),
                };
                let resources = &rule["resources"];
                let names = rule["resourceNames"].as_array().is_none_or(Vec::is_empty);
                verb && (has(&rule["apiGroups"], "*") || has(&rule["apiGroups"], request.group))
                    && (has(resources, "*")
                        || has(resources, &full)
                        || (!sub.is_empty() && has(resources, &format!("*/{sub}"))))
                    && (names || has(&rule["resourceNames"], request.name))
            })
    })
}

fn some_of(items: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(items), 0..3)
}

fn one_of(items: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(items)
}

const VERBS: &[&str] = &["get", "list", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*/log", "nodes", "*"];
const NAMES: &[&str] = &["x", "y"];
const URLS: &[&str] = &["/a", "/a*", "/b/*", "*"];
const NAMESPACES: &[&str] = &["n1", "n2"];

fn rules() -> impl Strategy<Value = Value> {
    let resources =
        (some_of(VERBS), some_of(GROUPS), some_of(RESOURCES), prop::option::of(some_of(NAMES)))
            .prop_map(|(verbs, groups, resources, names)| {
                json!({"verbs": verbs, "apiGroups": groups, "resources": resources,
                    "resourceNames": names.unwrap_or_default()})
            });
    let paths = (some_of(VERBS), some_of(URLS))
        .prop_map(|(verbs, urls)| json!({"verbs": verbs, "nonResourceURLs": urls}));
    prop::collection::vec(prop_oneof![3 => resources, 1 => paths], 0..4).prop_map(Value::from)
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    match namespace {
        Some(namespace) => json!({"name": name, "namespace": namespace}),
        None => json!({"name": name}),
    }
}

fn role_object() -> impl Strategy<Value = Value> {
    (one_of(&["r1", "r2"]), prop::option::of(one_of(NAMESPACES)), rules()).prop_map(
        |(name, namespace, rules)| {
            let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
            json!({"kind": kind, "metadata": metadata(name, namespace), "rules": rules})
        },
    )
}

fn binding_object() -> impl Strategy<Value = Value> {
    let subject = (
        one_of(&["User", "Group", "ServiceAccount"]),
        one_of(&["a", "b", "g"]),
        one_of(&["", "n1", "n2"]),
    )
        .prop_map(
            |(kind, name, namespace)| json!({"kind": kind, "name": name, "namespace": namespace}),
        );
    (
        "[a-z]{6}",
        prop::option::of(one_of(NAMESPACES)),
        prop::collection::vec(subject, 0..3),
        one_of(&["Role", "ClusterRole"]),
        one_of(&["r1", "r2", "r3"]),
    )
        .prop_map(|(name, namespace, subjects, role_kind, role)| {
            let kind = if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" };
            let role_kind = if namespace.is_some() { role_kind } else { "ClusterRole" };
            json!({"kind": kind, "metadata": metadata(&name, namespace), "subjects": subjects,
                "roleRef": {"kind": role_kind, "name": role}})
        })
}

fn objects() -> impl Strategy<Value = Vec<Value>> {
    let roles = prop::collection::vec(role_object(), 0..6).prop_map(|mut roles| {
        // Names are unique within a kind and namespace, as in a store.
        let mut seen = std::collections::HashSet::new();
        roles.retain(|role| seen.insert(role["metadata"].to_string()));
        roles
    });
    (roles, prop::collection::vec(binding_object(), 0..6))
        .prop_map(|(roles, bindings)| roles.into_iter().chain(bindings).collect())
}

fn build(objects: &[Value]) -> Policy {
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    Policy::build(of("ClusterRole"), of("Role"), of("ClusterRoleBinding"), of("RoleBinding"))
}

/// Every request that the vocabulary of the random policies can tell apart.
fn requests(user: &User) -> Vec<Attributes<'_>> {
    let mut all = Vec::new();
    for verb in ["get", "list", "watch"] {
        for path in ["/a", "/ab", "/b", "/b/c", "/"] {
            all.push(Attributes::path(user, verb, path));
        }
        for group in ["", "apps", "x"] {
            for resource in ["pods", "nodes", "other"] {
                for subresource in ["", "log", "scale"] {
                    for namespace in ["", "n1", "n2", "n3"] {
                        for name in ["", "x", "z"] {
                            all.push(Attributes {
                                subresource,
                                namespace,
                                name,
                                ..Attributes::resource(user, verb, group, resource)
                            });
                        }
                    }
                }
            }
        }
    }
    all
}

fn some_user() -> impl Strategy<Value = User> {
    let name = one_of(&["a", "b", "system:serviceaccount:n1:a", "system:serviceaccount:n2:b"]);
    let groups = prop::collection::vec(one_of(&["g", "b", "h"]), 0..3);
    (name, groups).prop_map(|(name, groups)| User {
        name: name.to_owned(),
        groups: groups.into_iter().map(str::to_owned).collect(),
        ..User::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn agrees_with_the_naive_reading(objects in objects(), user in some_user()) {
        let policy = build(&objects);
        for request in requests(&user) {
            prop_assert_eq!(policy.allows(&request), naive(&objects, &request), "{:?}", request);
        }
    }

    #[test]
    fn one_more_binding_takes_nothing_away(
        objects in objects(), more in binding_object(), user in some_user()
    ) {
        let before = build(&objects);
        let after = build(&[objects, vec![more]].concat());
        for request in requests(&user) {
            prop_assert!(!before.allows(&request) || after.allows(&request), "{:?}", request);
        }
    }

    /// Whoever is told that nothing is missing can already do all that the rules allow.
    #[test]
    fn what_is_not_missing_is_held(objects in objects(), granted in rules(), user in some_user()) {
        let policy = build(&objects);
        let granted: Vec<Rule> =
            granted.as_array().unwrap().iter().map(Rule::from_value).collect();
        let missing = policy.missing(&user, "n1", &granted);
        for request in requests(&user) {
            let gained = granted.iter().any(|rule| rule.allows(&request));
            let still_missing = missing.iter().any(|rule| rule.allows(&request));
            if request.namespace == "n1" && gained && !still_missing {
                prop_assert!(policy.allows(&request), "{:?}", request);
            }
        }
        // And a user who was given just that lacks nothing.
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "all"},
            "rules": granted.iter().map(Rule::to_value).collect::<Vec<_>>()});
        let binding = json!({"kind": "ClusterRoleBinding", "metadata": {"name": "all"},
            "subjects": [{"kind": "User", "name": user.name}],
            "roleRef": {"kind": "ClusterRole", "name": "all"}});
        let given = build(&[objects, vec![role, binding]].concat());
        prop_assert_eq!(given.missing(&user, "n1", &granted), vec![]);
    }
}
