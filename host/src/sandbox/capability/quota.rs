//! How large a writable directory may become. What is written, and where, is `files`'s business.

use std::io;
use std::path::Path;

use cap_std::fs::Dir;

use super::super::limits::bytes;

/// Entries that are looked at to tell how much a directory holds. One with more of them is taken for full: telling would
/// take longer than writing.
const ENTRIES: usize = 100_000;
/// Directories within directories that are looked into; deeper ones are taken for full too.
const DEPTH: usize = 64;

/// Fails with `QuotaExceeded` if a directory would hold more than `limit` bytes with a file of this length in it. A file
/// of that name makes room for the new one.
pub(super) fn check(root: &Dir, (dir, name): (&Dir, &Path), length: u64, limit: u64) -> io::Result<()> {
    let replaced = dir.symlink_metadata(name).ok().filter(|old| old.is_file()).map_or(0, |old| old.len());
    let mut entries = 0;
    let held = held(root, &mut entries, DEPTH)?;
    let after = held.saturating_sub(replaced).saturating_add(length);
    if after <= limit {
        return Ok(());
    }
    let (after, limit) = (bytes(after), bytes(limit));
    let message = format!("the directory would hold {after}, and {limit} are granted");
    Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
}

/// The bytes of all files below a directory. Links are not followed.
fn held(dir: &Dir, entries: &mut usize, depth: usize) -> io::Result<u64> {
    let full = |why: String| Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
    if depth == 0 {
        return full(format!("the directory is nested deeper than {DEPTH} levels"));
    }
    let mut sum = 0u64;
    for entry in dir.entries()? {
        let entry = entry?;
        *entries += 1;
        if *entries > ENTRIES {
            return full(format!("the directory holds more than {ENTRIES} files"));
        }
        let more = match entry.file_type()? {
            kind if kind.is_dir() => held(&entry.open_dir()?, entries, depth - 1)?,
            kind if kind.is_file() => entry.metadata()?.len(),
            _ => 0,
        };
        sum = sum.saturating_add(more);
    }
    Ok(sum)
}
