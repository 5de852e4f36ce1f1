//! A streamed reply: its pieces, put together to the answer that would have come in one piece, and its text for whoever
//! listens meanwhile.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use strata_core::json;

use super::key::Hush;
use crate::services::llm::Hearing;

/// What ends a stream.
const DONE: &str = "[DONE]";

/// The pieces of a reply that have come.
#[derive(Default)]
pub(super) struct Pieces {
    model: Value,
    text: String,
    refusal: String,
    calls: BTreeMap<u64, Call>,
    usage: Value,
    stage: Stage,
}

/// How far a reply has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Nothing of it is there.
    #[default]
    Empty,
    /// It is being written.
    Open,
    /// It is whole. What is told about it may still come.
    Whole,
    /// Nothing more comes.
    Over,
}

/// The pieces of a tool call.
#[derive(Default)]
struct Call {
    id: String,
    name: String,
    arguments: String,
}

/// Why a stream is of no use.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The endpoint says that it failed.
    Upstream(String),
    /// It is no stream of a reply.
    Nonsense(String),
}

impl Pieces {
    /// Takes in the data of an event; the text in it.
    pub(super) fn take(&mut self, data: &str, hush: Hush<'_>) -> Result<String, Broken> {
        if data.trim() == DONE {
            if self.stage == Stage::Empty {
                return Err(Broken::Nonsense("the stream holds no reply".to_owned()));
            }
            self.stage = Stage::Over;
            return Ok(String::new());
        }
        let nonsense = |error| Broken::Nonsense(format!("a piece of the stream is {error}: `{}`", hush.excerpt(data)));
        let mut piece = json::read(data).map_err(nonsense)?;
        if !piece["error"].is_null() {
            return Err(Broken::Upstream(format!("the endpoint broke the reply off: `{}`", hush.excerpt(data))));
        }
        for (known, told) in [(&mut self.model, "model"), (&mut self.usage, "usage")] {
            if !piece[told].is_null() {
                *known = piece[told].take();
            }
        }
        let choice = &piece["choices"][0];
        let stage = match choice {
            Value::Null => Stage::Empty,
            choice if choice["finish_reason"].is_string() => Stage::Whole,
            _ => Stage::Open,
        };
        self.stage = self.stage.max(stage);
        let delta = &choice["delta"];
        for (place, call) in (0..).zip(delta["tool_calls"].as_array().into_iter().flatten()) {
            self.calls.entry(call["index"].as_u64().unwrap_or(place)).or_default().take(call);
        }
        self.refusal += delta["refusal"].as_str().unwrap_or_default();
        let text = delta["content"].as_str().unwrap_or_default();
        self.text += text;
        Ok(text.to_owned())
    }

    /// How far the reply has come.
    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether it was told what the reply consumed.
    pub(super) fn is_counted(&self) -> bool {
        self.usage.is_object()
    }

    /// The answer that would have come in one piece.
    pub(super) fn answer(self) -> String {
        let mut message = json!({ "content": self.text });
        if self.text.is_empty() && !self.refusal.is_empty() {
            message = json!({ "content": null, "refusal": self.refusal });
        }
        message["tool_calls"] = self.calls.into_values().map(Call::whole).collect();
        json!({ "model": self.model, "choices": [{ "message": message }], "usage": self.usage }).to_string()
    }
}

impl Call {
    fn take(&mut self, piece: &Value) {
        let function = &piece["function"];
        for (known, told) in [(&mut self.id, &piece["id"]), (&mut self.name, &function["name"])] {
            if known.is_empty() {
                known.push_str(told.as_str().unwrap_or_default());
            }
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(text) => self.arguments += text,
            document => self.arguments += &document.to_string(),
        }
    }

    fn whole(self) -> Value {
        json!({ "id": self.id, "function": { "name": self.name, "arguments": self.arguments } })
    }
}

/// Passes text on to whoever listens, without the key. What may be the beginning of a key waits for the rest.
pub(super) struct Hushed<'a> {
    hearing: &'a mut Hearing,
    hush: Hush<'a>,
    held: String,
}

impl<'a> Hushed<'a> {
    pub(super) fn new(hearing: &'a mut Hearing, hush: Hush<'a>) -> Self {
        Self { hearing, hush, held: String::new() }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.held += text;
        let clear = self.hush.begun(&mut self.held);
        self.hearing.text(&clear);
    }
}

impl Drop for Hushed<'_> {
    fn drop(&mut self) {
        let rest = self.hush.text(std::mem::take(&mut self.held));
        self.hearing.text(&rest);
    }
}
