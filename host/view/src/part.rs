//! The images, files and further texts of a message or a result.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use strata_core::record::conversation::{Media, MediaSource, Part};
use strata_services::models::describe_named_media;

/// A part, under the names that `team.json` uses.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(rename = "Part")]
pub(super) struct PartFields<'a> {
    /// What it is: `text`, `image` or `file`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    /// The media type of an image or a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<&'a str>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// The SHA-256 of its bytes, if these are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
    /// How many bytes it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    /// Where it is, if its bytes are not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
}

impl<'a> PartFields<'a> {
    fn new(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self {
                kind: "text",
                text: Some(text),
                ..Self::default()
            },
            Part::Image(media) => Self::of_media("image", media),
            Part::File(media) => Self::of_media("file", media),
        }
    }

    fn of_media(kind: &'static str, media: &'a Media) -> Self {
        let (digest, size, url) = match &media.source {
            MediaSource::Blob { digest, size } => (Some(digest.0.as_str()), Some(*size), None),
            MediaSource::Url(url) => (None, None, Some(url.as_str())),
        };
        Self {
            kind,
            media_type: Some(&media.media_type),
            name: media.name.as_deref(),
            digest,
            size,
            url,
            text: None,
        }
    }
}

/// Serialises parts as `team.json` contains them.
pub(super) fn serialize_parts<S: Serializer>(
    parts: &[Part],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(parts.iter().map(PartFields::new))
}

/// Returns an image or a file in one line for people: its name, media type, size and digest.
pub fn describe_media(media: &Media) -> String {
    let description = describe_named_media(media);
    match &media.source {
        MediaSource::Blob { digest, .. } => format!("{description} sha256 {digest}"),
        MediaSource::Url(_) => description,
    }
}

/// Returns a part for people: a text as it is, or a line about an image or a file.
pub fn describe_part(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Image(media) => format!("image {}", describe_media(media)),
        Part::File(media) => format!("file {}", describe_media(media)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_have_the_names_of_team_json() {
        #[derive(Serialize)]
        struct Holder {
            #[serde(serialize_with = "serialize_parts")]
            parts: Vec<Part>,
        }
        let image = Media {
            media_type: "image/png".into(),
            name: None,
            source: MediaSource::Blob {
                digest: "ab".into(),
                size: 4,
            },
        };
        let file = Media {
            media_type: "application/pdf".into(),
            name: Some("a.pdf".into()),
            source: MediaSource::Url("https://example.com/a.pdf".into()),
        };
        let parts = vec![
            Part::Text("see".into()),
            Part::Image(image),
            Part::File(file),
        ];
        let described: Vec<String> = parts.iter().map(describe_part).collect();
        assert_eq!(
            described,
            [
                "see",
                "image [image/png, 4 bytes] sha256 ab",
                "file a.pdf [application/pdf, https://example.com/a.pdf]"
            ]
        );
        let expected = json!({ "parts": [
            { "type": "text", "text": "see" },
            { "type": "image", "media_type": "image/png", "digest": "ab", "size": 4 },
            { "type": "file", "media_type": "application/pdf", "name": "a.pdf", "url": "https://example.com/a.pdf" },
        ] });
        assert_eq!(serde_json::to_value(Holder { parts }).unwrap(), expected);
    }
}
