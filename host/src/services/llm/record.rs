//! Records of real exchanges: written as they happen, and served again as a provider. A run against a paid endpoint
//! becomes the script of a test in this way.
//!
//! A record is NDJSON: `{"request": …, "reply": …}` or `{"request": …, "error": …}` a line, in the order in which the
//! answers came. Keys of endpoints are no part of requests and never in it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use strata_core::fault::FaultCause;
use strata_core::json::foreign::{self, NonFinite};

use super::models::excerpt;
use super::{Reply, Request};
use crate::gateway::{HostError, HostErrorKind};
use crate::open;

/// The largest record that is read.
const MAX_BYTES: u64 = 256 << 20;

/// One exchange.
#[derive(Serialize, Deserialize)]
struct Exchange {
    request: Request,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reply: Option<Reply>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<HostError>,
}

/// How a line begins that is written here.
pub(crate) const BEGINNING: &[u8] = b"{\"request\":";

/// Why a record cannot be used.
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
    /// A line is no exchange.
    #[error("line {line} of `{}` is no recorded model call: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counts from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// Writes exchanges to a file.
#[derive(Debug)]
pub(super) struct Recorder {
    path: PathBuf,
    /// None after the first write that failed, which was told.
    file: Mutex<Option<File>>,
}

impl Recorder {
    /// Goes on with a file, or begins one: a resumed run adds to the record, and to nothing else. A line that a kill or a
    /// full disk cut off is dropped.
    pub(super) fn open(path: &Path) -> Result<Self, RecordError> {
        let end = if path.is_file() {
            End::of(path)?
        } else {
            End::default()
        };
        let prepare = || {
            let mut file = open::to_append(path)?;
            match end {
                End {
                    torn: true, whole, ..
                } => file.set_len(whole)?,
                End { unended: true, .. } => file.write_all(b"\n")?,
                End { .. } => {}
            }
            Ok(file)
        };
        let fail = |source| RecordError::Io {
            action: "write",
            path: path.to_owned(),
            source,
        };
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(Some(prepare().map_err(fail)?)),
        })
    }

    /// Writes an exchange. A record that cannot be written ends no run.
    pub(super) fn note(&self, request: &Request, result: Result<&Reply, &HostError>) {
        // A record is a file that anybody may write: what it says of causes would not be the host's word.
        let error = result.err().map(|error| HostError {
            cause: None,
            ..error.clone()
        });
        let reply = result.ok().cloned();
        let exchange = Exchange {
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

/// How a record ends.
#[derive(Debug, Default)]
struct End {
    /// The bytes of its whole lines.
    whole: u64,
    /// Whether what follows them is a part of a line.
    torn: bool,
    /// Whether it is a line without its end, as some editors leave it.
    unended: bool,
}

impl End {
    /// Looks for it. A file that is no record is refused, as far as its first and last lines show it.
    fn of(path: &Path) -> Result<Self, RecordError> {
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
        // A large file of another kind may be one line.
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
            if end.whole == 0 || !ended {
                match serde_json::from_slice::<Exchange>(&line) {
                    Ok(_) if ended => {}
                    Ok(_) => {
                        return Ok(Self {
                            unended: true,
                            ..end
                        });
                    }
                    Err(error) if !ended && error.is_eof() && line.starts_with(BEGINNING) => {
                        return Ok(Self { torn: true, ..end });
                    }
                    Err(error) => return Err(wrong(number, error.to_string())),
                }
            }
            end.whole += length;
        }
    }
}

/// Answers from a record.
#[derive(Debug)]
pub(super) struct Recorded {
    path: PathBuf,
    /// By request, without its model; in the order of the record. What was served is gone.
    exchanges: Mutex<BTreeMap<String, Vec<Answer>>>,
}

#[derive(Debug)]
struct Answer {
    model: Option<String>,
    result: Result<Reply, HostError>,
}

impl Recorded {
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
        let mut exchanges: BTreeMap<String, Vec<Answer>> = BTreeMap::new();
        for (line, text) in BufReader::new(file.take(MAX_BYTES)).lines().enumerate() {
            let text = text.map_err(fail)?;
            let wrong = |why: String| RecordError::Line {
                path: path.to_owned(),
                line: line + 1,
                why,
            };
            let exchange = foreign::parse(&text, NonFinite::Refused, |text| {
                serde_json::from_str::<Exchange>(text)
            });
            let exchange = exchange.map_err(|error| wrong(format!("it is {error}")))?;
            let result = match (exchange.reply, exchange.error) {
                (Some(reply), None) => Ok(reply),
                (None, Some(error)) => Err(HostError::new(error.kind, error.message)),
                _ => return Err(wrong("it needs either `reply` or `error`".into())),
            };
            let answer = Answer {
                model: exchange.request.model.clone(),
                result,
            };
            exchanges
                .entry(key(&exchange.request))
                .or_default()
                .push(answer);
        }
        Ok(Self {
            path: path.to_owned(),
            exchanges: Mutex::new(exchanges),
        })
    }

    /// The next recorded answer to exactly this request. One that names no model takes any model's.
    pub(super) fn complete(&self, request: &Request) -> Result<Reply, HostError> {
        let mut exchanges = self
            .exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let answers = exchanges.entry(key(request)).or_default();
        let fits = |answer: &Answer| request.model.is_none() || answer.model == request.model;
        if let Some(at) = answers.iter().position(fits) {
            return answers.remove(at).result;
        }
        let asked = request
            .messages
            .last()
            .map_or("", |turn| turn.content.as_str());
        let (asked, file) = (excerpt(asked), self.path.display());
        let message = format!(
            "no recorded reply to `{asked}`: `{file}` holds none that is left for exactly this request; record \
             the run again with `--record FILE`"
        );
        Err(HostError::new(HostErrorKind::Upstream, message).caused_by(FaultCause::NoRecordedReply))
    }
}

fn key(request: &Request) -> String {
    serde_json::to_string(&Request {
        model: None,
        ..request.clone()
    })
    .unwrap_or_default()
}
