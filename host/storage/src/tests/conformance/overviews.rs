//! The rows from which a server lists runs are what the states of the runs are, whatever happens to their owners and
//! to the server.

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Status;
use strata_postgres::Database;
use strata_postgres::{MIGRATIONS, prepare, tamper};
use strata_records::database_url::DatabaseUrl;

use super::postgres_server::{create_database, query};
use super::{DatabaseStorage, TestStorage, fresh, loaded_state};
use crate::tests::script::pseudorandom;
use crate::tests::script::{scripted_run, team};
use crate::{
    Append, AppendedState, DEFAULT_TENANT, Durability, Lease, LifecycleState, Record, RunDatabase,
    RunFilter, RunListing, RunOverview, StateSelector, StorageLocation, StoreError,
};

/// Appends events with the state after all of them and those before.
fn append(
    lease: &mut dyn Lease,
    before: &mut Stepper,
    records: &[Record],
) -> Result<(), StoreError> {
    for record in records {
        before.apply(&record.event).unwrap();
    }
    let append = Append {
        state: Some(AppendedState {
            team: before.team(),
            env: before.env(),
        }),
        ..Append::new(records, Durability::Full)
    };
    lease.begin_append(append).finish_blocking()
}

fn listed(url: &Database) -> RunListing {
    let location = StorageLocation::new(url.to_path());
    let mut listed = location.list_overviews(&RunFilter::default()).unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    listed.remove(0)
}

#[test]
fn a_run_is_listed_as_it_is_after_take_overs_and_after_the_server_went_back() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(71, 3000), 160);
    let mut stepper = Stepper::new(team(), fresh());
    for (n, some) in records.chunks(10).enumerate() {
        let url = storage.url.clone();
        if n % 4 == 1 {
            // A take-over; the owner of before learns so from its next change, which changes nothing.
            let next = storage.take_over();
            let mut ahead = stepper.clone();
            let refused = append(storage.lease(), &mut ahead, some);
            assert!(
                matches!(refused, Err(StoreError::Fenced { .. })),
                "{refused:?}"
            );
            drop(next);
            storage.reopen();
        }
        append(storage.lease(), &mut stepper, some).unwrap();
        if n % 4 == 2 {
            // The server goes back to before these events.
            tamper(
                &url,
                "DELETE FROM strata.event WHERE run = $1 AND n > (SELECT max(n) - 10 FROM strata.event WHERE run = $1)",
            );
            tamper(
                &url,
                "UPDATE strata.overview SET status = 'done', step = 77, spent = 5 WHERE run = $1",
            );
            storage.lease().ensure_stored().unwrap();
        }
        let env = loaded_state(&storage.lease().load(&StateSelector::Head).unwrap());
        let expected = RunOverview::of(AppendedState {
            team: &team(),
            env: &env,
        });
        let run = listed(&url);
        assert_eq!(run.overview, Some(expected), "after {n} appends");
        assert_eq!(run.state, LifecycleState::Running);
        assert_eq!(run.changed_ms, some.last().map(|last| last.time_ms));
    }
}

#[test]
fn the_view_says_of_each_run_what_is_listed() {
    let Some(url) = create_database(&format!("view-{}", std::process::id())) else {
        return;
    };
    let database = Database::at(DatabaseUrl::parse(&url).unwrap());
    prepare(&database).unwrap();
    let create = |name: &str| DatabaseStorage::at(database.with_run(name), &fresh());
    drop(create("detached"));
    let _running = create("running");
    for (name, schedule, problem, status) in [
        ("queued", 1, "NULL", "running"),
        ("refused", 3, "'no'", "running"),
        ("resting", 2, "NULL", "waiting"),
        ("paused", 3, "NULL", "paused"),
        ("failed", 3, "NULL", "failed"),
    ] {
        drop(create(name));
        let key = format!("(SELECT id FROM strata.run WHERE name = '{name}')");
        query(
            &url,
            &format!(
                "UPDATE strata.run SET schedule = {schedule}, problem = {problem} WHERE name = '{name}'"
            ),
        );
        query(
            &url,
            &format!("UPDATE strata.overview SET status = '{status}' WHERE run = {key}"),
        );
    }
    let location = StorageLocation::new(database.to_path());
    let all = location.list_overviews(&RunFilter::default()).unwrap();
    let mut found: Vec<(String, &str, Option<&str>)> = all
        .iter()
        .map(|run| (run.name.clone(), run.state.name(), run.status_name()))
        .collect();
    found.sort();
    let expected = [
        ("detached", "detached", "running"),
        ("failed", "ended", "failed"),
        ("paused", "resting", "paused"),
        ("queued", "queued", "queued"),
        ("refused", "refused", "queued"),
        ("resting", "resting", "waiting"),
        ("running", "running", "running"),
    ];
    let expected = expected.map(|(name, state, status)| (name.to_owned(), state, Some(status)));
    assert_eq!(found, expected);
    for state in LifecycleState::ALL {
        let filter = RunFilter {
            states: vec![state],
            ..RunFilter::default()
        };
        let some = location.list_overviews(&filter).unwrap();
        let all = all.iter().filter(|run| run.state == state).count();
        assert_eq!(some.len(), all, "{state:?}");
        assert!(some.iter().all(|run| filter.accepts(run)));
    }
    let filter = RunFilter {
        name: Some("*_*".into()),
        ..RunFilter::default()
    };
    assert_eq!(location.list_overviews(&filter).unwrap(), []);
}

#[test]
fn a_database_of_an_earlier_version_is_refused_until_it_is_migrated_and_then_lists_its_runs() {
    let Some(url) = create_database(&format!("earlier-{}", std::process::id())) else {
        return;
    };
    let database = Database::at(DatabaseUrl::parse(&url).unwrap());
    query(&url, "CREATE SCHEMA strata");
    query(&url, MIGRATIONS[0]);
    query(&url, "UPDATE strata.meta SET version = 1");
    query(
        &url,
        "INSERT INTO strata.run (name, epoch, lineage, line, format) VALUES ('old', 0, 0, 1, 1)",
    );
    let location = StorageLocation::new(database.to_path());
    let refused = location.list_overviews(&RunFilter::default());
    assert!(
        matches!(refused, Err(StoreError::Outdated { found: 1, .. })),
        "{refused:?}"
    );
    prepare(&database).unwrap();
    let run = listed(&database);
    // Servers know it, too.
    let served = RunDatabase::parse(&url).unwrap();
    let found = served.find_served_by_name(DEFAULT_TENANT, "old").unwrap();
    let found = found.unwrap();
    assert_eq!((found.id.len(), found.submitter.as_str()), (32, ""));
    assert_eq!(found.listing.created_ms, run.created_ms);
    // Only the state tells.
    assert_eq!((run.name.as_str(), &run.overview), ("old", &None));
    let known = RunOverview::of(AppendedState {
        team: &team(),
        env: &fresh(),
    });
    let ended = RunOverview {
        status: Status::Done,
        ..known
    };
    assert_eq!(run.with_overview(ended).state, LifecycleState::Ended);
}
