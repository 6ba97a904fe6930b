//! The walk over an object that runs the CEL rules of its schema.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;

use super::{
    correlate::{OldItems, unchanged},
    schema::{MAX_FAULTS, Schema, type_name},
};
use crate::{
    cel::{self, OBJECT_BUDGET},
    error::{FieldError, FieldErrorKind},
    node::{Node, Type},
    path::Path,
};

/// What the rules found.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<FieldError>,
    /// Faults that are tolerated because the value did not change.
    pub(super) warnings: Vec<String>,
}

/// Runs all rules, as long as the budget lasts.
pub(super) fn check(schema: &Schema, new: &Value, old: Option<&Value>) -> Findings {
    let mut walk =
        Walk { findings: Findings::default(), budget: OBJECT_BUDGET, unchanged: HashMap::new() };
    let compared =
        Compared { current: old.map(|old| Pair { new, old, node: &schema.node }), nearest: None };
    // Out of budget is reported in the findings.
    let _ = walk.value(schema, &Path::root(), new, old, compared);
    walk.findings
}

/// The budget is used up: nothing more is run.
struct Stop;

/// A value and the old one that it correlates with.
#[derive(Clone, Copy)]
struct Pair<'v> {
    new: &'v Value,
    old: &'v Value,
    node: &'v Node,
}

impl<'v> Pair<'v> {
    fn field(self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self { new, old, node: self.node.field(name)? })
    }
}

/// What decides whether a fault is tolerated: the value if it correlates, else what is above it.
#[derive(Clone, Copy)]
struct Compared<'v> {
    current: Option<Pair<'v>>,
    nearest: Option<Pair<'v>>,
}

impl<'v> Compared<'v> {
    fn field(self, name: &str) -> Self {
        match self.current {
            None => self,
            Some(_) if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") => {
                Self { current: None, nearest: None }
            }
            Some(pair) => Self { current: pair.field(name), nearest: Some(pair) },
        }
    }

    fn item(self, new: &'v Value, old: Option<&'v Value>) -> Self {
        let Some(pair) = self.current else { return self };
        let item = old.zip(pair.node.items.as_deref());
        Self { current: item.map(|(old, node)| Pair { new, old, node }), nearest: Some(pair) }
    }
}

struct Walk {
    findings: Findings,
    budget: i64,
    /// Whether values are unchanged, by their address: many items may ask about one list.
    unchanged: HashMap<usize, bool>,
}

impl Walk {
    fn value(
        &mut self,
        schema: &Schema,
        path: &Path,
        new: &Value,
        old: Option<&Value>,
        compared: Compared<'_>,
    ) -> Result<(), Stop> {
        if new.is_null() || !schema.has_rules {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.rules(schema, path, new, old, compared)?;
        for branch in &schema.all_of {
            let compared = Compared { current: None, nearest: compared.nearest };
            self.value(branch, path, new, old, compared)?;
        }
        match new {
            Value::Array(items) => {
                let Some(child) = schema.items.as_deref().filter(|child| child.has_rules) else {
                    return Ok(());
                };
                let old_items = OldItems::of(&schema.node, old);
                for (i, item) in items.iter().enumerate() {
                    let old = old_items.as_ref().and_then(|old_items| old_items.get(item));
                    self.value(child, &path.index(i), item, old, compared.item(item, old))?;
                }
            }
            Value::Object(fields) => {
                let old = old.and_then(Value::as_object);
                if let Some(child) = schema.additional.as_deref().filter(|child| child.has_rules) {
                    for (name, field) in fields {
                        let old = old.and_then(|old| old.get(name));
                        self.value(child, &path.key(name), field, old, compared.field(name))?;
                    }
                }
                for (name, child) in schema.properties.iter().filter(|(_, child)| child.has_rules) {
                    let Some(field) = fields.get(name) else { continue };
                    let old = old.and_then(|old| old.get(name));
                    self.value(child, &path.child(name), field, old, compared.field(name))?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    /// Runs the rules at one node.
    fn rules(
        &mut self,
        schema: &Schema,
        path: &Path,
        new: &Value,
        old: Option<&Value>,
        compared: Compared<'_>,
    ) -> Result<(), Stop> {
        let Some(node) = &schema.seen else { return Ok(()) };
        let ty = match node.ty {
            Type::IntOrString => "",
            ty => type_name(ty),
        };
        if self.findings.errors.len() >= MAX_FAULTS {
            return Err(Stop);
        }
        if self.budget <= 0 {
            return self.stop(path, ty, OUT_OF_BUDGET.into());
        }
        for rule in &schema.rules {
            if rule.uses_old && old.is_none() && !rule.text.optional_old_self {
                continue;
            }
            let Some(outcome) = rule.holds(node, new, old) else { continue };
            self.pay(outcome.cost, path, ty, OUT_OF_BUDGET)?;
            match outcome.result {
                Ok(true) => {}
                Ok(false) => self.broken(rule, node, path, ty, new, old, compared)?,
                Err(error) => {
                    let name = rule.name();
                    let detail = if error.is_overload() {
                        format!(
                            "'{error}': call arguments did not match a supported operator, \
                             function or macro signature for rule: {name}"
                        )
                    } else if error.is_cost() {
                        let detail = format!(
                            "'{error}': no further validation rules will be run due to call cost \
                             exceeds limit for rule: {name}"
                        );
                        return self.stop(path, ty, detail);
                    } else {
                        format!("{error} evaluating rule: {name}")
                    };
                    self.findings.errors.push(FieldError::invalid(path, ty, detail));
                }
            }
        }
        Ok(())
    }

    /// Reports a broken rule.
    #[expect(clippy::too_many_arguments, reason = "the circumstances of one rule")]
    fn broken(
        &mut self,
        rule: &cel::Rule,
        node: &Arc<Node>,
        path: &Path,
        ty: &str,
        new: &Value,
        old: Option<&Value>,
        compared: Compared<'_>,
    ) -> Result<(), Stop> {
        let field = if rule.field.is_empty() { path.clone() } else { path.child(&rule.field) };
        let tolerated = !rule.uses_old && self.tolerated(compared);
        let mut detail = None;
        if let Some(outcome) = rule.message(node, new, old) {
            self.pay(outcome.cost, &field, ty, MESSAGE_OUT_OF_BUDGET)?;
            match outcome.result {
                Ok(text) => detail = text,
                Err(_) => {
                    let expression = rule.text.message_expression.as_deref().unwrap_or_default();
                    let detail = format!(
                        "no further validation rules will be run due to call cost exceeds limit \
                         for messageExpression: {}",
                        crate::text::go_quote(expression)
                    );
                    return self.stop(&field, ty, detail);
                }
            }
        }
        let detail = detail.unwrap_or_else(|| rule.detail());
        let shown = !matches!(node.ty, Type::Object | Type::Array);
        let value = shown.then(|| new.clone());
        let reason = rule.text.reason.as_deref().and_then(FieldErrorKind::of_rule_reason);
        let kind = reason.unwrap_or(FieldErrorKind::Invalid);
        let field = field.to_string();
        let error = match kind {
            // A duplicate is its own explanation: the API drops the message.
            FieldErrorKind::Duplicate => {
                FieldError { kind, field, bad_value: value, detail: String::new() }
            }
            _ => FieldError { kind, field, bad_value: value, detail },
        };
        match tolerated {
            true => self.findings.warnings.push(error.to_string()),
            false => self.findings.errors.push(error),
        }
        Ok(())
    }

    fn tolerated(&mut self, compared: Compared<'_>) -> bool {
        let Some(pair) = compared.current.or(compared.nearest) else { return false };
        let address = std::ptr::from_ref(pair.new) as usize;
        let known = self.unchanged.entry(address);
        *known.or_insert_with(|| unchanged(pair.new, pair.old, pair.node))
    }

    fn pay(&mut self, cost: u64, path: &Path, ty: &str, detail: &str) -> Result<(), Stop> {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            return self.stop(path, ty, detail.to_owned());
        }
        self.budget -= cost;
        Ok(())
    }

    fn stop(&mut self, path: &Path, ty: &str, detail: String) -> Result<(), Stop> {
        self.findings.errors.push(FieldError::invalid(path, ty, detail));
        Err(Stop)
    }
}

const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, no further \
                             validation rules will be run";
const MESSAGE_OUT_OF_BUDGET: &str = "messageExpression evaluation failed due to running out of \
                                     cost budget, no further validation rules will be run";
