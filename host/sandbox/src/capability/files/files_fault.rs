//! Failures of the files of an attempt that are not the guest's.

use std::io;

use strata_core::record::fault::FaultCause;

/// Why the directories of an attempt cannot be staged, or the files it left there cannot be stored.
#[derive(Debug)]
pub(crate) struct FilesFault {
    pub(crate) cause: FaultCause,
    pub(crate) message: String,
}

impl FilesFault {
    /// Returns the error of a directory that cannot be staged.
    pub(super) fn staging(guest: &str, error: &io::Error) -> Self {
        Self {
            cause: FaultCause::Staging,
            message: format!("cannot stage `{guest}`: {error}"),
        }
    }

    /// Returns the error of files in `place` that cannot be stored.
    pub(super) fn storing(location: &str, why: &str) -> Self {
        Self {
            cause: FaultCause::Keeping,
            message: format!("cannot keep files of {location}: {why}"),
        }
    }

    /// Returns the error of the host's own temporary files.
    pub(super) fn temporary(message: String) -> Self {
        Self {
            cause: FaultCause::TemporaryFiles,
            message,
        }
    }
}
