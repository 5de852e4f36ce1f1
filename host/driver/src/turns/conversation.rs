//! The conversation of an activation as its model is sent it: with a summary in place of messages
//! that were replaced, and without results that were cleared; and how large its parts are.

use std::sync::Arc;

use strata_base::text::units::format_bytes;
use strata_core::record::conversation::{AssistantPart, ModelMessage, Part, ToolResult};
use strata_core::record::memory::{Cut, ResultPosition};
use strata_core::record::message::Message;
use strata_core::record::turn::ToolRef;
use strata_core::state::activation::{ConversationMemory, Turn};
use strata_core::state::memory_plan::{BlockSize, ConversationSize, ResultSize, TurnSize};
use strata_core::team::Role;
use strata_services::models::{ModelRequest, user_message};

use super::outcome::tool_results;
use super::turn_request::{news_message, remembered_message};

/// How many bytes of text count as a token in an estimate.
const BYTES_PER_TOKEN: u64 = 3;
/// How many tokens an image or a file counts as in an estimate.
const MEDIA_TOKENS: u64 = 1500;
/// How much of the first news is shown to what writes a summary, in bytes, so that it knows what
/// matters.
const MAX_TASK_BYTES: usize = 4 << 10;
/// How many parts of a conversation that is too long are named.
const MAX_NAMED_PARTS: usize = 3;

/// What a conversation consists of.
pub(super) struct ConversationSource<'a> {
    /// The role.
    pub(super) role: &'a Role,
    /// What the role remembers of earlier activations.
    pub(super) history: &'a History,
    /// The messages that the activation handles, oldest first.
    pub(super) news: &'a [Arc<Message>],
    /// The earlier turns of the activation. All their calls have ended.
    pub(super) turns: &'a [Turn],
    /// What of it is replaced.
    pub(super) memory: &'a ConversationMemory,
}

/// What a role remembers of earlier activations.
#[derive(Default)]
pub(super) struct History {
    /// The last summary, with the first news of the activation in which it was written.
    pub(super) summary: Option<(Arc<Message>, String)>,
    /// The messages since then that are sent, oldest first.
    pub(super) messages: Vec<Arc<Message>>,
}

/// A conversation as it is sent.
pub(super) struct SentConversation {
    history: Vec<ModelMessage>,
    first_news: Vec<ModelMessage>,
    summary: Option<ModelMessage>,
    news: Vec<ModelMessage>,
    turns: Vec<SentTurn>,
    first_turn: u32,
    kept_results: u64,
}

/// A turn as it is sent.
struct SentTurn {
    /// The reply, and the results of its calls or why it was not accepted.
    messages: Vec<ModelMessage>,
    results: Vec<ResultSize>,
}

impl ConversationSource<'_> {
    /// Returns the conversation as it is sent. `result_bytes` returns how much the model is told of a
    /// result of a tool. The messages before the cut are not visited.
    pub(super) fn sent(&self, result_bytes: impl Fn(ToolRef) -> u64) -> SentConversation {
        let range = self.memory.range();
        let is_whole = range.cut == Cut::NONE;
        let first_kept = (range.cut.news as usize).max(1).min(self.news.len());
        let first_turn = range.cut.turns;
        let mut turns = Vec::new();
        let sent_turns = self.turns.get(first_turn as usize..).unwrap_or_default();
        for (turn, number) in sent_turns.iter().zip(first_turn..) {
            turns.push(SentTurn::new(turn, number, range.cleared, &result_bytes));
        }
        let result_parts = self.kept_results(&result_bytes);
        let kept_results = parts_tokens(&result_parts);
        let summary = self.memory.summary();
        let summary = summary.map(|text| summary_message(text, result_parts));
        SentConversation {
            history: if is_whole {
                self.history.messages(self.role)
            } else {
                Vec::new()
            },
            first_news: self
                .news
                .iter()
                .take(1)
                .map(|news| news_message(news))
                .collect(),
            summary: summary.filter(|_| !is_whole),
            news: self.news[first_kept..]
                .iter()
                .map(|news| news_message(news))
                .collect(),
            turns,
            first_turn,
            kept_results,
        }
    }

    /// Returns the results in turns before the cut that are sent nevertheless.
    fn kept_results(&self, result_bytes: impl Fn(ToolRef) -> u64) -> Vec<Part> {
        let mut parts = Vec::new();
        for at in &self.memory.kept_results {
            let turn = self.turns.get(at.turn as usize);
            let results = turn.map(|turn| tool_results(turn, &result_bytes));
            let result = results.and_then(|results| results.into_iter().nth(at.call as usize));
            parts.extend(result.into_iter().flat_map(|result| result.content));
        }
        parts
    }

    /// Returns the text of what a summary stands for between two cuts: an earlier summary or the
    /// history, news and turns. Results are whole, unless they are kept beside the summary.
    pub(super) fn transcript(
        &self,
        before: Cut,
        cut: Cut,
        result_bytes: impl Fn(ToolRef) -> u64,
    ) -> String {
        let mut text = String::new();
        if let Some(first) = self.news.first() {
            let task = parts_text(&user_parts(news_message(first)));
            let end = task.floor_char_boundary(MAX_TASK_BYTES);
            push_section(&mut text, "The task, which is not replaced", &task[..end]);
        }
        match self.memory.summary() {
            Some(summary) => push_section(&mut text, "Summary of what was before", summary),
            None => {
                if let Some((news, summary)) = &self.history.summary {
                    push_message(&mut text, &news_message(news));
                    push_section(&mut text, "Summary of what was before", summary);
                }
                for message in &self.history.messages {
                    if let Some(message) = remembered_message(self.role, message) {
                        push_message(&mut text, &message);
                    }
                }
            }
        }
        let news = before.news.max(1) as usize..cut.news.max(1) as usize;
        for news in self.news.get(news).unwrap_or_default() {
            push_message(&mut text, &news_message(news));
        }
        let turns = before.turns as usize..cut.turns as usize;
        for turn in self.turns.get(turns).unwrap_or_default() {
            push_message(&mut text, &ModelMessage::Assistant(turn.message.clone()));
            let results = tool_results(turn, &result_bytes)
                .into_iter()
                .zip(&turn.calls);
            for (result, call) in results {
                let is_kept = call
                    .target
                    .is_some_and(|target| target.tool.keeps_results());
                if !is_kept {
                    push_result(&mut text, &result);
                }
            }
            if let Some(reason) = &turn.misfit {
                push_section(&mut text, "The answer was not accepted", reason);
            }
        }
        text
    }
}

impl History {
    fn messages(&self, role: &Role) -> Vec<ModelMessage> {
        let mut messages = Vec::new();
        if let Some((news, summary)) = &self.summary {
            messages.push(news_message(news));
            messages.push(summary_message(summary, Vec::new()));
        }
        for message in &self.messages {
            messages.extend(remembered_message(role, message));
        }
        messages
    }
}

impl SentTurn {
    fn new(
        turn: &Turn,
        number: u32,
        cleared: ResultPosition,
        result_bytes: impl Fn(ToolRef) -> u64,
    ) -> Self {
        let mut messages = vec![ModelMessage::Assistant(turn.message.clone())];
        let mut sizes = Vec::new();
        let mut results = tool_results(turn, result_bytes);
        for ((result, call), index) in results.iter_mut().zip(&turn.calls).zip(0..) {
            let at = ResultPosition {
                turn: number,
                call: index,
            };
            let is_kept = call
                .target
                .is_some_and(|target| target.tool.keeps_results());
            let line = cleared_result(result);
            let size = ResultSize {
                tokens: parts_tokens(&result.content),
                cleared: (!is_kept).then(|| text_tokens(line.len() as u64)),
            };
            sizes.push(match size.if_smaller() {
                Some(tokens) if at < cleared => {
                    result.content = vec![Part::Text(line)];
                    ResultSize { tokens, ..size }
                }
                _ => size,
            });
        }
        if !turn.calls.is_empty() {
            messages.push(ModelMessage::ToolResults(results));
        }
        if let Some(reason) = &turn.misfit {
            let text = format!("This answer is not accepted: {reason}. Answer again.");
            messages.push(user_message(text));
        }
        Self {
            messages,
            results: sizes,
        }
    }

    fn size(&self) -> TurnSize {
        TurnSize {
            block: messages_size(&self.messages),
            results: self.results.clone(),
        }
    }
}

impl SentConversation {
    /// Returns the messages, in order.
    pub(super) fn into_messages(self) -> Vec<ModelMessage> {
        let turns = self.turns.into_iter().flat_map(|turn| turn.messages);
        let before = self.history.into_iter().chain(self.first_news);
        let before = before.chain(self.summary).chain(self.news);
        before.chain(turns).collect()
    }

    /// Returns its size before a turn. `request` is what is sent besides the conversation.
    pub(super) fn size(
        &self,
        turn: u32,
        memory: &ConversationMemory,
        request: &ModelRequest,
    ) -> ConversationSize {
        let turns: Vec<TurnSize> = self.turns.iter().map(SentTurn::size).collect();
        let history = messages_size(&self.history);
        let mut size = ConversationSize {
            turn,
            tokens: 0,
            range: memory.range(),
            position: history.messages,
            first_replaced: u32::from(history.messages == 0),
            history,
            first_news: messages_size(&self.first_news),
            summary: messages_size(self.summary.as_slice()),
            kept_results: self.kept_results,
            news: self.news.iter().map(|news| messages_size([news])).collect(),
            turns,
        };
        if let Some((first, last)) = memory
            .summarised()
            .and_then(|summarised| summarised.messages)
        {
            (size.first_replaced, size.position) = (first, last.saturating_add(1));
        }
        size.tokens = match (memory.replacements.last(), size.turns.last()) {
            (Some(last), _) if last.turn == turn => last.tokens_after,
            (_, Some(newest)) if memory.last_input_tokens > 0 => {
                memory.last_input_tokens.saturating_add(newest.block.tokens)
            }
            _ => size
                .conversation_tokens()
                .saturating_add(frame_tokens(request)),
        };
        size
    }

    /// Returns the largest parts of the conversation in words.
    pub(super) fn largest_parts(&self, request: &ModelRequest) -> String {
        let mut parts = vec![
            ("instructions and tools".to_owned(), frame_tokens(request)),
            (
                "the history of the role".to_owned(),
                messages_size(&self.history).tokens,
            ),
            (
                "the first news".to_owned(),
                messages_size(&self.first_news).tokens,
            ),
            (
                "the summary".to_owned(),
                messages_size(self.summary.as_slice()).tokens,
            ),
            (
                "the other news".to_owned(),
                messages_size(&self.news).tokens,
            ),
        ];
        for (turn, number) in self.turns.iter().zip(self.first_turn..) {
            for message in &turn.messages {
                match message {
                    ModelMessage::ToolResults(results) => {
                        parts.extend(results.iter().map(|result| {
                            let name = format!("the result of `{}` in turn {number}", result.tool);
                            (name, parts_tokens(&result.content))
                        }));
                    }
                    message => {
                        parts.push((
                            format!("the reply of turn {number}"),
                            message_tokens(message),
                        ));
                    }
                }
            }
        }
        parts.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
        let named = parts.into_iter().filter(|(_, tokens)| *tokens > 0);
        let named = named.take(MAX_NAMED_PARTS);
        let named = named.map(|(name, tokens)| format!("{name} (about {tokens})"));
        named.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the text that is sent in place of a result that was cleared.
fn cleared_result(result: &ToolResult) -> String {
    let bytes = result.content.iter().map(part_bytes).sum();
    format!(
        "[result of {}, {}, cleared]",
        result.tool,
        format_bytes(bytes)
    )
}

fn part_bytes(part: &Part) -> u64 {
    match part {
        Part::Text(text) => text.len() as u64,
        Part::Image(media) | Part::File(media) => media.blob().map_or(0, |(_, size)| size),
    }
}

/// Returns the message that stands for those that were replaced, followed by the results of tools
/// that are never replaced.
fn summary_message(text: &str, result_parts: Vec<Part>) -> ModelMessage {
    let text = format!(
        "This is a summary of your own earlier work in this conversation. It replaces the messages \
         that are no longer shown.\n\n{text}"
    );
    let mut parts = vec![Part::Text(text)];
    parts.extend(result_parts);
    ModelMessage::User(parts)
}

fn push_section(text: &mut String, title: &str, content: &str) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("## ");
    text.push_str(title);
    text.push('\n');
    text.push_str(content);
}

fn push_message(text: &mut String, message: &ModelMessage) {
    match message {
        ModelMessage::System(_) | ModelMessage::ToolResults(_) => {}
        ModelMessage::User(parts) => push_section(text, "Message", &parts_text(parts)),
        ModelMessage::Assistant(parts) => {
            let mut lines = Vec::new();
            for part in parts {
                match part {
                    AssistantPart::Text(text) => lines.push(text.clone()),
                    AssistantPart::ToolCall(call) => {
                        lines.push(format!("[calls {} {}]", call.name, call.arguments));
                    }
                    AssistantPart::Media(media) => lines.push(format!("[{}]", media.media_type)),
                    // Only its provider can read it.
                    AssistantPart::Opaque(_) => {}
                }
            }
            push_section(text, "Your reply", &lines.join("\n"));
        }
    }
}

fn user_parts(message: ModelMessage) -> Vec<Part> {
    match message {
        ModelMessage::User(parts) => parts,
        _ => Vec::new(),
    }
}

fn push_result(text: &mut String, result: &ToolResult) {
    let what = if result.is_error {
        "Error of"
    } else {
        "Result of"
    };
    let title = format!("{what} {}", result.tool);
    push_section(text, &title, &parts_text(&result.content));
}

fn parts_text(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Image(media) | Part::File(media) => format!("[{}]", media.media_type),
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the estimated number of tokens of a text of so many bytes.
pub(super) fn text_tokens(bytes: u64) -> u64 {
    bytes.div_ceil(BYTES_PER_TOKEN)
}

/// Returns how many bytes of text have so many tokens, as it is estimated.
pub(super) fn bytes_of_tokens(tokens: u64) -> u64 {
    tokens.saturating_mul(BYTES_PER_TOKEN)
}

fn parts_tokens(parts: &[Part]) -> u64 {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text_tokens(text.len() as u64),
        Part::Image(_) | Part::File(_) => MEDIA_TOKENS,
    });
    texts.sum()
}

fn message_tokens(message: &ModelMessage) -> u64 {
    match message {
        ModelMessage::System(text) => text_tokens(text.len() as u64),
        ModelMessage::User(parts) => parts_tokens(parts),
        ModelMessage::Assistant(parts) => {
            let sizes = parts.iter().map(|part| match part {
                AssistantPart::Text(text) => text_tokens(text.len() as u64),
                AssistantPart::ToolCall(call) => {
                    text_tokens((call.name.len() + call.arguments.len()) as u64)
                }
                AssistantPart::Opaque(part) => text_tokens(part.data.as_str().len() as u64),
                AssistantPart::Media(_) => MEDIA_TOKENS,
            });
            sizes.sum()
        }
        ModelMessage::ToolResults(results) => results
            .iter()
            .map(|result| parts_tokens(&result.content))
            .sum(),
    }
}

/// Returns the size of messages. Each result of a tool counts as one.
fn messages_size<'a>(messages: impl IntoIterator<Item = &'a ModelMessage>) -> BlockSize {
    let mut size = BlockSize::default();
    for message in messages {
        size.messages += match message {
            ModelMessage::ToolResults(results) => results.len() as u32,
            _ => 1,
        };
        size.tokens += message_tokens(message);
    }
    size
}

/// Returns the estimated size of what is sent besides the conversation.
fn frame_tokens(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        let bytes = tool.name.len() + tool.description.len() + tool.parameters.len();
        text_tokens(bytes as u64)
    });
    text_tokens(request.system.len() as u64) + tools.sum::<u64>()
}

#[cfg(test)]
mod tests;
