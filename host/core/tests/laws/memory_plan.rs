//! What of a conversation is replaced before a turn: whatever the conversation, no request separates a
//! turn from its results, leaves out the first news or the newest turn, or exceeds the bounds where
//! they can be met.

use proptest::prelude::*;
use strata_core::record::memory::{Cut, PlannedReplacement, ReplacedRange, ResultPosition};
use strata_core::state::memory_plan::{
    BlockSize, ConversationSize, MemoryBounds, MemoryDecision, OldResults, ReplacementReason,
    ResultSize, TurnSize,
};

use crate::teams::cases;

/// The size of a line in place of a result.
const CLEARED_TOKENS: u64 = 10;

/// A conversation that grows turn by turn, with the sizes of all its messages.
#[derive(Clone, Debug)]
struct Conversation {
    other_tokens: u64,
    history: Vec<u64>,
    news: Vec<u64>,
    /// The size of the reply of each turn, and the results of its calls. Those for which the second
    /// value holds are never cleared.
    turns: Vec<(u64, Vec<(u64, bool)>)>,
    range: ReplacedRange,
    summary: Option<u64>,
    position: u32,
    first_replaced: u32,
}

impl Conversation {
    fn new(other_tokens: u64, history: Vec<u64>, news: Vec<u64>) -> Self {
        Self {
            other_tokens,
            position: history.len() as u32,
            first_replaced: u32::from(history.is_empty()),
            history,
            news,
            turns: Vec::new(),
            range: ReplacedRange::default(),
            summary: None,
        }
    }

    fn turn_size(&self, number: u32) -> TurnSize {
        let (reply, calls) = &self.turns[number as usize];
        let results = calls.iter().zip(0..).map(|((tokens, is_kept), call)| {
            let at = ResultPosition { turn: number, call };
            let cleared = (!is_kept).then_some(CLEARED_TOKENS);
            let is_cleared = at < self.range.cleared && !is_kept && *tokens > CLEARED_TOKENS;
            let tokens = if is_cleared { CLEARED_TOKENS } else { *tokens };
            ResultSize { tokens, cleared }
        });
        let results: Vec<ResultSize> = results.collect();
        TurnSize {
            block: BlockSize {
                messages: 1 + results.len() as u32,
                tokens: reply + results.iter().map(|result| result.tokens).sum::<u64>(),
            },
            results,
        }
    }

    fn kept_results(&self) -> u64 {
        let replaced = self.turns[..self.range.cut.turns as usize].iter();
        let results = replaced.flat_map(|(_, results)| results);
        results
            .filter(|(_, is_kept)| *is_kept)
            .map(|(tokens, _)| tokens)
            .sum()
    }

    fn size(&self) -> ConversationSize {
        let one = |tokens: u64| BlockSize {
            messages: 1,
            tokens,
        };
        let is_whole = self.range.cut == Cut::NONE;
        let history = if is_whole {
            self.history.as_slice()
        } else {
            &[]
        };
        let kept_results = self.kept_results();
        let summary = self.summary.map(|tokens| one(tokens + kept_results));
        let turns = self.range.cut.turns..self.turns.len() as u32;
        let mut size = ConversationSize {
            turn: self.turns.len() as u32,
            tokens: 0,
            range: self.range,
            position: self.position,
            first_replaced: self.first_replaced,
            history: BlockSize {
                messages: history.len() as u32,
                tokens: history.iter().sum(),
            },
            first_news: one(self.news[0]),
            summary: summary.unwrap_or_default(),
            kept_results,
            news: self.news[self.range.cut.news.max(1) as usize..]
                .iter()
                .map(|tokens| one(*tokens))
                .collect(),
            turns: turns.map(|turn| self.turn_size(turn)).collect(),
        };
        size.tokens = self.other_tokens + size.conversation_tokens();
        size
    }

    /// Replaces what is planned, with a summary of this size if one is due.
    fn replace(&mut self, planned: &PlannedReplacement, summary: Option<u64>) {
        match summary {
            Some(tokens) => {
                (self.range, self.summary) = (planned.range, Some(tokens));
                self.position = planned.messages.1 + 1;
            }
            None => self.range.cleared = planned.range.cleared,
        }
    }

    /// Returns the size of the smallest request that the rules allow before the next turn, with a
    /// summary of this size.
    fn smallest(&self, summary_tokens: u64) -> BlockSize {
        let newest = match self.turns.len() {
            0 => BlockSize::default(),
            turns => self.turn_size(turns as u32 - 1).block,
        };
        let old = self.turns.len().saturating_sub(1);
        let kept = self.turns[..old].iter().flat_map(|(_, results)| results);
        let kept: u64 = kept
            .filter(|(_, is_kept)| *is_kept)
            .map(|(tokens, _)| tokens)
            .sum();
        BlockSize {
            messages: 2 + newest.messages,
            tokens: self.other_tokens + self.news[0] + newest.tokens + kept + summary_tokens,
        }
    }
}

fn check_range(conversation: &Conversation, before: ReplacedRange, range: ReplacedRange) {
    let (news, turns) = (
        conversation.news.len() as u32,
        conversation.turns.len() as u32,
    );
    let Cut {
        news: cut_news,
        turns: cut_turns,
    } = range.cut;
    assert!(range.cut >= before.cut && range.cleared >= before.cleared);
    assert!(cut_news <= news, "a cut after the news");
    assert!(
        cut_turns == 0 || cut_news == news,
        "a cut among turns leaves out news"
    );
    assert!(
        turns == 0 || cut_turns < turns,
        "the newest turn is replaced"
    );
    assert!(
        turns == 0 || range.cleared.turn < turns,
        "a result of the newest turn is cleared"
    );
}

prop_compose! {
    fn bounds()(
        messages in 1..30_u32,
        tokens in 50..3000_u64,
        summary_tokens in 1..200_u64,
        clears: bool,
    ) -> MemoryBounds {
        let results = if clears { OldResults::Cleared } else { OldResults::Sent };
        MemoryBounds { messages, tokens, summary_tokens, results }
    }
}

fn turn() -> impl Strategy<Value = (u64, Vec<(u64, bool)>)> {
    let result = (1..600_u64, prop::bool::weighted(0.1));
    (1..100_u64, prop::collection::vec(result, 0..5))
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn no_request_exceeds_its_bounds_where_they_can_be_met(
        bounds in bounds(),
        history in prop::collection::vec(1..200_u64, 0..40),
        news in prop::collection::vec(1..200_u64, 1..5),
        turns in prop::collection::vec(turn(), 0..40),
        fails in prop::collection::vec(prop::bool::weighted(0.2), 41),
    ) {
        let mut conversation = Conversation::new(20, history, news);
        let mut turns = turns.into_iter();
        for fails in fails {
            let size = conversation.size();
            let before = conversation.range;
            let decision = size.plan(&bounds, ReplacementReason::Bounds);
            let mut is_summarised = false;
            match &decision {
                MemoryDecision::Nothing => {}
                MemoryDecision::Clear(planned) => conversation.replace(planned, None),
                MemoryDecision::Summarise(planned) => {
                    check_range(&conversation, before, planned.range);
                    let longest = bounds.summary_tokens.min(planned.tokens.replaced - 1);
                    is_summarised = !fails && planned.tokens.replaced > 1;
                    conversation.replace(planned, is_summarised.then_some(longest));
                }
            }
            check_range(&conversation, before, conversation.range);
            let after = conversation.size();
            let fits = after.tokens <= bounds.tokens && after.message_count() <= bounds.messages;
            let smallest = conversation.smallest(bounds.summary_tokens);
            let can_fit = smallest.tokens <= bounds.tokens / 2 && smallest.messages <= bounds.messages / 2;
            match decision {
                MemoryDecision::Nothing => prop_assert!(fits || !can_fit, "{after:?} {smallest:?}"),
                MemoryDecision::Clear(planned) => {
                    prop_assert!(fits || !can_fit);
                    prop_assert_eq!(planned.tokens.cleared, after.tokens);
                }
                MemoryDecision::Summarise(planned) if is_summarised => {
                    prop_assert!(fits || !can_fit, "{after:?} {smallest:?}");
                    let summary = conversation.summary.expect("a summary");
                    prop_assert_eq!(planned.tokens.kept + summary, after.tokens);
                    prop_assert!(planned.messages.0 <= planned.messages.1);
                }
                MemoryDecision::Summarise(planned) => {
                    prop_assert_eq!(planned.tokens.cleared, after.tokens);
                }
            }
            let Some(turn) = turns.next() else { break };
            conversation.turns.push(turn);
        }
    }

    #[test]
    fn a_request_for_a_replacement_is_rounded_down_to_a_cut(
        news in prop::collection::vec(1..200_u64, 1..5),
        turns in prop::collection::vec(turn(), 0..20),
        up_to in 0..60_u32,
    ) {
        let mut conversation = Conversation::new(20, Vec::new(), news);
        conversation.turns = turns;
        let size = conversation.size();
        let Some(planned) = size.plan_request(up_to) else {
            return Ok(());
        };
        check_range(&conversation, conversation.range, planned.range);
        let first_kept = planned.messages.1 + 1;
        prop_assert!(first_kept <= up_to, "more is replaced than was asked for");
        // One more block would exceed it, unless it is the newest turn.
        let next = planned.range.cut.turns as usize;
        if planned.range.cut.news as usize == conversation.news.len() && next + 1 < conversation.turns.len() {
            let block = conversation.turn_size(next as u32).block.messages;
            prop_assert!(first_kept + block > up_to);
        }
    }
}
