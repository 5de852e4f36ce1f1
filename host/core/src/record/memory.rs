//! Bounded memory: which of the oldest messages of a conversation are no longer sent to the model,
//! and what is sent in their place. The messages themselves are kept.
//!
//! The conversation of an activation consists of the history of the role, the news of the activation,
//! and its turns. The history is replaced as a whole. Of the news and the turns, those before a cut are
//! replaced; a cut never separates a turn from the results of its calls. The first news stays in any
//! case.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::record::money::Usd;

/// A replacement of the oldest messages of a conversation. It holds from the request of a turn on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReplacement {
    /// The turn that is requested next.
    pub turn: u32,
    /// What is replaced, all replacements before this one included.
    pub range: ReplacedRange,
    /// The positions of the first and the last message that is replaced, counted from 0 in the whole
    /// conversation; `None` if no message is.
    pub messages: Option<(u32, u32)>,
    /// The estimated size of the request before the replacement, in tokens.
    pub tokens_before: u64,
    /// The estimated size of the request after it, in tokens.
    pub tokens_after: u64,
    /// How the messages are replaced.
    pub how: ReplacementMethod,
    /// The text in place of the messages before the cut; `None` if there is no new one.
    pub summary: Option<String>,
    /// The name of the model that wrote it, if one did.
    pub model: Option<String>,
    /// What it cost.
    pub cost: Usd,
    /// Why there is no summary although one was due.
    pub failure: Option<String>,
}

/// How messages of a conversation are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplacementMethod {
    /// Only results of tools are replaced, each by a line that names its size.
    Cleared,
    /// A model wrote a summary.
    Summary,
    /// A component wrote a summary.
    Component,
    /// An action provided the text.
    Action,
}

impl ReplacementMethod {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::Cleared, Self::Summary, Self::Component, Self::Action];

    /// Returns the name used in events and in `team.json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cleared => "cleared",
            Self::Summary => "summary",
            Self::Component => "component",
            Self::Action => "action",
        }
    }
}

/// What of a conversation is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedRange {
    /// Where the messages begin that are sent as they are.
    pub cut: Cut,
    /// The results of all calls before this one are cleared, as far as their turns are sent.
    pub cleared: ResultPosition,
}

/// A place in a conversation before which a summary replaces everything but the first news. It is
/// before a piece of news or before a turn. The default is that nothing is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cut {
    /// How many pieces of news are before it. The first one is sent nevertheless. It is zero only if
    /// nothing is replaced, and the number of all news if turns are replaced.
    pub news: u32,
    /// How many turns are before it.
    pub turns: u32,
}

impl Cut {
    /// The cut of a conversation of which nothing is replaced.
    pub const NONE: Self = Self { news: 0, turns: 0 };
}

/// The position of the result of a tool call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResultPosition {
    /// The turn.
    pub turn: u32,
    /// The index of the call in the turn.
    pub call: u32,
}

/// A replacement that was decided, and for which a summary is to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedReplacement {
    /// The turn that is requested next.
    pub turn: u32,
    /// What is replaced once the summary is written.
    pub range: ReplacedRange,
    /// Where the cut is until then, and what is sent if no summary can be written.
    pub cut_before: Cut,
    /// The positions of the first and the last message that the summary replaces.
    pub messages: (u32, u32),
    /// The positions of the first and the last result that is cleared.
    pub cleared_messages: Option<(u32, u32)>,
    /// The sizes of the request in tokens.
    pub tokens: PlannedTokens,
}

/// The estimated sizes of the request that follows a replacement, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedTokens {
    /// Before anything is replaced.
    pub before: u64,
    /// After results were cleared.
    pub cleared: u64,
    /// After everything before the cut was left out, without the summary.
    pub kept: u64,
    /// What the summary replaces. A summary that is not shorter is not used.
    pub replaced: u64,
}

/// A summary that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenSummary {
    /// The text.
    pub text: String,
    /// Its size in tokens.
    pub tokens: u64,
    /// How it was written.
    pub how: ReplacementMethod,
    /// The name of the model that wrote it, if one did.
    pub model: Option<String>,
    /// What it cost.
    pub cost: Usd,
}

/// What an action asks for: that the oldest messages of the conversation are replaced by a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryRequest {
    /// How many of the messages that are sent are replaced. The first news is counted, and stays.
    pub up_to: u32,
    /// The text.
    pub summary: String,
}

impl PlannedReplacement {
    /// Returns the replacement with a summary. A summary that is empty or not shorter than what it
    /// replaces is not used.
    pub fn complete(&self, written: WrittenSummary) -> MemoryReplacement {
        let reason = if written.text.trim().is_empty() {
            "the summary is empty"
        } else if written.tokens >= self.tokens.replaced {
            "the summary is not shorter than what it replaces"
        } else {
            return MemoryReplacement {
                turn: self.turn,
                range: self.range,
                messages: Some(self.messages),
                tokens_before: self.tokens.before,
                tokens_after: self.tokens.kept.saturating_add(written.tokens),
                how: written.how,
                summary: Some(written.text),
                model: written.model,
                cost: written.cost,
                failure: None,
            };
        };
        MemoryReplacement {
            model: written.model,
            cost: written.cost,
            ..self.without_summary(reason.into())
        }
    }

    /// Returns the replacement if no summary can be written: results are cleared, and nothing else.
    pub fn without_summary(&self, failure: String) -> MemoryReplacement {
        MemoryReplacement {
            failure: Some(failure),
            ..self.only_cleared()
        }
    }

    /// Returns the replacement that only clears results.
    pub fn only_cleared(&self) -> MemoryReplacement {
        MemoryReplacement {
            turn: self.turn,
            range: ReplacedRange {
                cut: self.cut_before,
                cleared: self.range.cleared,
            },
            messages: self.cleared_messages,
            tokens_before: self.tokens.before,
            tokens_after: self.tokens.cleared,
            how: ReplacementMethod::Cleared,
            summary: None,
            model: None,
            cost: Usd::ZERO,
            failure: None,
        }
    }
}
