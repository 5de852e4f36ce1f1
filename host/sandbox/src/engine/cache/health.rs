//! Reports the state of the cache of compiled code. It repairs nothing; damaged files are replaced
//! when they are needed.

use std::fs::{self, File};
use std::path::PathBuf;

use super::layout::{CacheDefect, CacheFileParts};
use super::{CompileCache, LOCK_PREFIX};

/// The state of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheHealth {
    /// The directory; `None` if there is no cache.
    pub directory: Option<PathBuf>,
    /// The number of cached components.
    pub files: usize,
    /// Their total size in bytes.
    pub bytes: u64,
    /// How many were written by another build of the host with a different file layout. They are
    /// replaced when they are needed.
    pub other_layout: usize,
    /// How many are damaged.
    pub damaged: usize,
}

impl CompileCache {
    /// Reads and checks every file. Their total size is bounded by `MAX_CACHE_BYTES`.
    pub(crate) fn health(&self) -> CacheHealth {
        let mut health = CacheHealth {
            directory: self.dir.clone(),
            ..CacheHealth::default()
        };
        let entries = self.dir.iter().flat_map(fs::read_dir).flatten().flatten();
        for file in entries {
            let name = file.file_name().to_string_lossy().into_owned();
            let Ok(meta) = file.metadata() else { continue };
            // Skips lock files and temporary files.
            if name.starts_with(LOCK_PREFIX) || name.starts_with('.') || !meta.is_file() {
                continue;
            }
            health.files += 1;
            health.bytes += meta.len();
            let opened = File::open(file.path()).map_err(|_| CacheDefect::Damaged);
            let verified =
                opened.and_then(|file| CacheFileParts::read(&file)?.verify(&name, &file));
            match verified {
                Ok(()) => {}
                Err(CacheDefect::OtherLayout) => health.other_layout += 1,
                Err(CacheDefect::Damaged) => health.damaged += 1,
            }
        }
        health
    }
}
