//! The images and files of an attempt: those that it received, whose bytes it may load and pass on,
//! and those that it created.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_base::files::blob::{Blobs, digest_of};
use strata_core::record::conversation::{Media, MediaSource, Part};
use strata_core::record::id::Digest;
use strata_core::record::message::{Draft, Message, stored_parts};
use url::Url;

use super::SandboxCall;
use super::bindings::types;

/// The maximum length of a media type; RFC 6838 allows 127 characters for each of its halves.
const MAX_MEDIA_TYPE_BYTES: usize = 255;
/// The maximum length of a file name. File systems allow no longer ones.
const MAX_FILE_NAME_BYTES: usize = 255;
/// The maximum length of an address, as for requests over HTTP.
const MAX_URL_BYTES: usize = 8 << 10;
/// The maximum length of a refused value in a message.
const MAX_SHOWN_CHARS: usize = 64;

/// Why an image or a file is not accepted from a guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidMedia {
    /// Its media type has the wrong form.
    #[error("`{0}` is not a media type, such as `image/png`")]
    MediaType(String),
    /// It is an image with the media type of something else.
    #[error("an image cannot have the media type `{0}`; pass a `file`")]
    NotAnImage(String),
    /// Its file name is too long.
    #[error("its name is longer than {MAX_FILE_NAME_BYTES} bytes")]
    LongName,
    /// Its address has the wrong form.
    #[error("`{0}` is not a URL of at most {MAX_URL_BYTES} bytes")]
    Url(String),
    /// It refers to bytes that the attempt did not receive.
    #[error("this attempt received no image and no file with the digest `{0}`")]
    UnknownBlob(String),
}

/// The images and files that an attempt may refer to.
#[derive(Default)]
pub(super) struct AttemptMedia {
    /// The number of bytes of each of them, by digest.
    sizes: BTreeMap<Digest, u64>,
    /// The bytes of those that it created.
    created: Blobs,
}

impl AttemptMedia {
    /// Returns those that the messages of a call contain.
    pub(super) fn received_by(call: &SandboxCall) -> Self {
        let mut received = Self::default();
        for message in call.news.iter().chain(&call.outputs) {
            received.add_received(message);
        }
        received
    }

    /// Adds those that a message contains.
    pub(super) fn add_received(&mut self, message: &Message) {
        for part in &message.parts {
            if let Some(media) = part.media() {
                self.add_media(media);
            }
        }
    }

    /// Adds one that the attempt received.
    pub(super) fn add_media(&mut self, media: &Media) {
        if let Some((digest, size)) = media.blob() {
            self.sizes.insert(digest.clone(), size);
        }
    }

    /// Returns the bytes of those that the attempt created and that its messages contain.
    pub(super) fn created_in<'a>(&self, drafts: impl IntoIterator<Item = &'a Draft>) -> Blobs {
        let drafts = drafts.into_iter();
        self.created_among(drafts.flat_map(|draft| stored_parts(&draft.parts)))
    }

    /// Returns the digest and the number of bytes of one that the attempt may refer to.
    pub(super) fn known(&self, digest: &str) -> Option<(Digest, u64)> {
        let (digest, size) = self.sizes.get_key_value(&Digest::from(digest))?;
        Some((digest.clone(), *size))
    }

    /// Returns the bytes of one that the attempt created.
    pub(super) fn created(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.created.get(digest).cloned()
    }

    /// Returns the bytes of those among `digests` that the attempt created.
    pub(super) fn created_among<'a>(&self, digests: impl Iterator<Item = &'a Digest>) -> Blobs {
        let created = |digest: &Digest| Some((digest.clone(), self.created.get(digest)?.clone()));
        digests.filter_map(created).collect()
    }

    /// Converts an image from a guest.
    pub(super) fn image_from_guest(&mut self, image: types::Media) -> Result<Media, InvalidMedia> {
        let image = self.media_from_guest(image)?;
        if !image.media_type.starts_with("image/") {
            return Err(InvalidMedia::NotAnImage(image.media_type));
        }
        Ok(image)
    }

    /// Converts an image or a file from a guest.
    pub(super) fn media_from_guest(&mut self, media: types::Media) -> Result<Media, InvalidMedia> {
        let types::Media {
            media_type,
            name,
            source,
        } = media;
        if !is_media_type(&media_type) {
            return Err(InvalidMedia::MediaType(shown(&media_type)));
        }
        if name
            .as_ref()
            .is_some_and(|name| name.len() > MAX_FILE_NAME_BYTES)
        {
            return Err(InvalidMedia::LongName);
        }
        let source = match source {
            types::MediaSource::Bytes(bytes) => self.add_created(bytes),
            types::MediaSource::Blob(blob) => self.find(&blob.digest)?,
            types::MediaSource::Url(url) => {
                if url.len() > MAX_URL_BYTES || Url::parse(&url).is_err() {
                    return Err(InvalidMedia::Url(shown(&url)));
                }
                MediaSource::Url(url)
            }
        };
        Ok(Media {
            media_type,
            name,
            source,
        })
    }

    fn add_created(&mut self, bytes: Vec<u8>) -> MediaSource {
        let (digest, size) = (digest_of(&bytes), bytes.len() as u64);
        self.sizes.insert(digest.clone(), size);
        self.created.insert(digest.clone(), bytes.into());
        MediaSource::Blob { digest, size }
    }

    fn find(&self, digest: &str) -> Result<MediaSource, InvalidMedia> {
        match self.known(digest) {
            Some((digest, size)) => Ok(MediaSource::Blob { digest, size }),
            None => Err(InvalidMedia::UnknownBlob(shown(digest))),
        }
    }
}

/// Converts a part for a guest.
pub(super) fn part_to_guest(part: &Part) -> types::Part {
    match part {
        Part::Text(text) => types::Part::Text(text.clone()),
        Part::Image(media) => types::Part::Image(media_to_guest(media)),
        Part::File(media) => types::Part::File(media_to_guest(media)),
    }
}

/// Converts an image or a file for a guest.
pub(super) fn media_to_guest(media: &Media) -> types::Media {
    let source = match &media.source {
        MediaSource::Blob { digest, size } => types::MediaSource::Blob(types::Blob {
            digest: digest.0.clone(),
            size: u32::try_from(*size).unwrap_or(u32::MAX),
        }),
        MediaSource::Url(url) => types::MediaSource::Url(url.clone()),
    };
    types::Media {
        media_type: media.media_type.clone(),
        name: media.name.clone(),
        source,
    }
}

/// Returns how many bytes a guest passes for images and files.
pub(super) fn bytes_from_guest(parts: &[types::Part]) -> u64 {
    let bytes = |part: &types::Part| match part {
        types::Part::Text(_) => 0,
        types::Part::Image(media) | types::Part::File(media) => media_bytes_from_guest(media),
    };
    parts.iter().map(bytes).sum()
}

/// Returns how many bytes a guest passes for an image or a file.
pub(super) fn media_bytes_from_guest(media: &types::Media) -> u64 {
    match &media.source {
        types::MediaSource::Bytes(bytes) => bytes.len() as u64,
        types::MediaSource::Blob(_) | types::MediaSource::Url(_) => 0,
    }
}

/// Returns whether a text has the form `type/subtype` (RFC 6838), without parameters.
fn is_media_type(text: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c))
    };
    text.len() <= MAX_MEDIA_TYPE_BYTES
        && text
            .split_once('/')
            .is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}

/// Returns the start of a refused value.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn media(media_type: &str, source: types::MediaSource) -> types::Media {
        types::Media {
            media_type: media_type.into(),
            name: None,
            source,
        }
    }

    #[test]
    fn what_an_attempt_created_it_may_refer_to_by_digest() {
        let mut attempt = AttemptMedia::default();
        let bytes = types::MediaSource::Bytes(b"png".to_vec());
        let image = attempt.image_from_guest(media("image/png", bytes)).unwrap();
        let MediaSource::Blob { digest, size } = &image.source else {
            panic!("{image:?}");
        };
        assert_eq!((digest, *size), (&digest_of(b"png"), 3));
        // The size is what the host knows, whatever the guest says.
        let again = types::MediaSource::Blob(types::Blob {
            digest: digest.0.clone(),
            size: 9,
        });
        assert_eq!(
            attempt.media_from_guest(media("image/png", again)),
            Ok(image.clone())
        );
        let sent = Draft {
            parts: vec![Part::Image(image)],
            ..Draft::default()
        };
        assert_eq!(attempt.created_in([&sent])[&digest_of(b"png")][..], *b"png");
        assert!(attempt.created_in([&Draft::default()]).is_empty());
    }

    #[test]
    fn what_is_no_image_and_no_file_is_refused() {
        let mut attempt = AttemptMedia::default();
        let bytes = || types::MediaSource::Bytes(Vec::new());
        let long = "x".repeat(300);
        for media_type in [
            "",
            "png",
            "image/",
            "/png",
            "image/png; q=1",
            "image/p ng",
            &long,
        ] {
            let refused = attempt.media_from_guest(media(media_type, bytes()));
            assert_eq!(refused, Err(InvalidMedia::MediaType(shown(media_type))));
        }
        assert!(
            attempt
                .media_from_guest(media("image/svg+xml", bytes()))
                .is_ok()
        );
        assert!(
            attempt
                .image_from_guest(media("text/plain", bytes()))
                .is_err()
        );
        let named = types::Media {
            name: Some(long),
            ..media("a/b", bytes())
        };
        assert_eq!(attempt.media_from_guest(named), Err(InvalidMedia::LongName));
        for url in [
            "",
            "a.png",
            &format!("https://a.example/{}", "x".repeat(9000)),
        ] {
            let refused =
                attempt.media_from_guest(media("a/b", types::MediaSource::Url(url.into())));
            assert_eq!(refused, Err(InvalidMedia::Url(shown(url))));
        }
        let unknown = types::MediaSource::Blob(types::Blob {
            digest: digest_of(b"other").0,
            size: 5,
        });
        let refused = attempt.media_from_guest(media("a/b", unknown));
        assert!(
            matches!(refused, Err(InvalidMedia::UnknownBlob(_))),
            "{refused:?}"
        );
    }
}
