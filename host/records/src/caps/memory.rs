//! A cap in memory, for tests of what shares it.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use strata_base::process::wait::wait;
use strata_core::record::money::Usd;

use super::{CapAccounts, CapDraw, CapReturn, CapScope, CapStore};
use crate::StoreError;

/// A cap of all runs, in memory. Its clones are the same cap.
///
/// It does not do everything that one in a database does: a draw is exactly what is needed, and nothing is held
/// ahead of time, so there is nothing to wait for that others may give back. The statements that do this are
/// tested with the database (`postgres/caps`), since only a database has processes that share them and die.
#[derive(Clone)]
pub struct MemoryCap {
    cap: Usd,
    used: Arc<Mutex<i128>>,
    takes_nothing_back: Arc<AtomicBool>,
}

impl MemoryCap {
    /// Returns a cap of which nothing is used.
    pub fn new(cap: Usd) -> Self {
        Self {
            cap,
            used: Arc::default(),
            takes_nothing_back: Arc::default(),
        }
    }

    /// Returns what was drawn and not given back.
    pub fn used(&self) -> i128 {
        *self.used.lock().unwrap()
    }

    /// Says whether attempts to give something back fail.
    pub fn take_nothing_back(&self, takes_nothing_back: bool) {
        self.takes_nothing_back
            .store(takes_nothing_back, Ordering::Relaxed);
    }

    /// Returns the accounts of another process.
    pub fn accounts(&self) -> Arc<CapAccounts> {
        Arc::new(CapAccounts::new(Box::new(self.clone())))
    }
}

impl CapStore for MemoryCap {
    fn draw(
        &self,
        scope: &CapScope,
        needed: Usd,
    ) -> BoxFuture<'static, Result<CapDraw, StoreError>> {
        let mut used = self.used.lock().unwrap();
        let drawn = match scope {
            CapScope::Named(_) => CapDraw::NoCap,
            CapScope::All if *used + i128::from(needed.0) > i128::from(self.cap.0) => {
                CapDraw::UsedUp { cap: self.cap }
            }
            CapScope::All => {
                *used += i128::from(needed.0);
                CapDraw::Drawn {
                    usd: needed,
                    generation: 1,
                }
            }
        };
        Box::pin(std::future::ready(Ok(drawn)))
    }

    fn give_back(
        &self,
        _: &CapScope,
        what: CapReturn,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let given_back = if self.takes_nothing_back.load(Ordering::Relaxed) {
            Err(StoreError::corrupt(Path::new("memory"), "it takes nothing"))
        } else {
            *self.used.lock().unwrap() -= what.unspent;
            Ok(())
        };
        Box::pin(std::future::ready(given_back))
    }

    /// Carries it out at once: nothing here waits for anything.
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        wait(work);
    }
}
