//! `team.json`: the state of a team as one file, for people and other programs. It is sufficient to
//! continue the team from it.
//!
//! The format is that of MetaGPT's saved teams, whose files can be read, too; additional fields are
//! under `strata`. `strata-storage` writes it into a storage directory.
//!
//! ```
//! use strata_team_json::{is_foreign, parse_external_message};
//!
//! let message = parse_external_message(r#"{"content": "go on", "send_to": ["Writer"]}"#)?;
//! assert_eq!(message.content, "go on");
//! assert!(is_foreign(br#"{"env": {}}"#));
//! # Ok::<(), strata_team_json::ImportError>(())
//! ```
//!
//! It turns bytes into a state and back, and touches neither files nor databases. At most [`MAX_BYTES`] are read;
//! what is read is validated by the core before it is returned.

mod budget;
mod decode;
mod definition;
mod described_team;
mod export;
mod field;
mod file_parts;
mod files;
mod formatter;
mod import;
mod joins;
mod layout;
mod located_value;
mod machine_part;
mod messages;
mod metagpt;
mod open;
mod parse;
mod questions;
mod requests;
mod roles;
mod saved_names;
mod size;
mod warnings;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use strata_base::text::component_replacement::ComponentReplacement;
use strata_core::record::event::Status;
use strata_core::record::id::CheckpointId;
use strata_core::record::json;
use strata_core::record::json::Json;
use strata_core::record::message::Message;

use located_value::LocatedValue;

pub use definition::SavedDefinition;
pub use described_team::described_team;
pub use export::{export, write};
use field::{Keyword, MessageLink, OrderedObject};
use formatter::OneLine;
pub use import::{ImportedState, import, import_with_warnings};
use layout::{DefinitionJson, JoinJson, MessageJson};
pub use size::min_bytes;

/// Returns a message as JSON, in the format of the file.
pub fn message_json(message: &Message) -> String {
    serde_json::to_string(&MessageJson {
        message,
        line: &OneLine::default(),
    })
    .unwrap_or_default()
}

/// Serialises a message in the format of the file.
pub fn serialize_message<S: Serializer>(
    message: &Message,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let line = OneLine::default();
    MessageJson {
        message,
        line: &line,
    }
    .serialize(serializer)
}

/// The largest file that is read, in bytes. It has room for some 150,000 messages, each of which
/// the file repeats in several places. The parsed values take several times as much memory.
pub const MAX_BYTES: u64 = 512 << 20;

/// The prefix of the name of the file's schema; its version follows.
const SCHEMA_PREFIX: &str = "strata.state/";
/// The version that is written, and the newest that is read.
const VERSION: u64 = 1;

/// The name of what a human role does.
const ANSWER: &str = "answer";

/// Why a state cannot be imported from a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The file is too large.
    #[error("it has {bytes} bytes, at most {MAX_BYTES} are read")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The file is not JSON, or exceeds a limit.
    #[error("it is not a JSON document that can be read: {0}")]
    Syntax(String),
    /// The file is JSON, but contains no team.
    #[error("it holds no saved team: {0}")]
    NoTeam(&'static str),
    /// A later program wrote the file.
    #[error(
        "its schema `{SCHEMA_PREFIX}{found}` is newer than `{SCHEMA_PREFIX}{VERSION}`, \
         the newest this program knows; use the newer strata-host"
    )]
    Newer {
        /// The version of its schema.
        found: u64,
    },
    /// A value is invalid.
    #[error("{} {what}", describe_pointer(.pointer))]
    Invalid {
        /// Where, as a JSON pointer.
        pointer: String,
        /// What it is, and what was expected.
        what: String,
    },
    /// The file contains the state of another team.
    #[error("it does not fit the team: {}", .0.join("; "))]
    Misfit(
        /// The differences.
        Vec<String>,
    ),
}

/// Describes the value at a JSON pointer in messages.
fn describe_pointer(pointer: &str) -> String {
    if pointer.is_empty() {
        "it".into()
    } else {
        format!("`{pointer}`")
    }
}

/// Returns the team file that a `team.json` contains, if it does. Fails if the file holds no saved
/// team.
pub fn saved_definition(bytes: &[u8]) -> Result<Option<SavedDefinition>, ImportError> {
    let file = parse::parse_saved(bytes)?;
    let root = LocatedValue::root(&file);
    let strata = root.child("strata");
    let written = match strata.get("definition") {
        Some(definition) => definition.decode()?,
        None => DefinitionJson::default(),
    };
    if !written.text.is_empty() {
        let components = written.components.0.into_owned().into_iter();
        let components = components
            .map(ComponentReplacement::from_saved)
            .collect::<Result<_, _>>()
            .map_err(|what| ImportError::Invalid {
                pointer: "/strata/definition/components".into(),
                what,
            })?;
        return Ok(Some(SavedDefinition {
            name: written.name.into_owned(),
            base: written.base.into_owned().into(),
            text: written.text.into_owned(),
            components,
        }));
    }
    if file.get("env").is_none() {
        return Err(ImportError::NoTeam("`/env` is missing"));
    }
    Ok(None)
}

/// Whether another program wrote a file.
pub fn is_foreign(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct StrataMarker {
        strata: Option<serde::de::IgnoredAny>,
    }
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let read = json::lenient::parse(text, json::lenient::NonFinite::Null, |text| {
        serde_json::from_str::<StrataMarker>(text)
    });
    read.is_ok_and(|file| file.strata.is_none())
}

/// Returns a message as one line of JSON for programs outside of the team: in the format of the
/// file, with its recipients in `to`.
pub fn external_message_json(message: &Message, to: &[String]) -> String {
    let line = OneLine::default();
    let letter = layout::ExternalMessageJson {
        message: MessageJson {
            message,
            line: &line,
        },
        to,
    };
    // Strings, numbers and documents that were parsed from JSON can always be serialised.
    serde_json::to_string(&letter).unwrap_or_default()
}

/// Parses a message from outside of the team, in any of the formats that messages have in files.
pub fn parse_external_message(text: &str) -> Result<Message, ImportError> {
    json::check_limits(text).map_err(|error| ImportError::Syntax(format!("it is {error}")))?;
    let mut document = parse::parse_strict(text)?;
    merge_recipients(&mut document)?;
    let mut message = messages::parse_message(
        &LocatedValue::root(&document),
        &metagpt::foreign_names::ForeignNames::default(),
    )?;
    // The environment assigns the id of the message.
    if !message.id.0.is_empty() {
        let id = Json::from(Value::from(std::mem::take(&mut message.id.0)));
        message.meta.insert("external_id".into(), id);
    }
    Ok(message)
}

/// Renames the field `to` to `send_to`. Outbound messages name their recipients in `to`, so that
/// inbound ones may, too: a message that is sent back as it came reaches only these recipients.
fn merge_recipients(document: &mut Value) -> Result<(), ImportError> {
    let Some(fields) = document.as_object_mut() else {
        return Ok(());
    };
    let says_something =
        |to: &Value| !to.is_null() && to.as_array().is_none_or(|names| !names.is_empty());
    let Some(to) = fields.remove("to").filter(says_something) else {
        return Ok(());
    };
    let list = |names: &Value| {
        if names.is_string() {
            Value::Array(vec![names.clone()])
        } else {
            names.clone()
        }
    };
    let existing = messages::SEND_TO_FIELDS
        .iter()
        .find(|name| fields.get(**name).is_some_and(|names| !names.is_null()));
    match existing {
        None => {
            fields.insert(messages::SEND_TO_FIELDS[0].into(), to);
        }
        Some(name) if list(&fields[*name]) == list(&to) => {}
        Some(name) => {
            let what = format!("names others than `{name}`; leave one of them out");
            return Err(ImportError::Invalid {
                pointer: "/to".into(),
                what,
            });
        }
    }
    Ok(())
}

/// Whether a resume of the team in this file would have nothing to do. Fails if the file cannot be
/// parsed.
pub fn is_finished(bytes: &[u8]) -> Result<bool, ImportError> {
    Ok(is_document_finished(&parse::parse(bytes)?))
}

/// Returns the status of the run in this file. A file that says nothing about it, such as MetaGPT's, is
/// one of a run that goes on. Returns `None` if the file cannot be parsed.
pub fn saved_status(bytes: &[u8]) -> Option<Status> {
    let file = parse::parse(bytes).ok()?;
    let root = LocatedValue::root(&file);
    let Some(saved) = root.get("strata") else {
        return Some(Status::Running);
    };
    let end = saved.decode::<EndJson<'_>>().ok()?;
    Some(end.status.map_or(Status::Running, |status| status.0))
}

/// Whether this is the file of a finished team, and its state is a certain checkpoint.
pub fn is_finished_at(bytes: &[u8], checkpoint: Option<&CheckpointId>) -> bool {
    let at = |file: &Value| {
        file.pointer("/strata/checkpoint")
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    parse::parse(bytes).is_ok_and(|file| {
        is_document_finished(&file) && at(&file).as_deref() == checkpoint.map(|id| &*id.0)
    })
}

/// What says whether a saved team is done.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EndJson<'a> {
    status: Option<Keyword<Status>>,
    buffers: Option<OrderedObject<'a, Vec<MessageLink<'a>>>>,
    joins: OrderedObject<'a, JoinJson<'a>>,
}

fn is_document_finished(file: &Value) -> bool {
    let root = LocatedValue::root(file);
    let Ok(saved) = root.child("strata").decode::<EndJson<'_>>() else {
        return false;
    };
    let buffers = saved.buffers.unwrap_or_default();
    let has_mail = buffers.0.iter().any(|(_, mail)| !mail.is_empty());
    let mut queues = saved.joins.0.iter().flat_map(|(_, join)| &join.queue.0);
    let has_waiting = queues.any(|(_, waiting)| !waiting.is_empty());
    let status = saved.status.map(|status| status.0);
    status == Some(Status::Done) && !has_mail && !has_waiting
}
