//! The images, files and further texts of a message or a result.

use serde::{Serialize, Serializer};
use strata_core::record::conversation::{Media, MediaSource, Part};
use strata_core::record::id::Digest;
use strata_services::models::describe_named_media;

/// A part, under the names that `team.json` uses.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum PartFields<'a> {
    Text { text: &'a str },
    Image(MediaFields<'a>),
    File(MediaFields<'a>),
}

#[derive(Serialize)]
struct MediaFields<'a> {
    media_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(flatten)]
    source: SourceFields<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum SourceFields<'a> {
    Blob { digest: &'a Digest, size: u64 },
    Url { url: &'a str },
}

impl<'a> PartFields<'a> {
    fn new(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self::Text { text },
            Part::Image(media) => Self::Image(MediaFields::new(media)),
            Part::File(media) => Self::File(MediaFields::new(media)),
        }
    }
}

impl<'a> MediaFields<'a> {
    fn new(media: &'a Media) -> Self {
        Self {
            media_type: &media.media_type,
            name: media.name.as_deref(),
            source: match &media.source {
                MediaSource::Blob { digest, size } => SourceFields::Blob {
                    digest,
                    size: *size,
                },
                MediaSource::Url(url) => SourceFields::Url { url },
            },
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
