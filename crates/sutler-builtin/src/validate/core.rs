//! Config maps, secrets, namespaces, leases and disruption budgets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use sutler_schema::{error::FieldError, path::Path};

use super::*;
use crate::json::{at, flag};

/// The bytes that all values of a secret or config map may take together.
const MAX_BYTES: usize = 1 << 20;

const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(super) fn config_map(object: &Value, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in entries(object, "data") {
        let path = Path::new("data").key(key);
        invalid(errors, &path, key, sutler_schema::names::is_config_map_key(key));
        if get(object, "binaryData").get(key).is_some() {
            errors.push(FieldError::invalid(&path, key, "duplicate of key present in binaryData"));
        }
        bytes += value.as_str().map_or(0, str::len);
    }
    data_keys(errors, object, "binaryData");
    bytes += decoded_bytes(object, "binaryData");
    if bytes > MAX_BYTES {
        errors.push(FieldError::too_long(Path::new(""), MAX_BYTES));
    }
}

pub(super) fn config_map_update(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    if flag(old, "immutable") {
        frozen(new, old, &["data", "binaryData"], errors);
    }
    names(kind, new, errors);
    config_map(new, errors);
}

pub(super) fn secret(object: &Value, errors: &mut Errors) {
    data_keys(errors, object, "data");
    let data = Path::new("data");
    if decoded_bytes(object, "data") > MAX_BYTES {
        errors.push(FieldError::too_long(&data, MAX_BYTES));
    }
    let value = |key: &str| get(object, "data").get(key).and_then(Value::as_str);
    let mut require = |key: &str| errors.push(FieldError::required(data.key(key), ""));
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if at(object, &["metadata", "annotations", name]).as_str().is_none_or(str::is_empty) {
                let path = Path::new("metadata").child("annotations").key(name);
                errors.push(FieldError::required(path, ""));
            }
        }
        "kubernetes.io/dockercfg" => docker_config(".dockercfg", value(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => {
            docker_config(".dockerconfigjson", value(".dockerconfigjson"), errors);
        }
        "kubernetes.io/basic-auth"
            if value("username").is_none() && value("password").is_none() =>
        {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").is_none_or(str::is_empty) => {
            require("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if value(key).is_none() {
                    require(key);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn secret_update(kind: &Kind, new: &Value, old: &Value, errors: &mut Errors) {
    if text(new, "type") != text(old, "type") {
        let path = Path::new("type");
        errors.push(FieldError::invalid(path, text(new, "type"), "field is immutable"));
    }
    if flag(old, "immutable") {
        frozen(new, old, &["data"], errors);
    }
    names(kind, new, errors);
    secret(new, errors);
}

fn frozen(new: &Value, old: &Value, keys: &[&str], errors: &mut Errors) {
    if !flag(new, "immutable") {
        errors.push(FieldError::forbidden("immutable", IMMUTABLE));
    }
    for key in keys {
        if get(new, key) != get(old, key) {
            errors.push(FieldError::forbidden(key, IMMUTABLE));
        }
    }
}

fn docker_config(key: &str, value: Option<&str>, errors: &mut Errors) {
    let path = Path::new("data").key(key);
    let Some(value) = value else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    let bytes = STANDARD.decode(value).unwrap_or_default();
    let detail = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => {
            let found = match other {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                Value::Bool(_) => "bool",
                _ => "array",
            };
            format!(
                "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )
        }
        Err(_) => syntax_error(&bytes),
    };
    errors.push(FieldError::invalid(path, "<secret contents redacted>", detail));
}

/// The reference parser's words, for texts that are not JSON at all.
fn syntax_error(bytes: &[u8]) -> String {
    let text = bytes.trim_ascii_start();
    let literal: &[u8] = match text.first() {
        None | Some(b'{' | b'[' | b'"' | b'0'..=b'9' | b'-') => {
            return "unexpected end of JSON input".into();
        }
        Some(b'n') => b"null",
        Some(b't') => b"true",
        Some(b'f') => b"false",
        Some(byte) => {
            let c = char::from(*byte);
            return format!("invalid character '{c}' looking for beginning of value");
        }
    };
    match literal.iter().zip(text).find(|(expected, found)| expected != found) {
        None => "unexpected end of JSON input".into(),
        Some((expected, found)) => format!(
            "invalid character '{}' in literal {} (expecting '{}')",
            char::from(*found),
            String::from_utf8_lossy(literal),
            char::from(*expected)
        ),
    }
}

fn decoded_bytes(object: &Value, key: &str) -> usize {
    let length =
        |text: &str| text.len() / 4 * 3 - text.bytes().rev().take_while(|b| *b == b'=').count();
    entries(object, key).map(|(_, value)| value.as_str().map_or(0, length)).sum()
}

pub(super) fn namespace(object: &Value, errors: &mut Errors) {
    finalizers(object, false, errors);
}

pub(super) fn finalizers(object: &Value, indexed: bool, errors: &mut Errors) {
    let all = Path::new("spec").child("finalizers");
    for (i, name) in texts(get(object, "spec"), "finalizers").enumerate() {
        let path = if indexed { all.index(i) } else { all.clone() };
        qualified_name(errors, &path, name);
        standard_finalizer(name, &path, errors);
    }
}

pub(super) fn namespace_status(object: &Value, errors: &mut Errors) {
    let phase = text(get(object, "status"), "phase");
    let (expected, state) = match is_deleted(object) {
        false => ("Active", "empty"),
        true => ("Terminating", "not empty"),
    };
    if phase != expected {
        let detail = format!("may only be '{expected}' if `deletionTimestamp` is {state}");
        errors.push(FieldError::invalid(Path::new("status").child("Phase"), phase, detail));
    }
}

pub(super) fn lease(object: &Value, errors: &mut Errors) {
    let (spec, path) = (get(object, "spec"), Path::new("spec"));
    let least = [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ];
    for (key, least, detail) in least {
        if let Some(number) = get(spec, key).as_i64().filter(|number| *number < least) {
            errors.push(FieldError::invalid(path.child(key), number, detail));
        }
    }
}

pub(super) fn budget(object: &Value, errors: &mut Errors) {
    let (spec, path) = (get(object, "spec"), Path::new("spec"));
    let keys = ["minAvailable", "maxUnavailable"];
    if keys.iter().all(|key| has(spec, key)) {
        let text = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\
             \"UnhealthyPodEvictionPolicy\":{}}}",
            spec["minAvailable"],
            selector_text(get(spec, "selector")),
            spec["maxUnavailable"],
            get(spec, "unhealthyPodEvictionPolicy"),
        );
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid_json(&path, &text, detail));
    }
    for key in keys.iter().filter(|key| has(spec, key)) {
        int_or_percent(errors, &spec[*key], &path.child(key));
        at_most_all(errors, &spec[*key], &path.child(key));
    }
    label_selector(errors, get(spec, "selector"), &path.child("selector"));
    if has(spec, "unhealthyPodEvictionPolicy") {
        let policy = text(spec, "unhealthyPodEvictionPolicy");
        if !matches!(policy, "AlwaysAllow" | "IfHealthyBudget") {
            let path = path.child("unhealthyPodEvictionPolicy");
            errors.push(FieldError::not_supported(
                path,
                policy,
                &["AlwaysAllow", "IfHealthyBudget"],
            ));
        }
    }
}

pub(super) fn budget_status(object: &Value, errors: &mut Errors) {
    let keys = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
    not_negative(errors, get(object, "status"), &Path::new("status"), &keys);
}
