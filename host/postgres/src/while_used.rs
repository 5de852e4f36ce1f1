//! A value that is made for the first who uses it and dropped with the last.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use strata_records::error::StoreError;

/// A value that exists for as long as somebody uses it.
#[derive(Debug)]
pub(super) struct WhileUsed<T>(Mutex<Weak<T>>);

impl<T> Default for WhileUsed<T> {
    fn default() -> Self {
        Self(Mutex::new(Weak::new()))
    }
}

impl<T> WhileUsed<T> {
    /// Returns the value. `create` makes it if nobody uses one.
    pub(super) fn get(
        &self,
        create: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<Arc<T>, StoreError> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = used.upgrade() {
            return Ok(value);
        }
        let value = Arc::new(create()?);
        *used = Arc::downgrade(&value);
        Ok(value)
    }
}
