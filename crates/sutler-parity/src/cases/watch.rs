//! Watch.

use serde_json::json;

use super::{cm, labelled, make, toy, with};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("watch":
    from_list, from_object, from_zero, from_nothing, replay, update_and_delete, deleted_object, finalizer,
    by_name, by_label_in_and_out, by_field_in_and_out, by_label_never_matched, by_label_deleted, no_op, dry_run_is_silent, status_change, two_watchers,
    all_namespaces, cluster_scoped, timeout, timeout_custom, version_bad, version_future, selector_bad, old_prefix, old_prefix_name, one_object_path,
    initial_events, initial_events_toys, initial_events_with_selector, initial_events_at_version, initial_events_false, initial_events_bad,
    initial_events_without_bookmarks, bookmarks_allowed, match_on_watch, limit_and_continue, collection_deleted, replaced, generation_in_events, managed_fields,
    apply_events, kinds,
    ; alone: too_old,
);

fn from_list(c: &Case) {
    make(c, &["a"]);
    let list = c.get("cm").is(200);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", list.rv())).is(200);
    make(c, &["b", "c"]);
    watch.expect("ADDED", "b");
    watch.expect("ADDED", "c");
}

fn from_object(c: &Case) {
    let made = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let mut watch = c.watch(&format!("toy?resourceVersion={}", made.rv())).is(200);
    c.merge("toy/a", &json!({"spec": {"size": 2}})).is(200);
    watch.expect("MODIFIED", "a");
}

fn from_zero(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    c.get(&format!("cm?resourceVersion={}", made.rv())).is(200);
    let mut watch = c.watch("cm?resourceVersion=0").is(200);
    watch.expect("ADDED", "a");
    make(c, &["b"]);
    watch.expect("ADDED", "b");
}

fn from_nothing(c: &Case) {
    make(c, &["b", "a"]);
    let mut watch = c.watch("cm").is(200);
    watch.expect("ADDED", "a");
    watch.expect("ADDED", "b");
    c.delete("cm/a").is(200);
    watch.expect("DELETED", "a");
}

fn replay(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    c.merge("cm/a", &json!({"data": {"k": "1"}})).is(200);
    c.merge("cm/a", &json!({"data": {"k": "2"}})).is(200);
    c.delete("cm/a").is(200);
    c.post("cm", &cm("a")).is(201);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", made.rv())).is(200);
    let first = watch.expect("MODIFIED", "a");
    c.equal(first.object["data"]["k"].as_str(), Some("1"));
    watch.expect("MODIFIED", "a");
    watch.expect("DELETED", "a");
    let last = watch.expect("ADDED", "a");
    c.check(first.rv() < last.rv() || first.rv().len() < last.rv().len(), "versions grow");
}

fn update_and_delete(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", made.rv())).is(200);
    let changed = c.put("cm/a", &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).is(200);
    let event = watch.expect("MODIFIED", "a");
    c.equal(event.rv().to_owned(), changed.rv());
    c.delete("cm/a").is(200);
    watch.expect("DELETED", "a");
}

fn deleted_object(c: &Case) {
    let made = c.post("cm", &labelled("a", json!({"x": "y"}))).is(201);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", made.rv())).is(200);
    c.delete("cm/a").is(200);
    // The last state, with the version of the deletion.
    let event = watch.expect("DELETED", "a");
    c.equal(event.object["metadata"]["labels"]["x"].as_str(), Some("y"));
    c.check(event.rv() != made.rv(), "the deletion has a version of its own");
}

fn finalizer(c: &Case) {
    let held = json!({"metadata": {"name": "a", "finalizers": ["parity.sutler.dev/hold"]}});
    let made = c.post("cm", &held).is(201);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", made.rv())).is(200);
    c.delete("cm/a").is(200).shows("/metadata/deletionTimestamp");
    let event = watch.expect("MODIFIED", "a");
    c.check(event.object["metadata"]["deletionTimestamp"].is_string(), "it is marked");
    c.merge("cm/a", &json!({"metadata": {"finalizers": null}})).is(200);
    watch.expect("DELETED", "a");
}

fn by_name(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let mut watch = c
        .watch(&format!("cm?fieldSelector=metadata.name%3Db&resourceVersion={}", made.rv()))
        .is(200);
    c.merge("cm/a", &json!({"data": {"k": "1"}})).is(200);
    make(c, &["b"]);
    c.merge("cm/a", &json!({"data": {"k": "2"}})).is(200);
    c.delete("cm/b").is(200);
    watch.expect("ADDED", "b");
    watch.expect("DELETED", "b");
}

fn by_label_in_and_out(c: &Case) {
    let made = c.post("cm", &labelled("a", json!({"on": "no"}))).is(201);
    let mut watch =
        c.watch(&format!("cm?labelSelector=on%3Dyes&resourceVersion={}", made.rv())).is(200);
    c.merge("cm/a", &json!({"metadata": {"labels": {"on": "yes"}}})).is(200);
    watch.expect("ADDED", "a");
    c.merge("cm/a", &json!({"data": {"k": "v"}})).is(200);
    watch.expect("MODIFIED", "a");
    let left =
        c.merge("cm/a", &json!({"metadata": {"labels": {"on": "no"}}, "data": {"k": "w"}})).is(200);
    // What it was while it matched, with the version at which it left.
    let event = watch.expect("DELETED", "a");
    c.equal(event.rv().to_owned(), left.rv());
    c.merge("cm/a", &json!({"metadata": {"labels": {"on": "yes"}}})).is(200);
    watch.expect("ADDED", "a");
}

fn by_field_in_and_out(c: &Case) {
    let made = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let mut watch = c
        .watch(&format!("toy?fieldSelector=spec.mode%3DSlow&resourceVersion={}", made.rv()))
        .is(200);
    c.merge("toy/a", &json!({"spec": {"mode": "Slow"}})).is(200);
    watch.expect("ADDED", "a");
    c.merge("toy/a", &json!({"spec": {"mode": "Fast"}})).is(200);
    watch.expect("DELETED", "a");
}

fn by_label_never_matched(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let mut watch = c.watch(&format!("cm?labelSelector=on&resourceVersion={}", made.rv())).is(200);
    c.merge("cm/a", &json!({"data": {"k": "1"}})).is(200);
    c.delete("cm/a").is(200);
    c.post("cm", &labelled("z", json!({"on": ""}))).is(201);
    watch.expect("ADDED", "z");
}

fn by_label_deleted(c: &Case) {
    let made = c.post("cm", &labelled("a", json!({"on": "yes"}))).is(201);
    let mut watch =
        c.watch(&format!("cm?labelSelector=on%3Dyes&resourceVersion={}", made.rv())).is(200);
    c.delete("cm/a").is(200);
    watch.expect("DELETED", "a");
}

fn no_op(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", made.rv())).is(200);
    c.put("cm/a", &made.body).is(200);
    c.merge("cm/a", &json!({})).is(200);
    make(c, &["b"]);
    watch.expect("ADDED", "b");
}

fn dry_run_is_silent(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", made.rv())).is(200);
    c.post("cm?dryRun=All", &cm("x")).is(201);
    c.merge("cm/a?dryRun=All", &json!({"data": {"k": "v"}})).is(200);
    c.delete("cm/a?dryRun=All").is(200);
    make(c, &["b"]);
    watch.expect("ADDED", "b");
}

fn status_change(c: &Case) {
    let made = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let mut watch = c.watch(&format!("toy?resourceVersion={}", made.rv())).is(200);
    c.merge("toy/a/status", &json!({"status": {"phase": "Up"}})).is(200);
    let event = watch.expect("MODIFIED", "a");
    c.equal(event.object["status"]["phase"].as_str(), Some("Up"));
    c.equal(event.object["metadata"]["generation"].as_i64(), Some(1));
}

fn two_watchers(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let path = format!("cm?resourceVersion={}", made.rv());
    let (mut first, mut second) = (c.watch(&path).is(200), c.watch(&path).is(200));
    c.merge("cm/a", &json!({"data": {"k": "1"}})).is(200);
    c.delete("cm/a").is(200);
    for watch in [&mut first, &mut second] {
        watch.expect("MODIFIED", "a");
        watch.expect("DELETED", "a");
    }
}

fn all_namespaces(c: &Case) {
    c.post("ns", &json!({"metadata": {"name": "{ns}-2"}})).is(201);
    let made = c.post("cm", &labelled("a", json!({"of": "{ns}"}))).is(201);
    let mut watch = c
        .watch(&format!(
            "/api/v1/configmaps?labelSelector=of%3D{{ns}}&resourceVersion={}",
            made.rv()
        ))
        .is(200);
    c.post("/api/v1/namespaces/{ns}-2/configmaps", &labelled("b", json!({"of": "{ns}"}))).is(201);
    c.delete("cm/a").is(200);
    watch.expect("ADDED", "b");
    watch.expect("DELETED", "a");
}

fn cluster_scoped(c: &Case) {
    let world = |name: &str| json!({"apiVersion": "parity.sutler.dev/v1", "kind": "World", "metadata": {"name": name, "labels": {"of": "{ns}"}}, "spec": {}});
    let made = c.post("world", &world("{ns}-1")).is(201);
    let mut watch =
        c.watch(&format!("world?labelSelector=of%3D{{ns}}&resourceVersion={}", made.rv())).is(200);
    c.post("world", &world("{ns}-2")).is(201);
    c.delete("world/{ns}-1").is(200);
    watch.expect("ADDED", &format!("{}-2", c.ns));
    watch.expect("DELETED", &format!("{}-1", c.ns));
    c.delete("world/{ns}-2").is(200);
}

fn timeout(c: &Case) {
    make(c, &["a"]);
    c.watch("cm?timeoutSeconds=1").is(200).end();
}

fn timeout_custom(c: &Case) {
    let list = c.get("toy").is(200);
    c.watch(&format!("toy?timeoutSeconds=1&resourceVersion={}", list.rv())).is(200).end();
}

fn version_bad(c: &Case) {
    for version in ["abc", "-1", "1.5"] {
        let _ = c.watch(&format!("cm?resourceVersion={version}")).is(500);
        let _ = c.watch(&format!("toy?resourceVersion={version}")).is(500);
    }
}

fn version_future(c: &Case) {
    // It waits for that version in vain.
    c.watch("cm?timeoutSeconds=1&resourceVersion=999999999").is(200).end();
    c.watch("toy?timeoutSeconds=1&resourceVersion=999999999").is(200).end();
}

fn selector_bad(c: &Case) {
    let _ = c.watch("cm?labelSelector=a+in+(b").is(400);
    let _ = c.watch("cm?fieldSelector=data.k%3Dv").is(400);
    let _ = c.watch("toy?fieldSelector=spec.size%3D1").is(400);
}

fn old_prefix(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let path = format!("/api/v1/watch/namespaces/{{ns}}/configmaps?resourceVersion={}", made.rv());
    let mut watch = c.watch_call(&Call::new("GET", &path)).is(200);
    make(c, &["b"]);
    watch.expect("ADDED", "b");
}

fn old_prefix_name(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    make(c, &["b"]);
    let path =
        format!("/api/v1/watch/namespaces/{{ns}}/configmaps/a?resourceVersion={}", made.rv());
    let mut watch = c.watch_call(&Call::new("GET", &path)).is(200);
    c.delete("cm/b").is(200);
    c.delete("cm/a").is(200);
    watch.expect("DELETED", "a");
}

fn one_object_path(c: &Case) {
    make(c, &["a", "b"]);
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let mut watch = c.watch("cm/a?timeoutSeconds=1").is(200);
    watch.end();
    let mut watch = c.watch("toy/a?timeoutSeconds=1").is(200);
    watch.end();
}

fn initial_events(c: &Case) {
    make(c, &["b", "a"]);
    let mut watch = c
        .watch(
            "cm?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
        )
        .is(200);
    watch.expect("ADDED", "a");
    watch.expect("ADDED", "b");
    let mark = watch.event();
    c.equal(mark.kind.as_str(), "BOOKMARK");
    c.equal(
        mark.object["metadata"]["annotations"]["k8s.io/initial-events-end"].as_str(),
        Some("true"),
    );
    make(c, &["c"]);
    watch.expect("ADDED", "c");
}

fn initial_events_toys(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let mut watch = c.watch("toy?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion=").is(200);
    watch.expect("ADDED", "a");
    let mark = watch.event();
    c.equal(mark.kind.as_str(), "BOOKMARK");
    c.equal(mark.object["kind"].as_str(), Some("Toy"));
}

fn initial_events_with_selector(c: &Case) {
    c.post("cm", &labelled("a", json!({"on": "yes"}))).is(201);
    make(c, &["b"]);
    let mut watch = c.watch("cm?labelSelector=on%3Dyes&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan").is(200);
    watch.expect("ADDED", "a");
    c.equal(watch.event().kind.as_str(), "BOOKMARK");
}

fn initial_events_at_version(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    for version in ["0", &made.rv()] {
        let path = format!(
            "cm?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion={version}"
        );
        if version == "0" {
            c.get(&format!("cm?resourceVersion={}", made.rv())).is(200);
        }
        let mut watch = c.watch(&path).is(200);
        watch.expect("ADDED", "a");
        c.equal(watch.event().kind.as_str(), "BOOKMARK");
    }
}

fn initial_events_false(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let path = format!(
        "cm?sendInitialEvents=false&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&resourceVersion={}",
        made.rv()
    );
    let mut watch = c.watch(&path).is(200);
    make(c, &["b"]);
    watch.expect("ADDED", "b");
}

fn initial_events_bad(c: &Case) {
    let _ = c.watch("cm?sendInitialEvents=true&allowWatchBookmarks=true").is(422);
    let _ = c
        .watch("cm?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=Exact")
        .is(422);
    let _ = c.watch("cm?sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=Exact&resourceVersion=1").is(422);
    let _ = c.watch("cm?sendInitialEvents=abc").is(422);
    let _ = c.watch("toy?sendInitialEvents=true").is(422);
}

fn initial_events_without_bookmarks(c: &Case) {
    make(c, &["a"]);
    let mut watch = c.watch("cm?sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    if watch.status == 200 {
        watch.expect("ADDED", "a");
    }
}

fn bookmarks_allowed(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let mut watch =
        c.watch(&format!("cm?allowWatchBookmarks=true&resourceVersion={}", made.rv())).is(200);
    make(c, &["b"]);
    watch.expect("ADDED", "b");
}

fn match_on_watch(c: &Case) {
    let _ = c.watch("cm?resourceVersion=1&resourceVersionMatch=NotOlderThan").is(422);
    let _ = c.watch("cm?resourceVersion=1&resourceVersionMatch=Exact").is(422);
    let _ = c.watch("cm?resourceVersionMatch=NotOlderThan").is(422);
}

fn limit_and_continue(c: &Case) {
    make(c, &["a", "b"]);
    let mut watch = c.watch("cm?limit=1").is(200);
    watch.expect("ADDED", "a");
    watch.expect("ADDED", "b");
    let _ = c.watch("cm?timeoutSeconds=1&continue=abc").is(422);
}

fn collection_deleted(c: &Case) {
    make(c, &["a", "b"]);
    let list = c.get("cm").is(200);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", list.rv())).is(200);
    c.delete("cm").is(200);
    let mut seen = [watch.event().name().to_owned(), watch.event().name().to_owned()];
    seen.sort();
    c.equal(seen.join(","), "a,b".to_owned());
}

fn replaced(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let mut watch = c.watch(&format!("cm?resourceVersion={}", made.rv())).is(200);
    c.delete("cm/a").is(200);
    c.post("cm", &cm("a")).is(201);
    let (old, new) = (watch.expect("DELETED", "a"), watch.expect("ADDED", "a"));
    c.check(old.object["metadata"]["uid"] != new.object["metadata"]["uid"], "another object");
}

fn generation_in_events(c: &Case) {
    let made = c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let mut watch = c.watch(&format!("toy?resourceVersion={}", made.rv())).is(200);
    c.merge("toy/a", &json!({"metadata": {"labels": {"x": "y"}}})).is(200);
    c.merge("toy/a", &json!({"spec": {"size": 2}})).is(200);
    c.equal(watch.expect("MODIFIED", "a").object["metadata"]["generation"].as_i64(), Some(1));
    c.equal(watch.expect("MODIFIED", "a").object["metadata"]["generation"].as_i64(), Some(2));
}

fn managed_fields(c: &Case) {
    // What began without owners stays without.
    let bare = c.post("cm?fieldManager=one", &cm("bare")).is(201).lacks("/metadata/managedFields");
    c.merge("cm/bare?fieldManager=two", &json!({"data": {"k": "v"}}))
        .is(200)
        .lacks("/metadata/managedFields");
    let made = c.post("cm?fieldManager=one", &with(cm("a"), "data", json!({"j": "v"}))).is(201);
    c.check(bare.rv() != made.rv(), "two versions");
    let mut watch = c.watch(&format!("cm?resourceVersion={}", made.rv())).is(200);
    c.merge("cm/a?fieldManager=two", &json!({"data": {"k": "v"}})).is(200);
    let event = watch.expect("MODIFIED", "a");
    c.equal(event.object["metadata"]["managedFields"].as_array().map(Vec::len), Some(2));
}

fn apply_events(c: &Case) {
    let list = c.get("toy").is(200);
    let mut watch = c.watch(&format!("toy?resourceVersion={}", list.rv())).is(200);
    c.apply("toy/a?fieldManager=one", &toy("a", json!({"size": 1}))).is(201);
    c.apply("toy/a?fieldManager=one", &toy("a", json!({"size": 1}))).is(200);
    c.apply("toy/a?fieldManager=one", &toy("a", json!({"size": 2}))).is(200);
    watch.expect("ADDED", "a");
    let changed = watch.expect("MODIFIED", "a");
    c.equal(changed.object["spec"]["size"].as_i64(), Some(2));
}

fn kinds(c: &Case) {
    let bodies = [
        ("secret", json!({"metadata": {"name": "x"}})),
        ("sa", json!({"metadata": {"name": "x"}})),
        ("lease", json!({"metadata": {"name": "x"}, "spec": {"holderIdentity": "me"}})),
        ("role", json!({"metadata": {"name": "x"}, "rules": []})),
        (
            "plain",
            json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "x"}, "colour": "red"}),
        ),
    ];
    for (path, body) in bodies {
        let list = c.get(path).is(200);
        let mut watch = c.watch(&format!("{path}?resourceVersion={}", list.rv())).is(200);
        c.post(path, &body).is(201);
        let event = watch.expect("ADDED", "x");
        c.check(event.object["kind"].is_string(), "events carry the kind");
    }
}

fn too_old(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let last = c.merge("toy/a", &json!({"spec": {"size": 2}})).is(200);
    c.compact(&last.rv());
    // Older than anything that is remembered of this kind.
    let mut watch = c.watch("toy?resourceVersion=1").is(200);
    let event = watch.event();
    c.equal(event.kind.as_str(), "ERROR");
    c.equal(event.object["code"].as_i64(), Some(410));
    c.equal(event.object["reason"].as_str(), Some("Expired"));
    watch.end();
}
