//! Amounts of resources: `100m`, `1.5Gi`, `1e3`. Kept in billionths, which is as fine as the API
//! keeps them.

use std::cmp::Ordering;

use serde_json::Value;

/// What is said of a text that is no amount at all.
pub(crate) const FORMAT_ERROR: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX_ERROR: &str = "unable to parse quantity's suffix";
const NUMBER_ERROR: &str = "unable to parse numeric part of quantity";

/// Billionths in one.
const ONE: i128 = 1_000_000_000;
/// The largest amount there is.
const MAX: i128 = (i64::MAX as i128) * ONE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// `k`, `M` …
    Decimal,
    /// `e3`, `e6` …
    Exponent,
    /// `Ki`, `Mi` …
    Binary,
}

#[derive(Debug, Clone, Copy)]
struct Quantity {
    nano: i128,
    format: Format,
}

/// The one way in which the API writes an amount.
pub(crate) fn canonical(text: &str) -> Result<String, String> {
    parse(text).map(Quantity::write).map_err(str::to_owned)
}

/// The amount rounded up to thousandths, if that changes it.
pub(crate) fn round_to_milli(text: &str) -> Option<String> {
    let quantity = parse(text).ok()?;
    let milli = ONE / 1000;
    (quantity.nano % milli != 0).then(|| {
        let nano = away(quantity.nano, milli) * milli;
        Quantity { nano, ..quantity }.write()
    })
}

/// The sum, written as the first is unless that is zero.
pub(crate) fn add(a: &str, b: &str) -> Option<String> {
    let (a, b) = (parse(a).ok()?, parse(b).ok()?);
    let format = if a.nano == 0 { b.format } else { a.format };
    Some(Quantity { nano: (a.nano + b.nano).clamp(-MAX, MAX), format }.write())
}

/// How two amounts compare; `None` if one of them is none.
pub(crate) fn compare(a: &str, b: &str) -> Option<Ordering> {
    Some(parse(a).ok()?.nano.cmp(&parse(b).ok()?.nano))
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
    parse(text).is_ok_and(|quantity| quantity.nano == 0)
}

/// Whether the amount is a whole number.
pub(crate) fn is_whole(text: &str) -> bool {
    parse(text).is_ok_and(|quantity| quantity.nano % ONE == 0)
}

/// The amount as a whole number, rounded away from zero.
pub(crate) fn whole(text: &str) -> Option<i64> {
    i64::try_from(away(parse(text).ok()?.nano, ONE)).ok()
}

fn parse(text: &str) -> Result<Quantity, &'static str> {
    let (negative, rest) = match text.as_bytes().first() {
        None => return Err(FORMAT_ERROR),
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(end);
    if !suffix_shape(suffix) {
        return Err(FORMAT_ERROR);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') {
        return Err(FORMAT_ERROR);
    }
    if whole.is_empty() && fraction.is_empty() {
        return Err(NUMBER_ERROR);
    }
    let (format, factor, exponent) = suffix_value(suffix).ok_or(SUFFIX_ERROR)?;
    let nano = scale(whole, fraction, factor, exponent);
    Ok(Quantity { nano: if negative { -nano } else { nano }, format })
}

fn suffix_shape(suffix: &str) -> bool {
    let rest = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let rest = rest.strip_prefix(['+', '-']).unwrap_or(rest);
    rest.bytes().all(|b| b.is_ascii_digit())
}

/// Format, factor and power of ten of a suffix.
fn suffix_value(suffix: &str) -> Option<(Format, i128, i32)> {
    if let Some(index) = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|s| *s == suffix) {
        return Some((Format::Binary, 1 << (10 * (index + 1)), 0));
    }
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(index) = decimal.iter().position(|s| *s == suffix) {
        let exponent = 3 * (i32::try_from(index).ok()? - 3);
        return Some((Format::Decimal, 1, exponent));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Format::Exponent, 1, exponent))
}

/// The billionths of `whole.fraction × factor × 10^exponent`, rounded away from zero and capped.
fn scale(whole: &str, fraction: &str, factor: i128, exponent: i32) -> i128 {
    let mut value: i128 = 0;
    let mut places = 0_i32;
    let mut rest = false;
    for (digit, fractional) in
        whole.bytes().map(|b| (b, false)).chain(fraction.bytes().map(|b| (b, true)))
    {
        // Digits beyond what is kept only matter for rounding; whole ones raise the amount.
        if value > MAX {
            rest |= digit != b'0';
            places -= i32::from(!fractional);
            continue;
        }
        value = value * 10 + i128::from(digit - b'0');
        places += i32::from(fractional);
    }
    let mut shift = 9_i32.saturating_add(exponent).saturating_sub(places);
    if value == 0 {
        return 0;
    }
    let mut value = match value.checked_mul(factor) {
        Some(value) => value,
        None => return MAX,
    };
    while shift > 0 {
        if value > MAX {
            return MAX;
        }
        value *= 10;
        shift -= 1;
    }
    while shift < 0 && value > 0 {
        rest |= value % 10 != 0;
        value /= 10;
        shift += 1;
    }
    (value + i128::from(rest)).min(MAX)
}

/// The quotient, rounded away from zero.
fn away(value: i128, unit: i128) -> i128 {
    let quotient = value / unit;
    if value % unit == 0 { quotient } else { quotient + value.signum() }
}

impl Quantity {
    fn write(self) -> String {
        let small = self.nano > -1024 * ONE && self.nano < 1024 * ONE;
        match self.format {
            Format::Binary if !small => {
                let mut value = away(self.nano, ONE);
                let mut power = 0;
                while power < 6 && value != 0 && value % 1024 == 0 {
                    value /= 1024;
                    power += 1;
                }
                format!("{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power])
            }
            format => {
                if self.nano == 0 {
                    return "0".into();
                }
                let (mut value, mut power) = (self.nano, 0);
                while power < 9 && value % 1000 == 0 {
                    value /= 1000;
                    power += 1;
                }
                let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power];
                match format {
                    Format::Exponent if power != 3 => {
                        let exponent = 3 * (i32::try_from(power).unwrap_or(0) - 3);
                        format!("{value}e{exponent}")
                    }
                    _ => format!("{value}{suffix}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_way_to_write_each_amount() {
        let cases = [
            ("1000m", "1"),
            ("0.5Gi", "512Mi"),
            ("1.5", "1500m"),
            ("1024Mi", "1Gi"),
            ("1Ki", "1Ki"),
            ("100Ki", "100Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("2500000", "2500k"),
            ("-1", "-1"),
            ("+1", "1"),
            ("0.1m", "100u"),
            ("0.0000000001", "1n"),
            ("0", "0"),
            ("0Gi", "0"),
            ("010", "10"),
            (".5", "500m"),
            ("5.", "5"),
            ("99999999999999999999", "9223372036854775807"),
        ];
        for (given, expected) in cases {
            assert_eq!(canonical(given).as_deref(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_amount() {
        for (given, expected) in [
            ("", FORMAT_ERROR),
            ("abc", FORMAT_ERROR),
            ("1Kg", FORMAT_ERROR),
            ("1.2.3", FORMAT_ERROR),
            ("1KK", SUFFIX_ERROR),
            ("-", NUMBER_ERROR),
            ("1 ", FORMAT_ERROR),
        ] {
            assert_eq!(canonical(given), Err(expected.to_owned()), "{given}");
        }
    }

    #[test]
    fn comparing_and_rounding() {
        assert_eq!(compare("1", "1000m"), Some(Ordering::Equal));
        assert_eq!(compare("1Gi", "1G"), Some(Ordering::Greater));
        assert_eq!(round_to_milli("1u").as_deref(), Some("1m"));
        assert_eq!(round_to_milli("5m"), None);
        assert_eq!(add("0", "1Gi").as_deref(), Some("1Gi"));
        assert_eq!(add("500m", "1").as_deref(), Some("1500m"));
        assert!(!is_whole("1500m"));
    }

    proptest! {
        #[test]
        fn writing_is_stable(text in "[+-]?[0-9]{0,25}\\.?[0-9]{0,25}([eE][+-]?[0-9]{0,12}|[numkMGTPE]|[KMGTPE]i)?") {
            if let Ok(once) = canonical(&text) {
                prop_assert_eq!(canonical(&once), Ok(once.clone()));
            }
        }
    }
}
