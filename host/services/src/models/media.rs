//! Images and files in requests: their bytes, and the forms in which providers accept them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use strata_base::files::blob::Blobs;
use strata_base::text::excerpt::excerpt;
use strata_base::text::media_type::is_text;
use strata_base::text::units::format_bytes;
use strata_core::record::conversation::{Media, MediaSource};

use super::error_text::invalid;
use crate::gateway::HostError;

/// The types of images that all providers accept.
pub const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// What is said of bytes that are called an image and are none of these types.
pub const NOT_AN_IMAGE: &str = "not shown: its content is no image of a type that models accept";
/// The maximum length of a media type in a message, in characters.
const MEDIA_TYPE_CHARS: usize = 64;

/// The content of an image or a file as it is sent.
pub(super) enum MediaContent {
    /// Its bytes in Base64.
    Base64(String),
    /// An address that the provider reads.
    Url(String),
}

/// The images and files of a request.
#[derive(Clone, Copy)]
pub(super) struct MediaBytes<'a> {
    /// The name of the provider, for messages.
    pub(super) provider: &'a str,
    /// The bytes, by digest.
    pub(super) blobs: &'a Blobs,
}

impl MediaBytes<'_> {
    /// Returns the content of an image. Fails if it is not of one of these types, or if its bytes
    /// are missing.
    pub(super) fn image(self, media: &Media, types: &[&str]) -> Result<MediaContent, HostError> {
        if !types.contains(&media.media_type.as_str()) {
            return Err(self.unsupported(media, "an image", &types.join("`, `")));
        }
        self.content(media)
    }

    /// Returns the content of an image or a file. Fails if its bytes are missing.
    pub(super) fn content(self, media: &Media) -> Result<MediaContent, HostError> {
        match &media.source {
            MediaSource::Url(url) => Ok(MediaContent::Url(url.clone())),
            MediaSource::Blob { .. } => {
                Ok(MediaContent::Base64(STANDARD.encode(self.bytes(media)?)))
            }
        }
    }

    /// Returns the text of a file of text that is not an address. Bytes that are not UTF-8 are
    /// replaced.
    pub(super) fn text(self, media: &Media) -> Result<Option<String>, HostError> {
        match &media.source {
            MediaSource::Blob { .. } if is_text(&media.media_type) => Ok(Some(
                String::from_utf8_lossy(self.bytes(media)?).into_owned(),
            )),
            _ => Ok(None),
        }
    }

    fn bytes(&self, media: &Media) -> Result<&[u8], HostError> {
        let Some((digest, _)) = media.blob() else {
            return Ok(&[]);
        };
        self.blobs
            .get(digest)
            .map(|bytes| &bytes[..])
            .ok_or_else(|| {
                invalid(format!(
                    "cannot send {} to a model: its bytes are not stored",
                    describe(media)
                ))
            })
    }

    /// Returns the error for an image or a file that the provider does not accept.
    pub(super) fn unsupported(self, media: &Media, what: &str, accepted: &str) -> HostError {
        let media_type = excerpt(&media.media_type, MEDIA_TYPE_CHARS);
        invalid(format!(
            "cannot send {what} of type `{media_type}` to the provider `{}`: it accepts `{accepted}`",
            self.provider
        ))
    }
}

impl MediaContent {
    /// Returns an address: its own, or one that contains the bytes.
    pub(super) fn into_url(self, media_type: &str) -> String {
        match self {
            Self::Url(url) => url,
            Self::Base64(data) => format!("data:{media_type};base64,{data}"),
        }
    }
}

/// Returns a description for people: the name, if there is one, the media type and the size.
pub fn describe_named(media: &Media) -> String {
    let description = describe(media);
    match &media.name {
        Some(name) => format!("{name} {description}"),
        None => description,
    }
}

/// Returns what stands for an image or a file where only text can be sent, e.g.
/// `[image/png, 12 KiB]`.
pub fn describe(media: &Media) -> String {
    let media_type = excerpt(&media.media_type, MEDIA_TYPE_CHARS);
    match &media.source {
        MediaSource::Blob { size, .. } => format!("[{media_type}, {}]", format_bytes(*size)),
        MediaSource::Url(url) => format!("[{media_type}, {url}]"),
    }
}
