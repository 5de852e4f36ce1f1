//! What the process that has a database file open may spend of its caps.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rusqlite::{Connection, OptionalExtension};
use strata_base::process::wait::wait;
use strata_core::record::money::Usd;
use strata_records::caps::{CapAccounts, CapDraw, CapReturn, CapScope, CapStore};
use strata_records::error::StoreError;

use super::super::rows::{SqliteRows, WHOLE_DATABASE};
use super::change::ChangeTerms;
use super::database::DatabaseHandle;
use super::stored_cap::{draw, generations, give_back};
use crate::schema::has_queue_tables;

/// How often a process without a worker looks for changes of caps.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Returns the scope with which a run was submitted, if it was.
pub(super) fn scope_of_run(conn: &Connection, run: i64) -> rusqlite::Result<Option<CapScope>> {
    if !has_queue_tables(conn)? {
        return Ok(None);
    }
    let sql = "SELECT scope FROM submission WHERE run = ?1";
    let scope: Option<Option<String>> = conn.query_row(sql, [run], |row| row.get(0)).optional()?;
    Ok(scope.flatten().as_deref().map(CapScope::from_stored))
}

/// The caps of a database file, for the process that has it open.
pub(super) struct FileCaps {
    database: DatabaseHandle,
    /// Whether a thread looks for caps that are set or removed meanwhile. A worker does that itself.
    is_watched: AtomicBool,
}

impl FileCaps {
    pub(super) fn new(database: DatabaseHandle) -> Self {
        Self {
            database,
            is_watched: AtomicBool::new(false),
        }
    }

    /// Lets a thread look for changes of caps for as long as a run needs them, unless one does or there is a worker.
    fn watch(&self) {
        if self.database.is_claiming() || self.is_watched.swap(true, Ordering::AcqRel) {
            return;
        }
        let (path, caps) = (self.database.path().to_path_buf(), caps_of(&self.database));
        let caps = Arc::downgrade(&caps);
        let thread = thread::Builder::new().name("caps".into());
        if let Err(error) = thread.spawn(move || watch_caps(&path, &caps)) {
            self.is_watched.store(false, Ordering::Release);
            tracing::debug!("changes of the caps of the file are not seen: {error}");
        }
    }

    fn change<T: Send + 'static>(
        &self,
        write: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let database = self.database.clone();
        Box::pin(database.make(ChangeTerms::durable(), write))
    }
}

impl CapStore for FileCaps {
    fn draw(
        &self,
        scope: &CapScope,
        needed: Usd,
    ) -> BoxFuture<'static, Result<CapDraw, StoreError>> {
        self.watch();
        let scope = scope.clone();
        self.change(move |conn| draw(conn, &scope, needed))
    }

    fn give_back(
        &self,
        scope: &CapScope,
        what: CapReturn,
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        let scope = scope.clone();
        self.change(move |conn| give_back(conn, &scope, what))
    }

    /// Carries it out on a thread of its own: draws are rare.
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        let thread = thread::Builder::new().name("caps".into());
        if let Err(error) = thread.spawn(move || wait(work)) {
            tracing::debug!("the caps of the file are not asked: {error}");
        }
    }
}

/// Returns what this process may spend of the caps of its runs in a database.
pub(super) fn caps_of(database: &DatabaseHandle) -> Arc<CapAccounts> {
    database
        .caps_or_create(|database| Arc::new(CapAccounts::new(Box::new(FileCaps::new(database)))))
}

/// Tells the accounts of a process again and again which caps there are, until they are not needed any more.
fn watch_caps(path: &Path, caps: &Weak<CapAccounts>) {
    let read = || -> Result<BTreeMap<CapScope, i64>, StoreError> {
        let rows = SqliteRows::open_beside_writer(path.to_path_buf(), WHOLE_DATABASE)?;
        generations(&rows.conn).map_err(|e| rows.error("read", e))
    };
    loop {
        thread::sleep(WATCH_INTERVAL);
        // They keep the database open, so nothing is read of one that is being closed.
        let Some(caps) = caps.upgrade() else { return };
        match read() {
            Ok(generations) => caps.note_heartbeat(caps.report(), &generations),
            Err(error) => tracing::debug!("the caps of the file are not read: {error}"),
        }
    }
}
