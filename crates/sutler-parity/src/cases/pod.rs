//! Pods: defaults, validation and what of them can change.

use serde_json::{Value, json};

use super::{pod, with};
use crate::case::Case;
use crate::suite::subject;

subject!("pod":
    pod_defaults, pod_minimal_errors, pod_containers_errors, pod_ports, pod_env, pod_probes, pod_resources, pod_volumes, pod_tolerations, pod_init, pod_update_fields, pod_host_network, pod_restart_policy, pod_security, pod_affinity, pod_priority, pod_grace, pod_node_selector, pod_qos, quantities,
);

fn pod_defaults(c: &Case) {
    let made = c.post("pod", &pod("a")).is(201);
    let made = made
        .has("/spec/restartPolicy", "Always")
        .has("/spec/dnsPolicy", "ClusterFirst")
        .has("/spec/terminationGracePeriodSeconds", 30);
    made.has("/spec/containers/0/imagePullPolicy", "Always")
        .has("/spec/schedulerName", "default-scheduler");
    c.post("pod", &with(pod("b"), "spec.containers.0.image", "x:1.2"))
        .is(201)
        .has("/spec/containers/0/imagePullPolicy", "IfNotPresent");
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
    c.post("pod", &json!({"metadata": {"name": "a"}, "spec": {}}))
        .refused(422, "Invalid")
        .blames("spec.containers");
    c.post("pod", &json!({"metadata": {"name": "a"}, "spec": {"containers": []}}))
        .refused(422, "Invalid");
    c.post("pod", &json!({"metadata": {"name": "a"}, "spec": {"containers": [{}]}}))
        .refused(422, "Invalid")
        .blames("spec.containers[0].name");
}

fn pod_containers_errors(c: &Case) {
    c.post(
        "pod",
        &with(
            pod("a"),
            "spec.containers",
            json!([{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]),
        ),
    )
    .refused(422, "Invalid")
    .blames("spec.containers[1].name");
    c.post("pod", &container_with(json!({"name": "BAD"}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"image": ""})))
        .refused(422, "Invalid")
        .blames("spec.containers[0].image");
    c.post("pod", &container_with(json!({"imagePullPolicy": "Odd"}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"terminationMessagePolicy": "Odd"})))
        .refused(422, "Invalid");
}

fn pod_ports(c: &Case) {
    c.post("pod", &container_with(json!({"ports": [{"containerPort": 0}]})))
        .refused(422, "Invalid");
    c.post(
        "pod",
        &container_with(
            json!({"ports": [{"containerPort": 70000, "name": "Bad_Name", "protocol": "ICMP"}]}),
        ),
    )
    .refused(422, "Invalid");
    c.post("pod", &container_with(json!({"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"ports": [{"containerPort": 80}]})))
        .is(201)
        .has("/spec/containers/0/ports/0/protocol", "TCP");
}

fn pod_env(c: &Case) {
    c.post("pod", &container_with(json!({"env": [{"name": "", "value": "x"}]})))
        .refused(422, "Invalid");
    c.post("pod", &container_with(json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}))).refused(422, "Invalid");
    c.post("pod", &container_with(json!({"env": [{"name": "A", "valueFrom": {}}]})))
        .refused(422, "Invalid");
    c.post("pod", &container_with(json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]}))).is(201).has("/spec/containers/0/env/0/valueFrom/fieldRef/apiVersion", "v1");
}

fn pod_probes(c: &Case) {
    c.post("pod", &container_with(json!({"livenessProbe": {"httpGet": {"port": 80}}})))
        .is(201)
        .has("/spec/containers/0/livenessProbe/periodSeconds", 10)
        .has("/spec/containers/0/livenessProbe/httpGet/path", "/");
    c.post("pod", &with(container_with(json!({"readinessProbe": {}})), "metadata.name", "b"))
        .refused(422, "Invalid");
    c.post(
        "pod",
        &with(
            container_with(
                json!({"livenessProbe": {"tcpSocket": {"port": "x y"}, "periodSeconds": -1}}),
            ),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid");
    c.post(
        "pod",
        &with(
            container_with(
                json!({"livenessProbe": {"exec": {"command": []}, "successThreshold": 3}}),
            ),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid");
}

fn pod_resources(c: &Case) {
    c.post("pod", &container_with(json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}})))
        .is(201)
        .has("/spec/containers/0/resources/requests/cpu", "1")
        .has("/status/qosClass", "Guaranteed");
    c.post(
        "pod",
        &with(
            container_with(
                json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
            ),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid");
    c.post(
        "pod",
        &with(
            container_with(json!({"resources": {"limits": {"cpu": "-1"}}})),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid");
    c.post(
        "pod",
        &with(
            container_with(json!({"resources": {"limits": {"gadget": "1"}}})),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid");
}

fn pod_volumes(c: &Case) {
    c.post("pod", &pod_with(json!({"volumes": [{"name": "v"}]})))
        .is(201)
        .has("/spec/volumes/0/emptyDir", json!({}));
    let body = |volumes: Value| with(pod_with(json!({"volumes": volumes})), "metadata.name", "b");
    c.post("pod", &body(json!([{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}])))
        .refused(422, "Invalid");
    c.post("pod", &body(json!([{"name": "BAD", "emptyDir": {}}]))).refused(422, "Invalid");
    c.post("pod", &body(json!([{"name": "v", "configMap": {}}]))).refused(422, "Invalid");
    c.post(
        "pod",
        &with(
            container_with(json!({"volumeMounts": [{"name": "none", "mountPath": "/x"}]})),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid")
    .blames("spec.containers[0].volumeMounts[0].name");
    c.post("pod", &with(with(body(json!([{"name": "v", "secret": {"secretName": "s"}}, {"name": "w", "persistentVolumeClaim": {"claimName": "c"}}])), "spec.containers.0.volumeMounts", json!([{"name": "v", "mountPath": "/x"}])), "metadata.name", "c")).is(201).has("/spec/volumes/0/secret/defaultMode", 420);
}

fn pod_tolerations(c: &Case) {
    c.post(
        "pod",
        &pod_with(
            json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]}),
        ),
    )
    .is(201);
    c.post(
        "pod",
        &with(
            pod_with(json!({"tolerations": [{"key": "k", "operator": "Odd"}]})),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid");
    c.post(
        "pod",
        &with(
            pod_with(json!({"tolerations": [{"operator": "Equal", "value": "x"}]})),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid");
}

fn pod_init(c: &Case) {
    c.post("pod", &pod_with(json!({"initContainers": [{"name": "i", "image": "i"}]}))).is(201);
    c.post(
        "pod",
        &with(
            pod_with(json!({"initContainers": [{"name": "c", "image": "i"}]})),
            "metadata.name",
            "b",
        ),
    )
    .refused(422, "Invalid");
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
    c.post(
        "pod",
        &with(container_with(json!({"ports": [{"containerPort": 80}]})), "spec.hostNetwork", true),
    )
    .is(201)
    .has("/spec/containers/0/ports/0/hostPort", 80);
}

fn pod_restart_policy(c: &Case) {
    c.post("pod", &pod_with(json!({"restartPolicy": "Sometimes"})))
        .refused(422, "Invalid")
        .blames("spec.restartPolicy");
    c.post("pod", &pod_with(json!({"dnsPolicy": "Odd"}))).refused(422, "Invalid");
    c.post("pod", &pod_with(json!({"restartPolicy": "Never", "dnsPolicy": "Default"}))).is(201);
}

fn pod_security(c: &Case) {
    c.post("pod", &pod_with(json!({"securityContext": {"runAsUser": 1000, "fsGroup": 5}}))).is(201);
    c.post(
        "pod",
        &with(pod_with(json!({"securityContext": {"runAsUser": -1}})), "metadata.name", "b"),
    )
    .refused(422, "Invalid");
}

fn pod_affinity(c: &Case) {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}});
    c.post("pod", &pod_with(json!({"affinity": affinity}))).is(201);
    let bad = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Odd"}]}]}}});
    c.post("pod", &with(pod_with(json!({"affinity": bad})), "metadata.name", "b"))
        .refused(422, "Invalid");
}

fn pod_priority(c: &Case) {
    c.post("pod", &pod("a"))
        .is(201)
        .has("/spec/priority", 0)
        .has("/spec/preemptionPolicy", "PreemptLowerPriority")
        .shows("/spec/tolerations/1");
}

fn pod_grace(c: &Case) {
    c.post("pod", &pod_with(json!({"terminationGracePeriodSeconds": 5})))
        .is(201)
        .has("/spec/terminationGracePeriodSeconds", 5);
    c.post(
        "pod",
        &with(pod_with(json!({"terminationGracePeriodSeconds": -5})), "metadata.name", "b"),
    );
}

fn pod_node_selector(c: &Case) {
    c.post("pod", &pod_with(json!({"nodeSelector": {"a": "b"}}))).is(201);
    c.post("pod", &with(pod_with(json!({"nodeSelector": {"a b": "c"}})), "metadata.name", "b"))
        .refused(422, "Invalid");
    c.post("pod", &with(pod_with(json!({"nodeName": "Bad Node"})), "metadata.name", "b"))
        .refused(422, "Invalid");
}

fn pod_qos(c: &Case) {
    c.post("pod", &container_with(json!({"resources": {"requests": {"cpu": "100m"}}})))
        .is(201)
        .has("/status/qosClass", "Burstable");
}

fn quantities(c: &Case) {
    let made = c.post("pod", &container_with(json!({"resources": {"requests": {"cpu": "1000m", "memory": "1024Mi", "ephemeral-storage": "1e9"}}}))).is(201);
    made.has("/spec/containers/0/resources/requests/cpu", "1")
        .has("/spec/containers/0/resources/requests/memory", "1Gi");
    for (index, (cpu, memory)) in
        [("0.5", "1.5Gi"), ("1.5", "128974848"), ("100u", "0.1"), ("5e-1", "1000Ki")]
            .into_iter()
            .enumerate()
    {
        let body =
            container_with(json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}}));
        c.post("pod", &with(body, "metadata.name", format!("q{index}")));
    }
    c.post(
        "pod",
        &with(
            container_with(json!({"resources": {"requests": {"cpu": 2, "memory": 1048576}}})),
            "metadata.name",
            "n",
        ),
    )
    .is(201);
}
