//! Makes any conversation one that a provider accepts. Texts, names and ids in it were written by
//! models, actions and people, and providers refuse a whole request because of one of them.
//!
//! What becomes of a message depends only on the messages before it and, for a reply that calls
//! tools, on the results that follow it directly. So a request begins with the previous one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter::Peekable;

use serde_json::Value;
use strata_base::files::sha256::sha256;
use strata_core::record::conversation::{
    AssistantPart, Media, ModelMessage, Part, ToolCall, ToolResult,
};
use strata_core::record::id::to_hex;

use super::Outbound;
use super::body::is_blank;
use super::tools::ToolNames;

/// What stands for a message or a result without content, which many providers do not allow.
pub(super) const EMPTY: &str = "(empty)";
/// The result of a call for which the conversation contains none.
const NO_RESULT: &str = "(no result)";
/// The number of hexadecimal digits of a mapped id. They distinguish the calls of a conversation.
const MAPPED_ID_DIGITS: usize = 24;
/// The fields by which a provider recognises an opaque part that it has seen in the same request.
const OPAQUE_IDS: [&str; 2] = ["id", "tool_use_id"];

/// What a protocol demands of conversations, beyond what all of them do.
pub(super) struct ConversationRules {
    /// The maximum length of the id of a tool call, in characters.
    pub(super) max_id_chars: usize,
    /// Returns what an opaque part is.
    pub(super) opaque: fn(&Value) -> OpaqueKind,
}

/// What an opaque part is in a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpaqueKind {
    /// Reasoning, which must not end a reply.
    Reasoning,
    /// The signature of the part before it, which is sent even if it is a blank text.
    Signature,
    /// Anything else that the provider expects back.
    Other,
    /// Something that the host itself writes, or that no reply contains. It is not sent.
    Foreign,
}

/// A message as it is sent. No text in it is blank, except one that is signed.
pub(super) enum SentMessage<'a> {
    /// Instructions within the conversation.
    System(&'a str),
    /// What the model is told. There is at least one part.
    User(Vec<Cow<'a, Part>>),
    /// A reply of the model. There is at least one part.
    Reply(Vec<SentPart<'a>>),
    /// The results of the calls in the preceding reply: one for each, in their order.
    Results(Vec<SentResult<'a>>),
}

/// A piece of a reply as it is sent.
pub(super) enum SentPart<'a> {
    Text(Cow<'a, str>),
    Media(&'a Media),
    Call(SentCall<'a>),
    /// A value that this provider and model expect back.
    Opaque(Value),
}

/// A call of a tool as it is sent.
pub(super) struct SentCall<'a> {
    /// Its id, which no other call of the conversation has.
    pub(super) id: String,
    /// A name that the provider accepts.
    pub(super) name: String,
    /// The call as the model made it.
    pub(super) tool_call: &'a ToolCall,
}

/// The result of a call as it is sent.
pub(super) struct SentResult<'a> {
    /// The id of the call.
    pub(super) id: String,
    /// The name of the tool, as the call has it.
    pub(super) name: String,
    /// The result. There is at least one part.
    pub(super) content: Vec<Cow<'a, Part>>,
    pub(super) is_error: bool,
}

/// Returns the conversation of a request as it is sent. It begins with a message of the user, or with
/// instructions.
pub(super) fn sent_conversation<'a>(
    outbound: &Outbound<'a>,
    rules: &ConversationRules,
    names: &ToolNames<'_>,
) -> Vec<SentMessage<'a>> {
    let mut writer = ConversationWriter {
        outbound,
        rules,
        names,
        used_ids: BTreeSet::new(),
        repetitions: BTreeMap::new(),
        used_opaque_ids: BTreeSet::new(),
        sent: Vec::new(),
    };
    let alternates = outbound.settings.join_news;
    let mut messages = outbound.request.messages.iter().peekable();
    while let Some(message) = messages.next() {
        match message {
            ModelMessage::System(text) if is_blank(text) => {}
            ModelMessage::System(text) if alternates => writer.push_user(vec![text_part(text)]),
            ModelMessage::System(text) => writer.sent.push(SentMessage::System(text)),
            ModelMessage::User(parts) => writer.push_user(visible_parts(parts)),
            ModelMessage::Assistant(parts) => {
                let results = following_results(&mut messages);
                writer.push_reply(parts, results);
            }
            ModelMessage::ToolResults(results) => {
                for result in results {
                    writer.push_stray_result(result);
                }
            }
        }
    }
    // Some protocols demand that the first message is the user's, and all that there is one.
    let mut sent = writer.sent;
    if matches!(sent.first(), None | Some(SentMessage::Reply(_))) {
        sent.insert(0, SentMessage::User(vec![text_part(EMPTY)]));
    }
    if alternates {
        join_messages(sent)
    } else {
        sent
    }
}

/// Takes the results that follow a message directly.
fn following_results<'a>(
    messages: &mut Peekable<std::slice::Iter<'a, ModelMessage>>,
) -> Vec<&'a ToolResult> {
    let mut following = Vec::new();
    while let Some(ModelMessage::ToolResults(results)) = messages.peek() {
        following.extend(results);
        messages.next();
    }
    following
}

/// Writes the messages of one conversation.
struct ConversationWriter<'a, 'b> {
    outbound: &'b Outbound<'a>,
    rules: &'b ConversationRules,
    names: &'b ToolNames<'b>,
    /// The ids under which calls are sent.
    used_ids: BTreeSet<String>,
    /// How often an id was replaced because another call has it.
    repetitions: BTreeMap<&'a str, u32>,
    /// The ids of opaque parts, each with the field that contains it.
    used_opaque_ids: BTreeSet<(&'static str, String)>,
    sent: Vec<SentMessage<'a>>,
}

impl<'a> ConversationWriter<'a, '_> {
    fn push_user(&mut self, mut parts: Vec<Cow<'a, Part>>) {
        if parts.is_empty() {
            parts.push(text_part(EMPTY));
        }
        self.sent.push(SentMessage::User(parts));
    }

    /// Adds a reply and the results of its calls, which follow it directly. A result of no call of
    /// the reply is told as text.
    fn push_reply(&mut self, parts: &'a [AssistantPart], results: Vec<&'a ToolResult>) {
        let parts = self.reply_parts(parts);
        let mut by_call: BTreeMap<&str, VecDeque<&ToolResult>> = BTreeMap::new();
        for result in &results {
            by_call.entry(&result.call).or_default().push_back(result);
        }
        let mut sent_results = Vec::new();
        let mut answered: BTreeMap<&str, usize> = BTreeMap::new();
        for part in &parts {
            if let SentPart::Call(call) = part {
                let id = call.tool_call.id.as_str();
                let result = by_call.get_mut(id).and_then(VecDeque::pop_front);
                *answered.entry(id).or_default() += usize::from(result.is_some());
                sent_results.push(result_of(call, result));
            }
        }
        self.sent.push(SentMessage::Reply(parts));
        if !sent_results.is_empty() {
            self.sent.push(SentMessage::Results(sent_results));
        }
        for result in results {
            match answered.get_mut(result.call.as_str()) {
                Some(count @ 1..) => *count -= 1,
                _ => self.push_stray_result(result),
            }
        }
    }

    /// Returns the parts of a reply as they are sent.
    fn reply_parts(&mut self, parts: &'a [AssistantPart]) -> Vec<SentPart<'a>> {
        let mut sent = Vec::new();
        // How many parts there are without reasoning at the end.
        let mut complete = 0;
        let mut following = parts.iter().peekable();
        while let Some(part) = following.next() {
            match part {
                AssistantPart::Text(text) if is_blank(text) => {
                    let is_signed = following.peek().is_some_and(|next| self.is_signature(next));
                    if !is_signed {
                        continue;
                    }
                    sent.push(SentPart::Text(text.into()));
                }
                AssistantPart::Text(text) => sent.push(SentPart::Text(text.into())),
                AssistantPart::Media(media) => sent.push(SentPart::Media(media)),
                AssistantPart::ToolCall(call) => sent.push(SentPart::Call(SentCall {
                    id: self.unused_id(&call.id),
                    name: self.names.sent(&call.name),
                    tool_call: call,
                })),
                AssistantPart::Opaque(part) => {
                    let Some(data) = self.outbound.own_opaque(part) else {
                        continue;
                    };
                    let kind = (self.rules.opaque)(&data);
                    if kind == OpaqueKind::Foreign || !self.is_first(&data) {
                        continue;
                    }
                    sent.push(SentPart::Opaque(data));
                    if kind == OpaqueKind::Reasoning {
                        continue;
                    }
                }
            }
            complete = sent.len();
        }
        sent.truncate(complete);
        if sent.is_empty() {
            sent.push(SentPart::Text(EMPTY.into()));
        }
        sent
    }

    fn is_signature(&self, part: &AssistantPart) -> bool {
        let AssistantPart::Opaque(part) = part else {
            return false;
        };
        let data = self.outbound.own_opaque(part);
        data.is_some_and(|data| (self.rules.opaque)(&data) == OpaqueKind::Signature)
    }

    /// Returns whether no opaque part with the same id was sent before.
    fn is_first(&mut self, data: &Value) -> bool {
        OPAQUE_IDS.into_iter().all(|field| {
            data[field]
                .as_str()
                .is_none_or(|id| self.used_opaque_ids.insert((field, id.to_owned())))
        })
    }

    /// Returns the id under which a call is sent: its own if the provider accepts it and no earlier
    /// call has it. Another id is the same in each request of the conversation.
    fn unused_id(&mut self, id: &'a str) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let lengths = 1..=self.rules.max_id_chars;
        let mut candidate = if lengths.contains(&id.len()) && id.chars().all(fits) {
            id.to_owned()
        } else {
            mapped_id(id)
        };
        while !self.used_ids.insert(candidate.clone()) {
            let count = self.repetitions.entry(id).or_default();
            *count += 1;
            candidate = mapped_id(&format!("{id}\n{count}"));
        }
        candidate
    }

    /// Adds a result that belongs to no call of the reply before it.
    fn push_stray_result(&mut self, result: &'a ToolResult) {
        let name = self.names.sent(&result.tool);
        let mut parts = vec![text_part(format!("Result of a call of `{name}`:"))];
        parts.extend(content_of(result));
        self.push_user(parts);
    }
}

fn mapped_id(id: &str) -> String {
    let digits = to_hex(&sha256(id));
    format!("call_{}", &digits[..MAPPED_ID_DIGITS])
}

fn result_of<'a>(call: &SentCall<'a>, result: Option<&'a ToolResult>) -> SentResult<'a> {
    SentResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: result.map_or_else(|| vec![text_part(NO_RESULT)], content_of),
        is_error: result.is_none_or(|result| result.is_error),
    }
}

fn content_of(result: &ToolResult) -> Vec<Cow<'_, Part>> {
    let mut parts = visible_parts(&result.content);
    if parts.is_empty() {
        parts.push(text_part(EMPTY));
    }
    parts
}

/// Returns parts without blank texts.
fn visible_parts(parts: &[Part]) -> Vec<Cow<'_, Part>> {
    let is_visible = |part: &&Part| !matches!(part, Part::Text(text) if is_blank(text));
    parts.iter().filter(is_visible).map(Cow::Borrowed).collect()
}

fn text_part(text: impl Into<String>) -> Cow<'static, Part> {
    Cow::Owned(Part::Text(text.into()))
}

/// Joins messages that follow each other and have the same role.
fn join_messages(messages: Vec<SentMessage<'_>>) -> Vec<SentMessage<'_>> {
    let mut joined: Vec<SentMessage<'_>> = Vec::new();
    for message in messages {
        match (joined.last_mut(), message) {
            (Some(SentMessage::User(parts)), SentMessage::User(added)) => {
                join_user_parts(parts, added);
            }
            (Some(SentMessage::Reply(parts)), SentMessage::Reply(mut added)) => {
                if let (Some(SentPart::Text(before)), Some(SentPart::Text(after))) =
                    (parts.last_mut(), added.first())
                {
                    *before = format!("{before}\n\n{after}").into();
                    added.remove(0);
                }
                parts.extend(added);
            }
            (_, message) => joined.push(message),
        }
    }
    joined
}

fn join_user_parts<'a>(parts: &mut Vec<Cow<'a, Part>>, mut added: Vec<Cow<'a, Part>>) {
    if let (Some(last), Some(first)) = (parts.last_mut(), added.first())
        && let (Part::Text(before), Part::Text(after)) = (&**last, &**first)
    {
        *last = text_part(format!("{before}\n\n{after}"));
        added.remove(0);
    }
    parts.extend(added);
}
