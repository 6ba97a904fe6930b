//! Services: addresses and ports that the server gives out, and fields that belong to one type.

use serde_json::{Value, json};

use crate::json::{copy, get, has, int, items, items_mut, object_mut, remove, set, text};

/// Whether the server has to choose an address for a service.
pub fn needs_cluster_ip(service: &Value) -> bool {
    let spec = get(service, "spec");
    text(spec, "type") != "ExternalName"
        && text(spec, "clusterIP").is_empty()
        && items(spec, "clusterIPs").is_empty()
}

/// The ports that nodes offer.
const NODE_PORTS: std::ops::Range<u64> = 30_000..32_768;

/// Chooses the ports on nodes that a service wants and does not name: from `seed`, which is its
/// own, and no two the same. Two services may well get the same one, since nothing listens there.
pub fn assign_node_ports(service: &mut Value, seed: u64) {
    let Some(spec) = object_mut(service, "spec") else { return };
    let wanted = match text(spec, "type") {
        "NodePort" => true,
        "LoadBalancer" => get(spec, "allocateLoadBalancerNodePorts") != &Value::Bool(false),
        _ => false,
    };
    let health = needs_health_port(spec) && int(spec, "healthCheckNodePort") == 0;
    let mut taken: Vec<i64> =
        items(spec, "ports").iter().map(|port| int(port, "nodePort")).collect();
    taken.push(int(spec, "healthCheckNodePort"));
    let size = NODE_PORTS.end - NODE_PORTS.start;
    let mut candidates = (0..size)
        .map(|step| NODE_PORTS.start + (seed % size + step) % size)
        .filter_map(|port| i64::try_from(port).ok())
        .filter(|port| !taken.contains(port));
    if wanted {
        for port in items_mut(spec, "ports").filter(|port| int(port, "nodePort") == 0) {
            if let Some(number) = candidates.next() {
                set(port, "nodePort", number);
            }
        }
    }
    if let Some(number) = candidates.next().filter(|_| health) {
        set(spec, "healthCheckNodePort", number);
    }
}

/// The addresses that a service may have.
pub fn is_cluster_ip(ip: std::net::Ipv4Addr) -> bool {
    let [first, second, ..] = ip.octets();
    first == 10 && second & 0xf0 == 96
}

/// Writes the address that was chosen for a service.
pub fn assign_cluster_ip(service: &mut Value, ip: &str) {
    if let Some(spec) = object_mut(service, "spec") {
        set(spec, "clusterIP", ip);
        set(spec, "clusterIPs", json!([ip]));
    }
}

pub(super) fn create(service: &mut Value) {
    let Some(spec) = object_mut(service, "spec") else { return };
    let ip = text(spec, "clusterIP").to_owned();
    if !ip.is_empty() && items(spec, "clusterIPs").is_empty() {
        set(spec, "clusterIPs", json!([ip]));
    }
    if text(spec, "type") == "ExternalName" {
        remove(spec, "internalTrafficPolicy");
        return;
    }
    // One family of addresses, except for lists of peers that nobody selects.
    let (policy, families) = match ip == "None" && !has(spec, "selector") {
        true => ("RequireDualStack", json!(["IPv4", "IPv6"])),
        false => ("SingleStack", json!(["IPv4"])),
    };
    if !has(spec, "ipFamilyPolicy") {
        set(spec, "ipFamilyPolicy", policy);
    }
    if !has(spec, "ipFamilies") {
        set(spec, "ipFamilies", families);
    }
}

pub(super) fn update(new: &mut Value, old: &Value) {
    if let Some(spec) = object_mut(new, "spec") {
        keep_given_out(spec, get(old, "spec"));
        follow_single(spec, get(old, "spec"));
    }
    drop_by_type(new, old);
    if let Some(spec) = object_mut(new, "spec")
        && text(spec, "type") == "ExternalName"
    {
        remove(spec, "internalTrafficPolicy");
    }
}

/// What the server gave out stays where the request says nothing.
fn keep_given_out(spec: &mut Value, old: &Value) {
    let internal = |spec: &Value| text(spec, "type") != "ExternalName";
    if internal(old) && internal(spec) {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if !has(spec, key) || get(spec, key) == "" {
                copy(spec, old, key);
            }
        }
    }
    if has_node_ports(text(old, "type")) && has_node_ports(text(spec, "type")) {
        let ports = |spec: &Value| -> Vec<(String, i64)> {
            let row = |port: &Value| (text(port, "name").to_owned(), int(port, "nodePort"));
            items(spec, "ports").iter().map(row).collect()
        };
        let (before, after) = (ports(old), ports(spec));
        let kept = |number: i64| after.iter().any(|(_, other)| *other == number);
        for port in items_mut(spec, "ports") {
            let name = text(port, "name").to_owned();
            let found = before.iter().find(|(other, _)| *other == name).map(|(_, number)| *number);
            if int(port, "nodePort") == 0
                && let Some(number) = found.filter(|number| *number != 0 && !kept(*number))
            {
                set(port, "nodePort", number);
            }
        }
    }
    if needs_health_port(old) && needs_health_port(spec) && int(spec, "healthCheckNodePort") == 0 {
        copy(spec, old, "healthCheckNodePort");
    }
}

/// Clients that only know the single address change the list with it.
fn follow_single(spec: &mut Value, old: &Value) {
    let (ip, before) = (text(spec, "clusterIP").to_owned(), text(old, "clusterIP"));
    if ip != before && get(spec, "clusterIPs") == get(old, "clusterIPs") {
        match ip.as_str() {
            "" => drop(remove(spec, "clusterIPs")),
            ip => set(spec, "clusterIPs", json!([ip])),
        }
    }
}

fn has_node_ports(ty: &str) -> bool {
    matches!(ty, "NodePort" | "LoadBalancer")
}

fn needs_health_port(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

/// Fields that only other types of service have are dropped when the type changes and the
/// request did not touch them.
fn drop_by_type(new: &mut Value, old: &Value) {
    let old = &old["spec"];
    let Some(spec) = object_mut(new, "spec") else { return };
    let (ty, old_ty) = (text(spec, "type").to_owned(), text(old, "type"));
    if old_ty != "ExternalName" && ty == "ExternalName" {
        let same = |key: &str| get(spec, key) == get(old, key);
        let ips = same("clusterIP") && same("clusterIPs");
        let (families, policy) = (same("ipFamilies"), same("ipFamilyPolicy"));
        let gone = [
            ("clusterIP", ips),
            ("clusterIPs", ips),
            ("ipFamilies", families),
            ("ipFamilyPolicy", policy),
        ];
        for (key, _) in gone.into_iter().filter(|(_, same)| *same) {
            remove(spec, key);
        }
    }
    if has_node_ports(old_ty) && !has_node_ports(&ty) {
        let ports = |spec: &Value| -> Vec<i64> {
            items(spec, "ports")
                .iter()
                .map(|port| int(port, "nodePort"))
                .filter(|n| *n != 0)
                .collect()
        };
        let known = ports(old);
        if ports(spec).iter().all(|port| known.contains(port)) {
            for port in items_mut(spec, "ports") {
                remove(port, "nodePort");
            }
        }
    }
    let same = |spec: &Value, key: &str| get(spec, key) == get(old, key);
    if needs_health_port(old) && !needs_health_port(spec) && same(spec, "healthCheckNodePort") {
        remove(spec, "healthCheckNodePort");
    }
    if old_ty == "LoadBalancer" && ty != "LoadBalancer" {
        for key in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, key) {
                remove(spec, key);
            }
        }
    }
    let external = |spec: &Value| {
        has_node_ports(text(spec, "type"))
            || (text(spec, "type") == "ClusterIP" && !items(spec, "externalIPs").is_empty())
    };
    if external(old) && !external(spec) && same(spec, "externalTrafficPolicy") {
        remove(spec, "externalTrafficPolicy");
    }
    if ty != "LoadBalancer" {
        set(&mut new["status"], "loadBalancer", json!({}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{lookup, prepare_for_update};

    #[test]
    fn a_service_that_stops_being_external_loses_its_node_ports() {
        let kind = lookup("", "v1", "Service").unwrap();
        let old = json!({"metadata": {}, "status": {"loadBalancer": {}}, "spec": {"type": "NodePort",
            "externalTrafficPolicy": "Cluster", "ports": [{"port": 1, "nodePort": 30000}]}});
        let mut new = old.clone();
        new["spec"]["type"] = "ClusterIP".into();
        prepare_for_update(kind, &mut new, &old, None);
        assert_eq!(new["spec"], json!({"type": "ClusterIP", "ports": [{"port": 1}]}));
    }

    #[test]
    fn addresses_stay_when_they_are_left_out() {
        let old = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.5",
            "clusterIPs": ["10.0.0.5"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}});
        let mut new = json!({"spec": {"type": "ClusterIP"}, "status": {}});
        update(&mut new, &old);
        assert_eq!(new["spec"], old["spec"]);
        let mut new = old.clone();
        new["status"] = json!({});
        new["spec"]["clusterIP"] = "10.0.0.6".into();
        update(&mut new, &old);
        assert_eq!(new["spec"]["clusterIPs"], json!(["10.0.0.6"]));
    }
}
