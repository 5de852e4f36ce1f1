//! What of the conversation of an activation is replaced in what its model is sent. The turns
//! themselves are never changed.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::Activation;
use crate::record::memory::{
    Cut, MemoryReplacement, MemoryRequest, PlannedReplacement, ReplacedRange, ResultPosition,
};
use crate::state::kept_bytes::replacement_bytes;

/// The largest size of a request that is kept, in tokens. A provider may count anything, and more is
/// added to it.
pub(crate) const MAX_TOKENS: u64 = 1 << 53;

/// The replacements in the conversation of an activation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationMemory {
    /// The replacements, oldest first. The last one says what is sent.
    pub replacements: Vec<MemoryReplacement>,
    /// The replacement for which a summary is being written.
    pub planned: Option<PlannedReplacement>,
    /// The index of the replacement whose summary is sent.
    pub summary_index: Option<u32>,
    /// The size of the replacements; see `state::kept_bytes`.
    pub kept_bytes: u64,
    /// The results in turns before the cut that are sent nevertheless, in order.
    pub kept_results: Vec<ResultPosition>,
    /// The size of the request of the last turn in tokens, as its provider counted it; 0 if it did not.
    pub last_input_tokens: u64,
}

impl ConversationMemory {
    /// Returns what is replaced.
    pub fn range(&self) -> ReplacedRange {
        let last = self.replacements.last();
        last.map_or_else(ReplacedRange::default, |last| last.range)
    }

    /// Returns the replacement whose summary is sent.
    pub fn summarised(&self) -> Option<&MemoryReplacement> {
        self.replacements.get(self.summary_index? as usize)
    }

    /// Returns the summary that is sent.
    pub fn summary(&self) -> Option<&String> {
        self.summarised()?.summary.as_ref()
    }

    /// Returns whether something was replaced for this turn. That happens at most once.
    pub fn was_replaced_for(&self, turn: u32) -> bool {
        let last = self.replacements.last();
        last.is_some_and(|last| last.turn == turn)
    }

    fn replace(&mut self, replacement: MemoryReplacement) {
        if replacement.summary.is_some() {
            self.summary_index = Some(self.replacements.len() as u32);
        }
        self.kept_bytes += replacement_bytes(&replacement);
        self.replacements.push(replacement);
        self.planned = None;
    }

    /// Returns whether a cut is one that this conversation can have: it replaces no less than before.
    fn accepts(&self, range: ReplacedRange) -> bool {
        let before = self.range();
        range.cut >= before.cut && range.cleared >= before.cleared
    }
}

impl Activation {
    /// Adds a replacement. The results before its cut that are never replaced are noted, so that they
    /// are found without examining all turns.
    pub(crate) fn replace_in_memory(&mut self, replacement: MemoryReplacement) {
        let before = self.memory.range().cut.turns;
        let results = self.results_kept_in(before..replacement.range.cut.turns);
        self.memory.kept_results.extend(results);
        self.memory.replace(replacement);
    }

    /// Returns the results in turns with these numbers that are never replaced, in order.
    pub(super) fn results_kept_in(&self, numbers: Range<u32>) -> Vec<ResultPosition> {
        let turns = numbers.start as usize..numbers.end as usize;
        let turns = self.turns.get(turns).unwrap_or_default();
        let results = turns
            .iter()
            .zip(numbers.start..)
            .flat_map(|(turn, number)| {
                let calls = turn.calls.iter().zip(0..);
                let kept = calls.filter(|(call, _)| {
                    call.target
                        .is_some_and(|target| target.tool.keeps_results())
                });
                kept.map(move |(_, call)| ResultPosition { turn: number, call })
            });
        results.collect()
    }

    /// Returns whether a range can be replaced in its conversation: no less than what is replaced
    /// already, and never the newest turn.
    pub(crate) fn can_replace(&self, range: ReplacedRange) -> bool {
        let (news, turns) = (self.news.len() as u32, self.turns.len() as u32);
        let newest = turns.saturating_sub(1);
        let Cut {
            news: cut_news,
            turns: cut_turns,
        } = range.cut;
        let exists = cut_news <= news && cut_turns <= newest && range.cleared.turn <= newest;
        let in_order = cut_turns == 0 || cut_news == news;
        exists && in_order && self.memory.accepts(range)
    }

    /// Returns what the calls of the newest turn ask to replace: the last request, in the order of
    /// the calls.
    pub fn memory_request(&self) -> Option<&MemoryRequest> {
        let calls = self.turns.last()?.calls.iter().rev();
        let mut requests = calls.filter_map(|call| call.progress.memory.as_ref());
        requests.next()
    }
}
