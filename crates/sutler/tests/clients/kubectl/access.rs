//! kubectl auth, and what roles allow.

use crate::support::{Place, is_ours, machine, table};

#[test]
fn roles_decide_and_can_i_tells() {
    let Some(k) = Place::new("access") else { return };
    k.apply(&machine(k.namespace, "web"));
    k.ok("create sa robot");
    k.ok("create role reader --verb=get,list,watch --resource=vm,cm");
    k.ok("create rolebinding robot --role=reader --serviceaccount=access:robot");
    let robot = "--as=system:serviceaccount:access:robot";

    assert_eq!(k.ok("auth can-i create pods"), "yes\n");
    assert_eq!(k.ok("auth can-i '*' '*' --all-namespaces"), "yes\n");
    assert_eq!(k.ok(&format!("auth can-i list vm {robot}")), "yes\n");
    for line in [
        "delete vm",
        "get vm --subresource=status",
        "list vm -n default",
        "get secrets",
        "get /metrics",
    ] {
        let run = k.run(&format!("auth can-i {line} {robot}"));
        assert_eq!((run.code, run.out.as_str()), (1, "no\n"), "{line}: {run:?}");
    }
    assert_eq!(k.run(&format!("auth can-i -q delete vm {robot}")).code, 1);
    let list = table(&k.ok(&format!("auth can-i --list {robot}")));
    for line in [
        "Resources Non-Resource URLs Resource Names Verbs",
        "configmaps [] [] [get list watch]",
        "virtualmachines.infra.virtrigaud.io [] [] [get list watch]",
        "selfsubjectaccessreviews.authorization.k8s.io [] [] [create]",
        "[/version] [] [get]",
    ] {
        assert!(list.iter().any(|have| have == line), "{line} is not in {list:#?}");
    }

    assert_eq!(
        k.ok(&format!("get vm -o name {robot}")),
        "virtualmachine.infra.virtrigaud.io/web\n"
    );
    let refused = k.fails(1, &format!("delete vm web {robot}"));
    assert_eq!(
        refused,
        "Error from server (Forbidden): virtualmachines.infra.virtrigaud.io \"web\" is forbidden: User \"system:serviceaccount:access:robot\" cannot delete resource \"virtualmachines\" in API group \"infra.virtrigaud.io\" in the namespace \"access\"\n"
    );
    // Nobody gives what they have not got.
    k.ok("create role binder --verb=create --resource=roles,rolebindings");
    k.ok("create rolebinding binder --role=binder --user=mallory");
    let refused = k.fails(1, "create role more --verb=get --resource=secrets --as=mallory");
    assert!(
        refused.contains("is attempting to grant RBAC permissions not currently held"),
        "{refused}"
    );

    // The ready-made roles reach our kinds.
    k.ok("create rolebinding viewer --clusterrole=view --user=vera");
    if is_ours() {
        assert_eq!(k.ok("auth can-i list vm --as=vera"), "yes\n");
    }
    assert_eq!(k.run("auth can-i get secrets --as=vera").out, "no\n");
    assert_eq!(k.run("auth can-i delete cm --as=vera").out, "no\n");
}

#[test]
fn whoami_tells_user_and_groups() {
    let Some(k) = Place::new("whoami") else { return };
    let me = table(&k.ok("auth whoami"));
    assert!(
        me.iter().any(|line| line.starts_with("Groups") && line.contains("system:masters")),
        "{me:?}"
    );
    let joe = table(&k.ok("auth whoami --as=joe --as-group=team --as-uid=7"));
    assert_eq!(joe[1..], ["Username joe", "UID 7", "Groups [team system:authenticated]"]);
    let outcome = k.run("auth whoami --token=wrong --kubeconfig=/dev/null");
    assert_ne!(outcome.code, 0, "{outcome:?}");
}

#[test]
fn reconcile_adds_what_a_role_lacks() {
    let Some(k) = Place::new("reconcile") else { return };
    let role = |verbs: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: some, namespace: reconcile}}\nrules: [{{apiGroups: [''], resources: [pods], verbs: [{verbs}]}}]\n"
        )
    };
    assert_eq!(k.feed("auth reconcile -f -", &role("get")).code, 0);
    assert_eq!(k.feed("auth reconcile -f -", &role("list")).code, 0);
    let rules = k.json("get role some")["rules"].clone();
    let verbs: Vec<_> =
        rules.as_array().into_iter().flatten().map(|rule| rule["verbs"].to_string()).collect();
    assert!(verbs.concat().contains("get") && verbs.concat().contains("list"), "{rules}");
}
