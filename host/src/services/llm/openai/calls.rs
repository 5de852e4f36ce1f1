//! Assembles the tool calls of a streamed reply from their chunks.
//!
//! According to the protocol, each call has an index, and its id comes with its first chunk. Some
//! endpoints send each call in one chunk and give all of them the same index, or none.

use serde_json::{Value, json};

use super::super::surrogate::{JoinedText, replace_halves};
use super::function;

/// The calls that have begun, in order.
#[derive(Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Default)]
struct Call {
    index: Option<u64>,
    /// Its position in the list of the chunk that began it.
    place: usize,
    id: String,
    name: String,
    arguments: JoinedText,
    nesting: Nesting,
}

/// The nesting depth of a JSON document, updated as its text arrives. Parsing the document again
/// with each chunk would take quadratic time.
#[derive(Default)]
struct Nesting {
    depth: u32,
    has_begun: bool,
    in_text: bool,
    is_escaped: bool,
}

impl Nesting {
    fn follow(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
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
        self.has_begun && self.depth == 0 && !self.in_text
    }
}

impl Calls {
    /// Adds a list of chunks of calls.
    pub(super) fn take(&mut self, pieces: &Value) {
        let pieces = pieces.as_array().map(Vec::as_slice).unwrap_or_default();
        for (place, piece) in pieces.iter().enumerate() {
            let alone = pieces.len() == 1;
            match self.continued(piece, if alone { None } else { Some(place) }) {
                Some(call) => call.take(piece),
                None => {
                    let mut call = Call {
                        index: piece["index"].as_u64(),
                        place,
                        ..Call::default()
                    };
                    call.take(piece);
                    self.0.push(call);
                }
            }
        }
    }

    /// Returns the call that a chunk continues, or `None` if the chunk begins a new call. Without
    /// an index and an id, a chunk that is the only one in its list continues the last call. One of
    /// several chunks continues the call that began at the same `place`.
    fn continued(&mut self, piece: &Value, place: Option<usize>) -> Option<&mut Call> {
        let (index, id) = (piece["index"].as_u64(), text(&piece["id"]));
        let belongs = |call: &Call| match (index, place) {
            (Some(_), _) => call.index == index,
            (None, _) if !id.is_empty() && call.id == id => true,
            (None, Some(place)) => call.place == place,
            (None, None) => true,
        };
        let known = self
            .0
            .iter()
            .rposition(|call| belongs(call) && !id.is_empty() && call.id == id);
        let at = known.or_else(|| self.0.iter().rposition(belongs))?;
        let call = &mut self.0[at];
        (!call.is_followed_by(piece)).then_some(call)
    }

    /// Returns whether no call has begun.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the calls in the form of a complete message.
    pub(super) fn finish(self) -> Value {
        let mut calls = self.0;
        if calls.iter().all(|call| call.index.is_some()) {
            calls.sort_by_key(|call| call.index);
        }
        calls.into_iter().map(Call::finish).collect()
    }
}

impl Call {
    /// Returns whether a chunk begins another call rather than continuing this one.
    fn is_followed_by(&self, piece: &Value) -> bool {
        let (id, function) = (text(&piece["id"]), function(piece));
        let names = !text(&function["name"]).is_empty();
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

    fn take(&mut self, piece: &Value) {
        let function = function(piece);
        for (known, value) in [
            (&mut self.id, &piece["id"]),
            (&mut self.name, &function["name"]),
        ] {
            if known.is_empty() {
                known.push_str(text(value));
            }
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(text) => self.add(text),
            document => self.add(&document.to_string()),
        }
    }

    fn add(&mut self, arguments: &str) {
        self.nesting.follow(arguments);
        self.arguments.push(arguments);
    }

    fn finish(self) -> Value {
        let mut call = json!({ "id": self.id, "function": { "name": self.name, "arguments": self.arguments.finish() } });
        replace_halves(&mut call);
        call
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
