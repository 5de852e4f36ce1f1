//! What a call of a model costs, including requests that failed or were repeated.

use strata_core::record::conversation::TokenUsage;
use strata_core::record::money::Usd;
use strata_core::record::spending::Amount;

use super::StreamObserver;
use super::config::Price;
use super::tokens::{UsageWithoutReply, add_usage};

/// A cost and the tokens that it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charge {
    /// The cost, at the prices of the models that were asked.
    pub cost: Usd,
    /// The tokens that were used.
    pub usage: TokenUsage,
}

impl Charge {
    /// Returns the charge for tokens at a price.
    pub(super) fn new(price: Price, usage: TokenUsage) -> Self {
        Self {
            cost: price.cost(usage),
            usage,
        }
    }

    fn add(&mut self, other: Self) {
        self.cost += other.cost;
        self.usage = add_usage(self.usage, other.usage);
    }
}

impl From<Charge> for Amount {
    fn from(charge: Charge) -> Self {
        Self {
            usd: charge.cost,
            tokens: charge.usage.total(),
        }
    }
}

/// The account of a call while it is made, by one model or by several in turn.
pub(super) struct CallAccount<'a> {
    pub(super) observer: &'a mut StreamObserver,
    /// What was used until now.
    pub(super) charge: Charge,
    /// The ids of the scripted replies that were used, of those that may be used a limited number of
    /// times.
    pub(super) limited_replies: Vec<String>,
    /// How often the request was sent again since the count was taken.
    retries: u64,
    /// The price of the model that is asked.
    price: Price,
    /// What is assumed for a request whose usage is unknown.
    expected: TokenUsage,
}

impl<'a> CallAccount<'a> {
    /// Returns an account to which nothing is charged.
    pub(super) fn new(observer: &'a mut StreamObserver) -> Self {
        Self {
            observer,
            charge: Charge::default(),
            limited_replies: Vec::new(),
            retries: 0,
            price: Price::default(),
            expected: TokenUsage::default(),
        }
    }

    /// Charges at this price from now on.
    pub(super) fn switch_to(&mut self, price: Price, expected: TokenUsage) {
        self.price = price;
        self.expected = expected;
    }

    /// Charges a reply.
    pub(super) fn add_reply(&mut self, usage: TokenUsage) {
        self.charge.add(Charge::new(self.price, usage));
    }

    /// Charges a request that has no reply, or one that cannot be used.
    pub(super) fn add_loss(&mut self, usage: UsageWithoutReply) {
        self.add_reply(usage.tokens(self.expected));
    }

    /// Notes that the request is sent now.
    pub(super) fn dispatched(&mut self) {
        self.observer.dispatched();
    }

    /// Notes that the request failed and waits to be sent again to the same model.
    pub(super) fn waits_for_retry(&mut self) {
        self.retries += 1;
        self.waits_again();
    }

    /// Returns how often the request was sent again since this was last asked.
    pub(super) fn take_retries(&mut self) -> u64 {
        std::mem::take(&mut self.retries)
    }

    /// Notes that the request waits to be sent again, or to be sent to another model.
    pub(super) fn waits_again(&mut self) {
        self.observer.waits_again(self.charge);
    }
}
