//! Records of model calls: written during a run, and served again as a provider. A run against a
//! paid endpoint can thus become a test.
//!
//! A record is NDJSON. Each line is `{"request": …, "reply": …}` or `{"request": …, "error": …}`,
//! in the order in which the replies arrived. API keys are not part of requests, so a record does
//! not contain them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use strata_base::files::open;
use strata_core::record::fault::FaultCause;
use strata_core::record::json::lenient;
use strata_core::record::json::lenient::NonFinite;

use super::error_text::excerpt;
use super::{ModelReply, ModelRequest};
use crate::gateway::{HostError, HostErrorKind};

/// The maximum size of a record that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// A request with its outcome.
#[derive(Serialize, Deserialize)]
struct RecordedExchange {
    request: ModelRequest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reply: Option<ModelReply>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<HostError>,
}

/// The beginning of each line that is written here.
pub const LINE_BEGINNING: &[u8] = b"{\"request\":";

/// The reason why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file cannot be opened or read.
    #[error("cannot {action} the record of model calls `{}`: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A line is not a recorded exchange.
    #[error("line {line} of `{}` is no recorded model call: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line number, counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// Writes exchanges to a file.
#[derive(Debug)]
pub(super) struct ExchangeRecorder {
    path: PathBuf,
    /// `None` after the first failed write, which was reported.
    file: Mutex<Option<File>>,
}

impl ExchangeRecorder {
    /// Opens a file to append to it, or creates it. Fails if the file is not a record. A last line
    /// that was cut off by a kill or a full disk is removed.
    pub(super) fn open(path: &Path) -> Result<Self, RecordError> {
        let end = if path.is_file() {
            RecordEnd::examine(path)?
        } else {
            RecordEnd::default()
        };
        let file = end.open_after(path).map_err(|source| RecordError::Io {
            action: "write",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(Some(file)),
        })
    }

    /// Appends an exchange. If that fails, the run continues without recording.
    pub(super) fn append(&self, request: &ModelRequest, result: Result<&ModelReply, &HostError>) {
        // Anyone can write a record, so the cause is left out: it must come from this host.
        let error = result.err().map(|error| HostError {
            cause: None,
            ..error.clone()
        });
        let reply = result.ok().cloned();
        let exchange = RecordedExchange {
            request: request.clone(),
            reply,
            error,
        };
        let line = serde_json::to_string(&exchange).unwrap_or_default() + "\n";
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(error)) = file.as_mut().map(|file| file.write_all(line.as_bytes())) {
            tracing::warn!(
                "model calls are no longer recorded in `{}`: {error}",
                self.path.display()
            );
            *file = None;
        }
    }
}

/// The end of a record.
#[derive(Debug, Default)]
struct RecordEnd {
    /// The total length of its complete lines in bytes.
    complete_bytes: u64,
    /// Whether a part of a line follows them.
    has_partial_line: bool,
    /// Whether a line without a line break follows them, as some editors leave it.
    lacks_line_break: bool,
}

impl RecordEnd {
    /// Opens the file to append to it, or creates it, and makes its last line complete.
    fn open_after(&self, path: &Path) -> io::Result<File> {
        let mut file = open::to_append(path)?;
        if self.has_partial_line {
            file.set_len(self.complete_bytes)?;
        } else if self.lacks_line_break {
            file.write_all(b"\n")?;
        }
        Ok(file)
    }

    /// Examines a file. Fails if the first or the last line shows that it is not a record.
    fn examine(path: &Path) -> Result<Self, RecordError> {
        let fail = |source| RecordError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let mut reader = BufReader::new(open::regular(path).map_err(fail)?);
        let wrong = |line, why: String| RecordError::Line {
            path: path.to_owned(),
            line,
            why,
        };
        // A large file of another format may consist of one line, so its first byte is checked
        // before a line is read.
        if reader
            .fill_buf()
            .map_err(fail)?
            .first()
            .is_some_and(|first| *first != b'{')
        {
            return Err(wrong(1, "it is no JSON object".into()));
        }
        let (mut end, mut number, mut line) = (Self::default(), 0, Vec::new());
        loop {
            line.clear();
            number += 1;
            let length = reader.read_until(b'\n', &mut line).map_err(fail)? as u64;
            let ended = line.ends_with(b"\n");
            if length == 0 {
                return Ok(end);
            }
            if end.complete_bytes == 0 || !ended {
                match serde_json::from_slice::<RecordedExchange>(&line) {
                    Ok(_) if ended => {}
                    Ok(_) => {
                        return Ok(Self {
                            lacks_line_break: true,
                            ..end
                        });
                    }
                    Err(error) if !ended && error.is_eof() && line.starts_with(LINE_BEGINNING) => {
                        return Ok(Self {
                            has_partial_line: true,
                            ..end
                        });
                    }
                    Err(error) => return Err(wrong(number, error.to_string())),
                }
            }
            end.complete_bytes += length;
        }
    }
}

/// A provider that answers from a record.
#[derive(Debug)]
pub(super) struct RecordedProvider {
    path: PathBuf,
    /// The remaining answers by request without the model, in the order of the record. Answers that
    /// were served are removed.
    exchanges: Mutex<BTreeMap<String, Vec<RecordedAnswer>>>,
}

#[derive(Debug)]
struct RecordedAnswer {
    model: Option<String>,
    result: Result<ModelReply, HostError>,
}

impl RecordedProvider {
    /// Reads a record.
    pub(super) fn load(path: &Path) -> Result<Self, RecordError> {
        let fail = |source| RecordError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let file = open::regular(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.len() > MAX_BYTES {
            let limit = MAX_BYTES >> 20;
            return Err(fail(io::Error::other(format!(
                "it has more than {limit} MiB; split it, or record less"
            ))));
        }
        let mut exchanges: BTreeMap<String, Vec<RecordedAnswer>> = BTreeMap::new();
        for (line, text) in BufReader::new(file.take(MAX_BYTES)).lines().enumerate() {
            let text = text.map_err(fail)?;
            let wrong = |why: String| RecordError::Line {
                path: path.to_owned(),
                line: line + 1,
                why,
            };
            let exchange = lenient::parse(&text, NonFinite::Refused, |text| {
                serde_json::from_str::<RecordedExchange>(text)
            });
            let exchange = exchange.map_err(|error| wrong(format!("it is {error}")))?;
            let result = match (exchange.reply, exchange.error) {
                (Some(reply), None) => Ok(reply),
                (None, Some(error)) => Err(HostError::new(error.kind, error.message)),
                _ => return Err(wrong("it needs either `reply` or `error`".into())),
            };
            let answer = RecordedAnswer {
                model: exchange.request.model.clone(),
                result,
            };
            exchanges
                .entry(exchange_key(&exchange.request))
                .or_default()
                .push(answer);
        }
        Ok(Self {
            path: path.to_owned(),
            exchanges: Mutex::new(exchanges),
        })
    }

    /// Returns the next recorded answer to exactly this request. If the request names no model, an
    /// answer of any model is served.
    pub(super) fn complete(&self, request: &ModelRequest) -> Result<ModelReply, HostError> {
        let mut exchanges = self
            .exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let answers = exchanges.entry(exchange_key(request)).or_default();
        let fits =
            |answer: &RecordedAnswer| request.model.is_none() || answer.model == request.model;
        if let Some(at) = answers.iter().position(fits) {
            return answers.remove(at).result;
        }
        let (question, file) = (excerpt(&request.newest_text()), self.path.display());
        let message = format!(
            "no recorded reply to `{question}`: `{file}` holds none that is left for exactly this request; record \
             the run again with `--record FILE`"
        );
        Err(HostError::new(HostErrorKind::Upstream, message).caused_by(FaultCause::NoRecordedReply))
    }
}

fn exchange_key(request: &ModelRequest) -> String {
    serde_json::to_string(&ModelRequest {
        model: None,
        ..request.clone()
    })
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use strata_base::golden::golden;
    use strata_core::record::conversation::{
        AssistantPart, Media, MediaSource, ModelMessage, OpaquePart, Part, TokenUsage, ToolCall,
        ToolChoice, ToolResult,
    };
    use strata_core::record::id::Digest;
    use strata_core::record::json::Json;

    use super::*;
    use crate::models::{FinishReason, IfTooLong, ToolDefinition};

    fn call(id: &str, arguments: &str) -> AssistantPart {
        AssistantPart::ToolCall(ToolCall {
            id: id.into(),
            name: "tool".into(),
            arguments: arguments.into(),
        })
    }

    fn opaque() -> AssistantPart {
        AssistantPart::Opaque(OpaquePart {
            provider: "anthropic".into(),
            model: "model".into(),
            data: Json::parse(r#"{"signature":"c2ln"}"#).unwrap(),
            reasoning: "reasoning".into(),
        })
    }

    /// Returns a request that has all fields.
    fn request() -> ModelRequest {
        let image = Media {
            media_type: "image/png".into(),
            name: Some("a.png".into()),
            source: MediaSource::Blob {
                digest: Digest("00".repeat(32)),
                size: 7,
            },
        };
        let file = Media {
            media_type: "application/pdf".into(),
            name: None,
            source: MediaSource::Url("https://example.com/a.pdf".into()),
        };
        let result = ToolResult {
            call: "call-1".into(),
            tool: "tool".into(),
            content: vec![Part::Text("result".into())],
            is_error: true,
        };
        let question = Part::Text("a \"question\" ✓".into());
        ModelRequest {
            model: Some("model".into()),
            system: "system".into(),
            messages: vec![
                ModelMessage::System("instructions".into()),
                ModelMessage::User(vec![question, Part::Image(image), Part::File(file)]),
                ModelMessage::Assistant(vec![opaque(), call("call-1", "{}")]),
                ModelMessage::ToolResults(vec![result]),
            ],
            tools: vec![ToolDefinition {
                name: "tool".into(),
                description: "description".into(),
                parameters: "{\"type\": \"object\"}".into(),
            }],
            tool_choice: ToolChoice::Tool("tool".into()),
            output_schema: Some("{}".into()),
            effort: Some("low".into()),
            temperature: Some(0.5),
            max_tokens: Some(100),
            stop: vec!["stop".into()],
            seed: Some(7),
            if_too_long: IfTooLong::default(),
        }
    }

    fn reply() -> ModelReply {
        ModelReply {
            parts: vec![
                opaque(),
                AssistantPart::Text("text".into()),
                call("call-2", "[]"),
            ],
            data: Some("{}".into()),
            model: "model-1".into(),
            finish: FinishReason::Length,
            usage: TokenUsage {
                input: 10,
                output: 20,
                cache_read: 5,
                cache_write: 3,
                reasoning: 2,
            },
        }
    }

    #[test]
    fn a_record_is_as_the_golden_file() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("record.ndjson");
        let (request, reply) = (request(), reply());
        let error = HostError::new(HostErrorKind::Upstream, "the model is not there");
        let recorder = ExchangeRecorder::open(&path).unwrap();
        recorder.append(&request, Ok(&reply));
        recorder.append(&request, Err(&error));
        let text = golden("recorded-replies.ndjson", &open::read(&path).unwrap());
        std::fs::write(&path, text).unwrap();
        let recorded = RecordedProvider::load(&path).unwrap();
        assert_eq!(recorded.complete(&request), Ok(reply));
        assert_eq!(recorded.complete(&request), Err(error));
    }
}
