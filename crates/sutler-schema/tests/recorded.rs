//! Answers of kube-apiserver 1.36.3, recorded, against ours: the same faults of the same objects in
//! the same words, the same defaults and the same fields dropped.

use std::sync::Arc;

use serde_json::{Value, json};
use sutler_schema::{
    decode::json,
    defaults::apply_defaults,
    meta::{NameKind, validate_object_meta, validate_object_meta_update},
    node::Node,
    prune::coerce,
    validate::{Around, Validator},
};

/// A fault as a Status cause gives it.
type Cause = (String, String, String);

struct Answer {
    /// Why the body was not read at all.
    unread: Option<String>,
    causes: Vec<Cause>,
    warnings: Vec<String>,
    object: Value,
}

/// What the API does with a body before it stores it.
fn admit(validator: &Validator, object: &Value, old: Option<&Value>) -> Answer {
    let mut object = json(object.to_string().as_bytes()).unwrap().value;
    apply_defaults(&mut object, validator.node());
    let mut answer = Answer { unread: None, causes: vec![], warnings: vec![], object: Value::Null };
    match coerce(&mut object, validator.node()) {
        Ok(unknown) => {
            let text = |path| format!("unknown field \"{path}\"");
            answer.warnings = unknown.into_iter().map(text).collect();
        }
        Err(error) => {
            answer.unread = Some(error.to_string());
            return answer;
        }
    }
    object["metadata"]["namespace"] = json!("default");
    match old.and_then(|old| old.get("status")) {
        Some(status) => object["status"] = status.clone(),
        None => {
            object.as_object_mut().unwrap().remove("status");
        }
    }
    let before = match old {
        None => validate_object_meta(&object["metadata"], true, NameKind::Subdomain),
        Some(old) => {
            object["metadata"]["resourceVersion"] = json!("1");
            let errors = validate_object_meta_update(&object["metadata"], &old["metadata"]);
            object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            errors
        }
    };
    let outcome = validator.validate(&object, old, Around { before, after: vec![] });
    answer.causes = outcome
        .errors
        .iter()
        .map(|error| (error.field.clone(), error.reason().to_owned(), error.body()))
        .collect();
    answer.warnings.extend(outcome.warnings);
    answer.causes.sort();
    answer.object = object;
    answer
}

fn compare(name: &str, ours: &Answer, theirs: &Value, wrong: &mut Vec<String>) {
    let mut differ = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            wrong.push(format!("{name}: {what}\n   ours {ours}\n theirs {theirs}"));
        }
    };
    if theirs["code"] == 400 {
        let message = theirs["message"].as_str().unwrap();
        let kind = message.split(" in version").next().unwrap();
        let prefix = format!("{kind} in version \"v1\" cannot be handled as a {kind}: ");
        let theirs = message.strip_prefix(&prefix).unwrap_or(message);
        return differ("unread", ours.unread.clone().unwrap_or_default(), theirs.to_owned());
    }
    let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
    let mut causes: Vec<Cause> = theirs["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| (text(cause, "field"), text(cause, "reason"), text(cause, "message")))
        .collect();
    causes.sort();
    differ("unread", ours.unread.clone().unwrap_or_default(), String::new());
    differ("causes", format!("{:#?}", ours.causes), format!("{causes:#?}"));
    if theirs["code"].as_u64().is_some_and(|code| code < 300) {
        differ("object", format!("{:#}", ours.object), format!("{:#}", theirs["object"]));
        let warnings = theirs["warnings"].as_array().unwrap().iter();
        let warnings: Vec<String> = warnings
            .map(|warning| {
                let text = warning.as_str().unwrap();
                let text = text.strip_prefix("299 - ").unwrap_or(text);
                serde_json::from_str(text).unwrap()
            })
            .collect();
        differ("warnings", format!("{:#?}", ours.warnings), format!("{warnings:#?}"));
    }
}

fn check(recorded: &str, at_least: usize) {
    let suite: Value = serde_json::from_str(recorded).unwrap();
    let validator = |schema: &Value| {
        Validator::new(Arc::new(Node::parse(schema).unwrap())).unwrap_or_else(|e| panic!("{e}"))
    };
    let strict = validator(&suite["schema"]);
    // Objects that the strict schema refuses were stored when a looser one was in force.
    let first = suite.get("before").map(validator);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for case in suite["cases"].as_array().unwrap() {
        count += 1;
        let name = case["name"].as_str().unwrap();
        let created = admit(first.as_ref().unwrap_or(&strict), &case["object"], None);
        compare(name, &created, &case["create"], &mut wrong);
        if let Some(new) = case.get("new") {
            count += 1;
            let updated = admit(&strict, new, Some(&created.object));
            compare(&format!("{name} (update)"), &updated, &case["update"], &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= at_least, "only {count} cases");
}

#[test]
fn schema() {
    check(include_str!("recorded/schema.json"), 150);
}

#[test]
fn cel() {
    check(include_str!("recorded/cel.json"), 90);
}

#[test]
fn library() {
    check(include_str!("recorded/library.json"), 10);
}

#[test]
fn ratcheting() {
    check(include_str!("recorded/ratcheting.json"), 60);
}

#[test]
fn status() {
    let suite: Value = serde_json::from_str(include_str!("recorded/cel.json")).unwrap();
    let node = Arc::new(Node::parse(&suite["schema"]).unwrap());
    let validator = Validator::new(Arc::clone(&node)).unwrap();
    let recorded: Value = serde_json::from_str(include_str!("recorded/status.json")).unwrap();
    let mut wrong = Vec::new();
    for case in recorded["cases"].as_array().unwrap() {
        let old = admit(&validator, &case["object"], None).object;
        let mut new = case["new"].clone();
        apply_defaults(&mut new, &node);
        let unknown = coerce(&mut new, &node).unwrap();
        // Only the status is taken over.
        let mut object = old.clone();
        if let Some(status) = new.get("status") {
            object["status"] = status.clone();
        }
        let outcome = validator.validate_status(&object, &old, Around::default());
        let mut causes: Vec<Cause> = outcome
            .errors
            .iter()
            .map(|error| (error.field.clone(), error.reason().to_owned(), error.body()))
            .collect();
        causes.sort();
        let warnings =
            unknown.into_iter().map(|path| format!("unknown field \"{path}\"")).collect();
        let ours = Answer { unread: None, causes, warnings, object };
        compare(case["name"].as_str().unwrap(), &ours, &case["update"], &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
