//! Operators on values: equality, order, arithmetic, membership.

use std::{cmp::Ordering, sync::Arc};

use chrono::TimeDelta;
use serde_json::Value;

use super::{
    Error,
    value::{List, Map, Val},
};
use crate::node::ListType;

/// Whether two values are equal; numbers of different types are compared as numbers.
pub(super) fn equal(a: &Val<'_>, b: &Val<'_>) -> Result<bool, Error> {
    Ok(match (a, b) {
        (Val::Null, Val::Null) => true,
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Text(a), Val::Text(b)) => a == b,
        (Val::Bytes(a), Val::Bytes(b)) => a == b,
        (Val::Time(a), Val::Time(b)) => a == b,
        (Val::Duration(a), Val::Duration(b)) => a == b,
        (Val::Type(a), Val::Type(b)) => a == b,
        (Val::List(a), Val::List(b)) => lists_equal(a, b)?,
        (Val::Map(a), Val::Map(b)) => maps_equal(a, b)?,
        (Val::Optional(a), Val::Optional(b)) => match (a, b) {
            (Some(a), Some(b)) => equal(a, b)?,
            (None, None) => true,
            _ => false,
        },
        (Val::Quantity(a), Val::Quantity(b)) => a == b,
        (Val::Foreign(a), Val::Foreign(b)) => a == b,
        (Val::Named(a), Val::Named(b)) => a == b,
        (Val::Opaque(a), Val::Opaque(b)) => a == b,
        _ => match numbers(a, b) {
            Some(order) => order == Some(Ordering::Equal),
            None => false,
        },
    })
}

fn lists_equal(a: &List<'_>, b: &List<'_>) -> Result<bool, Error> {
    if a.len() != b.len() {
        return Ok(false);
    }
    match (a, b) {
        (List::Json { items: a, node }, List::Json { items: b, .. })
            if node.list_type != ListType::Atomic =>
        {
            Ok(same_members(a, b, &node.list_type))
        }
        _ if *a.kind() == ListType::Set => all_in(b, a),
        _ => {
            for i in 0..a.len() {
                let (Some(a), Some(b)) = (a.get(i), b.get(i)) else { return Ok(false) };
                if !equal(&a?, &b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

fn all_in(items: &List<'_>, set: &List<'_>) -> Result<bool, Error> {
    for i in 0..items.len() {
        if let Some(item) = items.get(i)
            && !contains(set, &item?)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether two lists of equal length hold the same, whatever the order.
fn same_members(a: &[Value], b: &[Value], kind: &ListType) -> bool {
    if a == b {
        return true;
    }
    let identity = |item: &Value| match kind {
        ListType::Map(keys) => {
            keys.iter().map(|key| item[key].to_string()).collect::<Vec<_>>().join("\0")
        }
        ListType::Set | ListType::Atomic => item.to_string(),
    };
    let members: std::collections::HashMap<String, &Value> =
        a.iter().map(|item| (identity(item), item)).collect();
    b.iter().all(|item| members.get(&identity(item)).is_some_and(|member| *member == item))
}

fn maps_equal(a: &Map<'_>, b: &Map<'_>) -> Result<bool, Error> {
    if let (Map::Json { fields: a, .. }, Map::Json { fields: b, .. }) = (a, b)
        && a == b
    {
        return Ok(true);
    }
    if a.len() != b.len() {
        return Ok(false);
    }
    for key in a.keys() {
        match (a.get(&key)?, b.get(&key)?) {
            (Some(a), Some(b)) if equal(&a, &b)? => {}
            (None, None) => {}
            _ => return Ok(false),
        }
    }
    // Fields that no schema describes count, too.
    if let (Map::Json { fields: a, node }, Map::Json { fields: b, .. }) = (a, b) {
        let hidden = a.iter().filter(|(name, _)| node.field(name).is_none());
        return Ok(hidden
            .filter_map(|(name, value)| Some((value, b.get(name)?)))
            .all(|(a, b)| a == b));
    }
    Ok(true)
}

/// The order of two numbers: nothing if one is none, `Some(None)` if one is not a number (NaN).
fn numbers(a: &Val<'_>, b: &Val<'_>) -> Option<Option<Ordering>> {
    Some(match (a, b) {
        (Val::Int(a), Val::Int(b)) => Some(a.cmp(b)),
        (Val::Uint(a), Val::Uint(b)) => Some(a.cmp(b)),
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(b),
        (Val::Int(a), Val::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Uint(a), Val::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Val::Int(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
        (Val::Double(a), Val::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Val::Uint(a), Val::Double(b)) => (*a as f64).partial_cmp(b),
        (Val::Double(a), Val::Uint(b)) => a.partial_cmp(&(*b as f64)),
        _ => return None,
    })
}

/// The order of two values of one kind.
pub(super) fn compare(a: &Val<'_>, b: &Val<'_>) -> Result<Ordering, Error> {
    Ok(match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        (Val::Text(a), Val::Text(b)) => a.cmp(b),
        (Val::Bytes(a), Val::Bytes(b)) => a.cmp(b),
        (Val::Time(a), Val::Time(b)) => a.cmp(b),
        (Val::Duration(a), Val::Duration(b)) => a.cmp(b),
        _ => match numbers(a, b) {
            Some(Some(order)) => order,
            Some(None) => return Err(Error::new("NaN values cannot be ordered")),
            None => return Err(Error::overload()),
        },
    })
}

/// `item in list`.
pub(super) fn contains(list: &List<'_>, item: &Val<'_>) -> Result<bool, Error> {
    if let (List::Json { items, .. }, Val::Text(text)) = (list, item)
        && items.iter().any(|item| item.as_str() == Some(text))
    {
        return Ok(true);
    }
    for i in 0..list.len() {
        if let Some(member) = list.get(i)
            && equal(&member?, item)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `a + b`.
pub(super) fn add<'a>(a: Val<'a>, b: Val<'a>) -> Result<Val<'a>, Error> {
    Ok(match (a, b) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_add(b).ok_or_else(int_overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_add(b).ok_or_else(uint_overflow)?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
        (Val::Text(a), Val::Text(b)) => {
            let mut text = a.into_owned();
            text.push_str(&b);
            Val::text(text)
        }
        (Val::Bytes(a), Val::Bytes(b)) => Val::Bytes(Arc::new([a.as_slice(), &b].concat())),
        (Val::List(a), Val::List(b)) => add_lists(&a, &b)?,
        (Val::Time(a), Val::Duration(b)) | (Val::Duration(b), Val::Time(a)) => {
            Val::Time(a.checked_add_signed(b).ok_or_else(time_overflow)?)
        }
        (Val::Duration(a), Val::Duration(b)) => {
            Val::Duration(a.checked_add(&b).ok_or_else(duration_overflow)?)
        }
        _ => return Err(Error::overload()),
    })
}

/// Sets are united and list maps merged, other lists joined.
fn add_lists<'a>(a: &List<'a>, b: &List<'a>) -> Result<Val<'a>, Error> {
    let mut items = a.to_vec()?;
    match a.kind() {
        ListType::Atomic => items.append(&mut b.to_vec()?),
        ListType::Set => {
            for item in b.to_vec()? {
                let mut known = false;
                for member in &items {
                    known = known || equal(member, &item)?;
                }
                if !known {
                    items.push(item);
                }
            }
        }
        ListType::Map(keys) => {
            for item in b.to_vec()? {
                let mut place = None;
                for (i, known) in items.iter().enumerate() {
                    if same_keys(known, &item, keys)? {
                        place = Some(i);
                    }
                }
                match place {
                    Some(i) => items[i] = item,
                    None => items.push(item),
                }
            }
        }
    }
    Ok(Val::list(items))
}

fn same_keys(a: &Val<'_>, b: &Val<'_>, keys: &[String]) -> Result<bool, Error> {
    let (Val::Map(a), Val::Map(b)) = (a, b) else { return Ok(false) };
    for key in keys {
        match (a.field(key)?, b.field(key)?) {
            (Some(a), Some(b)) if equal(&a, &b)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// `a - b`.
pub(super) fn subtract<'a>(a: &Val<'a>, b: &Val<'a>) -> Result<Val<'a>, Error> {
    Ok(match (a, b) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_sub(*b).ok_or_else(int_overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_sub(*b).ok_or_else(uint_overflow)?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a - b),
        (Val::Time(a), Val::Time(b)) => Val::Duration(*a - *b),
        (Val::Time(a), Val::Duration(b)) => {
            Val::Time(a.checked_sub_signed(*b).ok_or_else(time_overflow)?)
        }
        (Val::Duration(a), Val::Duration(b)) => {
            Val::Duration(a.checked_sub(b).ok_or_else(duration_overflow)?)
        }
        _ => return Err(Error::overload()),
    })
}

/// `a * b`.
pub(super) fn multiply<'a>(a: &Val<'a>, b: &Val<'a>) -> Result<Val<'a>, Error> {
    Ok(match (a, b) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_mul(*b).ok_or_else(int_overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_mul(*b).ok_or_else(uint_overflow)?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a * b),
        _ => return Err(Error::overload()),
    })
}

/// `a / b`.
pub(super) fn divide<'a>(a: &Val<'a>, b: &Val<'a>) -> Result<Val<'a>, Error> {
    Ok(match (a, b) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => {
            return Err(Error::new("division by zero"));
        }
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_div(*b).ok_or_else(int_overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a / b),
        (Val::Double(a), Val::Double(b)) => Val::Double(a / b),
        _ => return Err(Error::overload()),
    })
}

/// `a % b`.
pub(super) fn modulo<'a>(a: &Val<'a>, b: &Val<'a>) -> Result<Val<'a>, Error> {
    Ok(match (a, b) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => {
            return Err(Error::new("modulus by zero"));
        }
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_rem(*b).ok_or_else(int_overflow)?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a % b),
        _ => return Err(Error::overload()),
    })
}

/// `-a`.
pub(super) fn negate<'a>(a: &Val<'a>) -> Result<Val<'a>, Error> {
    Ok(match a {
        Val::Int(a) => Val::Int(a.checked_neg().ok_or_else(int_overflow)?),
        Val::Double(a) => Val::Double(-a),
        Val::Duration(a) => {
            Val::Duration(TimeDelta::zero().checked_sub(a).ok_or_else(duration_overflow)?)
        }
        _ => return Err(Error::overload()),
    })
}

fn int_overflow() -> Error {
    Error::new("integer overflow")
}

fn uint_overflow() -> Error {
    Error::new("unsigned integer overflow")
}

fn duration_overflow() -> Error {
    Error::new("duration overflow")
}

fn time_overflow() -> Error {
    Error::new("timestamp overflow")
}
