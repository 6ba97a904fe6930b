//! What fields a kind has, asked of the server when a manifest names one that it has not.

use serde_json::Value;

use super::{
    api::{Api, JSON},
    discovery::{Resource, distance, is_near},
};

/// More fields than this are not listed: nobody reads on.
const LISTED: usize = 12;

/// The schemas of a kind's group version; none where the server does not give them.
pub(crate) async fn fetch(api: &Api, resource: &Resource) -> Option<Value> {
    let path = match resource.group.as_str() {
        "" => format!("/openapi/v3/api/{}", resource.version),
        group => format!("/openapi/v3/apis/{group}/{}", resource.version),
    };
    api.get(&path, JSON).await.ok()
}

/// The fix for an unknown field: the one that was probably meant, or those that are there.
pub(crate) fn advise(document: &Value, resource: &Resource, field: &str) -> Option<String> {
    let schemas = document["components"]["schemas"].as_object()?;
    let mut schema = schemas.values().find(|schema| {
        schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten().any(|gvk| {
            gvk["group"] == *resource.group
                && gvk["version"] == *resource.version
                && gvk["kind"] == *resource.kind
        })
    })?;
    let steps = steps(field);
    let (last, parents) = steps.split_last()?;
    for step in parents {
        schema = descend(document, schema, step)?;
    }
    let known: Vec<&str> =
        resolve(document, schema)["properties"].as_object()?.keys().map(String::as_str).collect();
    let wanted = last.to_lowercase();
    let best = known
        .iter()
        .filter(|name| is_near(&wanted, &name.to_lowercase()))
        .min_by_key(|name| distance(&wanted, &name.to_lowercase()));
    match best {
        Some(best) => Some(format!("did you mean {best}?")),
        None if known.is_empty() => None,
        None if known.len() > LISTED => {
            Some(format!("known here: {}, …", known[..LISTED].join(", ")))
        }
        None => Some(format!("known here: {}", known.join(", "))),
    }
}

/// The names of a path; what stands in brackets only says which item.
fn steps(field: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if rest.starts_with('[') {
            let Some((_, after)) = rest.split_once(']') else { break };
            steps.push("[]".to_owned());
            rest = after;
            continue;
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        steps.push(rest[..end].to_owned());
        rest = &rest[end..];
    }
    steps
}

fn descend<'a>(document: &'a Value, schema: &'a Value, step: &str) -> Option<&'a Value> {
    let schema = resolve(document, schema);
    match step {
        "[]" => schema.get("items").or_else(|| schema.get("additionalProperties")),
        name => schema["properties"].get(name).or_else(|| schema.get("additionalProperties")),
    }
}

/// Follows references, which stand alone or in a list of one.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    // Schemas may refer to themselves; a manifest's path ends long before this does.
    for _ in 0..8 {
        let reference =
            schema["$ref"].as_str().or_else(|| match schema["allOf"].as_array()?.as_slice() {
                [only] => only["$ref"].as_str(),
                _ => None,
            });
        let target = reference
            .and_then(|r| r.strip_prefix('#'))
            .and_then(|pointer| document.pointer(pointer));
        match target {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_fields_get_a_suggestion() {
        let document = json!({"components": {"schemas": {
            "vm": {"x-kubernetes-group-version-kind": [{"group": "g", "version": "v1", "kind": "VM"}],
                "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/spec"}]}}},
            "spec": {"properties": {"sizeGiB": {}, "powerState": {},
                "disks": {"items": {"properties": {"name": {}, "size": {}}}}}}}}});
        let resource = Resource {
            group: "g".into(),
            version: "v1".into(),
            kind: "VM".into(),
            ..Resource::default()
        };
        let advise = |field: &str| advise(&document, &resource, field);
        assert_eq!(advise(".spec.sizeGib").unwrap(), "did you mean sizeGiB?");
        assert_eq!(advise("spec.disks[0].nam").unwrap(), "did you mean name?");
        assert_eq!(advise("spec.disks[name=\"a\"].x").unwrap(), "known here: name, size");
        assert_eq!(advise("spec.none.x"), None);
    }
}
