//! Limits on the size and depth of writable directories. `files` performs the writes.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

use strata_base::text::units::format_bytes;

/// How many entries are counted at most to compute the size of a directory. One with more is
/// treated as full, since counting would take longer than writing.
const MAX_ENTRIES: usize = 100_000;
/// The maximum nesting of directories. Each level of a path is opened separately, so deeper paths
/// are slow. A directory with deeper ones is treated as full, and nothing deeper is written.
pub(super) const MAX_LEVELS: usize = 64;

/// Fails with `QuotaExceeded` if a directory would hold more than `limit` bytes.
pub(super) fn check_size(after: u64, limit: u64) -> io::Result<()> {
    if after <= limit {
        return Ok(());
    }
    let (after, limit) = (format_bytes(after), format_bytes(limit));
    let message = format!("the directory would hold {after}, and {limit} are granted");
    Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
}

/// Returns the size of all files below a directory, except those at the path `without`. Links are
/// not followed.
pub(super) fn directory_size(root: &Dir, without: &[PathBuf]) -> io::Result<u64> {
    let mut entries = 0;
    let without = without.iter().map(PathBuf::as_path).collect();
    size_below(root, without, &mut entries, MAX_LEVELS)
}

/// The maximum length of a file name in bytes, as file systems define it.
pub(super) const MAX_NAME_BYTES: usize = 255;

/// Returns whether a path has a name that is longer than file systems accept. They do not report
/// this for a path that does not exist.
pub(super) fn has_long_name(inside: &Path) -> bool {
    inside.iter().any(|name| name.len() > MAX_NAME_BYTES)
}

/// Returns whether a path is nested too deeply.
pub(super) fn is_too_deep(inside: &Path) -> bool {
    inside.components().nth(MAX_LEVELS).is_some()
}

/// Returns the error of a directory that is nested too deeply.
pub(super) fn too_deep_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::QuotaExceeded,
        format!("the directory is nested deeper than {MAX_LEVELS} levels"),
    )
}

fn size_below(
    dir: &Dir,
    without: Vec<&Path>,
    entries: &mut usize,
    levels: usize,
) -> io::Result<u64> {
    let mut sum = 0u64;
    for entry in dir.entries()? {
        let entry = entry?;
        *entries += 1;
        if *entries > MAX_ENTRIES {
            let why = format!("the directory holds more than {MAX_ENTRIES} files");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        let name = entry.file_name();
        let below = without
            .iter()
            .filter_map(|path| path.strip_prefix(&name).ok());
        let below: Vec<&Path> = below.collect();
        if below.iter().any(|rest| rest.as_os_str().is_empty()) {
            continue;
        }
        let more = match entry.file_type()? {
            kind if kind.is_dir() => {
                let levels = levels.checked_sub(1).ok_or_else(too_deep_error)?;
                size_below(&entry.open_dir()?, below, entries, levels)?
            }
            kind if kind.is_file() => entry.metadata()?.len(),
            _ => 0,
        };
        sum = sum.saturating_add(more);
    }
    Ok(sum)
}
