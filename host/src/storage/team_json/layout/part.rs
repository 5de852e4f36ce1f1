//! The format of images, files and texts that belong to a message.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use strata_core::record::conversation::{Media, MediaSource, Part};

/// The parts of a message.
pub(in super::super) struct PartListJson<'a>(pub &'a [Part]);

impl Serialize for PartListJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(PartJson))
    }
}

struct PartJson<'a>(&'a Part);

impl Serialize for PartJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Part::Text(text) => {
                let mut out = serializer.serialize_struct("Part", 2)?;
                out.serialize_field("type", "text")?;
                out.serialize_field("text", text)?;
                out.end()
            }
            Part::Image(media) => serialize_media("image", media, serializer),
            Part::File(media) => serialize_media("file", media, serializer),
        }
    }
}

fn serialize_media<S: Serializer>(
    kind: &str,
    media: &Media,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut out = serializer.serialize_struct("Part", 5)?;
    out.serialize_field("type", kind)?;
    out.serialize_field("media_type", &media.media_type)?;
    if let Some(name) = &media.name {
        out.serialize_field("name", name)?;
    } else {
        out.skip_field("name")?;
    }
    match &media.source {
        MediaSource::Blob { digest, size } => {
            out.serialize_field("digest", digest)?;
            out.serialize_field("size", size)?;
        }
        MediaSource::Url(url) => out.serialize_field("url", url)?,
    }
    out.end()
}
