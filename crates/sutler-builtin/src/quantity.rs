//! Amounts of resources as they stand in objects: texts, read anew for each question.

use std::cmp::Ordering;

use serde_json::Value;
use sutler_schema::quantity::{Quantity, QuantityError};

/// The one way in which the API writes an amount.
pub(crate) fn canonical(text: &str) -> Result<String, QuantityError> {
    Quantity::parse(text).map(|quantity| quantity.to_string())
}

/// The amount rounded up to thousandths, if that changes it.
pub(crate) fn round_to_milli(text: &str) -> Option<String> {
    let quantity = Quantity::parse(text).ok()?;
    let rounded = Quantity::parse(&format!("{}m", quantity.milli_value()?)).ok()?;
    (rounded != quantity).then(|| rounded.to_string())
}

/// The sum, written as the first is unless that is zero.
pub(crate) fn add(a: &str, b: &str) -> Option<String> {
    let sum = Quantity::parse(a).ok()?.checked_add(&Quantity::parse(b).ok()?)?;
    Some(sum.to_string())
}

/// How two amounts compare; `None` if one of them is none.
pub(crate) fn compare(a: &str, b: &str) -> Option<Ordering> {
    Some(Quantity::parse(a).ok()?.cmp(&Quantity::parse(b).ok()?))
}

/// Whether two values are the same amount.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => compare(a, b) == Some(Ordering::Equal),
        _ => a == b,
    }
}

/// Whether the amount is zero.
pub(crate) fn is_zero(text: &str) -> bool {
    Quantity::parse(text).is_ok_and(|quantity| quantity.is_zero())
}

/// Whether the amount is a whole number, to the thousandth.
pub(crate) fn is_whole(text: &str) -> bool {
    let milli = Quantity::parse(text).ok().and_then(|quantity| quantity.milli_value());
    milli.is_none_or(|milli| milli % 1000 == 0)
}

/// The amount as a whole number, rounded away from zero.
pub(crate) fn whole(text: &str) -> Option<i64> {
    Quantity::parse(text).ok()?.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparing_and_rounding() {
        assert_eq!(canonical("0.5Gi").as_deref(), Ok("512Mi"));
        assert_eq!(compare("1", "1000m"), Some(Ordering::Equal));
        assert_eq!(compare("1Gi", "1G"), Some(Ordering::Greater));
        assert_eq!(round_to_milli("1u").as_deref(), Some("1m"));
        assert_eq!(round_to_milli("5m"), None);
        assert_eq!(round_to_milli("2Gi"), None);
        assert_eq!(add("0", "1Gi").as_deref(), Some("1Gi"));
        assert_eq!(add("500m", "1").as_deref(), Some("1500m"));
        assert!(!is_whole("1500m"));
        assert_eq!(whole("-1"), Some(-1));
    }
}
