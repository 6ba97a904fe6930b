//! Types, ranges, formats and combinations: the part of validation that OpenAPI describes.

use std::{collections::BTreeMap, sync::Arc};

use regex::Regex;
use serde_json::Value;

use super::{
    correlate::{OldItems, unchanged},
    format::Format,
    number, pattern,
};
use crate::{
    cel,
    error::FieldError,
    node::{Node, SchemaError, Type},
    path::{push_child, push_index},
    text::{go_json, go_quote},
};

/// A [`Node`] with everything compiled that checking needs.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) node: Arc<Node>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Option<Box<Schema>>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) rules: Vec<cel::Rule>,
    /// Whether there are rules here or below.
    pub(crate) has_rules: bool,
    /// Whether that holds without those in `allOf`, which alone do not count.
    pub(crate) has_spine_rules: bool,
    /// The schema as rules here see it; nothing if there are none or they see nothing.
    pub(crate) seen: Option<Arc<Node>>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
    /// The format that counts, if any: others than the API knows are ignored.
    format: Option<String>,
    text_format: Option<Format>,
    pattern: Option<Regex>,
    number: number::Limits,
}

impl Schema {
    /// Compiles the schema of a whole resource.
    pub(crate) fn compile(node: &Arc<Node>) -> Result<Self, SchemaError> {
        Self::compile_at(node, node, "", true)
    }

    /// Compiles what stands at `path`; `spine` is the node that describes the structure there,
    /// which differs from `node` inside `allOf`.
    fn compile_at(
        node: &Arc<Node>,
        spine: &Arc<Node>,
        path: &str,
        root: bool,
    ) -> Result<Self, SchemaError> {
        let compile = |child: &Arc<Node>, spine: Option<&Arc<Node>>, step: &str| {
            Self::compile_at(child, spine.unwrap_or(child), &format!("{path}{step}"), false)
        };
        let boxed = |child: &Option<Arc<Node>>, spine: &Option<Arc<Node>>, step: &str| {
            let child = child.as_ref().map(|child| compile(child, spine.as_ref(), step));
            child.map(|child| child.map(Box::new)).transpose()
        };
        let list = |children: &[Arc<Node>]| {
            let children = children.iter();
            children
                .map(|child| Self::compile_at(child, spine, path, root))
                .collect::<Result<Vec<_>, _>>()
        };
        let properties: BTreeMap<String, Schema> = node
            .properties
            .iter()
            .map(|(name, child)| {
                let spine = spine.properties.get(name);
                Ok((name.clone(), compile(child, spine, &format!(".{name}"))?))
            })
            .collect::<Result<_, SchemaError>>()?;
        let bad = |reason: String| SchemaError { path: path.to_owned(), reason };
        let pattern = match node.pattern.as_deref().filter(|pattern| !pattern.is_empty()) {
            None => None,
            Some(text) => Some(pattern::compile(text).map_err(|error| {
                bad(format!("pattern {text:?} is not a valid regular expression: {error}"))
            })?),
        };
        let (format, text_format) = effective_format(node);
        let additional = boxed(&node.additional, &spine.additional, ".*")?;
        let items = boxed(&node.items, &spine.items, "[]")?;
        let all_of = list(&node.all_of)?;
        let rules = node
            .rules
            .iter()
            .map(|rule| cel::Rule::compile(rule, spine).map_err(&bad))
            .collect::<Result<Vec<_>, _>>()?;
        let children = || properties.values().chain(additional.as_deref()).chain(items.as_deref());
        let has_rules = !rules.is_empty()
            || children().any(|child| child.has_rules)
            || all_of.iter().any(|child| child.has_rules);
        let has_spine_rules = !rules.is_empty() || children().any(|child| child.has_spine_rules);
        let seen = (!rules.is_empty() && cel::is_visible(spine)).then(|| cel::visible(spine, root));
        Ok(Self {
            any_of: list(&node.any_of)?,
            one_of: list(&node.one_of)?,
            not: boxed(&node.not, &None, "")?,
            number: number::Limits::of(node, format.as_deref()),
            node: Arc::clone(node),
            properties,
            additional,
            items,
            all_of,
            rules,
            has_rules,
            has_spine_rules,
            seen,
            format,
            text_format,
            pattern,
        })
    }

    /// What is wrong with `new`. Where it correlates with an old value that it equals, its faults
    /// are tolerated. Fields are given below `base`.
    pub(crate) fn check(
        &self,
        new: &Value,
        old: Option<&Value>,
        base: Option<&str>,
    ) -> Vec<FieldError> {
        let mut walk = Walk { path: String::new(), base, errors: Vec::new() };
        // Almost every object is valid: look at the old one only when there is a fault.
        walk.value(self, new, None);
        if old.is_some() && !walk.errors.is_empty() {
            walk = Walk { path: String::new(), base, errors: Vec::new() };
            walk.correlated(self, new, old);
        }
        let mut errors: Vec<FieldError> = Vec::with_capacity(walk.errors.len());
        let mut seen = std::collections::HashSet::new();
        for (message, error) in walk.errors {
            if seen.insert(message) {
                errors.push(error);
            }
        }
        errors
    }
}

/// The format if the API checks it, and the check if it is one of strings.
fn effective_format(node: &Node) -> (Option<String>, Option<Format>) {
    let Some(name) = node.format.as_deref() else { return (None, None) };
    let known = match node.ty {
        Type::Any | Type::String | Type::IntOrString => {
            let format = Format::of(name);
            return (format.map(|_| name.to_owned()), format);
        }
        Type::Integer => matches!(name, "int32" | "int64"),
        Type::Number => matches!(name, "float" | "double"),
        Type::Object | Type::Array | Type::Boolean => false,
    };
    (known.then(|| name.to_owned()), None)
}

/// The type as messages name it; empty where none is stated.
pub(crate) fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Any => "",
        Type::Object => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::IntOrString => "integer,string",
    }
}

/// The JSON type of a value and the format that its representation has.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Number(number) if number.is_i64() => ("integer", "int64"),
        // Also integers that do not fit: the API holds them as floats.
        Value::Number(_) => ("number", "float64"),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
    }
}

/// How many faults of one object are reported.
pub(super) const MAX_FAULTS: usize = 10_000;

/// How many checks passed; the alternative with the most explains a failed `anyOf` best.
type Matches = u32;

struct Walk<'b> {
    path: String,
    base: Option<&'b str>,
    /// Each with the text by which the API recognises duplicates.
    errors: Vec<(String, FieldError)>,
}

impl Walk<'_> {
    /// Checks a value and forgives its faults if it is unchanged.
    fn correlated(&mut self, schema: &Schema, new: &Value, old: Option<&Value>) -> Matches {
        let before = self.errors.len();
        let matches = self.value(schema, new, old);
        if self.errors.len() > before && old.is_some_and(|old| unchanged(new, old, &schema.node)) {
            self.errors.truncate(before);
        }
        matches
    }

    fn value(&mut self, schema: &Schema, new: &Value, old: Option<&Value>) -> Matches {
        let mut matches = 0;
        let typed = schema.node.ty != Type::Any || schema.format.is_some();
        if new.is_null() {
            matches += self.types(schema, new);
            self.enumeration(schema, new);
            return matches;
        }
        if typed {
            matches += self.types(schema, new) + 1;
        }
        matches += self.combinations(schema, new) + 1;
        match new {
            Value::String(text) => {
                self.text(schema, text);
                matches += 1;
                if let Some(format) = schema.text_format {
                    if !format.admits(text) {
                        let name = schema.format.as_deref().unwrap_or_default();
                        self.wrong_type(name, text);
                    }
                    matches += 1;
                }
            }
            Value::Number(number) => {
                for fault in schema.number.check(number, &self.path) {
                    match fault {
                        number::Fault::OfField { value, message } => {
                            let error = FieldError::invalid(self.field(), value, &message);
                            self.push((message, error));
                        }
                        number::Fault::OfType(message) => self.composite(message),
                    }
                }
                matches += 2;
            }
            Value::Array(items) => matches += self.array(schema, new, items, old) + 2,
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        self.enumeration(schema, new);
        matches += 1;
        if let Value::Object(fields) = new {
            matches += self.object(schema, fields, old) + 1;
        }
        matches + 1
    }

    fn types(&mut self, schema: &Schema, value: &Value) -> Matches {
        let (ty, format) = type_of(value);
        let node = &schema.node;
        let named = type_name(node.ty);
        if value.is_null() {
            if node.ty != Type::Any && !node.nullable {
                self.wrong_type(named, "null");
                return 0;
            }
            return 1;
        }
        let listed = match node.ty {
            Type::IntOrString => matches!(ty, "integer" | "string"),
            _ => ty == named,
        };
        let wants_int = matches!(node.ty, Type::Integer | Type::IntOrString);
        let float_is_int =
            ty == "number" && wants_int && value.as_f64().is_some_and(number::is_json_integer);
        let int_is_float = ty == "integer" && node.ty == Type::Number;
        let fits = listed || float_is_int || int_is_float;
        let text_or_list = matches!(ty, "string" | "array");
        if let Some(wanted) = &schema.format {
            if !text_or_list && !fits && format != wanted.as_str() {
                self.wrong_type(wanted, format);
                return 0;
            }
            // A formatted string is left to its format, and so, oddly, is a list.
            if text_or_list && !wants_int && node.ty != Type::Number {
                return 1;
            }
        }
        if !fits {
            self.wrong_type(named, ty);
            return 0;
        }
        1
    }

    fn text(&mut self, schema: &Schema, text: &str) {
        let node = &schema.node;
        let length = if node.max_length.is_some() || node.min_length.is_some() {
            text.chars().count() as u64
        } else {
            0
        };
        if let Some(max) = node.max_length.filter(|max| length > *max) {
            let message = format!("{} in body should be at most {max} chars long", self.path);
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            self.push((message, FieldError::too_long(self.field(), max)));
        } else if let Some(min) = node.min_length.filter(|min| length < *min) {
            self.invalid(text, format!("should be at least {min} chars long"));
        } else if let Some(regex) = schema.pattern.as_ref().filter(|regex| !regex.is_match(text)) {
            debug_assert!(!regex.as_str().is_empty());
            let pattern = node.pattern.as_deref().unwrap_or_default();
            self.invalid(text, format!("should match '{pattern}'"));
        }
    }

    fn array(
        &mut self,
        schema: &Schema,
        new: &Value,
        items: &[Value],
        old: Option<&Value>,
    ) -> Matches {
        let mut matches = 0;
        if let Some(child) = &schema.items {
            let old_items = old.and_then(|old| OldItems::of(&schema.node, Some(old)));
            let length = self.path.len();
            for (i, item) in items.iter().enumerate() {
                push_index(&mut self.path, i);
                let old = old_items.as_ref().and_then(|old_items| old_items.get(item));
                matches += self.correlated(child, item, old);
                self.path.truncate(length);
            }
        }
        let node = &schema.node;
        let size = items.len() as u64;
        if let Some(min) = node.min_items.filter(|min| size < *min) {
            self.invalid(size, format!("should have at least {min} items"));
        }
        if let Some(max) = node.max_items.filter(|max| size > *max) {
            self.too_many(items.len(), max, "items");
        }
        if node.unique_items && !all_different(new, items) {
            self.invalid("", "shouldn't contain duplicates".into());
        }
        matches
    }

    fn object(
        &mut self,
        schema: &Schema,
        fields: &serde_json::Map<String, Value>,
        old: Option<&Value>,
    ) -> Matches {
        let (mut matches, node) = (0, &schema.node);
        let size = fields.len() as u64;
        if let Some(min) = node.min_properties.filter(|min| size < *min) {
            self.invalid(size, format!("should have at least {min} properties"));
        }
        if let Some(max) = node.max_properties.filter(|max| size > *max) {
            self.too_many(fields.len(), max, "properties");
        }
        let length = self.path.len();
        let at_root = length == 0;
        // Where there are few known fields and many given ones or the other way round, either
        // walk does; the given ones are what a hostile client can multiply.
        for (name, field) in fields {
            let child = schema.properties.get(name);
            match (child, &schema.additional) {
                (Some(_), _) => push_child(&mut self.path, at_root, name),
                (None, Some(_)) => {
                    self.path.push('.');
                    self.path.push_str(name);
                }
                (None, None) => continue,
            }
            let Some(child) = child.or(schema.additional.as_deref()) else { continue };
            // The type of the root object is not visible to its author, so it cannot be kept.
            let of_type = at_root && matches!(name.as_str(), "apiVersion" | "kind");
            let old = old.filter(|_| !of_type).and_then(|old| old.as_object()?.get(name));
            let old = old.filter(|_| node.field(name).is_some());
            matches += self.correlated(child, field, old);
            self.path.truncate(length);
        }
        for name in node.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.path.push('.');
            self.path.push_str(name);
            let message = format!("{} in body is required", self.path);
            self.push((message, FieldError::required(self.field(), "")));
            self.path.truncate(length);
        }
        matches
    }

    fn enumeration(&mut self, schema: &Schema, value: &Value) {
        let values = &schema.node.enumeration;
        if values.is_empty() || values.iter().any(|admitted| number::converts_to(value, admitted)) {
            return;
        }
        let texts: Vec<String> = values
            .iter()
            .map(|value| value.as_str().map_or_else(|| go_json(value), str::to_owned))
            .collect();
        let message = format!("{} in body should be one of {}", self.path, texts.join(" "));
        let error = FieldError::not_supported(self.field(), value.clone(), &texts);
        self.push((message, error));
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`, none of which look at the old value.
    fn combinations(&mut self, schema: &Schema, value: &Value) -> Matches {
        let mut matches = 0;
        if !schema.any_of.is_empty() {
            matches += self.any_of(&schema.any_of, value);
        }
        if !schema.one_of.is_empty() {
            matches += self.one_of(&schema.one_of, value);
        }
        let mut passed = 0;
        for branch in &schema.all_of {
            let before = self.errors.len();
            matches += self.value(branch, value, None);
            passed += usize::from(self.errors.len() == before);
        }
        if passed != schema.all_of.len() {
            let none = if passed == 0 { ". None validated" } else { "" };
            let path = go_quote(&self.path);
            self.composite(format!("{path} must validate all the schemas (allOf){none}"));
        }
        if let Some(branch) = &schema.not {
            let before = self.errors.len();
            self.value(branch, value, None);
            let refused = self.errors.len() > before;
            self.errors.truncate(before);
            if !refused {
                let path = go_quote(&self.path);
                self.composite(format!("{path} must not validate the schema (not)"));
            }
        }
        matches + 1
    }

    fn any_of(&mut self, branches: &[Schema], value: &Value) -> Matches {
        let mut best: Option<(Matches, Vec<(String, FieldError)>)> = None;
        for branch in branches {
            let (matches, errors) = self.attempt(branch, value);
            if errors.is_empty() {
                return matches;
            }
            if best.as_ref().is_none_or(|(most, _)| matches > *most) {
                best = Some((matches, errors));
            }
        }
        let path = go_quote(&self.path);
        self.composite(format!("{path} must validate at least one schema (anyOf)"));
        let (matches, errors) = best.unwrap_or_default();
        self.errors.extend(errors);
        matches
    }

    fn one_of(&mut self, branches: &[Schema], value: &Value) -> Matches {
        let mut best: Option<(Matches, Vec<(String, FieldError)>)> = None;
        let (mut passed, mut first) = (0, 0);
        for branch in branches {
            let (matches, errors) = self.attempt(branch, value);
            if errors.is_empty() {
                if passed == 0 {
                    first = matches;
                }
                passed += 1;
                best = None;
            } else if passed == 0 && best.as_ref().is_none_or(|(most, _)| matches > *most) {
                best = Some((matches, errors));
            }
        }
        if passed == 1 {
            return first;
        }
        let found = match passed {
            0 => "Found none valid".to_owned(),
            _ => format!("Found {passed} valid alternatives"),
        };
        let path = go_quote(&self.path);
        self.composite(format!("{path} must validate one and only one schema (oneOf). {found}"));
        let (matches, errors) = best.unwrap_or_default();
        self.errors.extend(errors);
        matches
    }

    /// The outcome of one alternative, its errors set apart.
    fn attempt(&mut self, branch: &Schema, value: &Value) -> (Matches, Vec<(String, FieldError)>) {
        let before = self.errors.len();
        let matches = self.value(branch, value, None);
        (matches, self.errors.split_off(before))
    }

    /// Notes a fault, up to a limit that only a hostile object reaches.
    fn push(&mut self, fault: (String, FieldError)) {
        if self.errors.len() < MAX_FAULTS {
            self.errors.push(fault);
        }
    }

    /// The current path as a field: below the base, without the dot of a map key at the root.
    fn field(&self) -> String {
        let path = self.path.strip_prefix('.').unwrap_or(&self.path);
        match (self.base, path.is_empty()) {
            (None, true) => "<nil>".into(),
            (None, false) => path.to_owned(),
            (Some(base), true) => base.to_owned(),
            (Some(base), false) => format!("{base}.{path}"),
        }
    }

    fn invalid(&mut self, value: impl Into<Value>, what: String) {
        let message = format!("{} in body {what}", self.path);
        let error = FieldError::invalid(self.field(), value, &message);
        self.push((message, error));
    }

    fn wrong_type(&mut self, wanted: &str, given: &str) {
        let message =
            format!("{} in body must be of type {wanted}: {}", self.path, go_quote(given));
        let error = FieldError::type_invalid(self.field(), given, &message);
        self.push((message, error));
    }

    fn too_many(&mut self, actual: usize, max: u64, what: &str) {
        let message = format!("{} in body should have at most {max} {what}", self.path);
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        self.push((message, FieldError::too_many(self.field(), actual, max)));
    }

    /// A fault that is not of one field; the message names the path.
    fn composite(&mut self, message: String) {
        let error = FieldError::invalid(self.base.unwrap_or("<nil>"), "", &message);
        self.push((message, error));
    }
}

fn all_different(list: &Value, items: &[Value]) -> bool {
    debug_assert!(list.is_array());
    let mut seen = std::collections::HashSet::with_capacity(items.len());
    items.iter().all(|item| seen.insert(go_json(item)))
}
