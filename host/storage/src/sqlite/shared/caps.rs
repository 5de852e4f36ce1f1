//! Caps in a database file: what the runs of the process that has it open may cost together. They are records beside those
//! of a server, so a file needs no further tables for them.
//!
//! No other process has the file open, so nothing is held by others. What was drawn counts as spent from then on, so that a
//! cap is not exceeded if the process is killed. More is drawn than the next call needs, so that few calls wait for a write.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use strata_base::process::wait::wait;
use strata_core::record::money::Usd;
use strata_records::caps::{
    CapAccounts, CapChange, CapDraw, CapReturn, CapScope, CapState, CapStore,
};
use strata_records::error::StoreError;

use super::super::rows::{SqliteRows, WHOLE_DATABASE};
use super::change::ChangeTerms;
use super::database::{DatabaseHandle, SharedDatabase};
use super::records::FileRecords;
use crate::schema::has_queue_tables;
use crate::sqlite_url::SqliteUrl;

/// The kind of the records of caps, and of the one with the newest generation.
const KIND: &str = "cap";
const GENERATION_KIND: &str = "cap-generation";
/// The part of what is left that is drawn at once: little of it counts as spent if the process is killed.
const DRAWN_PART: u64 = 500;

/// How often a process without a worker looks for changes of caps.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// What is stored of a cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredCap {
    /// What the runs may cost together.
    usd: Usd,
    /// What they have cost, and what was drawn.
    used: Usd,
    generation: i64,
    /// Whether something was drawn that was not given back.
    is_drawn: bool,
}

fn unreadable(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, Box::new(error))
}

fn read(conn: &Connection, scope: &CapScope) -> rusqlite::Result<Option<StoredCap>> {
    let sql = "SELECT text FROM server_record WHERE kind = ?1 AND tenant = '' AND name = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let text: Option<String> = statement
        .query_row([KIND, scope.name()], |row| row.get(0))
        .optional()?;
    text.map(|text| serde_json::from_str(&text).map_err(unreadable))
        .transpose()
}

fn read_all(conn: &Connection) -> rusqlite::Result<Vec<(CapScope, StoredCap)>> {
    let sql = "SELECT name, text FROM server_record WHERE kind = ?1 AND tenant = '' ORDER BY name <> 'all', name";
    let mut statement = conn.prepare_cached(sql)?;
    let rows = statement.query_map([KIND], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let mut caps = Vec::new();
    for row in rows {
        let (name, text) = row?;
        let cap = serde_json::from_str(&text).map_err(unreadable)?;
        caps.push((CapScope::from_stored(&name), cap));
    }
    Ok(caps)
}

fn write(conn: &Connection, kind: &str, name: &str, text: &str) -> rusqlite::Result<()> {
    let sql =
        "INSERT OR REPLACE INTO server_record (kind, tenant, name, text) VALUES (?1, '', ?2, ?3)";
    conn.execute(sql, params![kind, name, text]).map(drop)
}

fn write_cap(conn: &Connection, scope: &CapScope, cap: &StoredCap) -> rusqlite::Result<()> {
    let text = serde_json::to_string(cap).map_err(unreadable)?;
    write(conn, KIND, scope.name(), &text)
}

/// Returns a number that no cap had before.
fn new_generation(conn: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT CAST(text AS INTEGER) FROM server_record WHERE kind = ?1 AND tenant = '' AND name = ''";
    let last: Option<i64> = conn
        .query_row(sql, [GENERATION_KIND], |row| row.get(0))
        .optional()?;
    let next = last.unwrap_or(0) + 1;
    write(conn, GENERATION_KIND, "", &next.to_string())?;
    Ok(next)
}

/// Draws at least `needed` from a cap, in a transaction that is open.
fn draw(conn: &Connection, scope: &CapScope, needed: Usd) -> rusqlite::Result<CapDraw> {
    // A file into which nothing was submitted has no settings.
    if !has_queue_tables(conn)? {
        return Ok(CapDraw::NoCap);
    }
    let Some(cap) = read(conn, scope)? else {
        return Ok(CapDraw::NoCap);
    };
    let rest = cap.usd.0.saturating_sub(cap.used.0);
    if rest < needed.0 {
        return Ok(CapDraw::UsedUp { cap: cap.usd });
    }
    let drawn = needed.0.max(rest / DRAWN_PART);
    let changed = StoredCap {
        used: Usd(cap.used.0 + drawn),
        is_drawn: true,
        ..cap
    };
    write_cap(conn, scope, &changed)?;
    Ok(CapDraw::Drawn {
        usd: Usd(drawn),
        generation: cap.generation,
    })
}

/// Gives back what was drawn and not spent, in a transaction that is open.
fn give_back(conn: &Connection, scope: &CapScope, what: CapReturn) -> rusqlite::Result<()> {
    let of_generation = |cap: &StoredCap| cap.is_drawn && cap.generation == what.generation;
    let Some(cap) = read(conn, scope)?.filter(of_generation) else {
        return Ok(());
    };
    let used = (i128::from(cap.used.0) - what.unspent).max(0);
    let changed = StoredCap {
        used: Usd(u64::try_from(used).unwrap_or(u64::MAX)),
        is_drawn: false,
        ..cap
    };
    write_cap(conn, scope, &changed)
}

/// Returns the generations of the caps that there are.
pub(super) fn generations(conn: &Connection) -> rusqlite::Result<BTreeMap<CapScope, i64>> {
    if !has_queue_tables(conn)? {
        return Ok(BTreeMap::new());
    }
    let caps = read_all(conn)?.into_iter();
    Ok(caps.map(|(scope, cap)| (scope, cap.generation)).collect())
}

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

/// Returns all caps of a database file.
pub(crate) fn read_caps(url: &SqliteUrl) -> Result<Vec<CapState>, StoreError> {
    let caps = FileRecords::new(url.clone()).read(|reader| {
        let caps = read_all(&reader.rows.conn);
        caps.map_err(|e| reader.rows.error("read", e))
    })?;
    let to_state = |(scope, cap): (CapScope, StoredCap)| CapState {
        scope,
        cap: cap.usd,
        spent: cap.used,
        held: Usd::ZERO,
    };
    Ok(caps.into_iter().map(to_state).collect())
}

/// Changes a cap. Returns whether there is one.
pub(crate) fn change_cap(
    url: &SqliteUrl,
    scope: &CapScope,
    change: CapChange,
) -> Result<bool, StoreError> {
    let scope = scope.clone();
    let _kept_open = SharedDatabase::open_existing_queue(url)?;
    FileRecords::new(url.clone()).change(move |conn| {
        let known = read(conn, &scope)?;
        let changed = match (change, known) {
            (CapChange::Set(usd), Some(cap)) => StoredCap { usd, ..cap },
            (CapChange::Set(usd), None) => StoredCap {
                usd,
                used: Usd::ZERO,
                generation: new_generation(conn)?,
                is_drawn: false,
            },
            (_, None) => return Ok(false),
            (CapChange::Restart, Some(cap)) => StoredCap {
                used: Usd::ZERO,
                generation: new_generation(conn)?,
                is_drawn: false,
                ..cap
            },
            (CapChange::Remove, Some(_)) => {
                let sql = "DELETE FROM server_record WHERE kind = ?1 AND tenant = '' AND name = ?2";
                conn.execute(sql, [KIND, scope.name()])?;
                return Ok(true);
            }
        };
        write_cap(conn, &scope, &changed)?;
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;
    use strata_records::caps::{CapAccounts, CapAdmission, RunCaps};

    fn scope() -> CapScope {
        CapScope::Named("red".into())
    }

    fn url(temp: &TempDir) -> SqliteUrl {
        SqliteUrl {
            file: temp.path().join("runs.db"),
            run: None,
        }
    }

    fn open(url: &SqliteUrl) -> DatabaseHandle {
        SharedDatabase::open_queue(&url.file).unwrap()
    }

    /// Returns the caps of a run of the scope, in a process of its own.
    fn run_caps(url: &SqliteUrl) -> RunCaps {
        let caps = FileCaps::new(open(url));
        Arc::new(CapAccounts::new(Box::new(caps))).join(Some(scope()))
    }

    /// Makes a call that is expected to cost this much, and does. Returns whether the cap allowed it.
    async fn call(caps: &RunCaps, usd: Usd) -> bool {
        if caps.draw(usd).await.is_some() {
            return false;
        }
        match caps.charge(usd) {
            CapAdmission::Charged(mut charge) => {
                charge.note_sent();
                charge.complete(usd);
                true
            }
            _ => false,
        }
    }

    fn spent(url: &SqliteUrl) -> Vec<(Usd, Usd)> {
        let caps = read_caps(url).unwrap();
        caps.iter().map(|cap| (cap.cap, cap.spent)).collect()
    }

    #[tokio::test]
    async fn runs_of_a_tenant_cost_no_more_together_than_its_cap() {
        let temp = TempDir::new().unwrap();
        let url = url(&temp);
        let absent = change_cap(&url, &scope(), CapChange::Set(Usd(100)));
        assert!(
            matches!(absent, Err(StoreError::Absent { .. })),
            "{absent:?}"
        );
        assert!(!url.file.exists());
        let _open = open(&url);
        assert!(!change_cap(&url, &scope(), CapChange::Restart).unwrap());
        assert!(change_cap(&url, &scope(), CapChange::Set(Usd(100))).unwrap());
        let (one, other) = (run_caps(&url), run_caps(&url));
        assert!(call(&one, Usd(60)).await);
        assert!(!call(&other, Usd(60)).await);
        assert!(call(&other, Usd(40)).await);
        assert_eq!(spent(&url), [(Usd(100), Usd(100))]);
        assert!(change_cap(&url, &scope(), CapChange::Set(Usd(130))).unwrap());
        assert!(call(&other, Usd(30)).await);
        assert!(change_cap(&url, &scope(), CapChange::Restart).unwrap());
        assert_eq!(spent(&url), [(Usd(130), Usd(0))]);
        assert!(change_cap(&url, &scope(), CapChange::Remove).unwrap());
        assert_eq!(spent(&url), []);
    }

    #[tokio::test]
    async fn what_was_drawn_is_given_back_once_and_counts_as_spent_after_a_kill() {
        let temp = TempDir::new().unwrap();
        let url = url(&temp);
        let database = open(&url);
        change_cap(&url, &scope(), CapChange::Set(Usd(10_000))).unwrap();
        let caps = FileCaps::new(database);
        let drawn = caps.draw(&scope(), Usd(5)).await.unwrap();
        let generation = 1;
        let usd = Usd(20);
        assert_eq!(drawn, CapDraw::Drawn { usd, generation });
        // Nobody gave it back.
        assert_eq!(spent(&url), [(Usd(10_000), Usd(20))]);
        for _ in 0..2 {
            let unspent = 15;
            let what = CapReturn {
                generation,
                unspent,
            };
            caps.give_back(&scope(), what).await.unwrap();
            assert_eq!(spent(&url), [(Usd(10_000), Usd(5))]);
        }
        let other = CapReturn {
            generation: 7,
            unspent: 5,
        };
        caps.draw(&scope(), Usd(5)).await.unwrap();
        caps.give_back(&scope(), other).await.unwrap();
        assert_eq!(spent(&url), [(Usd(10_000), Usd(24))]);
    }
}
