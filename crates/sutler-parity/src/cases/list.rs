//! List: selectors, pages and versions.

use base64::Engine as _;
use serde_json::json;

use super::{cm, labelled, make, toy};
use crate::case::Case;
use crate::suite::subject;

subject!("list":
    empty, sorted_by_name, custom_items, all_namespaces, all_kinds_empty,
    label_equal, label_sets, label_exists, label_compare, label_syntax, label_bad_values, label_whitespace,
    field_name, field_namespace, field_unknown, field_syntax, field_escapes, field_secret_type, field_pod, field_event,
    field_selectable, field_and_label, field_node,
    pages, pages_see_one_moment, pages_with_labels, pages_all_namespaces, page_larger_than_all, limit_bad, limit_zero,
    token_bad, token_of_other_kind, token_with_version, token_forged, token_forged_key,
    version_zero, version_not_older, version_exact, version_exact_after_writes, match_bad, match_without_version, zero_exact,
    version_with_limit, initial_events_without_watch, timeout_bad, version_bad,
    ; alone: token_expired, version_compacted,
);

fn empty(c: &Case) {
    c.get("cm")
        .is(200)
        .has("/kind", "ConfigMapList")
        .has("/items", json!([]))
        .shows("/metadata/resourceVersion");
    c.get("toy")
        .is(200)
        .has("/kind", "ToyList")
        .has("/items", json!([]))
        .has("/apiVersion", "parity.sutler.dev/v1");
}

fn sorted_by_name(c: &Case) {
    make(c, &["b", "a-1", "a", "c", "a0"]);
    // The items of built-in lists carry neither kind nor version.
    c.get("cm").is(200).items(&["a", "a-1", "a0", "b", "c"]).lacks("/items/0/kind");
}

fn custom_items(c: &Case) {
    for name in ["b", "a"] {
        c.post("toy", &toy(name, json!({"size": 1}))).is(201);
    }
    c.get("toy").is(200).items(&["a", "b"]).has("/items/0/kind", "Toy");
}

fn all_namespaces(c: &Case) {
    c.post("ns", &json!({"metadata": {"name": "{ns}-2"}})).is(201);
    // The order is that of keys: `{ns}-2/…` comes before `{ns}/…`.
    c.post("cm", &labelled("a", json!({"of": "{ns}"}))).is(201);
    c.post("/api/v1/namespaces/{ns}-2/configmaps", &labelled("b", json!({"of": "{ns}"}))).is(201);
    c.get("/api/v1/configmaps?labelSelector=of%3D{ns}").is(200).items(&["b", "a"]);
    c.get("/api/v1/configmaps?fieldSelector=metadata.namespace%3D{ns}-2").is(200).items(&["b"]);
    c.post("toy", &toy("t", json!({"size": 1}))).is(201);
    c.get("/apis/parity.sutler.dev/v1/toys?fieldSelector=metadata.namespace%3D{ns}")
        .is(200)
        .items(&["t"]);
}

fn all_kinds_empty(c: &Case) {
    for path in [
        "secret", "pod", "svc", "sa", "event", "pvc", "deploy", "rs", "ds", "pdb", "lease", "role",
        "rb", "plain",
    ] {
        c.get(path).is(200).items(&[]);
    }
}

fn three(c: &Case) {
    c.post("cm", &labelled("a", json!({"tier": "web", "n": "5"}))).is(201);
    c.post("cm", &labelled("b", json!({"tier": "db", "n": "10", "empty": ""}))).is(201);
    c.post("cm", &cm("c")).is(201);
}

fn label_equal(c: &Case) {
    three(c);
    c.get("cm?labelSelector=tier%3Dweb").is(200).items(&["a"]);
    c.get("cm?labelSelector=tier%3D%3Dweb").is(200).items(&["a"]);
    c.get("cm?labelSelector=tier%21%3Dweb").is(200).items(&["b", "c"]);
    c.get("cm?labelSelector=tier%3Dweb,n%3D5").is(200).items(&["a"]);
    c.get("cm?labelSelector=tier%3Dweb,n%3D10").is(200).items(&[]);
    c.get("cm?labelSelector=empty%3D").is(200).items(&["b"]);
    c.get("cm?labelSelector=").is(200).items(&["a", "b", "c"]);
}

fn label_sets(c: &Case) {
    three(c);
    c.get("cm?labelSelector=tier+in+(web,db)").is(200).items(&["a", "b"]);
    c.get("cm?labelSelector=tier+in+(db)").is(200).items(&["b"]);
    c.get("cm?labelSelector=tier+notin+(web)").is(200).items(&["b", "c"]);
    c.get("cm?labelSelector=tier+in+(web,)").is(200).items(&["a"]);
    c.get("cm?labelSelector=empty+in+(,x)").is(200).items(&["b"]);
}

fn label_exists(c: &Case) {
    three(c);
    c.get("cm?labelSelector=tier").is(200).items(&["a", "b"]);
    c.get("cm?labelSelector=%21tier").is(200).items(&["c"]);
    c.get("cm?labelSelector=%21tier,%21n").is(200).items(&["c"]);
    c.get("cm?labelSelector=tier,%21empty").is(200).items(&["a"]);
}

fn label_compare(c: &Case) {
    three(c);
    c.get("cm?labelSelector=n%3E5").is(200).items(&["b"]);
    c.get("cm?labelSelector=n%3C10").is(200).items(&["a"]);
    c.get("cm?labelSelector=n%3Eabc").is(400);
    c.get("cm?labelSelector=tier%3E5").is(200).items(&[]);
}

fn label_syntax(c: &Case) {
    for selector in [
        "a%3D%3Db%3D%3Dc",
        "a+in+()",
        "a+in+(b",
        "a+in+b",
        "a,,b",
        "%21",
        "a%3D",
        ",",
        "a+b",
        "a+notin",
        "in",
        "a+in+(b)c",
        "%3Da",
        "a%21b",
        "(a)",
        "a%3D(b)",
        "a%3Db,",
        "%21%21a",
        "a%3E",
        "x+in+(a%3Db)",
    ] {
        c.get(&format!("cm?labelSelector={selector}"));
    }
    c.get("toy?labelSelector=a+in+(b").refused(400, "BadRequest");
}

fn label_bad_values(c: &Case) {
    let long = "x".repeat(64);
    c.get(&format!("cm?labelSelector=a%3D{long}")).refused(400, "BadRequest");
    c.get(&format!("cm?labelSelector={long}%3Da")).refused(400, "BadRequest");
    c.get("cm?labelSelector=a%3D-b").refused(400, "BadRequest");
    c.get("cm?labelSelector=a%3Db%2Fc").refused(400, "BadRequest");
    c.get("cm?labelSelector=UPPER%2Fb%3Dc").refused(400, "BadRequest");
    c.get("cm?labelSelector=a%2Fb%2Fc%3Dd").refused(400, "BadRequest");
    c.get("cm?labelSelector=a%3D%C3%A9").refused(400, "BadRequest");
}

fn label_whitespace(c: &Case) {
    three(c);
    c.get("cm?labelSelector=+tier+%3D+web+").is(200).items(&["a"]);
    c.get("cm?labelSelector=tier+in+(+web+,+db+)+,+n").is(200).items(&["a", "b"]);
}

fn field_name(c: &Case) {
    make(c, &["a", "b", "c"]);
    c.get("cm?fieldSelector=metadata.name%3Db").is(200).items(&["b"]);
    c.get("cm?fieldSelector=metadata.name%3D%3Db").is(200).items(&["b"]);
    c.get("cm?fieldSelector=metadata.name%21%3Db").is(200).items(&["a", "c"]);
    c.get("cm?fieldSelector=metadata.name%3Dnone").is(200).items(&[]);
    c.get("cm?fieldSelector=metadata.name%3Da,metadata.name%3Db").is(200).items(&[]);
    c.get("cm?fieldSelector=").is(200).items(&["a", "b", "c"]);
}

fn field_namespace(c: &Case) {
    make(c, &["a"]);
    c.get("cm?fieldSelector=metadata.namespace%3D{ns}").is(200).items(&["a"]);
    c.get("cm?fieldSelector=metadata.namespace%3Delsewhere").is(200).items(&[]);
    c.get("cm?fieldSelector=metadata.namespace%21%3Delsewhere").is(200).items(&["a"]);
}

fn field_unknown(c: &Case) {
    for (path, field) in [
        ("cm", "data.k"),
        ("cm", "metadata.labels"),
        ("toy", "spec.size"),
        ("pod", "spec.colour"),
        ("deploy", "spec.replicas"),
        ("node", "status.phase"),
        ("secret", "data"),
        ("ns", "spec"),
        ("event", "message"),
        ("lease", "spec.holderIdentity"),
        ("world", "spec.moons"),
    ] {
        c.get(&format!("{path}?fieldSelector={field}%3Dx")).refused(400, "BadRequest");
    }
}

fn field_syntax(c: &Case) {
    for selector in [
        "a",
        "metadata.name",
        "metadata.name%3D%5C",
        "metadata.name+in+(a)",
        "%3Da",
        ",",
        "a%3Db,c",
        "%21a",
    ] {
        c.get(&format!("cm?fieldSelector={selector}"));
        c.get(&format!("toy?fieldSelector={selector}"));
    }
}

fn field_escapes(c: &Case) {
    c.get("cm?fieldSelector=metadata.name%3Da%5C%3Db").is(200).items(&[]);
    c.get("cm?fieldSelector=metadata.name%3Da%5C%2Cb").is(200).items(&[]);
    c.get("cm?fieldSelector=metadata.name%3Da%5Cxb").is(400);
    c.get("cm?fieldSelector=metadata.name%3Da%3Db").is(400);
}

fn field_secret_type(c: &Case) {
    c.post("secret", &json!({"metadata": {"name": "a"}})).is(201);
    c.post("secret", &json!({"metadata": {"name": "b"}, "type": "example.com/x"})).is(201);
    c.get("secret?fieldSelector=type%3DOpaque").is(200).items(&["a"]);
    c.get("secret?fieldSelector=type%21%3DOpaque").is(200).items(&["b"]);
}

fn field_pod(c: &Case) {
    let pod = |name: &str, node: &str| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    c.post("pod", &pod("a", "n1")).is(201);
    c.post("pod", &pod("b", "n2")).is(201);
    c.get("pod?fieldSelector=spec.nodeName%3Dn1").is(200).items(&["a"]);
    c.get("pod?fieldSelector=status.phase%3DPending").is(200).items(&["a", "b"]);
    c.get("pod?fieldSelector=spec.nodeName%21%3Dn1,status.phase%3DPending").is(200).items(&["b"]);
    c.get("pod?fieldSelector=spec.restartPolicy%3DNever").is(200).items(&[]);
    c.get("pod?fieldSelector=spec.schedulerName%3Ddefault-scheduler").is(200).items(&["a", "b"]);
    c.get("pod?fieldSelector=spec.serviceAccountName%3D").is(200).items(&["a", "b"]);
}

fn field_event(c: &Case) {
    let event = |name: &str, kind: &str| {
        json!({
            "metadata": {"name": name}, "reason": "R", "type": "Normal", "message": "m",
            "involvedObject": {"kind": kind, "name": "x", "namespace": "{ns}"}, "source": {"component": "t"},
        })
    };
    c.post("event", &event("a", "Pod")).is(201);
    c.post("event", &event("b", "Node")).is(201);
    c.get("event?fieldSelector=involvedObject.kind%3DPod").is(200).items(&["a"]);
    c.get("event?fieldSelector=involvedObject.name%3Dx,type%3DNormal").is(200).items(&["a", "b"]);
    c.get("event?fieldSelector=reason%3DR,involvedObject.kind%21%3DPod").is(200).items(&["b"]);
    c.get("event?fieldSelector=source%3Dt").is(200).items(&["a", "b"]);
    c.get("event?fieldSelector=reportingComponent%3Dt").is(200);
}

fn field_selectable(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.post("toy", &toy("b", json!({"size": 1, "mode": "Slow"}))).is(201);
    c.merge("toy/b/status", &json!({"status": {"phase": "Up"}})).is(200);
    c.get("toy?fieldSelector=spec.mode%3DSlow").is(200).items(&["b"]);
    c.get("toy?fieldSelector=spec.mode%21%3DSlow").is(200).items(&["a"]);
    c.get("toy?fieldSelector=status.phase%3DUp").is(200).items(&["b"]);
    c.get("toy?fieldSelector=status.phase%3D").is(200).items(&["a"]);
    c.get("toy?fieldSelector=spec.mode%3DFast,metadata.name%3Da").is(200).items(&["a"]);
}

fn field_and_label(c: &Case) {
    three(c);
    c.get("cm?labelSelector=tier&fieldSelector=metadata.name%3Db").is(200).items(&["b"]);
    c.get("cm?labelSelector=%21tier&fieldSelector=metadata.name%3Db").is(200).items(&[]);
}

fn field_node(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n", "labels": {"of": "{ns}"}}, "spec": {"unschedulable": true}})).is(201);
    c.get("node?labelSelector=of%3D{ns}&fieldSelector=spec.unschedulable%3Dtrue")
        .is(200)
        .items(&[&format!("{}-n", c.ns)]);
    c.get("node?labelSelector=of%3D{ns}&fieldSelector=spec.unschedulable%3Dfalse")
        .is(200)
        .items(&[]);
    c.get("ns?fieldSelector=status.phase%3DActive,metadata.name%3D{ns}").is(200).items(&[&c.ns]);
    c.delete("node/{ns}-n").is(200);
}

fn pages(c: &Case) {
    make(c, &["a", "b", "c", "d", "e"]);
    let first =
        c.get("cm?limit=2").is(200).items(&["a", "b"]).has("/metadata/remainingItemCount", 3);
    let second = c.get(&format!("cm?limit=2&continue={}", first.next())).is(200).items(&["c", "d"]);
    c.equal(second.rv(), first.rv());
    let third = c.get(&format!("cm?limit=2&continue={}", second.next())).is(200).items(&["e"]);
    third.lacks("/metadata/continue").lacks("/metadata/remainingItemCount");
    // Without a limit the rest comes at once.
    c.get(&format!("cm?continue={}", first.next())).is(200).items(&["c", "d", "e"]);
    let toys = ["a", "b", "c"];
    for name in toys {
        c.post("toy", &toy(name, json!({"size": 1}))).is(201);
    }
    let first = c.get("toy?limit=1").is(200).items(&["a"]).has("/metadata/remainingItemCount", 2);
    c.get(&format!("toy?limit=5&continue={}", first.next())).is(200).items(&["b", "c"]);
}

fn pages_see_one_moment(c: &Case) {
    make(c, &["a", "b", "c", "d"]);
    let first = c.get("cm?limit=2").is(200).items(&["a", "b"]);
    c.post("cm", &cm("bb")).is(201);
    c.delete("cm/c").is(200);
    c.merge("cm/d", &json!({"data": {"k": "new"}})).is(200);
    let rest = c.get(&format!("cm?limit=10&continue={}", first.next())).is(200).items(&["c", "d"]);
    let rest = rest.lacks("/items/1/data");
    c.equal(rest.rv(), first.rv());
    c.get("cm").is(200).items(&["a", "b", "bb", "d"]);
}

fn pages_with_labels(c: &Case) {
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y"), ("e", "x")] {
        c.post("cm", &labelled(name, json!({"tier": tier}))).is(201);
    }
    // The server does not know how many of the rest match.
    let first = c
        .get("cm?limit=2&labelSelector=tier%3Dx")
        .is(200)
        .items(&["a", "c"])
        .lacks("/metadata/remainingItemCount");
    c.get(&format!("cm?limit=2&labelSelector=tier%3Dx&continue={}", first.next()))
        .is(200)
        .items(&["e"]);
    let first = c.get("cm?limit=2&fieldSelector=metadata.name%21%3Da").is(200).items(&["b", "c"]);
    c.get(&format!("cm?limit=9&fieldSelector=metadata.name%21%3Da&continue={}", first.next()))
        .is(200)
        .items(&["d", "e"]);
}

fn pages_all_namespaces(c: &Case) {
    c.post("ns", &json!({"metadata": {"name": "{ns}-2"}})).is(201);
    for path in ["cm", "/api/v1/namespaces/{ns}-2/configmaps"] {
        for name in ["a", "b"] {
            c.post(path, &labelled(name, json!({"of": "{ns}"}))).is(201);
        }
    }
    let first = c.get("/api/v1/configmaps?labelSelector=of%3D{ns}&limit=3").is(200);
    c.equal(first.names().len(), 3);
    let rest = c
        .get(&format!(
            "/api/v1/configmaps?labelSelector=of%3D{{ns}}&limit=3&continue={}",
            first.next()
        ))
        .is(200);
    rest.items(&["b"]);
}

fn page_larger_than_all(c: &Case) {
    make(c, &["a", "b"]);
    c.get("cm?limit=2").is(200).items(&["a", "b"]).lacks("/metadata/continue");
    c.get("cm?limit=500").is(200).items(&["a", "b"]).lacks("/metadata/continue");
}

fn limit_bad(c: &Case) {
    for limit in ["abc", "-1", "1.5", "99999999999999999999"] {
        c.get(&format!("cm?limit={limit}"));
        c.get(&format!("toy?limit={limit}"));
    }
}

fn limit_zero(c: &Case) {
    make(c, &["a", "b"]);
    c.get("cm?limit=0").is(200).items(&["a", "b"]);
}

fn token_bad(c: &Case) {
    make(c, &["a", "b"]);
    for token in ["abc", "%21%21", "bm90IGpzb24", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ"] {
        c.get(&format!("cm?limit=1&continue={token}")).refused(400, "BadRequest");
        c.get(&format!("toy?limit=1&continue={token}")).refused(400, "BadRequest");
    }
}

fn token_of_other_kind(c: &Case) {
    make(c, &["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        c.post("secret", &json!({"metadata": {"name": name}})).is(201);
    }
    let first = c.get("cm?limit=1").is(200);
    c.get(&format!("secret?limit=5&continue={}", first.next())).is(200).items(&["b", "c"]);
}

fn token_with_version(c: &Case) {
    make(c, &["a", "b", "c"]);
    let first = c.get("cm?limit=1").is(200);
    let next = first.next();
    c.get(&format!("cm?limit=1&continue={next}&resourceVersion={}", first.rv())).is(400);
    c.get(&format!("cm?limit=1&continue={next}&resourceVersionMatch=Exact")).is(422);
    c.get(&format!(
        "cm?limit=1&continue={next}&resourceVersionMatch=NotOlderThan&resourceVersion={}",
        first.rv()
    ))
    .is(422);
}

fn encode(token: &serde_json::Value) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(token.to_string())
}

fn token_forged(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let version: i64 = made.rv().parse().unwrap_or_default();
    make(c, &["b", "c"]);
    for token in [
        json!({"v": "meta.k8s.io/v1", "rv": 0, "start": "a"}),
        json!({"v": "meta.k8s.io/v2", "rv": version, "start": "a"}),
        json!({"v": "meta.k8s.io/v1", "rv": version}),
        json!({"v": "meta.k8s.io/v1", "rv": -5, "start": "a"}),
        json!({"v": "meta.k8s.io/v1", "rv": "x", "start": "a"}),
        json!([1]),
    ] {
        c.get(&format!("cm?limit=1&continue={}", encode(&token)));
    }
}

fn token_forged_key(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let version: i64 = made.rv().parse().unwrap_or_default();
    for start in ["../x", "..", "a/../../b", "./a", "/a"] {
        c.get(&format!(
            "cm?limit=1&continue={}",
            encode(&json!({"v": "meta.k8s.io/v1", "rv": version, "start": start}))
        ));
    }
}

fn version_zero(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    c.get(&format!("cm?resourceVersion={}&resourceVersionMatch=NotOlderThan", made.rv()))
        .is(200)
        .items(&["a"]);
    c.get("cm?resourceVersion=0").is(200).items(&["a"]);
    c.get("cm?resourceVersion=0&resourceVersionMatch=NotOlderThan").is(200).items(&["a"]);
}

fn version_not_older(c: &Case) {
    make(c, &["a"]);
    let made = c.post("cm", &cm("b")).is(201);
    c.get(&format!("cm?resourceVersion={}", made.rv())).is(200).items(&["a", "b"]);
    let list = c
        .get(&format!("cm?resourceVersion={}&resourceVersionMatch=NotOlderThan", made.rv()))
        .is(200)
        .items(&["a", "b"]);
    let (seen, asked): (u64, u64) =
        (list.rv().parse().unwrap_or_default(), made.rv().parse().unwrap_or_default());
    c.check(seen >= asked, "the list is not older than asked for");
}

fn version_exact(c: &Case) {
    make(c, &["a"]);
    let made = c.post("cm", &cm("b")).is(201);
    let list = c
        .get(&format!("cm?resourceVersion={}&resourceVersionMatch=Exact", made.rv()))
        .is(200)
        .items(&["a", "b"]);
    c.equal(list.rv(), made.rv());
}

fn version_exact_after_writes(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    make(c, &["b"]);
    c.merge("cm/a", &json!({"data": {"k": "v"}})).is(200);
    c.delete("cm/b").is(200);
    c.get(&format!("cm?resourceVersion={}&resourceVersionMatch=Exact", old.rv()))
        .is(200)
        .items(&["a"])
        .lacks("/items/0/data");
    let page = c
        .get(&format!("cm?resourceVersion={}&resourceVersionMatch=Exact&limit=1", old.rv()))
        .is(200)
        .items(&["a"]);
    page.lacks("/metadata/continue");
    c.get("cm?resourceVersion=999999999&resourceVersionMatch=Exact");
}

fn match_bad(c: &Case) {
    c.get("cm?resourceVersion=1&resourceVersionMatch=Sometimes")
        .is(422)
        .blames("resourceVersionMatch");
    c.get("toy?resourceVersion=1&resourceVersionMatch=exact").is(422);
}

fn match_without_version(c: &Case) {
    c.get("cm?resourceVersionMatch=Exact").is(422);
    c.get("cm?resourceVersionMatch=NotOlderThan").is(422);
    c.get("toy?resourceVersionMatch=NotOlderThan").is(422);
}

fn zero_exact(c: &Case) {
    c.get("cm?resourceVersion=0&resourceVersionMatch=Exact").is(422);
}

fn version_with_limit(c: &Case) {
    make(c, &["a", "b"]);
    let made = c.post("cm", &cm("c")).is(201);
    make(c, &["d"]);
    let page = c
        .get(&format!("cm?limit=1&resourceVersion={}&resourceVersionMatch=Exact", made.rv()))
        .is(200)
        .items(&["a"]);
    c.get(&format!("cm?limit=5&continue={}", page.next())).is(200).items(&["b", "c"]);
}

fn initial_events_without_watch(c: &Case) {
    c.get("cm?sendInitialEvents=true").is(422);
    c.get("cm?sendInitialEvents=false").is(422);
    c.get("cm?sendInitialEvents=abc").is(422);
}

fn timeout_bad(c: &Case) {
    c.get("cm?timeoutSeconds=abc").is(400);
    c.get("cm?allowWatchBookmarks=abc");
    // Anything but false and 0 means yes.
    c.get("cm?watch=abc&timeoutSeconds=1").is(200);
}

fn version_bad(c: &Case) {
    for version in ["abc", "-1", "1.5"] {
        c.get(&format!("cm?resourceVersion={version}"));
        c.get(&format!("toy?resourceVersion={version}"));
        c.get(&format!("cm?resourceVersion={version}&resourceVersionMatch=Exact"));
    }
}

fn token_expired(c: &Case) {
    make(c, &["a", "b", "c"]);
    let first = c.get("cm?limit=1").is(200).items(&["a"]);
    let last = c.post("cm", &cm("d")).is(201);
    c.compact(&last.rv());
    let gone = c.get(&format!("cm?limit=1&continue={}", first.next())).refused(410, "Expired");
    // What comes with it goes on from there, with what is there now.
    c.get(&format!("cm?limit=5&continue={}", gone.next())).is(200).items(&["b", "c", "d"]);
}

fn version_compacted(c: &Case) {
    let old = c.post("cm", &cm("a")).is(201);
    let last = c.merge("cm/a", &json!({"data": {"k": "v"}})).is(200);
    c.compact(&last.rv());
    c.get(&format!("cm?resourceVersion={}&resourceVersionMatch=Exact", old.rv()))
        .refused(410, "Expired");
    c.get(&format!("cm?resourceVersion={}", old.rv())).is(200).items(&["a"]);
}
