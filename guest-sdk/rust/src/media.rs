//! Images and files in messages and in conversations with models.
//!
//! An action creates them from bytes or an address. Those that it receives are references to bytes
//! that the host has stored: they can be passed on as they are, and [`Media::load`] returns their
//! bytes.
//!
//! ```
//! # use strata_action::{Failure, Output, Part, llm};
//! # strata_action::testing::Host::new().reply("a circle").within(|| -> Result<(), Failure> {
//! let image = Part::image("image/png", b"\x89PNG");
//! let reply = llm::Request::new("What is this?").part(image.clone()).send()?;
//! let output: Output = Output::new(reply.text).part(image);
//! # assert_eq!((&*output.content, output.parts.len()), ("a circle", 1));
//! # Ok(()) }).unwrap();
//! ```

use crate::{HostError, HostErrorKind, Part, host};

pub use crate::bindings::strata::action::types::{Blob, Media, MediaSource};

/// Returns the bytes with this digest.
///
/// # Errors
/// Fails if this attempt received no part with the digest.
pub fn load(digest: &str) -> Result<Vec<u8>, HostError> {
    host::media::load(digest)
}

impl Media {
    /// Creates an image or a file from its media type, e.g. `image/png`, and its bytes.
    pub fn new(media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            media_type: media_type.into(),
            name: None,
            source: MediaSource::Bytes(bytes.into()),
        }
    }

    /// Creates an image or a file that the provider of a model reads from an address. The host does
    /// not read it.
    pub fn at(media_type: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            media_type: media_type.into(),
            name: None,
            source: MediaSource::Url(url.into()),
        }
    }

    /// Sets the file name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the bytes.
    ///
    /// # Errors
    /// Fails if the bytes are at an address, which the host does not read, or if this attempt did
    /// not receive them.
    pub fn load(&self) -> Result<Vec<u8>, HostError> {
        match &self.source {
            MediaSource::Bytes(bytes) => Ok(bytes.clone()),
            MediaSource::Blob(blob) => load(&blob.digest),
            MediaSource::Url(url) => Err(HostError {
                kind: HostErrorKind::Invalid,
                message: format!("loading `{url}`: the host does not read addresses"),
            }),
        }
    }
}

impl Part {
    /// Creates an image from its media type, e.g. `image/png`, and its bytes.
    pub fn image(media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::Image(Media::new(media_type, bytes))
    }

    /// Creates a file from its media type, e.g. `application/pdf`, and its bytes.
    pub fn file(media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::File(Media::new(media_type, bytes))
    }

    /// Returns the image or file, or `None` for a text.
    pub fn media(&self) -> Option<&Media> {
        match self {
            Self::Image(media) | Self::File(media) => Some(media),
            Self::Text(_) => None,
        }
    }

    /// Returns the text, or `None` for an image or a file.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image(_) | Self::File(_) => None,
        }
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}
