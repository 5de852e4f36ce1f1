//! What tests do to a database, and see of it, past all rules.

#![allow(clippy::unwrap_used, reason = "only tests use it")]

use strata_base::owner::{RunReply, RunRequest};
use strata_base::process::wait::wait;
use strata_records::database_url::DatabaseUrl;
use tokio_postgres::types::Type;

use super::clean_up::remove_leftovers;
use super::connect::{background, connect};
use super::connection::Connection;
use super::database::Database;
use super::mail::PendingRequest;
use super::mail_text::decode_reply;
use super::run_name::find_run;

/// A user of the server that only one test uses, so that its connections are not shared with others.
pub struct TestUser {
    /// The database, for this user.
    pub database: Database,
    name: String,
    /// Connections of the usual user.
    others: Connection,
}

impl TestUser {
    /// Creates one.
    pub fn create(database: &Database) -> Self {
        let others = database.connect().unwrap();
        let name = format!("test-{}", strata_base::random_id::random_id());
        others
            .execute_all(&format!("CREATE ROLE \"{name}\" SUPERUSER LOGIN"))
            .unwrap();
        Self {
            database: Database::at(DatabaseUrl {
                user: Some(name.clone()),
                ..database.url().clone()
            }),
            name,
            others,
        }
    }

    /// Ends all connections of the user, as a network does that fails.
    pub fn break_connections(&self) {
        let sql =
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = $1";
        let name = [(&self.name as _, Type::TEXT)];
        self.others.query(sql, &name).unwrap();
    }

    /// Returns how many connections the user has.
    pub fn connections(&self) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
        let name = [(&self.name as _, Type::TEXT)];
        self.others.query(sql, &name).unwrap()[0].get(0)
    }
}

/// Removes what is old.
pub fn clean_up(database: &Database) {
    let background = background(&database.to_path()).unwrap();
    let url = database.url().clone();
    let cleaning = background.spawn(async move {
        let client = connect(url, None).await.unwrap();
        remove_leftovers(&client).await;
    });
    wait(cleaning).unwrap();
}

/// Leaves rows behind as a killed process does, two hours ago and now. Returns a function that counts
/// those of each kind that are still there.
pub fn leave_behind(database: &Database) -> impl Fn() -> [i64; 2] + use<> {
    let connection = database.connect().unwrap();
    let run = find_run(&connection).unwrap();
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

/// Sends a request to the owner of a run. Returns a function that reads the reply.
pub fn send_request(
    database: &Database,
    request: &RunRequest,
) -> impl Fn() -> Option<RunReply> + use<> {
    let connection = database.connect().unwrap();
    let run = find_run(&connection).unwrap();
    let id = PendingRequest::send(&connection, run, request).unwrap().id;
    move || {
        let sent = PendingRequest {
            connection: &connection,
            run,
            id,
        };
        sent.reply().unwrap().and_then(decode_reply)
    }
}

/// Takes a run from its owner, as if its process counted as dead.
pub fn declare_dead(database: &Database) {
    let sql = "DELETE FROM strata.worker WHERE id = (SELECT owner FROM strata.run WHERE id = $1)";
    tamper(database, sql);
}

/// Changes the rows of a run, whose key is `$1` in the statement, past all rules.
pub fn tamper(database: &Database, sql: &str) {
    let connection = database.connect().unwrap();
    let run = find_run(&connection).unwrap();
    connection.execute(sql, &[(&run, Type::INT8)]).unwrap();
}
