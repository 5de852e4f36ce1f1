//! Caps in a database, for operators.

use strata_records::caps::{CapChange, CapScope, CapState};
use strata_records::error::StoreError;
use tokio_postgres::types::Type;

use super::caps::usd;
use super::database::Database;
use super::schema::migrate;
use super::session::Argument;

/// Returns all caps of a database.
pub fn read_caps(database: &Database) -> Result<Vec<CapState>, StoreError> {
    let connection = database.connect()?;
    migrate(&connection)?;
    let sql = "SELECT scope, usd, used, (SELECT coalesce(sum(held), 0) FROM strata.slice s \
                                         WHERE s.scope = c.scope)::bigint \
               FROM strata.cap c ORDER BY scope <> 'all', scope";
    let mut caps = Vec::new();
    for row in connection.query(sql, &[])? {
        let (used, held): (i64, i64) = (row.get(2), row.get(3));
        caps.push(CapState {
            scope: CapScope::from_stored(row.get(0)),
            cap: usd(row.get(1)),
            spent: usd(used - held),
            held: usd(held),
        });
    }
    Ok(caps)
}

/// Changes a cap. Returns whether there is one.
pub fn change_cap(
    database: &Database,
    scope: &CapScope,
    change: CapChange,
) -> Result<bool, StoreError> {
    let connection = database.connect()?;
    migrate(&connection)?;
    let scope = scope.name();
    let scope: Argument<'_> = (&scope, Type::TEXT);
    let changed = match change {
        CapChange::Set(cap) => {
            // `RunDatabase::change_cap` refuses larger ones.
            let cap = i64::try_from(cap.0).unwrap_or(i64::MAX);
            let sql = "INSERT INTO strata.cap (scope, usd) VALUES ($1, $2) \
                       ON CONFLICT (scope) DO UPDATE SET usd = excluded.usd";
            connection.execute(sql, &[scope, (&cap, Type::INT8)])?
        }
        CapChange::Restart => {
            // Whoever holds a slice finds that it is gone, and takes another.
            let sql = "WITH whole AS MATERIALIZED (SELECT scope FROM strata.cap WHERE scope = $1 FOR UPDATE), \
                            gone AS (DELETE FROM strata.slice s USING whole WHERE s.scope = whole.scope) \
                       UPDATE strata.cap c SET used = 0, generation = DEFAULT FROM whole WHERE c.scope = whole.scope";
            connection.execute(sql, &[scope])?
        }
        CapChange::Remove => {
            connection.execute("DELETE FROM strata.cap WHERE scope = $1", &[scope])?
        }
    };
    Ok(changed > 0)
}
