//! The scripted provider, which answers from a file. It is used to try out teams without a model,
//! and in tests.
//!
//! `file` parses the file. How often a reply was used is remembered in this process only: a resumed
//! run starts counting again.

mod file;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use regex::Regex;
use strata_core::fault::FaultCause;

pub use self::file::ReplyFileError;
use super::models::excerpt;
use super::tokens::estimate;
use super::{Finish, Reply, Request, Speaker, ToolCall};
use crate::gateway::{HostError, HostErrorKind};

/// The name of the answering model if neither the request nor the team names one.
const MODEL: &str = "scripted";

/// A provider that answers from a file.
#[derive(Debug)]
pub(super) struct Scripted {
    file: PathBuf,
    entries: Vec<Entry>,
}

/// An entry of the file.
#[derive(Debug)]
struct Entry {
    /// The pattern that the last user message has to match. `None` matches all.
    pattern: Option<Regex>,
    /// The answer.
    answer: Answer,
    /// The delay before the answer.
    delay: Duration,
    /// How often it may be used. `None` means no limit.
    times: Option<u32>,
    served: AtomicU32,
}

#[derive(Debug)]
enum Answer {
    Reply(Words),
    /// A failure of the provider.
    Failure {
        status: u16,
        body: String,
    },
}

#[derive(Debug)]
struct Words {
    text: String,
    data: Option<String>,
    tool_calls: Vec<Call>,
    /// The token counts. They are estimated if `None`.
    input: Option<u32>,
    output: Option<u32>,
}

#[derive(Debug)]
struct Call {
    id: Option<String>,
    name: String,
    arguments: String,
}

impl Scripted {
    /// Reads a file of replies.
    pub(super) fn load(path: &Path) -> Result<Self, ReplyFileError> {
        Ok(Self {
            file: path.to_owned(),
            entries: file::load(path)?,
        })
    }

    /// Returns the first reply that matches the last user message and may still be used.
    pub(super) async fn complete(
        &self,
        model: Option<&str>,
        request: &Request,
    ) -> Result<Reply, HostError> {
        let asked = last_user_message(request);
        let entry = self.choose(asked)?;
        if !entry.delay.is_zero() {
            tokio::time::sleep(entry.delay).await;
        }
        match &entry.answer {
            Answer::Reply(words) => Ok(words.reply(model.unwrap_or(MODEL), request)),
            Answer::Failure { status, body } => Err(upstream(format!(
                "asking the scripted model failed: `{}` plays an endpoint that answers {status}: `{}`",
                self.file.display(),
                excerpt(body)
            ))),
        }
    }

    fn choose(&self, asked: &str) -> Result<&Entry, HostError> {
        let mut exhausted = false;
        for entry in self.entries.iter().filter(|e| e.matches(asked)) {
            if entry.take() {
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
        let (asked, file) = (excerpt(asked), self.file.display());
        let error = upstream(format!(
            "no scripted reply to `{asked}`: {why}; {hint} in `{file}`"
        ));
        Err(error.caused_by(FaultCause::NoScriptedReply))
    }
}

impl Entry {
    fn matches(&self, asked: &str) -> bool {
        self.pattern.as_ref().is_none_or(|p| p.is_match(asked))
    }

    /// Counts one use. Returns `false` if none is left.
    fn take(&self) -> bool {
        let Some(times) = self.times else { return true };
        self.served
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < times).then_some(n + 1)
            })
            .is_ok()
    }
}

impl Words {
    fn reply(&self, model: &str, request: &Request) -> Reply {
        let calls = self.tool_calls.iter().enumerate();
        Reply {
            text: self.text.clone(),
            data: self.data.clone(),
            tool_calls: calls.map(|(i, call)| call.called(request, i)).collect(),
            model: model.to_owned(),
            input_tokens: self.input.unwrap_or_else(|| estimate(request.texts())),
            output_tokens: self
                .output
                .unwrap_or_else(|| estimate([self.text.as_str()])),
            cached_tokens: 0,
            finish: if self.tool_calls.is_empty() {
                Finish::Stop
            } else {
                Finish::ToolCalls
            },
        }
    }
}

impl Call {
    fn called(&self, request: &Request, index: usize) -> ToolCall {
        let id = self.id.clone();
        ToolCall {
            id: id.unwrap_or_else(|| request.tool_call_id(index)),
            name: self.name.clone(),
            arguments: self.arguments.clone(),
        }
    }
}

fn last_user_message(request: &Request) -> &str {
    let users = request.messages.iter().rev();
    let mut users = users.filter(|t| t.speaker == Speaker::User);
    users.next().map_or("", |turn| turn.content.as_str())
}

fn upstream(message: String) -> HostError {
    HostError::new(HostErrorKind::Upstream, message)
}

#[cfg(test)]
mod tests;
