//! How long a command waits for a server that is away, as while it is started again.

use std::thread::sleep;
use std::time::Duration;

use strata_server::client::ClientError;

/// How soon a server that is away is tried again.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How often it is tried again.
const MAX_ATTEMPTS: u32 = 60;

/// Waits for a server that is away.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerPatience {
    failures: u32,
}

impl ServerPatience {
    /// Returns what succeeded, or `None` after a while if the server is away and what failed is to be tried again. Fails
    /// for another reason, and once the server has been away for too long.
    pub(super) fn accept<T>(
        &mut self,
        result: Result<T, ClientError>,
    ) -> Result<Option<T>, ClientError> {
        match result {
            Ok(value) => {
                self.reset();
                Ok(Some(value))
            }
            Err(error) if is_away(&error) => {
                self.failures += 1;
                if self.failures >= MAX_ATTEMPTS {
                    return Err(error);
                }
                sleep(RETRY_DELAY);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Notes that the server has answered.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Whether a request may succeed if it is sent again: the server, or the proxy in front of it, is not ready.
fn is_away(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } => true,
        ClientError::Refused { status, .. } => matches!(status, 429 | 502..=504),
        _ => false,
    }
}
