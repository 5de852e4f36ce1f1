//! The format of messages as they are written: each is on one line, and fields of other programs
//! are where those expect them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use strata_core::record::json::Json;
use strata_core::record::message::{Hop, Instruct, Message};
use strata_core::state::environment::Environment;
use strata_core::state::messages::MessageRef;

use super::super::field::{JsonDocument, TextList};
use super::super::formatter::OneLine;
use super::PartJson;

/// The prefix of keys in a message's metadata that belong to its structured content.
pub(in super::super) const INSTRUCT_PREFIX: &str = "instruct_content.";

/// A message, on one line.
#[derive(Clone, Copy)]
pub(in super::super) struct MessageJson<'a> {
    pub message: &'a Message,
    pub line: &'a OneLine,
}

impl Serialize for MessageJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.line
            .run(|| serialize_message(self.message, serializer))
    }
}

/// A list of messages, each on a line. There may be very many messages, and each is in several
/// lists.
pub(in super::super) struct MessageListJson<'a> {
    pub env: &'a Environment,
    pub line: &'a OneLine,
    pub ids: Vec<MessageRef>,
}

impl<'a> MessageListJson<'a> {
    fn iter(&self) -> impl Iterator<Item = MessageJson<'a>> {
        self.ids.iter().map(|id| MessageJson {
            message: self.env.message(*id),
            line: self.line,
        })
    }
}

impl Serialize for MessageListJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// An object of messages, by their ids.
pub(in super::super) struct MessagesByIdJson<'a>(pub MessageListJson<'a>);

impl Serialize for MessagesByIdJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|text| (&text.message.id.0, text)))
    }
}

fn serialize_message<S: Serializer>(message: &Message, serializer: S) -> Result<S::Ok, S::Error> {
    let Message {
        id,
        content,
        instruct,
        parts,
        role,
        cause_by,
        sent_from,
        send_to,
        meta,
        route,
    } = message;
    let mut out = serializer.serialize_struct("Message", 10)?;
    out.serialize_field("id", id)?;
    out.serialize_field("content", content)?;
    let instruct = instruct
        .as_deref()
        .map(|content| InstructJson { content, meta });
    out.serialize_field("instruct_content", &instruct)?;
    if parts.is_empty() {
        out.skip_field("parts")?;
    } else {
        let parts: Vec<PartJson<'_>> = parts
            .iter()
            .map(|part| PartJson(Cow::Borrowed(part)))
            .collect();
        out.serialize_field("parts", &parts)?;
    }
    out.serialize_field("role", role)?;
    out.serialize_field("cause_by", cause_by)?;
    out.serialize_field("sent_from", sent_from)?;
    out.serialize_field("send_to", send_to)?;
    out.serialize_field(
        "meta_info",
        &MetaJson {
            meta,
            has_instruct: instruct.is_some(),
        },
    )?;
    let route: Vec<HopJson<'_>> = route.iter().map(HopJson::from).collect();
    out.serialize_field("route", &route)?;
    out.end()
}

/// One hop of an itinerary.
#[derive(Default, serde::Serialize, Deserialize)]
#[serde(default)]
pub(in super::super) struct HopJson<'a> {
    from: Cow<'a, str>,
    to: TextList<'a>,
}

impl<'a> From<&'a Hop> for HopJson<'a> {
    fn from(hop: &'a Hop) -> Self {
        Self {
            from: Cow::Borrowed(&hop.from),
            to: hop.to.as_slice().into(),
        }
    }
}

impl From<HopJson<'_>> for Hop {
    fn from(hop: HopJson<'_>) -> Self {
        Self {
            from: hop.from.into_owned(),
            to: hop.to.0.into_owned(),
        }
    }
}

/// A message for programs outside of the team.
#[derive(serde::Serialize)]
pub(in super::super) struct ExternalMessageJson<'a> {
    #[serde(flatten)]
    pub message: MessageJson<'a>,
    pub to: &'a [String],
}

/// Structured content, with the fields of other programs beside its class and its value.
struct InstructJson<'a> {
    content: &'a Instruct,
    meta: &'a BTreeMap<String, Json>,
}

impl Serialize for InstructJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let more = self
            .meta
            .iter()
            .filter_map(|(name, value)| Some((instruct_field(name)?, value)));
        let mut out = serializer.serialize_map(None)?;
        out.serialize_entry("class", &self.content.class)?;
        for (name, value) in more {
            out.serialize_entry(name, &JsonDocument::of(value))?;
        }
        out.serialize_entry("value", &JsonDocument::of(&self.content.value))?;
        out.end()
    }
}

/// Returns the field of the structured content that a key of the metadata refers to.
fn instruct_field(name: &str) -> Option<&str> {
    name.strip_prefix(INSTRUCT_PREFIX)
        .filter(|field| !matches!(*field, "class" | "value"))
}

/// The metadata of a message, without what is written into its structured content.
struct MetaJson<'a> {
    meta: &'a BTreeMap<String, Json>,
    has_instruct: bool,
}

impl Serialize for MetaJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_elsewhere = |name: &str| self.has_instruct && instruct_field(name).is_some();
        serializer.collect_map(
            self.meta
                .iter()
                .filter(|(name, _)| !is_elsewhere(name))
                .map(|(name, value)| (name, JsonDocument::of(value))),
        )
    }
}
