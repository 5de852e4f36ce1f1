//! What host calls cost: what was spent, what is reserved for a call in progress, and the account
//! that one lineage passes on to the next. What may be spent is in `budget`.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::ops::Add;

use serde::{Deserialize, Serialize};

use crate::record::host_call::{FinishReason, HostCall, ReplyDefect};
use crate::record::id::Slot;
use crate::record::money::Usd;

/// What was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Money.
    pub usd: Usd,
    /// Tokens of language models.
    pub tokens: u64,
    /// The number of host calls that were made.
    pub calls: u64,
    /// The number of host calls that were served from the record instead of being made again.
    pub served: u64,
    /// What the served calls cost when they were made.
    pub saved: Usd,
    /// The number of truncated replies of language models.
    pub truncated: u64,
    /// The number of replies of language models that were refused or filtered.
    pub refused: u64,
    /// The part of the money that is an estimate: what was reserved for calls whose answers never
    /// arrived, because their attempts had ended.
    pub lost: Usd,
}

impl Spending {
    /// Adds an amount.
    pub(crate) fn add_amount(&mut self, amount: Amount) {
        self.usd += amount.usd;
        self.tokens = self.tokens.saturating_add(amount.tokens);
    }

    /// Adds what was reserved for a call whose answer nobody saw.
    pub(crate) fn add_lost(&mut self, reserved: Amount) {
        self.add_amount(reserved);
        self.lost += reserved.usd;
    }

    /// Adds a call that was made.
    pub(crate) fn add_made_call(&mut self, call: &HostCall) {
        self.add_amount(Amount {
            usd: call.cost,
            tokens: call.tokens(),
        });
        self.calls += 1;
        match call.finish_reason().and_then(FinishReason::defect) {
            Some(ReplyDefect::Truncated) => self.truncated += 1,
            Some(ReplyDefect::Refused) => self.refused += 1,
            None => {}
        }
    }

    /// Adds a call that was served from the record.
    pub(crate) fn add_served_call(&mut self, call: &HostCall) {
        self.served += 1;
        self.saved += call.cost;
    }

    /// Returns the maximum of each number.
    fn max_of_each(self, other: &Self) -> Self {
        Self {
            usd: self.usd.max(other.usd),
            tokens: self.tokens.max(other.tokens),
            calls: self.calls.max(other.calls),
            served: self.served.max(other.served),
            saved: self.saved.max(other.saved),
            truncated: self.truncated.max(other.truncated),
            refused: self.refused.max(other.refused),
            lost: self.lost.max(other.lost),
        }
    }

    /// Returns the sum of each number.
    pub(crate) fn plus(self, other: &Self) -> Self {
        Self {
            usd: self.usd + other.usd,
            tokens: self.tokens.saturating_add(other.tokens),
            calls: self.calls + other.calls,
            served: self.served + other.served,
            saved: self.saved + other.saved,
            truncated: self.truncated + other.truncated,
            refused: self.refused + other.refused,
            lost: self.lost + other.lost,
        }
    }
}

/// What a call uses up, or may use up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Money.
    pub usd: Usd,
    /// Tokens of language models.
    pub tokens: u64,
}

impl Amount {
    /// The zero amount.
    pub const ZERO: Self = Self {
        usd: Usd::ZERO,
        tokens: 0,
    };
}

impl Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            usd: self.usd + other.usd,
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }
}

/// An amount that is reserved for a call in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The digest of the request, as in the record of its answer.
    pub request: String,
    /// The amount.
    pub amount: Amount,
}

/// What was spent and what may be spent, as one lineage passes it on to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// What was spent.
    pub spent: Usd,
    /// The budget in dollars; `None` for no limit.
    pub budget: Option<Usd>,
    /// What was used up by each component.
    pub ledger: BTreeMap<Slot, Spending>,
}

impl Account {
    /// Merges what another lineage knows about the usage of each component. The larger number is
    /// taken instead of the sum, because each lineage includes what the one before it had used.
    pub fn merge_ledger(&mut self, other: &Self) {
        raise_to_maximum(&mut self.ledger, &other.ledger);
    }
}

/// Raises every number in `ledger` to that in `other`, where that is larger.
pub(crate) fn raise_to_maximum(
    ledger: &mut BTreeMap<Slot, Spending>,
    other: &BTreeMap<Slot, Spending>,
) {
    for (slot, spending) in other {
        let own = ledger.entry(*slot).or_default();
        *own = own.max_of_each(spending);
    }
}
