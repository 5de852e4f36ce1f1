//! The format of images, files and texts that belong to a message.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use strata_core::record::conversation::{Media, MediaSource, Part};
use strata_core::record::id::Digest;

use super::super::field::{Keyword, NamedValue};

/// A part of a message.
pub(in super::super) struct PartJson<'a>(pub Cow<'a, Part>);

/// What a part is.
#[derive(Clone, Copy, Default)]
enum PartType {
    #[default]
    Text,
    Image,
    File,
}

impl NamedValue for PartType {
    fn all() -> &'static [Self] {
        &[Self::Text, Self::Image, Self::File]
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Image => "image",
            Self::File => "file",
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
    media_type: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<Cow<'a, str>>,
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
            (Some(digest), None) => MediaSource::Blob {
                digest: Some(Digest(digest.into_owned()))
                    .filter(Digest::is_sha256)
                    .ok_or("has no `digest` of 64 hexadecimal digits")?,
                size: self.size.unwrap_or_default(),
            },
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::located_value::LocatedValue;

    #[test]
    fn an_invalid_part_is_named_with_its_place() {
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
            "`/parts/0/type` is the text `opaque`, expected one of `text`, `image`, `file`",
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
