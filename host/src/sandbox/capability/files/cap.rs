//! How much staged directories may come to hold, while a guest writes to them with WASI's many functions: looked at again
//! and again, and once more when it is done. What it writes in between is what the disk takes in that time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use strata_core::fault::FaultCause;

use super::super::quota;
use super::Opened;
use super::disk::Root;
use super::stage::FilesFault;
use crate::sandbox::limits::bytes;

/// How often it is looked how much a guest has written by now.
const LOOK: Duration = Duration::from_millis(100);

/// What a directory may come to hold.
#[derive(Clone)]
pub(super) struct Cap {
    root: Arc<Root>,
    opened: Opened,
    limit: u64,
    /// The directory's number among the staged ones, and the guest's name of it; none for all of them together.
    one: Option<(usize, String)>,
}

impl Cap {
    /// For all staged directories together.
    pub(super) fn of_all(path: &Path, opened: &Opened, limit: u64) -> Self {
        let (root, opened) = (Arc::new(Root::new(path.into())), opened.clone());
        Self {
            root,
            opened,
            limit,
            one: None,
        }
    }

    /// For one of them. One that holds more than is granted already may still be changed, and not grow.
    pub(super) fn of(
        (guest, copy): (&str, &Arc<Root>),
        (opened, number): (&Opened, usize),
        granted: u64,
    ) -> io::Result<Self> {
        let limit = granted.max(copy.held()?);
        let one = Some((number, guest.into()));
        Ok(Self {
            root: Arc::clone(copy),
            opened: opened.clone(),
            limit,
            one,
        })
    }

    /// What is removed meanwhile is missed rather than counted twice: it is counted the next time.
    fn held(&self) -> io::Result<u64> {
        let removed = self
            .opened
            .removed(self.one.as_ref().map(|(number, _)| *number));
        Ok(self.root.held()?.saturating_add(removed))
    }

    /// Returns the fault of a directory that holds too much at the end.
    pub(super) fn broken(&self) -> Option<FilesFault> {
        Some(self.fault(&self.excess()?))
    }

    /// Returns the fault of a directory that holds too much by now. It does not say how much, which is another number
    /// each time.
    fn overflown(&self) -> Option<FilesFault> {
        self.excess()?;
        let why = format!(
            "ended as the directory came to hold more than {}",
            bytes(self.limit)
        );
        Some(FilesFault {
            cause: FaultCause::DirectoryOverflow,
            ..self.fault(&why)
        })
    }

    /// By how much it holds too much, in words.
    fn excess(&self) -> Option<String> {
        match self.held().and_then(|held| quota::check(held, self.limit)) {
            Err(error) if error.kind() == io::ErrorKind::QuotaExceeded => Some(error.to_string()),
            // Files that come and go while they are counted are counted the next time.
            _ => None,
        }
    }

    fn fault(&self, why: &str) -> FilesFault {
        match &self.one {
            Some((_, guest)) => {
                let why = format!("{why}; raise `max_size` of `{guest}` in `allow.dirs`");
                FilesFault::keeping(&format!("`{guest}`"), &why)
            }
            None => FilesFault::keeping("all writable directories together", why),
        }
    }
}

/// Waits until the guest has written too much, whatever it writes with; then says so.
pub(super) async fn overflow(caps: Vec<Cap>) -> FilesFault {
    loop {
        tokio::time::sleep(LOOK).await;
        let look = caps.clone();
        let broken =
            tokio::task::spawn_blocking(move || look.iter().find_map(Cap::overflown)).await;
        if let Ok(Some(why)) = broken {
            return why;
        }
    }
}
