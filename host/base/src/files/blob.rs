//! Bytes that are identified by their digest: those of files and of components. The store saves
//! those of files; the sandbox obtains those of components.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::record::id::{Digest, to_hex};

use crate::files::sha256::sha256;

/// The bytes of files, by their SHA-256.
pub type Blobs = BTreeMap<Digest, Arc<[u8]>>;

/// Returns the digest of `bytes`.
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest(to_hex(&sha256(bytes)))
}
