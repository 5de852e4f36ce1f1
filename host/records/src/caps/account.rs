//! What a process knows of one cap, and what it may spend of it.

use strata_core::record::money::Usd;

use super::{CapDraw, CapReturn};

/// After how many heartbeats without a call what was drawn is given back: other processes may need it.
const IDLE_HEARTBEATS: u32 = 5;

/// What is known of a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CapKnowledge {
    /// The database has not been asked.
    #[default]
    Unknown,
    Absent,
    Present {
        generation: i64,
    },
}

/// What a process knows of one cap, and what it may spend of it.
#[derive(Debug, Default)]
pub(crate) struct CapAccount {
    knowledge: CapKnowledge,
    /// What was drawn, and no call is charged with. Negative if calls cost more than was expected.
    unspent: i128,
    /// What calls under way are charged with.
    charged: u128,
    /// Whether anything was drawn and not given back.
    has_drawn: bool,
    /// What cannot be spent any more because it is being given back. Whether it was is not known before the
    /// database has answered.
    returning: Option<i128>,
    idle_heartbeats: u32,
    /// Whether the database had too little. It is asked again after the next heartbeat.
    is_blocked: bool,
    /// How many runs of this process belong to its scope.
    pub runs: u32,
}

/// Whether an account allows a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountAnswer {
    NoCap,
    Enough { generation: i64 },
    Short,
    Blocked,
}

impl CapAccount {
    /// Returns whether a call may be charged.
    pub fn answer(&self, usd: Usd) -> AccountAnswer {
        match self.knowledge {
            CapKnowledge::Absent => AccountAnswer::NoCap,
            CapKnowledge::Present { generation } if self.unspent >= i128::from(usd.0) => {
                AccountAnswer::Enough { generation }
            }
            _ if self.is_blocked => AccountAnswer::Blocked,
            _ => AccountAnswer::Short,
        }
    }

    /// Charges a call that may be charged.
    pub fn charge(&mut self, usd: Usd) {
        self.unspent -= i128::from(usd.0);
        self.charged += u128::from(usd.0);
        self.idle_heartbeats = 0;
    }

    /// Replaces what a call was charged with by what it cost. What was drawn from a cap counts for no later one
    /// of the same scope.
    pub fn complete(&mut self, generation: i64, charged: Usd, cost: Usd) {
        if self.knowledge != (CapKnowledge::Present { generation }) {
            return;
        }
        self.charged = self.charged.saturating_sub(u128::from(charged.0));
        self.unspent += i128::from(charged.0) - i128::from(cost.0);
        self.idle_heartbeats = 0;
        self.is_blocked = false;
    }

    /// Returns how much has to be drawn before a call of this cost may be charged; `None` if nothing has.
    pub fn needed(&self, usd: Usd) -> Option<Usd> {
        match self.answer(usd) {
            AccountAnswer::NoCap | AccountAnswer::Enough { .. } | AccountAnswer::Blocked => None,
            AccountAnswer::Short => {
                let missing = i128::from(usd.0) - self.unspent;
                (missing > 0).then(|| Usd(u64::try_from(missing).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Notes what was drawn. Returns the cap if it is used up: nothing that calls under way are charged with can
    /// become free any more.
    pub(crate) fn note_draw(&mut self, drawn: CapDraw) -> Option<Usd> {
        match drawn {
            CapDraw::NoCap => self.learn(CapKnowledge::Absent),
            CapDraw::Drawn { usd, generation } => {
                self.learn(CapKnowledge::Present { generation });
                self.unspent += i128::from(usd.0);
                self.has_drawn = true;
                // It may have been given back, so it counts as spent. What calls cost beyond what was expected
                // is not forgotten.
                self.unspent += self.returning.take().unwrap_or(0).min(0);
                self.idle_heartbeats = 0;
                self.is_blocked = false;
            }
            CapDraw::UsedUp { cap } if self.charged == 0 => return Some(cap),
            CapDraw::UsedUp { .. } | CapDraw::HeldByOthers => self.is_blocked = true,
        }
        None
    }

    /// Notes the generation of the cap, if there is one.
    pub fn note_heartbeat(&mut self, generation: Option<i64>) {
        self.unblock();
        self.learn(match generation {
            Some(generation) => CapKnowledge::Present { generation },
            None => CapKnowledge::Absent,
        });
        self.idle_heartbeats = self.idle_heartbeats.saturating_add(1);
    }

    /// Lets calls ask again that wait for a heartbeat.
    pub(crate) fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// Whether its slice is to be kept: something was drawn, and is not known to have been given back.
    pub(crate) fn holds_slice(&self) -> bool {
        self.has_drawn || self.returning.is_some()
    }

    /// Returns what was drawn and is not known to be spent.
    pub fn drawn(&self) -> i64 {
        let unspent = (self.unspent + self.returning.unwrap_or(0).max(0))
            .max(0)
            .unsigned_abs();
        i64::try_from(self.charged.saturating_add(unspent)).unwrap_or(i64::MAX)
    }

    /// Whether something should be given back: no run is left that may need it, or no call has needed it for a
    /// while.
    pub(crate) fn should_give_back(&self) -> bool {
        let is_idle = self.idle_heartbeats >= IDLE_HEARTBEATS && self.charged == 0;
        self.holds_slice() && (self.runs == 0 || is_idle)
    }

    /// Whether nothing is lost if it is removed.
    pub fn is_empty(&self) -> bool {
        self.runs == 0 && self.charged == 0 && !self.holds_slice()
    }

    /// Returns what is to be given back, unless nothing was drawn. It cannot be spent any more, and is returned
    /// again until `note_given_back`.
    pub fn close(&mut self) -> Option<CapReturn> {
        let CapKnowledge::Present { generation } = self.knowledge else {
            return None;
        };
        if std::mem::take(&mut self.has_drawn) {
            self.returning = Some(std::mem::take(&mut self.unspent));
        }
        self.returning.map(|unspent| CapReturn {
            generation,
            unspent,
        })
    }

    /// Notes that what `close` returned was given back.
    pub(crate) fn note_given_back(&mut self) {
        self.returning = None;
    }

    fn learn(&mut self, knowledge: CapKnowledge) {
        if self.knowledge != knowledge {
            *self = Self {
                knowledge,
                runs: self.runs,
                ..Self::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_generation(generation: i64, usd: u64) -> CapDraw {
        CapDraw::Drawn {
            usd: Usd(usd),
            generation,
        }
    }

    fn given_back(unspent: i128) -> Option<CapReturn> {
        Some(CapReturn {
            generation: 1,
            unspent,
        })
    }

    fn drawn(usd: u64) -> CapAccount {
        let mut account = CapAccount::default();
        assert_eq!(account.answer(Usd(1)), AccountAnswer::Short);
        assert_eq!(account.note_draw(of_generation(1, usd)), None);
        account
    }

    #[test]
    fn a_call_is_charged_with_what_it_is_expected_to_cost_and_then_with_what_it_cost() {
        let mut account = drawn(10);
        assert_eq!(
            account.answer(Usd(10)),
            AccountAnswer::Enough { generation: 1 }
        );
        account.charge(Usd(7));
        assert_eq!(account.answer(Usd(4)), AccountAnswer::Short);
        assert_eq!(account.needed(Usd(4)), Some(Usd(1)));
        account.complete(1, Usd(7), Usd(2));
        assert_eq!(
            account.answer(Usd(8)),
            AccountAnswer::Enough { generation: 1 }
        );
        // One that costs more is made up for by the next draw.
        account.charge(Usd(8));
        account.complete(1, Usd(8), Usd(11));
        assert_eq!(account.needed(Usd(4)), Some(Usd(7)));
        assert_eq!(account.close(), given_back(-3));
    }

    #[test]
    fn what_could_not_be_given_back_is_reported_and_what_was_overspent_is_not_forgotten() {
        let mut account = drawn(10);
        assert_eq!(account.close(), given_back(10));
        assert_eq!(account.drawn(), 10);
        assert!(account.holds_slice());
        account.note_given_back();
        assert_eq!((account.drawn(), account.holds_slice()), (0, false));
        let mut account = drawn(10);
        account.charge(Usd(10));
        account.complete(1, Usd(10), Usd(14));
        assert_eq!(account.close(), given_back(-4));
        account.note_draw(of_generation(1, 10));
        assert_eq!(account.answer(Usd(7)), AccountAnswer::Short);
        assert_eq!(account.needed(Usd(7)), Some(Usd(1)));
    }

    #[test]
    fn what_arrives_late_is_not_idle() {
        let mut account = drawn(10);
        for _ in 0..IDLE_HEARTBEATS {
            account.note_heartbeat(Some(1));
        }
        account.runs = 1;
        assert!(account.should_give_back());
        account.note_draw(of_generation(1, 5));
        assert!(!account.should_give_back());
    }

    #[test]
    fn a_cap_is_used_up_only_when_no_call_is_under_way() {
        let used_up = CapDraw::UsedUp { cap: Usd(20) };
        let mut account = drawn(10);
        account.charge(Usd(10));
        assert_eq!(account.note_draw(used_up), None);
        assert_eq!(account.answer(Usd(5)), AccountAnswer::Blocked);
        assert_eq!(account.needed(Usd(5)), None);
        account.complete(1, Usd(10), Usd(10));
        assert_eq!(account.answer(Usd(5)), AccountAnswer::Short);
        assert_eq!(account.note_draw(used_up), Some(Usd(20)));
    }

    #[test]
    fn the_database_is_asked_again_after_a_heartbeat() {
        let mut account = drawn(10);
        assert_eq!(account.note_draw(CapDraw::HeldByOthers), None);
        assert_eq!(account.answer(Usd(11)), AccountAnswer::Blocked);
        assert_eq!(
            account.answer(Usd(10)),
            AccountAnswer::Enough { generation: 1 }
        );
        account.note_heartbeat(Some(1));
        assert_eq!(account.answer(Usd(11)), AccountAnswer::Short);
    }

    #[test]
    fn what_is_not_used_for_a_while_is_given_back_once() {
        let mut account = drawn(10);
        account.runs = 1;
        account.charge(Usd(4));
        for _ in 0..2 * IDLE_HEARTBEATS {
            account.note_heartbeat(Some(1));
            assert!(!account.should_give_back(), "a call is under way");
        }
        account.complete(1, Usd(4), Usd(1));
        for _ in 1..IDLE_HEARTBEATS {
            account.note_heartbeat(Some(1));
            assert!(!account.should_give_back());
        }
        account.note_heartbeat(Some(1));
        assert!(account.should_give_back());
        assert_eq!(account.close(), given_back(9));
        assert_eq!(account.answer(Usd(1)), AccountAnswer::Short);
        assert!(account.should_give_back(), "nobody has answered");
        assert_eq!(account.close(), given_back(9));
        account.note_given_back();
        assert!(!account.should_give_back());
        assert_eq!(account.close(), None);
    }

    #[test]
    fn what_may_have_been_given_back_is_not_given_back_together_with_a_later_draw() {
        let mut account = drawn(10);
        assert_eq!(account.close(), given_back(10));
        assert_eq!(account.note_draw(of_generation(1, 3)), None);
        assert_eq!(account.close(), given_back(3));
    }

    #[test]
    fn what_was_drawn_and_is_not_known_to_be_spent_is_reported() {
        let mut account = drawn(10);
        account.charge(Usd(7));
        assert_eq!(account.drawn(), 10);
        account.complete(1, Usd(7), Usd(2));
        assert_eq!(account.drawn(), 8);
    }

    #[test]
    fn what_was_drawn_from_a_cap_that_was_reset_counts_for_nothing() {
        let mut account = drawn(10);
        account.charge(Usd(4));
        assert_eq!(account.note_draw(of_generation(2, 5)), None);
        account.complete(1, Usd(4), Usd(0));
        assert_eq!((account.unspent, account.charged), (5, 0));
        account.note_heartbeat(Some(3));
        assert_eq!(account.answer(Usd(1)), AccountAnswer::Short);
        assert_eq!(account.close(), None);
    }

    #[test]
    fn what_was_drawn_from_a_cap_that_was_removed_counts_for_no_later_one() {
        let mut account = drawn(10);
        account.charge(Usd(4));
        account.note_heartbeat(None);
        assert_eq!(account.answer(Usd(1_000)), AccountAnswer::NoCap);
        account.note_heartbeat(Some(2));
        account.complete(1, Usd(4), Usd(0));
        assert_eq!(account.answer(Usd(1)), AccountAnswer::Short);
        assert_eq!(account.close(), None);
    }
}
