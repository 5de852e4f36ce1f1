//! The turns of an activation, and which of them may still change.

use alloc::vec::Vec;
use core::ops::Deref;

use serde::{Deserialize, Serialize, Serializer};

use super::Turn;
use super::kept_bytes::turn_bytes;
use super::made_calls::MadeCalls;

/// The turns of an activation, oldest first. It remembers up to which turn all are complete, so that
/// the work for an event does not grow with the number of turns.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Vec<Turn>")]
pub struct Conversation {
    turns: Vec<Turn>,
    /// How many turns at the start are certainly complete. The next ones may be complete, too.
    complete: usize,
    /// The size of these turns; see `state::kept_bytes`.
    complete_bytes: u64,
    /// The calls that were made in these turns.
    complete_calls: MadeCalls,
}

impl Conversation {
    /// Appends a turn.
    pub(crate) fn push(&mut self, turn: Turn) {
        self.advance();
        self.turns.push(turn);
    }

    /// Notes which turns have become complete.
    fn advance(&mut self) {
        let complete = self.complete_len();
        for turn in &self.turns[self.complete..complete] {
            self.complete_bytes += turn_bytes(turn);
            self.complete_calls.add_turn(turn);
        }
        self.complete = complete;
    }

    /// Returns the size of the turns. The work does not grow with the number of those that are complete.
    pub(crate) fn kept_bytes(&self) -> u64 {
        let others = self.turns[self.complete..].iter();
        self.complete_bytes + others.map(turn_bytes).sum::<u64>()
    }

    /// Returns the calls that were made. The work does not grow with the number of turns that are
    /// complete.
    pub(crate) fn made_calls(&self) -> MadeCalls {
        let mut calls = self.complete_calls.clone();
        for turn in &self.turns[self.complete..] {
            calls.add_turn(turn);
        }
        calls
    }

    /// Takes back that the turns from this one on are complete.
    fn retreat(&mut self, number: usize) {
        if number < self.complete {
            for turn in &self.turns[number..self.complete] {
                self.complete_bytes -= turn_bytes(turn);
                self.complete_calls.remove_turn(turn);
            }
            self.complete = number;
        }
    }

    /// Returns how many turns there are before the first that is not complete.
    pub(super) fn complete_len(&self) -> usize {
        let after = self.turns[self.complete..].iter();
        self.complete + after.take_while(|turn| turn.is_complete()).count()
    }

    /// Returns the turns from the first on that may not be complete, with their numbers. All turns
    /// before them are complete.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = (&Turn, u32)> {
        let first = self.complete;
        self.turns[first..].iter().zip(first as u32..)
    }

    /// Returns a turn. Its calls may be ended, but not opened again: `reopen` does that.
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Turn> {
        self.turns.get_mut(number as usize)
    }

    /// Returns a turn whose calls may be opened again.
    pub(super) fn reopen(&mut self, number: u32) -> Option<&mut Turn> {
        self.retreat(number as usize);
        self.get_mut(number)
    }

    /// Returns all turns, whose calls may be opened again.
    pub(crate) fn reopen_all(&mut self) -> impl Iterator<Item = &mut Turn> {
        self.retreat(0);
        self.turns.iter_mut()
    }
}

impl Deref for Conversation {
    type Target = [Turn];

    fn deref(&self) -> &[Turn] {
        &self.turns
    }
}

impl From<Vec<Turn>> for Conversation {
    fn from(turns: Vec<Turn>) -> Self {
        let mut conversation = Self {
            turns,
            ..Self::default()
        };
        conversation.advance();
        conversation
    }
}

impl Serialize for Conversation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.turns.serialize(serializer)
    }
}

/// What is known about which turns are complete follows from the turns.
impl PartialEq for Conversation {
    fn eq(&self, other: &Self) -> bool {
        self.turns == other.turns
    }
}

impl Eq for Conversation {}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::record::host_call::FinishReason;
    use crate::record::id::ActionId;
    use crate::record::money::Usd;
    use crate::record::turn::{CallEffect, CallForm, CallTarget, ToolRef};
    use crate::state::activation::{CallProgress, Consent, Phase, ToolOutcome, TurnCall};

    fn turn() -> Turn {
        Turn {
            model: "m".into(),
            finish: FinishReason::ToolCalls,
            cost: Usd::ZERO,
            message: Vec::new(),
            calls: alloc::vec![TurnCall {
                tool: "t".into(),
                form: CallForm::Direct,
                target: Some(CallTarget {
                    tool: ToolRef::Action(ActionId(0)),
                    effect: CallEffect::Continues,
                }),
                consent: Consent::NotNeeded,
                edited_arguments: None,
                decided_by: None,
                progress: CallProgress::default(),
                phase: Phase::Ready,
                outcome: None,
            }],
            misfit: None,
            skills: Vec::new(),
        }
    }

    fn end(conversation: &mut Conversation, number: u32) {
        let turn = conversation.get_mut(number).expect("a turn");
        turn.calls[0].outcome = Some(ToolOutcome::Rejected(String::new()));
    }

    #[test]
    fn as_many_turns_are_examined_after_a_thousand_turns_as_after_one() {
        let mut conversation = Conversation::default();
        for number in 0..1000 {
            conversation.push(turn());
            assert_eq!(conversation.unsettled().count(), 1);
            assert_eq!(conversation.complete_len(), number as usize);
            end(&mut conversation, number);
            assert_eq!(conversation.unsettled().count(), 1);
            assert_eq!(conversation.complete_len(), number as usize + 1);
        }
        let copied = Conversation::from(conversation.to_vec());
        assert_eq!(copied.unsettled().count(), 0);
        assert_eq!(copied, conversation);
    }

    #[test]
    fn calls_are_counted_once_whether_their_turn_is_complete_or_not() {
        let mut conversation = Conversation::default();
        for number in 0..3 {
            conversation.push(turn());
            assert_eq!(conversation.made_calls().total(), number as usize + 1);
            end(&mut conversation, number);
        }
        conversation.reopen(1).expect("a turn").calls[0].outcome = None;
        assert_eq!(conversation.made_calls().total(), 3);
        // A rejected call is none.
        conversation.reopen(0).expect("a turn").calls[0].reject(String::new());
        end(&mut conversation, 1);
        conversation.push(turn());
        assert_eq!(conversation.made_calls().total(), 3);
        let copied = Conversation::from(conversation.to_vec());
        assert_eq!(copied.made_calls().total(), 3);
    }

    #[test]
    fn a_turn_whose_call_is_opened_again_is_not_complete() {
        let mut conversation = Conversation::default();
        for number in 0..3 {
            conversation.push(turn());
            end(&mut conversation, number);
        }
        conversation.reopen(1).expect("a turn").calls[0].outcome = None;
        assert_eq!(conversation.complete_len(), 1);
        let numbers: Vec<u32> = conversation.unsettled().map(|(_, number)| number).collect();
        assert_eq!(numbers, [1, 2]);
        end(&mut conversation, 1);
        conversation.push(turn());
        assert_eq!(conversation.complete_len(), 3);
        for reopened in conversation.reopen_all() {
            reopened.calls[0].outcome = None;
        }
        assert_eq!(conversation.complete_len(), 0);
    }
}
