//! Manifests that the schemas accept, and manifests that they refuse: one for every rule at every
//! place where it stands. Servers are tested with them.
//!
//! The accepted ones are files in `tests/corpus/valid`. The refused ones are made from these: the
//! schema is walked beside a manifest, and each rule that is met is broken there. Only what breaks
//! a CEL rule is written by hand, in `tests/corpus/rules.yaml`.

mod breaking;
mod manifests;
mod tree;

use std::collections::BTreeSet;

use serde_json::Value;

pub use manifests::{Manifest, valid};

use crate::crd;

/// A manifest that must be refused.
#[derive(Clone, Debug)]
pub struct Case {
    /// Kind, place in the schema, and rule; unique.
    pub name: String,
    /// Where it must be sent.
    pub part: Part,
    /// The object that must exist before, for a rule that compares with it.
    pub before: Option<Value>,
    /// The manifest.
    pub object: Value,
    /// The field that the refusal must name; `<nil>` where Kubernetes names none.
    pub field: String,
    /// The rule that is broken.
    pub rule: Rule,
}

/// What a case is about. A server drops the status from what is sent to the object itself, so rules
/// of the status can only be broken at its subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Create (or, with an object before, update) the object.
    Object,
    /// Create the object, then write its status.
    Status,
}

/// A rule of a schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// `type`.
    Type,
    /// `enum`.
    Enum,
    /// `minimum`.
    Minimum,
    /// `maximum`.
    Maximum,
    /// `minLength`.
    MinLength,
    /// `maxLength`.
    MaxLength,
    /// `pattern`.
    Pattern,
    /// `format` of a string, or of a number that is too large for it.
    Format,
    /// `minItems`.
    MinItems,
    /// `maxItems`.
    MaxItems,
    /// `maxProperties`.
    MaxProperties,
    /// `required`.
    Required,
    /// `x-kubernetes-list-type: map` or `set`: an item comes twice.
    Duplicate,
    /// `x-kubernetes-validations`, with the message.
    Cel(String),
}

impl Rule {
    /// The rule in one word, as case names have it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Enum => "enum",
            Self::Minimum => "minimum",
            Self::Maximum => "maximum",
            Self::MinLength => "minLength",
            Self::MaxLength => "maxLength",
            Self::Pattern => "pattern",
            Self::Format => "format",
            Self::MinItems => "minItems",
            Self::MaxItems => "maxItems",
            Self::MaxProperties => "maxProperties",
            Self::Required => "required",
            Self::Duplicate => "duplicate",
            Self::Cel(_) => "cel",
        }
    }
}

/// All cases, sorted by kind and place.
pub fn invalid() -> Vec<Case> {
    let manifests = valid();
    let breakers = manifests::breakers();
    let mut cases = Vec::new();
    for (kind, schema) in schemas() {
        let of_kind = manifests.iter().map(|m| &m.object).filter(|object| object["kind"] == kind);
        let mut seen = BTreeSet::new();
        for object in of_kind {
            tree::walk(&schema, object, &mut |place| {
                if seen.insert(place.schema_path.clone()) {
                    breaking::break_at(&kind, object, place, &breakers, &mut cases);
                }
            });
        }
    }
    cases
}

/// Places of the schemas that no valid manifest sets: none, or the manifests are not complete.
pub fn uncovered() -> Vec<String> {
    let manifests = valid();
    let mut uncovered = Vec::new();
    for (kind, schema) in schemas() {
        let mut seen = BTreeSet::new();
        for manifest in manifests.iter().filter(|manifest| manifest.object["kind"] == kind) {
            tree::walk(&schema, &manifest.object, &mut |place| {
                seen.insert(place.schema_path.clone());
            });
        }
        let all = tree::paths(&schema);
        uncovered.extend(all.difference(&seen).map(|path| format!("{kind}: {path}")));
    }
    uncovered
}

/// The message of every CEL rule, by kind and place.
pub fn cel_rules() -> Vec<(String, String, String)> {
    let mut rules = Vec::new();
    for (kind, schema) in schemas() {
        tree::visit_schema(&schema, &mut |path, node| {
            for rule in tree::cel(node) {
                let message = rule["message"].as_str().unwrap_or_default();
                rules.push((kind.clone(), path.to_owned(), message.to_owned()));
            }
        });
    }
    rules
}

/// Keywords of the schemas that say something about values and that no case breaks: none, or the
/// corpus does not know a rule.
pub fn unknown_keywords() -> BTreeSet<String> {
    let mut unknown = BTreeSet::new();
    for (_, schema) in schemas() {
        tree::visit_schema(&schema, &mut |_, node| {
            let keywords = node.as_object().into_iter().flat_map(|node| node.keys());
            unknown
                .extend(keywords.filter(|word| !KNOWN_KEYWORDS.contains(&word.as_str())).cloned());
        });
    }
    unknown
}

/// What [`invalid`] breaks, and what says nothing about values.
const KNOWN_KEYWORDS: &[&str] = &[
    "additionalProperties",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Kind and schema of every definition.
fn schemas() -> Vec<(String, Value)> {
    crd::crds()
        .iter()
        .map(|definition| {
            let value = crd::to_value(definition);
            let schema = value["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
            (definition.spec.names.kind.clone(), schema)
        })
        .collect()
}
