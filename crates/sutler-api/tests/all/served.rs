//! What the embedded server makes of the corpus; the real one is asked by the parity suite.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value};
use sutler_api::{
    corpus::{self, Case, Part, Rule},
    crd,
};
use sutler_schema::{
    defaults::apply_defaults,
    error::FieldError,
    node::Node,
    prune,
    validate::{Around, Validator},
};

#[test]
fn valid_manifests_are_accepted_whole() {
    let kinds = Kinds::new();
    for manifest in corpus::valid() {
        let mut object = manifest.object.clone();
        let unknown = kinds.complete(&mut object);
        assert!(unknown.is_empty(), "{} has unknown fields {unknown:?}", manifest.name);
        let errors = kinds.of(&object).validate(&object, None, Around::default()).errors;
        assert!(errors.is_empty(), "{}: {errors:?}", manifest.name);
    }
}

#[test]
fn invalid_ones_are_refused_by_the_rule_that_they_break() {
    let kinds = Kinds::new();
    let wrong: Vec<String> = corpus::invalid()
        .iter()
        .filter_map(|case| {
            let errors = kinds.errors(case);
            let named =
                errors.iter().any(|error| error.field == case.field && expected(&case.rule, error));
            (!named).then(|| format!("{}: wanted {}, got {errors:?}", case.name, case.field))
        })
        .collect();
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether an error is the one that breaking `rule` brings about.
fn expected(rule: &Rule, error: &FieldError) -> bool {
    match rule {
        Rule::Type => error.reason() == "FieldValueTypeInvalid",
        Rule::Format => ["FieldValueTypeInvalid", "FieldValueInvalid"].contains(&error.reason()),
        Rule::Enum => error.reason() == "FieldValueNotSupported",
        Rule::Minimum | Rule::Maximum | Rule::MinLength | Rule::Pattern | Rule::MinItems => {
            error.reason() == "FieldValueInvalid"
        }
        Rule::MaxLength => error.reason() == "FieldValueTooLong",
        Rule::MaxItems | Rule::MaxProperties => error.reason() == "FieldValueTooMany",
        Rule::Required => error.reason() == "FieldValueRequired",
        Rule::Duplicate => error.reason() == "FieldValueDuplicate",
        Rule::Cel(message) => error.to_string().contains(message),
    }
}

struct Kinds(BTreeMap<String, Validator>);

impl Kinds {
    fn new() -> Self {
        let crds = sutler_api::crds();
        let validators = crds.iter().map(|definition| {
            let value = crd::to_value(definition);
            let schema = &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            let node = Node::parse(schema).expect("the schema can be read");
            let validator = Validator::new(Arc::new(node)).expect("the schema can be compiled");
            (definition.spec.names.kind.clone(), validator)
        });
        Self(validators.collect())
    }

    fn of(&self, object: &Value) -> &Validator {
        &self.0[object["kind"].as_str().expect("a manifest has a kind")]
    }

    /// Gives an object its defaults, and says which of its fields the schema does not know.
    fn complete(&self, object: &mut Value) -> Vec<String> {
        let node = self.of(object).node();
        apply_defaults(object, node);
        prune::coerce(object, node).expect("the metadata is well-formed")
    }

    fn errors(&self, case: &Case) -> Vec<FieldError> {
        let mut object = case.object.clone();
        self.complete(&mut object);
        let validator = self.of(&object);
        match case.part {
            Part::Object => {
                let before = case.before.clone().map(|mut before| {
                    self.complete(&mut before);
                    before
                });
                validator.validate(&object, before.as_ref(), Around::default()).errors
            }
            Part::Status => {
                let mut before = object.clone();
                before["status"] = Value::Object(Map::new());
                validator.validate_status(&object, &before, Around::default()).errors
            }
        }
    }
}
