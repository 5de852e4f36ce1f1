//! The layout of a file of the cache: code, manifest, and how to verify them.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use strata_base::files::replace::{Replacement, replace};

/// The last bytes of each file. The code comes first, so that it can be mapped into memory; the
/// manifest follows it.
pub(super) const MAGIC: &[u8; 7] = b"strata\0";
/// The version of the file layout, which precedes the magic bytes. Files of another version are not
/// used.
pub(super) const LAYOUT_VERSION: u8 = 1;
/// The size of the checksum, which precedes the version.
const CHECKSUM_BYTES: usize = 4;
/// The size of the manifest's length, which precedes the checksum.
const LENGTH_BYTES: usize = 4;
/// The size of everything after the manifest.
const TRAILER_BYTES: usize = LENGTH_BYTES + CHECKSUM_BYTES + 1 + MAGIC.len();
/// How much of a file is read at once.
const READ_BYTES: usize = 64 << 10;
/// The maximum size of all files, and so of one.
pub(super) const MAX_CACHE_BYTES: u64 = 2 << 30;

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheDefect {
    /// Another build of the host wrote it.
    OtherLayout,
    /// It is not what was written.
    Damaged,
}

/// The parts of a file of the current layout, as the end of the file describes them.
pub(super) struct CacheFileParts {
    /// The size of code and manifest together.
    body_bytes: u64,
    /// The size of the manifest, as it is stored.
    manifest_length: [u8; LENGTH_BYTES],
    sum: [u8; CHECKSUM_BYTES],
}

impl CacheFileParts {
    pub(super) fn read(file: &File) -> Result<Self, CacheDefect> {
        let damaged = |_| CacheDefect::Damaged;
        let bytes = file.metadata().map_err(damaged)?.len();
        let body_bytes = bytes
            .checked_sub(TRAILER_BYTES as u64)
            .ok_or(CacheDefect::Damaged)?;
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, body_bytes)
            .map_err(damaged)?;
        let (manifest_length, rest) = trailer.split_first_chunk().ok_or(CacheDefect::Damaged)?;
        let (sum, rest) = rest.split_first_chunk().ok_or(CacheDefect::Damaged)?;
        match rest.split_first() {
            Some((&LAYOUT_VERSION, magic)) if magic == MAGIC => Ok(Self {
                body_bytes,
                manifest_length: *manifest_length,
                sum: *sum,
            }),
            Some((_, magic)) if magic == MAGIC => Err(CacheDefect::OtherLayout),
            _ => Err(CacheDefect::Damaged),
        }
    }

    /// Verifies the checksum for this name.
    pub(super) fn verify(&self, key: &str, file: &File) -> Result<(), CacheDefect> {
        // Nothing that is larger than the whole cache is read.
        if self.body_bytes > MAX_CACHE_BYTES {
            return Err(CacheDefect::Damaged);
        }
        match checksum(key, file, self.body_bytes, &self.manifest_length) {
            Ok(sum) if sum == self.sum => Ok(()),
            _ => Err(CacheDefect::Damaged),
        }
    }

    /// Returns the size of the code, and the manifest. The checksum must have been verified.
    pub(super) fn read_manifest(&self, file: &File) -> Result<(u64, Vec<u8>), CacheDefect> {
        let length = u32::from_le_bytes(self.manifest_length);
        let code_bytes = self
            .body_bytes
            .checked_sub(length.into())
            .ok_or(CacheDefect::Damaged)?;
        let mut manifest = vec![0; length as usize];
        file.read_exact_at(&mut manifest, code_bytes)
            .map_err(|_| CacheDefect::Damaged)?;
        Ok((code_bytes, manifest))
    }
}

/// Computes the checksum of code and manifest, reading them in pieces.
fn checksum(
    key: &str,
    file: &File,
    body_bytes: u64,
    length: &[u8],
) -> io::Result<[u8; CHECKSUM_BYTES]> {
    let (mut sum, mut piece, mut at) = (start_checksum(key), vec![0; READ_BYTES], 0);
    while at < body_bytes {
        let piece = &mut piece[..READ_BYTES.min((body_bytes - at) as usize)];
        file.read_exact_at(piece, at)?;
        sum.update(piece);
        at += piece.len() as u64;
    }
    sum.update(length);
    Ok(sum.finalize().to_le_bytes())
}

/// Starts a checksum with the name, so that a renamed file does not match.
fn start_checksum(key: &str) -> crc32fast::Hasher {
    let mut sum = crc32fast::Hasher::new();
    sum.update(key.as_bytes());
    sum.update(&[0]);
    sum
}

/// Writes a file under a temporary name and renames it, so that readers never see a part of it.
pub(super) fn write(dir: &Path, key: &str, manifest: &[u8], code: &[u8]) -> io::Result<()> {
    let length = u32::try_from(manifest.len())
        .map_err(io::Error::other)?
        .to_le_bytes();
    let body = [code, manifest, &length];
    let mut sum = start_checksum(key);
    for part in &body {
        sum.update(part);
    }
    let sum = sum.finalize().to_le_bytes();
    let mut parts = body
        .into_iter()
        .chain([&sum, [LAYOUT_VERSION].as_slice(), MAGIC]);
    replace(&dir.join(key), Replacement::Cached, |new| {
        parts.try_for_each(|part| new.write_all(part))
    })
}
