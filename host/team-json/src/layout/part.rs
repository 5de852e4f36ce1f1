//! The format of images, files and texts that belong to a message, and of the parts of a model's
//! reply.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use strata_core::record::conversation::{
    AssistantPart, Media, MediaSource, OpaquePart, Part, ToolCall,
};
use strata_core::record::id::Digest;

use super::super::field::{JsonDocument, Keyword, NamedValue};
use super::super::located_value::is_sha256;

/// A part of a message.
pub(in super::super) struct PartJson<'a>(pub Cow<'a, Part>);

/// A part of a reply.
pub(in super::super) struct ReplyPartJson<'a>(pub Cow<'a, AssistantPart>);

/// What a part is.
#[derive(Clone, Copy, Default)]
enum PartType {
    #[default]
    Text,
    Image,
    File,
    ToolCall,
    Opaque,
}

impl NamedValue for PartType {
    fn all() -> &'static [Self] {
        &[
            Self::Text,
            Self::Image,
            Self::File,
            Self::ToolCall,
            Self::Opaque,
        ]
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::File => "file",
            Self::ToolCall => "tool-call",
            Self::Opaque => "opaque",
        }
    }
}

/// The fields of all kinds of parts. Which of them there are depends on the type.
#[derive(Default, Serialize, Deserialize)]
struct PartFields<'a> {
    #[serde(rename = "type")]
    kind: Keyword<PartType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<JsonDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Cow<'a, str>>,
}

impl<'a> PartFields<'a> {
    fn of_text(text: &'a str) -> Self {
        Self {
            text: Some(Cow::Borrowed(text)),
            kind: Keyword(PartType::Text),
            ..Self::default()
        }
    }

    fn of_media(kind: PartType, media: &'a Media) -> Self {
        let fields = Self {
            media_type: Some(Cow::Borrowed(&media.media_type)),
            name: media.name.as_deref().map(Cow::Borrowed),
            kind: Keyword(kind),
            ..Self::default()
        };
        match &media.source {
            MediaSource::Blob { digest, size } => Self {
                digest: Some(Cow::Borrowed(&digest.0)),
                size: Some(*size),
                ..fields
            },
            MediaSource::Url(url) => Self {
                url: Some(Cow::Borrowed(url)),
                ..fields
            },
        }
    }

    fn into_media(self) -> Result<Media, &'static str> {
        let source = match (self.digest, self.url) {
            (Some(digest), None) if is_sha256(&digest) => MediaSource::Blob {
                digest: Digest(digest.into_owned()),
                size: self.size.unwrap_or_default(),
            },
            (Some(_), None) => return Err("has no `digest` of 64 hexadecimal digits"),
            (None, Some(url)) => MediaSource::Url(url.into_owned()),
            _ => return Err("names not exactly one of `digest` and `url`"),
        };
        Ok(Media {
            media_type: or_empty(self.media_type),
            name: self.name.map(Cow::into_owned),
            source,
        })
    }

    fn into_part(self) -> Result<Part, &'static str> {
        match self.kind.0 {
            PartType::Text => Ok(Part::Text(or_empty(self.text))),
            PartType::Image => self.into_media().map(Part::Image),
            PartType::File => self.into_media().map(Part::File),
            PartType::ToolCall | PartType::Opaque => {
                Err("is no part of a message, whose `type` is `text`, `image` or `file`")
            }
        }
    }

    fn into_reply_part(self) -> Result<AssistantPart, &'static str> {
        match self.kind.0 {
            PartType::Text => Ok(AssistantPart::Text(or_empty(self.text))),
            PartType::Image | PartType::File => self.into_media().map(AssistantPart::Media),
            PartType::ToolCall => Ok(AssistantPart::ToolCall(ToolCall {
                id: or_empty(self.id),
                name: or_empty(self.name),
                arguments: or_empty(self.arguments),
            })),
            PartType::Opaque => Ok(AssistantPart::Opaque(OpaquePart {
                provider: or_empty(self.provider),
                model: or_empty(self.model),
                data: self.data.unwrap_or_default().into_json(),
                reasoning: or_empty(self.reasoning),
            })),
        }
    }
}

/// Returns a text; a missing one is empty.
fn or_empty(text: Option<Cow<'_, str>>) -> String {
    text.unwrap_or_default().into_owned()
}

impl<'a> From<&'a Part> for PartFields<'a> {
    fn from(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self::of_text(text),
            Part::Image(media) => Self::of_media(PartType::Image, media),
            Part::File(media) => Self::of_media(PartType::File, media),
        }
    }
}

impl<'a> From<&'a AssistantPart> for PartFields<'a> {
    fn from(part: &'a AssistantPart) -> Self {
        match part {
            AssistantPart::Text(text) => Self::of_text(text),
            AssistantPart::Media(media) => Self::of_media(PartType::File, media),
            AssistantPart::ToolCall(call) => Self {
                id: Some(Cow::Borrowed(&call.id)),
                name: Some(Cow::Borrowed(&call.name)),
                arguments: Some(Cow::Borrowed(&call.arguments)),
                kind: Keyword(PartType::ToolCall),
                ..Self::default()
            },
            AssistantPart::Opaque(part) => Self {
                provider: Some(Cow::Borrowed(&part.provider)),
                model: Some(Cow::Borrowed(&part.model)),
                data: Some(JsonDocument::of(&part.data)),
                reasoning: Some(Cow::Borrowed(&part.reasoning)),
                kind: Keyword(PartType::Opaque),
                ..Self::default()
            },
        }
    }
}

impl Serialize for PartJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PartFields::from(&*self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PartJson<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let part = PartFields::deserialize(deserializer)?.into_part();
        part.map(|part| Self(Cow::Owned(part)))
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for ReplyPartJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PartFields::from(&*self.0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ReplyPartJson<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let part = PartFields::deserialize(deserializer)?.into_reply_part();
        part.map(|part| Self(Cow::Owned(part)))
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::located_value::LocatedValue;

    #[test]
    fn a_part_of_a_reply_is_no_part_of_a_message() {
        let check = |part: Value, expected: &str| {
            let document = json!({ "parts": [part] });
            let root = LocatedValue::root(&document);
            let parts = root.child("parts");
            let error = parts.item(0).decode::<PartJson<'_>>().err();
            assert_eq!(
                error.map(|error| error.to_string()).as_deref(),
                Some(expected)
            );
        };
        check(
            json!({ "type": "opaque" }),
            "`/parts/0` is no part of a message, whose `type` is `text`, `image` or `file`",
        );
        check(json!({ "text": "x" }), "`/parts/0` has no `type`");
        check(
            json!({ "type": "image", "url": "https://x", "digest": "y" }),
            "`/parts/0` names not exactly one of `digest` and `url`",
        );
        check(
            json!({ "type": "file", "digest": "12" }),
            "`/parts/0` has no `digest` of 64 hexadecimal digits",
        );
    }
}
