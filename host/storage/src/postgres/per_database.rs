//! What everything in this process shares that uses the same database.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::database_url::DatabaseUrl;
use crate::error::StoreError;

/// A value for each database, which exists for as long as somebody uses it.
pub(super) struct PerDatabase<T> {
    entries: Mutex<Vec<Entry<T>>>,
}

struct Entry<T> {
    url: DatabaseUrl,
    value: Weak<T>,
}

impl<T> PerDatabase<T> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Mutex::new(Vec::new()),
        }
    }

    /// Returns the value of the database of a URL, whichever run that names. `create` creates it if
    /// there is none.
    pub(super) fn get(
        &self,
        url: &DatabaseUrl,
        create: impl FnOnce(DatabaseUrl) -> Result<T, StoreError>,
    ) -> Result<Arc<T>, StoreError> {
        let url = DatabaseUrl {
            run: None,
            ..url.clone()
        };
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.value.strong_count() > 0);
        for entry in entries.iter() {
            if entry.url == url
                && let Some(value) = entry.value.upgrade()
            {
                return Ok(value);
            }
        }
        let value = Arc::new(create(url.clone())?);
        entries.push(Entry {
            url,
            value: Arc::downgrade(&value),
        });
        Ok(value)
    }
}
