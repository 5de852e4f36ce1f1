//! Whether the owner of a run is known to own it still. Where other machines can take a run over, its
//! owner has to be heard of regularly. Shortly before it may count as dead, it starts nothing that would
//! be paid twice, or change the outside twice, if the run were taken over.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::StoreError;

/// For how long an owner has to be silent until its runs may be taken over.
pub const LEASE_TIME: Duration = Duration::from_secs(10);
/// For how long after its last heartbeat an owner may start what must not happen twice: 0.8 of the lease
/// time. The rest is for what was started just before.
const CONFIRMED_TIME: Duration = Duration::from_secs(8);

/// What is known of the heartbeat of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// The newest one that was answered was sent then.
    Answered {
        /// When it was sent.
        sent: Instant,
    },
    /// The owner was taken for dead, so its runs belong to others.
    Refused,
}

/// Tells whether a lease is certainly still the newest.
#[derive(Clone, Debug, Default)]
pub struct LeaseStatus {
    /// `None` if nobody can take the run over.
    heartbeat: Option<watch::Receiver<Heartbeat>>,
    /// How often the server was connected to again.
    reconnections: Option<watch::Receiver<u64>>,
    /// Where the run is kept, for messages.
    path: PathBuf,
}

impl LeaseStatus {
    /// Returns the status of a lease that nobody takes over.
    pub fn permanent() -> Self {
        Self::default()
    }

    /// Returns the status of a lease that depends on heartbeats.
    pub fn depending_on(heartbeat: watch::Receiver<Heartbeat>, path: &Path) -> Self {
        Self {
            heartbeat: Some(heartbeat),
            reconnections: None,
            path: path.into(),
        }
    }

    /// Returns the status of a lease in a server, with a count of how often that was connected to again.
    pub fn counting(self, reconnections: watch::Receiver<u64>) -> Self {
        Self {
            reconnections: Some(reconnections),
            ..self
        }
    }

    /// Whether something may start that must not happen twice.
    pub fn is_confirmed(&self) -> bool {
        let Some(heartbeat) = &self.heartbeat else {
            return true;
        };
        match *heartbeat.borrow() {
            Heartbeat::Answered { sent } => sent.elapsed() < CONFIRMED_TIME,
            Heartbeat::Refused => false,
        }
    }

    /// Returns once a heartbeat was answered that this function has not seen. Never returns for a lease that nobody takes over,
    /// or for one that was.
    pub async fn next_confirmation(&mut self) {
        loop {
            let changed = match &mut self.heartbeat {
                Some(heartbeat) => heartbeat.changed().await.is_ok(),
                None => false,
            };
            if !changed {
                std::future::pending::<()>().await;
            }
            if self.is_confirmed() {
                return;
            }
        }
    }

    /// Returns once the server was connected to again, so that it may be another one, which lacks what was
    /// stored last.
    pub async fn reconnected(&mut self) {
        let again = match &mut self.reconnections {
            Some(reconnections) => reconnections.changed().await.is_ok(),
            None => false,
        };
        if !again {
            std::future::pending::<()>().await;
        }
    }

    /// Returns an error when the run belongs to another process.
    pub async fn lost(&mut self) -> StoreError {
        let refused = match &mut self.heartbeat {
            Some(heartbeat) => heartbeat
                .wait_for(|beat| *beat == Heartbeat::Refused)
                .await
                .is_ok(),
            None => false,
        };
        if !refused {
            std::future::pending::<()>().await;
        }
        StoreError::Fenced {
            path: self.path.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_lease_is_confirmed_for_a_part_of_its_time_after_a_heartbeat() {
        assert!(LeaseStatus::permanent().is_confirmed());
        let check = |silent: Duration, expected: bool| {
            let sent = Instant::now().checked_sub(silent).unwrap();
            let (beats, heartbeat) = watch::channel(Heartbeat::Answered { sent });
            let mut status = LeaseStatus::depending_on(heartbeat, Path::new("database"));
            assert_eq!(status.is_confirmed(), expected, "{silent:?}");
            assert!(status.lost().now_or_never().is_none());
            let sent = Instant::now();
            beats.send_replace(Heartbeat::Answered { sent });
            assert!(status.is_confirmed());
            assert_eq!(status.next_confirmation().now_or_never(), Some(()));
            beats.send_replace(Heartbeat::Refused);
            assert!(!status.is_confirmed());
            assert!(status.lost().now_or_never().is_some());
            assert_eq!(status.next_confirmation().now_or_never(), None);
        };
        check(Duration::ZERO, true);
        check(CONFIRMED_TIME - Duration::from_secs(1), true);
        check(CONFIRMED_TIME, false);
        check(LEASE_TIME, false);
    }
}
