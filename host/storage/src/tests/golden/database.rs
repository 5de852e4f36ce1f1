//! The golden file of a database with a run: its tables, and all rows. What it contains is opened in another
//! database, as a later program opens it.

use std::sync::Arc;

use strata_base::files::blob::{Blobs, digest_of};
use strata_base::golden::golden;
use strata_core::state::environment::Environment;
use strata_postgres::Database;
use strata_postgres::{MIGRATIONS, open_reader, place_run, prepare, take_lease};
use strata_records::database_url::DatabaseUrl;

use super::run;
use crate::OwnerWait;
use crate::tests::conformance::postgres_server::{create_database, query};
use crate::tests::conformance::{loaded_state, replay};
use crate::tests::script::{definition, team};
use crate::{Durability, Lease, Reader, StateSelector};

/// How many events the run has.
const EVENTS: usize = 24;
/// The columns with times, which are different in each database, and the time that stands for them in the golden file.
const TIMES: [&str; 3] = ["created_at", "scheduled_at", "owned_at"];
const TIME: &str = "2026-01-01 00:00:00+00";
/// The other columns of runs that are different, and what stands for them.
const OF_RUNS: [(&str, &str); 3] = [
    ("code", "00000000000000000000000000000001"),
    ("created_ms", "1767225600000"),
    ("moved", "3"),
];

/// Creates an empty database, and returns its URL. `None` if there is no server.
fn new_database(name: &str) -> Option<String> {
    create_database(&format!("golden-{name}-{}", std::process::id()))
}

/// Returns the URL of the only run of a database.
fn run_in(database: &str) -> Database {
    Database::at(DatabaseUrl::parse(database).unwrap()).with_run("run")
}

/// Returns the statements that create a copy of a database.
fn dump(database: &str) -> String {
    let mut text = "CREATE SCHEMA strata;\n".to_owned() + &MIGRATIONS.concat();
    // It has its row already.
    let version = query(database, "SELECT version FROM strata.meta");
    text += &format!(
        "UPDATE strata.meta SET version = {}, incarnation = 'incarnation';\n",
        version.trim()
    );
    // Rows of other tables refer to those of `run`.
    let tables = "SELECT table_name, string_agg(column_name, ' ' ORDER BY ordinal_position) \
                  FROM information_schema.columns WHERE table_schema = 'strata' AND table_name NOT IN ('meta', 'runs') \
                  GROUP BY 1 ORDER BY table_name <> 'run', 1";
    for line in query(database, tables).lines() {
        let (table, columns) = line.split_once('|').unwrap();
        let columns: Vec<&str> = columns.split(' ').collect();
        let value = |column: &&str| {
            let of_run = OF_RUNS
                .iter()
                .find(|(name, _)| table == "run" && name == column);
            match of_run {
                _ if TIMES.contains(column) => format!("quote_literal('{TIME}')"),
                Some((_, fixed)) => format!("quote_literal('{fixed}')"),
                None => format!("quote_nullable({column}::text)"),
            }
        };
        let values: Vec<String> = columns.iter().map(value).collect();
        let sql = format!(
            "SELECT concat_ws(', ', {}) FROM strata.{table} ORDER BY 1",
            values.join(", ")
        );
        for row in query(database, &sql).lines() {
            text += &format!(
                "INSERT INTO strata.{table} ({}) OVERRIDING SYSTEM VALUE VALUES ({row});\n",
                columns.join(", ")
            );
        }
    }
    text
}

#[test]
fn a_database_has_the_tables_and_the_rows_of_the_golden_file() {
    let (Some(written), Some(copied)) = (new_database("written"), new_database("copied")) else {
        return;
    };
    let (records, _) = run();
    let (records, more) = records.split_at(EVENTS);
    let at = run_in(&written);
    let base = Environment::new(&team());
    place_run(&at, &base, &definition(), &Blobs::new()).unwrap();
    let mut lease = take_lease(&at, OwnerWait::Watch).unwrap();
    let (first, rest) = records.split_at(16);
    lease.append(first, Durability::Full).unwrap();
    lease.save_snapshot(&replay(first)).unwrap();
    lease.append(rest, Durability::Full).unwrap();
    let bytes: Arc<[u8]> = b"the bytes of a file".as_slice().into();
    let digest = digest_of(&bytes);
    lease.put_blobs(&[(digest.clone(), bytes)].into()).unwrap();
    drop(lease);

    let text = golden("database.sql", dump(&written).as_bytes());
    query(&copied, &String::from_utf8(text).unwrap());
    let at = run_in(&copied);
    let reader = open_reader(&at).unwrap();
    assert_eq!(reader.definition().unwrap(), definition());
    assert!(reader.blob(&digest).unwrap().is_some());
    let newest = |reader: &dyn Reader| loaded_state(&reader.load(&StateSelector::Head).unwrap());
    assert_eq!(newest(reader.as_ref()), replay(records));
    // The program that writes accepts it, too.
    let more = &more[..4];
    let mut lease = take_lease(&at, OwnerWait::Watch).unwrap();
    lease.append(more, Durability::Full).unwrap();
    drop(lease);
    let all = [records, more].concat();
    assert_eq!(newest(reader.as_ref()), replay(&all));
}

#[test]
fn a_database_whose_version_is_not_known_is_refused() {
    let Some(database) = new_database("unknown") else {
        return;
    };
    let at = run_in(&database);
    prepare(&at).unwrap();
    let refused = |change: &str, expected: &str| {
        query(&database, change);
        let error = prepare(&at).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(
        "UPDATE strata.meta SET version = 99",
        "has schema version 99, this program knows versions up to 4; use the newer",
    );
    refused(
        "UPDATE strata.meta SET version = -1",
        "its schema version is -1",
    );
    refused("DELETE FROM strata.meta", "says nothing of its version");
}
