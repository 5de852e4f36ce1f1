//! Parses the file of scripted replies, with errors that point into it. Choosing a reply is in
//! `scripted`.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use regex::Regex;
use serde::Deserialize;
use strata_core::record::json::Json;
use toml::Spanned;

use super::{ScriptedAnswer, ScriptedEntry, ScriptedReply, ScriptedToolCall};
use crate::open;

/// The maximum size of the file in bytes. Replies are written by hand or cut from records, so a
/// larger file is a mistake.
const MAX_BYTES: u64 = 16 << 20;
/// The lowest `status` that is a failure.
const MIN_FAILURE_STATUS: u16 = 400;
/// The minimum similarity of a misspelt key to a known one to be suggested.
const MIN_SIMILARITY: f64 = 0.7;

const KEYS: [&str; 12] = [
    "reply",
    "match",
    "text",
    "data",
    "tool_calls",
    "input",
    "output",
    "times",
    "status",
    "delay",
    "arguments",
    "name",
];

/// The reason why a file of replies cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReplyFileError {
    /// It cannot be read.
    #[error("cannot read the scripted replies in `{}`: {reason}; is `replies` under `[llm]` right?", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// Its contents are not valid.
    #[error("{rendered}")]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        /// What is wrong, and a hint.
        message: String,
        /// The complete message with the offending text, in the manner of a compiler.
        rendered: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    reply: Vec<Spanned<RawReply>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReply {
    #[serde(rename = "match")]
    pattern: Option<Spanned<String>>,
    text: Option<String>,
    data: Option<Spanned<toml::Value>>,
    #[serde(default)]
    tool_calls: Vec<RawCall>,
    input: Option<u32>,
    output: Option<u32>,
    times: Option<std::num::NonZeroU32>,
    status: Option<Spanned<u16>>,
    delay: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    id: Option<String>,
    name: String,
    arguments: Option<Spanned<toml::Value>>,
}

/// An error with its location in the text.
struct ReplyFileMistake {
    span: Range<usize>,
    message: String,
    hint: String,
}

impl ReplyFileMistake {
    fn new(span: Range<usize>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            span,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// Reads and validates a file.
pub(super) fn load_entries(path: &Path) -> Result<Vec<ScriptedEntry>, ReplyFileError> {
    let source = read(path).map_err(|reason| ReplyFileError::Unreadable {
        file: path.to_owned(),
        reason,
    })?;
    parse(&source).map_err(|mistake| render(path, &source, mistake))
}

fn read(path: &Path) -> Result<String, String> {
    let file = open::regular(path).map_err(|e| e.to_string())?;
    let mut source = String::new();
    let mut bounded = file.take(MAX_BYTES + 1);
    bounded
        .read_to_string(&mut source)
        .map_err(|e| e.to_string())?;
    if source.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {} MiB", MAX_BYTES >> 20));
    }
    Ok(source)
}

fn parse(source: &str) -> Result<Vec<ScriptedEntry>, ReplyFileMistake> {
    let raw: RawFile = toml::from_str(source).map_err(|error| {
        let span = error.span().unwrap_or(0..0);
        let hint = suggest_key(source.get(span.clone()).unwrap_or_default());
        ReplyFileMistake::new(span, error.message(), hint)
    })?;
    if raw.reply.is_empty() {
        return Err(ReplyFileMistake::new(
            0..0,
            "the file holds no replies",
            "add a `[[reply]]` with a `text`",
        ));
    }
    raw.reply.into_iter().map(parse_entry).collect()
}

fn suggest_key(key: &str) -> String {
    let likeness = |known: &&&str| strsim::jaro_winkler(known, key);
    let closest = KEYS
        .iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match closest {
        Some(known) if likeness(&known) >= MIN_SIMILARITY && *known != key => {
            format!("did you mean `{known}`?")
        }
        _ => String::new(),
    }
}

fn parse_entry(raw: Spanned<RawReply>) -> Result<ScriptedEntry, ReplyFileMistake> {
    let span = raw.span();
    let raw = raw.into_inner();
    Ok(ScriptedEntry {
        pattern: raw.pattern.as_ref().map(parse_pattern).transpose()?,
        delay: raw.delay.as_ref().map_or(Ok(Duration::ZERO), parse_delay)?,
        times: raw.times.map(Into::into),
        uses: AtomicU32::new(0),
        answer: parse_answer(raw, span)?,
    })
}

fn parse_answer(raw: RawReply, span: Range<usize>) -> Result<ScriptedAnswer, ReplyFileMistake> {
    if let Some(status) = &raw.status {
        let code = *status.get_ref();
        if !(100..600).contains(&code) {
            let message = format!("`{code}` is not an HTTP status");
            return Err(ReplyFileMistake::new(
                status.span(),
                message,
                "it lies between 100 and 599",
            ));
        }
        if code >= MIN_FAILURE_STATUS {
            let body = raw.text.unwrap_or_default();
            return Ok(ScriptedAnswer::Failure { status: code, body });
        }
    }
    if raw.text.is_none() && raw.data.is_none() && raw.tool_calls.is_empty() {
        return Err(ReplyFileMistake::new(
            span,
            "the reply says nothing",
            "give it a `text`, `data`, `tool_calls`, or a `status` of 400 or more",
        ));
    }
    let data = raw.data.as_ref().map(to_json_text).transpose()?;
    let text = raw.text.or_else(|| data.clone());
    let calls = raw.tool_calls.into_iter().map(parse_call);
    Ok(ScriptedAnswer::Reply(ScriptedReply {
        text: text.unwrap_or_default(),
        data,
        tool_calls: calls.collect::<Result<_, _>>()?,
        input: raw.input,
        output: raw.output,
    }))
}

fn parse_pattern(raw: &Spanned<String>) -> Result<Regex, ReplyFileMistake> {
    Regex::new(raw.get_ref()).map_err(|error| {
        let text = error.to_string();
        // The library displays the pattern above its last line, which contains the reason.
        let why = text
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ");
        ReplyFileMistake::new(
            raw.span(),
            format!("`match` is not a regular expression: {why}"),
            "put a backslash before characters that stand for themselves",
        )
    })
}

fn parse_delay(raw: &Spanned<String>) -> Result<Duration, ReplyFileMistake> {
    let signed = raw.get_ref().parse::<jiff::SignedDuration>().ok();
    signed
        .and_then(|d| Duration::try_from(d).ok())
        .ok_or_else(|| {
            let message = format!("`{}` is not a duration", raw.get_ref());
            ReplyFileMistake::new(raw.span(), message, "write it like `500ms` or `2s`")
        })
}

fn parse_call(raw: RawCall) -> Result<ScriptedToolCall, ReplyFileMistake> {
    let arguments = match &raw.arguments {
        None => "{}".to_owned(),
        // As in the protocols of models, arguments may be given as text.
        Some(spanned) if spanned.get_ref().is_str() => {
            let text = spanned.get_ref().as_str().unwrap_or_default();
            let checked = Json::parse(text).map_err(|e| {
                ReplyFileMistake::new(
                    spanned.span(),
                    format!("`arguments` are {e}"),
                    "write them as a table",
                )
            })?;
            checked.as_str().to_owned()
        }
        Some(spanned) => to_json_text(spanned)?,
    };
    Ok(ScriptedToolCall {
        id: raw.id,
        name: raw.name,
        arguments,
    })
}

fn to_json_text(raw: &Spanned<toml::Value>) -> Result<String, ReplyFileMistake> {
    to_json(raw.get_ref())
        .map(|v| v.to_string())
        .ok_or_else(|| {
            ReplyFileMistake::new(
                raw.span(),
                "`inf` and `nan` have no form in JSON",
                "write a finite number or a text",
            )
        })
}

/// Converts TOML to JSON. Returns `None` for numbers that JSON cannot represent. Dates become
/// strings.
fn to_json(raw: &toml::Value) -> Option<serde_json::Value> {
    use serde_json::Value;
    Some(match raw {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::Number(serde_json::Number::from_f64(*number)?),
        toml::Value::Boolean(truth) => Value::from(*truth),
        toml::Value::Datetime(date) => Value::from(date.to_string()),
        toml::Value::Array(items) => {
            Value::Array(items.iter().map(to_json).collect::<Option<_>>()?)
        }
        toml::Value::Table(table) => {
            let pairs = table.iter().map(|(k, v)| Some((k.clone(), to_json(v)?)));
            Value::Object(pairs.collect::<Option<_>>()?)
        }
    })
}

fn render(path: &Path, source: &str, mistake: ReplyFileMistake) -> ReplyFileError {
    let ReplyFileMistake {
        span,
        message,
        hint,
    } = mistake;
    let before = source.get(..span.start).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    // An error about a whole table is displayed at its first line.
    let line_end = source
        .get(span.start..)
        .unwrap_or_default()
        .find('\n')
        .map_or(source.len(), |i| span.start + i);
    let marked = span.start..span.end.min(line_end);
    let shown = path.display().to_string();
    let annotation = AnnotationKind::Primary.span(marked).label(&hint);
    let snippet = Snippet::source(source).path(&shown).annotation(annotation);
    let report = [Level::ERROR.primary_title(&message).element(snippet)];
    ReplyFileError::Invalid {
        file: path.to_owned(),
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        rendered: Renderer::plain().render(&report),
        message: if hint.is_empty() {
            message
        } else {
            format!("{message}; {hint}")
        },
    }
}
