//! kubectl delete in its modes, namespaces that go away, and drain.

use crate::runs::Running;
use crate::support::{Place, config_map, is_ours, machine};

/// A machine and two ConfigMaps that it owns.
fn family(k: &Place, owner: &str, finalizer: &str) {
    k.apply(&machine(k.namespace, owner));
    let uid = k.ok(&format!("get vm {owner} -o jsonpath={{.metadata.uid}}"));
    let owned = |name: &str, finalizer: &str| {
        let metadata = format!(
            "metadata: {{finalizers: [{finalizer}], ownerReferences: [{{apiVersion: infra.virtrigaud.io/v1beta1, kind: VirtualMachine, name: {owner}, uid: {uid}, blockOwnerDeletion: true}}], "
        );
        config_map(k.namespace, name, "a: b").replace("metadata: {", &metadata)
    };
    k.apply(&owned(&format!("{owner}-1"), ""));
    k.apply(&owned(&format!("{owner}-2"), finalizer));
}

#[test]
fn background_takes_the_dependents_after() {
    let Some(k) = Place::new("cascade-background") else { return };
    family(&k, "web", "");
    let gone = k.start("wait cm/web-1 cm/web-2 --for=delete --timeout=50s");
    let out = k.ok("delete vm web --cascade=background");
    assert_eq!(
        out,
        "virtualmachine.infra.virtrigaud.io \"web\" deleted from cascade-background namespace\n"
    );
    assert_eq!(gone.end(), 0);
}

#[test]
fn foreground_takes_the_dependents_first() {
    let Some(k) = Place::new("cascade-foreground") else { return };
    family(&k, "web", "example.org/hold");
    k.ok("delete vm web --cascade=foreground --wait=false");
    k.ok("wait cm/web-1 --for=delete --timeout=50s");
    // The second holds on, and its owner with it.
    k.ok("wait cm/web-2 --for=jsonpath={.metadata.deletionTimestamp} --timeout=50s");
    let owner = k.json("get vm web");
    assert_eq!(owner["metadata"]["finalizers"], serde_json::json!(["foregroundDeletion"]));
    assert!(owner["metadata"]["deletionTimestamp"].is_string());
    let gone = k.start("wait vm/web --for=delete --timeout=50s");
    k.ok("patch cm web-2 --type=json -p '[{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]'");
    assert_eq!(gone.end(), 0);
    k.fails(1, "get cm web-2");
}

#[test]
fn orphan_releases_the_dependents() {
    let Some(k) = Place::new("cascade-orphan") else { return };
    family(&k, "web", "");
    k.ok("delete vm web --cascade=orphan");
    for name in ["web-1", "web-2"] {
        let left = k.json(&format!("get cm {name}"));
        assert_eq!(left["metadata"].get("ownerReferences"), None, "{left}");
        assert_eq!(left["metadata"].get("deletionTimestamp"), None, "{left}");
    }
}

#[test]
fn delete_by_name_selector_file_and_all() {
    let Some(k) = Place::new("delete") else { return };
    for name in ["a", "b", "c", "d"] {
        k.apply(&machine(k.namespace, name));
    }
    k.ok("label vm b c set=x");
    k.ok("delete vm -l set=x");
    assert_eq!(k.ok("get vm -o name").lines().count(), 2);
    let file = k.file("a.yaml", &machine(k.namespace, "a"));
    k.ok(&format!("delete -f {file}"));
    let missing = k.fails(1, &format!("delete -f {file}"));
    assert!(
        missing.contains("Error from server (NotFound)")
            && missing.contains("virtualmachines.infra.virtrigaud.io \"a\" not found"),
        "{missing}"
    );
    assert_eq!(k.ok(&format!("delete --ignore-not-found -f {file}")), "");
    k.ok("delete vm --all");
    assert_eq!(k.ok("get vm -o name"), "");
    // Graceful and not: nothing holds a pod that no node has.
    k.ok("run one --image=x");
    k.ok("delete pod one --now");
    k.ok("run two --image=x");
    k.ok("delete pod two --grace-period=0 --force");
    assert_eq!(k.ok("get pods -o name"), "");
}

#[test]
fn a_namespace_goes_when_it_is_empty() {
    let Some(k) = Place::new("going") else { return };
    k.apply(&machine(k.namespace, "free"));
    k.apply(
        &machine(k.namespace, "held")
            .replace("metadata: {", "metadata: {finalizers: [example.org/hold], "),
    );
    k.ok("delete ns going --wait=false");
    k.ok("wait vm/free --for=delete --timeout=50s");
    k.ok("wait vm/held --for=jsonpath={.metadata.deletionTimestamp} --timeout=50s");
    assert_eq!(k.json("get ns going")["status"]["phase"], "Terminating");
    let refused = k.fails(1, "create cm late --from-literal=a=b");
    assert!(refused.contains("because it is being terminated"), "{refused}");
    let gone = k.start("wait ns/going --for=delete --timeout=50s");
    k.ok("patch vm held --type=merge -p '{\"metadata\":{\"finalizers\":null}}'");
    assert_eq!(gone.end(), 0);
    let absent = k.fails(1, "get ns going");
    assert_eq!(absent, "Error from server (NotFound): namespaces \"going\" not found\n");
}

fn pod(k: &Place, name: &str, node: &str, metadata: &str) {
    k.apply(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, {metadata}}}\nspec: {{nodeName: {node}, containers: [{{name: c, image: x}}]}}\n"
    ));
    k.ok(&format!(
        "patch pod {name} --subresource=status --type=merge -p '{{\"status\":{{\"phase\":\"Running\",\"conditions\":[{{\"type\":\"Ready\",\"status\":\"True\"}}]}}}}'"
    ));
}

#[test]
fn drain_waits_for_the_disruption_budget() {
    let Some(k) = Place::new("drain") else { return };
    if !is_ours() {
        k.ok("delete node drain-1 drain-2 --ignore-not-found");
    }
    k.apply("{apiVersion: v1, kind: Node, metadata: {name: drain-1}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: drain-2}}\n");
    pod(&k, "a", "drain-1", "labels: {app: shop}");
    pod(&k, "b", "drain-1", "labels: {app: shop}");
    k.apply(
        "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: c, image: x}]}
",
    );
    let uid = k.ok("get ds agent -o jsonpath={.metadata.uid}");
    pod(
        &k,
        "agent-1",
        "drain-1",
        &format!(
            "labels: {{app: agent}}, ownerReferences: [{{apiVersion: apps/v1, kind: DaemonSet, name: agent, uid: {uid}, controller: true}}]"
        ),
    );
    k.ok("create pdb shop --selector=app=shop --min-available=1");
    k.ok("wait pdb/shop --for=jsonpath={.status.disruptionsAllowed}=1 --timeout=50s");

    let refused = k.fails(1, "drain drain-1 --grace-period=0");
    assert!(
        refused.contains("cannot delete DaemonSet-managed Pods")
            && refused.contains("cannot delete Pods that declare no controller"),
        "{refused}"
    );
    assert_eq!(k.json("get node drain-1")["spec"]["unschedulable"], true);

    let command =
        k.kubectl("drain drain-1 --grace-period=0 --force --ignore-daemonsets --timeout=50s");
    let mut drain = Running::err(command);
    drain.until("Cannot evict pod as it would violate the pod's disruption budget");
    assert_eq!(k.ok("get pods -l app=shop -o name").lines().count(), 1);
    // One more elsewhere, and the budget has room again; drain asks every five seconds.
    pod(&k, "c", "drain-2", "labels: {app: shop}");
    assert_eq!(drain.end(), 0);
    assert_eq!(k.ok("get pods -o name"), "pod/agent-1\npod/c\n");
    assert_eq!(k.ok("get pods -A --field-selector=spec.nodeName=drain-2 -o name"), "pod/c\n");

    assert_eq!(k.ok("uncordon drain-1"), "node/drain-1 uncordoned\n");
    assert_eq!(k.ok("cordon drain-2"), "node/drain-2 cordoned\n");
    k.ok("taint node drain-2 dedicated=db:NoSchedule");
    assert_eq!(k.json("get node drain-2")["spec"]["taints"][0]["key"], "dedicated");
    let shown = k.ok("get node drain-2");
    assert!(shown.contains("SchedulingDisabled"), "{shown}");
    // No kubelet ends them.
    k.ok("delete pods --all --grace-period=0 --force");
    k.ok("delete node drain-1 drain-2");
}
