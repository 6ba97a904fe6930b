//! Evaluation: one walk over the expression, each step paid for.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use kube_cel::cel::{
    IdedExpr,
    common::ast::{
        CallExpr, ComprehensionExpr, EntryExpr, Expr, ListExpr, LiteralValue, MapExpr, SelectExpr,
        operators,
    },
};
use regex::Regex;
use serde_json::Value;

use super::{
    CALL_LIMIT, COST_EXCEEDED, Error, functions, ops,
    value::{Map, Val},
};
use crate::node::Node;

/// The outcome of an expression.
pub(super) type Evaluated<'a> = Result<Val<'a>, Error>;

/// The state of one evaluation.
pub(super) struct Eval<'a> {
    /// Variables, the innermost last. An accumulator may hold an error.
    scope: Vec<(&'a str, Evaluated<'a>)>,
    patterns: &'a HashMap<String, Regex>,
    cost: u64,
}

impl<'a> Eval<'a> {
    pub(super) fn new(patterns: &'a HashMap<String, Regex>) -> Self {
        Self { scope: Vec::with_capacity(4), patterns, cost: 0 }
    }

    /// Sets `self`, and `oldSelf` where there is an old value or it is optional.
    pub(super) fn bind_self(
        &mut self,
        node: &'a Node,
        new: &'a Value,
        old: Option<&'a Value>,
        optional_old: bool,
    ) -> Result<(), Error> {
        self.scope.push(("self", Val::read(new, node)));
        let old = old.map(|old| Val::read(old, node)).transpose();
        match (old, optional_old) {
            (Ok(None), false) => {}
            (Ok(old), true) => {
                self.scope.push(("oldSelf", Ok(Val::Optional(old.map(Arc::new)))));
            }
            (Ok(Some(old)), false) => self.scope.push(("oldSelf", Ok(old))),
            (Err(error), _) => self.scope.push(("oldSelf", Err(error))),
        }
        Ok(())
    }

    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    pub(super) fn pattern(&self, text: &str) -> Option<&'a Regex> {
        self.patterns.get(text)
    }

    /// Pays for a step.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), Error> {
        self.cost = self.cost.saturating_add(cost);
        match self.cost > CALL_LIMIT {
            true => Err(Error::new(COST_EXCEEDED)),
            false => Ok(()),
        }
    }

    pub(super) fn eval(&mut self, expression: &'a IdedExpr) -> Evaluated<'a> {
        match &expression.expr {
            Expr::Literal(literal) => Ok(read_literal(literal)),
            Expr::Ident(name) => {
                self.charge(1)?;
                self.variable(name)
            }
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(fold) => self.fold(fold),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Struct(_) | Expr::Unspecified => {
                Err(Error::new("messages cannot be constructed in rules"))
            }
        }
    }

    fn variable(&self, name: &str) -> Evaluated<'a> {
        if let Some((_, value)) = self.scope.iter().rev().find(|(known, _)| *known == name) {
            return value.clone();
        }
        match type_constant(name) {
            Some(name) => Ok(Val::Type(name)),
            None => Err(Error::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// Whether `name` is a variable, and not the namespace of a function.
    pub(super) fn is_bound(&self, name: &str) -> bool {
        self.scope.iter().any(|(known, _)| *known == name)
    }

    fn select(&mut self, select: &'a SelectExpr) -> Evaluated<'a> {
        if let Some(name) = qualified_name(select)
            && let Some(name) = type_constant(&name)
        {
            return Ok(Val::Type(name));
        }
        let operand = self.eval(&select.operand)?;
        if select.test {
            return match operand {
                Val::Map(map) => Ok(Val::Bool(map.field(&select.field)?.is_some())),
                Val::Optional(None) => Ok(Val::Bool(false)),
                Val::Optional(Some(inner)) => match &*inner {
                    Val::Map(map) => Ok(Val::Bool(map.field(&select.field)?.is_some())),
                    _ => Err(Error::overload()),
                },
                _ => Err(Error::overload()),
            };
        }
        self.charge(1)?;
        match operand {
            Val::Map(map) => map.field(&select.field)?.ok_or_else(|| no_such_key(&select.field)),
            optional @ Val::Optional(_) => optional_field(&optional, &select.field),
            _ => Err(Error::overload()),
        }
    }

    fn list(&mut self, list: &'a ListExpr) -> Evaluated<'a> {
        self.charge(10)?;
        let mut items = Vec::with_capacity(list.elements.len());
        for (i, element) in list.elements.iter().enumerate() {
            let item = self.eval(element)?;
            match (list.optional_indices.contains(&i), item) {
                (true, Val::Optional(item)) => items.extend(item.map(|item| (*item).clone())),
                (_, item) => items.push(item),
            }
        }
        Ok(Val::list(items))
    }

    fn map(&mut self, map: &'a MapExpr) -> Evaluated<'a> {
        self.charge(30)?;
        let mut entries: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let (key, value) = (self.eval(&entry.key)?, self.eval(&entry.value)?);
            let value = match (entry.optional, value) {
                (true, Val::Optional(None)) => continue,
                (true, Val::Optional(Some(value))) => (*value).clone(),
                (_, value) => value,
            };
            entries.push((key, value));
        }
        Ok(Val::Map(Map::Made(Arc::new(entries))))
    }

    fn call(&mut self, call: &'a CallExpr) -> Evaluated<'a> {
        if let Some(outcome) = self.lazy_call(call) {
            return outcome;
        }
        if let (None, [a, b]) = (&call.target, call.args.as_slice()) {
            let name = call.func_name.as_str();
            if let Some(outcome) = self.binary(name, a, b) {
                return outcome;
            }
        }
        if let (None, [a]) = (&call.target, call.args.as_slice()) {
            match call.func_name.as_str() {
                operators::LOGICAL_NOT => {
                    let value = self.eval(a)?;
                    self.charge(1)?;
                    return match value {
                        Val::Bool(value) => Ok(Val::Bool(!value)),
                        _ => Err(Error::overload()),
                    };
                }
                operators::NEGATE => {
                    let value = self.eval(a)?;
                    self.charge(1)?;
                    return ops::negate(&value);
                }
                operators::NOT_STRICTLY_FALSE => {
                    let value = self.eval(a);
                    return match value {
                        Err(error) if error.is_cost() => Err(error),
                        value => Ok(Val::Bool(!matches!(value, Ok(Val::Bool(false))))),
                    };
                }
                _ => {}
            }
        }
        functions::call(self, call)
    }

    /// Operators that do not evaluate all their operands.
    fn lazy_call(&mut self, call: &'a CallExpr) -> Option<Evaluated<'a>> {
        Some(match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, [a, b]) => self.logical(a, b, false),
            (operators::LOGICAL_OR, [a, b]) => self.logical(a, b, true),
            (operators::CONDITIONAL, [condition, yes, no]) => match self.eval(condition) {
                Ok(Val::Bool(true)) => self.eval(yes),
                Ok(Val::Bool(false)) => self.eval(no),
                Ok(_) => Err(Error::overload()),
                Err(error) => Err(error),
            },
            _ => return None,
        })
    }

    /// `&&` and `||`: `decisive` on one side decides, even if the other side fails.
    fn logical(&mut self, a: &'a IdedExpr, b: &'a IdedExpr, decisive: bool) -> Evaluated<'a> {
        let left = self.eval(a);
        match &left {
            Ok(Val::Bool(value)) if *value == decisive => return left,
            Err(error) if error.is_cost() => return left,
            _ => {}
        }
        let right = self.eval(b);
        match (&left, &right) {
            (_, Ok(Val::Bool(value))) if *value == decisive => right,
            (_, Err(error)) if error.is_cost() => right,
            (Err(_), _) => left,
            (Ok(Val::Bool(_)), Ok(Val::Bool(_)) | Err(_)) => right,
            _ => Err(Error::overload()),
        }
    }

    fn binary(&mut self, name: &str, a: &'a IdedExpr, b: &'a IdedExpr) -> Option<Evaluated<'a>> {
        if !matches!(
            name,
            operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS
                | operators::ADD
                | operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO
                | operators::IN
                | operators::INDEX
                | operators::OPT_INDEX
                | operators::OPT_SELECT
        ) {
            return None;
        }
        let (a, b) = match (self.eval(a), self.eval(b)) {
            (Ok(a), Ok(b)) => (a, b),
            (Err(error), _) | (_, Err(error)) => return Some(Err(error)),
        };
        Some(self.apply(name, a, b))
    }

    fn apply(&mut self, name: &str, a: Val<'a>, b: Val<'a>) -> Evaluated<'a> {
        let cost = match name {
            operators::IN => match &b {
                Val::List(list) => list.len() as u64,
                _ => 1,
            },
            operators::ADD => match &a {
                Val::Text(_) | Val::Bytes(_) => tenth(a.cost_size() + b.cost_size()),
                _ => 1,
            },
            operators::EQUALS
            | operators::NOT_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS => tenth(a.cost_size().min(b.cost_size())),
            _ => 1,
        };
        self.charge(cost)?;
        let order = |wanted: fn(std::cmp::Ordering) -> bool| -> Evaluated<'a> {
            Ok(Val::Bool(wanted(ops::compare(&a, &b)?)))
        };
        match name {
            operators::EQUALS => Ok(Val::Bool(ops::equal(&a, &b)?)),
            operators::NOT_EQUALS => Ok(Val::Bool(!ops::equal(&a, &b)?)),
            operators::LESS => order(std::cmp::Ordering::is_lt),
            operators::LESS_EQUALS => order(std::cmp::Ordering::is_le),
            operators::GREATER => order(std::cmp::Ordering::is_gt),
            operators::GREATER_EQUALS => order(std::cmp::Ordering::is_ge),
            operators::ADD => ops::add(a, b),
            operators::SUBSTRACT => ops::subtract(&a, &b),
            operators::MULTIPLY => ops::multiply(&a, &b),
            operators::DIVIDE => ops::divide(&a, &b),
            operators::MODULO => ops::modulo(&a, &b),
            operators::IN => match &b {
                Val::List(list) => Ok(Val::Bool(ops::contains(list, &a)?)),
                Val::Map(map) => Ok(Val::Bool(map.get(&a)?.is_some())),
                _ => Err(Error::overload()),
            },
            operators::OPT_SELECT => match &b {
                Val::Text(field) => optional_field(&a, field),
                _ => Err(Error::overload()),
            },
            operators::OPT_INDEX => optional_index(&a, &b),
            _ => match a {
                Val::Optional(_) => optional_index(&a, &b),
                _ => index(&a, &b)?.ok_or_else(|| match (&a, &b) {
                    (Val::List(_), Val::Int(i)) => Error::new(format!("index out of bounds: {i}")),
                    _ => no_such_key(&functions::display(&b)),
                }),
            },
        }
    }

    fn fold(&mut self, fold: &'a ComprehensionExpr) -> Evaluated<'a> {
        let range = self.eval(&fold.iter_range)?;
        let items = iterate(&range, fold.iter_var2.is_some())?;
        let accumulator = fold.accu_var.as_str();
        if let Some(step) = Append::of(&fold.loop_step, accumulator) {
            return self.append_all(fold, &step, items);
        }
        let depth = self.scope.len();
        let initial = self.eval(&fold.accu_init);
        self.scope.push((accumulator, initial));
        for (first, second) in items {
            match self.eval(&fold.loop_cond) {
                Ok(Val::Bool(false)) => break,
                Err(error) if error.is_cost() => return Err(error),
                _ => {}
            }
            self.scope.push((&fold.iter_var, Ok(first)));
            if let (Some(name), Some(second)) = (&fold.iter_var2, second) {
                self.scope.push((name, Ok(second)));
            }
            let next = self.eval(&fold.loop_step);
            self.scope.truncate(depth + 1);
            if let Err(error) = &next
                && error.is_cost()
            {
                return next;
            }
            self.scope[depth].1 = next;
        }
        let result = self.eval(&fold.result);
        self.scope.truncate(depth);
        result
    }

    /// `map` and `filter`, without copying the list at every step.
    fn append_all(
        &mut self,
        fold: &'a ComprehensionExpr,
        step: &Append<'a>,
        items: Vec<(Val<'a>, Option<Val<'a>>)>,
    ) -> Evaluated<'a> {
        let depth = self.scope.len();
        self.charge(10)?;
        let mut out = Vec::new();
        for (first, second) in items {
            self.scope.push((&fold.iter_var, Ok(first)));
            if let (Some(name), Some(second)) = (&fold.iter_var2, second) {
                self.scope.push((name, Ok(second)));
            }
            let keep = match step.filter {
                None => Ok(true),
                Some(filter) => match self.eval(filter) {
                    Ok(Val::Bool(keep)) => Ok(keep),
                    Ok(_) => Err(Error::overload()),
                    Err(error) => Err(error),
                },
            };
            // A list of one is made and joined: 10 and 1 and the accumulator.
            let outcome = match keep {
                Ok(true) => self.charge(12).and_then(|()| self.eval(step.item)).map(Some),
                Ok(false) => self.charge(1).map(|()| None),
                Err(error) => Err(error),
            };
            self.scope.truncate(depth);
            out.extend(outcome?);
        }
        Ok(Val::list(out))
    }

    /// Evaluates `body` with variables bound.
    pub(super) fn with<const N: usize>(
        &mut self,
        variables: [(&'a str, Val<'a>); N],
        body: &'a IdedExpr,
    ) -> Evaluated<'a> {
        let depth = self.scope.len();
        self.scope.extend(variables.map(|(name, value)| (name, Ok(value))));
        let value = self.eval(body);
        self.scope.truncate(depth);
        value
    }
}

/// A step of a fold that appends to a list: `filter ? accu + [item] : accu`.
struct Append<'a> {
    filter: Option<&'a IdedExpr>,
    item: &'a IdedExpr,
}

impl<'a> Append<'a> {
    fn of(step: &'a IdedExpr, accumulator: &str) -> Option<Self> {
        let Expr::Call(call) = &step.expr else { return None };
        let is_accumulator =
            |e: &IdedExpr| matches!(&e.expr, Expr::Ident(name) if name == accumulator);
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::ADD, [accu, list]) if is_accumulator(accu) => match &list.expr {
                Expr::List(ListExpr { elements, .. }) if elements.len() == 1 => {
                    Some(Self { filter: None, item: &elements[0] })
                }
                _ => None,
            },
            (operators::CONDITIONAL, [filter, step, accu]) if is_accumulator(accu) => {
                let inner = Self::of(step, accumulator)?;
                inner.filter.is_none().then_some(Self { filter: Some(filter), item: inner.item })
            }
            _ => None,
        }
    }
}

/// What a fold runs over: items of a list, keys of a map; with a second variable, indices and
/// items, keys and values.
pub(super) fn iterate<'a>(
    range: &Val<'a>,
    pairs: bool,
) -> Result<Vec<(Val<'a>, Option<Val<'a>>)>, Error> {
    match range {
        Val::List(list) => {
            let items = list.to_vec()?.into_iter();
            Ok(match pairs {
                false => items.map(|item| (item, None)).collect(),
                true => (0..).map(Val::Int).zip(items.map(Some)).collect(),
            })
        }
        Val::Map(map) => {
            let mut out = Vec::with_capacity(map.len());
            for key in map.keys() {
                // A null field is listed, but has no value.
                let value = if pairs { map.get(&key)? } else { None };
                if !pairs || value.is_some() {
                    out.push((key, value));
                }
            }
            Ok(out)
        }
        _ => Err(Error::overload()),
    }
}

fn read_literal(literal: &LiteralValue) -> Val<'_> {
    match literal {
        LiteralValue::Boolean(value) => Val::Bool(*value.inner()),
        LiteralValue::Bytes(value) => Val::Bytes(Arc::new(value.inner().to_vec())),
        LiteralValue::Double(value) => Val::Double(*value.inner()),
        LiteralValue::Int(value) => Val::Int(*value.inner()),
        LiteralValue::Null => Val::Null,
        LiteralValue::String(value) => Val::Text(Cow::Borrowed(value.inner())),
        LiteralValue::UInt(value) => Val::Uint(*value.inner()),
    }
}

fn type_constant(name: &str) -> Option<&'static str> {
    const NAMES: [&str; 12] = [
        "bool",
        "bytes",
        "double",
        "google.protobuf.Duration",
        "google.protobuf.Timestamp",
        "int",
        "list",
        "map",
        "null_type",
        "string",
        "type",
        "uint",
    ];
    NAMES.into_iter().find(|known| *known == name)
}

/// `a.b.C` as one name, if it is nothing but names.
fn qualified_name(select: &SelectExpr) -> Option<String> {
    if select.test {
        return None;
    }
    match &select.operand.expr {
        Expr::Ident(name) if name == "google" => Some(format!("{name}.{}", select.field)),
        Expr::Select(inner) => Some(format!("{}.{}", qualified_name(inner)?, select.field)),
        _ => None,
    }
}

/// The item at an index or key, if it is there.
fn index<'a>(operand: &Val<'a>, at: &Val<'a>) -> Result<Option<Val<'a>>, Error> {
    match operand {
        Val::List(list) => {
            let i = match at {
                Val::Int(i) => *i,
                Val::Uint(i) => i64::try_from(*i).unwrap_or(i64::MAX),
                Val::Double(i) if i.fract() == 0.0 => *i as i64,
                _ => return Err(Error::overload()),
            };
            usize::try_from(i).ok().and_then(|i| list.get(i)).transpose()
        }
        Val::Map(map) => map.get(at),
        _ => Err(Error::overload()),
    }
}

fn optional_index<'a>(operand: &Val<'a>, at: &Val<'a>) -> Evaluated<'a> {
    let operand = match operand {
        Val::Optional(None) => return Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => inner,
        other => other,
    };
    Ok(Val::Optional(index(operand, at)?.map(Arc::new)))
}

fn optional_field<'a>(operand: &Val<'a>, field: &str) -> Evaluated<'a> {
    let operand = match operand {
        Val::Optional(None) => return Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => inner,
        other => other,
    };
    match operand {
        Val::Map(map) => Ok(Val::Optional(map.field(field)?.map(Arc::new))),
        _ => Err(Error::overload()),
    }
}

fn no_such_key(key: &str) -> Error {
    Error::new(format!("no such key: {key}"))
}

/// A tenth of a length, rounded up: what a walk over a string costs.
pub(super) fn tenth(length: u64) -> u64 {
    length.div_ceil(10)
}
