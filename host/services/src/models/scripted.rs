//! The scripted provider, which answers from a file. It is used to try out teams without a model,
//! and in tests.
//!
//! The file is read by the crate of team files (`replies`). How often a reply was used is part of the record of the
//! calls that it answered, so a resumed run continues to count.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use regex::Regex;
use reqwest::StatusCode;
use serde::Serialize;
use strata_base::files::sha256::sha256;
use strata_core::record::conversation::{AssistantPart, TokenUsage, ToolCall};
use strata_core::record::fault::FaultCause;
use strata_core::record::id::to_hex;

use super::endpoint::{RequestFailure, outlook_of_status};
use super::error_text::excerpt;
use super::protocol::is_context_overflow;
use super::tokens::{estimate_input, estimate_tokens};
use super::{FinishReason, ModelReply, ModelRequest};
use crate::gateway::{HostError, HostErrorKind};

/// The length of the part of an entry's id that its content determines.
const ID_BYTES: usize = 8;

/// The name of the answering model if neither the request nor the team names one.
pub(super) const DEFAULT_MODEL: &str = "scripted";

/// A provider that answers from a file.
#[derive(Debug)]
pub(super) struct ScriptedProvider {
    file: PathBuf,
    entries: Vec<ScriptedEntry>,
}

/// An entry of the file.
#[derive(Debug)]
pub struct ScriptedEntry {
    /// The requests that it is for.
    filter: ReplyFilter,
    /// The answer.
    pub answer: ScriptedAnswer,
    /// The delay before the answer.
    delay: Duration,
    /// How often it may be used. `None` means no limit.
    times: Option<u32>,
    uses: AtomicU32,
}

/// The requests that an entry is for.
#[derive(Debug, Default)]
pub struct ReplyFilter {
    /// The pattern that the newest message has to match. `None` matches all.
    pub pattern: Option<Regex>,
    /// The turn of a tools role. `None` matches all requests.
    pub turn: Option<u32>,
}

/// What an entry answers.
#[derive(Debug, Serialize)]
pub enum ScriptedAnswer {
    /// A reply of the model.
    Reply(ScriptedReply),
    /// A failure of the provider.
    Failure {
        /// The HTTP status.
        status: u16,
        /// The body of the response.
        body: String,
    },
}

/// A reply of the model.
#[derive(Debug, Serialize)]
pub struct ScriptedReply {
    /// Its text.
    pub text: String,
    /// Its data, as JSON.
    pub data: Option<String>,
    /// The tools that it calls.
    pub tool_calls: Vec<ScriptedToolCall>,
    /// The tokens of the request. They are estimated if `None`.
    pub input: Option<u32>,
    /// The tokens of the reply. They are estimated if `None`.
    pub output: Option<u32>,
}

/// A call of a tool.
#[derive(Debug, Serialize)]
pub struct ScriptedToolCall {
    /// Its id. Without it one is made from the request.
    pub id: Option<String>,
    /// The name of the tool.
    pub name: String,
    /// The arguments, as JSON.
    pub arguments: String,
}

impl ScriptedProvider {
    /// Creates a provider that answers with the entries of a file.
    pub(super) fn new(file: &Path, entries: Vec<ScriptedEntry>) -> Self {
        Self {
            file: file.to_owned(),
            entries,
        }
    }

    /// Continues to count from these uses, by the ids of entries. Equal entries have one id; their
    /// uses are those of the first ones.
    pub(super) fn set_uses(&self, model: &str, uses: &BTreeMap<String, u64>) {
        let mut uses = uses.clone();
        for entry in &self.entries {
            let (Some(id), Some(times)) = (entry.limited_id(model), entry.times) else {
                continue;
            };
            let left = uses.entry(id).or_default();
            let own = u32::try_from(*left).unwrap_or(u32::MAX).min(times);
            *left -= u64::from(own);
            entry.uses.store(own, Ordering::Relaxed);
        }
    }

    /// Returns the answer of an entry to a request.
    pub(super) async fn answer(
        &self,
        entry: &ScriptedEntry,
        model: Option<&str>,
        request: &ModelRequest,
    ) -> Result<ModelReply, RequestFailure> {
        if !entry.delay.is_zero() {
            tokio::time::sleep(entry.delay).await;
        }
        match &entry.answer {
            ScriptedAnswer::Reply(words) => {
                Ok(words.to_reply(model.unwrap_or(DEFAULT_MODEL), request))
            }
            ScriptedAnswer::Failure { status, body } => Err(self.failure(*status, body)),
        }
    }

    fn failure(&self, status: u16, body: &str) -> RequestFailure {
        let reason = format!(
            "`{}` plays an endpoint that answers {status}: `{}`",
            self.file.display(),
            excerpt(body)
        );
        let error = upstream_error(format!("asking the scripted model failed: {reason}"));
        let outlook = StatusCode::from_u16(status).map(outlook_of_status);
        let is_too_long = status == StatusCode::PAYLOAD_TOO_LARGE.as_u16()
            || status == StatusCode::BAD_REQUEST.as_u16() && is_context_overflow(&body.into());
        let error = if is_too_long {
            error.caused_by(FaultCause::ContextTooLong)
        } else {
            error
        };
        let failure = RequestFailure::from(error);
        RequestFailure {
            reason,
            outlook: outlook.unwrap_or(failure.outlook),
            ..failure
        }
    }

    /// Returns the first entry that matches the newest message of a request and may still be used.
    /// This counts as a use. `turn` is the turn of a tools role that the request is for.
    pub(super) fn choose(
        &self,
        question: &str,
        turn: Option<u32>,
    ) -> Result<&ScriptedEntry, HostError> {
        let mut exhausted = false;
        for entry in &self.entries {
            if !entry.matches(question, turn) {
                continue;
            }
            if entry.try_use() {
                return Ok(entry);
            }
            exhausted = true;
        }
        let (why, hint) = if exhausted {
            (
                "every reply that matches has served its `times`",
                "raise `times`",
            )
        } else {
            ("no `match` fits", "add a `[[reply]]`")
        };
        let (question, file) = (excerpt(question), self.file.display());
        let error = upstream_error(format!(
            "no scripted reply to `{question}`: {why}; {hint} in `{file}`"
        ));
        Err(error.caused_by(FaultCause::NoScriptedReply))
    }
}

impl ScriptedEntry {
    /// Creates an entry that was not used yet.
    pub fn new(
        filter: ReplyFilter,
        answer: ScriptedAnswer,
        delay: Duration,
        times: Option<u32>,
    ) -> Self {
        Self {
            filter,
            answer,
            delay,
            times,
            uses: AtomicU32::new(0),
        }
    }

    fn matches(&self, text: &str, turn: Option<u32>) -> bool {
        let ReplyFilter {
            pattern,
            turn: expected,
        } = &self.filter;
        expected.is_none_or(|expected| turn == Some(expected))
            && pattern.as_ref().is_none_or(|p| p.is_match(text))
    }

    /// Returns the id by which the uses of an entry of this model are counted, or `None` if it may be
    /// used without limit. It depends on what the entry matches and answers, not on its place in
    /// the file, so other entries can be added before a resume.
    pub(super) fn limited_id(&self, model: &str) -> Option<String> {
        self.times?;
        let ReplyFilter { pattern, turn } = &self.filter;
        let pattern = pattern.as_ref().map(Regex::as_str);
        let content = serde_json::to_vec(&(turn, pattern, &self.answer));
        let digest = sha256(content.unwrap_or_default());
        Some(format!("{model}/{}", to_hex(&digest[..ID_BYTES])))
    }

    /// Counts one use. Returns `false` if none is left.
    fn try_use(&self) -> bool {
        let Some(times) = self.times else { return true };
        self.uses
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < times).then_some(n + 1)
            })
            .is_ok()
    }
}

impl ScriptedReply {
    fn to_reply(&self, model: &str, request: &ModelRequest) -> ModelReply {
        let text = AssistantPart::Text(self.text.clone());
        let text = Some(text).filter(|_| !self.text.is_empty());
        let calls = self.tool_calls.iter().enumerate();
        let calls = calls.map(|(index, call)| call.to_tool_call(request, index));
        let (input, output) = (self.input.map(u64::from), self.output.map(u64::from));
        ModelReply {
            parts: text
                .into_iter()
                .chain(calls.map(AssistantPart::ToolCall))
                .collect(),
            data: self.data.clone(),
            model: model.to_owned(),
            finish: if self.tool_calls.is_empty() {
                FinishReason::Stop
            } else {
                FinishReason::ToolCalls
            },
            usage: TokenUsage {
                input: input.unwrap_or_else(|| estimate_input(request)),
                output: output.unwrap_or_else(|| estimate_tokens([self.text.as_str()])),
                ..TokenUsage::default()
            },
        }
    }
}

impl ScriptedToolCall {
    fn to_tool_call(&self, request: &ModelRequest, index: usize) -> ToolCall {
        let id = self.id.clone();
        ToolCall {
            id: id.unwrap_or_else(|| request.tool_call_id(index)),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
        }
    }
}

fn upstream_error(message: String) -> HostError {
    HostError::new(HostErrorKind::Upstream, message)
}

#[cfg(test)]
mod tests;
