//! Exact amounts of money.

use core::fmt;
use core::iter::Sum;
use core::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// US dollars in units of 10⁻¹² (one token at $0.0375 per million costs 37,500 units).
///
/// Sums saturate: a budget that overflows is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Usd(pub u64);

impl Usd {
    /// No money.
    pub const ZERO: Self = Self(0);
    /// The most dollars that may be written as a limit or a price: what a `u64` of these units can
    /// hold, rounded down.
    pub const MAX_DOLLARS: f64 = 18e6;
    const UNITS_PER_DOLLAR: f64 = 1e12;

    /// Converts from dollars. Negative amounts and NaN become zero.
    pub fn from_dollars(dollars: f64) -> Self {
        // `as` saturates and maps NaN to zero; 0.5 rounds.
        Self((dollars * Self::UNITS_PER_DOLLAR + 0.5) as u64)
    }

    /// Returns the amount in dollars.
    pub fn to_dollars(self) -> f64 {
        self.0 as f64 / Self::UNITS_PER_DOLLAR
    }

    /// Returns the price of `tokens` tokens, where `self` is the price of a million.
    pub fn per_million(self, tokens: u64) -> Self {
        let total = u128::from(self.0) * u128::from(tokens) / 1_000_000;
        Self(u64::try_from(total).unwrap_or(u64::MAX))
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An amount other than zero is never shown as zero: it gets at least two significant
        // digits.
        let digits = match self.0.checked_ilog10() {
            Some(place @ 0..9) => (13 - place as usize).min(12),
            _ => 4,
        };
        write!(f, "${:.*}", digits, self.to_dollars())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn dollars_are_rounded_to_the_nearest_unit_and_saturate() {
        let check = |dollars: f64, expected: u64| {
            assert_eq!(Usd::from_dollars(dollars), Usd(expected), "{dollars}")
        };
        check(0.0, 0);
        check(0.6, 600_000_000_000);
        check(1e-12, 1);
        check(1.4e-12, 1);
        check(1.6e-12, 2);
        check(0.1 + 0.2, 300_000_000_000);
        check(-1.0, 0);
        check(f64::NAN, 0);
        check(f64::NEG_INFINITY, 0);
        check(f64::INFINITY, u64::MAX);
        check(1e30, u64::MAX);
    }

    #[test]
    fn prices_are_exact() {
        let check = |dollars: f64, tokens: u64, expected: u64| {
            assert_eq!(
                Usd::from_dollars(dollars).per_million(tokens),
                Usd(expected),
                "{dollars} x {tokens}"
            );
        };
        check(0.6, 1_000_000, 600_000_000_000);
        check(0.0375, 1, 37_500);
        check(0.15, 1234, 185_100_000);
        assert_eq!(Usd(u64::MAX).per_million(u64::MAX), Usd(u64::MAX));
        assert_eq!(Usd(1).per_million(999_999), Usd::ZERO);
    }

    #[test]
    fn what_is_something_does_not_read_as_nothing() {
        let check = |usd: u64, expected: &str| assert_eq!(Usd(usd).to_string(), expected);
        check(0, "$0.0000");
        check(1_234_567_890, "$0.0012");
        check(123_456_789, "$0.00012");
        check(18_000_000, "$0.000018");
        check(38_000_000, "$0.000038");
        check(38_000, "$0.000000038");
        check(1, "$0.000000000001");
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(Usd(u64::MAX) + Usd(1), Usd(u64::MAX));
        let mut sum = Usd::from_dollars(0.6);
        sum += Usd::from_dollars(0.6);
        assert_eq!(
            (sum.to_dollars(), sum.to_string().as_str()),
            (1.2, "$1.2000")
        );
    }
}
