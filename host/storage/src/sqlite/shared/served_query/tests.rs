//! Lists of many runs: a page costs what it shows, whatever else there is, and no filter hides a run that it accepts.

use rusqlite::{Connection, StatementStatus, params, params_from_iter};
use strata_core::record::event::Status;

use super::super::database::{MissingDatabase, SharedDatabase};
use super::super::served::list_served;
use super::*;
use crate::schema::{create, create_queue_tables};
use crate::sqlite::shared::change::ChangeTerms;
use crate::sqlite_url::SqliteUrl;

const PAGE: usize = 50;
const TENANTS: [&str; 3] = ["blue", "default", "red"];

/// Returns the pseudorandom number after another one.
fn next(random: u64) -> u64 {
    let mut next = random.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    next ^= next >> 29;
    next.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (next >> 32)
}

/// Inserts a run. Its key is its age.
fn insert(conn: &Connection, key: i64, row: &NewRow<'_>) -> rusqlite::Result<()> {
    let name = stored_run_name(row.tenant, &format!("{}-{key}", row.name));
    conn.prepare_cached("INSERT INTO run VALUES (?1, ?2, 1, ?1, 1, 0)")?
        .execute(params![key, name])?;
    let sql = "INSERT INTO submission VALUES (?1, ?2, ?3, ?4, ?5, ?1, NULL, 0, ?6, NULL, '[]', '[]', ?7, NULL, ?8, 0, NULL, \
               0, ?1, ?1, NULL, ?9, ?10, ?11, 1, 0, NULL, ?12, 0)";
    conn.prepare_cached(sql)?.execute(params![
        key,
        format!("{:08x}", next(key as u64) >> 32),
        row.tenant,
        row.submitter,
        row.schedule,
        row.is_taken,
        row.tags,
        row.problem,
        row.started,
        row.team,
        row.status,
        row.requests,
    ])?;
    Ok(())
}

struct NewRow<'a> {
    tenant: &'a str,
    name: &'a str,
    submitter: &'a str,
    schedule: i64,
    is_taken: bool,
    tags: &'a str,
    problem: Option<&'a str>,
    started: &'a str,
    team: &'a str,
    status: Option<&'a str>,
    requests: i64,
}

/// A run that has ended well.
const DONE: NewRow<'_> = NewRow {
    tenant: "default",
    name: "done",
    submitter: "ann",
    schedule: ON_REQUEST,
    is_taken: false,
    tags: r#"{"a":"1"}"#,
    problem: None,
    started: "r",
    team: "team",
    status: Some("done"),
    requests: 0,
};

fn tables() -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    create(&conn).unwrap();
    create_queue_tables(&conn).unwrap();
    conn
}

/// Returns the filters whose runs are found rarely, each with a run that it accepts.
fn rare() -> Vec<(ServedFilter, NewRow<'static>)> {
    let statuses = |names: &[&str]| ServedFilter {
        statuses: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ServedFilter::default()
    };
    vec![
        (
            ServedFilter {
                is_asking: true,
                ..ServedFilter::default()
            },
            NewRow {
                requests: 1,
                status: Some("waiting"),
                ..DONE
            },
        ),
        (
            statuses(&["failed", "stalled"]),
            NewRow {
                status: Some("failed"),
                ..DONE
            },
        ),
        (
            statuses(&["queued"]),
            NewRow {
                started: "",
                status: Some("running"),
                schedule: NOW,
                ..DONE
            },
        ),
        (
            ServedFilter {
                prefixes: vec!["rare".into()],
                ..ServedFilter::default()
            },
            NewRow {
                name: "rare",
                ..DONE
            },
        ),
        (
            ServedFilter {
                tenant: Some("red".into()),
                ..ServedFilter::default()
            },
            NewRow {
                tenant: "red",
                ..DONE
            },
        ),
        (ServedFilter::default(), DONE),
    ]
}

fn tenants_of(filter: &ServedFilter) -> Vec<String> {
    match &filter.tenant {
        Some(tenant) => vec![tenant.clone()],
        None => TENANTS.map(str::to_owned).to_vec(),
    }
}

/// Returns how many steps it takes SQLite to read a page of a list of so many runs, of which twice as many as a page has
/// are accepted, and these are the oldest.
fn steps(filter: &ServedFilter, accepted: &NewRow<'_>, runs: i64) -> i32 {
    let conn = tables();
    conn.execute_batch("BEGIN").unwrap();
    for key in 1..=runs {
        let row = if key <= 2 * PAGE as i64 {
            accepted
        } else {
            &DONE
        };
        insert(&conn, key, row).unwrap();
    }
    conn.execute_batch("COMMIT").unwrap();
    let ServedQuery { sql, values } = ServedQuery::new(&conn, filter, &tenants_of(filter)).unwrap();
    let mut statement = conn.prepare(&sql).unwrap();
    let mut rows = statement.query(params_from_iter(values)).unwrap();
    for _ in 0..PAGE {
        assert!(rows.next().unwrap().is_some(), "{filter:?}");
    }
    drop(rows);
    statement.get_status(StatementStatus::VmStep)
}

#[test]
fn a_page_costs_the_same_however_many_runs_there_are() {
    for (filter, accepted) in rare() {
        let [few, many] = [500, 10_000].map(|runs| steps(&filter, &accepted, runs));
        assert!(many <= few * 2, "{filter:?}: {few} steps, then {many}");
    }
}

#[test]
fn a_list_is_read_in_the_order_of_an_index() {
    let conn = tables();
    for (filter, _) in rare()
        .into_iter()
        .filter(|(filter, _)| filter.prefixes.is_empty())
    {
        let ServedQuery { sql, values } =
            ServedQuery::new(&conn, &filter, &tenants_of(&filter)).unwrap();
        let mut statement = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
        let plan: Vec<String> = plan.unwrap().collect::<rusqlite::Result<_>>().unwrap();
        let is_slow = |step: &String| step.contains("TEMP B-TREE") || step.starts_with("SCAN ");
        assert!(!plan.iter().any(is_slow), "{filter:?}: {plan:#?}");
    }
}

/// Chooses among some values, as a number says.
fn choose<T: Copy>(random: &mut u64, all: &[T]) -> T {
    *random = next(*random);
    all[(*random >> 16) as usize % all.len()]
}

fn random_row(random: &mut u64) -> NewRow<'static> {
    let statuses = Status::ALL.map(|status| Some(status.name()));
    let mut statuses = statuses.to_vec();
    statuses.push(None);
    NewRow {
        tenant: choose(random, &TENANTS),
        name: choose(random, &["a", "ab", "b", "red"]),
        submitter: choose(random, &["ann", "bob"]),
        schedule: choose(random, &[NEVER, NOW, LATER, ON_REQUEST]),
        is_taken: choose(random, &[false, false, true]),
        tags: choose(random, &["{}", r#"{"a":"1"}"#, r#"{"a":"2","b":"\"1"}"#]),
        problem: choose(random, &[None, None, Some("why")]),
        started: choose(random, &["", "r"]),
        team: choose(random, &["team", "other"]),
        status: choose(random, &statuses),
        requests: choose(random, &[0, 0, 2]),
    }
}

fn random_filter(random: &mut u64) -> ServedFilter {
    let mut some = |all: &[&str]| -> Vec<String> {
        let count = choose(random, &[0, 0, 0, 1, 2]);
        (0..count).map(|_| choose(random, all).to_owned()).collect()
    };
    let pairs = |texts: Vec<String>| -> Vec<(String, String)> {
        let split = |text: &String| {
            let (key, value) = text.split_once('=').unwrap();
            (key.to_owned(), value.to_owned())
        };
        texts.iter().map(split).collect()
    };
    let filter = ServedFilter {
        tenant: some(&TENANTS).pop(),
        owner: some(&["ann"]).pop(),
        submitters: some(&["ann", "bob", "eve"]),
        teams: some(&["team", "none"]),
        statuses: some(&["queued", "running", "failed", "done", "waiting"]),
        prefixes: some(&["a", "ab", "red", "red/", "blue/a", ""]),
        tags: pairs(some(&["a=1", "a=2", "b=\"1", "b=1"])),
        ..ServedFilter::default()
    };
    let states: Vec<LifecycleState> = match choose(random, &[0, 0, 1, 2]) {
        0 => Vec::new(),
        count => (0..count)
            .map(|_| choose(random, &LifecycleState::ALL))
            .collect(),
    };
    ServedFilter {
        states,
        is_asking: choose(random, &[false, false, true]),
        since_ms: choose(random, &[None, None, Some(150)]),
        until_ms: choose(random, &[None, None, Some(250)]),
        ..filter
    }
}

#[test]
fn a_statement_leaves_out_no_run_that_its_filter_accepts() {
    let temp = tempfile::tempdir().unwrap();
    let url = SqliteUrl {
        file: temp.path().join("runs.db"),
        run: None,
    };
    let database = SharedDatabase::open(&url.file, MissingDatabase::Create).unwrap();
    let inserted = database.change(ChangeTerms::default(), |conn| {
        create_queue_tables(conn)?;
        let mut random = 1;
        for key in 1..=300 {
            insert(conn, key, &random_row(&mut random))?;
            if key % 7 == 0 {
                conn.execute(
                    "INSERT INTO note VALUES (?1, ?2, '')",
                    params![key, OWNER_NOTE],
                )?;
            }
        }
        Ok(())
    });
    assert_eq!(inserted.unwrap(), Some(()));
    let all = list_served(&url, &ServedFilter::default(), usize::MAX).unwrap();
    assert_eq!(all.len(), 300);
    let mut random = 7;
    let mut found = 0;
    for _ in 0..600 {
        let filter = random_filter(&mut random);
        let ids = |limit: usize| -> Vec<String> {
            let runs = list_served(&url, &filter, limit).unwrap();
            runs.into_iter().map(|run| run.id).collect()
        };
        let accepted = all.iter().filter(|run| filter.accepts(run));
        let expected: Vec<String> = accepted.map(|run| run.id.clone()).collect();
        assert_eq!(ids(usize::MAX), expected, "{filter:?}");
        assert_eq!(ids(5), expected[..expected.len().min(5)], "{filter:?}");
        found += expected.len();
    }
    assert!(found > 3_000, "the filters accept too little: {found}");
}

#[test]
fn a_range_of_names_has_all_that_begin_with_a_text_and_no_other() {
    let range = |first: &str| NameRange::beginning_with(first).unwrap();
    let check = |first: &str, name: &str, expected: bool| {
        let range = range(first);
        let is_inside = *name >= *range.first && *name < *range.end;
        assert_eq!(is_inside, expected, "{first:?} {name:?}");
    };
    check("a", "a", true);
    check("a", "a\u{10ffff}z", true);
    check("a", "b", false);
    check("a", "A", false);
    check("é", "éa", true);
    check("\u{d7ff}", "\u{e000}", false);
    check("a\u{10ffff}", "a\u{10ffff}\u{10ffff}", true);
    check("a\u{10ffff}", "b", false);
    assert_eq!(NameRange::beginning_with(""), None);
    assert_eq!(NameRange::beginning_with("\u{10ffff}"), None);
}
