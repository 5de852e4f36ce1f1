//! Names that one user of a database holds at a time.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Holds a name until it is dropped.
pub struct RecordHold {
    _held: Box<dyn Any + Send + Sync>,
}

impl RecordHold {
    /// Returns the hold that lasts as long as `held` exists.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self {
            _held: Box::new(held),
        }
    }
}

impl fmt::Debug for RecordHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordHold")
    }
}

/// The names that are held within this process.
#[derive(Clone, Debug, Default)]
pub struct HeldNames(Arc<Mutex<BTreeSet<(String, String)>>>);

/// A name that is held within this process until this is dropped.
struct HeldName {
    all: HeldNames,
    name: (String, String),
}

impl HeldNames {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a name of a tenant, together with what has to exist as long; `None` if somebody does.
    pub fn hold(
        &self,
        tenant: &str,
        name: &str,
        with: impl Any + Send + Sync,
    ) -> Option<RecordHold> {
        let name = (tenant.to_owned(), name.to_owned());
        let is_new = self.lock().insert(name.clone());
        let all = self.clone();
        is_new.then(|| RecordHold::new((HeldName { all, name }, with)))
    }
}

impl Drop for HeldName {
    fn drop(&mut self) {
        self.all.lock().remove(&self.name);
    }
}
