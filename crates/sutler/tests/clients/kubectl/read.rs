//! kubectl get in its output forms, describe, explain, events, and what the server says of itself.

use crate::support::{Place, Run, config_map, is_ours, machine, table};

#[test]
fn get_in_every_form() {
    let Some(k) = Place::new("get") else { return };
    k.apply(&format!("{}  disks: [{{name: d, sizeGiB: 10}}]\n", machine(k.namespace, "web")));
    k.apply(&machine(k.namespace, "db"));
    k.ok("patch vm web --subresource=status --type=merge -p '{\"status\":{\"phase\":\"Running\",\"ips\":[\"10.0.0.1\",\"10.0.0.2\"],\"hostname\":\"web.example.org\"}}'");
    let ips = if is_ours() { "10.0.0.1,10.0.0.2" } else { "10.0.0.1" };
    let shown = table(&k.ok("get vm web"));
    assert_eq!(shown[0], "NAME PHASE PROVIDER CLASS IMAGE IPS AGE");
    assert!(shown[1].starts_with(&format!("web Running sim small debian {ips} ")), "{shown:?}");
    let wide = table(&k.ok("get vm -o wide"));
    assert!(
        wide[0].starts_with("NAME PHASE PROVIDER CLASS IMAGE IPS AGE ")
            && wide[0].len() > shown[0].len(),
        "{wide:?}"
    );
    assert_eq!(wide.len(), 3);
    assert_eq!(
        k.ok("get vm -o name"),
        "virtualmachine.infra.virtrigaud.io/db\nvirtualmachine.infra.virtrigaud.io/web\n"
    );
    assert_eq!(
        table(&k.ok("get vm -o custom-columns=N:.metadata.name,D:.spec.disks[0].sizeGiB")),
        ["N D", "db <none>", "web 10"]
    );
    assert_eq!(k.ok("get vm -o jsonpath={.items[*].metadata.name}"), "db web");
    assert_eq!(k.ok("get vm --sort-by=.metadata.creationTimestamp -o name").lines().count(), 2);
    assert!(k.ok("get vm --show-labels").contains("app=db"));
    assert!(
        k.ok("get vm -L app --no-headers")
            .lines()
            .all(|line| line.ends_with("web") || line.ends_with("db"))
    );
    let object = k.json("get vm web");
    assert_eq!(
        (object["kind"].as_str(), object["apiVersion"].as_str()),
        (Some("VirtualMachine"), Some("infra.virtrigaud.io/v1beta1"))
    );
    assert_eq!(object["metadata"].get("managedFields"), None);
    let list = k.json("get vm");
    assert_eq!(
        (list["kind"].as_str(), list["items"].as_array().map(Vec::len)),
        (Some("List"), Some(2))
    );
    assert!(k.ok("get vm web -o yaml").contains("\nkind: VirtualMachine\n"));
    assert!(table(&k.ok("get vm -A")).iter().any(|line| line.starts_with("get web ")));
    k.apply(&config_map(k.namespace, "web", "a: b"));
    let several = k.ok("get vm,cm -l app=web -o name");
    assert_eq!(several, "virtualmachine.infra.virtrigaud.io/web\nconfigmap/web\n");
    assert_eq!(k.ok("get vm/web cm/web -o name").lines().count(), 2);
    k.ok("create deployment shop --image=web");
    assert_eq!(k.ok("get all -o name"), "deployment.apps/shop\n");
    assert_eq!(k.ok("get sutler -o name").lines().count(), 2);

    assert_eq!(
        k.fails(1, "get vm nope"),
        "Error from server (NotFound): virtualmachines.infra.virtrigaud.io \"nope\" not found\n"
    );
    assert_eq!(k.fails(1, "get nope"), "error: the server doesn't have a resource type \"nope\"\n");
    assert_eq!(k.run("get vmset").err, "No resources found in get namespace.\n");
}

#[test]
fn selectors_and_pages() {
    let Some(k) = Place::new("select") else { return };
    let maps: Vec<_> = (0..5)
        .map(|n| config_map(k.namespace, &format!("m{n}"), "a: b").replace("app:", "set: x, app:"))
        .collect();
    k.apply(&maps.join("---\n"));
    k.ok("label cm m0 tier=front");
    k.ok("label cm m1 tier=back");
    let names = |line: &str| {
        k.ok(&format!("get cm -o name {line}")).replace("configmap/", "").replace('\n', " ")
    };
    assert_eq!(names("-l tier=front"), "m0 ");
    assert_eq!(names("-l 'tier in (front,back)'"), "m0 m1 ");
    assert_eq!(names("-l 'set=x,tier notin (front)'"), "m1 m2 m3 m4 ");
    assert_eq!(names("-l set=x,!tier"), "m2 m3 m4 ");
    assert_eq!(names("-l tier!=front,set"), "m1 m2 m3 m4 ");
    assert_eq!(names("-l set=x --field-selector=metadata.name=m3"), "m3 ");
    assert_eq!(names("-l set=x --field-selector=metadata.name!=m3"), "m0 m1 m2 m4 ");
    let wrong = k.fails(1, "get cm -l 'tier in front'");
    assert_eq!(
        wrong,
        "Error from server (BadRequest): Unable to find \"/v1, Resource=configmaps\" that match label selector \"tier in front\", field selector \"\": unable to parse requirement: found 'front' expected: '('\n"
    );
    let wrong = k.fails(1, "get vm --field-selector=spec.nope=x");
    assert!(wrong.contains("field label not supported: spec.nope"), "{wrong}");
    k.ok("run one --image=x");
    assert_eq!(
        k.ok("get pods --field-selector=status.phase=Pending,spec.nodeName= -o name"),
        "pod/one\n"
    );
    assert_eq!(k.ok("get pods --field-selector=status.phase!=Pending -o name"), "");

    let run = k.run("get cm -l set=x --chunk-size=2 -o name -v=6");
    assert_eq!(run.out.lines().count(), 5, "{run:?}");
    let pages = run
        .err
        .lines()
        .filter(|line| line.contains("configmaps?") && line.contains("limit=2"))
        .count();
    assert_eq!(pages, 3, "{}", run.err);
    let page: serde_json::Value =
        serde_json::from_str(&k.ok("get --raw '/api/v1/namespaces/select/configmaps?limit=3'"))
            .unwrap_or_default();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(3));
    assert!(
        page["metadata"]["remainingItemCount"].as_i64().is_some_and(|left| left >= 2),
        "{}",
        page["metadata"]
    );
    let token = page["metadata"]["continue"].as_str().unwrap_or_default();
    let rest = k.ok(&format!(
        "get --raw '/api/v1/namespaces/select/configmaps?limit=100&continue={token}'"
    ));
    assert!(rest.contains("\"m4\"") && !rest.contains("\"m1\""), "{rest}");
}

#[test]
fn describe_and_events() {
    let Some(k) = Place::new("describe") else { return };
    k.apply(&format!("{}  disks: [{{name: data, sizeGiB: 10}}]\n", machine(k.namespace, "web")));
    let uid = k.ok("get vm web -o jsonpath={.metadata.uid}");
    k.apply(&format!("
apiVersion: v1
kind: Event
metadata: {{name: web.1}}
involvedObject: {{apiVersion: infra.virtrigaud.io/v1beta1, kind: VirtualMachine, name: web, namespace: describe, uid: {uid}}}
type: Warning
reason: Slow
message: it takes long
count: 3
firstTimestamp: 2026-01-01T00:00:00Z
lastTimestamp: 2026-01-01T01:00:00Z
source: {{component: test}}
"));
    let text = k.ok("describe vm web");
    for part in [
        "Name:         web",
        "Kind:         VirtualMachine",
        "Provider Ref:",
        "Size Gi B:      10",
        "Warning  Slow",
        "it takes long",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let events = table(&k.ok("get events --field-selector=involvedObject.name=web,type=Warning"));
    assert_eq!(events[0], "LAST SEEN TYPE REASON OBJECT MESSAGE");
    assert!(events[1].ends_with("Warning Slow virtualmachine/web it takes long"), "{events:?}");
    assert_eq!(k.ok("get events.events.k8s.io -o jsonpath={.items[*].note}"), "it takes long");
    let events = k.ok("events --for=vm/web");
    assert!(events.contains("(x3 over") && events.contains("it takes long"), "{events}");
    assert!(k.ok("events --types=Normal").is_empty());

    k.ok("run one --image=x --labels=app=one --env=A=B");
    k.ok("create deployment shop --image=web:1 --replicas=2");
    k.ok("create secret generic login --from-literal=user=me");
    k.ok("create pdb shop --selector=app=shop --min-available=1");
    k.ok("create sa robot");
    k.ok("create role reader --verb=get --resource=pods");
    k.ok("create service clusterip shop --tcp=80:80");
    for (line, parts) in [
        ("pod one", &["Status: Pending", "A: B"][..]),
        ("deploy shop", &["Replicas: 2 desired", "Image: web:1"]),
        ("secret login", &["user: 2 bytes"]),
        ("pdb shop", &["Min available: 1"]),
        ("sa robot", &["Name: robot"]),
        ("role reader", &["pods [] [] [get]"]),
        ("ns describe", &["Status: Active"]),
        ("svc shop", &["TargetPort: 80/TCP"]),
        ("cm -l nothing=here", &[]),
    ] {
        let text = table(&k.ok(&format!("describe {line}"))).join("\n");
        for part in parts {
            assert!(text.contains(part), "describe {line}: {part:?} is not in {text}");
        }
    }
}

#[test]
fn explain_knows_our_kinds_and_others() {
    let Some(k) = Place::new("explain") else { return };
    let text = k.ok("explain vm");
    assert!(
        text.contains(
            "GROUP:      infra.virtrigaud.io\nKIND:       VirtualMachine\nVERSION:    v1beta1\n"
        ),
        "{text}"
    );
    assert!(text.contains("spec\t<Object> -required-"), "{text}");
    let text = k.ok("explain vm --recursive");
    for field in [
        "  spec\t<Object> -required-",
        "    disks\t<[]Object>",
        "      sizeGiB\t<integer> -required-",
        "    powerState\t<string>\n    enum: On, Off, OffGraceful",
    ] {
        assert!(text.contains(field), "{field:?} is not in {text}");
    }
    let text = k.ok("explain vmset.spec.replicas");
    assert!(text.contains("FIELD: replicas <integer>") && !text.contains("<empty>"), "{text}");
    assert!(k.ok("explain nodegroup.spec.bootstrap").contains("tokenSecretRef\t<Object>"));
    let text = k.ok("explain deployment.spec.template.spec.containers --recursive");
    assert!(
        text.contains("FIELD: containers <[]Container>")
            && text.contains("    containerPort\t<integer> -required-"),
        "{text}"
    );
    assert!(k.ok("explain pdb.spec").contains("minAvailable\t<IntOrString>"));
    assert!(k.ok("explain leases.spec.holderIdentity").contains("<string>"));
    assert!(k.fails(1, "explain vm.spec.nope").contains("field \"nope\" does not exist"));
}

#[test]
fn discovery_lists_every_kind() {
    let Some(k) = Place::new("discovery") else { return };
    let all = table(&k.ok("api-resources"));
    for line in [
        "virtualmachines vm infra.virtrigaud.io/v1beta1 true VirtualMachine",
        "nodegroups ng,ngs autoscaler.vpsie.com/v1alpha1 true NodeGroup",
        "autoscalerconfigs asc autoscaler.vpsie.com/v1alpha1 false AutoscalerConfig",
        "applications app sutler.dev/v1alpha1 true Application",
        "configmaps cm v1 true ConfigMap",
        "leases coordination.k8s.io/v1 true Lease",
        "poddisruptionbudgets pdb policy/v1 true PodDisruptionBudget",
        "storageclasses sc storage.k8s.io/v1 false StorageClass",
    ] {
        assert!(all.iter().any(|have| have == line), "{line} is not in {all:#?}");
    }
    let wide = k.ok("api-resources --api-group=infra.virtrigaud.io -o wide");
    assert!(
        wide.lines().skip(1).all(|line| line
            .contains("delete,deletecollection,get,list,patch,create,update,watch")
            && line.contains("sutler")),
        "{wide}"
    );
    let cluster = k.ok("api-resources --namespaced=false -o name");
    assert!(
        cluster.contains("autoscalerconfigs.autoscaler.vpsie.com\n")
            && !cluster.contains("virtualmachines"),
        "{cluster}"
    );
    let ours = k.ok("api-resources --categories=sutler -o name");
    assert_eq!(ours.lines().count(), sutler_api::crds().len(), "{ours}");
    let versions = k.ok("api-versions");
    for version in [
        "v1",
        "apps/v1",
        "infra.virtrigaud.io/v1beta1",
        "rbac.authorization.k8s.io/v1",
        "sutler.dev/v1alpha1",
    ] {
        assert!(versions.lines().any(|have| have == version), "{version} is not in {versions}");
    }
    // The older discovery, group by group, for clients that do not ask for the aggregated one.
    let run = Run::from(
        k.kubectl("get --raw /apis/infra.virtrigaud.io/v1beta1").output().expect("it runs"),
    );
    assert!(
        run.out.contains("\"virtualmachines/status\"") && run.out.contains("\"vmsets/scale\""),
        "{run:?}"
    );
    let crd = k.json("get crd virtualmachines.infra.virtrigaud.io");
    assert_eq!(crd["spec"]["names"]["kind"], "VirtualMachine");

    assert_eq!(k.ok("get --raw /healthz"), "ok");
    assert!(k.ok("get --raw /readyz?verbose").ends_with("readyz check passed\n"));
    assert_eq!(k.ok("get --raw /livez"), "ok");
    assert!(k.ok("version").contains("Server Version: v1.36."));
    assert!(k.ok("cluster-info").contains("is running at"));
    assert_eq!(
        k.fails(1, "get --raw /nope"),
        "Error from server (NotFound): the server could not find the requested resource\n"
    );
}
