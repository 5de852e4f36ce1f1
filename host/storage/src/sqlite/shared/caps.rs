//! The caps of a database file, as commands read and change them.

use strata_core::record::money::Usd;
use strata_records::caps::{CapChange, CapScope, CapState};
use strata_records::error::StoreError;

use super::database::SharedDatabase;
use super::records::FileRecords;
use super::stored_cap::{KIND, StoredCap, new_generation, read, read_all, write_cap};
use crate::sqlite_url::SqliteUrl;

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

    use super::super::cap_accounts::FileCaps;
    use super::super::database::DatabaseHandle;
    use super::*;
    use strata_records::caps::{CapAccounts, CapAdmission, CapDraw, CapReturn, CapStore, RunCaps};

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
