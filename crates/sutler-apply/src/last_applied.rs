//! The annotation of kubectl's client-side apply, for users who change to server-side apply.

use serde_json::Value;

use crate::{
    apply::Conflict,
    engine::Scope,
    fieldset::{FieldSet, path_text},
    schema::Ty,
    typed,
};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// More than this an object's annotations may not hold, in bytes.
const ANNOTATIONS_MOST: usize = 256 * 1024;

/// The conflicts that the last client-side apply does not explain: fields that it set and that
/// still have that value are kubectl's own. None if there is no such annotation to go by.
pub(crate) fn unexplained(
    scope: &Scope,
    live: &Value,
    conflicts: &[Conflict],
) -> Option<Vec<Conflict>> {
    let own = own_fields(scope.ty, live, scope.api_version)?;
    let mut paths = std::collections::BTreeSet::new();
    own.each(&mut |path| {
        paths.insert(path_text(path));
    });
    Some(conflicts.iter().filter(|conflict| !paths.contains(&conflict.path)).cloned().collect())
}

fn own_fields(ty: Ty, live: &Value, api_version: &str) -> Option<FieldSet> {
    let text = annotation(live)?;
    let applied: Value = serde_json::from_str(text).ok()?;
    if applied.get("apiVersion").and_then(Value::as_str) != Some(api_version) {
        return None;
    }
    let fits = |object: &Value| typed::validate(ty, object, false).is_empty();
    if !fits(live) || !fits(&applied) {
        return None;
    }
    let comparison = typed::compare(ty, &applied, live).ok()?;
    Some(
        typed::field_set(ty, &applied)
            .difference(&comparison.modified)
            .difference(&comparison.added)
            .difference(&comparison.removed),
    )
}

/// Keeps the annotation, where there is one, in step with what was applied.
pub(crate) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = config.clone();
    let own = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(own) = own {
        own.remove(ANNOTATION);
    }
    let mut text = String::new();
    crate::value::json(&applied, &mut text);
    text.push('\n');
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let Some(annotations) = annotations else { return };
    annotations.insert(ANNOTATION.to_owned(), Value::String(text));
    let size: usize =
        annotations.iter().map(|(name, v)| name.len() + v.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_MOST {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}
