//! What every kind of storage must do when a run is opened again, and when it is taken over.

use strata_base::files::blob::{Blobs, digest_of};
use strata_core::record::id::CheckpointId;
use strata_core::state::environment::Environment;

#[cfg(feature = "postgres")]
use super::TestStorage;
use super::{check, fresh, loaded_state};
use crate::tests::script::pseudorandom;
use crate::tests::script::{definition, scripted_run};
use crate::{Durability, Lease, Record, StateSelector, StoreError, checkpoint_of};
#[cfg(feature = "postgres")]
use strata_base::process::wait::wait;
#[cfg(feature = "postgres")]
use strata_records::database_url::DatabaseUrl;

/// Appends records one by one.
pub(super) fn append(lease: &mut dyn Lease, records: &[Record]) {
    for record in records {
        lease
            .append(std::slice::from_ref(record), Durability::Full)
            .unwrap();
    }
}

/// Checks that a run has these records and this state.
pub(super) fn check_content(lease: &dyn Lease, records: &[Record], end: &Environment) {
    assert_eq!(lease.records(0, usize::MAX).unwrap(), records);
    let saved = lease.load(&StateSelector::Head).unwrap();
    assert_eq!(loaded_state(&saved), *end);
}

#[test]
fn a_run_that_is_opened_again_has_a_larger_epoch_and_goes_on() {
    let (records, end) = scripted_run(&pseudorandom(31, 1000), 60);
    check(&fresh(), |storage| {
        let mut epochs = Vec::new();
        for some in records.chunks(20) {
            append(storage.lease(), some);
            epochs.push(storage.lease().epoch());
            storage.reopen();
        }
        assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
        let saved = storage.lease().load(&StateSelector::Head).unwrap();
        assert_eq!(loaded_state(&saved), end);
    });
}

#[test]
fn opening_a_run_again_and_again_changes_nothing() {
    let (records, _) = scripted_run(&pseudorandom(31, 1000), 60);
    check(&fresh(), |storage| {
        append(storage.lease(), &records);
        for _ in 0..3 {
            storage.reopen();
            assert_eq!(storage.lease().records(0, usize::MAX).unwrap(), records);
        }
    });
}

/// Changes a run in every way that there is. Returns the result of each.
fn change_all(lease: &mut dyn Lease, next: &[Record]) -> Vec<Result<(), StoreError>> {
    let bytes: std::sync::Arc<[u8]> = b"bytes".as_slice().into();
    let blobs = Blobs::from([(digest_of(&bytes), bytes)]);
    let mut definition = definition();
    definition.text = "another".into();
    let state = loaded_state(&lease.load(&StateSelector::Head).unwrap());
    vec![
        lease.append(next, Durability::Process),
        lease.append(next, Durability::Full),
        lease.save_snapshot(&state),
        lease.put_blobs(&blobs),
        lease.set_definition(&definition),
        lease.set_note("name", "text", Durability::Process),
        lease.keep_checkpoints(1),
        lease
            .prune(1, &mut |saved| Ok(loaded_state(&saved)))
            .map(drop),
    ]
}

#[test]
fn a_run_that_was_taken_over_cannot_be_changed_by_its_former_owner() {
    let (records, end) = scripted_run(&pseudorandom(32, 3000), 200);
    let (first, rest) = records.split_at(150);
    check(&fresh(), |storage| {
        append(storage.lease(), first);
        let former_epoch = storage.lease().epoch();
        let mut owner = storage.take_over();
        append(owner.as_mut(), &rest[..20]);
        assert!(owner.epoch() > former_epoch);
        for (n, changed) in change_all(storage.lease(), &rest[..1]).iter().enumerate() {
            assert!(
                matches!(changed, Err(StoreError::Fenced { .. })),
                "change {n}: {changed:?}"
            );
        }
        append(owner.as_mut(), &rest[20..]);
        drop(owner);
        storage.reopen();
        check_content(storage.lease(), &records, &end);
        let lease = storage.lease();
        assert_eq!(lease.definition().unwrap(), definition());
        assert_eq!(lease.note("name").unwrap(), None);
        let listed: Vec<CheckpointId> = lease
            .checkpoints()
            .unwrap()
            .into_iter()
            .map(|row| row.id)
            .collect();
        let made: Vec<CheckpointId> = records
            .iter()
            .filter_map(|record| checkpoint_of(&record.event).cloned())
            .collect();
        assert_eq!(listed, made);
    });
}

#[test]
fn a_run_may_be_taken_over_again_and_again() {
    let (records, end) = scripted_run(&pseudorandom(33, 3000), 120);
    check(&fresh(), |storage| {
        append(storage.lease(), &records[..20]);
        let mut former: Vec<Box<dyn Lease>> = Vec::new();
        for some in records[20..].chunks(20) {
            let mut owner = storage.take_over();
            append(owner.as_mut(), some);
            for lease in &mut former {
                let refused = lease.append(some, Durability::Full);
                assert!(matches!(refused, Err(StoreError::Fenced { .. })));
            }
            former.push(owner);
        }
        drop(former);
        storage.reopen();
        let saved = storage.lease().load(&StateSelector::Head).unwrap();
        assert_eq!(loaded_state(&saved), end);
    });
}

#[cfg(feature = "postgres")]
#[test]
fn nothing_is_lost_or_doubled_when_connections_break() {
    let Some(url) = super::fresh_run() else {
        return;
    };
    let user = strata_postgres::TestUser::create(&url);
    let mut storage = super::DatabaseStorage::at(user.database.clone(), &fresh());
    let (records, end) = scripted_run(&pseudorandom(35, 3000), 120);
    for (n, some) in records.chunks(6).enumerate() {
        if n % 3 == 0 {
            user.break_connections();
        }
        append(storage.lease(), some);
        if n % 5 == 0 {
            user.break_connections();
            let note = n.to_string();
            let noted = storage.lease().set_note("n", &note, Durability::Full);
            noted.unwrap();
        }
    }
    assert_eq!(storage.lease().records(0, usize::MAX).unwrap(), records);
    storage.reopen();
    let saved = storage.lease().load(&StateSelector::Head).unwrap();
    assert_eq!(loaded_state(&saved), end);
}

#[cfg(feature = "postgres")]
#[test]
fn an_owner_that_was_taken_for_dead_learns_so_without_a_change() {
    let Some(mut storage) = super::DatabaseStorage::new(&fresh()) else {
        return;
    };
    let mut status = storage.lease().status();
    assert!(status.is_confirmed());
    let owner = storage.take_over();
    let error = wait(status.lost());
    assert!(matches!(error, StoreError::Fenced { .. }), "{error:?}");
    assert!(!status.is_confirmed() && owner.status().is_confirmed());
}

#[cfg(feature = "postgres")]
#[test]
fn what_killed_processes_left_behind_is_removed_when_it_is_old() {
    let Some(storage) = super::DatabaseStorage::new(&fresh()) else {
        return;
    };
    let left = strata_postgres::leave_behind(&storage.url);
    assert_eq!(left(), [3, 3]);
    strata_postgres::clean_up(&storage.url);
    assert_eq!(left(), [0, 3]);
}

#[cfg(feature = "postgres")]
#[test]
fn a_run_is_appended_to_without_prepared_statements() {
    let Some(run) = super::fresh_run() else {
        return;
    };
    let unprepared = super::Database::at(DatabaseUrl {
        can_prepare: false,
        ..run.url().clone()
    });
    let mut storage = super::DatabaseStorage::at(unprepared, &fresh());
    let (records, end) = scripted_run(&pseudorandom(37, 3000), 150);
    append(storage.lease(), &records);
    storage.reopen();
    check_content(storage.lease(), &records, &end);
}

#[cfg(feature = "postgres")]
#[test]
fn runs_that_append_at_the_same_time_do_not_disturb_each_other_when_some_are_taken_over() {
    const RUNS: usize = 12;
    let (records, end) = scripted_run(&pseudorandom(36, 3000), 60);
    let mut storages = Vec::new();
    for _ in 0..RUNS {
        let Some(storage) = super::DatabaseStorage::new(&fresh()) else {
            return;
        };
        storages.push(storage);
    }
    std::thread::scope(|scope| {
        for (n, storage) in storages.iter_mut().enumerate() {
            let records = &records;
            scope.spawn(move || {
                append(storage.lease(), &records[..30]);
                if n % 3 == 0 {
                    let mut owner = storage.take_over();
                    append(owner.as_mut(), &records[30..31]);
                    let refused = storage.lease().append(&records[31..32], Durability::Full);
                    assert!(
                        matches!(refused, Err(StoreError::Fenced { .. })),
                        "{refused:?}"
                    );
                    append(owner.as_mut(), &records[31..]);
                } else {
                    append(storage.lease(), &records[30..]);
                }
            });
        }
    });
    for storage in &mut storages {
        storage.reopen();
        check_content(storage.lease(), &records, &end);
    }
}
