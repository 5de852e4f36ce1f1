//! Budgets: what a team spent and whether it may spend more. Money and tokens are reserved before a
//! call and accounted for when its answer arrives. A call whose answer nobody saw counts as made, at
//! the full amount reserved.
//!
//! The cost of a call is determined by the host.

use crate::record::id::{ActionId, RoleId, Slot, SlotKind};
use crate::record::money::Usd;
use crate::record::spending::{Account, Amount, Reservation, Spending, raise_to_maximum};
use crate::record::turn::{HostTool, ToolRef};
use crate::record::work::{CallKey, Work};
use crate::state::environment::Environment;
use crate::team::{BudgetLimits, Team};

/// Whose budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetScope {
    /// That of several runs together: the run stops.
    Cap,
    /// That of the team: the run stops.
    Team,
    /// That of a role: the role stops, and the run stops when the other roles have finished their
    /// step.
    Role(RoleId),
    /// That of an action: the action gets an error, and can still finish with what it has.
    Action(Slot),
}

/// Returns the slot to which the costs of this call are charged.
pub fn charged_slot(id: RoleId, work: Work) -> Slot {
    let part = match work {
        Work::Think { .. } => SlotKind::Think,
        Work::Plan => SlotKind::Action(ActionId(0)),
        // Human roles spend nothing.
        Work::Answer => SlotKind::Think,
        Work::Act { action, .. }
        | Work::ToolCall {
            tool: ToolRef::Action(action),
            ..
        } => SlotKind::Action(action),
        Work::ToolCall {
            tool: ToolRef::Host(HostTool::RunSkillScript(language)),
            ..
        } => SlotKind::SkillScript(language),
        Work::Turn { .. } | Work::ToolCall { .. } => SlotKind::Turn,
        Work::Summary { .. } => SlotKind::Summary,
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
        if self.cap_reached.is_some() {
            return Some(BudgetScope::Cap);
        }
        let (slot, budgets) = (charged_slot(id, work), &team.policy.scoped_budgets);
        let used = |caps: Option<BudgetLimits>, whose: &dyn Fn(Slot) -> bool| {
            self.reaches_limits(caps, whose, || more(whose))
        };
        let budget = self
            .budget
            .map(|max| Usd(max.0.saturating_sub(self.unattributed_spending().0)));
        let of_team = BudgetLimits {
            usd: budget,
            tokens: budgets.tokens,
        };
        if used(Some(of_team), &|_| true) {
            Some(BudgetScope::Team)
        } else if used(budgets.roles.get(&id).copied(), &|at| at.role == id) {
            Some(BudgetScope::Role(id))
        } else if used(budgets.actions.get(&slot).copied(), &|at| at == slot) {
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
                caps.is_reached_by(&sum)
            })
    }

    /// Returns the sum of the reservations of all components for which `whose` holds.
    fn reserved(&self, team: &Team, whose: &dyn Fn(Slot) -> bool) -> Amount {
        self.reservations(team)
            .filter(|(slot, _)| whose(*slot))
            .fold(Amount::ZERO, |sum, (_, amount)| sum + amount)
    }

    /// Returns the reservations of all open activations, each with the slot to which it is charged.
    fn reservations(&self, team: &Team) -> impl Iterator<Item = (Slot, Amount)> {
        self.open_calls(team)
            .map(|(call, open)| (charged_slot(call.role, call.work), open.progress.reserved()))
    }

    /// Charges the reservations of an attempt that ends: nobody saw the answers, so the full
    /// amounts count as spent.
    pub(crate) fn charge_reservations(&mut self, team: &Team, call: CallKey) {
        let Some(open) = self.open_call_mut(team, call) else {
            return;
        };
        for Reservation { amount, .. } in core::mem::take(&mut open.progress.reservations) {
            self.spent += amount.usd;
            self.ledger
                .entry(charged_slot(call.role, call.work))
                .or_default()
                .add_lost(amount);
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
        for (slot, amount) in self
            .reservations(team)
            .filter(|(_, amount)| *amount != Amount::ZERO)
        {
            account.spent += amount.usd;
            account.ledger.entry(slot).or_default().add_lost(amount);
        }
        account
    }

    /// Continues with another account; what was used up stays used up. Reservations are dropped
    /// here, because that account includes them.
    pub(crate) fn adopt_account(&mut self, account: &Account) {
        (self.spent, self.budget) = (account.spent, account.budget);
        self.for_each_activation_mut(&mut |_, activation| {
            activation.current_call.reservations.clear();
            let turns = activation.turns.reopen_all();
            for call in turns.flat_map(|turn| &mut turn.calls) {
                call.progress.reservations.clear();
                call.progress
                    .for_each_nested_mut(&mut |call| call.progress.reservations.clear());
            }
        });
        raise_to_maximum(&mut self.ledger, &account.ledger);
    }

    /// Returns what was spent without a record of the component. A file of another program only
    /// says how much was spent in total.
    fn unattributed_spending(&self) -> Usd {
        let known = self.spending(|_| true).usd;
        Usd(self.spent.0.saturating_sub(known.0))
    }
}
