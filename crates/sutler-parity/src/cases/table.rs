//! Tables and metadata alone, as kubectl and informers ask for them.

use serde_json::{Value, json};

use super::{cm, deployment, labelled, pod, toy, with};
use crate::case::{Call, Case};
use crate::suite::subject;

subject!("table":
    toy_list, toy_object, toy_empty, plain_columns, world_columns, wide_columns, watch, watch_toys, include_none, include_object, include_bad, pages, selectors, missing,
    version_beta, version_unknown, fallback, with_charset, status_columns, date_columns, write_answers, delete_answer,
    configmaps, secrets, pods, deployments, services, namespaces, nodes, serviceaccounts, leases, pdbs, roles, bindings, events, replicasets, daemonsets, claims, volumes, classes,
    partial_object, partial_list, partial_watch, partial_version, partial_of_toy, partial_missing, partial_patch, partial_of_collection, partial_table_mix, no_headers_for_status,
);

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIALS: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

fn table(c: &Case, path: &str) -> crate::case::Reply {
    c.call(&Call::new("GET", path).accept(TABLE))
}

fn toy_list(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.post("toy", &toy("b", json!({"size": 2, "mode": "Slow", "ratio": 1.5, "on": true}))).is(201);
    let reply =
        table(c, "toy").is(200).has("/kind", "Table").has("/columnDefinitions/0/name", "Name");
    reply.has("/rows/1/cells/1", 2).has("/rows/1/object/kind", "PartialObjectMetadata");
}

fn toy_object(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    table(c, "toy/a").is(200).has("/rows/0/cells/0", "a").lacks("/rows/1");
    table(c, "toy/a/status").is(200);
    table(c, "toy/a/scale");
}

fn toy_empty(c: &Case) {
    table(c, "toy").is(200).has("/rows", json!([])).shows("/columnDefinitions/0");
    table(c, "cm").is(200).has("/rows", json!([]));
}

fn plain_columns(c: &Case) {
    c.post(
        "plain",
        &json!({"apiVersion": "parity.sutler.dev/v1", "kind": "Plain", "metadata": {"name": "a"}}),
    )
    .is(201);
    table(c, "plain").is(200);
}

fn world_columns(c: &Case) {
    c.post("world", &json!({"apiVersion": "parity.sutler.dev/v1", "kind": "World", "metadata": {"name": "{ns}-w"}, "spec": {"moons": 3}})).is(201);
    table(c, "world/{ns}-w").is(200);
    c.delete("world/{ns}-w").is(200);
}

fn wide_columns(c: &Case) {
    c.post(
        "toy",
        &toy("a", json!({"size": 1, "ratio": 2.5, "on": false, "born": "2001-02-03T04:05:06Z"})),
    )
    .is(201);
    table(c, "toy").is(200).has("/columnDefinitions/4/priority", 1);
}

fn watch(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    let list = table(c, "cm").is(200);
    let path = format!("cm?watch=true&resourceVersion={}", list.rv());
    let mut watch = c.watch_call(&Call::new("GET", &path).accept(TABLE)).is(200);
    c.post("cm", &cm("b")).is(201);
    c.merge("cm/b", &json!({"data": {"k": "v"}})).is(200);
    c.delete("cm/b").is(200);
    let first = watch.event();
    c.check(first.object["columnDefinitions"].is_array(), "the first event has the columns");
    let second = watch.event();
    c.check(
        second.object["columnDefinitions"].as_array().is_none_or(Vec::is_empty),
        "and only the first",
    );
    watch.event();
}

fn watch_toys(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    let mut watch = c.watch_call(&Call::new("GET", "toy?watch=true").accept(TABLE)).is(200);
    watch.event();
    c.merge("toy/a", &json!({"spec": {"size": 2}})).is(200);
    watch.event();
}

fn include_none(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    table(c, "toy?includeObject=None").is(200).has("/rows/0/object", json!(null));
    table(c, "toy?includeObject=Metadata")
        .is(200)
        .has("/rows/0/object/kind", "PartialObjectMetadata");
}

fn include_object(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    table(c, "toy?includeObject=Object").is(200).has("/rows/0/object/kind", "Toy");
    c.post("cm", &with(cm("a"), "data", json!({"k": "v"}))).is(201);
    table(c, "cm?includeObject=Object").is(200).has("/rows/0/object/kind", "ConfigMap");
}

fn include_bad(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    table(c, "toy?includeObject=Everything").is(400);
    table(c, "cm?includeObject=object").is(400);
    // Without a table nobody asks.
    c.get("toy?includeObject=Everything").is(200);
}

fn pages(c: &Case) {
    for name in ["a", "b", "c"] {
        c.post("cm", &cm(name)).is(201);
    }
    let first = table(c, "cm?limit=2").is(200).has("/metadata/remainingItemCount", 1);
    table(c, &format!("cm?limit=2&continue={}", first.next())).is(200).has("/rows/0/cells/0", "c");
}

fn selectors(c: &Case) {
    c.post("cm", &labelled("a", json!({"x": "1"}))).is(201);
    c.post("cm", &cm("b")).is(201);
    table(c, "cm?labelSelector=x").is(200).has("/rows/0/cells/0", "a").lacks("/rows/1");
    table(c, "cm?labelSelector=x+in+(").is(400);
}

fn missing(c: &Case) {
    table(c, "toy/none").refused(404, "NotFound").has("/kind", "Status");
    table(c, "cm/none").refused(404, "NotFound");
    table(c, "/api/v1/namespaces/{ns}/gadgets").is(404);
}

fn version_beta(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&Call::new("GET", "cm").accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io"));
    c.call(&Call::new("GET", "toy").accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io"));
}

fn version_unknown(c: &Case) {
    for accept in [
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/json;as=Table;v=v1;g=other",
        "application/json;as=Gadget;v=v1;g=meta.k8s.io",
        "application/json;as=Table",
    ] {
        c.call(&Call::new("GET", "cm").accept(accept)).is(406);
        c.call(&Call::new("GET", "toy").accept(accept)).is(406);
    }
}

fn fallback(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    c.call(&Call::new("GET", "cm").accept(accept)).is(200).has("/kind", "Table");
    c.call(
        &Call::new("GET", "cm")
            .accept("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"),
    )
    .is(200)
    .has("/kind", "ConfigMapList");
}

fn with_charset(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(
        &Call::new("GET", "cm")
            .accept("application/json; as=Table; v=v1; g=meta.k8s.io; charset=utf-8"),
    );
    c.call(&Call::new("GET", "cm").accept("application/*;as=Table;v=v1;g=meta.k8s.io"));
    c.call(&Call::new("GET", "cm").accept("application/yaml;as=Table;v=v1;g=meta.k8s.io"));
}

fn status_columns(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.merge("toy/a/status", &json!({"status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}})).is(200);
    table(c, "toy").is(200).has("/rows/0/cells/3", "True");
}

fn date_columns(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1, "born": "2001-01-01T00:00:00Z"}))).is(201);
    c.post("toy", &toy("b", json!({"size": 1}))).is(201);
    table(c, "toy").is(200);
}

fn write_answers(c: &Case) {
    c.call(&Call::new("POST", "cm").json(&cm("a")).accept(TABLE)).is(201).has("/kind", "Table");
    c.call(&Call::new("POST", "toy").json(&toy("a", json!({"size": 1}))).accept(TABLE))
        .is(201)
        .has("/kind", "Table");
    c.call(&Call::new("PUT", "cm/a").json(&with(cm("a"), "data", json!({"k": "v"}))).accept(TABLE))
        .is(200);
}

fn delete_answer(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("cm", &cm("b")).is(201);
    c.call(&Call::new("DELETE", "cm/a").accept(TABLE)).is(200);
    c.call(&Call::new("DELETE", "cm").accept(TABLE)).is(200);
}

fn rows(c: &Case, path: &str, body: &Value) {
    let made = c.post(path, body).is(201);
    table(c, &format!("{path}/{}", made.name())).is(200).has("/kind", "Table");
}

fn configmaps(c: &Case) {
    rows(
        c,
        "cm",
        &with(with(cm("a"), "data", json!({"k": "v"})), "binaryData", json!({"b": "AA=="})),
    );
}

fn secrets(c: &Case) {
    rows(c, "secret", &json!({"metadata": {"name": "a"}, "stringData": {"k": "v", "l": "w"}}));
}

fn pods(c: &Case) {
    rows(c, "pod", &pod("a"));
    c.merge("pod/a/status", &json!({"status": {"phase": "Running", "podIP": "10.1.1.1", "containerStatuses": [{"name": "c", "ready": true, "restartCount": 3, "image": "i", "imageID": "", "state": {"running": {}}}], "conditions": [{"type": "Ready", "status": "True"}]}})).is(200);
    table(c, "pod").is(200);
    c.merge("pod/a/status", &json!({"status": {"containerStatuses": [{"name": "c", "ready": false, "restartCount": 4, "image": "i", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}})).is(200);
    table(c, "pod").is(200);
    rows(
        c,
        "pod",
        &with(
            with(pod("b"), "spec.nodeName", "n1"),
            "spec.initContainers",
            json!([{"name": "i", "image": "i"}]),
        ),
    );
    c.delete("pod/b").is(200);
    table(c, "pod/b").is(200);
}

fn deployments(c: &Case) {
    rows(c, "deploy", &with(deployment("a"), "spec.replicas", 3));
    c.merge("deploy/a/status", &json!({"status": {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}})).is(200);
    table(c, "deploy").is(200);
}

fn services(c: &Case) {
    rows(
        c,
        "svc",
        &json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None", "selector": {"x": "y"}, "ports": [{"port": 80, "name": "a"}, {"port": 53, "protocol": "UDP", "name": "b"}]}}),
    );
    rows(
        c,
        "svc",
        &json!({"metadata": {"name": "b"}, "spec": {"type": "ExternalName", "externalName": "example.com"}}),
    );
}

fn namespaces(c: &Case) {
    table(c, "ns/{ns}").is(200);
}

fn nodes(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n", "labels": {"node-role.kubernetes.io/worker": "", "of": "{ns}"}}, "spec": {"unschedulable": true}})).is(201);
    table(c, "node/{ns}-n").is(200);
    c.merge("node/{ns}-n/status", &json!({"status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}], "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Debian", "kernelVersion": "6", "containerRuntimeVersion": "x://1", "architecture": "", "bootID": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "systemUUID": ""}}})).is(200);
    table(c, "node/{ns}-n").is(200);
    c.delete("node/{ns}-n").is(200);
}

fn serviceaccounts(c: &Case) {
    rows(c, "sa", &json!({"metadata": {"name": "a"}}));
}

fn leases(c: &Case) {
    rows(c, "lease", &json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}));
}

fn pdbs(c: &Case) {
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"x": "nobody"}}}})).is(201);
    c.until("pdb/a", |reply| reply.at("/status/conditions").is_array());
    table(c, "pdb/a").is(200);
}

fn roles(c: &Case) {
    rows(c, "role", &json!({"metadata": {"name": "a"}, "rules": []}));
    c.post("crole", &json!({"metadata": {"name": "{ns}"}, "rules": []})).is(201);
    table(c, "crole/{ns}").is(200);
    c.delete("crole/{ns}").is(200);
}

fn bindings(c: &Case) {
    rows(
        c,
        "rb",
        &json!({"metadata": {"name": "a"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]}),
    );
    c.post("crb", &json!({"metadata": {"name": "{ns}"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}})).is(201);
    table(c, "crb/{ns}").is(200);
    c.delete("crb/{ns}").is(200);
}

fn events(c: &Case) {
    rows(
        c,
        "event",
        &json!({"metadata": {"name": "a"}, "reason": "R", "type": "Warning", "message": "m\n", "count": 3, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"}, "source": {"component": "s", "host": "h"}}),
    );
}

fn replicasets(c: &Case) {
    rows(c, "rs", &with(deployment("a"), "kind", "ReplicaSet"));
}

fn daemonsets(c: &Case) {
    rows(
        c,
        "ds",
        &with(
            with(deployment("a"), "kind", "DaemonSet"),
            "spec.template.spec.nodeSelector",
            json!({"a": "b"}),
        ),
    );
}

fn claims(c: &Case) {
    rows(
        c,
        "pvc",
        &json!({"metadata": {"name": "a", "finalizers": ["sutler.dev/hold"]}, "spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}}),
    );
    c.delete("pvc/a").is(200);
    // Its protection goes at some time; the row is the same before and after.
    table(c, "pvc?includeObject=None").is(200);
    c.call(
        &Call::new("PATCH", "pvc/a")
            .text("application/merge-patch+json", r#"{"metadata":{"finalizers":null}}"#)
            .quiet(),
    )
    .is(200);
}

fn volumes(c: &Case) {
    c.post("pv", &json!({"metadata": {"name": "{ns}-v"}, "spec": {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/x"}, "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "s"}})).is(201);
    table(c, "pv/{ns}-v").is(200);
    c.merge("pv/{ns}-v", &json!({"metadata": {"finalizers": null}})).is(200);
    c.delete("pv/{ns}-v").is(200);
}

fn classes(c: &Case) {
    c.post("sc", &json!({"metadata": {"name": "{ns}-s", "annotations": {"storageclass.kubernetes.io/is-default-class": "false"}}, "provisioner": "x.y/z", "allowVolumeExpansion": true})).is(201);
    table(c, "sc/{ns}-s").is(200);
    c.delete("sc/{ns}-s").is(200);
}

fn partial_object(c: &Case) {
    c.post("cm", &with(labelled("a", json!({"x": "y"})), "data", json!({"k": "v"}))).is(201);
    c.call(&Call::new("GET", "cm/a").accept(PARTIAL))
        .is(200)
        .has("/kind", "PartialObjectMetadata")
        .has("/metadata/labels/x", "y")
        .lacks("/data");
    c.call(&Call::new("GET", "cm").accept(PARTIAL));
    c.call(&Call::new("GET", "cm/a").accept(PARTIALS));
}

fn partial_list(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.post("cm", &cm("b")).is(201);
    c.call(&Call::new("GET", "cm").accept(PARTIALS))
        .is(200)
        .has("/kind", "PartialObjectMetadataList")
        .items(&["a", "b"]);
    let first = c.call(&Call::new("GET", "cm?limit=1").accept(PARTIALS)).is(200).items(&["a"]);
    c.call(&Call::new("GET", &format!("cm?limit=1&continue={}", first.next())).accept(PARTIALS))
        .is(200)
        .items(&["b"]);
}

fn partial_watch(c: &Case) {
    let made = c.post("cm", &cm("a")).is(201);
    let path = format!("cm?watch=true&resourceVersion={}", made.rv());
    let mut watch = c.watch_call(&Call::new("GET", &path).accept(PARTIAL)).is(200);
    c.merge("cm/a", &json!({"data": {"k": "v"}})).is(200);
    c.delete("cm/a").is(200);
    let event = watch.expect("MODIFIED", "a");
    c.equal(event.object["kind"].as_str(), Some("PartialObjectMetadata"));
    watch.expect("DELETED", "a");
}

fn partial_version(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    for accept in [
        "application/json;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v9;g=meta.k8s.io",
    ] {
        c.call(&Call::new("GET", "cm/a").accept(accept));
    }
}

fn partial_of_toy(c: &Case) {
    c.post("toy", &toy("a", json!({"size": 1}))).is(201);
    c.call(&Call::new("GET", "toy/a").accept(PARTIAL)).is(200).lacks("/spec");
    c.call(&Call::new("GET", "toy").accept(PARTIALS)).is(200).items(&["a"]);
    let mut watch = c.watch_call(&Call::new("GET", "toy?watch=true").accept(PARTIAL)).is(200);
    watch.expect("ADDED", "a");
}

fn partial_missing(c: &Case) {
    c.call(&Call::new("GET", "cm/none").accept(PARTIAL)).refused(404, "NotFound");
}

fn partial_patch(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    let call =
        Call::new("PATCH", "cm/a").text("application/merge-patch+json", "{\"data\":{\"k\":\"v\"}}");
    c.call(&call.accept(PARTIAL)).is(200).has("/kind", "PartialObjectMetadata");
}

fn partial_of_collection(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&Call::new("DELETE", "cm").accept(PARTIAL)).refused(406, "NotAcceptable");
}

fn partial_table_mix(c: &Case) {
    c.post("cm", &cm("a")).is(201);
    c.call(&Call::new("GET", "cm").accept(&format!("{TABLE},{PARTIALS},application/json")))
        .is(200)
        .has("/kind", "Table");
    c.call(&Call::new("GET", "cm").accept(&format!("{PARTIALS},{TABLE}")))
        .is(200)
        .has("/kind", "PartialObjectMetadataList");
}

fn no_headers_for_status(c: &Case) {
    c.call(&Call::new("POST", "cm").json(&cm("BAD")).accept(TABLE))
        .refused(422, "Invalid")
        .has("/kind", "Status");
}
