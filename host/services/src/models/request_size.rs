//! How large a request to a model may be. Whoever makes a request (an action, a turn of a role, the
//! choice of an action) comes here, because `registry` refuses what does not fit.

use strata_base::text::units::format_bytes;

use super::{EmbedRequest, ModelRequest};

/// The maximum size of the texts of one request. No model accepts more.
const MAX_TEXT_BYTES: u64 = 8 << 20;
/// The maximum size of the images and files of one request; the WIT documents this.
pub const MAX_MEDIA_BYTES: u64 = 64 << 20;

impl ModelRequest {
    /// Fails with the reason if the request is larger than any that is sent.
    pub fn check_size(&self) -> Result<(), String> {
        check_text("the request is", self.bytes())?;
        check_media(self.stored_media().map(|(_, size)| size).sum())
    }
}

impl EmbedRequest {
    /// Fails with the reason if the request is larger than any that is sent.
    pub fn check_size(&self) -> Result<(), String> {
        check_text("the texts are", self.text_bytes())
    }
}

fn check_text(subject: &str, bytes: usize) -> Result<(), String> {
    check(subject, bytes as u64, MAX_TEXT_BYTES)
}

/// Fails with the reason if images and files of this size are more than what is sent with a request.
pub fn check_media(bytes: u64) -> Result<(), String> {
    check("the images and files are", bytes, MAX_MEDIA_BYTES)
}

fn check(subject: &str, bytes: u64, limit: u64) -> Result<(), String> {
    if bytes <= limit {
        return Ok(());
    }
    let (bytes, limit) = (format_bytes(bytes), format_bytes(limit));
    Err(format!("{subject} {bytes}, at most {limit} are sent"))
}
