//! Quantities as whole units or thousandths, rounded up as the scheduler does.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sutler_api::quantity::scale;

/// Whole units: bytes, pods, devices.
pub(crate) fn units(quantity: &Quantity) -> Option<i64> {
    read(&quantity.0, 0)
}

/// Thousandths: of a CPU.
pub(crate) fn thousandths(quantity: &Quantity) -> Option<i64> {
    read(&quantity.0, 3)
}

/// The number of units of 10^-`places`. Numbers too large for 64 bits become the largest, as in
/// Kubernetes; what cannot be read or is below zero is `None`.
fn read(text: &str, places: i64) -> Option<i64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    // Kubernetes reads no exponent that takes more than 32 bits.
    let (factor, exponent) = scale(suffix).filter(|(_, power)| i32::try_from(*power).is_ok())?;
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some(0);
    }
    if negative {
        return None;
    }
    if digits.len() > 28 {
        return Some(i64::MAX);
    }
    let value = digits.parse::<u128>().ok()?.checked_mul(factor)?;
    let exponent = exponent + places - i64::try_from(fraction.len()).ok()?;
    let power = u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX);
    let value = if exponent >= 0 {
        10u128.checked_pow(power).and_then(|p| value.checked_mul(p)).unwrap_or(u128::MAX)
    } else {
        // Anything that small is rounded up to one.
        10u128.checked_pow(power).map_or(1, |p| value.div_ceil(p))
    };
    Some(i64::try_from(value).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_the_scheduler_does() {
        for (text, whole, milli) in [
            ("0", 0, 0),
            ("1", 1, 1000),
            ("100m", 1, 100),
            ("0.1", 1, 100),
            ("1.0005", 2, 1001),
            ("2Gi", 2 << 30, 2000 << 30),
            ("1e3", 1000, 1_000_000),
            ("1n", 1, 1),
            ("99E", i64::MAX, i64::MAX),
            ("99999999999999999999999999999999", i64::MAX, i64::MAX),
        ] {
            let quantity = Quantity(text.to_owned());
            assert_eq!(units(&quantity), Some(whole), "{text}");
            assert_eq!(thousandths(&quantity), Some(milli), "{text}");
        }
        for text in ["", "x", "1.2.3", "-1", "1 Gi", "1GiB", "e3"] {
            assert_eq!(units(&Quantity(text.to_owned())), None, "{text}");
        }
    }
}
