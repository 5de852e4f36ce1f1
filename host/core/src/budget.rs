//! The budget: what was spent, by whom, and what may be. Money and tokens are reserved before a call and settled with its
//! answer; a call whose answer nobody saw counts as made, for all that was reserved.
//!
//! What a call costs is for the host to say.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use core::ops::Add;

use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::environment::Environment;
use crate::event::{HostCall, Work};
use crate::host_call::{Finish, Flaw};
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

impl Purses {
    /// Whether tokens are capped anywhere.
    pub fn cap_tokens(&self) -> bool {
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
    /// Calls that were made.
    pub calls: u64,
    /// Calls that were served from the journal instead of being made again.
    pub served: u64,
    /// What those cost when they were made.
    pub saved: Usd,
    /// Replies of language models that were truncated.
    pub truncated: u64,
    /// Replies of language models that were refused or filtered.
    pub refused: u64,
}

/// What a call uses up, or may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Money.
    pub usd: Usd,
    /// Tokens of language models.
    pub tokens: u64,
}

/// What is held back for a call that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Recorded", into = "Recorded")]
pub struct Reserved {
    /// A digest of its request, as in the record of its answer.
    pub request: String,
    /// How much.
    pub amount: Amount,
}

/// How that is recorded. Tokens were not held back from the beginning, and the fields of a record stay as they are: they
/// are written behind the digest, where there are any.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename = "Reserved")]
struct Recorded {
    request: String,
    usd: Usd,
}

/// What stands between a digest and tokens.
const AND_TOKENS: char = '+';

impl From<Reserved> for Recorded {
    fn from(
        Reserved {
            mut request,
            amount,
        }: Reserved,
    ) -> Self {
        if amount.tokens > 0 || request.contains(AND_TOKENS) {
            request.push(AND_TOKENS);
            request.push_str(&amount.tokens.to_string());
        }
        Self {
            request,
            usd: amount.usd,
        }
    }
}

impl From<Recorded> for Reserved {
    fn from(Recorded { request, usd }: Recorded) -> Self {
        let tokens =
            |(digest, tokens): (&str, &str)| Some((digest.to_owned(), tokens.parse().ok()?));
        let (request, tokens) = request
            .rsplit_once(AND_TOKENS)
            .and_then(tokens)
            .unwrap_or((request, 0));
        Self {
            request,
            amount: Amount { usd, tokens },
        }
    }
}

impl Amount {
    /// Nothing.
    pub const NONE: Self = Self {
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
    /// This much was used up.
    fn took(&mut self, amount: Amount) {
        self.usd += amount.usd;
        self.tokens = self.tokens.saturating_add(amount.tokens);
    }

    /// A call was made.
    pub(crate) fn made(&mut self, call: &HostCall) {
        self.took(Amount {
            usd: call.cost,
            tokens: call.tokens,
        });
        self.calls += 1;
        match call.finish.and_then(Finish::flaw) {
            Some(Flaw::Truncated) => self.truncated += 1,
            Some(Flaw::Refused) => self.refused += 1,
            None => {}
        }
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
            truncated: self.truncated.max(other.truncated),
            refused: self.refused.max(other.refused),
        }
    }

    fn and(self, other: &Self) -> Self {
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

    fn exhausts(&self, caps: Caps) -> bool {
        caps.usd.is_some_and(|max| self.usd >= max)
            || caps.tokens.is_some_and(|max| self.tokens >= max)
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
    pub fn exhausted(&self, team: &Team, at: (RoleId, Work), also: Amount) -> Option<Purse> {
        self.first_used_up(team, at, &|whose| self.reserved(team, whose) + also)
    }

    /// Whose budget does not allow this work another call, whatever becomes of those under way: only what was spent counts.
    pub fn spent_out(&self, team: &Team, at: (RoleId, Work)) -> Option<Purse> {
        self.first_used_up(team, at, &|_| Amount::NONE)
    }

    /// The widest purse of this work that is used up, with `more` added to what those who share it spent.
    fn first_used_up(
        &self,
        team: &Team,
        (id, work): (RoleId, Work),
        more: &dyn Fn(&dyn Fn(Slot) -> bool) -> Amount,
    ) -> Option<Purse> {
        let (slot, purses) = (spender(id, work), &team.policy.purses);
        let used = |caps: Option<Caps>, whose: &dyn Fn(Slot) -> bool| {
            self.uses_up(caps, whose, || more(whose))
        };
        let budget = self
            .budget
            .map(|max| Usd(max.0.saturating_sub(self.unaccounted().0)));
        if used(
            Some(Caps {
                usd: budget,
                tokens: purses.tokens,
            }),
            &|_| true,
        ) {
            Some(Purse::Team)
        } else if used(purses.roles.get(&id).copied(), &|at| at.role == id) {
            Some(Purse::Role(id))
        } else {
            used(purses.actions.get(&slot).copied(), &|at| at == slot)
                .then_some(Purse::Action(slot))
        }
    }

    /// Whether the budget of the action itself, that of nobody else, does not allow this work another call.
    pub fn own_is_exhausted(&self, team: &Team, (id, work): (RoleId, Work)) -> bool {
        let slot = spender(id, work);
        let whose = |at| at == slot;
        self.uses_up(
            team.policy.purses.actions.get(&slot).copied(),
            &whose,
            || self.reserved(team, &whose),
        )
    }

    /// Whether these have used up as much as they may, with what is to be added to what they spent.
    fn uses_up(
        &self,
        caps: Option<Caps>,
        whose: &dyn Fn(Slot) -> bool,
        more: impl FnOnce() -> Amount,
    ) -> bool {
        // Most teams have no caps, and this is asked before every call.
        caps.filter(|caps| *caps != Caps::default())
            .is_some_and(|caps| {
                let mut sum = self.spending(whose);
                sum.took(more());
                sum.exhausts(caps)
            })
    }

    /// What is held back for calls that are under way, in the name of those for whom this holds.
    fn reserved(&self, team: &Team, whose: &dyn Fn(Slot) -> bool) -> Amount {
        self.held_back(team)
            .filter(|(slot, _)| whose(*slot))
            .fold(Amount::NONE, |sum, (_, held)| sum + held)
    }

    /// What is held back for calls that are under way, and in whose name.
    fn held_back(&self, team: &Team) -> impl Iterator<Item = (Slot, Amount)> {
        self.activations().filter_map(|(id, activation)| {
            let work = activation.work(team.role(id))?;
            Some((spender(id, work), activation.reserved()))
        })
    }

    /// An attempt ends while something is held back for a call of it: nobody saw the answer, so it counts as spent.
    pub(crate) fn forfeit(&mut self, id: RoleId, work: Work) {
        let Some(activation) = &mut self.roles[id.index()].activation else {
            return;
        };
        for Reserved { amount, .. } in core::mem::take(&mut activation.current.reserved) {
            self.spent += amount.usd;
            self.ledger
                .entry(spender(id, work))
                .or_default()
                .took(amount);
        }
    }

    /// The account as it stands.
    pub fn account(&self) -> Account {
        Account {
            spent: self.spent,
            budget: self.budget,
            ledger: self.ledger.clone(),
        }
    }

    /// The account as it is left: nobody will see the answers to the calls that are under way, so they count as spent.
    pub fn account_left(&self, team: &Team) -> Account {
        let mut account = self.account();
        for (slot, held) in self
            .held_back(team)
            .filter(|(_, held)| *held != Amount::NONE)
        {
            account.spent += held.usd;
            account.ledger.entry(slot).or_default().took(held);
        }
        account
    }

    /// Goes on with another account: nothing that was used up comes back. What was held back here is settled there.
    pub(crate) fn charge(&mut self, account: &Account) {
        (self.spent, self.budget) = (account.spent, account.budget);
        let open = self
            .roles
            .iter_mut()
            .filter_map(|role| role.activation.as_mut());
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
    /// What is held back for calls of the attempt it is at.
    pub fn reserved(&self) -> Amount {
        self.current
            .reserved
            .iter()
            .fold(Amount::NONE, |sum, reserved| sum + reserved.amount)
    }

    /// A call came back: what was held back for it is free.
    pub(crate) fn release(&mut self, request: &str) {
        let at = self
            .current
            .reserved
            .iter()
            .position(|reserved| reserved.request == request);
        at.into_iter()
            .for_each(|at| drop(self.current.reserved.remove(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_is_recorded_as_it_was_before_tokens_were() {
        let check = |request: &str, tokens, recorded: &str| {
            let reserved = Reserved {
                request: request.into(),
                amount: Amount {
                    usd: Usd(7),
                    tokens,
                },
            };
            let bytes = postcard::to_allocvec(&reserved).unwrap();
            assert_eq!(bytes, postcard::to_allocvec(&(recorded, 7_u64)).unwrap());
            assert_eq!(postcard::from_bytes::<Reserved>(&bytes).unwrap(), reserved);
        };
        check("ab12", 0, "ab12");
        check("ab12", 300, "ab12+300");
        check("a+5", 0, "a+5+0");
        let old = postcard::to_allocvec(&("ab12", 7_u64)).unwrap();
        let held = Reserved {
            request: "ab12".into(),
            amount: Amount {
                usd: Usd(7),
                tokens: 0,
            },
        };
        assert_eq!(postcard::from_bytes::<Reserved>(&old).unwrap(), held);
    }
}
