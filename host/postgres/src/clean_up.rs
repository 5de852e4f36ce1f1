//! Removes rows that processes left behind which were killed.

use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::caps::COLLECT_SLICES;
use super::session::{Argument, Session};

/// How old a row has to be, in seconds: far older than anything that a process still waits for.
const MIN_AGE_S: f64 = 3600.0;
/// How often a process looks for such rows.
pub(super) const CLEAN_UP_INTERVAL: Duration = Duration::from_secs(3600);

/// Removes the rows of processes that have not been heard of for long and own no run, gives back the slices of caps
/// that such processes hold, and removes requests that are so old that nobody waits for a reply. A failure does no harm, since it is tried again
/// later.
pub(super) async fn remove_leftovers(client: &Session) {
    if let Err(error) = remove_older_than(client, MIN_AGE_S).await {
        tracing::debug!("what killed processes left behind stays: {error}");
    }
}

async fn remove_older_than(client: &Session, seconds: f64) -> Result<(), Error> {
    let statements = [
        "DELETE FROM strata.worker w WHERE w.beat_at < clock_timestamp() - make_interval(secs => $1) \
         AND NOT EXISTS (SELECT FROM strata.run r WHERE r.owner = w.id)",
        "DELETE FROM strata.mail WHERE sent_at < clock_timestamp() - make_interval(secs => $1)",
        "DELETE FROM strata.deletion WHERE deleted_at < clock_timestamp() - make_interval(secs => $1)",
    ];
    for sql in statements {
        client
            .execute_typed(sql, &[(&seconds, Type::FLOAT8)])
            .await?;
    }
    let old_slices = "SELECT DISTINCT scope FROM strata.slice \
                      WHERE beat_at < clock_timestamp() - make_interval(secs => $1)";
    let rows = client
        .query_typed(old_slices, &[(&seconds, Type::FLOAT8)])
        .await?;
    for row in &rows {
        let scope: &str = row.get(0);
        // No process has this name.
        let arguments: [Argument<'_>; 3] = [
            (&"", Type::TEXT),
            (&scope, Type::TEXT),
            (&seconds, Type::FLOAT8),
        ];
        client.execute_typed(COLLECT_SLICES, &arguments).await?;
    }
    Ok(())
}
