//! What a server needs of the database with its runs, whichever kind that is: lists of runs, and word of those that change.
//! What it remembers is in `server_records`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use strata_base::clock::now_ms;
use strata_base::files::blob::{Blobs, digest_of};
use strata_base::process::wait::wait;
use strata_base::random_id::random_name;
use strata_core::machine::stepper::Stepper;
use strata_core::record::id::Digest;
use tokio::sync::Notify;

#[cfg(feature = "postgres")]
use super::postgres_server::create_database;
use super::{definition, fresh, scripted_run, team};
use crate::tests::script::pseudorandom;
use crate::{
    Append, AppendedState, ChangedRun, ClaimedRun, DEFAULT_TENANT, Durability, Handover,
    LifecycleState, NewSubmission, RunDatabase, RunNeeds, RunRelease, RunSchedule, ServedFilter,
    ServedPosition, ServedRun, ServerRecord, StoreError, SubmissionIdentity, WorkerProfile,
    stored_run_name,
};

/// How long a change is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a check against each kind of database, which is empty.
pub(super) fn check(name: &str, check: impl Fn(&RunDatabase)) {
    let temp = tempfile::tempdir().unwrap();
    let mut databases = vec![RunDatabase::in_file(&temp.path().join("served/runs.db"))];
    #[cfg(feature = "postgres")]
    if let Some(url) = create_database(&format!("{name}-{}", std::process::id())) {
        databases.push(RunDatabase::parse(&url).unwrap());
    }
    for database in databases {
        database.prepare().unwrap();
        eprintln!("{name}: {database}");
        check(&database);
    }
}

/// A run that is to be submitted.
pub(super) struct NewRun<'a> {
    pub(super) tenant: &'a str,
    pub(super) name: &'a str,
    pub(super) submitter: &'a str,
    pub(super) team: &'a str,
    pub(super) tags: &'a [(&'a str, &'a str)],
    pub(super) files: &'a [&'a [u8]],
    pub(super) records: &'a [ServerRecord],
}

impl<'a> NewRun<'a> {
    pub(super) fn named(name: &'a str) -> Self {
        Self {
            tenant: DEFAULT_TENANT,
            name,
            submitter: "ann",
            team: "team",
            tags: &[],
            files: &[],
            records: &[],
        }
    }

    /// Submits it, and returns its id.
    pub(super) fn submit(&self, database: &RunDatabase) -> Result<String, StoreError> {
        let id = random_name();
        let tags = self.tags.iter();
        let tags = tags.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let bytes = self.files.iter().map(|bytes| (digest_of(bytes), *bytes));
        let files: BTreeMap<String, Digest> = bytes
            .clone()
            .enumerate()
            .map(|(n, (digest, _))| (n.to_string(), digest))
            .collect();
        database.submit(&NewSubmission {
            name: &stored_run_name(self.tenant, self.name),
            team: self.team,
            base: &fresh(),
            definition: &definition(),
            blobs: &Blobs::new(),
            files: &files,
            contents: &bytes
                .map(|(digest, bytes)| (digest, bytes.into()))
                .collect(),
            needs: &RunNeeds::default(),
            tags: &tags.collect(),
            handover: Handover::Queued,
            scope: None,
            identity: SubmissionIdentity {
                id: id.clone(),
                tenant: self.tenant.into(),
                submitter: self.submitter.into(),
            },
            resume_note: None,
            records: self.records,
        })?;
        Ok(id)
    }
}

/// Returns the ids of the runs of all pages with so many entries, and calls `between` after each.
fn read_pages(
    database: &RunDatabase,
    filter: &ServedFilter,
    limit: usize,
    mut between: impl FnMut(),
) -> Vec<String> {
    let mut filter = filter.clone();
    let mut ids = Vec::new();
    loop {
        let page = database.list_served(&filter, limit).unwrap();
        assert!(page.len() <= limit);
        let Some(last) = page.last() else {
            return ids;
        };
        filter.after = Some(ServedPosition {
            created_ms: last.listing.created_ms.unwrap(),
            id: last.id.clone(),
        });
        ids.extend(page.into_iter().map(|run| run.id));
        between();
    }
}

#[test]
fn a_list_is_read_by_pages_while_runs_are_submitted_and_deleted() {
    check("pages", |database| {
        let submit = |tenant: &str, n: usize| {
            let name = format!("run-{n}");
            let run = NewRun {
                tenant,
                ..NewRun::named(&name)
            };
            run.submit(database).unwrap()
        };
        let mut ids: Vec<String> = (0..12).map(|n| submit("red", n)).collect();
        submit("blue", 0);
        let of_red = ServedFilter {
            tenant: Some("red".into()),
            ..ServedFilter::default()
        };
        let listed = |limit: usize| read_pages(database, &of_red, limit, || {});
        let all = listed(100);
        assert_eq!(listed(1), all);
        assert_eq!(listed(5), all);
        let sorted = |ids: &[String]| ids.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(sorted(&all), sorted(&ids));
        let every = read_pages(database, &ServedFilter::default(), 4, || {});
        assert_eq!(every.len(), 13);
        // What comes meanwhile hides and repeats nothing, and the end of a page may be deleted.
        let mut n = 12;
        let last_of_page = all[3].clone();
        let read = read_pages(database, &of_red, 4, || {
            ids.push(submit("red", n));
            n += 1;
            if let Some(run) = database.find_served_by_id(&last_of_page).unwrap() {
                run.listing.location.delete_run(None).unwrap();
            }
        });
        assert_eq!(read, all);
        // The newest come first.
        let first = database.list_served(&of_red, 1).unwrap();
        assert!(ids[12..].contains(&first[0].id), "{first:?}");
    });
}

/// Takes the run with a name, works on it, and leaves it to `release`.
fn work_on(database: &RunDatabase, name: &str, release: impl FnOnce(&ClaimedRun) -> RunRelease) {
    let mut worker = database
        .register(&WorkerProfile::default(), &Arc::new(Notify::new()))
        .unwrap();
    let claimed = worker.claim(100).unwrap();
    let as_before = RunRelease {
        schedule: Some(RunSchedule::Now),
        problem: None,
        keeps_request: false,
        failure: None,
    };
    for run in claimed.iter().filter(|run| run.name != name) {
        worker.release(run, &as_before).unwrap();
    }
    let run = claimed.iter().find(|run| run.name == name).unwrap();
    let mut lease = database.open_claimed(run).unwrap();
    let (records, _) = scripted_run(&pseudorandom(5, 3000), 20);
    let mut stepper = Stepper::new(team(), fresh());
    for record in &records {
        stepper.apply(&record.event).unwrap();
    }
    let state = AppendedState {
        team: stepper.team(),
        env: stepper.env(),
    };
    let append = Append {
        state: Some(state),
        ..Append::new(&records, Durability::Full)
    };
    lease.begin_append(append).finish_blocking().unwrap();
    drop(lease);
    worker.release(run, &release(run)).unwrap();
}

/// Returns some of the runs that a database has for the test of filters.
fn submit_some(database: &RunDatabase) {
    for (n, tenant) in [DEFAULT_TENANT, "red", "blue"].into_iter().enumerate() {
        for (m, submitter) in ["ann", "bob"].into_iter().enumerate() {
            let name = format!("run-{n}{m} with %_\\");
            let tags = [("colour", tenant), ("who", submitter)];
            let run = NewRun {
                tenant,
                submitter,
                team: ["one", "two"][(n + m) % 2],
                tags: &tags[..=m],
                ..NewRun::named(&name)
            };
            run.submit(database).unwrap();
        }
    }
    for name in ["worked", "refused", "later"] {
        NewRun::named(name).submit(database).unwrap();
    }
    let ends = |schedule| RunRelease {
        schedule: Some(schedule),
        problem: None,
        keeps_request: false,
        failure: None,
    };
    work_on(database, "worked", |_| ends(RunSchedule::OnRequest));
    work_on(database, "refused", |_| {
        RunRelease::refused("it must not".into())
    });
    let due = RunSchedule::Later(Some(now_ms() + 3_600_000));
    work_on(database, "later", |_| ends(due));
}

#[test]
fn a_list_has_the_runs_that_its_filter_accepts() {
    check("filters", |database| {
        submit_some(database);
        let all = database.list_served(&ServedFilter::default(), 100).unwrap();
        assert_eq!(all.len(), 9);
        let changed: Vec<i64> = all
            .iter()
            .filter_map(|run| run.listing.changed_ms)
            .collect();
        let middle = changed[changed.len() / 2];
        let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let pairs = |tags: &[(&str, &str)]| {
            let tags = tags.iter();
            tags.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        let mut filters = Vec::new();
        let mut add = |set: &dyn Fn(&mut ServedFilter), expected: usize| {
            let mut filter = ServedFilter::default();
            set(&mut filter);
            filters.push((filter, Some(expected)));
        };
        add(&|f| f.tenant = Some("red".into()), 2);
        add(&|f| f.tenant = Some("none".into()), 0);
        add(&|f| f.owner = Some("bob".into()), 3);
        add(&|f| f.submitters = strings(&["bob", "eve"]), 3);
        add(&|f| f.teams = strings(&["one"]), 3);
        add(&|f| f.teams = strings(&["one", "two"]), 6);
        add(&|f| f.prefixes = strings(&["run-1", "lat"]), 3);
        add(&|f| f.prefixes = strings(&["red"]), 0);
        add(&|f| f.prefixes = strings(&["run-00 with %_\\"]), 1);
        add(&|f| f.prefixes = strings(&["run-0_"]), 0);
        add(&|f| f.prefixes = strings(&["\0"]), 0);
        add(
            &|f| f.tags = pairs(&[("colour", "red"), ("colour", "blue")]),
            4,
        );
        add(&|f| f.tags = pairs(&[("colour", "red"), ("who", "bob")]), 1);
        add(&|f| f.tags = pairs(&[("none", "red")]), 0);
        add(&|f| f.statuses = strings(&["queued"]), 6);
        add(&|f| f.states = vec![LifecycleState::Queued], 6);
        add(&|f| f.states = vec![LifecycleState::Refused], 1);
        let mut filters: Vec<(ServedFilter, Option<usize>)> = filters;
        let more: [&dyn Fn(&mut ServedFilter); 6] = [
            &|f| f.states = LifecycleState::ALL.to_vec(),
            &|f| f.statuses = strings(&["running", "waiting", "done"]),
            &|f| f.since_ms = Some(middle),
            &|f| f.until_ms = Some(middle),
            &|f| f.is_asking = true,
            &|f| {
                f.tenant = Some("red".into());
                f.states = vec![LifecycleState::Queued, LifecycleState::Running];
                f.submitters = strings(&["ann"]);
            },
        ];
        for set in more {
            let mut filter = ServedFilter::default();
            set(&mut filter);
            filters.push((filter, None));
        }
        let ids =
            |runs: &[ServedRun]| -> Vec<String> { runs.iter().map(|run| run.id.clone()).collect() };
        for (filter, count) in filters {
            let found = database.list_served(&filter, 100).unwrap();
            let expected = all.iter().filter(|run| filter.accepts(run)).cloned();
            let expected: Vec<ServedRun> = expected.collect();
            assert_eq!(ids(&found), ids(&expected), "{filter:?}");
            if let Some(count) = count {
                assert_eq!(found.len(), count, "{filter:?}");
            }
        }
    });
}

#[test]
fn a_run_is_found_by_its_id_its_name_and_its_key() {
    check("found", |database| {
        let run = NewRun {
            tenant: "red",
            submitter: "bob",
            tags: &[("colour", "red")],
            ..NewRun::named("two words")
        };
        let id = run.submit(database).unwrap();
        NewRun::named("two words").submit(database).unwrap();
        let found = database.find_served_by_id(&id).unwrap().unwrap();
        let seen = (found.id.as_str(), found.name(), found.tenant.as_str());
        assert_eq!(seen, (id.as_str(), "two words", "red"));
        assert_eq!(found.submitter, "bob");
        assert_eq!(found.listing.state, LifecycleState::Queued);
        assert_eq!(found.listing.status_name(), Some("queued"));
        assert!(found.listing.location.read().is_ok());
        let by_name = database.find_served_by_name("red", "two words");
        assert_eq!(by_name.unwrap(), Some(found.clone()));
        let by_key = database.find_served_by_key(found.key).unwrap();
        assert_eq!(by_key, Some(found));
        for name in ["two", "TWO WORDS", "a\0b", ""] {
            assert_eq!(database.find_served_by_name("red", name).unwrap(), None);
            assert_eq!(database.find_served_by_id(name).unwrap(), None);
        }
        assert_eq!(database.find_served_by_key(-1).unwrap(), None);
        submit_some(database);
        let later = database.find_served_by_name(DEFAULT_TENANT, "later");
        let later = later.unwrap().unwrap();
        let due_ms = later.due_ms.unwrap();
        assert!((due_ms - now_ms() - 3_600_000).abs() < 60_000, "{due_ms}");
        assert_eq!(later.listing.owner, None);
    });
}

/// Waits until it is told that a run has changed. Others may have, too.
fn expect_change(changes: &Receiver<ChangedRun>, key: i64, what: &str) {
    loop {
        match changes.recv_timeout(PATIENCE) {
            Ok(ChangedRun::Key(changed)) if changed == key => return,
            Ok(_) => {}
            Err(_) => panic!("nobody was told that the run {what}"),
        }
    }
}

#[test]
fn each_change_of_a_run_is_told() {
    check("changes", |database| {
        NewRun::named("before").submit(database).unwrap();
        let mut watching = database.watch_runs().unwrap();
        let (tell, changes) = channel();
        std::thread::spawn(move || {
            while let Some(changed) = wait(watching.next()) {
                if tell.send(changed).is_err() {
                    return;
                }
            }
        });
        let id = NewRun::named("one").submit(database).unwrap();
        let run = database.find_served_by_id(&id).unwrap().unwrap();
        expect_change(&changes, run.key, "was submitted");
        let mut worker = database
            .register(&WorkerProfile::default(), &Arc::new(Notify::new()))
            .unwrap();
        let claimed = worker.claim(100).unwrap();
        let claimed = claimed.iter().find(|run| run.name == "one").unwrap();
        let mut lease = database.open_claimed(claimed).unwrap();
        expect_change(&changes, run.key, "was taken");
        let (records, _) = scripted_run(&pseudorandom(3, 3000), 40);
        for some in records.chunks(4) {
            while changes.try_recv().is_ok() {}
            lease.append(some, Durability::Process).unwrap();
            expect_change(&changes, run.key, "has new events");
        }
        drop(lease);
        std::thread::sleep(Duration::from_millis(600));
        while changes.try_recv().is_ok() {}
        let release = RunRelease::refused("no".into());
        worker.release(claimed, &release).unwrap();
        expect_change(&changes, run.key, "was given up");
        std::thread::sleep(Duration::from_millis(600));
        assert!(changes.try_recv().is_err(), "nothing has changed");
        run.listing.location.request_work().unwrap();
        expect_change(&changes, run.key, "was asked for");
        run.listing.location.delete_run(None).unwrap();
        expect_change(&changes, run.key, "was deleted");
    });
}
