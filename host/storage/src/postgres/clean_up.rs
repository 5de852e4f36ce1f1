//! Removes rows that processes left behind which were killed.

use std::time::Duration;

use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::caps::COLLECT_SLICES;
#[cfg(test)]
use super::connection::Connection;
use super::session::Argument;
use super::session::Session;

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

/// Removes what is old.
#[cfg(test)]
pub(crate) fn clean_up(url: &crate::database_url::DatabaseUrl) {
    let background = super::connect::background(&url.to_path()).unwrap();
    let url = url.clone();
    let cleaning = background.spawn(async move {
        let client = super::connect::connect(url, None).await.unwrap();
        remove_leftovers(&client).await;
    });
    strata_base::process::wait::wait(cleaning).unwrap();
}

/// Leaves rows behind as a killed process does, two hours ago and now. Returns a function that counts
/// those of each kind that are still there.
#[cfg(test)]
pub(crate) fn leave_behind(
    url: &crate::database_url::DatabaseUrl,
) -> impl Fn() -> [i64; 2] + use<> {
    let connection = Connection::open(url).unwrap();
    let run = super::run_name::find_run(&connection).unwrap();
    let name = format!("left-behind-{}-{run}", std::process::id());
    for (age, suffix) in [("2 hours", "old"), ("0 hours", "new")] {
        let sql = format!(
            "INSERT INTO strata.worker (id, machine, process, started, beat, beat_at) \
             VALUES ('{name}-{suffix}', '', 1, '', 0, clock_timestamp() - interval '{age}')"
        );
        connection.execute(&sql, &[]).unwrap();
        let sql =
            format!("INSERT INTO strata.cap (scope, usd, used) VALUES ('{name}-{suffix}', 5, 5)");
        connection.execute(&sql, &[]).unwrap();
        let sql = format!(
            "INSERT INTO strata.slice (holder, scope, held, drawn, beat_at) \
             VALUES ('{name}', '{name}-{suffix}', 4, 1, clock_timestamp() - interval '{age}')"
        );
        connection.execute(&sql, &[]).unwrap();
        let sql = format!(
            "INSERT INTO strata.mail (run, sent_at, request) \
             VALUES ({run}, clock_timestamp() - interval '{age}', '{suffix}')"
        );
        connection.execute(&sql, &[]).unwrap();
    }
    move || {
        ["old", "new"].map(|suffix| {
            let sql = format!(
                "SELECT (SELECT count(*) FROM strata.worker WHERE id = '{name}-{suffix}') \
                      + (SELECT count(*) FROM strata.slice s JOIN strata.cap c USING (scope) \
                         WHERE s.scope = '{name}-{suffix}' AND c.used = 5) \
                      + (SELECT count(*) FROM strata.mail WHERE run = {run} AND request = '{suffix}')"
            );
            connection.query(&sql, &[]).unwrap()[0].get(0)
        })
    }
}
