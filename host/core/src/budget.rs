//! The budget: what was spent, by whom, and what may be. Money is reserved before a call and settled with its answer; a
//! call whose answer nobody saw counts as made, for all that was reserved.
//!
//! What a call costs is for the host to say.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::environment::Environment;
use crate::event::{HostCall, Work};
use crate::id::{ActionId, Part, RoleId, Slot};
use crate::money::Usd;
use crate::team::Team;

/// What may be used up in all, over all resumes; none for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Money.
    pub usd: Option<Usd>,
    /// Tokens of language models, of requests and replies together.
    pub tokens: Option<u64>,
}

/// What is capped beside the team's money.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purses {
    /// Tokens of the whole team.
    pub tokens: Option<u64>,
    /// What roles may use up.
    pub roles: BTreeMap<RoleId, Caps>,
    /// What actions may use up. That one of these is used up is for the action to handle.
    pub actions: BTreeMap<Slot, Caps>,
}

/// What was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// Money.
    pub usd: Usd,
    /// Tokens of language models.
    pub tokens: u64,
    /// Calls that were made.
    pub calls: u64,
    /// Calls that were served from the journal instead of being made again.
    pub served: u64,
    /// What those cost when they were made.
    pub saved: Usd,
}

/// Money that is held back for a call that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    /// A digest of its request, as in the record of its answer.
    pub request: String,
    /// How much.
    pub usd: Usd,
}

/// What was used up of what may be, as one lineage hands it on to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// What was spent.
    pub spent: Usd,
    /// What may be spent; none for no limit.
    pub budget: Option<Usd>,
    /// By whom.
    pub ledger: BTreeMap<Slot, Spending>,
}

impl Account {
    /// Takes in what another lineage knows of who used up what. Each has handed on to the next what it knew, so they
    /// add nothing up.
    pub fn learn(&mut self, other: &Self) {
        raise(&mut self.ledger, &other.ledger);
    }
}

/// The greater of both, each by itself.
fn raise(ledger: &mut BTreeMap<Slot, Spending>, other: &BTreeMap<Slot, Spending>) {
    for (slot, spending) in other {
        let own = ledger.entry(*slot).or_default();
        *own = own.at_least(spending);
    }
}

/// Whose budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purse {
    /// The team's: the run stops.
    Team,
    /// A role's: the role stops, and the run when the others have finished their step.
    Role(RoleId),
    /// An action's own: it is told, and may yet finish with what it has.
    Action(Slot),
}

impl Spending {
    /// A call was made.
    pub(crate) fn made(&mut self, call: &HostCall) {
        self.usd += call.cost;
        self.tokens = self.tokens.saturating_add(call.tokens);
        self.calls += 1;
    }

    /// A call was served from the journal.
    pub(crate) fn served(&mut self, call: &HostCall) {
        self.served += 1;
        self.saved += call.cost;
    }

    /// The greater of both in everything.
    fn at_least(self, other: &Self) -> Self {
        Self {
            usd: self.usd.max(other.usd),
            tokens: self.tokens.max(other.tokens),
            calls: self.calls.max(other.calls),
            served: self.served.max(other.served),
            saved: self.saved.max(other.saved),
        }
    }

    fn and(self, other: &Self) -> Self {
        Self {
            usd: self.usd + other.usd,
            tokens: self.tokens.saturating_add(other.tokens),
            calls: self.calls + other.calls,
            served: self.served + other.served,
            saved: self.saved + other.saved,
        }
    }

    fn exhausts(&self, caps: Caps) -> bool {
        caps.usd.is_some_and(|max| self.usd >= max) || caps.tokens.is_some_and(|max| self.tokens >= max)
    }
}

/// In whose name work spends.
pub fn spender(id: RoleId, work: Work) -> Slot {
    let part = match work {
        Work::Think { .. } => Part::Think,
        Work::Plan => Part::Action(ActionId(0)),
        // Nothing is spent in its name.
        Work::Answer => Part::Think,
        Work::Act { action, .. } => Part::Action(action),
    };
    Slot { role: id, part }
}

impl Environment {
    /// What was spent in all, by those for whom this holds; without what is reserved.
    pub fn spending(&self, whose: impl Fn(Slot) -> bool) -> Spending {
        let theirs = self.ledger.iter().filter(|(slot, _)| whose(**slot));
        theirs.fold(Spending::default(), |sum, (_, spending)| sum.and(spending))
    }

    /// Whose budget does not allow this work another call. What is under way counts as spent, and so does `also`, which
    /// is about to be.
    pub fn exhausted(&self, team: &Team, (id, work): (RoleId, Work), also: Usd) -> Option<Purse> {
        let (slot, purses) = (spender(id, work), &team.policy.purses);
        let used = |caps: Option<Caps>, whose: &dyn Fn(Slot) -> bool| {
            // Most teams have no caps, and this is asked before every call.
            caps.filter(|caps| *caps != Caps::default()).is_some_and(|caps| {
                let mut sum = self.spending(whose);
                sum.usd += self.reserved(team, whose) + also;
                sum.exhausts(caps)
            })
        };
        let budget = self.budget.map(|max| Usd(max.0.saturating_sub(self.unaccounted().0)));
        if used(Some(Caps { usd: budget, tokens: purses.tokens }), &|_| true) {
            Some(Purse::Team)
        } else if used(purses.roles.get(&id).copied(), &|at| at.role == id) {
            Some(Purse::Role(id))
        } else {
            used(purses.actions.get(&slot).copied(), &|at| at == slot).then_some(Purse::Action(slot))
        }
    }

    /// What is held back for calls that are under way, in the name of those for whom this holds.
    fn reserved(&self, team: &Team, whose: &dyn Fn(Slot) -> bool) -> Usd {
        self.held_back(team).filter(|(slot, _)| whose(*slot)).fold(Usd::ZERO, |sum, (_, usd)| sum + usd)
    }

    /// What is held back for calls that are under way, and in whose name.
    fn held_back(&self, team: &Team) -> impl Iterator<Item = (Slot, Usd)> {
        self.activations().filter_map(|(id, activation)| {
            let work = activation.work(team.role(id))?;
            Some((spender(id, work), activation.reserved()))
        })
    }

    /// An attempt ends while money is held back for a call of it: nobody saw the answer, so it counts as spent.
    pub(crate) fn forfeit(&mut self, id: RoleId, work: Work) {
        let Some(activation) = &mut self.roles[id.index()].activation else { return };
        for Reserved { usd, .. } in core::mem::take(&mut activation.current.reserved) {
            self.spent += usd;
            self.ledger.entry(spender(id, work)).or_default().usd += usd;
        }
    }

    /// The account as it stands.
    pub fn account(&self) -> Account {
        Account { spent: self.spent, budget: self.budget, ledger: self.ledger.clone() }
    }

    /// The account as it is left: nobody will see the answers to the calls that are under way, so they count as spent.
    pub fn account_left(&self, team: &Team) -> Account {
        let mut account = self.account();
        for (slot, held) in self.held_back(team).filter(|(_, held)| *held > Usd::ZERO) {
            account.spent += held;
            account.ledger.entry(slot).or_default().usd += held;
        }
        account
    }

    /// Goes on with another account: nothing that was used up comes back. What was held back here is settled there.
    pub(crate) fn charge(&mut self, account: &Account) {
        (self.spent, self.budget) = (account.spent, account.budget);
        let open = self.roles.iter_mut().filter_map(|role| role.activation.as_mut());
        open.for_each(|activation| activation.current.reserved.clear());
        raise(&mut self.ledger, &account.ledger);
    }

    /// What was spent in nobody's name: a file of another program says how much, and not by whom.
    fn unaccounted(&self) -> Usd {
        let known = self.spending(|_| true).usd;
        Usd(self.spent.0.saturating_sub(known.0))
    }
}

impl Activation {
    /// The money that is held back for calls of the attempt it is at.
    pub fn reserved(&self) -> Usd {
        self.current.reserved.iter().fold(Usd::ZERO, |sum, reserved| sum + reserved.usd)
    }

    /// A call came back: what was held back for it is free.
    pub(crate) fn release(&mut self, request: &str) {
        let at = self.current.reserved.iter().position(|reserved| reserved.request == request);
        at.into_iter().for_each(|at| drop(self.current.reserved.remove(at)));
    }
}
