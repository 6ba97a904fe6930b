//! Rows of tables for whole objects.

use std::fs;

use serde_json::{Value, json};
use sutler_builtin::{cells, columns, row_conditions};

use crate::pipeline::{create, folder, kind_of, manifests, read};

#[test]
fn columns_and_cells_are_those_of_the_real_server() {
    let path = folder("fixtures/tables.json");
    let tables: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    for (name, manifest) in manifests() {
        let kind = kind_of(&manifest);
        let heads: Vec<Value> = columns(kind)
            .iter()
            .map(|column| json!([column.name, column.ty, column.format, column.priority]))
            .collect();
        assert_eq!(Value::from(heads), tables[&name]["columns"], "{name}");
        let row = row(&name);
        for (i, expected) in tables[&name]["cells"].as_array().unwrap().iter().enumerate() {
            if !expected.is_null() {
                assert_eq!(row[i], *expected, "{name}, {}", columns(kind)[i].name);
            }
        }
    }
}

fn row(name: &str) -> Value {
    let (_, manifest) = manifests().into_iter().find(|(found, _)| found == name).unwrap();
    let kind = kind_of(&manifest);
    let (object, _) = create(kind, read(manifest).unwrap());
    let row = cells(kind, &object, "2024-01-01T02:00:00Z".parse().unwrap());
    assert_eq!(row.len(), columns(kind).len(), "{name}");
    row.into()
}

#[test]
fn rows() {
    let cases = [
        ("configmap", json!(["settings", 3, "120m"])),
        ("secret", json!(["token", "Opaque", 3, "120m"])),
        ("namespace", json!(["team-a", "Active", "120m"])),
        ("serviceaccount", json!(["robot", "120m"])),
        ("lease", json!(["leader", "a", "120m"])),
        ("role", json!(["reader", "2024-01-01T00:00:00Z"])),
        ("rolebinding", json!(["readers", "Role/reader", "120m", "ann", "devs", "default/robot"])),
        ("poddisruptionbudget", json!(["web", "50%", "N/A", 0, "120m"])),
        ("storageclass", json!(["fast", "Example.com/Disk", "Delete", "Immediate", true, "120m"])),
        (
            "node",
            json!([
                "n1",
                "Ready,SchedulingDisabled",
                "edge,worker",
                "120m",
                "v1.36.0",
                "10.0.0.5",
                "<none>",
                "Debian 12",
                "6.1 (amd64)",
                "containerd://1.7"
            ]),
        ),
        (
            "service",
            json!(["web", "ClusterIP", "10.0.0.5", "<none>", "80/TCP,53/UDP", "120m", "app=web"]),
        ),
        (
            "service-balancer",
            json!(["front", "LoadBalancer", "10.0.0.5", "192.0.2.7", "443/TCP", "120m", "<none>"]),
        ),
        (
            "service-external",
            json!(["away", "ExternalName", "<none>", "example.com.", "<none>", "120m", "<none>"]),
        ),
        ("deployment", json!(["web", "0/0", 0, 0, "120m", "web", "nginx", "app=web"])),
        ("deployment-recreate", json!(["batch", "0/1", 0, 0, "120m", "x", "x:latest", "app"])),
        ("replicaset", json!(["web-1", 1, 0, 0, "120m", "web", "nginx", "app=web"])),
        ("daemonset", json!(["agent", 0, 0, 0, 0, 0, "<none>", "120m", "web", "nginx", "app=web"])),
        (
            "persistentvolume",
            json!([
                "disk-1",
                "10Gi",
                "RWO,ROX",
                "Retain",
                "Pending",
                "default/data",
                "fast",
                "<unset>",
                "",
                "120m",
                "Filesystem"
            ]),
        ),
        (
            "persistentvolumeclaim",
            json!(["data", "Pending", "", "", "", "fast", "<unset>", "120m", "Filesystem"]),
        ),
        (
            "pod-minimal",
            json!(["mini", "0/1", "Pending", "0", "120m", "<none>", "<none>", "<none>", "<none>"]),
        ),
        (
            "pod-guaranteed",
            json!([
                "sure",
                "0/1",
                "SchedulingGated",
                "0",
                "120m",
                "<none>",
                "<none>",
                "<none>",
                "<none>"
            ]),
        ),
    ];
    for (name, expected) in cases {
        assert_eq!(row(name), expected, "{name}");
    }
    let event = row("event");
    assert_eq!(event[3], "pod/web");
    assert_eq!(event[5], "kubelet, n1");
    assert_eq!(event[6], "it runs");
    assert_eq!(event[8], 3);
    assert_eq!(row("event-series")[5], "example.com/controller, controller-0");
}

#[test]
fn pods_that_are_done_are_marked() {
    let kind = kind_of(&json!({"apiVersion": "v1", "kind": "Pod"}));
    let conditions = row_conditions(kind, &json!({"status": {"phase": "Failed"}}));
    assert_eq!(conditions[0]["reason"], "Failed");
    assert!(row_conditions(kind, &json!({"status": {"phase": "Running"}})).is_empty());
}
