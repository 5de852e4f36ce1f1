//! Budgets: what was spent, by which component, and what may be spent. Money and tokens are
//! reserved before a call and accounted for when its answer arrives. A call whose answer nobody saw
//! counts as made, at the full amount reserved.
//!
//! The cost of a call is determined by the host.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::ops::Add;

use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::environment::Environment;
use crate::event::{HostCall, Work};
use crate::host_call::{FinishReason, ReplyDefect};
use crate::id::{ActionId, RoleId, Slot, SlotKind};
use crate::money::Usd;
use crate::team::Team;

/// The most that may be used in total, across all resumes; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Money.
    pub usd: Option<Usd>,
    /// Tokens of language models, counting requests and replies together.
    pub tokens: Option<u64>,
}

/// Limits in addition to the budget of the team in dollars.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopedBudgets {
    /// Tokens of the whole team.
    pub tokens: Option<u64>,
    /// The limits of roles.
    pub roles: BTreeMap<RoleId, BudgetLimits>,
    /// The limits of single actions. An action gets an error when its own budget is used up, and
    /// can handle that.
    pub actions: BTreeMap<Slot, BudgetLimits>,
}

impl ScopedBudgets {
    /// Returns whether tokens are limited anywhere.
    pub fn has_token_limit(&self) -> bool {
        let others = self.roles.values().chain(self.actions.values());
        self.tokens.is_some() || others.into_iter().any(|caps| caps.tokens.is_some())
    }
}

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
}

/// What a call uses up, or may use up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Money.
    pub usd: Usd,
    /// Tokens of language models.
    pub tokens: u64,
}

/// An amount that is reserved for a call in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The digest of the request, as in the record of its answer.
    pub request: String,
    /// The amount.
    pub amount: Amount,
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
fn raise_to_maximum(ledger: &mut BTreeMap<Slot, Spending>, other: &BTreeMap<Slot, Spending>) {
    for (slot, spending) in other {
        let own = ledger.entry(*slot).or_default();
        *own = own.max_of_each(spending);
    }
}

/// Whose budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetScope {
    /// That of the team: the run stops.
    Team,
    /// That of a role: the role stops, and the run stops when the other roles have finished their
    /// step.
    Role(RoleId),
    /// That of an action: the action gets an error, and can still finish with what it has.
    Action(Slot),
}

impl Spending {
    /// Adds an amount.
    fn add_amount(&mut self, amount: Amount) {
        self.usd += amount.usd;
        self.tokens = self.tokens.saturating_add(amount.tokens);
    }

    /// Adds a call that was made.
    pub(crate) fn add_made_call(&mut self, call: &HostCall) {
        self.add_amount(Amount {
            usd: call.cost,
            tokens: call.tokens,
        });
        self.calls += 1;
        match call.finish_reason.and_then(FinishReason::defect) {
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
        }
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            usd: self.usd + other.usd,
            tokens: self.tokens.saturating_add(other.tokens),
            calls: self.calls + other.calls,
            served: self.served + other.served,
            saved: self.saved + other.saved,
            truncated: self.truncated + other.truncated,
            refused: self.refused + other.refused,
        }
    }

    fn exhausts(&self, caps: BudgetLimits) -> bool {
        caps.usd.is_some_and(|max| self.usd >= max)
            || caps.tokens.is_some_and(|max| self.tokens >= max)
    }
}

/// Returns the slot to which the costs of this call are charged.
pub fn charged_slot(id: RoleId, work: Work) -> Slot {
    let part = match work {
        Work::Think { .. } => SlotKind::Think,
        Work::Plan => SlotKind::Action(ActionId(0)),
        // Human roles spend nothing.
        Work::Answer => SlotKind::Think,
        Work::Act { action, .. } => SlotKind::Action(action),
    };
    Slot {
        role: id,
        kind: part,
    }
}

impl Environment {
    /// Returns what was spent by all components for which `whose` holds, without reservations.
    pub fn spending(&self, whose: impl Fn(Slot) -> bool) -> Spending {
        let theirs = self.ledger.iter().filter(|(slot, _)| whose(**slot));
        theirs.fold(Spending::default(), |sum, (_, spending)| sum.plus(spending))
    }

    /// Returns whose budget, if any, does not allow this call to spend more. Reservations count as
    /// spent, and so does `also`, which the caller is about to spend.
    pub fn exhausted_budget(
        &self,
        team: &Team,
        id: RoleId,
        work: Work,
        also: Amount,
    ) -> Option<BudgetScope> {
        self.widest_exhausted(team, id, work, &|whose| self.reserved(team, whose) + also)
    }

    /// Returns whose budget, if any, does not allow this call to spend more even if all
    /// reservations are released: only what was spent counts.
    pub fn exhausted_without_reservations(
        &self,
        team: &Team,
        id: RoleId,
        work: Work,
    ) -> Option<BudgetScope> {
        self.widest_exhausted(team, id, work, &|_| Amount::ZERO)
    }

    /// Returns the widest budget that applies to this call and is used up, when `more` is added to
    /// what was spent by all that share the budget.
    fn widest_exhausted(
        &self,
        team: &Team,
        id: RoleId,
        work: Work,
        more: &dyn Fn(&dyn Fn(Slot) -> bool) -> Amount,
    ) -> Option<BudgetScope> {
        let (slot, purses) = (charged_slot(id, work), &team.policy.scoped_budgets);
        let used = |caps: Option<BudgetLimits>, whose: &dyn Fn(Slot) -> bool| {
            self.reaches_limits(caps, whose, || more(whose))
        };
        let budget = self
            .budget
            .map(|max| Usd(max.0.saturating_sub(self.unattributed_spending().0)));
        let of_team = BudgetLimits {
            usd: budget,
            tokens: purses.tokens,
        };
        if used(Some(of_team), &|_| true) {
            Some(BudgetScope::Team)
        } else if used(purses.roles.get(&id).copied(), &|at| at.role == id) {
            Some(BudgetScope::Role(id))
        } else if used(purses.actions.get(&slot).copied(), &|at| at == slot) {
            Some(BudgetScope::Action(slot))
        } else {
            None
        }
    }

    /// Returns whether the budget of the action itself does not allow this call to spend more,
    /// whatever the budgets of the role and the team allow.
    pub fn is_action_budget_exhausted(&self, team: &Team, id: RoleId, work: Work) -> bool {
        let slot = charged_slot(id, work);
        let whose = |at| at == slot;
        self.reaches_limits(
            team.policy.scoped_budgets.actions.get(&slot).copied(),
            &whose,
            || self.reserved(team, &whose),
        )
    }

    /// Returns whether the spending of all components for which `whose` holds, plus `more`, reaches
    /// the limits.
    fn reaches_limits(
        &self,
        caps: Option<BudgetLimits>,
        whose: &dyn Fn(Slot) -> bool,
        more: impl FnOnce() -> Amount,
    ) -> bool {
        // Most teams have no limits, and this is called before every host call.
        caps.filter(|caps| *caps != BudgetLimits::default())
            .is_some_and(|caps| {
                let mut sum = self.spending(whose);
                sum.add_amount(more());
                sum.exhausts(caps)
            })
    }

    /// Returns the sum of the reservations of all components for which `whose` holds.
    fn reserved(&self, team: &Team, whose: &dyn Fn(Slot) -> bool) -> Amount {
        self.reservations(team)
            .filter(|(slot, _)| whose(*slot))
            .fold(Amount::ZERO, |sum, (_, held)| sum + held)
    }

    /// Returns the reservations of all open activations, each with the slot to which it is charged.
    fn reservations(&self, team: &Team) -> impl Iterator<Item = (Slot, Amount)> {
        self.activations().filter_map(|(id, activation)| {
            let work = activation.current_work(team.role(id))?;
            Some((charged_slot(id, work), activation.reserved()))
        })
    }

    /// Charges the reservations of an attempt that ends: nobody saw the answers, so the full
    /// amounts count as spent.
    pub(crate) fn charge_reservations(&mut self, id: RoleId, work: Work) {
        let Some(activation) = &mut self.roles[id.index()].activation else {
            return;
        };
        for Reservation { amount, .. } in core::mem::take(&mut activation.current_call.reservations)
        {
            self.spent += amount.usd;
            self.ledger
                .entry(charged_slot(id, work))
                .or_default()
                .add_amount(amount);
        }
    }

    /// Returns the account as it stands.
    pub fn account(&self) -> Account {
        Account {
            spent: self.spent,
            budget: self.budget,
            ledger: self.ledger.clone(),
        }
    }

    /// Returns the account as a run leaves it when it stops: nobody will see the answers to the
    /// calls in progress, so their reservations count as spent.
    pub fn account_at_stop(&self, team: &Team) -> Account {
        let mut account = self.account();
        for (slot, held) in self
            .reservations(team)
            .filter(|(_, held)| *held != Amount::ZERO)
        {
            account.spent += held.usd;
            account.ledger.entry(slot).or_default().add_amount(held);
        }
        account
    }

    /// Continues with another account; what was used up stays used up. Reservations are dropped
    /// here, because that account includes them.
    pub(crate) fn adopt_account(&mut self, account: &Account) {
        (self.spent, self.budget) = (account.spent, account.budget);
        for role in &mut self.roles {
            if let Some(activation) = &mut role.activation {
                activation.current_call.reservations.clear();
            }
        }
        raise_to_maximum(&mut self.ledger, &account.ledger);
    }

    /// Returns what was spent without a record of the component. A file of another program only
    /// says how much was spent in total.
    fn unattributed_spending(&self) -> Usd {
        let known = self.spending(|_| true).usd;
        Usd(self.spent.0.saturating_sub(known.0))
    }
}

impl Activation {
    /// Returns what is reserved for the host calls of the current call.
    pub fn reserved(&self) -> Amount {
        self.current_call
            .reservations
            .iter()
            .fold(Amount::ZERO, |sum, reserved| sum + reserved.amount)
    }

    /// Releases the reservation of a host call that was answered.
    pub(crate) fn release_reservation(&mut self, request: &str) {
        let at = self
            .current_call
            .reservations
            .iter()
            .position(|reserved| reserved.request == request);
        if let Some(at) = at {
            self.current_call.reservations.remove(at);
        }
    }
}
