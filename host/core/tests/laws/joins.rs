//! Joins: what enters a join leaves it in order and once, together with what the mode of the join
//! says, and is handled as the join says.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use strata_core::record::event::{Event, JoinRelease, JoinReleased, RoutingResult, StepCommitted};
use strata_core::record::id::{JoinId, MessageId, RoleId};
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_core::state::environment::Mail;
use strata_core::team::Team;

use crate::lifecycle::{FaultSchedule, ResumeChange, SimulatedRun};
use crate::script::{RecipientChoice, Script};
use crate::teams::{any_team, cases};

const SOME_FAULTS: FaultSchedule = FaultSchedule {
    kills: 2,
    stops: 1,
    mail: 3,
    resumes: 3,
    change: ResumeChange::Everything,
};

/// What waits in the joins of a run according to its events, by source.
#[derive(Default)]
struct ExpectedQueues(BTreeMap<(JoinId, RoleId), VecDeque<MessageId>>);

impl ExpectedQueues {
    fn buffered(&mut self, routed: &RoutingResult) {
        for join in &routed.joins {
            let from = routed.from.expect("nothing gets into a join from outside");
            self.0
                .entry((*join, from))
                .or_default()
                .push_back(routed.id.clone());
        }
    }

    /// Returns whether the messages that were released are the oldest of their senders.
    fn has(&self, JoinRelease { join, messages, .. }: &JoinRelease) -> bool {
        messages
            .iter()
            .all(|(from, id)| self.0.get(&(*join, *from)).and_then(VecDeque::front) == Some(id))
    }

    /// Removes the released messages, which must be the oldest of each sender.
    fn released(
        &mut self,
        JoinRelease {
            join,
            messages,
            into,
            ..
        }: &JoinRelease,
    ) {
        for (from, id) in messages {
            let oldest = self
                .0
                .get_mut(&(*join, *from))
                .and_then(VecDeque::pop_front);
            assert_eq!(
                oldest.as_ref(),
                Some(id),
                "the oldest message of its sender leaves"
            );
        }
        if let Some(next) = into {
            for (from, id) in messages {
                let queue = self.0.entry((*next, *from)).or_default();
                if !queue.contains(id) {
                    queue.push_back(id.clone());
                }
            }
        }
    }
}

/// Returns whether the sources of a release are those required by the mode of the join, in its
/// order.
fn fits(team: &Team, JoinRelease { join, messages, .. }: &JoinRelease) -> bool {
    let join = team.join(*join);
    let sources: Vec<RoleId> = messages.iter().map(|(from, _)| *from).collect();
    let places: Vec<usize> = sources
        .iter()
        .filter_map(|source| join.source_index(*source))
        .collect();
    let count = match join.mode {
        JoinMode::All => join.from.len()..=join.from.len(),
        JoinMode::Any => 1..=1,
        JoinMode::Active => 1..=usize::MAX,
    };
    let once = |a: &usize, b: &usize| a < b || (a == b && join.mode == JoinMode::Active);
    places.len() == sources.len() && places.is_sorted_by(once) && count.contains(&places.len())
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn what_gets_into_a_join_leaves_it_in_order_and_at_most_once(team in any_team(), seed: u64, order: u64) {
        let script = Script { seed, address: RecipientChoice::Often, failure_percent: 15 };
        let run = SimulatedRun::complete(&team, script, SOME_FAULTS, order);
        let mut ledger = ExpectedQueues::default();
        for (event, state) in run.log.iter().zip(&run.states) {
            match event {
                Event::StepCommitted(StepCommitted { routed, released, .. }) => {
                    // A join fires at the message that completes it.
                    let mut left = released.iter().peekable();
                    for routed in routed {
                        ledger.buffered(routed);
                        while let Some(released) = left.next_if(|released| ledger.has(released)) {
                            ledger.released(released);
                        }
                    }
                    left.for_each(|released| ledger.released(released));
                    prop_assert!(released.iter().all(|released| fits(&team, released)));
                    let by_itself = |released: &JoinRelease| team.join(released.join).mode == JoinMode::Active;
                    prop_assert!(!released.iter().any(by_itself), "an active join waits until all is quiet");
                }
                Event::JoinReleased(JoinReleased { released }) => {
                    released.iter().for_each(|released| ledger.released(released));
                    prop_assert!(released.iter().all(|released| fits(&team, released)));
                    let modes: Vec<JoinMode> = released.iter().map(|released| team.join(released.join).mode).collect();
                    prop_assert!(modes[0] == JoinMode::Active && !modes[1..].contains(&JoinMode::Active));
                }
                _ => {}
            }
            for id in team.join_ids() {
                for (source, queue) in team.join(id).from.iter().zip(&state.joins[id.index()].queues) {
                    let waiting = queue.iter().map(|message| &state.message(*message).id);
                    prop_assert!(waiting.eq(ledger.0.get(&(id, *source)).into_iter().flatten()));
                }
            }
        }
    }

    #[test]
    fn what_is_to_be_handled_alone_is_handled_alone(team in any_team(), seed: u64, order: u64) {
        let run = SimulatedRun::complete(&team, Script { seed, address: RecipientChoice::Often, failure_percent: 15 }, SOME_FAULTS, order);
        for pair in run.states.windows(2) {
            let rules = &pair[0].rules.roles;
            for ((before, after), rules) in pair[0].roles.iter().zip(&pair[1].roles).zip(rules) {
                let (None, Some(opened)) = (&before.activation, &after.activation) else { continue };
                let (taken, left) = before.mailbox.split_at(opened.news.len());
                prop_assert!(taken.iter().map(|mail| mail.message).eq(opened.news.iter().copied()));
                prop_assert_eq!(left, &after.mailbox[..]);
                let is_alone = |mail: &Mail| mail.deliver == DeliveryMode::Each || rules.deliver == DeliveryMode::Each;
                let alone = taken.iter().any(is_alone);
                prop_assert_eq!(alone, taken.len() == 1 && is_alone(&taken[0]));
                prop_assert!(alone || left.first().is_none_or(is_alone), "no more than needed");
            }
        }
    }
}
