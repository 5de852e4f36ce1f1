//! The images in messages that a report contains. They are recognized by their bytes, whatever their
//! sender calls them, and limited in size.

use std::sync::Arc;

use strata_base::text::media_type::raster_image_type;
use strata_core::record::conversation::{Media, MediaSource};
use strata_core::record::id::Digest;

use super::{Excerpt, Report};

/// The maximum size of an image on a page, in bytes: that of a large screenshot.
const MAX_IMAGE_BYTES: u64 = 2 << 20;
/// The limit for all images of a page together, in bytes. In Base64 they take a third more.
const MAX_TOTAL_BYTES: u64 = 8 << 20;

/// A part of a message.
#[derive(Clone, Debug)]
pub enum MessagePart {
    /// A text.
    Text(Excerpt),
    /// An image or a file.
    Media {
        /// What is known of it.
        media: Media,
        /// The image, if the page contains it.
        image: Option<EmbeddedImage>,
    },
}

/// An image that the page contains.
#[derive(Clone, Debug)]
pub struct EmbeddedImage {
    /// Its media type: that of a raster image, which cannot contain scripts.
    pub media_type: &'static str,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

impl Report {
    /// Adds the images of the newest messages, as far as they are small enough. `load` returns bytes
    /// by their digest, or `None` if they are not saved.
    pub fn embed_images<E>(
        &mut self,
        mut load: impl FnMut(&Digest) -> Result<Option<Arc<[u8]>>, E>,
    ) -> Result<(), E> {
        let mut bytes_left = MAX_TOTAL_BYTES;
        let messages = self.messages.iter_mut().rev();
        for part in messages.flat_map(|message| &mut message.parts) {
            let MessagePart::Media { media, image } = part else {
                continue;
            };
            let MediaSource::Blob { digest, size } = &media.source else {
                continue;
            };
            if *size > MAX_IMAGE_BYTES.min(bytes_left) {
                continue;
            }
            // Bytes that turn out to be no image count as well, so that few are loaded.
            bytes_left -= size;
            let bytes = load(digest)?.filter(|bytes| bytes.len() as u64 == *size);
            *image = bytes.and_then(EmbeddedImage::recognize);
        }
        Ok(())
    }
}

impl EmbeddedImage {
    fn recognize(bytes: Arc<[u8]>) -> Option<Self> {
        let media_type = raster_image_type(&bytes)?;
        Some(Self { media_type, bytes })
    }
}
