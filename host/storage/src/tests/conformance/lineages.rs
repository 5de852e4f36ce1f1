//! What every store must do with several lineages, and when it is pruned.

use std::collections::BTreeMap;

use strata_base::files::blob::Blobs;
use strata_core::machine::stepper::Stepper;
use strata_core::record::edit::{Edit, EditedScope};
use strata_core::record::event::{Event, Forked, Status};
use strata_core::record::id::CheckpointId;
use strata_core::record::json::Json;
use strata_core::record::spending::Account;
use strata_core::state::environment::Environment;
use strata_records::cost_of;
use tempfile::TempDir;

use super::{TestStorage, check, fresh, loaded_state};
use crate::tests::script::pseudorandom;
use crate::tests::script::{ScriptedRun, definition, team};
use crate::{
    CheckpointOrigin, CheckpointRow, Durability, Lease, LoadedState, NewSubmission, Pruned, Record,
    RunCopy, RunDatabase, RunNeeds, RunOverview, RunSchedule, StateSelector, StorageLocation,
    StoreError, SubmissionIdentity, checkpoint_of,
};

/// What a store should contain: the events of each lineage, and the state after each checkpoint.
#[derive(Clone, Default)]
struct ExpectedHistory {
    paths: BTreeMap<String, Vec<Record>>,
    states: BTreeMap<CheckpointId, Environment>,
    /// The checkpoints, in the order in which they were made.
    checkpoints: Vec<CheckpointId>,
    /// How many records were created.
    record_count: u64,
}

impl ExpectedHistory {
    /// Returns the newest state of a lineage.
    fn end(&self, lineage: &str) -> Environment {
        loaded_state(&LoadedState {
            base: fresh(),
            tail: self.paths[lineage].clone(),
            next_line: 0,
        })
    }

    /// Applies events to a lineage, and returns records of them.
    fn record_events(&mut self, lineage: &str, events: &[Event]) -> Vec<Record> {
        let mut stepper = Stepper::new(
            team(),
            self.paths
                .get(lineage)
                .map_or_else(fresh, |_| self.end(lineage)),
        );
        let mut records = Vec::new();
        for event in events {
            stepper.apply(event).unwrap();
            let record = Record {
                line: self.record_count + 1,
                lines: 1,
                time_ms: self.record_count as i64,
                event: event.clone(),
            };
            self.record_count += 1;
            if let Some(id) = checkpoint_of(event) {
                self.checkpoints.push(id.clone());
                self.states.insert(id.clone(), stepper.env().clone());
            }
            self.paths
                .entry(lineage.into())
                .or_default()
                .push(record.clone());
            records.push(record);
        }
        records
    }

    /// Creates a lineage at a checkpoint, which shares the events that lead there. Returns the
    /// event.
    fn fork(&mut self, lineage: &str, from: &CheckpointId, value: &str) -> Event {
        let env = &self.states[from];
        let made = |path: &Vec<Record>| {
            path.iter()
                .position(|record| checkpoint_of(&record.event) == Some(from))
        };
        let (origin, at) = self
            .paths
            .values()
            .find_map(|path| Some((path, made(path)?)))
            .unwrap();
        let shared = origin[..=at].to_vec();
        let edit = Edit {
            scope: EditedScope::Shared("plain".into()),
            key: "k".into(),
            value: Json::parse(value).unwrap(),
        };
        let account = Account {
            spent: self.spent().max(env.spent),
            ..env.account()
        };
        let event = Stepper::new(team(), env.clone())
            .forked_event(lineage.into(), vec![edit], account)
            .unwrap();
        self.paths.insert(lineage.into(), shared);
        event
    }

    /// Returns what all lineages spent.
    fn spent(&self) -> strata_core::record::money::Usd {
        let all = self
            .paths
            .values()
            .flatten()
            .map(|record| (record.line, cost_of(&record.event)));
        all.collect::<BTreeMap<_, _>>()
            .into_values()
            .fold(Default::default(), |sum, cost| sum + cost)
    }

    /// Returns events that can follow when a lineage is resumed.
    fn resume_events(&self, env: Environment, seed: u64, count: usize) -> Vec<Event> {
        let mut stepper = Stepper::new(team(), env);
        let resumed = stepper.run_resumed_event(
            Some(strata_core::record::money::Usd::from_dollars(100.0)),
            Default::default(),
        );
        stepper.apply(&resumed).unwrap();
        let turns = pseudorandom(seed, 8 * count);
        let mut run = ScriptedRun::from_state(stepper.env().clone(), &turns);
        while run.events.len() < count && run.advance() {}
        [vec![resumed], run.events].concat()
    }

    /// Checks that a store contains exactly this.
    fn check(&self, store: &dyn Lease, current: &str) {
        let rows = store.checkpoints().unwrap();
        assert_eq!(
            rows.iter().map(|row| row.id.clone()).collect::<Vec<_>>(),
            self.checkpoints
        );
        self.check_listed(store, current);
        assert_eq!(store.records(0, usize::MAX).unwrap(), self.paths[current]);
        assert_eq!(store.records(7, 5).unwrap(), self.paths[current][7..12]);
    }

    /// Checks that each listed checkpoint, and the newest state of each lineage, can be loaded.
    fn check_listed(&self, store: &dyn Lease, current: &str) {
        for row in store.checkpoints().unwrap() {
            let saved = store
                .load(&StateSelector::Checkpoint(row.id.clone()))
                .unwrap();
            let found = loaded_state(&saved);
            assert_eq!(found, self.states[&row.id], "{}", row.id);
            assert_eq!(row.lineage, found.lineage.name);
            assert_eq!(saved.next_line, self.record_count + 1);
        }
        for lineage in self.paths.keys() {
            let saved = store
                .load(&StateSelector::Lineage(lineage.clone()))
                .unwrap();
            assert_eq!(loaded_state(&saved), self.end(lineage), "{lineage}");
        }
        assert_eq!(
            loaded_state(&store.load(&StateSelector::Head).unwrap()),
            self.end(current)
        );
        assert_eq!(store.spent().unwrap(), self.spent());
        let lineages = store.lineages().unwrap();
        assert_eq!(
            lineages
                .iter()
                .filter(|row| row.current)
                .map(|row| row.name.as_str())
                .collect::<Vec<_>>(),
            [current]
        );
        assert_eq!(lineages.len(), self.paths.len());
        for row in &lineages {
            assert_eq!(row.events, self.paths[&row.name].len() as u64);
        }
    }

    fn check_twice(&self, kept: &mut dyn TestStorage, current: &str) {
        self.check(kept.lease(), current);
        kept.reopen();
        self.check(kept.lease(), current);
    }
}

/// A run on `main`, lineages that branched off and were not continued, some that were, and a fork
/// of one of those.
fn branched_history(store: &mut dyn Lease, events: usize) -> ExpectedHistory {
    let mut tale = ExpectedHistory::default();
    let turns = pseudorandom(41, 8 * events);
    let mut run = ScriptedRun::new(&turns);
    while run.events.len() < events && run.advance() {}
    let records = tale.record_events("main", &run.events);
    store.append(&records, Durability::Full).unwrap();
    let main = tale.checkpoints.clone();
    for (i, from) in [0, main.len() / 2, main.len() - 1].into_iter().enumerate() {
        let name = format!("main.{}", i + 1);
        let fork = tale.fork(&name, &main[from], &i.to_string());
        let records = tale.record_events(&name, &[fork]);
        store.append(&records, Durability::Full).unwrap();
    }
    for (name, from, seed) in [
        ("main.4", &main[main.len() / 3], 43),
        ("main.5", &main[main.len() / 2], 44),
    ] {
        let fork = tale.fork(name, from, "7");
        let mut records = tale.record_events(name, &[fork]);
        let more = tale.resume_events(tale.end(name), seed, 60);
        records.extend(tale.record_events(name, &more));
        store.append(&records, Durability::Process).unwrap();
    }
    let own: Vec<_> = tale
        .checkpoints
        .iter()
        .filter(|id| id.0.starts_with("main.4-"))
        .cloned()
        .collect();
    assert!(own.len() > 3, "{own:?}");
    let fork = tale.fork("main.6", &own[1], "8");
    let mut records = tale.record_events("main.6", &[fork]);
    let more = tale.resume_events(tale.end("main.6"), 45, 40);
    records.extend(tale.record_events("main.6", &more));
    store.append(&records, Durability::Full).unwrap();
    tale
}

#[test]
fn a_fork_that_is_put_aside_changes_nothing_about_the_others() {
    check(&fresh(), |kept| {
        let mut tale = ExpectedHistory::default();
        let turns = pseudorandom(42, 3000);
        let mut run = ScriptedRun::new(&turns);
        while run.events.len() < 150 && run.advance() {}
        let records = tale.record_events("main", &run.events);
        kept.lease().append(&records, Durability::Full).unwrap();
        for (i, from) in tale.checkpoints.clone().into_iter().enumerate() {
            let name = format!("main.{}", i + 1);
            let fork = tale.fork(&name, &from, &i.to_string());
            let records = tale.record_events(&name, &[fork]);
            kept.lease().append(&records, Durability::Full).unwrap();
            tale.check(kept.lease(), "main");
            let rows = kept.lease().checkpoints().unwrap();
            let row = rows.last().unwrap();
            assert_eq!(
                (row.parent.as_ref(), row.source, row.lineage.as_str()),
                (Some(&from), CheckpointOrigin::Fork, &*name)
            );
        }
        let more = tale.resume_events(tale.end("main"), 3, 50);
        let records = tale.record_events("main", &more);
        kept.lease().append(&records, Durability::Full).unwrap();
        tale.check_twice(kept, "main");
    });
}

#[cfg(feature = "postgres")]
#[test]
fn a_branch_that_a_database_lost_is_stored_again() {
    let Some(mut storage) = super::DatabaseStorage::new(&fresh()) else {
        return;
    };
    let mut tale = branched_history(storage.lease(), 150);
    let current = "(SELECT lineage FROM strata.run WHERE id = $1)";
    for sql in [
        format!("DELETE FROM strata.event WHERE run = $1 AND n >> 40 = {current}"),
        format!("DELETE FROM strata.lineage WHERE run = $1 AND id = {current}"),
        "UPDATE strata.run SET lineage = lineage - 1 WHERE id = $1".into(),
    ] {
        strata_postgres::tamper(&storage.url, &sql);
    }
    let more = tale.resume_events(tale.end("main.6"), 46, 10);
    let records = tale.record_events("main.6", &more);
    storage
        .lease()
        .append(&records, Durability::Process)
        .unwrap();
    tale.check_twice(&mut storage, "main.6");
}

#[test]
fn lineages_go_on_by_themselves_and_share_what_came_before() {
    check(&fresh(), |kept| {
        let mut tale = branched_history(kept.lease(), 150);
        tale.check_twice(kept, "main.6");
        for (i, name) in ["main", "main.5", "main.2", "main.6", "main"]
            .into_iter()
            .enumerate()
        {
            kept.lease().switch_lineage(name).unwrap();
            tale.check_twice(kept, name);
            let more = tale.resume_events(tale.end(name), i as u64 + 60, 20);
            let records = tale.record_events(name, &more);
            kept.lease().append(&records, Durability::Process).unwrap();
            tale.check(kept.lease(), name);
            if i % 2 == 0 {
                kept.lease().save_snapshot(&tale.end(name)).unwrap();
            }
            tale.check_twice(kept, name);
        }
    });
}

#[test]
fn what_is_no_lineage_is_refused_and_changes_nothing() {
    check(&fresh(), |kept| {
        let tale = branched_history(kept.lease(), 150);
        match kept.lease().switch_lineage("none") {
            Err(StoreError::NoLineage { name, known }) => {
                assert_eq!((name.as_str(), known.len()), ("none", 7))
            }
            other => panic!("{other:?}"),
        }
        let mut other = tale.clone();
        let mut refused = |name: &str, from: &str| {
            let mut event = other.fork("main.9", &tale.checkpoints[2], "1");
            let Event::Forked(Forked {
                lineage,
                from: left,
                ..
            }) = &mut event
            else {
                panic!("a fork")
            };
            (*lineage, *left) = (name.into(), from.into());
            let record = Record {
                line: tale.record_count + 1,
                lines: 1,
                time_ms: 0,
                event,
            };
            kept.lease()
                .append(&[record], Durability::Full)
                .unwrap_err()
        };
        let error = refused("main.3", "main-2");
        assert!(matches!(error, StoreError::Lineage { .. }), "{error:?}");
        let error = refused("main.9", "main-999");
        assert!(
            matches!(error, StoreError::NoCheckpoint { .. }),
            "{error:?}"
        );
        tale.check_twice(kept, "main.6");
    });
}

fn prune(store: &mut dyn Lease, keep: u32) -> Pruned {
    store
        .prune(keep, &mut |saved| Ok(loaded_state(&saved)))
        .unwrap()
}

fn newest_of(rows: &[CheckpointRow], lineage: &str) -> CheckpointId {
    let newest = rows.iter().rfind(|row| row.lineage == lineage).unwrap();
    newest.id.clone()
}

/// Checks that a pruned store still lists and loads what has to be kept of the checkpoints that it had before.
fn check_pruned(
    tale: &ExpectedHistory,
    store: &dyn Lease,
    before: &[CheckpointRow],
    pruned: &Pruned,
) {
    tale.check_listed(store, "main.6");
    let rows = store.checkpoints().unwrap();
    assert_eq!(rows.len() as u64 + pruned.checkpoints, before.len() as u64);
    let listed: Vec<_> = rows.iter().map(|row| row.id.clone()).collect();
    assert_eq!(listed[0], tale.checkpoints[0]);
    let forked = before
        .iter()
        .filter(|row| row.source == CheckpointOrigin::Fork);
    let apart = forked.flat_map(|row| [row.id.clone(), row.parent.clone().unwrap()]);
    for id in apart.chain(tale.paths.keys().map(|name| newest_of(before, name))) {
        assert!(listed.contains(&id), "{id}");
    }
    // The rows are unchanged, except for parents that were removed.
    for row in &rows {
        let was = before.iter().find(|was| was.id == row.id).unwrap();
        assert_eq!(
            (row.step, row.source, row.status),
            (was.step, was.source, was.status),
            "{}",
            row.id
        );
        assert!(
            row.parent
                .as_ref()
                .is_none_or(|parent| listed.contains(parent))
        );
        assert_eq!(row.parent.is_none(), row.id == tale.checkpoints[0]);
    }
    let left = store.records(0, usize::MAX).unwrap();
    assert!(left.len() < tale.paths["main.6"].len());
    assert!(
        left.iter()
            .all(|record| tale.paths["main.6"].contains(record))
    );
    assert_eq!(store.records(3, 4).unwrap(), left[3..7]);
    assert_eq!(
        store.records(left.len() as u64 - 2, 9).unwrap(),
        left[left.len() - 2..]
    );
}

#[test]
fn what_is_kept_of_a_pruned_store_can_be_gone_back_to() {
    check(&fresh(), |kept| {
        let mut tale = branched_history(kept.lease(), 1200);
        let before = kept.lease().checkpoints().unwrap();
        let newest = |lineage: &str| newest_of(&before, lineage);
        let pruned = prune(kept.lease(), 2);
        assert!(pruned.events > 0 && pruned.checkpoints > 0, "{pruned:?}");
        for _ in 0..2 {
            check_pruned(&tale, kept.lease(), &before, &pruned);
            kept.reopen();
        }
        // The run can continue, and can be pruned again.
        let more = tale.resume_events(tale.end("main.6"), 70, 60);
        let records = tale.record_events("main.6", &more);
        kept.lease().append(&records, Durability::Full).unwrap();
        let fork = tale.fork("main.7", &newest("main.4"), "9");
        let records = tale.record_events("main.7", &[fork]);
        kept.lease().append(&records, Durability::Full).unwrap();
        tale.check_listed(kept.lease(), "main.6");
        let rows = kept.lease().checkpoints().unwrap().len();
        let again = prune(kept.lease(), 1);
        assert_eq!(
            kept.lease().checkpoints().unwrap().len() as u64 + again.checkpoints,
            rows as u64
        );
        tale.check_listed(kept.lease(), "main.6");
        let last = prune(kept.lease(), 1);
        assert_eq!((last.events, last.checkpoints), (0, 0));
        kept.reopen();
        tale.check_listed(kept.lease(), "main.6");
    });
}

#[test]
fn where_somebody_is_waited_for_is_kept() {
    let mut tale = ExpectedHistory::default();
    let turns = pseudorandom(47, 9000);
    let mut run = ScriptedRun::new(&turns);
    let midway = |run: &ScriptedRun<'_>| run.events.len() > 60 && run.stepper.env().is_step_open;
    while !(midway(&run) && run.stepper.env().status == Status::Running) {
        assert!(run.advance());
    }
    let first = tale.record_events("main", &run.events);
    let env = tale.end("main");
    let waits = Stepper::new(team(), env).run_ended_event(Status::Waiting);
    let waits = tale.record_events("main", &[waits]);
    let asked = tale.end("main").checkpoint.unwrap();
    let more = tale.resume_events(tale.end("main"), 5, 600);
    let more = tale.record_events("main", &more);
    check(&fresh(), |kept| {
        let all = [first.clone(), waits.clone(), more.clone()].concat();
        kept.lease().append(&all, Durability::Full).unwrap();
        kept.lease().keep_checkpoints(1).unwrap();
        let listed = |store: &dyn Lease| {
            store
                .checkpoints()
                .unwrap()
                .iter()
                .map(|row| row.id.clone())
                .collect::<Vec<_>>()
        };
        assert!(listed(kept.lease()).contains(&asked));
        let pruned = prune(kept.lease(), 1);
        assert!(pruned.events > 0);
        assert!(listed(kept.lease()).contains(&asked));
        kept.reopen();
        assert_eq!(
            loaded_state(
                &kept
                    .lease()
                    .load(&StateSelector::Checkpoint(asked.clone()))
                    .unwrap()
            ),
            tale.states[&asked]
        );
        let row = kept
            .lease()
            .checkpoints()
            .unwrap()
            .into_iter()
            .find(|row| row.id == asked)
            .unwrap();
        assert_eq!(row.status, Status::Waiting);
    });
}

/// A copy of a run, and the directory in which it lies, if it is in a file.
struct Copied {
    lease: Box<dyn Lease>,
    _directory: Option<TempDir>,
}

/// Copies a run.
fn copy_to(from: &StorageLocation, to: &StorageLocation, env: &Environment) {
    let definition = definition();
    let submission = NewSubmission {
        name: to.run_name().unwrap(),
        team: "team",
        base: env,
        definition: &definition,
        blobs: &Blobs::new(),
        files: &BTreeMap::new(),
        contents: &Blobs::new(),
        needs: &RunNeeds {
            labels: vec!["nobody has this".into()],
            secrets: Vec::new(),
        },
        tags: &BTreeMap::new(),
        handover: crate::Handover::Queued,
        scope: None,
        identity: SubmissionIdentity::unserved(),
        resume_note: None,
        records: &[],
    };
    let copy = RunCopy {
        submission: &submission,
        overview: RunOverview::of(crate::AppendedState { team: &team(), env }),
        schedule: RunSchedule::Now,
        changed_ms: Some(7),
    };
    crate::copy_records(from, to, &copy).unwrap();
    let again = crate::copy_records(from, to, &copy);
    assert!(
        matches!(again, Err(StoreError::NameTaken { .. })),
        "{again:?}"
    );
    let listed = to.list_overviews(&crate::RunFilter::default()).unwrap();
    assert_eq!(listed[0].overview.as_ref().unwrap().status, env.status);
}

/// Copies a run into a file that has others, and into a server, if there is one.
fn copies_of(from: &StorageLocation, env: &Environment) -> Vec<Copied> {
    let directory = TempDir::new().unwrap();
    let file = RunDatabase::in_file(&directory.path().join("runs.db"));
    // The keys of the copy are others than those in a directory.
    copy_to(from, &file.location("first"), env);
    let to = file.location("copy");
    copy_to(from, &to, env);
    let copies = vec![Copied {
        lease: to.open_if_free().unwrap().lease,
        _directory: Some(directory),
    }];
    #[cfg(feature = "postgres")]
    let copies = copies
        .into_iter()
        .chain(copy_into_server(from, env))
        .collect();
    copies
}

#[cfg(feature = "postgres")]
fn copy_into_server(from: &StorageLocation, env: &Environment) -> Option<Copied> {
    let url = super::fresh_run()?;
    copy_to(from, &StorageLocation::of_database(url.clone()), env);
    let lease = strata_postgres::take_lease(&url, crate::OwnerWait::Watch).unwrap();
    Some(Copied {
        lease: Box::new(lease),
        _directory: None,
    })
}

#[test]
fn a_run_is_copied_into_a_database_with_all_its_lineages_and_continues_there() {
    check(&fresh(), |kept| {
        let Some(from) = kept.place() else { return };
        let tale = branched_history(kept.lease(), 400);
        kept.lease().save_snapshot(&tale.end("main.6")).unwrap();
        for mut copy in copies_of(&from, &tale.end("main.6")) {
            let (copy, mut tale) = (&mut *copy.lease, tale.clone());
            tale.check(copy, "main.6");
            let more = tale.resume_events(tale.end("main.6"), 70, 60);
            let records = tale.record_events("main.6", &more);
            copy.append(&records, Durability::Full).unwrap();
            copy.save_snapshot(&tale.end("main.6")).unwrap();
            tale.check(copy, "main.6");
        }
    });
}

#[test]
fn what_was_pruned_stays_so_in_a_copy() {
    check(&fresh(), |kept| {
        let Some(from) = kept.place() else { return };
        let tale = branched_history(kept.lease(), 1200);
        let before = kept.lease().checkpoints().unwrap();
        let pruned = prune(kept.lease(), 2);
        for copy in copies_of(&from, &tale.end("main.6")) {
            check_pruned(&tale, &*copy.lease, &before, &pruned);
            tale.check_listed(&*copy.lease, "main.6");
        }
    });
}
