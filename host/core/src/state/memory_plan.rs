//! Decides which messages of a conversation are replaced before a turn is requested: which results
//! are cleared, and where the cut is. It depends on the sizes of the messages alone.

use alloc::vec::Vec;

use crate::record::memory::{
    Cut, PlannedReplacement, PlannedTokens, ReplacedRange, ResultPosition,
};

/// The bounds of what is sent of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBounds {
    /// How many messages are sent at most.
    pub messages: u32,
    /// How many tokens a request has at most.
    pub tokens: u64,
    /// How many tokens a summary has at most.
    pub summary_tokens: u64,
    /// What becomes of results of earlier calls.
    pub results: OldResults,
}

/// What becomes of results of earlier calls when a request exceeds its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldResults {
    /// They are cleared before anything is summarised.
    #[default]
    Cleared,
    /// They are sent as long as their turns are.
    Sent,
}

/// The sizes of what is sent of a conversation, and what of it is replaced already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationSize {
    /// The turn that is requested next.
    pub turn: u32,
    /// The estimated size of the whole request in tokens: instructions, tools and conversation.
    pub tokens: u64,
    /// What is replaced already.
    pub range: ReplacedRange,
    /// The position in the whole conversation of the first message after the cut, or of the first
    /// news if nothing is replaced.
    pub position: u32,
    /// The position of the first message that is replaced, or would be.
    pub first_replaced: u32,
    /// What precedes the first news: the history of the role. It is empty after a cut.
    pub history: BlockSize,
    /// The first news.
    pub first_news: BlockSize,
    /// The summary that follows the first news, with the results that are never replaced.
    pub summary: BlockSize,
    /// The size of these results in tokens.
    pub kept_results: u64,
    /// The news after the cut, without the first.
    pub news: Vec<BlockSize>,
    /// The turns after the cut.
    pub turns: Vec<TurnSize>,
}

/// The size of messages that are sent together or not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSize {
    /// How many messages they are.
    pub messages: u32,
    /// Their estimated size in tokens.
    pub tokens: u64,
}

/// The size of a turn with the results of its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnSize {
    /// The messages and tokens, with results that are cleared already as they are sent.
    pub block: BlockSize,
    /// The results of its calls, in order.
    pub results: Vec<ResultSize>,
}

/// The size of the result of a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultSize {
    /// Its estimated size in tokens, as it is sent.
    pub tokens: u64,
    /// Its size once it is cleared; `None` if it is never cleared. That is also added to a summary
    /// that replaces its turn.
    pub cleared: Option<u64>,
}

/// Why messages are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacementReason {
    /// The request may exceed its bounds.
    Bounds,
    /// A provider refused the request because of its length. Everything before the newest turn is
    /// replaced.
    Refused,
}

/// What is to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryDecision {
    /// Nothing.
    Nothing,
    /// Only results, which are cleared.
    Clear(PlannedReplacement),
    /// Everything before the cut of the plan, by a summary.
    Summarise(PlannedReplacement),
}

/// A cut with what remains after it.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    cut: Cut,
    /// What is sent after the cut besides the first news and the summary.
    kept: BlockSize,
    /// What stays of the turns before the cut: results that are never cleared.
    added: u64,
    /// The size of what is before the cut, as it is sent until now.
    replaced: u64,
}

impl ConversationSize {
    /// Returns what is sent of the conversation.
    fn sent(&self) -> BlockSize {
        let turns = self.turns.iter().map(|turn| turn.block);
        let parts = [self.history, self.first_news, self.summary];
        let all = parts.into_iter().chain(self.news.iter().copied());
        all.chain(turns).fold(BlockSize::default(), BlockSize::plus)
    }

    /// Returns the size of the conversation in tokens.
    pub fn conversation_tokens(&self) -> u64 {
        self.sent().tokens
    }

    /// Returns how many messages are sent.
    pub fn message_count(&self) -> u32 {
        self.sent().messages
    }

    /// Decides what is replaced before the next request. It visits each message that is sent a few
    /// times, and none that was replaced before.
    pub fn plan(&self, bounds: &MemoryBounds, reason: ReplacementReason) -> MemoryDecision {
        let sent = self.sent();
        let halves = BlockSize {
            messages: bounds.messages / 2,
            tokens: bounds.tokens / 2,
        };
        let mut plan = self.unchanged();
        let (mut freed, mut chosen) = (Vec::new(), None);
        match reason {
            ReplacementReason::Refused => chosen = self.candidates(&[]).pop(),
            ReplacementReason::Bounds => {
                if sent.messages <= bounds.messages && self.tokens <= bounds.tokens {
                    return MemoryDecision::Nothing;
                }
                if bounds.results == OldResults::Cleared {
                    let excess = self.tokens.saturating_sub(halves.tokens);
                    (plan.range.cleared, freed) = self.clear_results(excess);
                }
                plan.tokens.cleared = self.tokens.saturating_sub(sum(&freed));
                if sent.messages > halves.messages || plan.tokens.cleared > halves.tokens {
                    chosen = self.choose_cut(&freed, bounds, halves);
                }
            }
        }
        let positions = freed.iter().map(|freed| freed.position);
        plan.cleared_messages = positions.clone().min().zip(positions.max());
        match chosen {
            Some(candidate) => MemoryDecision::Summarise(self.with_cut(plan, candidate)),
            None if freed.is_empty() => MemoryDecision::Nothing,
            None => MemoryDecision::Clear(plan),
        }
    }

    /// Returns the plan for an action that asks for the replacement of the oldest `up_to` messages
    /// that are sent, or `None` if no cut is possible there. The cut is the last one that replaces no
    /// more than these.
    pub fn plan_request(&self, up_to: u32) -> Option<PlannedReplacement> {
        let all = self.sent().messages;
        let fits = |candidate: &&Candidate| all - candidate.kept.messages <= up_to;
        let candidates = self.candidates(&[]);
        let candidate = candidates.iter().rev().find(fits)?;
        Some(self.with_cut(self.unchanged(), *candidate))
    }

    /// Returns a plan that replaces nothing more.
    fn unchanged(&self) -> PlannedReplacement {
        PlannedReplacement {
            turn: self.turn,
            range: self.range,
            cut_before: self.range.cut,
            messages: (0, 0),
            cleared_messages: None,
            tokens: PlannedTokens {
                before: self.tokens,
                cleared: self.tokens,
                kept: self.tokens,
                replaced: 0,
            },
        }
    }

    /// Returns a plan with a cut.
    fn with_cut(&self, mut plan: PlannedReplacement, candidate: Candidate) -> PlannedReplacement {
        let stays = candidate.kept.plus(self.first_news);
        plan.range.cut = candidate.cut;
        plan.tokens.kept = self.other_tokens() + stays.tokens + candidate.added;
        plan.tokens.replaced = candidate.replaced;
        let count = self.sent().messages - stays.messages - self.summary.messages;
        let last = if self.range.cut != Cut::NONE {
            self.position + count - 1
        } else if count > self.history.messages {
            // The first news lies between the history and what else is replaced.
            self.position + count - self.history.messages
        } else {
            self.position.saturating_sub(1)
        };
        plan.messages = (self.first_replaced, last);
        plan
    }

    /// Returns what a request contains besides the conversation, as far as the estimates of both
    /// agree: instructions and tools.
    fn other_tokens(&self) -> u64 {
        self.tokens.saturating_sub(self.sent().tokens)
    }

    /// Returns the position up to which results are cleared so that at least `excess` tokens are
    /// freed, if so many can be, and the results that are newly cleared. Those of the newest turn are
    /// not.
    fn clear_results(&self, excess: u64) -> (ResultPosition, Vec<ClearedResult>) {
        let (mut freed, mut sum) = (Vec::new(), 0_u64);
        let mut position = self.first_turn_position();
        let mut up_to = self.range.cleared;
        let old = self.turns.len().saturating_sub(1);
        for (turn, number) in self.turns[..old].iter().zip(self.range.cut.turns..) {
            let before_results = turn
                .block
                .messages
                .saturating_sub(turn.results.len() as u32);
            for (result, call) in turn.results.iter().zip(0..) {
                if sum >= excess {
                    return (up_to, freed);
                }
                let at = ResultPosition { turn: number, call };
                if let Some(cleared) = result.if_smaller().filter(|_| at >= self.range.cleared) {
                    let tokens = result.tokens - cleared;
                    sum += tokens;
                    freed.push(ClearedResult {
                        turn: number,
                        tokens,
                        position: position + before_results + call,
                    });
                    up_to = ResultPosition {
                        turn: number,
                        call: call + 1,
                    };
                }
            }
            position += turn.block.messages;
        }
        (up_to, freed)
    }

    /// Returns the position of the first turn after the cut in the whole conversation.
    fn first_turn_position(&self) -> u32 {
        let news = self.news.iter().map(|news| news.messages).sum::<u32>();
        if self.range.cut == Cut::NONE {
            self.position + self.first_news.messages + news
        } else {
            self.position + news
        }
    }

    /// Returns the earliest cut after which at most half of each bound remains, and the bound itself
    /// is met with the longest summary. If there is none, it is the last possible one.
    fn choose_cut(
        &self,
        freed: &[ClearedResult],
        bounds: &MemoryBounds,
        halves: BlockSize,
    ) -> Option<Candidate> {
        let other = self.other_tokens();
        let fits = |candidate: &&Candidate| {
            let stays = candidate.kept.plus(self.first_news);
            let tokens = other + stays.tokens + candidate.added;
            // The summary is a message, too.
            stays.messages < halves.messages
                && tokens <= halves.tokens
                && tokens.saturating_add(bounds.summary_tokens) <= bounds.tokens
        };
        let candidates = self.candidates(freed);
        let chosen = candidates.iter().find(fits).or(candidates.last());
        chosen.copied()
    }

    /// Returns the possible cuts that replace more than is replaced already, the earliest first. The
    /// newest turn is after all of them. `freed` are the results that are cleared.
    fn candidates(&self, freed: &[ClearedResult]) -> Vec<Candidate> {
        let mut kept = self
            .news
            .iter()
            .fold(BlockSize::default(), |sum, news| sum.plus(*news));
        kept = self
            .turns
            .iter()
            .fold(kept, |sum, turn| sum.plus(turn.block));
        kept.tokens = kept.tokens.saturating_sub(sum(freed));
        let first_cut = Cut {
            news: self.range.cut.news.max(1),
            turns: self.range.cut.turns,
        };
        let mut next = Candidate {
            cut: first_cut,
            kept,
            added: self.kept_results,
            replaced: (self.history.tokens + self.summary.tokens).saturating_sub(self.kept_results),
        };
        let mut candidates = Vec::new();
        if self.history.messages > 0 {
            candidates.push(next);
        }
        for block in &self.news {
            next.cut.news += 1;
            next.kept = next.kept.minus(*block);
            next.replaced += block.tokens;
            candidates.push(next);
        }
        let mut freed = freed.iter().peekable();
        let old = self.turns.len().saturating_sub(1);
        for turn in &self.turns[..old] {
            let mut block = turn.block;
            while let Some(result) = freed.next_if(|freed| freed.turn == next.cut.turns) {
                block.tokens = block.tokens.saturating_sub(result.tokens);
            }
            next.cut.turns += 1;
            next.kept = next.kept.minus(block);
            next.replaced += turn.block.tokens.saturating_sub(turn.kept_tokens());
            next.added += turn.kept_tokens();
            candidates.push(next);
        }
        candidates
    }
}

/// A result that is newly cleared.
#[derive(Clone, Copy, Debug)]
struct ClearedResult {
    turn: u32,
    /// How much smaller the request becomes.
    tokens: u64,
    /// Its position in the whole conversation.
    position: u32,
}

/// Returns how much smaller a request becomes when these results are cleared.
fn sum(freed: &[ClearedResult]) -> u64 {
    freed.iter().map(|freed| freed.tokens).sum()
}

impl ResultSize {
    /// Returns its size once it is cleared, if it can be and is smaller then.
    pub fn if_smaller(&self) -> Option<u64> {
        self.cleared.filter(|cleared| *cleared < self.tokens)
    }
}

impl TurnSize {
    /// Returns the size of the results that stay when the turn is replaced.
    fn kept_tokens(&self) -> u64 {
        let results = self
            .results
            .iter()
            .filter(|result| result.cleared.is_none());
        results.map(|result| result.tokens).sum()
    }
}

impl BlockSize {
    fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }
}
