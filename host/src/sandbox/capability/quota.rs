//! How large a writable directory may become. What is written, and where, is `files`'s business.

use std::io;

use cap_std::fs::Dir;

use super::super::limits::bytes;

/// Entries that are looked at to tell how much a directory holds. One with more of them is taken for full: telling would
/// take longer than writing.
const ENTRIES: usize = 100_000;
/// Directories within directories that are looked into; deeper ones are taken for full too.
const DEPTH: usize = 64;

/// Fails with `QuotaExceeded` if a directory would hold more than `limit` bytes.
pub(super) fn check(after: u64, limit: u64) -> io::Result<()> {
    if after <= limit {
        return Ok(());
    }
    let (after, limit) = (bytes(after), bytes(limit));
    let message = format!("the directory would hold {after}, and {limit} are granted");
    Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
}

/// The bytes of all files below a directory. Links are not followed.
pub(super) fn held(root: &Dir) -> io::Result<u64> {
    let mut entries = 0;
    held_below(root, &mut entries, DEPTH)
}

fn held_below(dir: &Dir, entries: &mut usize, depth: usize) -> io::Result<u64> {
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
            kind if kind.is_dir() => held_below(&entry.open_dir()?, entries, depth - 1)?,
            kind if kind.is_file() => entry.metadata()?.len(),
            _ => 0,
        };
        sum = sum.saturating_add(more);
    }
    Ok(sum)
}
