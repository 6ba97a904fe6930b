//! Quantities of Kubernetes: `8Gi`, `500m`, `1e3`.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::patterns;

/// A quantity as it was written; a number in a manifest becomes its digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

/// Why a text is no quantity, or none that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It cannot be read.
    #[error("{0:?} is not a quantity: write a number with a unit, such as 8Gi")]
    Malformed(String),
    /// It is below zero or does not fit 64 bits.
    #[error("{0:?} is out of range")]
    OutOfRange(String),
}

impl Quantity {
    /// The whole number that it stands for, such as bytes; parts are rounded up, as Kubernetes does.
    pub fn to_u64(&self) -> Result<u64, QuantityError> {
        let malformed = || QuantityError::Malformed(self.0.clone());
        let out_of_range = || QuantityError::OutOfRange(self.0.clone());
        let (negative, text) = match self.0.as_bytes().first() {
            Some(b'-') => (true, &self.0[1..]),
            Some(b'+') => (false, &self.0[1..]),
            _ => (false, self.0.as_str()),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(malformed());
        }
        let (factor, exponent) = scale(suffix).ok_or_else(malformed)?;
        let digits = format!("{whole}{fraction}");
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(0);
        }
        if negative || digits.len() > 30 {
            return Err(out_of_range());
        }
        let digits: u128 = digits.parse().map_err(|_| malformed())?;
        let value = digits.checked_mul(factor).ok_or_else(out_of_range)?;
        let exponent = exponent - i64::try_from(fraction.len()).map_err(|_| out_of_range())?;
        let power = u32::try_from(exponent.unsigned_abs()).map_err(|_| out_of_range())?;
        let value = if exponent >= 0 {
            10u128.checked_pow(power).and_then(|p| value.checked_mul(p)).ok_or_else(out_of_range)?
        } else {
            // Anything that small is rounded up to one.
            10u128.checked_pow(power).map_or(1, |p| value.div_ceil(p))
        };
        u64::try_from(value).map_err(|_| out_of_range())
    }
}

/// What a quantity's suffix multiplies by: a factor, and a power of ten.
pub fn scale(suffix: &str) -> Option<(u128, i64)> {
    Some(match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: a number or a string such as 8Gi")
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Quantity, E> {
                Ok(Quantity(value.to_string()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Quantity, E> {
                Ok(Quantity(value.to_string()))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Quantity, E> {
                Ok(Quantity(value.to_owned()))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-int-or-string": true, "pattern": patterns::QUANTITY })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_all_forms() {
        for (text, expected) in [
            ("0", 0),
            ("8Gi", 8 << 30),
            ("1.5Gi", 3 << 29),
            ("512Mi", 512 << 20),
            ("4G", 4_000_000_000),
            ("1e3", 1_000),
            ("1E3", 1_000),
            ("12E", 12_000_000_000_000_000_000),
            ("1500m", 2),
            ("1n", 1),
            (".5Ki", 512),
            ("5.", 5),
            ("+7", 7),
            ("25e-1", 3),
        ] {
            assert_eq!(Quantity::from(text).to_u64(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "Gi", "1GiB", "1 Gi", "x", "1.2.3", "1e", "--1"] {
            assert!(
                matches!(Quantity::from(text).to_u64(), Err(QuantityError::Malformed(_))),
                "{text}"
            );
        }
        for text in ["-1", "99999E", "1e99", "99999999999999999999999999999999999999"] {
            assert!(
                matches!(Quantity::from(text).to_u64(), Err(QuantityError::OutOfRange(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_become_their_digits() {
        let quantity: Quantity = serde_json::from_str("1024").unwrap();
        assert_eq!(quantity, Quantity::from("1024"));
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }

    proptest! {
        #[test]
        fn never_panics(text in "[-+.0-9eEKMGinum]{0,40}") {
            let _ = Quantity(text).to_u64();
        }

        #[test]
        fn whole_numbers_are_themselves(number: u64) {
            prop_assert_eq!(Quantity(number.to_string()).to_u64(), Ok(number));
        }
    }
}
