//! Helm with a chart of ours.

use serde_json::{Value, json};

use crate::support::{Place, Run, table};

fn chart() -> String {
    std::path::absolute("tests/clients/chart").expect("a folder of ours").display().to_string()
}

#[test]
fn a_release_from_install_to_uninstall() {
    let Some(k) = Place::new("helm") else { return };
    if k.helm("version").is_none() {
        return;
    }
    let helm = |line: &str| {
        let mut command = k.helm(line).expect("it is there");
        let run = Run::from(command.output().expect("it runs"));
        assert_eq!(run.code, 0, "helm {line}\n{}{}", run.out, run.err);
        run.out
    };
    let chart = chart();
    let dry = helm(&format!("install shop {chart} --dry-run=server"));
    assert!(dry.contains("STATUS: pending-install"), "{dry}");
    let out = helm(&format!("install shop {chart} --wait --timeout=50s"));
    assert!(out.contains("STATUS: deployed\nREVISION: 1"), "{out}");
    let machine = || k.json("get vm shop-web");
    assert_eq!(machine()["spec"]["powerState"], "On");
    assert_eq!(machine()["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(k.json("get secret shop-login")["data"], json!({"user": "bWU="}));
    assert_eq!(k.ok("get provider,vmclass,vmimage,cm -l release=shop -o name").lines().count(), 4);

    helm(&format!(
        "upgrade shop {chart} --set power=Off --set settings.mode=slow --set settings.extra=1 --set login.enabled=false"
    ));
    assert_eq!(machine()["spec"]["powerState"], "Off");
    assert_eq!(k.json("get cm shop-settings")["data"], json!({"extra": "1", "mode": "slow"}));
    k.fails(1, "get secret shop-login");
    // A hand's change to what the chart does not name stays; one to what it names is put right.
    k.ok("label vm shop-web by=hand");
    k.ok("patch vm shop-web --type=merge -p '{\"spec\":{\"powerState\":\"OffGraceful\"}}'");
    helm(&format!("upgrade shop {chart} --reuse-values --set disk=30"));
    assert_eq!(machine()["spec"]["disks"][0]["sizeGiB"], 30);
    assert_eq!(machine()["metadata"]["labels"]["by"], "hand");

    let refused = Run::from(
        k.helm(&format!("upgrade shop {chart} --set power=Sideways"))
            .expect("it is there")
            .output()
            .expect("it runs"),
    );
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.err.contains("spec.powerState: Unsupported value: \"Sideways\""),
        "{refused:?}"
    );

    let history: Value = serde_json::from_str(&helm("history shop -o json")).unwrap_or_default();
    let states: Vec<_> =
        history.as_array().into_iter().flatten().map(|entry| entry["status"].clone()).collect();
    assert_eq!(states, ["superseded", "superseded", "deployed", "failed"]);
    assert!(helm("status shop").contains("STATUS: failed"));
    assert!(helm("get manifest shop --revision=1").contains("kind: VirtualMachine"));
    assert!(table(&helm("list --all"))[1].starts_with("shop helm 4 "));

    // A disk cannot shrink, so the way back ends where the disk grew.
    assert_eq!(
        helm("rollback shop 3 --wait --timeout=50s"),
        "Rollback was a success! Happy Helming!\n"
    );
    assert_eq!(machine()["spec"]["powerState"], "Off");
    assert_eq!(k.json("get cm shop-settings")["data"], json!({"extra": "1", "mode": "slow"}));
    let refused =
        Run::from(k.helm("rollback shop 1").expect("it is there").output().expect("it runs"));
    assert!(refused.err.contains("a disk cannot shrink"), "{refused:?}");
    k.ok("delete vm shop-web");
    helm("rollback shop 1");
    assert_eq!(machine()["spec"]["powerState"], "On");
    assert_eq!(k.json("get secret shop-login")["data"], json!({"user": "bWU="}));

    assert_eq!(helm("uninstall shop --wait --timeout=50s"), "release \"shop\" uninstalled\n");
    assert_eq!(k.ok("get sutler,cm,secret -l release=shop -o name"), "");
    assert_eq!(table(&helm("list --all")).len(), 1);

    let manifest = helm(&format!("template again {chart}"));
    let out = k.apply(&manifest);
    assert!(out.contains("virtualmachine.infra.virtrigaud.io/again-web created"), "{out}");
    assert!(!k.apply(&manifest).contains("created"));
}
