//! How the cache of compiled code stands: for people who ask. Nothing is mended here; what is damaged is compiled again
//! when it is needed.

use std::fs::{self, File};
use std::path::PathBuf;

use super::{Cache, LOCK, Unfit, check};

/// How the cache stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheHealth {
    /// Where it is; none where nothing is kept.
    pub place: Option<PathBuf>,
    /// How many components are kept.
    pub files: usize,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many of them another build of the host wrote, in a layout of its own. They are replaced when they are needed.
    pub foreign: usize,
    /// How many of them are not what was put there.
    pub damaged: usize,
}

impl Cache {
    /// Looks at every file. Together they are bounded, see `KEPT_BYTES`.
    pub(in crate::sandbox) fn health(&self) -> CacheHealth {
        let mut health = CacheHealth {
            place: self.dir.clone(),
            ..CacheHealth::default()
        };
        let entries = self.dir.iter().flat_map(fs::read_dir).flatten().flatten();
        for file in entries {
            let name = file.file_name().to_string_lossy().into_owned();
            let Ok(meta) = file.metadata() else { continue };
            // Locks, and what is being written.
            if name.starts_with(LOCK) || name.starts_with('.') || !meta.is_file() {
                continue;
            }
            health.files += 1;
            health.bytes += meta.len();
            let opened = File::open(file.path()).map_err(|_| Unfit::Damaged);
            match opened.and_then(|file| check(&name, &file)) {
                Ok(_) => {}
                Err(Unfit::Foreign) => health.foreign += 1,
                Err(Unfit::Damaged) => health.damaged += 1,
            }
        }
        health
    }
}
