//! kubectl patch, scale, label, annotate and rollout.

use serde_json::json;

use crate::support::{Place, machine, table};

const SCALED: &str = "
apiVersion: infra.virtrigaud.io/v1beta1
kind: VMSet
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {providerRef: {name: sim}, classRef: {name: small}, imageRef: {name: debian}}
---
apiVersion: autoscaler.vpsie.com/v1alpha1
kind: NodeGroup
metadata: {name: metal}
spec:
  minNodes: 0
  maxNodes: 10
  desiredNodes: 3
  providerRef: {name: pve}
  classRef: {name: small}
  imageRef: {name: debian}
  clusterRef: {name: shop-kubeconfig}
  bootstrap: {kind: kubeadm, endpoint: '192.0.2.100:6443', tokenSecretRef: {name: join-token}}
";

#[test]
fn patches_of_three_types() {
    let Some(k) = Place::new("patch") else { return };
    k.apply(&format!(
        "{}  tags: [a, b]\n  disks: [{{name: d, sizeGiB: 10}}]\n",
        machine(k.namespace, "web")
    ));
    let patched = "virtualmachine.infra.virtrigaud.io/web patched\n";
    let json_patch = r#"'[{"op":"test","path":"/spec/tags/0","value":"a"},{"op":"remove","path":"/spec/tags/0"},{"op":"add","path":"/spec/disks/-","value":{"name":"e","sizeGiB":5}},{"op":"replace","path":"/spec/disks/0/sizeGiB","value":11}]'"#;
    assert_eq!(k.ok(&format!("patch vm web --type=json -p {json_patch}")), patched);
    let merge = r#"'{"spec":{"powerState":"Off","tags":null}}'"#;
    assert_eq!(k.ok(&format!("patch vm web --type=merge -p {merge}")), patched);
    let out = k.ok(&format!("patch vm web --type=merge -p {merge}"));
    assert_eq!(out, "virtualmachine.infra.virtrigaud.io/web patched (no change)\n");
    let spec = k.json("get vm web")["spec"].clone();
    assert_eq!(spec.get("tags"), None);
    assert_eq!(spec["powerState"], "Off");
    // The defaults of the added disk are filled in.
    assert_eq!(spec["disks"][0]["sizeGiB"], 11);
    assert_eq!(
        spec["disks"][1],
        json!({"name": "e", "sizeGiB": 5, "type": "thin", "expandPolicy": "Offline"})
    );

    // A kind of ours has no strategic merge; a failed test and a missing path refuse.
    let refused = k.fails(1, &format!("patch vm web -p {merge}"));
    assert!(
        refused.contains("application/strategic-merge-patch+json is not supported"),
        "{refused}"
    );
    let refused = k.fails(
        1,
        r#"patch vm web --type=json -p '[{"op":"test","path":"/spec/powerState","value":"On"}]'"#,
    );
    assert!(refused.contains("The request is invalid"), "{refused}");
    let refused =
        k.fails(1, r#"patch vm web --type=json -p '[{"op":"remove","path":"/spec/nope"}]'"#);
    assert!(refused.contains("The request is invalid"), "{refused}");

    k.ok("create deployment shop --image=web:1");
    let containers = || k.json("get deploy shop")["spec"]["template"]["spec"]["containers"].clone();
    // A strategic patch merges lists by key, and can delete from them.
    k.ok(r#"patch deploy shop -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"side:1"},{"name":"web","env":[{"name":"A","value":"1"}]}]}}}}'"#);
    let after = containers();
    let names: Vec<_> = after.as_array().into_iter().flatten().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["side", "web"]);
    assert_eq!(after[1]["image"], "web:1");
    assert_eq!(after[1]["env"], json!([{"name": "A", "value": "1"}]));
    k.ok(r#"patch deploy shop -p '{"spec":{"template":{"spec":{"containers":[{"name":"side","$patch":"delete"}]}}}}'"#);
    assert_eq!(containers().as_array().map(Vec::len), Some(1));
    k.ok(r#"patch deploy shop -p '{"spec":{"template":{"spec":{"$retainKeys":["containers"],"containers":[{"name":"web","env":[{"name":"B","value":"2"}]}]}}}}'"#);
    assert_eq!(
        containers()[0]["env"],
        json!([{"name": "B", "value": "2"}, {"name": "A", "value": "1"}])
    );
    k.ok("set image deploy/shop web=web:2");
    k.ok("set env deploy/shop A-");
    assert_eq!(containers()[0]["image"], "web:2");
    assert_eq!(containers()[0]["env"], json!([{"name": "B", "value": "2"}]));
    k.ok(r#"patch deploy shop --type=merge -p '{"spec":{"template":{"spec":{"containers":[{"name":"only","image":"x"}]}}}}'"#);
    assert_eq!(containers()[0]["name"], "only");
    k.ok(r#"patch deploy shop --type=json -p '[{"op":"replace","path":"/spec/replicas","value":4}]'"#);
    assert_eq!(k.json("get deploy shop")["spec"]["replicas"], 4);
}

#[test]
fn status_is_a_part_of_its_own() {
    let Some(k) = Place::new("status") else { return };
    k.apply(&machine(k.namespace, "web"));
    let both = r#"'{"spec":{"powerState":"Off"},"status":{"phase":"Running","ips":["10.0.0.1","10.0.0.2"]}}'"#;
    k.ok(&format!("patch vm web --type=merge --subresource=status -p {both}"));
    let object = k.json("get vm web");
    assert_eq!(
        (&object["status"]["phase"], object["spec"].get("powerState")),
        (&json!("Running"), None)
    );
    assert_eq!(object["metadata"]["generation"], 1);
    k.ok(&format!("patch vm web --type=merge -p {}", both.replace("Running", "Stopped")));
    let object = k.json("get vm web");
    assert_eq!(
        (&object["status"]["phase"], &object["spec"]["powerState"]),
        (&json!("Running"), &json!("Off"))
    );
    assert_eq!(object["metadata"]["generation"], 2);
    let shown = table(&k.ok("get vm web --subresource=status"));
    assert!(shown[1].starts_with("web Running sim small debian"), "{shown:?}");
}

#[test]
fn scale_of_ours_and_of_a_deployment() {
    let Some(k) = Place::new("scale") else { return };
    k.apply(SCALED);
    k.ok("create deployment shop --image=web --replicas=2");
    assert_eq!(k.ok("scale vmset/web --replicas=7"), "vmset.infra.virtrigaud.io/web scaled\n");
    assert_eq!(
        k.ok("scale ng/metal --replicas=4"),
        "nodegroup.autoscaler.vpsie.com/metal scaled\n"
    );
    assert_eq!(k.ok("scale deploy/shop --replicas=5"), "deployment.apps/shop scaled\n");
    assert_eq!(k.json("get vmset web")["spec"]["replicas"], 7);
    assert_eq!(k.json("get ng metal")["spec"]["desiredNodes"], 4);
    assert_eq!(k.json("get deploy shop")["spec"]["replicas"], 5);
    let wrong = k.fails(1, "scale vmset/web --replicas=1 --current-replicas=3");
    assert_eq!(wrong, "error: Expected replicas to be 3, was 7\n");
    k.ok("scale vmset/web --replicas=1 --current-replicas=7");
    let refused = k.fails(
        1,
        r#"patch vmset web --subresource=scale --type=merge -p '{"spec":{"replicas":-1}}'"#,
    );
    assert!(refused.contains("spec.replicas: Invalid value: -1"), "{refused}");
    let scale = k.json("get vmset web --subresource=scale");
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["spec"]["replicas"], 1);
    assert_eq!(table(&k.ok("get vmset web --subresource=scale"))[0], "NAME DESIRED AVAILABLE AGE");
    let shown = table(&k.ok("get deploy shop --subresource=scale"));
    assert!(shown[1].starts_with("shop 5 0 "), "{shown:?}");
}

#[test]
fn labels_and_annotations() {
    let Some(k) = Place::new("label") else { return };
    k.apply(&machine(k.namespace, "web"));
    k.apply(&machine(k.namespace, "db"));
    assert_eq!(k.ok("label vm web tier=front"), "virtualmachine.infra.virtrigaud.io/web labeled\n");
    assert_eq!(
        k.fails(1, "label vm web tier=back"),
        "error: 'tier' already has a value (front), and --overwrite is false\n"
    );
    k.ok("label vm web tier=back --overwrite");
    k.ok("label vm --all zone=a");
    k.ok("label vm web app-");
    assert_eq!(k.json("get vm web")["metadata"]["labels"], json!({"tier": "back", "zone": "a"}));
    k.ok("annotate vm -l zone=a note='two words'");
    assert_eq!(k.json("get vm db")["metadata"]["annotations"]["note"], "two words");
    k.ok("annotate vm db note-");
    assert_eq!(k.json("get vm db")["metadata"]["annotations"].get("note"), None);
    let refused = k.fails(1, "label vm web 'bad key=x'");
    assert!(
        refused.contains(
            "The VirtualMachine \"web\" is invalid: metadata.labels: Invalid value: \"bad key\""
        ),
        "{refused}"
    );
    let refused = k.fails(1, "label vm web tier=front --overwrite --resource-version=1");
    assert!(refused.contains("the object has been modified"), "{refused}");
}

#[test]
fn rollouts_without_a_controller() {
    let Some(k) = Place::new("rollout") else { return };
    k.ok("create deployment shop --image=web:1");
    k.ok("rollout restart deploy/shop");
    let template = k.json("get deploy shop")["spec"]["template"]["metadata"].clone();
    assert!(template["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string(), "{template}");
    k.ok("rollout pause deploy/shop");
    assert_eq!(k.json("get deploy shop")["spec"]["paused"], true);
    k.ok("rollout resume deploy/shop");
    assert_eq!(k.json("get deploy shop")["spec"].get("paused"), None);
    // Three changes of the spec since the first.
    k.ok(r#"patch deploy shop --subresource=status --type=merge -p '{"status":{"observedGeneration":4,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1}}'"#);
    assert_eq!(
        k.ok("rollout status deploy/shop --timeout=30s"),
        "deployment \"shop\" successfully rolled out\n"
    );
}
