//! CEL rules of schemas. The parser and the function library are those of the `kube-cel` crate;
//! values are looked at in place, evaluation is counted, and errors read as the API's.

use std::{collections::HashMap, sync::Arc};

use kube_cel::cel::{IdedExpr, common::ast::Expr, parser::Parser};
use regex::Regex;
use serde_json::Value;

use crate::{
    node::{Node, Rule as RuleText, Type},
    path::Path,
    validate::pattern,
};

mod convert;
mod escape;
mod eval;
mod format;
mod functions;
mod library;
mod named;
mod ops;
mod parse_errors;
mod strings;
mod value;

/// What one evaluation may cost.
pub(crate) const CALL_LIMIT: u64 = 1_000_000;
/// What all rules on one object may cost.
pub(crate) const OBJECT_BUDGET: i64 = 10_000_000;
/// The longest message that an expression may give.
const MESSAGE_MAX_BYTES: usize = 5 * 1024;

/// A rule that is ready to run.
pub(crate) struct Rule {
    pub(crate) text: RuleText,
    program: Option<Code>,
    message: Option<Code>,
    /// The blamed field, relative to the node; empty for the node itself.
    pub(crate) field: String,
    pub(crate) uses_old: bool,
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rule").field(&self.text.rule).finish()
    }
}

/// A parsed expression with the regular expressions that it states.
struct Code {
    expression: IdedExpr,
    patterns: HashMap<String, Regex>,
}

/// The outcome of a rule and what it cost.
pub(crate) struct Outcome<T> {
    pub(crate) result: Result<T, Error>,
    pub(crate) cost: u64,
}

/// Why an evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub(crate) std::borrow::Cow<'static, str>);

impl Error {
    fn new(text: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self(text.into())
    }

    fn overload() -> Self {
        Self::new("no such overload")
    }

    /// Whether the arguments of a call had types that it is not defined for.
    pub(crate) fn is_overload(&self) -> bool {
        self.0.starts_with("no such overload")
    }

    /// Whether the evaluation was stopped because it became too expensive.
    pub(crate) fn is_cost(&self) -> bool {
        self.0 == COST_EXCEEDED
    }
}

const COST_EXCEEDED: &str = "operation cancelled: actual cost limit exceeded";

impl Rule {
    pub(crate) fn compile(text: &RuleText, node: &Arc<Node>) -> Result<Self, String> {
        let program = match text.rule.trim() {
            "" => None,
            _ => Some(Code::compile(&text.rule)?),
        };
        let uses_old = program
            .as_ref()
            .is_some_and(|code| code.expression.references().has_variable("oldSelf"));
        let message = match text.message_expression.as_deref() {
            None | Some("") => None,
            Some(expression) => Some(Code::compile(expression)?),
        };
        let field = text.field_path.as_deref().and_then(|path| field_path(path, node));
        let field = field.unwrap_or_default();
        Ok(Self { text: text.clone(), program, message, field, uses_old })
    }

    /// Whether the rule holds for `new`; nothing for an empty rule. Values are read by `node`.
    pub(crate) fn holds(
        &self,
        node: &Node,
        new: &Value,
        old: Option<&Value>,
    ) -> Option<Outcome<bool>> {
        let code = self.program.as_ref()?;
        let outcome = code.run(node, new, old, self.text.optional_old_self);
        let result = outcome.result.map(|value| matches!(value, value::Val::Bool(true)));
        Some(Outcome { result, cost: outcome.cost })
    }

    /// The text of the message expression, if there is one and it gives a usable text.
    pub(crate) fn message(
        &self,
        node: &Node,
        new: &Value,
        old: Option<&Value>,
    ) -> Option<Outcome<Option<String>>> {
        let code = self.message.as_ref()?;
        let outcome = code.run(node, new, old, false);
        let cost = outcome.cost;
        let result = match outcome.result {
            Err(error) if error.is_cost() => Err(error),
            Ok(value::Val::Text(text)) => {
                let text = text.trim();
                let usable =
                    !text.is_empty() && text.len() <= MESSAGE_MAX_BYTES && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            Ok(_) | Err(_) => Ok(None),
        };
        Some(Outcome { result, cost })
    }

    /// The rule's message, or its text: how errors name it.
    pub(crate) fn name(&self) -> &str {
        match self.text.message.as_deref() {
            Some(message) if !message.is_empty() => message.trim(),
            _ => self.text.rule.trim(),
        }
    }

    /// What is said of a value that breaks the rule, unless an expression says it.
    pub(crate) fn detail(&self) -> String {
        match self.text.message.as_deref() {
            Some(message) if !message.is_empty() => message.trim().to_owned(),
            _ => format!("failed rule: {}", self.text.rule.trim()),
        }
    }
}

impl Code {
    fn compile(source: &str) -> Result<Self, String> {
        let expression = Parser::new()
            .enable_optional_syntax(true)
            .parse(source)
            .map_err(|error| format!("CEL expression {source:?} cannot be parsed: {error}"))?;
        let mut patterns = HashMap::new();
        collect_patterns(&expression, &mut patterns);
        Ok(Self { expression, patterns })
    }

    fn run<'a>(
        &'a self,
        node: &'a Node,
        new: &'a Value,
        old: Option<&'a Value>,
        optional_old: bool,
    ) -> Outcome<value::Val<'a>> {
        let mut eval = eval::Eval::new(&self.patterns);
        let result = eval.bind_self(node, new, old, optional_old);
        let result = result.and_then(|()| eval.eval(&self.expression));
        Outcome { result, cost: eval.cost() }
    }
}

/// Compiles the literal patterns of `matches`, `find` and `findAll` once.
fn collect_patterns(expression: &IdedExpr, patterns: &mut HashMap<String, Regex>) {
    use kube_cel::cel::common::ast::{EntryExpr, LiteralValue};
    let mut visit = |child: &IdedExpr| collect_patterns(child, patterns);
    match &expression.expr {
        Expr::Call(call) => {
            call.target.iter().for_each(|target| visit(target));
            call.args.iter().for_each(visit);
            if matches!(call.func_name.as_str(), "matches" | "find" | "findAll") {
                for arg in &call.args {
                    if let Expr::Literal(LiteralValue::String(text)) = &arg.expr {
                        let text = text.inner();
                        if let Ok(regex) = pattern::compile(text) {
                            patterns.insert(text.to_owned(), regex);
                        }
                    }
                }
            }
        }
        Expr::Comprehension(fold) => {
            for child in
                [&fold.iter_range, &fold.accu_init, &fold.loop_cond, &fold.loop_step, &fold.result]
            {
                visit(child);
            }
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    visit(&entry.key);
                    visit(&entry.value);
                }
            }
        }
        Expr::Select(select) => visit(&select.operand),
        Expr::Struct(_) | Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
    }
}

/// The schema by which rules at a resource's root see it: type and name are always there.
pub(crate) fn visible(node: &Arc<Node>, root: bool) -> Arc<Node> {
    let mut seen = (**node).clone();
    for child in seen.properties.values_mut() {
        *child = visible(child, false);
    }
    seen.additional = seen.additional.as_ref().map(|child| visible(child, false));
    seen.items = seen.items.as_ref().map(|child| visible(child, false));
    if (root || seen.embedded_resource) && !names_itself(&seen) {
        let text = || Arc::new(Node { ty: Type::String, ..Node::default() });
        let fields = [("name", text()), ("generateName", text())];
        let properties = fields.into_iter().map(|(name, node)| (name.to_owned(), node)).collect();
        let meta = Node { ty: Type::Object, properties, ..Node::default() };
        seen.properties.insert("apiVersion".into(), text());
        seen.properties.insert("kind".into(), text());
        seen.properties.insert("metadata".into(), Arc::new(meta));
    }
    Arc::new(seen)
}

fn names_itself(node: &Node) -> bool {
    let is = |node: &Node, name: &str, ty: Type| {
        node.properties.get(name).is_some_and(|child| child.ty == ty)
    };
    is(node, "apiVersion", Type::String)
        && is(node, "kind", Type::String)
        && is(node, "metadata", Type::Object)
        && node.properties.get("metadata").is_some_and(|meta| {
            is(meta, "name", Type::String) && is(meta, "generateName", Type::String)
        })
}

/// Whether rules can see values of this schema at all: not where the type is open.
pub(crate) fn is_visible(node: &Node) -> bool {
    match node.ty {
        Type::Any => false,
        Type::Array => node.items.as_deref().is_some_and(is_visible),
        Type::Object => node.additional.as_deref().is_none_or(is_visible),
        _ => true,
    }
}

/// Reads a path as `.a.b['c']` and gives it as messages print it; nothing if the schema has no
/// such field.
fn field_path(text: &str, node: &Arc<Node>) -> Option<String> {
    let (mut path, mut node, mut rest) = (Path::root(), Arc::clone(node), text);
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
        } else {
            let after = rest.strip_prefix("['")?;
            let end = quote_end(after)?;
            name = unescape(&after[..end])?;
            rest = after[end + 1..].strip_prefix(']')?;
        }
        if name.is_empty() {
            return None;
        }
        if !node.properties.is_empty() {
            path = path.child(&name);
            let child = Arc::clone(node.properties.get(&name)?);
            node = child;
        } else {
            path = path.key(&name);
            let child = Arc::clone(node.additional.as_ref()?);
            node = child;
        }
    }
    Some(path.to_string()).filter(|path| path != "<nil>")
}

fn quote_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    (0..bytes.len()).find(|i| bytes[*i] == b'\'' && (*i == 0 || bytes[i - 1] != b'\\'))
}

fn unescape(text: &str) -> Option<String> {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'a' => '\u{07}',
                'b' => '\u{08}',
                'f' => '\u{0c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{0b}',
                c @ ('\'' | '\\') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests;
