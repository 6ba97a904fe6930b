//! kubectl apply in its forms: client-side, server-side, diff, prune, dry runs, edit, replace.

use serde_json::json;

use crate::support::{Place, Run, config_map, machine};

/// A machine, a ConfigMap and a Deployment: a merge patch, a small strategic one, a deep one.
fn shop(namespace: &str) -> String {
    format!(
        "{}  powerState: \"On\"
  tags: [a, b]
  disks: [{{name: data, sizeGiB: 10}}]
---
{}---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: shop, namespace: {namespace}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: shop}}}}
  template:
    metadata: {{labels: {{app: shop}}}}
    spec:
      containers:
        - name: web
          image: web:1
          env: [{{name: MODE, value: fast}}]
        - {{name: side, image: side:1}}
",
        machine(namespace, "shop"),
        config_map(namespace, "shop", "one: '1', two: '2'"),
    )
}

/// The same with a changed value in each, and a field, an entry and a list item less.
fn smaller_shop(namespace: &str) -> String {
    shop(namespace)
        .replace("  tags: [a, b]\n", "")
        .replace("sizeGiB: 10", "sizeGiB: 20")
        .replace("one: '1', two: '2'", "one: '3'")
        .replace("image: web:1\n          env: [{name: MODE, value: fast}]", "image: web:2")
        .replace("        - {name: side, image: side:1}\n", "")
}

const CREATED: &str = "virtualmachine.infra.virtrigaud.io/shop created
configmap/shop created
deployment.apps/shop created
";

#[test]
fn client_side_apply_prunes_what_the_manifest_no_longer_has() {
    let Some(k) = Place::new("apply-client") else { return };
    let (first, second) = (shop(k.namespace), smaller_shop(k.namespace));
    // The disk's defaults are not in the manifest: kubectl sends the list, and nothing changes.
    let again = CREATED.replace("created", "unchanged").replacen("unchanged", "configured", 1);
    assert_eq!(k.apply(&first), CREATED);
    let version = || k.ok("get vm shop -o jsonpath={.metadata.resourceVersion}");
    let before = version();
    assert_eq!(k.apply(&first), again);
    assert_eq!(version(), before);
    // Another's field, which no manifest names, stays.
    k.ok("label vm shop tier=front");
    let run = k.feed("apply -f -", &second);
    assert_eq!(run.out, CREATED.replace("created", "configured"), "{}", run.err);
    assert_eq!(run.err, "");

    let machine = k.json("get vm shop");
    assert_eq!(machine["spec"].get("tags"), None);
    assert_eq!(machine["spec"]["disks"][0]["sizeGiB"], 20);
    assert_eq!(machine["spec"]["powerState"], "On");
    assert_eq!(machine["metadata"]["labels"], json!({"app": "shop", "tier": "front"}));
    assert_eq!(machine["metadata"]["generation"], 2);
    assert_eq!(k.json("get cm shop")["data"], json!({"one": "3"}));
    let deployment = k.json("get deploy shop");
    let containers = &deployment["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers.as_array().map(Vec::len), Some(1), "{containers}");
    assert_eq!(containers[0]["image"], "web:2");
    assert_eq!(containers[0].get("env"), None);

    let last = k.ok("apply view-last-applied vm shop -o json");
    assert!(last.contains("\"sizeGiB\": 20") && !last.contains("tags"), "{last}");
    assert_eq!(k.apply(&second), again);
}

#[test]
fn server_side_apply_has_owners_and_conflicts() {
    let Some(k) = Place::new("apply-server") else { return };
    let applied = "virtualmachine.infra.virtrigaud.io/shop serverside-applied
configmap/shop serverside-applied
deployment.apps/shop serverside-applied
";
    let file = k.file("shop.yaml", &shop(k.namespace));
    let first = k.ok(&format!("apply --server-side --field-manager=one -f {file}"));
    assert_eq!(first, applied);

    let file = k.file("smaller.yaml", &smaller_shop(k.namespace));
    let conflict = k.fails(1, &format!("apply --server-side --field-manager=two -f {file}"));
    for field in [
        "conflict with \"one\": .spec.disks[name=\"data\"].sizeGiB",
        "conflict with \"one\": .data.one",
        "conflict with \"one\": .spec.template.spec.containers[name=\"web\"].image",
        "Please review the fields above",
    ] {
        assert!(conflict.contains(field), "{field} is not in {conflict}");
    }
    assert_eq!(k.json("get cm shop")["data"]["one"], "1");

    let force = "apply --server-side --field-manager=two --force-conflicts";
    assert_eq!(k.ok(&format!("{force} -f {file}")), applied);
    // What only the first has stays with it, until it applies without it.
    assert_eq!(k.json("get cm shop")["data"], json!({"one": "3", "two": "2"}));
    k.ok(&format!("apply --server-side --field-manager=one --force-conflicts -f {file}"));
    assert_eq!(k.json("get cm shop")["data"], json!({"one": "3"}));
    let machine = k.json("get vm shop --show-managed-fields");
    let mut managers: Vec<_> = machine["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|entry| (entry["manager"].as_str(), entry["operation"].as_str()))
        .collect();
    // They are in the order of their times, which may be one.
    managers.sort_unstable();
    assert_eq!(managers, [(Some("one"), Some("Apply")), (Some("two"), Some("Apply"))]);
    assert_eq!(machine["spec"].get("tags"), None);
    let containers = k.ok("get deploy shop -o jsonpath={.spec.template.spec.containers[*].name}");
    assert_eq!(containers, "web");
}

#[test]
fn client_side_apply_becomes_server_side() {
    let Some(k) = Place::new("apply-migrate") else { return };
    k.apply(&config_map(k.namespace, "moved", "a: '1', b: '2'"));
    let file = k.file("moved.yaml", &config_map(k.namespace, "moved", "a: '1'"));
    // kubectl moves the ownership from its client-side manager by a JSON patch of managedFields.
    k.ok(&format!("apply --server-side -f {file}"));
    assert_eq!(k.json("get cm moved")["data"], json!({"a": "1"}));
    let object = k.json("get cm moved --show-managed-fields");
    let fields = &object["metadata"]["managedFields"];
    let managers: Vec<_> =
        fields.as_array().into_iter().flatten().map(|entry| entry["manager"].clone()).collect();
    assert_eq!(managers, ["kubectl-last-applied", "kubectl"], "{fields}");
}

#[test]
fn diff_tells_by_its_code() {
    let Some(k) = Place::new("diff") else { return };
    let file = k.file("shop.yaml", &shop(k.namespace));
    let run = k.run(&format!("diff -f {file}"));
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.out.contains("+kind: VirtualMachine"), "{}", run.out);
    assert!(k.run("get vm,cm,deploy -o name").out.is_empty(), "diff wrote");
    k.ok(&format!("apply -f {file}"));
    assert_eq!(k.ok(&format!("diff -f {file}")), "");

    let file = k.file("smaller.yaml", &smaller_shop(k.namespace));
    let run = k.run(&format!("diff -f {file}"));
    assert_eq!(run.code, 1, "{run:?}");
    for line in [
        "-  - a\n",
        "-    sizeGiB: 10\n",
        "+    sizeGiB: 20\n",
        "-  two: \"2\"\n",
        "-      - image: side:1",
    ] {
        assert!(run.out.contains(line), "{line:?} is not in {}", run.out);
    }
    let line = format!("diff --server-side --force-conflicts -f {file}");
    let run = k.run(&line);
    assert_eq!(run.code, 1, "{run:?}");
    let broken = k.file("broken.yaml", &shop(k.namespace).replace("\"On\"", "Sideways"));
    let run = k.run(&format!("diff -f {broken}"));
    assert!(run.code > 1 && run.err.contains("Unsupported value"), "{run:?}");
}

#[test]
fn dry_runs_check_and_write_nothing() {
    let Some(k) = Place::new("dry-run") else { return };
    let file = k.file("shop.yaml", &shop(k.namespace));
    let out = k.ok(&format!("apply --dry-run=server -f {file}"));
    assert_eq!(out, CREATED.replace("created", "created (server dry run)"));
    assert_eq!(k.ok("get vm,cm,deploy -o name"), "");
    k.ok(&format!("apply -f {file}"));
    let before = k.json("get vm shop")["metadata"]["resourceVersion"].clone();
    let patched = k.ok("patch vm shop --type=merge --dry-run=server -o yaml -p '{\"spec\":{\"powerState\":\"Off\"}}'");
    assert!(patched.contains("powerState: \"Off\""), "{patched}");
    k.ok("label vm shop --dry-run=server x=y");
    k.ok("delete vm shop --dry-run=server");
    k.ok("create secret generic hidden --from-literal=a=b --dry-run=server");
    assert_eq!(k.json("get vm shop")["metadata"]["resourceVersion"], before);
    k.fails(1, "get secret hidden");
    let refused = k.fails(
        1,
        "patch vm shop --type=merge --dry-run=server -p '{\"spec\":{\"powerState\":\"x\"}}'",
    );
    assert!(refused.contains("spec.powerState: Unsupported value: \"x\""), "{refused}");
}

#[test]
fn apply_prunes_what_is_not_in_the_set() {
    let Some(k) = Place::new("prune") else { return };
    let maps = |file: &str, names: &[&str]| {
        let texts: Vec<_> = names
            .iter()
            .map(|name| config_map(k.namespace, name, "a: '1'").replace("app:", "set: all, app:"))
            .collect();
        k.file(file, &texts.join("---\n"))
    };
    k.ok("create cm bystander --from-literal=a=b");
    k.ok("label cm bystander set=all");
    let prune = "apply --prune -l set=all --prune-allowlist=core/v1/ConfigMap";
    k.ok(&format!("{prune} -f {}", maps("both.yaml", &["one", "two"])));
    let out = k.ok(&format!("{prune} -f {}", maps("one.yaml", &["one"])));
    assert_eq!(out, "configmap/one unchanged\nconfigmap/two pruned\n");
    // Only what was applied is pruned.
    k.ok("get cm bystander");

    // The newer way: a parent object lists its members.
    let apply = |file: &str| {
        let line = format!("apply --prune --applyset=members -f {file}");
        let mut command = k.kubectl(&line);
        let run = Run::from(command.env("KUBECTL_APPLYSET", "true").output().expect("it runs"));
        assert_eq!(run.code, 0, "{run:?}");
        run.out
    };
    apply(&maps("members.yaml", &["uno", "due"]));
    assert!(apply(&maps("member.yaml", &["uno"])).contains("configmap/due pruned"));
    let left = k.ok("get cm -l set=all -o name");
    assert_eq!(left, "configmap/bystander\nconfigmap/one\nconfigmap/uno\n");
}

#[test]
fn edit_sends_what_the_editor_left() {
    let Some(k) = Place::new("edit") else { return };
    k.apply(&format!("{}  powerState: \"On\"\n", machine(k.namespace, "web")));
    k.apply(&config_map(k.namespace, "web", "mode: slow"));
    let edit = |line: &str, script: &str| {
        let command = format!("edit {line}");
        let editor = format!("sed -i -e {script}");
        Run::from(k.kubectl(&command).env("KUBE_EDITOR", editor).output().expect("kubectl runs"))
    };
    let run = edit("vm web", "s/powerState:.*/powerState:\\ OffGraceful/");
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "virtualmachine.infra.virtrigaud.io/web edited\n"),
        "{run:?}"
    );
    assert_eq!(k.json("get vm web")["spec"]["powerState"], "OffGraceful");
    let run = edit("cm web", "s/mode:\\ slow/mode:\\ fast/");
    assert_eq!((run.code, run.out.as_str()), (0, "configmap/web edited\n"), "{run:?}");
    assert_eq!(k.json("get cm web")["data"]["mode"], "fast");
    let run = edit("vm web", "s/nothing/at-all/");
    assert_eq!((run.code, run.err.as_str()), (0, "Edit cancelled, no changes made.\n"), "{run:?}");
    let run = edit("vm web", "s/OffGraceful/Sideways/");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("virtualmachines.infra.virtrigaud.io \"web\" is invalid"), "{run:?}");
    k.ok(
        "patch vm web --subresource=status --type=merge -p '{\"status\":{\"phase\":\"Running\"}}'",
    );
    let run = edit("vm web --subresource=status", "s/phase:\\ Running/phase:\\ Stopped/");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(k.json("get vm web")["status"]["phase"], "Stopped");
}

#[test]
fn replace_needs_the_newest_version() {
    let Some(k) = Place::new("replace") else { return };
    k.apply(&config_map(k.namespace, "one", "a: '1'"));
    let old = k.ok("get cm one -o yaml");
    let run = k.feed("replace -f -", &old.replace("a: \"1\"", "a: \"2\""));
    assert_eq!(run.out, "configmap/one replaced\n", "{run:?}");
    assert_eq!(k.json("get cm one")["data"]["a"], "2");
    let run = k.feed("replace -f -", &old);
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("Error from server (Conflict)")
            && run.err.contains("the object has been modified; please apply your changes"),
        "{run:?}"
    );
    let uid = k.json("get cm one")["metadata"]["uid"].clone();
    let run = k.feed("replace --force -f -", &config_map(k.namespace, "one", "a: '3'"));
    assert_eq!(run.code, 0, "{run:?}");
    assert_ne!(k.json("get cm one")["metadata"]["uid"], uid);
    let run = k.feed("replace -f -", &config_map(k.namespace, "absent", "a: '3'"));
    assert!(run.err.contains("configmaps \"absent\" not found"), "{run:?}");
}

#[test]
fn what_is_wrong_is_named() {
    let Some(k) = Place::new("refused") else { return };
    let run = k.feed("create -f -", &machine(k.namespace, "typo").replace("classRef", "klassRef"));
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("VirtualMachine in version \"v1beta1\" cannot be handled as a VirtualMachine: strict decoding error: unknown field \"spec.klassRef\""),
        "{run:?}"
    );
    let run = k.feed(
        "create --validate=warn -f -",
        &format!("{}  nope: 1\n", machine(k.namespace, "warned")),
    );
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("Warning: unknown field \"spec.nope\""), "{run:?}");
    let run = k.feed(
        "create --validate=ignore -f -",
        &format!("{}  nope: 1\n", machine(k.namespace, "ignored")),
    );
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
    let run = k.feed("create -f -", &config_map(k.namespace, "Bad_", "a: b"));
    assert!(
        run.err.contains(
            "The ConfigMap \"Bad_\" is invalid: \n* metadata.name: Invalid value: \"Bad_\""
        ),
        "{run:?}"
    );
    let run = k.feed("create -f -", &config_map(k.namespace, "typed", "a: 1"));
    assert!(
        run.err.contains("ConfigMap in version \"v1\" cannot be handled as a ConfigMap"),
        "{run:?}"
    );
    let run = k.feed("create -f -", &config_map("nowhere", "lost", "a: b"));
    assert!(run.err.contains("the namespace from the provided object"), "{run:?}");
    let run = k.feed(
        "apply -f -",
        &machine(k.namespace, "shrunk")
            .replace("  imageRef", "  disks: [{name: d, sizeGiB: 0}]\n  imageRef"),
    );
    assert!(
        run.err.contains("The VirtualMachine \"shrunk\" is invalid:")
            && run.err.contains("spec.disks[0].sizeGiB"),
        "{run:?}"
    );
    let disk = |size: u32| {
        machine(k.namespace, "disk")
            .replace("  imageRef", &format!("  disks: [{{name: d, sizeGiB: {size}}}]\n  imageRef"))
    };
    k.apply(&disk(20));
    let run = k.feed("apply -f -", &disk(10));
    assert!(run.err.contains("The VirtualMachine \"disk\" is invalid: spec.disks[0].sizeGiB: Invalid value: 10: a disk cannot shrink"), "{run:?}");
}
