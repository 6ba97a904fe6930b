//! Services, and what makes pods: defaults and validation.

use serde_json::{Value, json};

use super::{deployment, with};
use crate::case::Case;
use crate::suite::subject;

subject!("workload":
    service_defaults, service_types, service_errors, service_ports_named, service_headless, service_external_name, service_affinity, service_type_change, service_selector_update, service_node_port, deployment_defaults, deployment_errors, deployment_strategy, deployment_strategy_errors, deployment_generation, deployment_selector_mismatch, deployment_paused, replicaset_defaults, replicaset_errors, daemonset_defaults, daemonset_errors, daemonset_generation, selectors_in_specs, labels_of_templates,
);

fn service(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn service_defaults(c: &Case) {
    let made = c.post("svc", &service("a", json!({"ports": [{"port": 80}]}))).is(201);
    let made = made
        .has("/spec/type", "ClusterIP")
        .has("/spec/ports/0/protocol", "TCP")
        .has("/spec/ports/0/targetPort", 80);
    made.has("/spec/sessionAffinity", "None")
        .has("/spec/ipFamilies/0", "IPv4")
        .has("/spec/internalTrafficPolicy", "Cluster");
}

fn service_types(c: &Case) {
    c.post("svc", &service("a", json!({"type": "NodePort", "ports": [{"port": 80}]})))
        .is(201)
        .shows("/spec/ports/0/nodePort");
    c.post("svc", &service("b", json!({"type": "LoadBalancer", "ports": [{"port": 80}]})))
        .is(201)
        .has("/spec/allocateLoadBalancerNodePorts", true);
    c.post("svc", &service("c", json!({"type": "Odd", "ports": [{"port": 80}]})))
        .refused(422, "Invalid");
}

fn service_errors(c: &Case) {
    c.post("svc", &service("a", json!({}))).refused(422, "Invalid").blames("spec.ports");
    c.post("svc", &service("a", json!({"ports": [{"port": 0}]}))).refused(422, "Invalid");
    c.post("svc", &service("a", json!({"ports": [{"port": 80}, {"port": 81}]})))
        .refused(422, "Invalid")
        .blames("spec.ports[0].name");
    c.post(
        "svc",
        &service(
            "a",
            json!({"ports": [{"port": 80, "protocol": "ICMP", "targetPort": "Bad Port"}]}),
        ),
    )
    .refused(422, "Invalid");
    c.post("svc", &service("a", json!({"ports": [{"port": 80}], "selector": {"a b": "c"}})))
        .refused(422, "Invalid");
    c.post("svc", &service("a", json!({"ports": [{"port": 80}], "clusterIP": "1.2.3.4"})))
        .refused(422, "Invalid");
    c.post("svc", &service("a", json!({"ports": [{"port": 80}], "clusterIP": "x"})))
        .refused(422, "Invalid");
}

fn service_ports_named(c: &Case) {
    c.post("svc", &service("a", json!({"ports": [{"port": 80, "name": "a", "targetPort": "web"}, {"port": 81, "name": "b"}]}))).is(201);
    c.post(
        "svc",
        &service("b", json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]})),
    )
    .refused(422, "Invalid");
    c.post(
        "svc",
        &service("b", json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]})),
    );
}

fn service_headless(c: &Case) {
    c.post("svc", &service("a", json!({"clusterIP": "None", "selector": {"a": "b"}})))
        .is(201)
        .has("/spec/clusterIP", "None");
    c.post(
        "svc",
        &service("b", json!({"clusterIP": "None", "type": "NodePort", "ports": [{"port": 1}]})),
    )
    .refused(422, "Invalid");
}

fn service_external_name(c: &Case) {
    c.post("svc", &service("a", json!({"type": "ExternalName", "externalName": "example.com"})))
        .is(201)
        .lacks("/spec/clusterIP");
    c.post("svc", &service("b", json!({"type": "ExternalName"}))).refused(422, "Invalid");
    c.post("svc", &service("b", json!({"type": "ExternalName", "externalName": "BAD NAME"})))
        .refused(422, "Invalid");
}

fn service_affinity(c: &Case) {
    c.post("svc", &service("a", json!({"sessionAffinity": "ClientIP", "ports": [{"port": 1}]})))
        .is(201)
        .has("/spec/sessionAffinityConfig/clientIP/timeoutSeconds", 10800);
    c.post("svc", &service("b", json!({"sessionAffinity": "Odd", "ports": [{"port": 1}]})))
        .refused(422, "Invalid");
}

fn service_type_change(c: &Case) {
    c.post("svc", &service("a", json!({"ports": [{"port": 80}]}))).is(201);
    c.merge("svc/a", &json!({"spec": {"type": "NodePort"}}))
        .is(200)
        .shows("/spec/ports/0/nodePort");
    c.merge("svc/a", &json!({"spec": {"type": "ClusterIP"}})).is(200);
}

fn service_selector_update(c: &Case) {
    c.post("svc", &service("a", json!({"ports": [{"port": 80}], "selector": {"a": "b"}}))).is(201);
    c.merge("svc/a", &json!({"spec": {"selector": {"a": null, "c": "d"}}}))
        .is(200)
        .has("/spec/selector", json!({"c": "d"}));
    c.merge("svc/a", &json!({"spec": {"selector": null}})).is(200);
}

fn service_node_port(c: &Case) {
    c.post(
        "svc",
        &service("a", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]})),
    )
    .refused(422, "Invalid");
}

fn deployment_defaults(c: &Case) {
    let made = c.post("deploy", &deployment("a")).is(201);
    let made = made
        .has("/spec/replicas", 1)
        .has("/spec/strategy/rollingUpdate/maxSurge", "25%")
        .has("/spec/revisionHistoryLimit", 10);
    made.has("/spec/progressDeadlineSeconds", 600).has("/metadata/generation", 1);
}

fn deployment_errors(c: &Case) {
    c.post("deploy", &json!({"metadata": {"name": "a"}, "spec": {}}))
        .refused(422, "Invalid")
        .blames("spec.selector");
    c.post("deploy", &with(deployment("a"), "spec.replicas", -1))
        .refused(422, "Invalid")
        .blames("spec.replicas");
    c.post("deploy", &with(deployment("a"), "spec.selector", json!({}))).refused(422, "Invalid");
    c.post("deploy", &with(deployment("a"), "spec.template.spec.restartPolicy", "Never"))
        .refused(422, "Invalid");
    c.post("deploy", &with(deployment("a"), "spec.minReadySeconds", -1)).refused(422, "Invalid");
    c.post(
        "deploy",
        &with(
            with(deployment("a"), "spec.minReadySeconds", 50),
            "spec.progressDeadlineSeconds",
            10,
        ),
    )
    .refused(422, "Invalid");
}

fn deployment_strategy(c: &Case) {
    c.post("deploy", &with(deployment("a"), "spec.strategy", json!({"type": "Recreate"})))
        .is(201)
        .lacks("/spec/strategy/rollingUpdate");
    c.post(
        "deploy",
        &with(
            deployment("b"),
            "spec.strategy",
            json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
        ),
    )
    .is(201)
    .has("/spec/strategy/type", "RollingUpdate");
}

fn deployment_strategy_errors(c: &Case) {
    for strategy in [
        json!({"type": "Odd"}),
        json!({"type": "Recreate", "rollingUpdate": {}}),
        json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        json!({"rollingUpdate": {"maxSurge": "x"}}),
        json!({"rollingUpdate": {"maxUnavailable": "200%"}}),
        json!({"rollingUpdate": {"maxSurge": -1}}),
    ] {
        c.post("deploy", &with(deployment("a"), "spec.strategy", strategy));
        c.delete("deploy/a");
    }
}

fn deployment_generation(c: &Case) {
    c.post("deploy", &deployment("a")).is(201);
    // Annotations count here, because those of the template come from them in old clients.
    c.merge("deploy/a", &json!({"metadata": {"labels": {"a": "b"}}}))
        .is(200)
        .has("/metadata/generation", 1);
    c.merge("deploy/a", &json!({"metadata": {"annotations": {"a": "b"}}}))
        .is(200)
        .has("/metadata/generation", 2);
    c.merge("deploy/a", &json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}))
        .is(200)
        .has("/metadata/generation", 3);
    c.merge("deploy/a", &json!({"spec": {"paused": true}})).is(200).has("/metadata/generation", 4);
}

fn deployment_selector_mismatch(c: &Case) {
    c.post(
        "deploy",
        &with(deployment("a"), "spec.template.metadata.labels", json!({"app": "other"})),
    )
    .refused(422, "Invalid")
    .blames("spec.template.metadata.labels");
}

fn deployment_paused(c: &Case) {
    c.post("deploy", &with(deployment("a"), "spec.paused", true)).is(201).has("/spec/paused", true);
}

fn replicaset_defaults(c: &Case) {
    c.post("rs", &with(deployment("a"), "kind", "ReplicaSet"))
        .is(201)
        .has("/spec/replicas", 1)
        .has("/status/replicas", 0);
}

fn replicaset_errors(c: &Case) {
    c.post("rs", &json!({"metadata": {"name": "a"}, "spec": {"replicas": -1}}))
        .refused(422, "Invalid");
    c.post(
        "rs",
        &with(
            with(deployment("a"), "kind", "ReplicaSet"),
            "spec.template.metadata.labels",
            json!({"x": "y"}),
        ),
    )
    .refused(422, "Invalid");
}

fn daemonset_defaults(c: &Case) {
    c.post("ds", &with(deployment("a"), "kind", "DaemonSet"))
        .is(201)
        .has("/spec/updateStrategy/type", "RollingUpdate")
        .has("/spec/updateStrategy/rollingUpdate/maxUnavailable", 1);
}

fn daemonset_errors(c: &Case) {
    c.post("ds", &json!({"metadata": {"name": "a"}, "spec": {}})).refused(422, "Invalid");
    c.post(
        "ds",
        &with(
            with(deployment("a"), "kind", "DaemonSet"),
            "spec.updateStrategy",
            json!({"type": "Odd"}),
        ),
    )
    .refused(422, "Invalid");
    c.post(
        "ds",
        &with(
            with(deployment("a"), "kind", "DaemonSet"),
            "spec.updateStrategy",
            json!({"rollingUpdate": {"maxUnavailable": 0}}),
        ),
    )
    .refused(422, "Invalid");
}

fn daemonset_generation(c: &Case) {
    c.post("ds", &with(deployment("a"), "kind", "DaemonSet"))
        .is(201)
        .has("/metadata/generation", 1);
    c.merge("ds/a", &json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}))
        .is(200)
        .has("/metadata/generation", 2);
}

fn selectors_in_specs(c: &Case) {
    for selector in [
        json!({"matchExpressions": [{"key": "app", "operator": "In"}]}),
        json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "bad key", "operator": "Exists"}]}),
        json!({"matchLabels": {"app": "bad value"}}),
        json!({"matchExpressions": [{"key": "app", "operator": "Odd", "values": ["x"]}]}),
    ] {
        c.post("deploy", &with(deployment("a"), "spec.selector", selector)).refused(422, "Invalid");
    }
}

fn labels_of_templates(c: &Case) {
    c.post(
        "deploy",
        &with(
            deployment("a"),
            "spec.template.metadata.labels",
            json!({"app": "x", "bad key": "y"}),
        ),
    )
    .refused(422, "Invalid");
    c.post(
        "deploy",
        &with(deployment("a"), "spec.template.metadata.annotations", json!({"bad key": "y"})),
    )
    .refused(422, "Invalid");
}
