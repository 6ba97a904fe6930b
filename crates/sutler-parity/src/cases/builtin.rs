//! Built-in kinds: defaults, validation, and what each does of its own.

use serde_json::{Value, json};

use super::{cm, deployment, pod, with, without};
use crate::case::Case;
use crate::suite::subject;

subject!("builtin":
    configmap_keys, configmap_both, configmap_binary, configmap_too_large, secret_string_data, secret_string_data_update, secret_types, secret_keys, secret_bad_data, secret_too_large,
    pod_defaults, pod_minimal_errors, pod_containers_errors, pod_ports, pod_env, pod_probes, pod_resources, pod_volumes, pod_tolerations, pod_init, pod_update_fields, pod_host_network, pod_restart_policy, pod_security, pod_affinity, pod_priority, pod_grace, pod_node_selector, pod_qos,
    service_defaults, service_types, service_errors, service_ports_named, service_headless, service_external_name, service_affinity, service_type_change, service_selector_update, service_node_port,
    deployment_defaults, deployment_errors, deployment_strategy, deployment_strategy_errors, deployment_generation, deployment_selector_mismatch, deployment_paused, replicaset_defaults, replicaset_errors, daemonset_defaults, daemonset_errors, daemonset_generation,
    claim_defaults, claim_errors, claim_update, claim_protection, volume_defaults, volume_errors, class_defaults, class_errors, class_update,
    budget_defaults, budget_errors, budget_update, lease_fields, lease_errors, event_defaults, event_errors, event_update, account_fields, node_defaults, node_errors, node_taints, namespace_errors, old_policy_version, quantities, times, selectors_in_specs, labels_of_templates,
);

fn configmap_keys(c: &Case) {
    for key in ["a", "a.b", "A_b-1", "..data", ".", "..", "a b", "a/b", "", "é", &"k".repeat(254)] {
        c.post("cm", &with(cm("a"), "data", json!({key: "v"})));
        c.delete("cm/a");
    }
}

fn configmap_both(c: &Case) {
    c.post("cm", &with(with(cm("a"), "data", json!({"k": "v"})), "binaryData", json!({"k": "AA=="}))).refused(422, "Invalid");
}

fn configmap_binary(c: &Case) {
    c.post("cm", &with(cm("a"), "binaryData", json!({"k": "AAEC/w=="}))).is(201).has("/binaryData/k", "AAEC/w==");
    c.post("cm", &with(cm("b"), "binaryData", json!({"k": "AAE"}))).is(400);
    c.post("cm", &with(cm("c"), "binaryData", json!({"k": ""}))).is(201);
}

fn configmap_too_large(c: &Case) {
    let half = "x".repeat(600_000);
    c.post("cm", &with(cm("a"), "data", json!({"a": half, "b": half}))).refused(422, "Invalid");
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

fn secret_string_data(c: &Case) {
    c.post("secret", &with(with(secret("a"), "stringData", json!({"k": "v", "l": "é"})), "data", json!({"k": "eA==", "m": "eA=="}))).is(201).has("/data/k", "dg==").lacks("/stringData").has("/type", "Opaque");
    c.get("secret/a").is(200).has("/data/m", "eA==");
}

fn secret_string_data_update(c: &Case) {
    c.post("secret", &with(secret("a"), "stringData", json!({"k": "v"}))).is(201);
    c.merge("secret/a", &json!({"stringData": {"l": "w"}})).is(200).has("/data/l", "dw==").has("/data/k", "dg==");
    c.put("secret/a", &with(secret("a"), "stringData", json!({"m": "x"}))).is(200).lacks("/data/k");
}

fn secret_types(c: &Case) {
    c.post("secret", &with(secret("a"), "type", "kubernetes.io/tls")).refused(422, "Invalid").blames("data[tls.crt]");
    c.post("secret", &with(with(secret("a"), "type", "kubernetes.io/tls"), "stringData", json!({"tls.crt": "", "tls.key": ""}))).is(201);
    c.post("secret", &with(secret("b"), "type", "kubernetes.io/basic-auth")).is(422);
    c.post("secret", &with(secret("c"), "type", "kubernetes.io/ssh-auth")).is(422);
    c.post("secret", &with(with(secret("d"), "type", "kubernetes.io/dockerconfigjson"), "stringData", json!({".dockerconfigjson": "{"}))).is(422);
    c.post("secret", &with(with(secret("e"), "type", "kubernetes.io/dockerconfigjson"), "stringData", json!({".dockerconfigjson": "{}"}))).is(201);
    c.post("secret", &with(secret("f"), "type", "kubernetes.io/service-account-token")).is(422);
    c.post("secret", &with(secret("g"), "type", "")).is(201).has("/type", "Opaque");
}

fn secret_keys(c: &Case) {
    c.post("secret", &with(secret("a"), "stringData", json!({"a b": "v"}))).refused(422, "Invalid");
    c.post("secret", &with(secret("a"), "data", json!({"..": ""}))).refused(422, "Invalid");
}

fn secret_bad_data(c: &Case) {
    c.post("secret", &with(secret("a"), "data", json!({"k": "not base64!"}))).is(400);
    c.post("secret", &with(secret("a"), "data", json!({"k": 5}))).is(400);
    c.post("secret", &with(secret("a"), "data", json!({"k": null}))).is(201);
}

fn secret_too_large(c: &Case) {
    c.post("secret", &with(secret("a"), "stringData", json!({"k": "x".repeat(1024 * 1024 + 1)}))).refused(422, "Invalid");
}

fn pod_defaults(c: &Case) {
    let made = c.post("pod", &pod("a")).is(201);
    let made = made.has("/spec/restartPolicy", "Always").has("/spec/dnsPolicy", "ClusterFirst").has("/spec/terminationGracePeriodSeconds", 30);
    made.has("/spec/containers/0/imagePullPolicy", "Always").has("/spec/schedulerName", "default-scheduler");
    c.post("pod", &with(pod("b"), "spec.containers.0.image", "x:1.2")).is(201).has("/spec/containers/0/imagePullPolicy", "IfNotPresent");
}

fn pod_with(fields: Value) -> Value {
    let mut body = pod("a");
    for (key, value) in fields.as_object().cloned().unwrap_or_default() {
        body["spec"][key] = value;
    }
    body
}

fn container_with(fields: Value) -> Value {
    let mut body = pod("a");
    for (key, value) in fields.as_object().cloned().unwrap_or_default() {
        body["spec"]["containers"][0][key] = value;
    }
    body
}

fn pod_minimal_errors(c: &Case) {
    c.post("pod", &json!({"metadata": {"name": "a"}, "spec": {}})).refused(422, "Invalid").blames("spec.containers");
    c.post("pod", &json!({"metadata": {"name": "a"}, "spec": {"containers": []}})).refused(422, "Invalid");
    c.post("pod", &json!({"metadata": {"name": "a"}, "spec": {"containers": [{}]}})).refused(422, "Invalid").blames("spec.containers[0].name");
}

fn pod_containers_errors(c: &Case) {
    c.post("pod", &with(pod("a"), "spec.containers", json!([{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]))).refused(422, "Invalid").blames("spec.containers[1].name");
    c.post("pod", &container_with(json!({"name": "BAD"}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"image": ""}))).refused(422, "Invalid").blames("spec.containers[0].image");
    c.post("pod", &container_with(json!({"imagePullPolicy": "Odd"}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"terminationMessagePolicy": "Odd"}))).refused(422, "Invalid");
}

fn pod_ports(c: &Case) {
    c.post("pod", &container_with(json!({"ports": [{"containerPort": 0}]}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"ports": [{"containerPort": 70000, "name": "Bad_Name", "protocol": "ICMP"}]}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"ports": [{"containerPort": 80}]}))).is(201).has("/spec/containers/0/ports/0/protocol", "TCP");
}

fn pod_env(c: &Case) {
    c.post("pod", &container_with(json!({"env": [{"name": "", "value": "x"}]}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"env": [{"name": "A", "valueFrom": {}}]}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}))).is(201).has("/spec/containers/0/env/0/valueFrom/fieldRef/apiVersion", "v1");
}

fn pod_probes(c: &Case) {
    c.post("pod", &container_with(json!({"livenessProbe": {"httpGet": {"port": 80}}}))).is(201).has("/spec/containers/0/livenessProbe/periodSeconds", 10).has("/spec/containers/0/livenessProbe/httpGet/path", "/");
    c.post("pod", &with(container_with(json!({"readinessProbe": {}})), "metadata.name", "b")).refused(422, "Invalid");
    c.post("pod", &with(container_with(json!({"livenessProbe": {"tcpSocket": {"port": "x y"}, "periodSeconds": -1}})), "metadata.name", "b")).refused(422, "Invalid");
    c.post("pod", &with(container_with(json!({"livenessProbe": {"exec": {"command": []}, "successThreshold": 3}})), "metadata.name", "b")).refused(422, "Invalid");
}

fn pod_resources(c: &Case) {
    c.post("pod", &container_with(json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}))).is(201).has("/spec/containers/0/resources/requests/cpu", "1").has("/status/qosClass", "Guaranteed");
    c.post("pod", &with(container_with(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})), "metadata.name", "b")).refused(422, "Invalid");
    c.post("pod", &with(container_with(json!({"resources": {"limits": {"cpu": "-1"}}})), "metadata.name", "b")).refused(422, "Invalid");
    c.post("pod", &with(container_with(json!({"resources": {"limits": {"gadget": "1"}}})), "metadata.name", "b")).refused(422, "Invalid");
}

fn pod_volumes(c: &Case) {
    c.post("pod", &pod_with(json!({"volumes": [{"name": "v"}]}))).is(201).has("/spec/volumes/0/emptyDir", json!({}));
    let body = |volumes: Value| with(pod_with(json!({"volumes": volumes})), "metadata.name", "b");
    c.post("pod", &body(json!([{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]))).refused(422, "Invalid");
    c.post("pod", &body(json!([{"name": "BAD", "emptyDir": {}}]))).refused(422, "Invalid");
    c.post("pod", &body(json!([{"name": "v", "configMap": {}}]))).refused(422, "Invalid");
    c.post("pod", &with(container_with(json!({"volumeMounts": [{"name": "none", "mountPath": "/x"}]})), "metadata.name", "b")).refused(422, "Invalid").blames("spec.containers[0].volumeMounts[0].name");
    c.post("pod", &with(with(body(json!([{"name": "v", "secret": {"secretName": "s"}}, {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}])), "spec.containers.0.volumeMounts", json!([{"name": "v", "mountPath": "/x"}])), "metadata.name", "c")).is(201).has("/spec/volumes/0/secret/defaultMode", 420);
}

fn pod_tolerations(c: &Case) {
    c.post("pod", &pod_with(json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]}))).is(201);
    c.post("pod", &with(pod_with(json!({"tolerations": [{"key": "k", "operator": "Odd"}]})), "metadata.name", "b")).refused(422, "Invalid");
    c.post("pod", &with(pod_with(json!({"tolerations": [{"operator": "Equal", "value": "x"}]})), "metadata.name", "b")).refused(422, "Invalid");
}

fn pod_init(c: &Case) {
    c.post("pod", &pod_with(json!({"initContainers": [{"name": "i", "image": "i"}]}))).is(201);
    c.post("pod", &with(pod_with(json!({"initContainers": [{"name": "c", "image": "i"}]})), "metadata.name", "b")).refused(422, "Invalid");
}

fn pod_update_fields(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.merge("pod/a", &json!({"spec": {"nodeName": "n"}})).refused(422, "Invalid");
    c.merge("pod/a", &json!({"spec": {"activeDeadlineSeconds": 5}})).is(200);
    c.merge("pod/a", &json!({"spec": {"activeDeadlineSeconds": 9}})).refused(422, "Invalid");
    c.merge("pod/a", &json!({"metadata": {"labels": {"a": "b"}}})).is(200);
    c.merge("pod/a", &json!({"spec": {"restartPolicy": "Never"}})).refused(422, "Invalid");
}

fn pod_host_network(c: &Case) {
    c.post("pod", &with(container_with(json!({"ports": [{"containerPort": 80}]})), "spec.hostNetwork", true)).is(201).has("/spec/containers/0/ports/0/hostPort", 80);
}

fn pod_restart_policy(c: &Case) {
    c.post("pod", &pod_with(json!({"restartPolicy": "Sometimes"}))).refused(422, "Invalid").blames("spec.restartPolicy");
    c.post("pod", &pod_with(json!({"dnsPolicy": "Odd"}))).refused(422, "Invalid");
    c.post("pod", &pod_with(json!({"restartPolicy": "Never", "dnsPolicy": "Default"}))).is(201);
}

fn pod_security(c: &Case) {
    c.post("pod", &pod_with(json!({"securityContext": {"runAsUser": 1000, "fsGroup": 5}}))).is(201);
    c.post("pod", &with(pod_with(json!({"securityContext": {"runAsUser": -1}})), "metadata.name", "b")).refused(422, "Invalid");
}

fn pod_affinity(c: &Case) {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}});
    c.post("pod", &pod_with(json!({"affinity": affinity}))).is(201);
    let bad = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Odd"}]}]}}});
    c.post("pod", &with(pod_with(json!({"affinity": bad})), "metadata.name", "b")).refused(422, "Invalid");
}

fn pod_priority(c: &Case) {
    c.post("pod", &pod("a")).is(201).has("/spec/priority", 0).has("/spec/preemptionPolicy", "PreemptLowerPriority").shows("/spec/tolerations/1");
}

fn pod_grace(c: &Case) {
    c.post("pod", &pod_with(json!({"terminationGracePeriodSeconds": 5}))).is(201).has("/spec/terminationGracePeriodSeconds", 5);
    c.post("pod", &with(pod_with(json!({"terminationGracePeriodSeconds": -5})), "metadata.name", "b"));
}

fn pod_node_selector(c: &Case) {
    c.post("pod", &pod_with(json!({"nodeSelector": {"a": "b"}}))).is(201);
    c.post("pod", &with(pod_with(json!({"nodeSelector": {"a b": "c"}})), "metadata.name", "b")).refused(422, "Invalid");
    c.post("pod", &with(pod_with(json!({"nodeName": "Bad Node"})), "metadata.name", "b")).refused(422, "Invalid");
}

fn pod_qos(c: &Case) {
    c.post("pod", &container_with(json!({"resources": {"requests": {"cpu": "100m"}}}))).is(201).has("/status/qosClass", "Burstable");
}

fn service(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn service_defaults(c: &Case) {
    let made = c.post("svc", &service("a", json!({"ports": [{"port": 80}]}))).is(201);
    let made = made.has("/spec/type", "ClusterIP").has("/spec/ports/0/protocol", "TCP").has("/spec/ports/0/targetPort", 80);
    made.has("/spec/sessionAffinity", "None").has("/spec/ipFamilies/0", "IPv4").has("/spec/internalTrafficPolicy", "Cluster");
}

fn service_types(c: &Case) {
    c.post("svc", &service("a", json!({"type": "NodePort", "ports": [{"port": 80}]}))).is(201).shows("/spec/ports/0/nodePort");
    c.post("svc", &service("b", json!({"type": "LoadBalancer", "ports": [{"port": 80}]}))).is(201).has("/spec/allocateLoadBalancerNodePorts", true);
    c.post("svc", &service("c", json!({"type": "Odd", "ports": [{"port": 80}]}))).refused(422, "Invalid");
}

fn service_errors(c: &Case) {
    c.post("svc", &service("a", json!({}))).refused(422, "Invalid").blames("spec.ports");
    c.post("svc", &service("a", json!({"ports": [{"port": 0}]}))).refused(422, "Invalid");
    c.post("svc", &service("a", json!({"ports": [{"port": 80}, {"port": 81}]}))).refused(422, "Invalid").blames("spec.ports[0].name");
    c.post("svc", &service("a", json!({"ports": [{"port": 80, "protocol": "ICMP", "targetPort": "Bad Port"}]}))).refused(422, "Invalid");
    c.post("svc", &service("a", json!({"ports": [{"port": 80}], "selector": {"a b": "c"}}))).refused(422, "Invalid");
    c.post("svc", &service("a", json!({"ports": [{"port": 80}], "clusterIP": "1.2.3.4"}))).refused(422, "Invalid");
    c.post("svc", &service("a", json!({"ports": [{"port": 80}], "clusterIP": "x"}))).refused(422, "Invalid");
}

fn service_ports_named(c: &Case) {
    c.post("svc", &service("a", json!({"ports": [{"port": 80, "name": "a", "targetPort": "web"}, {"port": 81, "name": "b"}]}))).is(201);
    c.post("svc", &service("b", json!({"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}]}))).refused(422, "Invalid");
    c.post("svc", &service("b", json!({"ports": [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]})));
}

fn service_headless(c: &Case) {
    c.post("svc", &service("a", json!({"clusterIP": "None", "selector": {"a": "b"}}))).is(201).has("/spec/clusterIP", "None");
    c.post("svc", &service("b", json!({"clusterIP": "None", "type": "NodePort", "ports": [{"port": 1}]}))).refused(422, "Invalid");
}

fn service_external_name(c: &Case) {
    c.post("svc", &service("a", json!({"type": "ExternalName", "externalName": "example.com"}))).is(201).lacks("/spec/clusterIP");
    c.post("svc", &service("b", json!({"type": "ExternalName"}))).refused(422, "Invalid");
    c.post("svc", &service("b", json!({"type": "ExternalName", "externalName": "BAD NAME"}))).refused(422, "Invalid");
}

fn service_affinity(c: &Case) {
    c.post("svc", &service("a", json!({"sessionAffinity": "ClientIP", "ports": [{"port": 1}]}))).is(201).has("/spec/sessionAffinityConfig/clientIP/timeoutSeconds", 10800);
    c.post("svc", &service("b", json!({"sessionAffinity": "Odd", "ports": [{"port": 1}]}))).refused(422, "Invalid");
}

fn service_type_change(c: &Case) {
    c.post("svc", &service("a", json!({"ports": [{"port": 80}]}))).is(201);
    c.merge("svc/a", &json!({"spec": {"type": "NodePort"}})).is(200).shows("/spec/ports/0/nodePort");
    c.merge("svc/a", &json!({"spec": {"type": "ClusterIP"}})).is(200);
}

fn service_selector_update(c: &Case) {
    c.post("svc", &service("a", json!({"ports": [{"port": 80}], "selector": {"a": "b"}}))).is(201);
    c.merge("svc/a", &json!({"spec": {"selector": {"a": null, "c": "d"}}})).is(200).has("/spec/selector", json!({"c": "d"}));
    c.merge("svc/a", &json!({"spec": {"selector": null}})).is(200);
}

fn service_node_port(c: &Case) {
    c.post("svc", &service("a", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}))).refused(422, "Invalid");
}

fn deployment_defaults(c: &Case) {
    let made = c.post("deploy", &deployment("a")).is(201);
    let made = made.has("/spec/replicas", 1).has("/spec/strategy/rollingUpdate/maxSurge", "25%").has("/spec/revisionHistoryLimit", 10);
    made.has("/spec/progressDeadlineSeconds", 600).has("/metadata/generation", 1);
}

fn deployment_errors(c: &Case) {
    c.post("deploy", &json!({"metadata": {"name": "a"}, "spec": {}})).refused(422, "Invalid").blames("spec.selector");
    c.post("deploy", &with(deployment("a"), "spec.replicas", -1)).refused(422, "Invalid").blames("spec.replicas");
    c.post("deploy", &with(deployment("a"), "spec.selector", json!({}))).refused(422, "Invalid");
    c.post("deploy", &with(deployment("a"), "spec.template.spec.restartPolicy", "Never")).refused(422, "Invalid");
    c.post("deploy", &with(deployment("a"), "spec.minReadySeconds", -1)).refused(422, "Invalid");
    c.post("deploy", &with(with(deployment("a"), "spec.minReadySeconds", 50), "spec.progressDeadlineSeconds", 10)).refused(422, "Invalid");
}

fn deployment_strategy(c: &Case) {
    c.post("deploy", &with(deployment("a"), "spec.strategy", json!({"type": "Recreate"}))).is(201).lacks("/spec/strategy/rollingUpdate");
    c.post("deploy", &with(deployment("b"), "spec.strategy", json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}))).is(201).has("/spec/strategy/type", "RollingUpdate");
}

fn deployment_strategy_errors(c: &Case) {
    for strategy in [
        json!({"type": "Odd"}), json!({"type": "Recreate", "rollingUpdate": {}}), json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        json!({"rollingUpdate": {"maxSurge": "x"}}), json!({"rollingUpdate": {"maxUnavailable": "200%"}}), json!({"rollingUpdate": {"maxSurge": -1}}),
    ] {
        c.post("deploy", &with(deployment("a"), "spec.strategy", strategy));
        c.delete("deploy/a");
    }
}

fn deployment_generation(c: &Case) {
    c.post("deploy", &deployment("a")).is(201);
    // Annotations count here, because those of the template come from them in old clients.
    c.merge("deploy/a", &json!({"metadata": {"labels": {"a": "b"}}})).is(200).has("/metadata/generation", 1);
    c.merge("deploy/a", &json!({"metadata": {"annotations": {"a": "b"}}})).is(200).has("/metadata/generation", 2);
    c.merge("deploy/a", &json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}})).is(200).has("/metadata/generation", 3);
    c.merge("deploy/a", &json!({"spec": {"paused": true}})).is(200).has("/metadata/generation", 4);
}

fn deployment_selector_mismatch(c: &Case) {
    c.post("deploy", &with(deployment("a"), "spec.template.metadata.labels", json!({"app": "other"}))).refused(422, "Invalid").blames("spec.template.metadata.labels");
}

fn deployment_paused(c: &Case) {
    c.post("deploy", &with(deployment("a"), "spec.paused", true)).is(201).has("/spec/paused", true);
}

fn replicaset_defaults(c: &Case) {
    c.post("rs", &with(deployment("a"), "kind", "ReplicaSet")).is(201).has("/spec/replicas", 1).has("/status/replicas", 0);
}

fn replicaset_errors(c: &Case) {
    c.post("rs", &json!({"metadata": {"name": "a"}, "spec": {"replicas": -1}})).refused(422, "Invalid");
    c.post("rs", &with(with(deployment("a"), "kind", "ReplicaSet"), "spec.template.metadata.labels", json!({"x": "y"}))).refused(422, "Invalid");
}

fn daemonset_defaults(c: &Case) {
    c.post("ds", &with(deployment("a"), "kind", "DaemonSet")).is(201).has("/spec/updateStrategy/type", "RollingUpdate").has("/spec/updateStrategy/rollingUpdate/maxUnavailable", 1);
}

fn daemonset_errors(c: &Case) {
    c.post("ds", &json!({"metadata": {"name": "a"}, "spec": {}})).refused(422, "Invalid");
    c.post("ds", &with(with(deployment("a"), "kind", "DaemonSet"), "spec.updateStrategy", json!({"type": "Odd"}))).refused(422, "Invalid");
    c.post("ds", &with(with(deployment("a"), "kind", "DaemonSet"), "spec.updateStrategy", json!({"rollingUpdate": {"maxUnavailable": 0}}))).refused(422, "Invalid");
}

fn daemonset_generation(c: &Case) {
    c.post("ds", &with(deployment("a"), "kind", "DaemonSet")).is(201).has("/metadata/generation", 1);
    c.merge("ds/a", &json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}})).is(200).has("/metadata/generation", 2);
}

fn claim() -> Value {
    json!({"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}})
}

fn claim_defaults(c: &Case) {
    c.post("pvc", &claim()).is(201).has("/spec/volumeMode", "Filesystem").has("/status/phase", "Pending").has("/metadata/finalizers", json!(["kubernetes.io/pvc-protection"]));
}

fn claim_errors(c: &Case) {
    c.post("pvc", &json!({"metadata": {"name": "a"}, "spec": {}})).refused(422, "Invalid").blames("spec.accessModes");
    c.post("pvc", &with(claim(), "spec.accessModes", json!(["Odd"]))).refused(422, "Invalid");
    c.post("pvc", &with(claim(), "spec.resources.requests.storage", "0")).refused(422, "Invalid");
    c.post("pvc", &with(claim(), "spec.resources.requests.storage", "lots")).is(400);
    c.post("pvc", &with(claim(), "spec.volumeMode", "Odd")).refused(422, "Invalid");
    c.post("pvc", &with(claim(), "spec.storageClassName", "BAD CLASS")).refused(422, "Invalid");
}

fn claim_update(c: &Case) {
    c.post("pvc", &claim()).is(201);
    c.merge("pvc/a", &json!({"spec": {"accessModes": ["ReadWriteMany"]}})).refused(422, "Invalid");
    c.merge("pvc/a", &json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}));
    c.merge("pvc/a", &json!({"metadata": {"labels": {"a": "b"}}})).is(200);
}

fn claim_protection(c: &Case) {
    c.post("pvc", &claim()).is(201);
    c.delete("pvc/a").is(200).shows("/metadata/deletionTimestamp");
    c.merge("pvc/a", &json!({"metadata": {"finalizers": null}})).is(200);
    c.get("pvc/a").is(404);
}

fn volume() -> Value {
    json!({"metadata": {"name": "{ns}-v"}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}})
}

fn volume_defaults(c: &Case) {
    c.post("pv", &volume()).is(201).has("/spec/persistentVolumeReclaimPolicy", "Retain").has("/status/phase", "Pending").has("/metadata/finalizers", json!(["kubernetes.io/pv-protection"]));
    c.merge("pv/{ns}-v", &json!({"metadata": {"finalizers": null}})).is(200);
    c.delete("pv/{ns}-v").is(200);
}

fn volume_errors(c: &Case) {
    c.post("pv", &json!({"metadata": {"name": "{ns}-v"}, "spec": {}})).refused(422, "Invalid");
    c.post("pv", &without(volume(), "spec.hostPath")).refused(422, "Invalid");
    c.post("pv", &with(volume(), "spec.nfs", json!({"server": "s", "path": "/p"}))).refused(422, "Invalid");
    c.post("pv", &with(volume(), "spec.persistentVolumeReclaimPolicy", "Odd")).refused(422, "Invalid");
    c.post("pv", &with(volume(), "spec.capacity", json!({"storage": "-1"}))).refused(422, "Invalid");
}

fn class_defaults(c: &Case) {
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}, "provisioner": "x.y/z"})).is(201).has("/reclaimPolicy", "Delete").has("/volumeBindingMode", "Immediate");
    c.delete("sc/{ns}-s").is(200);
}

fn class_errors(c: &Case) {
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}})).refused(422, "Invalid").blames("provisioner");
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}, "provisioner": "BAD PROVISIONER"})).refused(422, "Invalid");
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}, "provisioner": "x", "reclaimPolicy": "Odd", "volumeBindingMode": "Odd"})).refused(422, "Invalid");
}

fn class_update(c: &Case) {
    c.post("sc", &json!({"metadata": {"name": "{ns}-s"}, "provisioner": "x.y/z", "parameters": {"a": "b"}})).is(201);
    c.merge("sc/{ns}-s", &json!({"provisioner": "other"})).refused(422, "Invalid");
    c.merge("sc/{ns}-s", &json!({"parameters": {"a": "c"}})).refused(422, "Invalid");
    c.merge("sc/{ns}-s", &json!({"allowVolumeExpansion": true})).is(200);
    c.delete("sc/{ns}-s").is(200);
}

fn budget_defaults(c: &Case) {
    // Its status is the controller's; the answer to the create is the server's.
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {}})).is(201);
    c.post("pdb", &json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": "50%", "selector": {}}})).is(201).has("/metadata/generation", 1);
}

fn budget_errors(c: &Case) {
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}})).refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": -1}})).refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": "200%"}})).refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": "half"}})).refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}}})).refused(422, "Invalid");
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"unhealthyPodEvictionPolicy": "Odd"}})).refused(422, "Invalid");
}

fn budget_update(c: &Case) {
    c.post("pdb", &json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"x": "nobody"}}}})).is(201);
    c.until("pdb/a", |reply| reply.at("/status/observedGeneration") == 1);
    c.merge("pdb/a", &json!({"spec": {"minAvailable": 2}})).is(200).has("/metadata/generation", 2);
    c.until("pdb/a", |reply| reply.at("/status/observedGeneration") == 2);
}

fn lease_fields(c: &Case) {
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2001-01-01T00:00:00.000000Z", "renewTime": "2001-01-01T00:00:00.123456Z", "leaseTransitions": 1}});
    let made = c.post("lease", &lease).is(201).has("/spec/renewTime", "2001-01-01T00:00:00.123456Z");
    c.put("lease/a", &with(made.body.clone(), "spec.renewTime", "2001-01-01T00:00:01.000000Z")).is(200);
    // Microseconds are not optional.
    c.put("lease/a", &with(made.body.clone(), "spec.renewTime", "2001-01-01T00:00:01Z")).is(400);
}

fn lease_errors(c: &Case) {
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {"leaseDurationSeconds": 0}})).refused(422, "Invalid");
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {"leaseTransitions": -1}})).refused(422, "Invalid");
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {"renewTime": "now"}})).is(400);
    c.post("lease", &json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": ""}}));
}

fn event(name: &str) -> Value {
    json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "{ns}"}, "reason": "R", "message": "m", "type": "Normal"})
}

fn event_defaults(c: &Case) {
    c.post("event", &event("a")).is(201);
    c.post("event", &with(event("b"), "count", 2)).is(201);
}

fn event_errors(c: &Case) {
    c.post("event", &with(event("a"), "involvedObject.namespace", "other")).refused(422, "Invalid").blames("involvedObject.namespace");
    c.post("event", &without(event("b"), "involvedObject"));
    c.post("event", &with(event("c"), "eventTime", "2001-01-01T00:00:00.000000Z"));
    c.post("event", &with(event("d"), "type", "Odd"));
    c.post("event", &with(event("e"), "message", "x".repeat(2000)));
}

fn event_update(c: &Case) {
    c.post("event", &event("a")).is(201);
    c.merge("event/a", &json!({"count": 5})).is(200).has("/count", 5);
    c.strategic("event/a", &json!({"message": "new"})).is(200);
}

fn account_fields(c: &Case) {
    c.post("sa", &json!({"metadata": {"name": "a"}, "secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "p"}], "automountServiceAccountToken": false})).is(201);
    c.strategic("sa/a", &json!({"secrets": [{"name": "t"}]})).is(200);
    c.post("sa", &json!({"metadata": {"name": "BAD"}})).refused(422, "Invalid");
}

fn node_defaults(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"podCIDR": "10.0.0.0/24"}, "status": {"capacity": {"cpu": "1"}}})).is(201);
    c.delete("node/{ns}-n").is(200);
}

fn node_errors(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"podCIDR": "x"}}));
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"taints": [{"key": "a", "effect": "Odd"}]}})).refused(422, "Invalid");
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}})).refused(422, "Invalid");
}

fn node_taints(c: &Case) {
    c.post("node", &json!({"metadata": {"name": "{ns}-n"}, "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}})).is(201);
    c.strategic("node/{ns}-n", &json!({"spec": {"unschedulable": true}})).is(200);
    c.strategic("node/{ns}-n", &json!({"spec": {"unschedulable": null, "taints": null}})).is(200);
    c.strategic("node/{ns}-n", &json!({"metadata": {"labels": {"x": "y"}}})).is(200);
    c.delete("node/{ns}-n").is(200);
}

fn namespace_errors(c: &Case) {
    c.post("ns", &json!({"metadata": {"name": "Bad"}})).refused(422, "Invalid");
    c.post("ns", &json!({"metadata": {"name": "{ns}-x"}, "spec": {"finalizers": ["bad name"]}})).refused(422, "Invalid");
    c.post("ns", &json!({"metadata": {}})).refused(422, "Invalid");
}

fn old_policy_version(c: &Case) {
    c.post("pod", &pod("a")).is(201);
    c.post("pod/a/eviction", &json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a"}}));
    c.get("/apis/policy/v1beta1/namespaces/{ns}/poddisruptionbudgets").is(404);
}

fn quantities(c: &Case) {
    let made = c.post("pod", &container_with(json!({"resources": {"requests": {"cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "1e9"}}}))).is(201);
    made.has("/spec/containers/0/resources/requests/cpu", "1").has("/spec/containers/0/resources/requests/memory", "1Gi");
    for (index, (cpu, memory)) in [("0.5", "1.5Gi"), ("1.5", "128974848"), ("100u", "0.1"), ("5e-1", "1000Ki")].into_iter().enumerate() {
        let body = container_with(json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}}));
        c.post("pod", &with(body, "metadata.name", format!("q{index}")));
    }
    c.post("pod", &with(container_with(json!({"resources": {"requests": {"cpu": 2, "memory": 1048576}}})), "metadata.name", "n")).is(201);
}

fn times(c: &Case) {
    c.post("event", &with(event("a"), "firstTimestamp", "2001-01-01T00:00:00Z")).is(201).has("/firstTimestamp", "2001-01-01T00:00:00Z");
    c.post("event", &with(event("b"), "firstTimestamp", "2001-01-01T02:00:00+02:00")).is(201).has("/firstTimestamp", "2001-01-01T00:00:00Z");
    c.post("event", &with(event("c"), "firstTimestamp", "2001-01-01T00:00:00.5Z"));
    c.post("event", &with(event("d"), "firstTimestamp", "yesterday")).is(400);
}

fn selectors_in_specs(c: &Case) {
    for selector in [
        json!({"matchExpressions": [{"key": "app", "operator": "In"}]}), json!({"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["x"]}]}),
        json!({"matchExpressions": [{"key": "bad key", "operator": "Exists"}]}), json!({"matchLabels": {"app": "bad value"}}), json!({"matchExpressions": [{"key": "app", "operator": "Odd", "values": ["x"]}]}),
    ] {
        c.post("deploy", &with(deployment("a"), "spec.selector", selector)).refused(422, "Invalid");
    }
}

fn labels_of_templates(c: &Case) {
    c.post("deploy", &with(deployment("a"), "spec.template.metadata.labels", json!({"app": "x", "bad key": "y"}))).refused(422, "Invalid");
    c.post("deploy", &with(deployment("a"), "spec.template.metadata.annotations", json!({"bad key": "y"}))).refused(422, "Invalid");
}
