//! Assembles the tool calls of a streamed reply from their chunks.
//!
//! According to the protocol, each call has an index, and its id comes with its first chunk. Some
//! endpoints send each call in one chunk and give all of them the same index, or none.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};
use strata_core::record::json;

use super::{RETURNED_WITH_CALLS, function};
use crate::models::protocol::MAX_TOOL_CALLS;
use crate::models::protocol::nesting::Nesting;
use crate::models::surrogate::{JoinedText, replace_marked_surrogates};

/// The calls that have begun. Of those beyond the maximum, only the first is kept, so that the
/// reply is rejected.
#[derive(Default)]
pub(super) struct ToolCallBuilder {
    /// In the order in which they began.
    list: Vec<PartialToolCall>,
    last: LastCalls,
}

/// The positions of the last calls with certain properties. With them, finding the call that a
/// chunk continues does not take longer the more calls there are.
#[derive(Default)]
struct LastCalls {
    by_index: BTreeMap<u64, usize>,
    by_id: BTreeMap<String, usize>,
    by_index_and_id: BTreeMap<(u64, String), usize>,
    by_place: BTreeMap<usize, usize>,
}

#[derive(Default)]
struct PartialToolCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: JoinedText,
    nesting: Nesting,
    /// The arguments, once they are complete and had to be compared with a chunk.
    document: Option<Value>,
    /// What the endpoint expects back with the call, by field.
    extras: BTreeMap<&'static str, Value>,
}

/// What a chunk of a call is to a call that has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChunkRole {
    /// It belongs to the call.
    Continues,
    /// It contains the arguments of the call, which is complete, once more.
    Repeats,
    /// It begins another call.
    Follows,
}

impl ToolCallBuilder {
    /// Adds a list of chunks of calls.
    pub(super) fn push(&mut self, pieces: &Value) {
        let pieces = pieces.as_array().map(Vec::as_slice).unwrap_or_default();
        for (place, piece) in pieces.iter().enumerate() {
            let alone = pieces.len() == 1;
            let continued = self.find_continued(piece, if alone { None } else { Some(place) });
            let role = continued.map_or(ChunkRole::Follows, |at| self.list[at].role_of(piece));
            let at = match continued {
                Some(at) if role != ChunkRole::Follows => at,
                _ => self.list.len(),
            };
            if at == self.list.len() {
                if at > MAX_TOOL_CALLS {
                    return;
                }
                let index = piece["index"].as_u64();
                self.last.begin(at, index, place);
                self.list.push(PartialToolCall {
                    index,
                    ..PartialToolCall::default()
                });
            }
            let call = &mut self.list[at];
            let had_id = !call.id.is_empty();
            call.push(piece, role);
            if !had_id && !call.id.is_empty() {
                self.last.identify(at, call.index, &call.id);
            }
        }
    }

    /// Returns the position of the call that a chunk continues, unless it begins another one.
    /// Without an index and an id, a chunk that is the only one in its list continues the last call.
    /// One of several chunks continues the call that began at the same `place`.
    fn find_continued(&self, piece: &Value, place: Option<usize>) -> Option<usize> {
        let (index, id) = (piece["index"].as_u64(), as_text(&piece["id"]));
        let known = self.last.find(index, id);
        known.or_else(|| match (index, place) {
            (Some(index), _) => self.last.by_index.get(&index).copied(),
            (None, Some(place)) => self.last.by_place.get(&place).copied(),
            (None, None) => self.list.len().checked_sub(1),
        })
    }

    /// Returns whether no call has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the calls in the form of a complete message.
    pub(super) fn finish(self) -> Value {
        let mut calls = self.list;
        if calls.iter().all(|call| call.index.is_some()) {
            calls.sort_by_key(|call| call.index);
        }
        calls.into_iter().map(PartialToolCall::finish).collect()
    }
}

impl LastCalls {
    /// Notes the call that begins at position `at`, which is after all others.
    fn begin(&mut self, at: usize, index: Option<u64>, place: usize) {
        if let Some(index) = index {
            self.by_index.insert(index, at);
        }
        self.by_place.insert(place, at);
    }

    /// Notes the id of a call.
    fn identify(&mut self, at: usize, index: Option<u64>, id: &str) {
        let last = self.by_id.entry(id.to_owned()).or_default();
        *last = at.max(*last);
        if let Some(index) = index {
            let last = self
                .by_index_and_id
                .entry((index, id.to_owned()))
                .or_default();
            *last = at.max(*last);
        }
    }

    /// Returns the last call with this id, and with this index if there is one.
    fn find(&self, index: Option<u64>, id: &str) -> Option<usize> {
        match index {
            _ if id.is_empty() => None,
            Some(index) => self.by_index_and_id.get(&(index, id.to_owned())).copied(),
            None => self.by_id.get(id).copied(),
        }
    }
}

impl PartialToolCall {
    /// Returns what a chunk is to this call.
    fn role_of(&mut self, piece: &Value) -> ChunkRole {
        let (id, function) = (as_text(&piece["id"]), function(piece));
        let is_named = !as_text(&function["name"]).is_empty();
        let is_identified = !id.is_empty() || piece["index"].is_u64();
        let is_other = !id.is_empty() && !self.id.is_empty() && id != self.id;
        let arguments = arguments_text(&function["arguments"]);
        let adds = !arguments.trim().is_empty();
        let is_complete = self.nesting.is_complete();
        // Adding text to a complete JSON document would make it invalid.
        match (is_other, is_named) {
            (true, true) => ChunkRole::Follows,
            (true, false) if is_complete => ChunkRole::Follows,
            (false, _) if adds && is_complete && is_identified && self.equals(&arguments) => {
                ChunkRole::Repeats
            }
            (false, true) if adds && is_complete => ChunkRole::Follows,
            _ => ChunkRole::Continues,
        }
    }

    /// Returns whether the arguments, which are complete, are the same as these.
    fn equals(&mut self, arguments: &str) -> bool {
        if self.arguments.as_str().trim() == arguments.trim() {
            return true;
        }
        let known = &self.arguments;
        let document = self.document.get_or_insert_with(|| parsed(known.as_str()));
        !document.is_null() && *document == parsed(arguments)
    }

    fn push(&mut self, piece: &Value, role: ChunkRole) {
        let function = function(piece);
        for (known, value) in [
            (&mut self.id, &piece["id"]),
            (&mut self.name, &function["name"]),
        ] {
            if known.is_empty() {
                known.push_str(as_text(value));
            }
        }
        for field in RETURNED_WITH_CALLS {
            if piece[field].is_object() {
                self.extras.insert(field, piece[field].clone());
            }
        }
        if role != ChunkRole::Repeats {
            let arguments = arguments_text(&function["arguments"]);
            self.nesting.follow(arguments.as_bytes());
            self.arguments.push(&arguments);
            self.document = None;
        }
    }

    fn finish(self) -> Value {
        let function = json!({ "name": self.name, "arguments": self.arguments.finish() });
        let mut call = json!({ "id": self.id, "function": function });
        for (field, extra) in self.extras {
            call[field] = extra;
        }
        replace_marked_surrogates(&mut call);
        call
    }
}

/// Returns arguments as text. Some endpoints send them as an object.
fn arguments_text(arguments: &Value) -> Cow<'_, str> {
    match arguments {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        document => Cow::Owned(document.to_string()),
    }
}

/// Returns the value of a JSON document, or `null` if it is none.
fn parsed(document: &str) -> Value {
    json::parse_untrusted(document).unwrap_or_default()
}

fn as_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
