//! Names that a server holds against all other servers of a database, each as a record with an end that is put off again and
//! again. If the process is killed, the name is free once that has passed, by the clock of the database's server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_base::process::abort_on_drop::AbortOnDrop;
use strata_base::random_id::random_name;
use strata_records::LEASE_TIME;
use strata_records::error::StoreError;
use strata_records::record_hold::RecordHold;
use tokio_postgres::types::Type;

use super::connect::{background, on_another_thread};
use super::connection::Connection;
use super::database::Database;
use super::session::Argument;

/// The kind of the records.
const KIND: &str = "hold";
/// How often the end of a hold is put off.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(2);

/// Takes a name, unless somebody else holds it, or puts off the end. What holds it is in `text`.
const HOLD: &str = "
    INSERT INTO strata.server_record AS known (kind, tenant, name, text, expires_ms)
    VALUES ($1, $2, $3, $4, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $5)
    ON CONFLICT (kind, tenant, name) DO UPDATE SET text = excluded.text, expires_ms = excluded.expires_ms
        WHERE known.text = excluded.text
           OR known.expires_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    RETURNING true";

const RELEASE: &str =
    "DELETE FROM strata.server_record WHERE kind = $1 AND tenant = $2 AND name = $3 AND text = $4";

/// A name that is held.
struct HeldName {
    database: Database,
    tenant: String,
    name: String,
    /// Tells this hold from all others.
    holder: String,
    /// Locked while the record is written.
    is_given_up: Mutex<bool>,
}

/// Puts off the end of a hold until it is dropped, and then gives the name up.
struct Renewal {
    held: Arc<HeldName>,
    _renewing: AbortOnDrop<()>,
}

/// Holds a name; returns `None` if somebody else does.
pub(super) fn hold_name(
    database: &Database,
    connection: &Connection,
    tenant: &str,
    name: &str,
) -> Result<Option<RecordHold>, StoreError> {
    let held = Arc::new(HeldName {
        database: database.clone(),
        tenant: tenant.into(),
        name: name.into(),
        holder: random_name(),
        is_given_up: Mutex::new(false),
    });
    if !held.renew(connection)? {
        return Ok(None);
    }
    let renewing = background(connection.path())?.spawn(Arc::clone(&held).renew_until_aborted());
    Ok(Some(RecordHold::new(Renewal {
        held,
        _renewing: AbortOnDrop::new(renewing),
    })))
}

impl HeldName {
    fn key(&self) -> [Argument<'_>; 4] {
        [
            (&KIND, Type::TEXT),
            (&self.tenant, Type::TEXT),
            (&self.name, Type::TEXT),
            (&self.holder, Type::TEXT),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_given_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the name or puts off the end. Returns whether nobody else holds it.
    fn renew(&self, connection: &Connection) -> Result<bool, StoreError> {
        let is_given_up = self.lock();
        if *is_given_up {
            return Ok(false);
        }
        let time_ms = i64::try_from(LEASE_TIME.as_millis()).unwrap_or(i64::MAX);
        let [kind, tenant, name, holder] = self.key();
        let arguments = [kind, tenant, name, holder, (&time_ms as _, Type::INT8)];
        let row = connection
            .repeat_if_broken(|connection| connection.query_optional(HOLD, &arguments))?;
        Ok(row.is_some())
    }

    async fn renew_until_aborted(self: Arc<Self>) {
        let path = self.database.to_path();
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            let held = Arc::clone(&self);
            let renewed = on_another_thread(&path, move || held.renew(&held.database.connect()?));
            if let Err(error) = renewed.await {
                tracing::debug!("the end of a hold is not put off: {error}");
            }
        }
    }

    fn release(&self) -> Result<(), StoreError> {
        // What puts off the end may still be under way.
        let mut is_given_up = self.lock();
        *is_given_up = true;
        let connection = self.database.connect()?;
        connection.repeat_if_broken(|connection| connection.execute(RELEASE, &self.key()))?;
        Ok(())
    }
}

impl Drop for Renewal {
    fn drop(&mut self) {
        let held = Arc::clone(&self.held);
        // Whoever drops it may be driving other tasks. If this fails, the hold ends by itself.
        if let Ok(background) = background(&held.database.to_path()) {
            background.spawn_blocking(move || {
                if let Err(error) = held.release() {
                    tracing::debug!("a hold ends by itself: {error}");
                }
            });
        }
    }
}
