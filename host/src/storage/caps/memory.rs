//! A cap in memory, for tests of what shares it.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use strata_core::record::money::Usd;

use super::{CapAccounts, CapDraw, CapScope, CapStore};
use crate::storage::StoreError;

/// A cap of all runs, in memory. Its clones are the same cap.
#[derive(Clone)]
pub(crate) struct MemoryCap {
    cap: Usd,
    used: Arc<Mutex<i128>>,
}

impl MemoryCap {
    pub(crate) fn new(cap: Usd) -> Self {
        Self {
            cap,
            used: Arc::default(),
        }
    }

    /// Returns what was drawn and not given back.
    pub(crate) fn used(&self) -> i128 {
        *self.used.lock().unwrap()
    }

    /// Returns the accounts of another process.
    pub(crate) fn accounts(&self) -> Arc<CapAccounts> {
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
                CapDraw::Drawn(needed)
            }
        };
        Box::pin(std::future::ready(Ok(drawn)))
    }

    fn give_back(&self, _: &CapScope, unspent: i128) -> BoxFuture<'static, Result<(), StoreError>> {
        *self.used.lock().unwrap() -= unspent;
        Box::pin(std::future::ready(Ok(())))
    }
}
