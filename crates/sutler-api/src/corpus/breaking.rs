//! Breaks each rule that stands at a place.

use serde_json::{Map, Value, json};

use super::{
    Case, Part, Rule,
    manifests::Breaker,
    tree::{self, Place, Step},
};

/// A text that none of the patterns matches.
pub(super) const MATCHES_NOTHING: &str = "!?";

/// Adds a case for every rule at `place` of `object`, which is valid.
pub(super) fn break_at(
    kind: &str,
    object: &Value,
    place: &Place<'_>,
    breakers: &[Breaker],
    cases: &mut Vec<Case>,
) {
    let mut breaking = Breaking { kind, object, place, cases };
    if !place.steps.is_empty() {
        breaking.type_();
    }
    breaking.strings();
    breaking.numbers();
    breaking.lists();
    breaking.maps();
    breaking.required();
    breaking.cel(breakers);
}

struct Breaking<'a> {
    kind: &'a str,
    object: &'a Value,
    place: &'a Place<'a>,
    cases: &'a mut Vec<Case>,
}

impl Breaking<'_> {
    fn keyword(&self, name: &str) -> Option<&Value> {
        self.place.schema.get(name)
    }

    fn count(&self, name: &str) -> Option<usize> {
        self.keyword(name)?.as_u64()?.try_into().ok()
    }

    /// A case with `value` at the place; `field` is below it, if not the place itself.
    fn add(&mut self, rule: Rule, value: Value, below: &str) {
        let object = tree::with(self.object, &self.place.steps, value);
        self.add_object(rule, None, object, below);
    }

    fn add_object(&mut self, rule: Rule, before: Option<Value>, object: Value, below: &str) {
        let status =
            matches!(self.place.steps.first(), Some(Step::Field(name)) if name == "status");
        let place = tree::field(&self.place.steps);
        let field = match below.strip_prefix('.') {
            Some(name) => tree::join(&place, name),
            None => format!("{place}{below}"),
        };
        let kind = self.kind.to_lowercase();
        let schema_path = &self.place.schema_path;
        let mut name = format!("{kind}/{schema_path}{below}/{}", rule.word());
        // The same rule can be broken in several ways.
        let same = self.cases.iter().rev().take(20).filter(|case| case.name.starts_with(&name));
        let same = same.count();
        if same > 0 {
            name = format!("{name}-{}", same + 1);
        }
        let part = if status { Part::Status } else { Part::Object };
        self.cases.push(Case { name, part, before, object, field, rule });
    }

    fn type_(&mut self) {
        let wrong = match self.keyword("type").and_then(Value::as_str) {
            Some("string") => json!(7),
            Some(_) => json!("text"),
            None if self.keyword("x-kubernetes-int-or-string").is_some() => json!(true),
            None => return,
        };
        self.add(Rule::Type, wrong, "");
    }

    fn strings(&mut self) {
        if self.keyword("enum").is_some() {
            self.add(Rule::Enum, json!("no-such-value"), "");
        }
        if self.keyword("pattern").is_some() {
            self.add(Rule::Pattern, json!(MATCHES_NOTHING), "");
        }
        if self.keyword("type").is_some_and(|ty| ty == "string") && self.keyword("format").is_some()
        {
            self.add(Rule::Format, json!("no such format"), "");
        }
        if let Some(least) = self.count("minLength").filter(|least| *least > 0) {
            self.add(Rule::MinLength, json!("a".repeat(least - 1)), "");
        }
        if let Some(most) = self.count("maxLength") {
            self.add(Rule::MaxLength, json!("a".repeat(most + 1)), "");
        }
    }

    fn numbers(&mut self) {
        let bound = |value: &Value| value.as_i64();
        if let Some(least) = self.keyword("minimum").and_then(bound) {
            self.add(Rule::Minimum, json!(least - 1), "");
        }
        if let Some(most) = self.keyword("maximum").and_then(bound) {
            self.add(Rule::Maximum, json!(most + 1), "");
        } else if self.keyword("format").is_some_and(|format| format == "int32") {
            self.add(Rule::Format, json!(i64::from(i32::MAX) + 1), "");
            // Kubernetes names the field of this one in its message alone.
            if let Some(case) = self.cases.last_mut() {
                case.field = match case.part {
                    Part::Object => "<nil>".to_owned(),
                    Part::Status => "status".to_owned(),
                };
            }
        }
    }

    fn lists(&mut self) {
        let Value::Array(items) = self.place.value else { return };
        let keys: Vec<String> = match self.keyword("x-kubernetes-list-map-keys") {
            Some(Value::Array(keys)) => {
                keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        };
        let identified = self.keyword("x-kubernetes-list-type").is_some_and(|ty| ty != "atomic");
        if self.count("minItems").is_some_and(|least| least > 0) {
            self.add(Rule::MinItems, json!([]), "");
        }
        if let (Some(most), Some(first)) = (self.count("maxItems"), items.first()) {
            let many = (0..=most)
                .map(
                    |number| if identified { renamed(first, &keys, number) } else { first.clone() },
                )
                .collect();
            self.add(Rule::MaxItems, Value::Array(many), "");
        }
        if let (true, Some(first)) = (identified, items.first()) {
            let mut twice = items.clone();
            twice.push(first.clone());
            self.add(Rule::Duplicate, Value::Array(twice), &format!("[{}]", items.len()));
        }
    }

    fn maps(&mut self) {
        let Value::Object(map) = self.place.value else { return };
        if let (Some(most), Some(first)) = (self.count("maxProperties"), map.values().next()) {
            let many: Map<String, Value> =
                (0..=most).map(|number| (format!("key-{number}"), first.clone())).collect();
            self.add(Rule::MaxProperties, Value::Object(many), "");
        }
    }

    fn required(&mut self) {
        let (Value::Object(map), Some(Value::Array(required))) =
            (self.place.value, self.place.schema.get("required"))
        else {
            return;
        };
        for name in required.iter().filter_map(Value::as_str) {
            let defaulted = self.place.schema["properties"][name].get("default").is_some();
            if defaulted || !map.contains_key(name) {
                continue;
            }
            let mut without = map.clone();
            without.remove(name);
            self.add(Rule::Required, Value::Object(without), &format!(".{name}"));
        }
    }

    fn cel(&mut self, breakers: &[Breaker]) {
        let (kind, place) = (self.kind, self.place);
        for rule in tree::cel(place.schema) {
            let message = rule["message"].as_str().unwrap_or_default();
            let below = rule["fieldPath"].as_str().unwrap_or_default();
            let fitting = breakers.iter().filter(|breaker| {
                breaker.rule == message && breaker.only.as_deref().is_none_or(|only| only == kind)
            });
            for breaker in fitting {
                let at = |value: &Value| tree::with(self.object, &self.place.steps, value.clone());
                let before = breaker.before.as_ref().map(at);
                let object = at(&breaker.value);
                self.add_object(Rule::Cel(message.to_owned()), before, object, below);
            }
        }
    }
}

/// An item of an identified list, made different from its siblings.
fn renamed(item: &Value, keys: &[String], number: usize) -> Value {
    let mut item = item.clone();
    if keys.is_empty() {
        return json!(format!("item-{number}"));
    }
    for key in keys {
        item[key.as_str()] = json!(format!("item-{number}"));
    }
    item
}
