//! How what is stored is read: alike with and without other threads, piece by piece while others prune, and within limits.

use std::sync::Arc;

use rusqlite::params;
use strata_records::codec::{self, EncodedMessages, MessageBundle};

use super::conformance::{loaded_state, replay};
use super::damage::saved;
use super::script::{definition, pseudorandom, scripted_run};
use crate::sqlite::rows::SqliteRows;
use crate::{Durability, Lease, Reader, Record, RecordedRun, ReplacePolicy, StorageDirectory};

#[test]
fn a_state_is_read_alike_with_and_without_other_threads() {
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path().join("store"));
    let mut store = directory
        .create(ReplacePolicy::Never, &replay(&[]), &definition())
        .unwrap()
        .lease;
    let mut records = scripted_run(&pseudorandom(6, 8_000), 700).0.into_iter();
    let mut so_far = Vec::new();
    while records.len() > 0 {
        let next: Vec<_> = records.by_ref().take(100).collect();
        store.append(&next, Durability::Process).unwrap();
        so_far.extend(next);
        store.save_snapshot(&replay(&so_far)).unwrap();
    }
    let reader = SqliteRows::open(&directory).unwrap();
    let bundles = reader.snapshots().unwrap().pop().unwrap().bundles;
    let read = |threads| reader.states().messages_of(&bundles, threads).unwrap();
    assert_eq!(read(Some(2)), read(None));
}

#[test]
fn messages_that_would_take_far_more_room_than_their_file_are_refused() {
    let (_temp, directory, ..) = saved(60);
    let conn = rusqlite::Connection::open(directory.database()).unwrap();
    // One message with a million recipients, all of them empty strings.
    let EncodedMessages {
        messages,
        texts,
        body,
    } = codec::encode_messages(&mut [Arc::new(crowd(1_000_000))].iter());
    assert!(messages == 1 && body.len() < 8 << 10, "{}", body.len());
    let bundles = [1, 2].map(|n| MessageBundle {
        key: n,
        messages,
        texts,
    });
    conn.execute("DELETE FROM bundle", []).unwrap();
    for n in [1, 2] {
        let row = params![n, codec::checksum(&[n, 1], &body), body];
        conn.execute("INSERT INTO bundle VALUES (?1, ?2, ?3)", row)
            .unwrap();
    }
    conn.close().unwrap();
    let reader = SqliteRows::open(&directory).unwrap();
    assert!(reader.states().check_messages(&bundles, 50 << 20).is_ok());
    let error = reader
        .states()
        .check_messages(&bundles, 40 << 20)
        .unwrap_err()
        .to_string();
    assert!(error.contains("its messages would take 45 MiB"), "{error}");
}

fn crowd(names: usize) -> strata_core::record::message::Message {
    let message =
        strata_core::record::message::Message::from_user("m".into(), String::new(), "label".into());
    strata_core::record::message::Message {
        send_to: vec![String::new(); names],
        ..message
    }
}

#[test]
fn who_reads_piece_by_piece_passes_over_nothing_that_is_there_when_others_are_pruned_meanwhile() {
    let (records, _) = scripted_run(&pseudorandom(6, 8_000), 700);
    for read in [1, 40, 350, 650, 700] {
        let temp = tempfile::tempdir().unwrap();
        let directory = StorageDirectory::new(temp.path().join("store"));
        let mut store = directory
            .create(ReplacePolicy::Never, &replay(&[]), &definition())
            .unwrap()
            .lease;
        for until in (100..=700).step_by(100) {
            store
                .append(&records[until - 100..until], Durability::Process)
                .unwrap();
            store.save_snapshot(&replay(&records[..until])).unwrap();
        }
        let reader = SqliteRows::open(&directory).unwrap();
        let (begun, place) = reader.batch_after(0, read).unwrap();
        assert_eq!((begun.as_slice(), place), (&records[..read], read as u64));
        store
            .prune(3, &mut |saved| Ok(loaded_state(&saved)))
            .unwrap();
        let left = reader.records(0, usize::MAX).unwrap();
        assert!(left.len() < records.len(), "something was pruned");
        let rest: Vec<Record> = (&reader as &dyn Reader)
            .records_after(place)
            .map(|record| record.unwrap())
            .collect();
        let expected: Vec<&Record> = records[read..]
            .iter()
            .filter(|record| left.contains(record))
            .collect();
        assert_eq!(rest.iter().collect::<Vec<_>>(), expected);
    }
}
