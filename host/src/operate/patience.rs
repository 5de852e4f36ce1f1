//! How long a command waits for a database that is away: as long as runs do.

use std::thread::sleep;
use std::time::{Duration, Instant};

use strata_storage::{DEFAULT_PATIENCE, StoreError};

use crate::launch::LaunchError;

/// How often it is tried again meanwhile.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Waits for a database that is away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// Since when it is away, if it is.
    away_since: Option<Instant>,
}

impl Patience {
    /// Returns what succeeded, or `None` after a while if the database is away and what failed is to be tried again.
    ///
    /// # Errors
    /// Fails for another reason, and once the database has been away for too long.
    pub fn accept<T, E: Into<LaunchError>>(
        &mut self,
        result: Result<T, E>,
    ) -> Result<Option<T>, LaunchError> {
        match result.map_err(Into::into) {
            Ok(value) => {
                self.away_since = None;
                Ok(Some(value))
            }
            Err(LaunchError::Store(error @ StoreError::Unreachable { .. })) => {
                let since = *self.away_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= DEFAULT_PATIENCE {
                    return Err(error.into());
                }
                sleep(RETRY_INTERVAL);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
