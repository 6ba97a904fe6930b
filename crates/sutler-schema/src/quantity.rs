//! Quantities: `100m`, `1.5Gi`, `1e3`.

use std::{cmp::Ordering, fmt};

/// Why a text is not a quantity; worded as the API words it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a number with a suffix at all.
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    /// The number cannot be read.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is none of the known ones.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// In which family of suffixes a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `m`, `k`, `M`: powers of 1000.
    Decimal,
    /// `Ki`, `Mi`: powers of 1024.
    Binary,
    /// `e3`.
    Exponent,
}

/// A fixed-point number: `mantissa · 10^scale`, to the billionth at most.
#[derive(Debug, Clone)]
pub struct Quantity {
    mantissa: i128,
    scale: i32,
    family: Family,
    /// The text it was read from, where that is kept as it is.
    text: Option<String>,
    /// Whether it is held in 64 bits, which decides what counts as an integer.
    small: bool,
}

const SUFFIXES: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY_SUFFIXES: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The finest fraction: a billionth.
const NANO: i32 = -9;

impl Quantity {
    /// Reads a quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let parts = Parts::split(text)?;
        let (family, exponent) = suffix(parts.suffix)?;
        if let Some(quantity) = parts.small(text, family, exponent)? {
            return Ok(quantity);
        }
        parts.large(family, exponent)
    }

    /// A whole number.
    pub fn from_i64(value: i64) -> Self {
        Self { mantissa: value.into(), scale: 0, family: Family::Decimal, text: None, small: true }
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        self.mantissa == 0
    }

    /// Less than zero, zero, or more.
    pub fn signum(&self) -> i32 {
        self.mantissa.signum() as i32
    }

    /// The whole number, rounded away from zero; nothing if it does not fit.
    pub fn value(&self) -> Option<i64> {
        self.scaled(0)
    }

    /// Thousandths, rounded away from zero; nothing if they do not fit.
    pub fn milli_value(&self) -> Option<i64> {
        self.scaled(-3)
    }

    /// The number, if it is a whole one that is held as such: `1k` is, `1000m` is not.
    pub fn as_integer(&self) -> Option<i64> {
        (self.small && self.scale >= 0).then(|| self.value()).flatten()
    }

    /// The sum; nothing if it cannot be held.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        self.combine(other, i128::checked_add)
    }

    /// The difference; nothing if it cannot be held.
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.combine(other, i128::checked_sub)
    }

    fn combine(&self, other: &Self, with: fn(i128, i128) -> Option<i128>) -> Option<Self> {
        let scale = self.scale.min(other.scale);
        let exact = |quantity: &Self| rescale(quantity.mantissa, quantity.scale, scale);
        let mantissa = with(exact(self)?, exact(other)?)?;
        // Nothing takes over the form of the other.
        let family = if self.is_zero() { other.family } else { self.family };
        let small = self.small && other.small && i64::try_from(mantissa).is_ok();
        Some(Self { mantissa, scale, family, text: None, small })
    }

    /// The nearest float.
    pub fn as_f64(&self) -> f64 {
        // One rounding only: the text is exact.
        format!("{}e{}", self.mantissa, self.scale).parse().unwrap_or(f64::NAN)
    }

    fn scaled(&self, scale: i32) -> Option<i64> {
        i64::try_from(rescale(self.mantissa, self.scale, scale)?).ok()
    }
}

/// `mantissa · 10^from` in units of `10^to`, rounded away from zero.
fn rescale(mantissa: i128, from: i32, to: i32) -> Option<i128> {
    if mantissa == 0 || from == to {
        return Some(mantissa);
    }
    if from > to {
        let factor = 10i128.checked_pow(u32::try_from(from.checked_sub(to)?).ok()?)?;
        return mantissa.checked_mul(factor);
    }
    let steps = u32::try_from(to.checked_sub(from)?).ok()?;
    let Some(divisor) = 10i128.checked_pow(steps) else { return Some(mantissa.signum()) };
    let whole = mantissa / divisor;
    Some(if mantissa % divisor == 0 { whole } else { whole + mantissa.signum() })
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        let low = self.scale.min(other.scale);
        let exact = |quantity: &Self| rescale(quantity.mantissa, quantity.scale, low);
        match (exact(self), exact(other)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => self.as_f64().total_cmp(&other.as_f64()),
        }
    }
}

impl fmt::Display for Quantity {
    /// The canonical form: no fraction, and the largest suffix that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        if self.mantissa == 0 {
            return f.write_str("0");
        }
        if self.family == Family::Binary
            && let Some(whole) = self.whole()
            && whole.abs() >= 1024
        {
            let (mut number, mut step) = (whole, 0);
            while number % 1024 == 0 && step < BINARY_SUFFIXES.len() {
                number /= 1024;
                step += 1;
            }
            let suffix = step.checked_sub(1).map_or("", |step| BINARY_SUFFIXES[step]);
            return write!(f, "{number}{suffix}");
        }
        let (mut number, mut exponent) = (self.mantissa, self.scale);
        while number % 10 == 0 {
            number /= 10;
            exponent += 1;
        }
        let excess = exponent.rem_euclid(3);
        for _ in 0..excess {
            number *= 10;
        }
        exponent -= excess;
        match (self.family, exponent) {
            (Family::Exponent, 0) => write!(f, "{number}"),
            (Family::Exponent, _) => write!(f, "{number}e{exponent}"),
            (Family::Decimal | Family::Binary, _) => {
                let known = SUFFIXES.iter().find(|(_, power)| *power == exponent);
                write!(f, "{number}{}", known.map_or("", |(suffix, _)| suffix))
            }
        }
    }
}

impl Quantity {
    /// The number itself, if it is whole.
    fn whole(&self) -> Option<i128> {
        if self.scale >= 0 {
            return rescale(self.mantissa, self.scale, 0);
        }
        let divisor = 10i128.checked_pow(self.scale.unsigned_abs())?;
        (self.mantissa % divisor == 0).then(|| self.mantissa / divisor)
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

fn suffix(text: &str) -> Result<(Family, i32), QuantityError> {
    if let Some((_, power)) = SUFFIXES.iter().find(|(suffix, _)| *suffix == text) {
        return Ok((Family::Decimal, *power));
    }
    if let Some(step) = BINARY_SUFFIXES.iter().position(|suffix| *suffix == text) {
        return Ok((Family::Binary, 10 * (step as i32 + 1)));
    }
    let exponent = text.strip_prefix(['e', 'E']).and_then(|digits| digits.parse().ok());
    exponent.map(|exponent| (Family::Exponent, exponent)).ok_or(QuantityError::Suffix)
}

/// A quantity's text, taken apart.
struct Parts<'t> {
    negative: bool,
    /// Digits before the point, without leading zeros.
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl<'t> Parts<'t> {
    fn split(text: &'t str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits =
            |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let rest = rest.trim_start_matches('0');
        let (whole, rest) = rest.split_at(digits(rest));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(digits(rest)),
            None => ("", rest),
        };
        let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let tail = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if !tail.bytes().all(|c| c.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative, whole, fraction, suffix })
    }

    fn digits(&self) -> String {
        format!("{}{}", self.whole, self.fraction)
    }

    /// The usual case: a number of at most 18 digits. It may keep its text.
    fn small(
        &self,
        text: &str,
        family: Family,
        exponent: i32,
    ) -> Result<Option<Quantity>, QuantityError> {
        let length = (self.whole.len() + self.fraction.len()) as i64;
        let (room, factor, scale) = match family {
            Family::Decimal | Family::Exponent => (18 - length, 1, exponent),
            Family::Binary if self.fraction.is_empty() => {
                let room = 15 - self.whole.len() as i64 - i64::from(exponent) * 3 / 10 - 1;
                (room, 1i64 << exponent, 0)
            }
            Family::Binary => (-1, 1, 0),
        };
        let scale = scale.checked_sub(self.fraction.len() as i32).ok_or(QuantityError::Numeric)?;
        if room < 0 || scale < NANO {
            return Ok(None);
        }
        let digits = self.digits();
        let value: i64 = digits.parse().map_err(|_| QuantityError::Numeric)?;
        let Some(amount) = value.checked_mul(factor) else { return Ok(None) };
        let keeps_text = text == "0"
            || match family {
                Family::Binary => value & 7 != 0,
                Family::Decimal | Family::Exponent => {
                    scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
                }
            };
        let mantissa = i128::from(if self.negative { -amount } else { amount });
        let text = keeps_text.then(|| text.to_owned());
        Ok(Some(Quantity { mantissa, scale, family, text, small: true }))
    }

    /// Many digits, or a fraction of a binary unit: rounded up to a billionth, and capped.
    fn large(&self, mut family: Family, exponent: i32) -> Result<Quantity, QuantityError> {
        let mut mantissa: i128 = self.digits().parse().map_err(|_| QuantityError::Numeric)?;
        let mut scale = -(self.fraction.len() as i32);
        match family {
            Family::Binary => {
                mantissa = mantissa.checked_mul(1 << exponent).ok_or(QuantityError::Numeric)?;
            }
            Family::Decimal | Family::Exponent => {
                scale = scale.checked_add(exponent).ok_or(QuantityError::Numeric)?;
            }
        }
        if scale < NANO {
            mantissa = rescale(mantissa, scale, NANO).ok_or(QuantityError::Numeric)?;
            scale = NANO;
        }
        if family == Family::Binary {
            // Fractions of one are shown with decimal suffixes; the top is a simple cap.
            let one = rescale(1, 0, scale.min(0)).ok_or(QuantityError::Numeric)?;
            if mantissa > 0 && mantissa < one {
                family = Family::Decimal;
            }
            if one.checked_mul(i64::MAX.into()).is_some_and(|max| mantissa > max) {
                (mantissa, scale) = (i64::MAX.into(), 0);
            }
        }
        let mantissa = if self.negative { -mantissa } else { mantissa };
        Ok(Quantity { mantissa, scale, family, text: None, small: false })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical() {
        let cases = [
            ("0", "0"),
            ("0Gi", "0"),
            ("1", "1"),
            ("1.5", "1500m"),
            ("0.5", "500m"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("1025Mi", "1025Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("0.0001Ki", "102400u"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("12E", "12E"),
            ("1.1n", "2n"),
            ("-5", "-5"),
            ("-1.5", "-1500m"),
            ("+5", "+5"),
            ("1.500", "1.500"),
            ("1.", "1."),
            (".5", "500m"),
            ("100000000000000000000", "100E"),
            ("8192Pi", "9223372036854775807"),
            ("4096Pi", "4Ei"),
            ("100Ei", "9223372036854775807"),
            ("2Gi", "2Gi"),
            ("10Mi", "10Mi"),
            ("1M", "1M"),
        ];
        for (text, wanted) in cases {
            let quantity = Quantity::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(quantity.to_string(), wanted, "{text}");
        }
    }

    #[test]
    fn refused() {
        let cases = [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1Gx", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1ki", QuantityError::Suffix),
            ("1Mii", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1.2.3", QuantityError::Format),
        ];
        for (text, wanted) in cases {
            assert_eq!(Quantity::parse(text).err(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn order_and_values() {
        let q = |text| Quantity::parse(text).unwrap();
        assert!(q("1Gi") > q("1G"));
        assert!(q("1000m") == q("1"));
        assert!(q("1e100") > q("1Ei"));
        assert!(q("-1") < q("0"));
        assert_eq!(q("1.1").value(), Some(2));
        assert_eq!(q("-1.1").value(), Some(-2));
        assert_eq!(q("1.1").milli_value(), Some(1100));
        assert_eq!(q("2Ki").value(), Some(2048));
        assert_eq!(q("1e30").value(), None);
        assert_eq!(q("1500m").as_f64(), 1.5);
        assert_eq!(q("1k").as_integer(), Some(1000));
        assert_eq!(q("1000m").as_integer(), None);
        assert_eq!(q("1Gi").checked_add(&q("512Mi")).unwrap().to_string(), "1536Mi");
        assert_eq!(q("1").checked_sub(&q("1500m")).unwrap().to_string(), "-500m");
    }

    proptest! {
        #[test]
        fn canonical_form_is_stable(text in "[+-]?[0-9]{1,12}(\\.[0-9]{0,6})?(Ki|Mi|Gi|m|k|M|n|u|e3|)") {
            let quantity = Quantity::parse(&text).unwrap();
            let again = Quantity::parse(&quantity.to_string()).unwrap();
            prop_assert_eq!(&again, &quantity);
            prop_assert_eq!(again.to_string(), quantity.to_string());
        }

        #[test]
        fn never_panics(text in "\\PC{0,12}", number in "[0-9.eEKiMm+-]{0,60}") {
            let _ = Quantity::parse(&text).map(|q| q.to_string());
            let _ = Quantity::parse(&number).map(|q| (q.to_string(), q.value()));
        }
    }
}
