//! What servers remember in a database, whichever kind that is, and the files that are uploaded to them.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::Duration;

use strata_base::clock::now_ms;
use strata_base::files::blob::digest_of;

use super::served::{NewRun, check};
use crate::{ServedFilter, ServerRecord, StoreError};

fn record(tenant: &str, name: &str, text: &str) -> ServerRecord {
    ServerRecord {
        kind: "note".into(),
        tenant: tenant.into(),
        name: name.into(),
        text: text.into(),
        ..ServerRecord::default()
    }
}

fn texts(records: &[ServerRecord]) -> Vec<&str> {
    records.iter().map(|one| one.text.as_str()).collect()
}

#[test]
fn a_record_is_inserted_once_replaced_listed_and_deleted() {
    check("records", |database| {
        let records = database.records().unwrap();
        let (red, blue) = (record("red", "a", "1"), record("blue", "a", "2"));
        assert_eq!(records.insert_record(&red).unwrap(), None);
        assert_eq!(records.insert_record(&blue).unwrap(), None);
        let other = record("red", "a", "3");
        assert_eq!(records.insert_record(&other).unwrap(), Some(red.clone()));
        assert_eq!(records.read_record("note", "red", "a").unwrap(), Some(red));
        records.put_record(&other).unwrap();
        records.put_record(&record("red", "B", "4")).unwrap();
        let of_red = records.list_records("note", Some("red")).unwrap();
        assert_eq!(texts(&of_red), ["4", "3"]);
        let all = records.list_records("note", None).unwrap();
        assert_eq!(texts(&all), ["2", "4", "3"]);
        assert_eq!(records.list_records("other", None).unwrap(), []);
        assert!(records.delete_record("note", "red", "a").unwrap());
        assert!(!records.delete_record("note", "red", "a").unwrap());
        for name in ["a", "", "a\0b", "é"] {
            assert_eq!(records.read_record("note", "red", name).unwrap(), None);
        }
        assert!(!records.delete_record("note", "red", "a\0b").unwrap());
        // Another process finds what is stored.
        let again = database.records().unwrap();
        assert_eq!(
            texts(&again.list_records("note", None).unwrap()),
            ["2", "4"]
        );
    });
}

#[test]
fn a_record_counts_until_its_time_is_over() {
    check("expiry", |database| {
        let records = database.records().unwrap();
        let until = |text: &str, expires_ms| ServerRecord {
            expires_ms: Some(expires_ms),
            ..record("red", text, text)
        };
        let (over, later) = (
            until("over", now_ms() - 1),
            until("later", now_ms() + 60_000),
        );
        records.put_record(&over).unwrap();
        records.put_record(&later).unwrap();
        assert_eq!(records.read_record("note", "red", "over").unwrap(), None);
        let listed = records.list_records("note", None).unwrap();
        assert_eq!(listed.as_slice(), std::slice::from_ref(&later));
        // It makes room for another of its name.
        let new = record("red", "over", "new");
        assert_eq!(records.insert_record(&new).unwrap(), None);
        assert_eq!(records.insert_record(&over).unwrap(), Some(new.clone()));
        records.put_record(&until("gone", now_ms() - 1)).unwrap();
        records.delete_expired_records(now_ms()).unwrap();
        assert!(!records.delete_record("note", "red", "gone").unwrap());
        let listed = records.list_records("note", None).unwrap();
        assert_eq!(listed, [later, new]);
    });
}

#[test]
fn what_belongs_to_a_run_is_deleted_with_it_and_an_uploaded_file_stays() {
    check("deleted", |database| {
        let records = database.records().unwrap();
        let (uploaded, submitted) = (b"uploaded".as_slice(), b"submitted".as_slice());
        let blob = ServerRecord {
            kind: "blob".into(),
            ..record("red", &digest_of(uploaded).0, "8")
        };
        // Once more does no harm.
        for _ in 0..2 {
            let digest = digest_of(uploaded);
            records.put_file(&digest, uploaded.to_vec(), &blob).unwrap();
        }
        let run = NewRun {
            files: &[uploaded, submitted],
            records: &[record("red", "other", "other")],
            ..NewRun::named("one")
        };
        let id = run.submit(database).unwrap();
        let own = ServerRecord {
            run: Some(id.clone()),
            ..record("red", "own", "own")
        };
        records.put_record(&own).unwrap();
        let read = |bytes: &[u8]| records.read_file(&digest_of(bytes)).unwrap();
        assert_eq!(read(uploaded).as_deref(), Some(uploaded));
        assert_eq!(read(submitted).as_deref(), Some(submitted));
        database.location("one").delete_run(None).unwrap();
        assert_eq!(database.find_served_by_id(&id).unwrap(), None);
        assert_eq!(read(uploaded).as_deref(), Some(uploaded));
        assert_eq!(read(submitted), None);
        let left = records.list_records("note", None).unwrap();
        assert_eq!(texts(&left), ["other"]);
    });
}

#[test]
fn of_several_submissions_with_the_same_record_one_is_made() {
    const TRIES: usize = 8;
    check("same-record", |database| {
        let begin = Barrier::new(TRIES);
        let submit = |n: usize| {
            let name = format!("run-{n}");
            let run = NewRun {
                records: &[record("red", "key", &n.to_string())],
                ..NewRun::named(&name)
            };
            begin.wait();
            match run.submit(database) {
                Ok(_) => Ok(n.to_string()),
                Err(StoreError::RecordTaken { record }) => Err(record.text),
                Err(error) => panic!("{error}"),
            }
        };
        let outcomes: Vec<Result<String, String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..TRIES)
                .map(|n| {
                    let submit = &submit;
                    scope.spawn(move || submit(n))
                })
                .collect();
            let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
            outcomes.collect()
        });
        let made: Vec<&String> = outcomes
            .iter()
            .filter_map(|one| one.as_ref().ok())
            .collect();
        assert_eq!(made.len(), 1, "{outcomes:?}");
        let present = outcomes.iter().filter_map(|one| one.as_ref().err());
        let present: BTreeSet<&String> = present.collect();
        assert_eq!(present, made.into_iter().collect());
        let runs = database.list_served(&ServedFilter::default(), 10).unwrap();
        assert_eq!(runs.len(), 1);
        // A name that is taken leaves no record behind.
        let name = runs[0].name().to_owned();
        let same = NewRun {
            records: &[record("red", "left", "left")],
            ..NewRun::named(&name)
        };
        let taken = same.submit(database);
        assert!(matches!(taken, Err(StoreError::NameTaken { .. })));
        let records = database.records().unwrap();
        assert_eq!(records.read_record("note", "red", "left").unwrap(), None);
    });
}

#[test]
fn a_name_is_held_by_one_at_a_time() {
    check("held", |database| {
        // As of two servers.
        let (one, other) = (database.records().unwrap(), database.records().unwrap());
        let held = one.hold("red", "key").unwrap();
        assert!(held.is_some());
        assert!(other.hold("red", "key").unwrap().is_none());
        assert!(one.hold("red", "key").unwrap().is_none());
        let elsewhere = other.hold("blue", "key").unwrap();
        assert!(elsewhere.is_some() && other.hold("red", "more").unwrap().is_some());
        drop(held);
        let begun = now_ms();
        while other.hold("red", "key").unwrap().is_none() {
            assert!(now_ms() - begun < 2_000);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[cfg(feature = "postgres")]
#[test]
fn a_name_that_a_killed_server_held_is_free_after_some_time() {
    check("left-held", |database| {
        if !database.to_string().starts_with("postgres") {
            return;
        }
        let records = database.records().unwrap();
        let left = ServerRecord {
            kind: "hold".into(),
            expires_ms: Some(now_ms() + 700),
            ..record("red", "key", "of a killed process")
        };
        records.put_record(&left).unwrap();
        assert!(records.hold("red", "key").unwrap().is_none());
        std::thread::sleep(Duration::from_millis(900));
        let held = records.hold("red", "key").unwrap();
        // The end of one that lasts is put off.
        std::thread::sleep(Duration::from_millis(2_500));
        let found = records.read_record("hold", "red", "key").unwrap().unwrap();
        assert!(found.expires_ms.unwrap() > now_ms() + 8_000, "{found:?}");
        assert!(held.is_some() && records.hold("red", "key").unwrap().is_none());
    });
}
