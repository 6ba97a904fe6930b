//! The schema tree: one [`Node`] per value, parsed once from OpenAPI v3 as CRDs and the built-in
//! table write it, and then walked by every operation (defaulting, pruning, validation, apply,
//! strategic merge, `kubectl explain`).

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

/// What JSON type a node admits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Type {
    /// No type is stated: any JSON value.
    #[default]
    Any,
    /// A JSON object; see [`Node::properties`] and [`Node::additional`].
    Object,
    /// A JSON array; see [`Node::items`].
    Array,
    /// A string.
    String,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
}

/// How the items of a list are identified (`x-kubernetes-list-type`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// The list is one value.
    #[default]
    Atomic,
    /// Scalars, each at most once.
    Set,
    /// Objects, each identified by the values of these keys.
    Map(Vec<String>),
}

/// How `PATCH application/strategic-merge-patch+json` treats a list or map
/// (`x-kubernetes-patch-strategy` and `-merge-key`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PatchStrategy {
    /// Merge instead of replace.
    pub merge: bool,
    /// Replace a map, which would be merged otherwise.
    pub replace: bool,
    /// Keys that the patch does not name are dropped.
    pub retain_keys: bool,
    /// The key by which list items are matched.
    pub merge_key: Option<String>,
}

/// One `x-kubernetes-validations` rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// The CEL expression.
    pub rule: String,
    /// What is said when it is false.
    pub message: Option<String>,
    /// A CEL expression for that message.
    pub message_expression: Option<String>,
    /// The reason of the cause: `FieldValueInvalid` unless stated.
    pub reason: Option<String>,
    /// The field that is blamed, as a JSON path relative to the node.
    pub field_path: Option<String>,
    /// Whether the rule also runs on create, with `oldSelf` optional.
    pub optional_old_self: bool,
}

/// One value's schema.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The name of the type, where it has one of its own.
    pub name: Option<String>,
    /// The JSON type.
    pub ty: Type,
    /// Whether an explicit null is kept.
    pub nullable: bool,
    /// `int32`, `int64`, `date-time`, `byte` …
    pub format: Option<String>,
    /// The documentation that `kubectl explain` prints.
    pub description: Option<String>,
    /// Known fields of an object.
    pub properties: BTreeMap<String, Arc<Node>>,
    /// The schema of every other field (a map's values).
    pub additional: Option<Arc<Node>>,
    /// `additionalProperties: true`: any other field, of which the API keeps only what is no field
    /// of an object below it. Implies [`Node::preserve_unknown`].
    pub additional_any: bool,
    /// The schema of an array's items.
    pub items: Option<Arc<Node>>,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// Set where the field is absent.
    pub default: Option<Value>,
    /// The values that are admitted, if limited.
    pub enumeration: Vec<Value>,
    /// Lower bound of a number.
    pub minimum: Option<f64>,
    /// Whether the lower bound itself is refused.
    pub exclusive_minimum: bool,
    /// Upper bound of a number.
    pub maximum: Option<f64>,
    /// Whether the upper bound itself is refused.
    pub exclusive_maximum: bool,
    /// The number must be a multiple of this.
    pub multiple_of: Option<f64>,
    /// In characters.
    pub min_length: Option<u64>,
    /// In characters.
    pub max_length: Option<u64>,
    /// A regular expression that must match somewhere in the string.
    pub pattern: Option<String>,
    /// Fewest items.
    pub min_items: Option<u64>,
    /// Most items.
    pub max_items: Option<u64>,
    /// No two items are equal.
    pub unique_items: bool,
    /// Fewest fields.
    pub min_properties: Option<u64>,
    /// Most fields.
    pub max_properties: Option<u64>,
    /// List identity, for apply and for validation.
    pub list_type: ListType,
    /// `x-kubernetes-map-type: atomic` (also on structs).
    pub map_atomic: bool,
    /// Strategic merge.
    pub patch: PatchStrategy,
    /// CEL rules at this node.
    pub rules: Vec<Rule>,
    /// Value validations that must all hold.
    pub all_of: Vec<Arc<Node>>,
    /// Of which at least one must hold.
    pub any_of: Vec<Arc<Node>>,
    /// Of which exactly one must hold.
    pub one_of: Vec<Arc<Node>>,
    /// Which must not hold.
    pub not: Option<Arc<Node>>,
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("schema at {path}: {reason}")]
pub struct SchemaError {
    /// Where in the schema.
    pub path: String,
    /// What is wrong there.
    pub reason: String,
}

impl Node {
    /// Parses an OpenAPI v3 schema without `$ref`s, as in a CRD's `openAPIV3Schema`.
    pub fn parse(schema: &Value) -> Result<Self, SchemaError> {
        Self::parse_with(schema, &mut |name| {
            Err(SchemaError { path: name.into(), reason: "$ref is not allowed here".into() })
        })
    }

    /// As [`Node::parse`], with `resolve` giving the node for a `$ref` (its last path segment).
    pub fn parse_with(
        schema: &Value,
        resolve: &mut dyn FnMut(&str) -> Result<Arc<Node>, SchemaError>,
    ) -> Result<Self, SchemaError> {
        parse_at("", schema, resolve)
    }

    /// The node of `field` in an object: a known property, or the map's value schema.
    pub fn field(&self, field: &str) -> Option<&Arc<Node>> {
        self.properties.get(field).or(self.additional.as_ref())
    }
}

type Resolve<'a> = dyn FnMut(&str) -> Result<Arc<Node>, SchemaError> + 'a;

fn parse_at(path: &str, schema: &Value, resolve: &mut Resolve) -> Result<Node, SchemaError> {
    let bad = |reason: &str| SchemaError { path: path.to_owned(), reason: reason.to_owned() };
    let map = schema.as_object().ok_or_else(|| bad("must be an object"))?;
    let mut node = Node::default();
    // A reference may carry siblings (description, default); built-in schemas write it as allOf [$ref].
    let reference = map.get("$ref").or_else(|| {
        let all = map.get("allOf")?.as_array()?;
        if all.len() == 1 { all[0].get("$ref") } else { None }
    });
    if let Some(target) = reference {
        let name = target.as_str().ok_or_else(|| bad("$ref must be a string"))?;
        let name = name.rsplit('/').next().unwrap_or(name);
        node = (*resolve(name)?).clone();
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let flag = |key: &str| map.get(key).and_then(Value::as_bool).unwrap_or(false);
    let count = |key: &str| map.get(key).and_then(Value::as_u64);
    let number = |key: &str| map.get(key).and_then(Value::as_f64);

    match map.get("type").and_then(Value::as_str) {
        Some("object") => node.ty = Type::Object,
        Some("array") => node.ty = Type::Array,
        Some("string") => node.ty = Type::String,
        Some("integer") => node.ty = Type::Integer,
        Some("number") => node.ty = Type::Number,
        Some("boolean") => node.ty = Type::Boolean,
        Some(other) => return Err(bad(&format!("unknown type {other:?}"))),
        None => {}
    }
    if flag("x-kubernetes-int-or-string")
        || map.get("format").and_then(Value::as_str) == Some("int-or-string")
    {
        node.ty = Type::IntOrString;
    }
    node.nullable |= flag("nullable");
    node.preserve_unknown |= flag("x-kubernetes-preserve-unknown-fields");
    node.embedded_resource |= flag("x-kubernetes-embedded-resource");
    node.unique_items |= flag("uniqueItems");
    node.exclusive_minimum |= flag("exclusiveMinimum");
    node.exclusive_maximum |= flag("exclusiveMaximum");
    node.format = text("format").or(node.format);
    node.description = text("description").or(node.description);
    node.pattern = text("pattern").or(node.pattern);
    node.minimum = number("minimum").or(node.minimum);
    node.maximum = number("maximum").or(node.maximum);
    node.multiple_of = number("multipleOf").or(node.multiple_of);
    node.min_length = count("minLength").or(node.min_length);
    node.max_length = count("maxLength").or(node.max_length);
    node.min_items = count("minItems").or(node.min_items);
    node.max_items = count("maxItems").or(node.max_items);
    node.min_properties = count("minProperties").or(node.min_properties);
    node.max_properties = count("maxProperties").or(node.max_properties);
    node.default = map.get("default").cloned().or(node.default);
    if let Some(values) = map.get("enum").and_then(Value::as_array) {
        node.enumeration.clone_from(values);
    }
    if let Some(required) = map.get("required").and_then(Value::as_array) {
        node.required = required.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    }
    if let Some(properties) = map.get("properties").and_then(Value::as_object) {
        for (name, schema) in properties {
            let child = parse_at(&format!("{path}.{name}"), schema, resolve)?;
            node.properties.insert(name.clone(), Arc::new(child));
        }
    }
    match map.get("additionalProperties") {
        Some(Value::Bool(true)) => {
            node.preserve_unknown = true;
            node.additional_any = true;
        }
        Some(schema @ Value::Object(_)) => {
            node.additional = Some(Arc::new(parse_at(&format!("{path}.*"), schema, resolve)?));
        }
        _ => {}
    }
    if let Some(items) = map.get("items") {
        node.items = Some(Arc::new(parse_at(&format!("{path}[]"), items, resolve)?));
    }
    node.list_type = match map.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => ListType::Set,
        Some("map") => {
            let keys = map.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys: Vec<String> =
                keys.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            if keys.is_empty() {
                return Err(bad("a list map needs x-kubernetes-list-map-keys"));
            }
            ListType::Map(keys)
        }
        Some("atomic") => ListType::Atomic,
        _ => node.list_type,
    };
    if let Some(kind) = map.get("x-kubernetes-map-type").and_then(Value::as_str) {
        node.map_atomic = kind == "atomic";
    }
    if let Some(strategy) = text("x-kubernetes-patch-strategy") {
        node.patch.replace = strategy.split(',').any(|s| s == "replace");
        node.patch.merge = strategy.split(',').any(|s| s == "merge");
        node.patch.retain_keys = strategy.split(',').any(|s| s == "retainKeys");
    }
    node.patch.merge_key = text("x-kubernetes-patch-merge-key").or(node.patch.merge_key);
    for rule in map.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten()
    {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).map(str::to_owned);
        node.rules.push(Rule {
            rule: text("rule").ok_or_else(|| bad("a validation needs a rule"))?,
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf") == Some(&Value::Bool(true)),
        });
    }
    if reference.is_none() {
        node.all_of = parse_all(path, map.get("allOf"), resolve)?;
    }
    node.any_of = parse_all(path, map.get("anyOf"), resolve)?;
    node.one_of = parse_all(path, map.get("oneOf"), resolve)?;
    if let Some(not) = map.get("not") {
        node.not = Some(Arc::new(parse_at(path, not, resolve)?));
    }
    Ok(node)
}

fn parse_all(
    path: &str,
    schemas: Option<&Value>,
    resolve: &mut Resolve,
) -> Result<Vec<Arc<Node>>, SchemaError> {
    let list = schemas.and_then(Value::as_array).into_iter().flatten();
    list.map(|schema| Ok(Arc::new(parse_at(path, schema, resolve)?))).collect()
}
