//! Money, exactly.

use core::fmt;
use core::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// US dollars in units of 10⁻¹² (one token at $0.0375 per million costs 37,500 of them).
///
/// Sums saturate: a budget that overflows is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Usd(pub u64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    const PICO: f64 = 1e12;

    /// From dollars; negative amounts and non-numbers are zero.
    pub fn from_dollars(dollars: f64) -> Self {
        // `as` saturates and maps NaN to zero; 0.5 rounds.
        Self((dollars * Self::PICO + 0.5) as u64)
    }

    /// In dollars.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / Self::PICO
    }

    /// The price of `tokens` at `self` per million tokens.
    pub fn per_million(self, tokens: u32) -> Self {
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

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.dollars())
    }
}
