//! Functions of the language itself; the rest is in the function library.

use std::{borrow::Cow, sync::Arc};

use chrono::{Datelike as _, FixedOffset, Timelike as _};
use kube_cel::cel::{
    IdedExpr,
    common::ast::{CallExpr, Expr},
};

use super::{
    Error, convert,
    eval::{Eval, Evaluated, iterate, tenth},
    format, library, named, ops, strings,
    value::{Map, Val},
};
use crate::{quantity::Quantity, validate::pattern};

/// Calls a function or method.
pub(super) fn call<'a>(eval: &mut Eval<'a>, call: &'a CallExpr) -> Evaluated<'a> {
    if let Some(outcome) = macro_call(eval, call) {
        return outcome;
    }
    let name = call.func_name.as_str();
    let namespace = call.target.as_deref().and_then(|target| match &target.expr {
        Expr::Ident(name) if !eval.is_bound(name) => Some(name.as_str()),
        _ => None,
    });
    let target = match (&call.target, namespace) {
        (Some(target), None) => Some(eval.eval(target)?),
        _ => None,
    };
    let mut args = Vec::with_capacity(call.args.len());
    for arg in &call.args {
        args.push(eval.eval(arg)?);
    }
    match (namespace, args.as_slice()) {
        (Some("optional"), _) => {
            eval.charge(1)?;
            return optional(name, args);
        }
        (Some("format"), [Val::Text(text)]) if name == "named" => {
            eval.charge(1)?;
            return Ok(optional_of(named::find(text).map(Val::Named)));
        }
        (Some("format"), []) => {
            eval.charge(1)?;
            return named::find(name).map(Val::Named).ok_or_else(Error::overload);
        }
        (Some("strings"), [Val::Text(text)]) if name == "quote" => {
            eval.charge(tenth(text.len() as u64))?;
            return Ok(strings::quote(text));
        }
        _ => {}
    }
    if namespace.is_none()
        && let Some(outcome) = core_call(eval, name, target.as_ref(), &args)
    {
        return outcome;
    }
    let sizes = || target.iter().chain(&args).map(Val::cost_size);
    // These compare every item with every other.
    let cost = match (namespace, name) {
        (Some("sets"), _) => sizes().fold(1, u64::saturating_mul),
        (None, "distinct") => sizes().fold(1, |cost, size| cost + size.saturating_mul(size) / 2),
        _ => 1 + tenth(sizes().sum()),
    };
    eval.charge(cost)?;
    library::call(name, namespace, target, args)
}

fn optional<'a>(name: &str, mut args: Vec<Val<'a>>) -> Evaluated<'a> {
    match (name, args.len()) {
        ("none", 0) => Ok(Val::Optional(None)),
        ("of", 1) => Ok(Val::some(args.remove(0))),
        ("ofNonZeroValue", 1) => {
            let value = args.remove(0);
            Ok(if is_zero(&value) { Val::Optional(None) } else { Val::some(value) })
        }
        _ => Err(Error::overload()),
    }
}

fn is_zero(value: &Val<'_>) -> bool {
    match value {
        Val::Null | Val::Optional(None) => true,
        Val::Bool(value) => !value,
        Val::Int(value) => *value == 0,
        Val::Uint(value) => *value == 0,
        Val::Double(value) => *value == 0.0,
        Val::Text(value) => value.is_empty(),
        Val::Bytes(value) => value.is_empty(),
        Val::List(value) => value.len() == 0,
        Val::Map(value) => value.len() == 0,
        Val::Duration(value) => value.is_zero(),
        Val::Time(_)
        | Val::Type(_)
        | Val::Optional(Some(_))
        | Val::Quantity(_)
        | Val::Foreign(_)
        | Val::Named(_)
        | Val::Opaque(_) => false,
    }
}

/// Calls whose arguments are names and expressions, not values.
fn macro_call<'a>(eval: &mut Eval<'a>, call: &'a CallExpr) -> Option<Evaluated<'a>> {
    let target = call.target.as_deref()?;
    let args = call.args.as_slice();
    let ident = |i: usize| match &args.get(i)?.expr {
        Expr::Ident(name) => Some(name.as_str()),
        _ => None,
    };
    match (call.func_name.as_str(), args.len()) {
        ("optMap" | "optFlatMap", 2) => {
            let name = ident(0)?;
            Some(optional_map(eval, target, name, &args[1], call.func_name == "optFlatMap"))
        }
        ("all" | "exists" | "existsOne" | "exists_one", 3) => {
            let names = [ident(0)?, ident(1)?];
            Some(quantified(eval, &call.func_name, target, names, &args[2]))
        }
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            let names = [ident(0)?, ident(1)?];
            Some(transformed(eval, &call.func_name, target, names, &args[2..]))
        }
        _ => None,
    }
}

fn optional_map<'a>(
    eval: &mut Eval<'a>,
    target: &'a IdedExpr,
    name: &'a str,
    body: &'a IdedExpr,
    flat: bool,
) -> Evaluated<'a> {
    match eval.eval(target)? {
        Val::Optional(None) => Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => {
            let value = eval.with([(name, (*inner).clone())], body)?;
            Ok(if flat { value } else { Val::some(value) })
        }
        _ => Err(Error::overload()),
    }
}

/// `all`, `exists` and `existsOne` with two variables.
fn quantified<'a>(
    eval: &mut Eval<'a>,
    name: &str,
    target: &'a IdedExpr,
    [first, second]: [&'a str; 2],
    body: &'a IdedExpr,
) -> Evaluated<'a> {
    let range = eval.eval(target)?;
    let (mut found, mut failure) = (0, None);
    let decisive = name == "exists";
    for (a, b) in iterate(&range, true)? {
        let holds = eval.with([(first, a), (second, b.unwrap_or(Val::Null))], body);
        match (holds, name) {
            (Err(error), _) if error.is_cost() => return Err(error),
            (Ok(Val::Bool(true)), "existsOne" | "exists_one") => found += 1,
            (Ok(Val::Bool(value)), "all" | "exists") if value == decisive => {
                return Ok(Val::Bool(value));
            }
            (Ok(Val::Bool(_)), _) => {}
            (Ok(_), _) => failure = failure.or(Some(Error::overload())),
            (Err(error), _) => failure = failure.or(Some(error)),
        }
    }
    match (failure, name) {
        (Some(error), _) => Err(error),
        (None, "all") => Ok(Val::Bool(true)),
        (None, "exists") => Ok(Val::Bool(false)),
        (None, _) => Ok(Val::Bool(found == 1)),
    }
}

/// `transformList`, `transformMap` and `transformMapEntry`, with an optional filter.
fn transformed<'a>(
    eval: &mut Eval<'a>,
    name: &str,
    target: &'a IdedExpr,
    [first, second]: [&'a str; 2],
    bodies: &'a [IdedExpr],
) -> Evaluated<'a> {
    let range = eval.eval(target)?;
    let (mut list, mut entries) = (Vec::new(), Vec::new());
    for (a, b) in iterate(&range, true)? {
        let bound = [(first, a.clone()), (second, b.unwrap_or(Val::Null))];
        if let [filter, _] = bodies {
            match eval.with(bound.clone(), filter)? {
                Val::Bool(true) => {}
                Val::Bool(false) => continue,
                _ => return Err(Error::overload()),
            }
        }
        let Some(body) = bodies.last() else { return Err(Error::overload()) };
        let value = eval.with(bound, body)?;
        eval.charge(1)?;
        match (name, value) {
            ("transformList", value) => list.push(value),
            ("transformMap", value) => entries.push((a, value)),
            (_, Val::Map(map)) => {
                for key in map.keys() {
                    let value = map.get(&key)?.unwrap_or(Val::Null);
                    for (known, _) in &entries {
                        if ops::equal(known, &key)? {
                            let key = display(&key);
                            return Err(Error::new(format!(
                                "insert failed: key {key} already exists"
                            )));
                        }
                    }
                    entries.push((key, value));
                }
            }
            _ => return Err(Error::overload()),
        }
    }
    Ok(match name {
        "transformList" => Val::list(list),
        _ => Val::Map(Map::Made(Arc::new(entries))),
    })
}

/// The functions that need no library; nothing if the name or the arguments are not theirs.
fn core_call<'a>(
    eval: &mut Eval<'a>,
    name: &str,
    target: Option<&Val<'a>>,
    args: &[Val<'a>],
) -> Option<Evaluated<'a>> {
    // A method and a function of one more argument are the same to us.
    let mut all: Vec<&Val<'a>> = target.into_iter().chain(args).collect();
    let paid = match (name, all.as_slice()) {
        ("contains", [Val::Text(a), Val::Text(b)]) => tenth(a.len() as u64) * tenth(b.len() as u64),
        ("matches", [Val::Text(a), Val::Text(b)]) => {
            tenth(1 + a.len() as u64) * (b.len() as u64).div_ceil(4)
        }
        ("startsWith" | "endsWith", [_, Val::Text(b)]) => tenth(b.len() as u64),
        _ => 1,
    };
    let outcome = match (name, all.as_slice()) {
        ("size", [value]) => size(value),
        ("contains", [Val::Text(a), Val::Text(b)]) => Ok(Val::Bool(a.contains(&**b))),
        ("startsWith", [Val::Text(a), Val::Text(b)]) => Ok(Val::Bool(a.starts_with(&**b))),
        ("endsWith", [Val::Text(a), Val::Text(b)]) => Ok(Val::Bool(a.ends_with(&**b))),
        ("matches", [Val::Text(a), Val::Text(b)]) => matches(eval, a, b),
        ("find", [Val::Text(a), Val::Text(b)]) => find(eval, a, b),
        ("findAll", [Val::Text(a), Val::Text(b)]) => find_all(eval, a, b, -1),
        ("findAll", [Val::Text(a), Val::Text(b), Val::Int(limit)]) => find_all(eval, a, b, *limit),
        ("type", [value]) => Ok(Val::Type(value.type_name())),
        ("dyn", [value]) => Ok((*value).clone()),
        ("int", [value]) if target.is_none() => convert::int(value),
        ("uint", [value]) if target.is_none() => convert::uint(value),
        ("double", [value]) if target.is_none() => convert::double(value),
        ("bool", [value]) if target.is_none() => convert::bool(value),
        ("bytes", [value]) if target.is_none() => convert::bytes(value),
        ("string", [value]) if !matches!(value, Val::Foreign(_)) => convert::string(value),
        ("timestamp", [value]) if target.is_none() => convert::timestamp(value),
        ("duration", [value]) if target.is_none() => convert::duration(value),
        ("hasValue", [Val::Optional(value)]) => Ok(Val::Bool(value.is_some())),
        ("value", [Val::Optional(value)]) => match value {
            Some(value) => Ok((**value).clone()),
            None => Err(Error::new("optional.none() dereference")),
        },
        ("orValue", [Val::Optional(value), other]) => Ok(match value {
            Some(value) => (**value).clone(),
            None => (*other).clone(),
        }),
        ("or", [Val::Optional(value), other]) => Ok(match value {
            Some(_) => (*all.remove(0)).clone(),
            None => (*other).clone(),
        }),
        ("first", [Val::List(list)]) => list.get(0).transpose().map(optional_of),
        ("last", [Val::List(list)]) => {
            list.len().checked_sub(1).and_then(|i| list.get(i)).transpose().map(optional_of)
        }
        (_, [Val::Time(_) | Val::Duration(_), ..]) if name.starts_with("get") => {
            time_part(name, &all)
        }
        ("format", [Val::Text(template), Val::List(args)]) => format::format(template, args),
        ("validate", [Val::Named(format), Val::Text(text)]) => {
            let messages = named::validate(format, text);
            let list = Val::list(messages.into_iter().map(Val::text).collect());
            Ok(if is_zero(&list) { Val::Optional(None) } else { Val::some(list) })
        }
        ("isQuantity", [Val::Text(text)]) => Ok(Val::Bool(Quantity::parse(text).is_ok())),
        ("quantity", [Val::Text(text)]) => match Quantity::parse(text) {
            Ok(quantity) => Ok(Val::Quantity(Arc::new(quantity))),
            Err(error) => Err(Error::new(error.to_string())),
        },
        (_, [Val::Quantity(quantity), rest @ ..]) => quantity_call(name, quantity, rest),
        _ => match strings::call(name, &all) {
            Some(outcome) => {
                let size: u64 = all.iter().map(|value| value.cost_size()).sum();
                return Some(eval.charge(1 + tenth(size)).and(outcome));
            }
            None => return None,
        },
    };
    Some(eval.charge(paid).and(outcome))
}

/// Methods of quantities.
fn quantity_call<'a>(name: &str, quantity: &Quantity, args: &[&Val<'a>]) -> Evaluated<'a> {
    let number = |int: i64| Quantity::from_i64(int);
    let other = match args {
        [] => None,
        [Val::Quantity(other)] => Some(Quantity::clone(other)),
        [Val::Int(int)] => Some(number(*int)),
        _ => return Err(Error::overload()),
    };
    let made = |quantity: Option<Quantity>| match quantity {
        Some(quantity) => Ok(Val::Quantity(Arc::new(quantity))),
        None => Err(Error::new("quantity overflow")),
    };
    match (name, other) {
        ("isInteger", None) => Ok(Val::Bool(quantity.as_integer().is_some())),
        ("asInteger", None) => match quantity.as_integer() {
            Some(int) => Ok(Val::Int(int)),
            None => Err(Error::new("cannot convert value to integer")),
        },
        ("asApproximateFloat", None) => Ok(Val::Double(quantity.as_f64())),
        ("sign", None) => Ok(Val::Int(quantity.signum().into())),
        ("add", Some(other)) => made(quantity.checked_add(&other)),
        ("sub", Some(other)) => made(quantity.checked_sub(&other)),
        ("compareTo", Some(other)) => Ok(Val::Int(quantity.cmp(&other) as i64)),
        ("isGreaterThan", Some(other)) => Ok(Val::Bool(*quantity > other)),
        ("isLessThan", Some(other)) => Ok(Val::Bool(*quantity < other)),
        _ => Err(Error::overload()),
    }
}

fn optional_of(value: Option<Val<'_>>) -> Val<'_> {
    Val::Optional(value.map(Arc::new))
}

fn size<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let size = match value {
        Val::Text(text) => text.chars().count(),
        Val::Bytes(bytes) => bytes.len(),
        Val::List(list) => list.len(),
        Val::Map(map) => map.len(),
        _ => return Err(Error::overload()),
    };
    Ok(Val::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// The compiled pattern: most are literals of the rule and ready.
fn regex<'a>(eval: &Eval<'a>, text: &str) -> Result<Cow<'a, regex::Regex>, Error> {
    if let Some(regex) = eval.pattern(text) {
        return Ok(Cow::Borrowed(regex));
    }
    let regex = pattern::compile(text);
    regex.map(Cow::Owned).map_err(|error| Error::new(format!("error parsing regexp: {error}")))
}

fn matches<'a>(eval: &Eval<'a>, text: &str, pattern: &str) -> Evaluated<'a> {
    Ok(Val::Bool(regex(eval, pattern)?.is_match(text)))
}

fn find<'a>(eval: &Eval<'a>, text: &str, pattern: &str) -> Evaluated<'a> {
    let regex = regex(eval, pattern)?;
    let found = regex.find(text).map(|found| found.as_str().to_owned());
    Ok(Val::text(found.unwrap_or_default()))
}

fn find_all<'a>(eval: &Eval<'a>, text: &str, pattern: &str, limit: i64) -> Evaluated<'a> {
    let regex = regex(eval, pattern)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = regex.find_iter(text).take(limit);
    Ok(Val::list(found.map(|found| Val::text(found.as_str().to_owned())).collect()))
}

fn time_part<'a>(name: &str, all: &[&Val<'a>]) -> Evaluated<'a> {
    let number = match all {
        [Val::Duration(duration)] => match name {
            "getHours" => duration.num_hours(),
            "getMinutes" => duration.num_minutes(),
            "getSeconds" => duration.num_seconds(),
            "getMilliseconds" => duration.num_milliseconds(),
            _ => return Err(Error::overload()),
        },
        [Val::Time(time)] => part(name, &time.to_utc().fixed_offset())?,
        [Val::Time(time), Val::Text(zone)] => part(name, &time.with_timezone(&offset(zone)?))?,
        _ => return Err(Error::overload()),
    };
    Ok(Val::Int(number))
}

fn part(name: &str, time: &chrono::DateTime<FixedOffset>) -> Result<i64, Error> {
    Ok(match name {
        "getFullYear" => i64::from(time.year()),
        "getMonth" => i64::from(time.month0()),
        "getDate" => i64::from(time.day()),
        "getDayOfMonth" => i64::from(time.day0()),
        "getDayOfWeek" => i64::from(time.weekday().num_days_from_sunday()),
        "getDayOfYear" => i64::from(time.ordinal0()),
        "getHours" => i64::from(time.hour()),
        "getMinutes" => i64::from(time.minute()),
        "getSeconds" => i64::from(time.second()),
        "getMilliseconds" => i64::from(time.nanosecond() / 1_000_000 % 1000),
        _ => return Err(Error::overload()),
    })
}

/// A zone as `UTC` or `-07:30`; names of places need a database that we do not carry.
fn offset(zone: &str) -> Result<FixedOffset, Error> {
    if matches!(zone, "UTC" | "utc" | "") {
        return Ok(FixedOffset::east_opt(0).expect("zero is an offset"));
    }
    let signed = zone.strip_prefix('-').map(|rest| (-1, rest));
    let (sign, rest) = signed.unwrap_or((1, zone.strip_prefix('+').unwrap_or(zone)));
    let parts = rest.split_once(':').and_then(|(hours, minutes)| {
        Some((hours.parse::<i32>().ok()?, minutes.parse::<i32>().ok()?))
    });
    parts
        .and_then(|(hours, minutes)| FixedOffset::east_opt(sign * (hours * 60 + minutes) * 60))
        .ok_or_else(|| Error::new(format!("unknown time zone {zone}")))
}

/// A value as error messages print it.
pub(super) fn display(value: &Val<'_>) -> String {
    match value {
        Val::Text(text) => text.to_string(),
        other => match convert::string(other) {
            Ok(Val::Text(text)) => text.into_owned(),
            _ => other.type_name().to_owned(),
        },
    }
}
