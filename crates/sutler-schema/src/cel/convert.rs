//! Conversions between types.

use std::{borrow::Cow, sync::Arc};

use chrono::{SecondsFormat, TimeDelta, Utc};

use super::{Error, eval::Evaluated, value::Val};
use crate::{
    text::go_float,
    time::{parse_go_duration, parse_rfc3339},
};

pub(super) fn int<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let overflow = || Error::new("integer overflow");
    Ok(Val::Int(match value {
        Val::Int(value) => *value,
        Val::Uint(value) => i64::try_from(*value).map_err(|_| overflow())?,
        Val::Double(value) => {
            let limit = 9_223_372_036_854_775_808.0;
            if !(value.is_finite() && *value > -limit && *value < limit) {
                return Err(overflow());
            }
            *value as i64
        }
        Val::Text(text) => text.parse().map_err(|_| failed(value, "int"))?,
        Val::Time(time) => time.timestamp(),
        Val::Duration(duration) => duration.num_nanoseconds().ok_or_else(overflow)?,
        _ => return Err(failed(value, "int")),
    }))
}

pub(super) fn uint<'a>(value: &Val<'a>) -> Evaluated<'a> {
    let overflow = || Error::new("unsigned integer overflow");
    Ok(Val::Uint(match value {
        Val::Uint(value) => *value,
        Val::Int(value) => u64::try_from(*value).map_err(|_| overflow())?,
        Val::Double(value) => {
            if !(value.is_finite() && *value >= 0.0 && *value < 18_446_744_073_709_551_616.0) {
                return Err(overflow());
            }
            *value as u64
        }
        Val::Text(text) => text.parse().map_err(|_| failed(value, "uint"))?,
        _ => return Err(failed(value, "uint")),
    }))
}

pub(super) fn double<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(Val::Double(match value {
        Val::Double(value) => *value,
        Val::Int(value) => *value as f64,
        Val::Uint(value) => *value as f64,
        Val::Text(text) => text.parse().map_err(|_| failed(value, "double"))?,
        _ => return Err(failed(value, "double")),
    }))
}

pub(super) fn bool<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(Val::Bool(match value {
        Val::Bool(value) => *value,
        Val::Text(text) => match &**text {
            "1" | "t" | "true" | "TRUE" | "True" | "T" => true,
            "0" | "f" | "false" | "FALSE" | "False" | "F" => false,
            _ => return Err(failed(value, "bool")),
        },
        _ => return Err(failed(value, "bool")),
    }))
}

pub(super) fn bytes<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(Val::Bytes(match value {
        Val::Bytes(bytes) => Arc::clone(bytes),
        Val::Text(text) => Arc::new(text.as_bytes().to_vec()),
        _ => return Err(failed(value, "bytes")),
    }))
}

pub(super) fn string<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(Val::Text(match value {
        Val::Text(text) => text.clone(),
        Val::Bool(value) => Cow::Borrowed(if *value { "true" } else { "false" }),
        Val::Int(value) => Cow::Owned(value.to_string()),
        Val::Uint(value) => Cow::Owned(value.to_string()),
        Val::Double(value) => Cow::Owned(go_float(*value)),
        Val::Bytes(bytes) => match String::from_utf8(bytes.to_vec()) {
            Ok(text) => Cow::Owned(text),
            Err(_) => {
                return Err(Error::new("invalid UTF-8 in bytes, cannot convert to string"));
            }
        },
        Val::Time(time) => {
            Cow::Owned(time.with_timezone(&Utc).to_rfc3339_opts(SecondsFormat::AutoSi, true))
        }
        Val::Duration(duration) => Cow::Owned(seconds(duration)),
        _ => return Err(failed(value, "string")),
    }))
}

pub(super) fn timestamp<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(Val::Time(match value {
        Val::Time(time) => *time,
        Val::Int(seconds) => chrono::DateTime::from_timestamp(*seconds, 0)
            .ok_or_else(|| Error::new("timestamp overflow"))?
            .fixed_offset(),
        Val::Text(text) => {
            parse_rfc3339(text).map_err(|_| failed(value, "google.protobuf.Timestamp"))?
        }
        _ => return Err(failed(value, "google.protobuf.Timestamp")),
    }))
}

pub(super) fn duration<'a>(value: &Val<'a>) -> Evaluated<'a> {
    Ok(Val::Duration(match value {
        Val::Duration(duration) => *duration,
        Val::Int(nanos) => TimeDelta::nanoseconds(*nanos),
        Val::Text(text) => {
            parse_go_duration(text).ok_or_else(|| failed(value, "google.protobuf.Duration"))?
        }
        _ => return Err(failed(value, "google.protobuf.Duration")),
    }))
}

/// Seconds with as many decimals as it takes: `1.5s`.
fn seconds(duration: &TimeDelta) -> String {
    let nanos = duration.num_nanoseconds().unwrap_or_default();
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let fraction = format!("{:09}", nanos % 1_000_000_000);
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{}s", nanos / 1_000_000_000),
        fraction => format!("{sign}{}.{fraction}s", nanos / 1_000_000_000),
    }
}

fn failed(value: &Val<'_>, wanted: &str) -> Error {
    Error::new(format!("type conversion error from '{}' to '{wanted}'", value.type_name()))
}
