//! Limits the size of staged directories while a guest writes to them with WASI functions. The size
//! is checked periodically, and once more at the end. What a guest writes in between is bounded by
//! the speed of the disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_base::text::units::format_bytes;
use strata_core::record::fault::FaultCause;

use super::super::quota;
use super::OpenFiles;
use super::disk::HostDirectory;
use super::files_fault::FilesFault;

/// How often the size is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The size limit of one staged directory, or of all of them.
#[derive(Clone)]
pub(super) struct SizeLimit {
    root: Arc<HostDirectory>,
    opened: OpenFiles,
    limit: u64,
    /// The number of the directory among the staged ones, and the guest's name for it; `None` for
    /// all of them together.
    directory: Option<(usize, String)>,
}

impl SizeLimit {
    /// Creates the limit of all staged directories together.
    pub(super) fn for_all(path: &Path, opened: &OpenFiles, limit: u64) -> Self {
        let (root, opened) = (Arc::new(HostDirectory::new(path.into())), opened.clone());
        Self {
            root,
            opened,
            limit,
            directory: None,
        }
    }

    /// Creates the limit of one staged directory. If it already holds more than is granted, its
    /// files may still be changed, but it must not grow.
    pub(super) fn for_directory(
        guest: &str,
        copy: &Arc<HostDirectory>,
        opened: &OpenFiles,
        number: usize,
        granted: u64,
    ) -> io::Result<Self> {
        let limit = granted.max(copy.size()?);
        let one = Some((number, guest.into()));
        Ok(Self {
            root: Arc::clone(copy),
            opened: opened.clone(),
            limit,
            directory: one,
        })
    }

    /// A file that is removed during the count may be missed, but never counted twice. The next
    /// check counts it.
    fn size(&self) -> io::Result<u64> {
        let removed = self
            .opened
            .removed_bytes(self.directory.as_ref().map(|(number, _)| *number));
        Ok(self.root.size()?.saturating_add(removed))
    }

    /// Returns the fault of a directory that is too large at the end.
    pub(super) fn final_fault(&self) -> Option<FilesFault> {
        Some(self.fault(&self.excess()?))
    }

    /// Returns the fault of a directory that is too large now. The message does not include the
    /// size, which would differ each time.
    fn current_fault(&self) -> Option<FilesFault> {
        self.excess()?;
        let why = format!(
            "ended as the directory came to hold more than {}",
            format_bytes(self.limit)
        );
        Some(FilesFault {
            cause: FaultCause::DirectoryOverflow,
            ..self.fault(&why)
        })
    }

    /// Returns by how much the limit is exceeded, as a text.
    fn excess(&self) -> Option<String> {
        match self
            .size()
            .and_then(|size| quota::check_size(size, self.limit))
        {
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => Some(error.to_string()),
            // Files that change during the count are counted the next time.
            _ => None,
        }
    }

    fn fault(&self, why: &str) -> FilesFault {
        match &self.directory {
            Some((_, guest)) => {
                let why = format!("{why}; raise `max_size` of `{guest}` in `allow.dirs`");
                FilesFault::storing(&format!("`{guest}`"), &why)
            }
            None => FilesFault::storing("all writable directories together", why),
        }
    }
}

/// Waits until the guest has exceeded a limit, and returns the fault.
pub(super) async fn wait_for_overflow(caps: Vec<SizeLimit>) -> FilesFault {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let look = caps.clone();
        let broken =
            tokio::task::spawn_blocking(move || look.iter().find_map(SizeLimit::current_fault))
                .await;
        if let Ok(Some(why)) = broken {
            return why;
        }
    }
}
