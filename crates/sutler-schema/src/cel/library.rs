//! The Kubernetes function library: strings, lists, sets, quantities, addresses, URLs, versions.
//! It works on values of its own, so arguments are converted on the way in and out.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use kube_cel::{
    KubeCelExt as _,
    cel::{
        self, Context, ExecutionError, IdedExpr,
        common::ast::{CallExpr, Expr},
        objects::{Key, OptionalValue},
    },
};

use super::{
    Error,
    eval::Evaluated,
    parse_errors,
    value::{Map, Val},
};

thread_local! {
    /// Registering the functions is the costly part; a call only adds its arguments.
    static FUNCTIONS: Context<'static> = Context::default().with_all();
}

/// Names under which arguments are handed over.
const ARGUMENTS: [&str; 6] = ["@a", "@b", "@c", "@d", "@e", "@f"];

/// Calls a library function, `namespace` being as in `sets.contains`.
pub(super) fn call<'a>(
    name: &str,
    namespace: Option<&str>,
    target: Option<Val<'a>>,
    args: Vec<Val<'a>>,
) -> Evaluated<'a> {
    if args.len() >= ARGUMENTS.len() {
        return Err(Error::overload());
    }
    if let Some(error) = refused(name, &args) {
        return Err(error);
    }
    FUNCTIONS.with(|functions| {
        let mut scope = functions.new_inner_scope();
        let mut names = ARGUMENTS.into_iter();
        let mut bind = |value: Val<'a>| -> Result<IdedExpr, Error> {
            let name = names.next().ok_or_else(Error::overload)?;
            scope.add_variable_from_value(name, to_library(value)?);
            Ok(ident(name))
        };
        let target = match (namespace, target) {
            (Some(namespace), _) => Some(ident(namespace)),
            (None, Some(target)) => Some(bind(target)?),
            (None, None) => None,
        };
        let args = args.into_iter().map(&mut bind).collect::<Result<Vec<_>, _>>()?;
        let call = CallExpr { func_name: name.to_owned(), target: target.map(Box::new), args };
        let call = IdedExpr { id: 0, expr: Expr::Call(call) };
        scope.resolve(&call).map(from_library).map_err(|error| translate(&error))
    })
}

/// Why a text that is about to be read as a value of the library is none. The library would
/// refuse it as well, but in words of its own.
fn refused(name: &str, args: &[Val<'_>]) -> Option<Error> {
    let [Val::Text(text)] = args else { return None };
    let message = match name {
        "ip" | "isCanonical" => parse_errors::ip(text),
        "cidr" | "containsCIDR" => parse_errors::cidr(text),
        "containsIP" => return parse_errors::ip(text).map(|_| Error::overload()),
        "url" => parse_errors::url(text)
            .map(|message| format!("URL parse error during conversion from string: {message}")),
        "semver" => parse_errors::semver(text),
        _ => None,
    };
    message.map(Error::new)
}

fn ident(name: &str) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) }
}

fn translate(error: &ExecutionError) -> Error {
    match error {
        ExecutionError::FunctionError { message, .. } => Error::new(message.clone()),
        ExecutionError::NoSuchKey(key) => Error::new(format!("no such key: {key}")),
        _ => Error::overload(),
    }
}

fn to_library(value: Val<'_>) -> Result<cel::Value, Error> {
    Ok(match value {
        Val::Null => cel::Value::Null,
        Val::Bool(value) => cel::Value::Bool(value),
        Val::Int(value) => cel::Value::Int(value),
        Val::Uint(value) => cel::Value::UInt(value),
        Val::Double(value) => cel::Value::Float(value),
        Val::Text(text) => cel::Value::String(Arc::new(text.into_owned())),
        Val::Bytes(bytes) => cel::Value::Bytes(bytes),
        Val::Time(time) => cel::Value::Timestamp(time),
        Val::Duration(duration) => cel::Value::Duration(duration),
        Val::List(list) => {
            let items = list.to_vec()?.into_iter().map(to_library);
            cel::Value::List(Arc::new(items.collect::<Result<_, _>>()?))
        }
        Val::Map(map) => {
            let mut entries = HashMap::with_capacity(map.len());
            for key in map.keys() {
                if let Some(value) = map.get(&key)? {
                    entries.insert(to_key(key)?, to_library(value)?);
                }
            }
            cel::Value::Map(cel::objects::Map { map: Arc::new(entries) })
        }
        Val::Foreign(value) => value,
        Val::Type(_) | Val::Optional(_) | Val::Quantity(_) | Val::Named(_) | Val::Opaque(_) => {
            return Err(Error::overload());
        }
    })
}

fn to_key(value: Val<'_>) -> Result<Key, Error> {
    Ok(match value {
        Val::Text(text) => Key::String(Arc::new(text.into_owned())),
        Val::Int(value) => Key::Int(value),
        Val::Uint(value) => Key::Uint(value),
        Val::Bool(value) => Key::Bool(value),
        _ => return Err(Error::overload()),
    })
}

fn from_library<'a>(value: cel::Value) -> Val<'a> {
    match value {
        cel::Value::Null => Val::Null,
        cel::Value::Bool(value) => Val::Bool(value),
        cel::Value::Int(value) => Val::Int(value),
        cel::Value::UInt(value) => Val::Uint(value),
        cel::Value::Float(value) => Val::Double(value),
        cel::Value::String(text) => Val::Text(Cow::Owned(Arc::unwrap_or_clone(text))),
        cel::Value::Bytes(bytes) => Val::Bytes(bytes),
        cel::Value::Timestamp(time) => Val::Time(time),
        cel::Value::Duration(duration) => Val::Duration(duration),
        cel::Value::List(items) => {
            let items = Arc::unwrap_or_clone(items).into_iter().map(from_library);
            Val::list(items.collect())
        }
        cel::Value::Map(map) => {
            let mut entries: Vec<(Key, cel::Value)> =
                Arc::unwrap_or_clone(map.map).into_iter().collect();
            entries.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
            let entries =
                entries.into_iter().map(|(key, value)| (from_key(key), from_library(value)));
            Val::Map(Map::Made(Arc::new(entries.collect())))
        }
        cel::Value::Opaque(opaque) => match opaque.downcast_ref::<OptionalValue>() {
            Some(optional) => {
                Val::Optional(optional.value().map(|value| Arc::new(from_library(value.clone()))))
            }
            None => Val::Foreign(cel::Value::Opaque(opaque)),
        },
        value @ cel::Value::Function(..) => Val::Foreign(value),
    }
}

fn from_key<'a>(key: Key) -> Val<'a> {
    match key {
        Key::Int(value) => Val::Int(value),
        Key::Uint(value) => Val::Uint(value),
        Key::Bool(value) => Val::Bool(value),
        Key::String(text) => Val::Text(Cow::Owned(text.to_string())),
    }
}
