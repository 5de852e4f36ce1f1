//! How much staged directories may come to hold, while a guest writes to them with WASI's many functions: looked at again
//! and again, and once more when it is done. What it writes in between is what the disk takes in that time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::quota;
use super::disk::Root;

/// How often it is looked how much a guest has written by now.
const LOOK: Duration = Duration::from_millis(100);

/// What a directory may come to hold.
#[derive(Clone)]
pub(super) struct Cap {
    root: Arc<Root>,
    limit: u64,
    /// The guest's name of the directory; none for all of them together.
    guest: Option<String>,
}

impl Cap {
    /// For all staged directories together.
    pub(super) fn of_all(path: &Path, limit: u64) -> Self {
        Self { root: Arc::new(Root::new(path.into())), limit, guest: None }
    }

    /// For one of them. One that holds more than is granted already may still be changed, and not grow.
    pub(super) fn of(guest: &str, copy: &Arc<Root>, granted: u64) -> io::Result<Self> {
        let limit = granted.max(copy.held()?);
        Ok(Self { root: Arc::clone(copy), limit, guest: Some(guest.into()) })
    }

    /// Says so if it holds too much.
    pub(super) fn broken(&self) -> Option<String> {
        match self.root.held().and_then(|held| quota::check(held, self.limit)) {
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => Some(match &self.guest {
                Some(guest) => {
                    format!("cannot keep files of `{guest}`: {error}; raise `max_size` of `{guest}` in `allow.dirs`")
                }
                None => format!("cannot keep files of all writable directories together: {error}"),
            }),
            // Files that come and go while they are counted are counted the next time.
            _ => None,
        }
    }
}

/// Waits until the guest has written too much, whatever it writes with; then says so.
pub(super) async fn overflow(caps: Vec<Cap>) -> String {
    loop {
        tokio::time::sleep(LOOK).await;
        let look = caps.clone();
        let broken = tokio::task::spawn_blocking(move || look.iter().find_map(Cap::broken)).await;
        if let Ok(Some(why)) = broken {
            return why;
        }
    }
}
