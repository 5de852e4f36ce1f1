//! Databases that go back to an earlier state of a run whose owner is alive: what they lost is stored again, if it is
//! certain that it belongs there. Rows are removed by hand; a standby that lacks some is in the tests of the program.

use std::sync::Arc;

use strata_base::files::blob::{Blobs, digest_of};
use strata_postgres::Database;
use strata_postgres::{declare_dead, tamper};
use strata_records::database_url::DatabaseUrl;

use super::leases::{append, check_content};
use super::postgres_server::{create_database, query};
use super::{DatabaseStorage, TestStorage, fresh, loaded_state, replay};
use crate::tests::script::pseudorandom;
use crate::tests::script::scripted_run;
use crate::{Durability, StateSelector, StoreError};

/// Loses the newest events of a run.
fn lose_newest(url: &Database, events: usize) {
    let sql = format!(
        "DELETE FROM strata.event WHERE run = $1 \
         AND n > (SELECT max(n) - {events} FROM strata.event WHERE run = $1)"
    );
    tamper(url, &sql);
}

/// Returns how many events of a run are stored. The row of its lineage may know others.
fn stored_events(url: &Database) -> usize {
    let name = url.run().unwrap();
    let sql = format!(
        "SELECT count(*) FROM strata.event e JOIN strata.run r ON r.id = e.run WHERE r.name = '{name}'"
    );
    query(&url.whole().to_string(), &sql).parse().unwrap()
}

fn blobs(size: usize) -> Blobs {
    let bytes: Arc<[u8]> = vec![7; size].into();
    Blobs::from([(digest_of(&bytes), bytes)])
}

#[test]
fn events_that_a_database_lost_are_stored_again_before_others() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, end) = scripted_run(&pseudorandom(34, 3000), 200);
    let mut appended = 0;
    for (n, some) in records.chunks(20).enumerate() {
        for (i, record) in some.iter().enumerate() {
            // What the server had to keep is not needed to know what it lost.
            let durability = match i % 2 {
                0 => Durability::Process,
                _ => Durability::Full,
            };
            let one = std::slice::from_ref(record);
            storage.lease().append(one, durability).unwrap();
        }
        appended += some.len();
        let lost = [1, 2, 19, appended][n % 4];
        lose_newest(&storage.url, lost);
        assert_eq!(stored_events(&storage.url), appended - lost);
        if n % 3 == 0 {
            let noted = storage.lease().set_note("n", "text", Durability::Full);
            noted.unwrap();
            assert_eq!(stored_events(&storage.url), appended);
        }
    }
    storage.lease().save_snapshot(&end).unwrap();
    storage.reopen();
    check_content(storage.lease(), &records, &end);
}

#[test]
fn an_owner_that_appends_nothing_stores_again_what_a_database_lost() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, end) = scripted_run(&pseudorandom(35, 1000), 40);
    append(storage.lease(), &records);
    storage.lease().ensure_stored().unwrap();
    lose_newest(&storage.url, 5);
    storage.lease().ensure_stored().unwrap();
    check_content(storage.lease(), &records, &end);
    // Nor when it ends.
    lose_newest(&storage.url, 5);
    storage.reopen();
    check_content(storage.lease(), &records, &end);
}

#[test]
fn what_is_too_old_to_be_known_is_lost() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(36, 1000), 60);
    append(storage.lease(), &records[..40]);
    // There is no room for anything else that was changed lately.
    storage.lease().put_blobs(&blobs(17 << 20)).unwrap();
    append(storage.lease(), &records[40..42]);
    lose_newest(&storage.url, 2);
    append(storage.lease(), &records[42..43]);
    lose_newest(&storage.url, 4);
    for durability in [Durability::Process, Durability::Full] {
        let refused = storage.lease().append(&records[43..44], durability);
        assert!(
            matches!(refused, Err(StoreError::Lost { .. })),
            "{refused:?}"
        );
    }
    assert_eq!(stored_events(&storage.url), 39);
    let refused = storage.lease().ensure_stored();
    assert!(
        matches!(refused, Err(StoreError::Lost { .. })),
        "{refused:?}"
    );
    storage.reopen();
    append(storage.lease(), &records[39..]);
    let saved = storage.lease().load(&StateSelector::Head).unwrap();
    assert_eq!(loaded_state(&saved), replay(&records));
}

#[test]
fn what_a_database_need_not_have_kept_is_another_error_if_it_is_too_old_to_be_known() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(39, 1000), 60);
    append(storage.lease(), &records[..40]);
    let process = Durability::Process;
    storage.lease().append(&records[40..43], process).unwrap();
    storage.lease().put_blobs(&blobs(17 << 20)).unwrap();
    lose_newest(&storage.url, 2);
    let refused = storage.lease().append(&records[43..44], Durability::Full);
    assert!(
        matches!(refused, Err(StoreError::RolledBack { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_database_with_other_events_is_left_alone() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(37, 1000), 60);
    append(storage.lease(), &records[..40]);
    let newest = "n = (SELECT max(n) FROM strata.event WHERE run = $1)";
    let other = format!("UPDATE strata.event SET sum = sum # 1 WHERE run = $1 AND {newest}");
    tamper(&storage.url, &other);
    let refused = storage.lease().append(&records[40..41], Durability::Full);
    assert!(
        matches!(refused, Err(StoreError::Lost { .. })),
        "{refused:?}"
    );
    let hole = "DELETE FROM strata.event WHERE run = $1 AND n IN (37, 40)";
    tamper(&storage.url, hole);
    let refused = storage.lease().append(&records[40..41], Durability::Full);
    assert!(
        matches!(refused, Err(StoreError::Lost { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_run_that_has_another_owner_is_left_alone() {
    let (records, _) = scripted_run(&pseudorandom(38, 1000), 60);
    let check = |change: fn(&Database)| {
        let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
            return;
        };
        append(storage.lease(), &records[..40]);
        lose_newest(&storage.url, 3);
        change(&storage.url);
        let refused = storage.lease().append(&records[40..41], Durability::Full);
        assert!(
            matches!(refused, Err(StoreError::Fenced { .. })),
            "{refused:?}"
        );
        assert_eq!(stored_events(&storage.url), 37);
    };
    check(|url| tamper(url, "UPDATE strata.run SET epoch = epoch + 1 WHERE id = $1"));
    // If the database lost that this process took the run, the next one gets the same epoch.
    check(|url| tamper(url, "UPDATE strata.run SET owner = 'other' WHERE id = $1"));
    check(|url| {
        declare_dead(url);
        tamper(url, "UPDATE strata.run SET owner = NULL WHERE id = $1");
    });
}

#[test]
fn a_database_that_was_restored_is_left_alone() {
    let Some(database) = create_database(&format!("restored-{}", std::process::id())) else {
        return;
    };
    let url = Database::at(DatabaseUrl::parse(&database).unwrap()).with_run("one");
    let mut storage = DatabaseStorage::at(url, &fresh());
    let (records, _) = scripted_run(&pseudorandom(38, 1000), 60);
    append(storage.lease(), &records[..40]);
    lose_newest(&storage.url, 3);
    // The epoch does not tell, as if the restored copy had the same one by chance.
    tamper(
        &storage.url,
        "UPDATE strata.meta SET incarnation = 'other' WHERE $1::bigint > 0",
    );
    let refused = storage.lease().append(&records[40..41], Durability::Full);
    assert!(
        matches!(refused, Err(StoreError::Restored { .. })),
        "{refused:?}"
    );
    assert_eq!(stored_events(&storage.url), 37);
}

#[test]
fn files_that_a_database_lost_are_stored_again() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, end) = scripted_run(&pseudorandom(40, 1000), 60);
    let files = blobs(1000);
    let digest = files.keys().next().unwrap();
    let lose_files = "DELETE FROM strata.blob WHERE run = $1";
    append(storage.lease(), &records[..20]);
    storage.lease().put_blobs(&files).unwrap();
    // Before the event that names them is appended, so that no event is missing.
    tamper(&storage.url, lose_files);
    append(storage.lease(), &records[20..21]);
    assert!(storage.lease().blob(digest).unwrap().is_some());
    // Together with that event.
    tamper(&storage.url, lose_files);
    lose_newest(&storage.url, 1);
    append(storage.lease(), &records[21..]);
    assert!(storage.lease().blob(digest).unwrap().is_some());
    storage.reopen();
    check_content(storage.lease(), &records, &end);
}

#[test]
fn states_that_a_database_lost_do_not_make_later_ones_unreadable() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, end) = scripted_run(&pseudorandom(41, 3000), 200);
    let state_after = |count: usize| replay(&records[..count]);
    append(storage.lease(), &records[..100]);
    storage.lease().save_snapshot(&state_after(100)).unwrap();
    // The states and the messages that they share. No event is missing.
    for table in ["snapshot", "bundle"] {
        let sql = format!("DELETE FROM strata.{table} WHERE run = $1 AND n > 0");
        tamper(&storage.url, &sql);
    }
    append(storage.lease(), &records[100..]);
    storage.lease().save_snapshot(&end).unwrap();
    storage.reopen();
    check_content(storage.lease(), &records, &end);
}

#[test]
fn a_definition_and_a_note_that_a_database_lost_are_stored_again() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(42, 1000), 60);
    append(storage.lease(), &records[..20]);
    let before = storage.lease().definition().unwrap();
    let mut definition = before.clone();
    definition.text = "another".into();
    storage.lease().set_definition(&definition).unwrap();
    let noted = storage.lease().set_note("n", "text", Durability::Full);
    noted.unwrap();
    append(storage.lease(), &records[20..22]);
    tamper(&storage.url, "DELETE FROM strata.note WHERE run = $1");
    tamper(&storage.url, "DELETE FROM strata.definition WHERE run = $1");
    lose_newest(&storage.url, 2);
    append(storage.lease(), &records[22..23]);
    assert_eq!(storage.lease().definition().unwrap(), definition);
    assert_eq!(storage.lease().note("n").unwrap().as_deref(), Some("text"));
}
