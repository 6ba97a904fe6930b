//! The containers of a pod.

use std::{cmp::Ordering, collections::BTreeSet};

use serde_json::Value;
use sutler_schema::{
    error::FieldError,
    names::{is_config_map_key, is_dns1123_subdomain, is_http_header_name, is_port_name},
    path::Path,
};

use super::*;
use crate::{
    json::{at, flag},
    quantity,
};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn containers(spec: &Value, volumes: &BTreeSet<&str>, path: &Path, errors: &mut Errors) {
    let list = items(spec, "containers");
    let own = path.child("containers");
    if list.is_empty() {
        errors.push(FieldError::required(&own, ""));
    }
    let mut seen = BTreeSet::new();
    for (i, container) in list.iter().enumerate() {
        let path = own.index(i);
        common(container, volumes, &path, errors);
        let name = text(container, "name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
        lifecycle_and_probes(container, &path, errors);
        restart_policy(container, &path, errors);
    }
    host_port_conflicts(list, &own, errors);
    let own = path.child("initContainers");
    for (i, container) in items(spec, "initContainers").iter().enumerate() {
        let path = own.index(i);
        common(container, volumes, &path, errors);
        restart_policy(container, &path, errors);
        let name = text(container, "name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.child("name"), name));
        }
        host_port_conflicts(std::slice::from_ref(container), &own, errors);
        if text(container, "restartPolicy") == "Always" {
            lifecycle_and_probes(container, &path, errors);
            continue;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(container, key) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(path.child(key), detail));
            }
        }
    }
}

fn common(container: &Value, volumes: &BTreeSet<&str>, path: &Path, errors: &mut Errors) {
    match text(container, "name") {
        "" => errors.push(FieldError::required(path.child("name"), "")),
        name => label(errors, &path.child("name"), name),
    }
    required_text(errors, container, path, "image");
    let policy = text(container, "terminationMessagePolicy");
    let supported = ["File", "FallbackToLogsOnError"];
    one_of(errors, &path.child("terminationMessagePolicy"), policy, &supported);
    ports(container, &path.child("ports"), errors);
    env(container, &path.child("env"), errors);
    env_from(container, &path.child("envFrom"), errors);
    mounts(container, volumes, &path.child("volumeMounts"), errors);
    devices(container, volumes, &path.child("volumeDevices"), errors);
    let policy = text(container, "imagePullPolicy");
    one_of(errors, &path.child("imagePullPolicy"), policy, &["Always", "IfNotPresent", "Never"]);
    resources(get(container, "resources"), &path.child("resources"), errors);
    security(get(container, "securityContext"), &path.child("securityContext"), errors);
}

fn restart_policy(container: &Value, path: &Path, errors: &mut Errors) {
    if has(container, "restartPolicy") {
        let policy = text(container, "restartPolicy");
        let supported = ["Always", "Never", "OnFailure"];
        if !supported.contains(&policy) {
            let path = path.child("restartPolicy");
            errors.push(FieldError::not_supported(path, policy, &supported));
        }
    }
}

fn ports(container: &Value, path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, port) in items(container, "ports").iter().enumerate() {
        let path = path.index(i);
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = is_port_name(name);
            if !messages.is_empty() {
                invalid(errors, &path.child("name"), name, messages);
            } else if !seen.insert(name) {
                errors.push(FieldError::duplicate(path.child("name"), name));
            }
        }
        match int(port, "containerPort") {
            0 => errors.push(FieldError::required(path.child("containerPort"), "")),
            number => port_number(errors, number, &path.child("containerPort")),
        }
        let host = int(port, "hostPort");
        if host != 0 {
            port_number(errors, host, &path.child("hostPort"));
        }
        one_of(errors, &path.child("protocol"), text(port, "protocol"), &PROTOCOLS);
    }
}

fn host_port_conflicts(containers: &[Value], path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in items(container, "ports").iter().enumerate() {
            let host = int(port, "hostPort");
            let key = format!("{}/{}/{host}", text(port, "protocol"), text(port, "hostIP"));
            if host != 0 && !seen.insert(key.clone()) {
                let path = path.index(i).child("ports").index(j).child("hostPort");
                errors.push(FieldError::duplicate(path, key));
            }
        }
    }
}

fn env_name(errors: &mut Errors, path: &Path, name: &str) {
    if name.chars().any(|c| !(' '..='~').contains(&c) || c == '=') {
        let detail = "a valid environment variable name must consist only of printable ASCII \
                      characters other than '='";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

fn env(container: &Value, path: &Path, errors: &mut Errors) {
    for (i, row) in items(container, "env").iter().enumerate() {
        let path = path.index(i);
        match text(row, "name") {
            "" => errors.push(FieldError::required(path.child("name"), "")),
            name => env_name(errors, &path.child("name"), name),
        }
        if has(row, "valueFrom") {
            let filled = !text(row, "value").is_empty();
            value_from(&row["valueFrom"], filled, &path.child("valueFrom"), errors);
        }
    }
}

fn value_from(source: &Value, filled: bool, path: &Path, errors: &mut Errors) {
    let mut sources = 0;
    if has(source, "fieldRef") {
        sources += 1;
        field_ref(&source["fieldRef"], &path.child("fieldRef"), errors);
    }
    if has(source, "resourceFieldRef") {
        sources += 1;
        required_text(
            errors,
            &source["resourceFieldRef"],
            &path.child("resourceFieldRef"),
            "resource",
        );
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if has(source, key) {
            sources += 1;
            key_ref(&source[key], &path.child(key), errors);
        }
    }
    sources += usize::from(has(source, "fileKeyRef"));
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"
        }
        _ if filled => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(path, "", detail));
}

fn key_ref(reference: &Value, path: &Path, errors: &mut Errors) {
    let name = text(reference, "name");
    invalid(errors, &path.child("name"), name, is_dns1123_subdomain(name));
    match text(reference, "key") {
        "" => errors.push(FieldError::required(path.child("key"), "")),
        key => invalid(errors, &path.child("key"), key, is_config_map_key(key)),
    }
}

fn field_ref(reference: &Value, path: &Path, errors: &mut Errors) {
    const FIELDS: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let field = text(reference, "fieldPath");
    let path_of_field = path.child("fieldPath");
    if field.is_empty() {
        errors.push(FieldError::required(path_of_field, ""));
        return;
    }
    if let Some((base, subscript)) = field.strip_suffix("']").and_then(|f| f.split_once("['")) {
        match base {
            "metadata.annotations" => qualified_name(errors, path, &subscript.to_lowercase()),
            "metadata.labels" => qualified_name(errors, path, subscript),
            _ => {
                let detail =
                    format!("error converting fieldPath: field label not supported: {field}");
                errors.push(FieldError::invalid(path_of_field, field, detail));
            }
        }
        return;
    }
    let known =
        FIELDS.contains(&field) || matches!(field, "metadata.annotations" | "metadata.labels");
    if !known && field != "spec.restartPolicy" && field != "status.phase" && field != "spec.host" {
        let detail = format!("error converting fieldPath: field label not supported: {field}");
        errors.push(FieldError::invalid(path_of_field, field, detail));
    } else if !FIELDS.contains(&field) {
        errors.push(FieldError::not_supported(path_of_field, field, &FIELDS));
    }
}

fn env_from(container: &Value, path: &Path, errors: &mut Errors) {
    for (i, row) in items(container, "envFrom").iter().enumerate() {
        let index = path.index(i);
        let prefix = text(row, "prefix");
        if !prefix.is_empty() {
            env_name(errors, &index.child("prefix"), prefix);
        }
        let mut sources = 0;
        for key in ["configMapRef", "secretRef"] {
            if has(row, key) {
                sources += 1;
                required_text(errors, &row[key], &index.child(key), "name");
            }
        }
        let detail = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(path, "", detail));
    }
}

fn mounts(container: &Value, volumes: &BTreeSet<&str>, path: &Path, errors: &mut Errors) {
    let privileged = flag(get(container, "securityContext"), "privileged");
    let mut seen = BTreeSet::new();
    for (i, mount) in items(container, "volumeMounts").iter().enumerate() {
        let index = path.index(i);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        required_text(errors, mount, &index, "name");
        if !volumes.contains(name) {
            errors.push(FieldError::not_found(index.child("name"), name));
        }
        required_text(errors, mount, &index, "mountPath");
        if !seen.insert(target) {
            errors.push(FieldError::invalid(index.child("mountPath"), target, "must be unique"));
        }
        let sub = text(mount, "subPath");
        if !sub.is_empty() {
            volume::descending(errors, &path.child("subPath"), sub);
        }
        let expression = text(mount, "subPathExpr");
        if !expression.is_empty() {
            if !sub.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.push(FieldError::invalid(index.child("subPathExpr"), expression, detail));
            }
            volume::descending(errors, &path.child("subPathExpr"), expression);
        }
        if has(mount, "mountPropagation") {
            let mode = text(mount, "mountPropagation");
            let path = path.child("mountPropagation");
            let supported = ["Bidirectional", "HostToContainer", "None"];
            if !supported.contains(&mode) {
                errors.push(FieldError::not_supported(&path, mode, &supported));
            }
            if mode == "Bidirectional" && !privileged {
                let detail =
                    "Bidirectional mount propagation is available only to privileged containers";
                errors.push(FieldError::forbidden(path, detail));
            }
        }
    }
}

fn devices(container: &Value, volumes: &BTreeSet<&str>, path: &Path, errors: &mut Errors) {
    for (i, device) in items(container, "volumeDevices").iter().enumerate() {
        let path = path.index(i);
        let name = text(device, "name");
        required_text(errors, device, &path, "name");
        if !name.is_empty() && !volumes.contains(name) {
            errors.push(FieldError::not_found(path.child("name"), name));
        }
        required_text(errors, device, &path, "devicePath");
    }
}

fn resources(resources: &Value, path: &Path, errors: &mut Errors) {
    let limits = get(resources, "limits");
    for list in ["limits", "requests"] {
        let list_path = path.child(list);
        for (name, amount) in entries(resources, list) {
            let amount = amount.as_str().unwrap_or("0");
            let entry = list_path.key(name);
            resource_name(name, &entry, errors);
            quantity_value(name, amount, &entry, errors);
            if list == "limits" {
                continue;
            }
            let overcommit = !name.contains('/') && !name.starts_with("hugepages-");
            match limits.get(name).and_then(Value::as_str) {
                Some(limit) => {
                    let order = quantity::compare(amount, limit).unwrap_or(Ordering::Equal);
                    let relation = match (order, overcommit) {
                        (Ordering::Less | Ordering::Greater, false) => "must be equal to",
                        (Ordering::Greater, true) => "must be less than or equal to",
                        _ => continue,
                    };
                    let detail = format!("{relation} {name} limit of {limit}");
                    errors.push(FieldError::invalid(&list_path, amount, detail));
                }
                None if !overcommit => errors.push(FieldError::required(
                    path.child("limits"),
                    "Limit must be set for non overcommitable resources",
                )),
                None => {}
            }
        }
    }
}

fn resource_name(name: &str, path: &Path, errors: &mut Errors) {
    let messages = is_qualified_name(name);
    if !messages.is_empty() {
        invalid(errors, path, name, messages);
    }
    let standard = matches!(name, "cpu" | "memory" | "ephemeral-storage" | "storage" | "pods")
        || name.starts_with("hugepages-");
    let of_containers =
        matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    if !name.contains('/') {
        if !standard && is_qualified_name(name).is_empty() {
            let detail = "must be a standard resource type or fully qualified";
            errors.push(FieldError::invalid(path, name, detail));
        }
        if !of_containers {
            let detail = "must be a standard resource for containers";
            errors.push(FieldError::invalid(path, name, detail));
        }
    }
}

/// An amount that is not negative and, for things that are counted, whole.
pub(super) fn quantity_value(name: &str, amount: &str, path: &Path, errors: &mut Errors) {
    if quantity::compare(amount, "0") == Some(Ordering::Less) {
        errors.push(FieldError::invalid(path, amount, "must be greater than or equal to 0"));
    }
    let counted =
        matches!(name, "pods" | "services" | "secrets" | "configmaps") || name.contains('/');
    if counted && !quantity::is_whole(amount) {
        errors.push(FieldError::invalid(path, amount, "must be an integer"));
    }
}

fn security(context: &Value, path: &Path, errors: &mut Errors) {
    for key in ["runAsUser", "runAsGroup"] {
        if let Some(id) = get(context, key).as_i64().filter(|id| !(0..=2_147_483_647).contains(id))
        {
            let detail = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(path.child(key), id, detail));
        }
    }
    let escalation = get(context, "allowPrivilegeEscalation") == &Value::Bool(false);
    if escalation && flag(context, "privileged") {
        // Shown whole, with the names that the fields have inside the server.
        let names = [
            ("Capabilities", "capabilities"),
            ("Privileged", "privileged"),
            ("SELinuxOptions", "seLinuxOptions"),
            ("WindowsOptions", "windowsOptions"),
            ("RunAsUser", "runAsUser"),
            ("RunAsGroup", "runAsGroup"),
            ("RunAsNonRoot", "runAsNonRoot"),
            ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
            ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
            ("ProcMount", "procMount"),
            ("SeccompProfile", "seccompProfile"),
            ("AppArmorProfile", "appArmorProfile"),
        ];
        let fields: Vec<String> =
            names.iter().map(|(shown, key)| format!("\"{shown}\":{}", get(context, key))).collect();
        let shown = format!("{{{}}}", fields.join(","));
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(FieldError::invalid_json(path, &shown, detail));
    }
}

fn lifecycle_and_probes(container: &Value, path: &Path, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let handler_value = at(container, &["lifecycle", hook]);
        if !handler_value.is_null() {
            handler(handler_value, &path.child("lifecycle").child(hook), errors);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = get(container, key);
        if probe.is_null() {
            continue;
        }
        let path = path.child(key);
        handler(probe, &path, errors);
        let numbers = [
            "initialDelaySeconds",
            "timeoutSeconds",
            "periodSeconds",
            "successThreshold",
            "failureThreshold",
        ];
        not_negative(errors, probe, &path, &numbers);
        let grace_path = path.child("terminationGracePeriodSeconds");
        let grace = get(probe, "terminationGracePeriodSeconds").as_i64();
        if let Some(grace) = grace.filter(|grace| *grace <= 0) {
            errors.push(FieldError::invalid(&grace_path, grace, "must be greater than 0"));
        }
        match (key, grace, int(probe, "successThreshold")) {
            ("readinessProbe", Some(grace), _) => {
                let detail = "must not be set for readinessProbes";
                errors.push(FieldError::invalid(grace_path, grace, detail));
            }
            ("readinessProbe", None, _) | (_, _, 1) => {}
            (_, _, threshold) => {
                let path = path.child("successThreshold");
                errors.push(FieldError::invalid(path, threshold, "must be 1"));
            }
        }
    }
}

fn handler(value: &Value, path: &Path, errors: &mut Errors) {
    let mut found = 0;
    for key in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        if !has(value, key) {
            continue;
        }
        found += 1;
        let (body, path) = (&value[key], path.child(key));
        if found > 1 {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 handler type"));
            continue;
        }
        match key {
            "exec" if items(body, "command").is_empty() => {
                errors.push(FieldError::required(path.child("command"), ""));
            }
            "httpGet" => {
                required_text(errors, body, &path, "path");
                port(errors, get(body, "port"), &path.child("port"));
                let scheme = text(body, "scheme");
                if !matches!(scheme, "HTTP" | "HTTPS") {
                    let supported = ["HTTP", "HTTPS"];
                    errors.push(FieldError::not_supported(
                        path.child("scheme"),
                        scheme,
                        &supported,
                    ));
                }
                for header in items(body, "httpHeaders") {
                    let name = text(header, "name");
                    let messages = is_http_header_name(name);
                    invalid(errors, &path.child("httpHeaders"), name, messages);
                }
            }
            "tcpSocket" => port(errors, get(body, "port"), &path.child("port")),
            "grpc" => port_number(errors, int(body, "port"), &path.child("port")),
            _ => {}
        }
    }
    if found == 0 {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}
