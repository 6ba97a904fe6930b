//! Services.

use std::collections::BTreeSet;

use serde_json::Value;
use sutler_schema::{error::FieldError, names::is_dns1123_subdomain, path::Path};

use super::*;

pub(super) fn service(object: &Value, old: &Value, errors: &mut Errors) {
    let (spec, path) = (get(object, "spec"), Path::new("spec"));
    // What is given out is looked at before anything else, and alone.
    let mut faults = Errors::new();
    cluster_ips(spec, get(old, "spec"), &path, &mut faults);
    if faults.is_empty() {
        node_ports(spec, &path.child("ports"), &mut faults);
    }
    if !faults.is_empty() {
        *errors = faults;
        return;
    }
    let ty = text(spec, "type");
    let ports_path = path.child("ports");
    let ports = items(spec, "ports");
    if ports.is_empty() && !headless(spec) && ty != "ExternalName" {
        errors.push(FieldError::required(&ports_path, ""));
    }
    match ty {
        "LoadBalancer" | "NodePort" if headless(spec) => {
            let path = path.child("clusterIPs").index(0);
            let detail = format!("may not be set to 'None' for {ty} services");
            errors.push(FieldError::invalid(path, "None", detail));
        }
        "ExternalName" => external_name(spec, &path, errors),
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        service_port(port, ports.len() > 1, &mut seen, &ports_path.index(i), errors);
    }
    validate_labels(get(spec, "selector"), &path.child("selector"), errors);
    let affinity = text(spec, "sessionAffinity");
    one_of(errors, &path.child("sessionAffinity"), affinity, &["ClientIP", "None"]);
    if affinity == "ClientIP" {
        let seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].as_i64();
        if let Some(seconds) = seconds.filter(|seconds| !(1..=86400).contains(seconds)) {
            let path =
                path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
            let detail = "must be greater than 0 and less than 86400";
            errors.push(FieldError::invalid(path, seconds, detail));
        }
    }
    for (i, ip) in texts(spec, "externalIPs").enumerate() {
        net::endpoint(errors, &path.child("externalIPs").index(i), ip);
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(errors, &path.child("type"), ty, &types);
    unique_ports(ports, ty, &ports_path, errors);
    if !items(spec, "loadBalancerSourceRanges").is_empty() {
        let path = path.child("LoadBalancerSourceRanges");
        if ty != "LoadBalancer" {
            errors.push(FieldError::forbidden(&path, ONLY_BALANCERS));
        }
        for (i, range) in texts(spec, "loadBalancerSourceRanges").enumerate() {
            net::cidr(errors, &path.index(i), range.trim());
        }
    }
    if has(spec, "allocateLoadBalancerNodePorts") && ty != "LoadBalancer" {
        let path = path.child("allocateLoadBalancerNodePorts");
        errors.push(FieldError::forbidden(path, ONLY_BALANCERS));
    }
    balancer_class(spec, &path, errors);
    traffic(spec, &path, errors);
}

const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn update(new: &Value, old: &Value, errors: &mut Errors) {
    let (spec, before) = (get(new, "spec"), get(old, "spec"));
    let path = Path::new("spec");
    let internal = |spec: &Value| text(spec, "type") != "ExternalName";
    if internal(spec) && internal(before) && !(headless(spec) && headless(before)) {
        changed_ips(spec, before, &path, errors);
    }
    if text(spec, "type") == "LoadBalancer" && text(before, "type") == "LoadBalancer" {
        if get(spec, "loadBalancerClass") != get(before, "loadBalancerClass") {
            let class = get(spec, "loadBalancerClass").clone();
            let path = path.child("loadBalancerClass");
            errors.push(FieldError::invalid(path, class, "may not change once set"));
        }
        let port = int(before, "healthCheckNodePort");
        if port != 0 && int(spec, "healthCheckNodePort") != port && both_local(spec, before) {
            let path = path.child("healthCheckNodePort");
            errors.push(FieldError::forbidden(path, "field is immutable"));
        }
    }
    service(new, old, errors);
}

pub(super) fn status(service: &Value, errors: &mut Errors) {
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let ingress = items(get(get(service, "status"), "loadBalancer"), "ingress");
    if !ingress.is_empty() && text(get(service, "spec"), "type") != "LoadBalancer" {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    for (i, row) in ingress.iter().enumerate() {
        let path = path.index(i);
        let (ip, host) = (text(row, "ip"), text(row, "hostname"));
        if !ip.is_empty() {
            net::ip(errors, &path.child("ip"), ip);
            if !has(row, "ipMode") {
                let detail = "must be specified when `ip` is set";
                errors.push(FieldError::required(path.child("ipMode"), detail));
            }
        }
        if !host.is_empty() {
            invalid(errors, &path.child("hostname"), host, is_dns1123_subdomain(host));
        }
    }
}

fn both_local(spec: &Value, before: &Value) -> bool {
    [spec, before].iter().all(|spec| text(spec, "externalTrafficPolicy") == "Local")
}

fn changed_ips(spec: &Value, before: &Value, path: &Path, errors: &mut Errors) {
    let (new, old) = (items(spec, "clusterIPs"), items(before, "clusterIPs"));
    let path = path.child("clusterIPs");
    let mut fault = |index: usize, detail: &str| {
        let value = get(spec, "clusterIPs").clone();
        errors.push(FieldError::invalid(path.index(index), value, detail));
    };
    if old.len() == new.len() {
        for i in (0..old.len()).filter(|i| old[*i] != new[*i]) {
            fault(i, "may not change once set");
        }
    } else if new.is_empty() {
        fault(0, "primary clusterIP can not be unset");
    } else if !old.is_empty() && old[0] != new[0] {
        fault(0, "may not change once set");
    }
}

fn headless(spec: &Value) -> bool {
    let ips = items(spec, "clusterIPs");
    ips.len() == 1 && ips[0] == "None"
}

fn external_name(spec: &Value, path: &Path, errors: &mut Errors) {
    let detail = "may not be set for ExternalName services";
    for key in ["clusterIPs", "ipFamilies"] {
        if !items(spec, key).is_empty() {
            errors.push(FieldError::forbidden(path.child(key), detail));
        }
    }
    if has(spec, "ipFamilyPolicy") {
        errors.push(FieldError::forbidden(path.child("ipFamilyPolicy"), detail));
    }
    let name = text(spec, "externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.push(FieldError::required(path.child("externalName"), "")),
        name => invalid(errors, &path.child("externalName"), name, is_dns1123_subdomain(name)),
    }
}

fn service_port<'p>(
    port: &'p Value,
    several: bool,
    seen: &mut BTreeSet<&'p str>,
    path: &Path,
    errors: &mut Errors,
) {
    match text(port, "name") {
        "" if several => errors.push(FieldError::required(path.child("name"), "")),
        "" => {}
        name => {
            label(errors, &path.child("name"), name);
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(path.child("name"), name));
            }
        }
    }
    port_number(errors, int(port, "port"), &path.child("port"));
    one_of(errors, &path.child("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
    super::port(errors, get(port, "targetPort"), &path.child("targetPort"));
    if has(port, "appProtocol") {
        qualified_name(errors, &path.child("appProtocol"), text(port, "appProtocol"));
    }
}

fn cluster_ips(spec: &Value, before: &Value, path: &Path, errors: &mut Errors) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let (single, list) = (text(spec, "clusterIP"), items(spec, "clusterIPs"));
    let list_path = path.child("clusterIPs");
    let whole = || get(spec, "clusterIPs").clone();
    match (single.is_empty(), list.first()) {
        (false, None) => errors.push(FieldError::required(&list_path, "")),
        (false, Some(first)) if first != single => errors.push(FieldError::invalid(
            &list_path,
            whole(),
            "first value must match `clusterIP`",
        )),
        (true, Some(_)) => errors.push(FieldError::invalid(
            &list_path,
            whole(),
            "must be empty when `clusterIP` is not specified",
        )),
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for (i, family) in texts(spec, "ipFamilies").enumerate() {
        let path = path.child("ipFamilies").index(i);
        if !matches!(family, "IPv4" | "IPv6") {
            errors.push(FieldError::not_supported(&path, family, &["IPv4", "IPv6"]));
        }
        if !seen.insert(family) {
            errors.push(FieldError::duplicate(path, family));
        }
    }
    if has(spec, "ipFamilyPolicy") {
        let policy = text(spec, "ipFamilyPolicy");
        let supported = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        if !supported.contains(&policy) {
            let path = path.child("ipFamilyPolicy");
            errors.push(FieldError::not_supported(path, policy, &supported));
        }
    }
    let known: Vec<&str> = texts(before, "clusterIPs").collect();
    for (i, ip) in texts(spec, "clusterIPs").enumerate() {
        if i == 0 && ip == "None" {
            if list.len() > 1 {
                let detail = "'None' must be the first and only value";
                errors.push(FieldError::invalid(&list_path, whole(), detail));
            }
        } else if !known.contains(&ip) {
            net::ip(errors, &list_path.index(i), ip);
        }
    }
    if list.len() > 2 {
        errors.push(FieldError::invalid(&list_path, whole(), "may only hold up to 2 values"));
    }
}

fn unique_ports(ports: &[Value], ty: &str, path: &Path, errors: &mut Errors) {
    if ty == "ClusterIP" {
        for (i, _) in ports.iter().enumerate().filter(|(_, port)| int(port, "nodePort") != 0) {
            let path = path.index(i).child("nodePort");
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let number = int(port, "nodePort");
        if number != 0 && !seen.insert((text(port, "protocol"), number)) {
            errors.push(FieldError::duplicate(path.index(i).child("nodePort"), number));
        }
    }
    let mut seen = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(port, "protocol"), int(port, "port"));
        if !seen.insert((protocol, number)) {
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":\"{protocol}\",\"AppProtocol\":null,\
                 \"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
            );
            let mut error = FieldError::duplicate(path.index(i), "");
            error.bad_value = None;
            error.detail = shown;
            errors.push(error);
        }
    }
}

fn node_ports(spec: &Value, path: &Path, errors: &mut Errors) {
    if !matches!(text(spec, "type"), "NodePort" | "LoadBalancer") {
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, port) in items(spec, "ports").iter().enumerate() {
        let number = int(port, "nodePort");
        if number == 0 {
            continue;
        }
        let path = path.index(i).child("nodePort");
        if !(30000..=32767).contains(&number) {
            let detail = "provided port is not in the valid range. The range of valid ports is \
                          30000-32767";
            errors.push(FieldError::invalid(path, number, detail));
        } else if !seen.insert((text(port, "protocol"), number)) {
            errors.push(FieldError::invalid(path, number, "provided port is already allocated"));
        }
    }
}

fn balancer_class(spec: &Value, path: &Path, errors: &mut Errors) {
    if !has(spec, "loadBalancerClass") {
        return;
    }
    let path = path.child("loadBalancerClass");
    match text(spec, "type") {
        "LoadBalancer" => qualified_name(errors, &path, text(spec, "loadBalancerClass")),
        _ => errors.push(FieldError::forbidden(path, ONLY_BALANCERS)),
    }
}

fn traffic(spec: &Value, path: &Path, errors: &mut Errors) {
    let ty = text(spec, "type");
    let external = matches!(ty, "LoadBalancer" | "NodePort")
        || (ty == "ClusterIP" && !items(spec, "externalIPs").is_empty());
    let policy = text(spec, "externalTrafficPolicy");
    let policy_path = path.child("externalTrafficPolicy");
    if external {
        one_of(errors, &policy_path, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(policy_path, policy, detail));
    }
    let number = int(spec, "healthCheckNodePort");
    if number != 0 && !(ty == "LoadBalancer" && policy == "Local") {
        let detail =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid(path.child("healthCheckNodePort"), number, detail));
    }
    if has(spec, "internalTrafficPolicy") {
        let policy = text(spec, "internalTrafficPolicy");
        one_of(errors, &path.child("internalTrafficPolicy"), policy, &["Cluster", "Local"]);
    }
    if has(spec, "trafficDistribution") {
        let value = text(spec, "trafficDistribution");
        let supported = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        if !supported.contains(&value) {
            let path = path.child("trafficDistribution");
            errors.push(FieldError::not_supported(path, value, &supported));
        }
    }
}
