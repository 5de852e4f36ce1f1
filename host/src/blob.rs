//! Bytes by their names: those of files and of components. Where files are kept is the store's business, where they come
//! from the sandbox's.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::id::{Digest, hex};

use crate::sha256::sha256;

/// The bytes of files by their SHA-256.
pub type Blobs = BTreeMap<Digest, Arc<[u8]>>;

/// The name of these bytes.
pub fn digest_of(bytes: &[u8]) -> Digest {
    Digest(hex(&sha256(bytes)))
}
