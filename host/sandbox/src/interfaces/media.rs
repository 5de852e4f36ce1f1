//! `media`: the host function for the bytes of images and files. It needs no grant: an attempt loads
//! only what it received or created.

use strata_services::gateway::{GuestRequest, HostAnswer, HostError, HostErrorKind};

use crate::bindings::media;
use crate::ctx::{Ctx, HostResult, unavailable_in_describe, unexpected_answer};
use crate::media::{InvalidMedia, shown};

impl media::Host for Ctx {
    async fn load(&mut self, digest: String) -> HostResult<Vec<u8>> {
        const NAME: &str = "media.load";
        self.count_calls(NAME, 1)?;
        let Some((digest, size)) = self.media.known(&digest) else {
            let unknown = InvalidMedia::UnknownBlob(shown(&digest)).to_string();
            return Ok(Err(
                self.refuse(HostError::new(HostErrorKind::NotFound, unknown))
            ));
        };
        // Bytes that are larger than the guest's memory could not be returned to it.
        if size > self.limits.memory_bytes {
            let message = format!("`{digest}` has {size} bytes, more than `limits.memory` allows");
            return Ok(Err(
                self.refuse(HostError::new(HostErrorKind::Invalid, message))
            ));
        }
        let bytes = match self.media.created(&digest) {
            Some(created) => Some(created),
            None => match self
                .request(NAME, GuestRequest::StoredFile(digest.clone()))
                .await?
            {
                None => return Ok(Err(unavailable_in_describe(NAME))),
                Some(HostAnswer::File(bytes)) => bytes,
                Some(other) => unexpected_answer(NAME, &other),
            },
        };
        let Some(bytes) = bytes else {
            let message =
                format!("the bytes of `{digest}` were not brought along when the team was moved");
            return Ok(Err(
                self.refuse(HostError::new(HostErrorKind::NotFound, message))
            ));
        };
        self.count_bytes(NAME, bytes.len() as u64)?;
        Ok(Ok(bytes.to_vec()))
    }
}
