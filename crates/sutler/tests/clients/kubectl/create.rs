//! kubectl create, whose bodies are protobuf.

use serde_json::{Value, json};

use crate::support::{Place, is_ours};

#[test]
fn create_of_built_in_kinds() {
    let Some(k) = Place::new("create") else { return };
    if !is_ours() {
        k.ok("delete clusterrole,clusterrolebinding clients-create --ignore-not-found");
    }
    let file = k.file("settings", "x=1\n");
    for (line, out) in [
        (format!("create cm settings --from-literal=a=b --from-file={file}"), "configmap/settings created"),
        ("create secret generic login --from-literal=user=me".into(), "secret/login created"),
        ("create secret docker-registry pull --docker-server=r --docker-username=u --docker-password=p".into(), "secret/pull created"),
        ("create sa robot".into(), "serviceaccount/robot created"),
        ("create role reader --verb=get,list --resource=vm,deployments/scale --resource-name=web".into(), "role.rbac.authorization.k8s.io/reader created"),
        ("create rolebinding readers --role=reader --serviceaccount=create:robot --user=joe --group=team".into(), "rolebinding.rbac.authorization.k8s.io/readers created"),
        ("create clusterrole clients-create --verb=get --resource=nodes".into(), "clusterrole.rbac.authorization.k8s.io/clients-create created"),
        ("create clusterrolebinding clients-create --clusterrole=clients-create --user=joe".into(), "clusterrolebinding.rbac.authorization.k8s.io/clients-create created"),
        ("create deployment shop --image=web:1 --replicas=3 --port=80".into(), "deployment.apps/shop created"),
        ("create pdb shop --selector=app=shop --min-available=50%".into(), "poddisruptionbudget.policy/shop created"),
        ("create service clusterip shop --tcp=80:8080".into(), "service/shop created"),
        ("run one --image=web:1 --env=A=B --labels=app=one".into(), "pod/one created"),
        ("expose deploy/shop --name=exposed --port=80".into(), "service/exposed exposed"),
    ] {
        assert_eq!(k.ok(&line).trim_end(), out, "{line}");
    }
    let again = k.fails(1, "create cm settings --from-literal=a=b");
    assert_eq!(
        again,
        "error: failed to create configmap: configmaps \"settings\" already exists\n"
    );

    assert_eq!(k.json("get cm settings")["data"], json!({"a": "b", "settings": "x=1\n"}));
    assert_eq!(k.json("get secret login")["data"], json!({"user": "bWU="}));
    assert_eq!(k.json("get secret pull")["type"], "kubernetes.io/dockerconfigjson");
    // kubectl writes its groups in any order.
    let rules = k.json("get role reader")["rules"].clone();
    let mut rules: Vec<_> = rules.as_array().cloned().unwrap_or_default();
    rules.sort_by_key(ToString::to_string);
    assert_eq!(
        Value::from(rules),
        json!([
            {"apiGroups": ["apps"], "resourceNames": ["web"], "resources": ["deployments/scale"], "verbs": ["get", "list"]},
            {"apiGroups": ["infra.virtrigaud.io"], "resourceNames": ["web"], "resources": ["virtualmachines"], "verbs": ["get", "list"]},
        ])
    );
    assert_eq!(k.json("get rolebinding readers")["subjects"].as_array().map(Vec::len), Some(3));
    let deployment = k.json("get deploy shop");
    assert_eq!(deployment["spec"]["strategy"]["type"], "RollingUpdate");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    assert_eq!(k.json("get pdb shop")["spec"]["minAvailable"], "50%");
    assert!(
        k.json("get svc shop")["spec"]["clusterIP"].as_str().is_some_and(|ip| ip.contains('.'))
    );
    assert_eq!(k.json("get svc exposed")["spec"]["selector"], json!({"app": "shop"}));
    assert_eq!(k.json("get pod one")["status"]["phase"], "Pending");
    k.ok("delete clusterrole,clusterrolebinding clients-create");
}

#[test]
fn names_are_generated() {
    let Some(k) = Place::new("generate") else { return };
    let manifest = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"some-"}}"#;
    for _ in 0..2 {
        assert_eq!(k.feed("create -f -", manifest).code, 0);
    }
    let names = k.ok("get cm -o name");
    let ours: Vec<_> = names.lines().filter(|name| name.starts_with("configmap/some-")).collect();
    assert!(
        ours.len() == 2 && ours.iter().all(|name| name.len() == "configmap/some-12345".len()),
        "{names}"
    );
}

#[test]
fn a_kustomization_is_applied_and_deleted() {
    let Some(k) = Place::new("kustomize") else { return };
    k.file("vm.yaml", &crate::support::machine(k.namespace, "web"));
    k.file("kustomization.yaml", "resources: [vm.yaml]\nnamePrefix: blue-\nconfigMapGenerator: [{name: set, literals: [a=b]}]\n");
    let folder = k.path("").display().to_string();
    let out = k.ok(&format!("apply -k {folder}"));
    assert!(out.contains("virtualmachine.infra.virtrigaud.io/blue-web created"), "{out}");
    k.ok("get vm blue-web");
    k.ok(&format!("delete -k {folder}"));
    assert_eq!(k.ok("get vm -o name"), "");
}
