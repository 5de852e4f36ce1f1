//! Assembles the tool calls of a streamed reply from their chunks.
//!
//! According to the protocol, each call has an index, and its id comes with its first chunk. Some
//! endpoints send each call in one chunk and give all of them the same index, or none.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{EXTRA_CONTENT, function};
use crate::services::models::protocol::MAX_TOOL_CALLS;
use crate::services::models::surrogate::{JoinedText, replace_marked_surrogates};

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
    /// What the endpoint expects back with the call.
    extra: Value,
}

/// The nesting depth of a JSON document, updated as its text arrives. Parsing the document again
/// with each chunk would take quadratic time.
#[derive(Default)]
struct Nesting {
    depth: u32,
    has_begun: bool,
    in_string: bool,
    is_escaped: bool,
}

impl Nesting {
    fn follow(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => {
                    self.has_begun = true;
                    self.depth = self.depth.saturating_add(1);
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Returns whether an object or array has ended.
    fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.in_string
    }
}

impl ToolCallBuilder {
    /// Adds a list of chunks of calls.
    pub(super) fn push(&mut self, pieces: &Value) {
        let pieces = pieces.as_array().map(Vec::as_slice).unwrap_or_default();
        for (place, piece) in pieces.iter().enumerate() {
            let alone = pieces.len() == 1;
            let continued = self.find_continued(piece, if alone { None } else { Some(place) });
            let at = continued.unwrap_or(self.list.len());
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
            call.push(piece);
            if !had_id && !call.id.is_empty() {
                self.last.identify(at, call.index, &call.id);
            }
        }
    }

    /// Returns the position of the call that a chunk continues, or `None` if the chunk begins a new
    /// call. Without an index and an id, a chunk that is the only one in its list continues the last
    /// call. One of several chunks continues the call that began at the same `place`.
    fn find_continued(&self, piece: &Value, place: Option<usize>) -> Option<usize> {
        let (index, id) = (piece["index"].as_u64(), as_text(&piece["id"]));
        let known = self.last.find(index, id);
        let at = known.or_else(|| match (index, place) {
            (Some(index), _) => self.last.by_index.get(&index).copied(),
            (None, Some(place)) => self.last.by_place.get(&place).copied(),
            (None, None) => self.list.len().checked_sub(1),
        })?;
        (!self.list[at].is_followed_by(piece)).then_some(at)
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
    /// Returns whether a chunk begins another call rather than continuing this one.
    fn is_followed_by(&self, piece: &Value) -> bool {
        let (id, function) = (as_text(&piece["id"]), function(piece));
        let names = !as_text(&function["name"]).is_empty();
        // Adding text to a complete JSON document would make it invalid.
        let adds = |arguments: &Value| match arguments {
            Value::Null => false,
            Value::String(text) => !text.trim().is_empty(),
            _ => true,
        };
        let is_other = !id.is_empty() && !self.id.is_empty() && id != self.id;
        let is_complete = self.nesting.is_complete();
        match (is_other, names) {
            (true, true) => true,
            (true, false) => is_complete,
            (false, true) => adds(&function["arguments"]) && is_complete,
            (false, false) => false,
        }
    }

    fn push(&mut self, piece: &Value) {
        let function = function(piece);
        for (known, value) in [
            (&mut self.id, &piece["id"]),
            (&mut self.name, &function["name"]),
        ] {
            if known.is_empty() {
                known.push_str(as_text(value));
            }
        }
        if piece[EXTRA_CONTENT].is_object() {
            self.extra = piece[EXTRA_CONTENT].clone();
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(text) => self.push_arguments(text),
            document => self.push_arguments(&document.to_string()),
        }
    }

    fn push_arguments(&mut self, arguments: &str) {
        self.nesting.follow(arguments);
        self.arguments.push(arguments);
    }

    fn finish(self) -> Value {
        let function = json!({ "name": self.name, "arguments": self.arguments.finish() });
        let mut call = json!({ "id": self.id, "function": function, EXTRA_CONTENT: self.extra });
        replace_marked_surrogates(&mut call);
        call
    }
}

fn as_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
