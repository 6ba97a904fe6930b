//! Prices that compare exactly.

use std::fmt;

/// Hours that a month is reckoned with.
pub const HOURS_PER_MONTH: u64 = 730;

/// What something costs an hour, in millionths of a unit of currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(pub u64);

impl Price {
    /// A price an hour; `None` unless it is a number from zero up to a million.
    pub fn per_hour(amount: f64) -> Option<Self> {
        let sane = amount.is_finite() && (0.0..=1e6).contains(&amount);
        // In this range the rounded product is a whole number that fits.
        sane.then(|| Self((amount * 1e6).round() as u64))
    }

    /// A price a month of 730 hours.
    pub fn per_month(amount: f64) -> Option<Self> {
        Self::per_hour(amount / 730.0)
    }

    /// What it comes to in a month, in millionths.
    pub fn monthly(self) -> u64 {
        self.0.saturating_mul(HOURS_PER_MONTH)
    }

    /// The price of this many.
    pub fn times(self, number: u64) -> Self {
        Self(self.0.saturating_mul(number))
    }

    /// What is left when `other` is taken off; nothing below zero.
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04} an hour", self.0 / 1_000_000, self.0 % 1_000_000 / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_exact_or_none() {
        assert_eq!(Price::per_hour(0.05), Some(Price(50_000)));
        assert_eq!(Price::per_month(73.0), Some(Price(100_000)));
        assert_eq!(Price(100_000).monthly(), 73_000_000);
        assert_eq!(Price(1_050_000).to_string(), "1.0500 an hour");
        for bad in [-1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(Price::per_hour(bad), None);
        }
    }
}
