//! How large a writable directory may become. What is written, and where, is `files`'s business.

use std::io;
use std::path::Path;

use cap_std::fs::Dir;

use super::super::limits::bytes;

/// Entries that are looked at to tell how much a directory holds. One with more of them is taken for full: telling would
/// take longer than writing.
const ENTRIES: usize = 100_000;
/// Directories within directories. Every step to a place is taken by itself, so deeper ones cost more than they are
/// good for: one that holds them is taken for full, and nothing is put there.
pub(super) const LEVELS: usize = 64;

/// Fails with `QuotaExceeded` if a directory would hold more than `limit` bytes.
pub(super) fn check(after: u64, limit: u64) -> io::Result<()> {
    if after <= limit {
        return Ok(());
    }
    let (after, limit) = (bytes(after), bytes(limit));
    let message = format!("the directory would hold {after}, and {limit} are granted");
    Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
}

/// The bytes of all files below a directory, but those at a place `without`. Links are not followed.
pub(super) fn held(root: &Dir, without: Option<&Path>) -> io::Result<u64> {
    let mut entries = 0;
    held_below((root, without), &mut entries, LEVELS)
}

/// The longest name that file systems take, in bytes.
pub(super) const NAME_BYTES: usize = 255;

/// Whether a place, by names only, has a name that no file system takes. One that is not there yet does not say so.
pub(super) fn has_long_name(inside: &Path) -> bool {
    inside.iter().any(|name| name.len() > NAME_BYTES)
}

/// Whether a place, by names only, lies deeper than anything may.
pub(super) fn is_too_deep(inside: &Path) -> bool {
    inside.components().nth(LEVELS).is_some()
}

/// Says so.
pub(super) fn too_deep() -> io::Error {
    io::Error::new(
        io::ErrorKind::QuotaExceeded,
        format!("the directory is nested deeper than {LEVELS} levels"),
    )
}

fn held_below(
    (dir, without): (&Dir, Option<&Path>),
    entries: &mut usize,
    levels: usize,
) -> io::Result<u64> {
    let mut sum = 0u64;
    for entry in dir.entries()? {
        let entry = entry?;
        *entries += 1;
        if *entries > ENTRIES {
            let why = format!("the directory holds more than {ENTRIES} files");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        let more = match entry.file_type()? {
            kind if kind.is_dir() => {
                let levels = levels.checked_sub(1).ok_or_else(too_deep)?;
                match without.and_then(|without| without.strip_prefix(entry.file_name()).ok()) {
                    Some(rest) if rest.as_os_str().is_empty() => 0,
                    rest => held_below((&entry.open_dir()?, rest), entries, levels)?,
                }
            }
            kind if kind.is_file() => entry.metadata()?.len(),
            _ => 0,
        };
        sum = sum.saturating_add(more);
    }
    Ok(sum)
}
