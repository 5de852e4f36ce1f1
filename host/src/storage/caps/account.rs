//! What a process knows of one cap, and what it may spend of it.

use strata_core::record::money::Usd;

use super::CapDraw;

/// After how many heartbeats without a call what was drawn is given back: other processes may need it.
const IDLE_HEARTBEATS: u32 = 5;

/// What is known of a cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CapKnowledge {
    /// The database has not been asked.
    #[default]
    Unknown,
    Absent,
    Present,
}

/// What a process knows of one cap, and what it may spend of it.
#[derive(Debug, Default)]
pub(super) struct CapAccount {
    knowledge: CapKnowledge,
    /// Rises when the cap is found to have been removed. What was drawn from it counts for no later one.
    era: u64,
    /// What was drawn, and no call is charged with. Negative if calls cost more than was expected.
    unspent: i128,
    /// What calls under way are charged with.
    charged: u128,
    /// Whether anything was drawn and not given back.
    has_drawn: bool,
    idle_heartbeats: u32,
    /// Whether the database had too little. It is asked again after the next heartbeat.
    is_blocked: bool,
    /// How many runs of this process belong to its scope.
    pub(super) runs: u32,
}

/// Whether an account allows a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountAnswer {
    NoCap,
    Enough { era: u64 },
    Short,
    Blocked,
}

impl CapAccount {
    /// Returns whether a call may be charged.
    pub(super) fn answer(&self, usd: Usd) -> AccountAnswer {
        match self.knowledge {
            CapKnowledge::Absent => AccountAnswer::NoCap,
            CapKnowledge::Present if self.unspent >= i128::from(usd.0) => {
                AccountAnswer::Enough { era: self.era }
            }
            _ if self.is_blocked => AccountAnswer::Blocked,
            _ => AccountAnswer::Short,
        }
    }

    /// Charges a call that may be charged.
    pub(super) fn charge(&mut self, usd: Usd) {
        self.unspent -= i128::from(usd.0);
        self.charged += u128::from(usd.0);
        self.idle_heartbeats = 0;
    }

    /// Replaces what a call was charged with by what it cost.
    pub(super) fn complete(&mut self, era: u64, charged: Usd, cost: Usd) {
        if era != self.era {
            return;
        }
        self.charged = self.charged.saturating_sub(u128::from(charged.0));
        self.unspent += i128::from(charged.0) - i128::from(cost.0);
        self.idle_heartbeats = 0;
        self.is_blocked = false;
    }

    /// Returns how much has to be drawn before a call of this cost may be charged; `None` if nothing has.
    pub(super) fn needed(&self, usd: Usd) -> Option<Usd> {
        match self.answer(usd) {
            AccountAnswer::NoCap | AccountAnswer::Enough { .. } | AccountAnswer::Blocked => None,
            AccountAnswer::Short => {
                let missing = i128::from(usd.0) - self.unspent;
                Some(Usd(u64::try_from(missing).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Notes what was drawn. Returns the cap if it is used up: nothing that calls under way are charged with can
    /// become free any more.
    pub(super) fn note_draw(&mut self, drawn: CapDraw) -> Option<Usd> {
        match drawn {
            CapDraw::NoCap => self.forget_cap(),
            CapDraw::Drawn(usd) => {
                self.knowledge = CapKnowledge::Present;
                self.unspent += i128::from(usd.0);
                self.has_drawn = true;
            }
            CapDraw::UsedUp { cap } if self.charged == 0 => return Some(cap),
            CapDraw::UsedUp { .. } | CapDraw::HeldByOthers => self.is_blocked = true,
        }
        None
    }

    /// Notes whether there is a cap. Returns what is to be given back, if it has not been used for a while.
    pub(super) fn note_heartbeat(&mut self, is_capped: bool) -> Option<i128> {
        self.is_blocked = false;
        if !is_capped {
            self.forget_cap();
            return None;
        }
        self.knowledge = CapKnowledge::Present;
        self.idle_heartbeats = self.idle_heartbeats.saturating_add(1);
        match self.idle_heartbeats >= IDLE_HEARTBEATS && self.charged == 0 {
            true => self.close(),
            false => None,
        }
    }

    /// Returns what is to be given back, unless nothing was drawn. Nothing is left then.
    pub(super) fn close(&mut self) -> Option<i128> {
        let has_drawn = std::mem::take(&mut self.has_drawn);
        let unspent = std::mem::take(&mut self.unspent);
        has_drawn.then_some(unspent)
    }

    fn forget_cap(&mut self) {
        if self.has_drawn {
            self.era += 1;
        }
        *self = Self {
            knowledge: CapKnowledge::Absent,
            era: self.era,
            runs: self.runs,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(usd: u64) -> CapAccount {
        let mut account = CapAccount::default();
        assert_eq!(account.answer(Usd(1)), AccountAnswer::Short);
        assert_eq!(account.note_draw(CapDraw::Drawn(Usd(usd))), None);
        account
    }

    #[test]
    fn a_call_is_charged_with_what_it_is_expected_to_cost_and_then_with_what_it_cost() {
        let mut account = drawn(10);
        assert_eq!(account.answer(Usd(10)), AccountAnswer::Enough { era: 0 });
        account.charge(Usd(7));
        assert_eq!(account.answer(Usd(4)), AccountAnswer::Short);
        assert_eq!(account.needed(Usd(4)), Some(Usd(1)));
        account.complete(0, Usd(7), Usd(2));
        assert_eq!(account.answer(Usd(8)), AccountAnswer::Enough { era: 0 });
        // One that costs more is made up for by the next draw.
        account.charge(Usd(8));
        account.complete(0, Usd(8), Usd(11));
        assert_eq!(account.needed(Usd(4)), Some(Usd(7)));
        assert_eq!(account.close(), Some(-3));
    }

    #[test]
    fn a_cap_is_used_up_only_when_no_call_is_under_way() {
        let used_up = CapDraw::UsedUp { cap: Usd(20) };
        let mut account = drawn(10);
        account.charge(Usd(10));
        assert_eq!(account.note_draw(used_up), None);
        assert_eq!(account.answer(Usd(5)), AccountAnswer::Blocked);
        assert_eq!(account.needed(Usd(5)), None);
        account.complete(0, Usd(10), Usd(10));
        assert_eq!(account.answer(Usd(5)), AccountAnswer::Short);
        assert_eq!(account.note_draw(used_up), Some(Usd(20)));
    }

    #[test]
    fn the_database_is_asked_again_after_a_heartbeat() {
        let mut account = drawn(10);
        assert_eq!(account.note_draw(CapDraw::HeldByOthers), None);
        assert_eq!(account.answer(Usd(11)), AccountAnswer::Blocked);
        assert_eq!(account.answer(Usd(10)), AccountAnswer::Enough { era: 0 });
        account.note_heartbeat(true);
        assert_eq!(account.answer(Usd(11)), AccountAnswer::Short);
    }

    #[test]
    fn what_is_not_used_for_a_while_is_given_back_once() {
        let mut account = drawn(10);
        account.charge(Usd(4));
        for _ in 0..2 * IDLE_HEARTBEATS {
            assert_eq!(account.note_heartbeat(true), None, "a call is under way");
        }
        account.complete(0, Usd(4), Usd(1));
        for _ in 1..IDLE_HEARTBEATS {
            assert_eq!(account.note_heartbeat(true), None);
        }
        assert_eq!(account.note_heartbeat(true), Some(9));
        for _ in 0..2 * IDLE_HEARTBEATS {
            assert_eq!(account.note_heartbeat(true), None);
        }
        assert_eq!(account.answer(Usd(1)), AccountAnswer::Short);
    }

    #[test]
    fn what_was_drawn_from_a_cap_that_was_removed_counts_for_no_later_one() {
        let mut account = drawn(10);
        account.charge(Usd(4));
        account.note_heartbeat(false);
        assert_eq!(account.answer(Usd(1_000)), AccountAnswer::NoCap);
        account.note_heartbeat(true);
        account.complete(0, Usd(4), Usd(0));
        assert_eq!(account.answer(Usd(1)), AccountAnswer::Short);
        assert_eq!(account.close(), None);
    }
}
