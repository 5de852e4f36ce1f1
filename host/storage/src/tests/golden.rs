//! Golden files of what the store writes; see `strata_base::golden`.

#[cfg(feature = "postgres")]
mod database;
mod events;
mod request_events;
mod samples;
mod server_events;

use std::path::Path;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde::de::DeserializeOwned;
use strata_records::codec;
use tempfile::TempDir;

use strata_base::golden::{from_hex, golden, golden_bytes, stored_bytes};
use strata_core::record::asking_call::AskingProgress;
use strata_core::record::conversation::{AssistantPart, MediaSource, Part};
use strata_core::record::edit::EditedScope;
use strata_core::record::event::{AttemptEvent, Event, ServerState, Status};
use strata_core::record::fault::{FaultCause, FaultHandling, FaultKind, Retryability};
use strata_core::record::file::PathContent;
use strata_core::record::host_call::{
    AnswerSource, CallOutcome, CallPolicy, DoubtResolution, FinishReason, Grant, HostCallKind,
    LostAnswerPolicy, RecordedCallUse, WriteResult,
};
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::SlotKind;
use strata_core::record::message::Message;
use strata_core::record::rules::{Reducer, Thinker};
use strata_core::record::scope_write::ScopeChange;
use strata_core::record::shape::{DeliveryMode, JoinMode};
use strata_core::record::turn::{
    CallDecision, CallEffect, CallRevision, ReplyMessage, ToolRef, TurnOutcome,
};
use strata_core::record::work::{CallResult, Work};
use strata_core::state::activation::{Addressing, Consent, Phase, ToolOutcome};
use strata_core::state::environment::Environment;
use strata_core::state::environment::routing::OwnMessages;

use super::conformance::{loaded_state, replay};
use super::script::pseudorandom;
use super::script::{definition, normalized, scripted_run, team};
use crate::TEAM_JSON;
use crate::directory::names::DATABASE;
use crate::lock::{LOCK_FILE, directory_holder};
use crate::owner_socket::RunSocket;
use crate::sqlite::rows::SqliteRows;
use crate::{
    Durability, Lease, LockHolder, Reader, Record, RecordedRun, ReplacePolicy, SqliteReader,
    StateSelector, StorageDirectory, StorageLock,
};

/// The process id in the golden file of the lock.
const PID: &str = "4321";

/// Returns the names of the variants of an enum, in the order in which they are declared. Records
/// contain the position of a variant in this order.
fn variants<T: DeserializeOwned>() -> Vec<String> {
    let error = serde_json::from_str::<T>(r#"{ "no variant": null }"#).err();
    let message = error.expect("no enum has this variant").to_string();
    let (_, expected) = message
        .split_once("expected ")
        .expect("it names the variants");
    expected
        .split('`')
        .skip(1)
        .step_by(2)
        .map(String::from)
        .collect()
}

#[test]
fn the_variants_of_recorded_enums_have_their_places() {
    let mut text = String::new();
    let mut add = |name: &str, variants: Vec<String>| {
        text += &format!("{name}: {}\n", variants.join(" "));
    };
    add("Addressing", variants::<Addressing>());
    add("AnswerSource", variants::<AnswerSource>());
    add("AskingProgress", variants::<AskingProgress>());
    add("AssistantPart", variants::<AssistantPart>());
    add("AttemptEvent", variants::<AttemptEvent>());
    add("CallDecision", variants::<CallDecision>());
    add("CallEffect", variants::<CallEffect>());
    add("CallOutcome", variants::<CallOutcome>());
    add("CallPolicy", variants::<CallPolicy>());
    add("CallResult", variants::<CallResult>());
    add("CallRevision", variants::<CallRevision>());
    add("Consent", variants::<Consent>());
    add("DeliveryMode", variants::<DeliveryMode>());
    add("DoubtResolution", variants::<DoubtResolution>());
    add("EditedScope", variants::<EditedScope>());
    add("Event", variants::<Event>());
    add("FaultCause", variants::<FaultCause>());
    add("FaultHandling", variants::<FaultHandling>());
    add("FaultKind", variants::<FaultKind>());
    add("FinishReason", variants::<FinishReason>());
    add("Grant", variants::<Grant>());
    add("HostCallKind", variants::<HostCallKind>());
    add("HumanAnswer", variants::<HumanAnswer>());
    add("JoinMode", variants::<JoinMode>());
    add("LostAnswerPolicy", variants::<LostAnswerPolicy>());
    add("MediaSource", variants::<MediaSource>());
    add("OwnMessages", variants::<OwnMessages>());
    add("Part", variants::<Part>());
    add("PathContent", variants::<PathContent>());
    add("Phase", variants::<Phase>());
    add("RecordedCallUse", variants::<RecordedCallUse>());
    add("Reducer", variants::<Reducer>());
    add("ReplyMessage", variants::<ReplyMessage>());
    add("Retryability", variants::<Retryability>());
    add("ScopeChange", variants::<ScopeChange>());
    add("ServerState", variants::<ServerState>());
    add("SlotKind", variants::<SlotKind>());
    add("Status", variants::<Status>());
    add("Thinker", variants::<Thinker>());
    add("ToolOutcome", variants::<ToolOutcome>());
    add("ToolRef", variants::<ToolRef>());
    add("TurnOutcome", variants::<TurnOutcome>());
    add("Work", variants::<Work>());
    add("WriteResult", variants::<WriteResult>());
    golden("enums.txt", text.as_bytes());
}

/// Returns the name of the variant of a value.
fn variant_name(value: &impl std::fmt::Debug) -> String {
    let debug = format!("{value:?}");
    let end = debug.find(['(', ' ']).unwrap_or(debug.len());
    debug[..end].to_owned()
}

#[test]
fn an_event_of_each_variant_is_recorded_as_in_the_golden_file() {
    let events = events::all();
    let mut text = String::new();
    let (mut names, mut attempts) = (Vec::new(), Vec::new());
    for event in &events {
        let name = match event {
            Event::Attempt(_, event) => {
                attempts.push(variant_name(event));
                format!("Attempt::{}", variant_name(event))
            }
            event => variant_name(event),
        };
        let bytes = codec::encode_event(event, Vec::new());
        text += &format!("{name} {}\n", strata_core::record::id::to_hex(&bytes));
        names.push(variant_name(event));
    }
    names.dedup();
    attempts.dedup();
    assert_eq!(names, variants::<Event>(), "each variant has an example");
    assert_eq!(
        attempts,
        variants::<AttemptEvent>(),
        "each variant has an example"
    );
    let text = golden("events.txt", text.as_bytes());
    let read: Vec<Event> = String::from_utf8(text)
        .unwrap()
        .lines()
        .map(|line| from_hex(line.split_once(' ').unwrap().1.as_bytes()))
        .map(|bytes| codec::decode_event(&bytes).unwrap())
        .collect();
    assert_eq!(read, events);
}

/// Returns the records of a run, and the state after them. The run has parallel activations, host
/// calls, writes in doubt, requests to people, joins and faults.
fn run() -> (Vec<Record>, Environment) {
    scripted_run(&pseudorandom(21, 800), 100)
}

#[test]
fn a_snapshot_is_saved_as_in_the_golden_file() {
    let (_, env) = run();
    let plain = strata_base::codec::decompress(&codec::encode_snapshot(&env))
        .unwrap()
        .into_owned();
    let bytes = golden_bytes("snapshot.hex", &plain);
    let (open, read) = codec::decode_snapshot(&bytes).unwrap();
    let mut expected = env.clone();
    expected.messages = Default::default();
    assert_eq!(read, expected);
    let rest = env
        .messages
        .range(env.final_message_count()..env.messages.len());
    assert!(open.iter().eq(rest), "the messages that may still change");
}

#[test]
fn a_bundle_of_messages_is_saved_as_in_the_golden_file() {
    let (_, env) = run();
    let messages = || env.messages.range(0..3);
    let bundle = codec::encode_messages(&mut messages());
    let bytes = golden_bytes("bundle.hex", &bundle.body);
    let read = codec::decode_messages(&bytes, bundle.messages).unwrap();
    assert!(read.iter().eq(messages()));
}

#[test]
fn a_compressed_bundle_is_read() {
    let text = "the same words again and again, ".repeat(200);
    let message = Arc::new(Message::from_user("m".into(), text, "label".into()));
    let bundle = codec::encode_messages(&mut [message.clone()].iter());
    let (count, written) = (bundle.messages, bundle.body);
    // A later version of the library may compress it to other bytes.
    let bytes = stored_bytes("compressed-bundle.hex", &written);
    for bytes in [bytes, written] {
        assert!(bytes.len() < 1_000, "it is compressed");
        let read = codec::decode_messages(&bytes, count).unwrap();
        assert_eq!(read, std::slice::from_ref(&message));
    }
}

/// Creates a storage with the first events of the run, a snapshot among them, a blob and another
/// lineage.
fn create_storage(events: usize) -> (TempDir, StorageDirectory) {
    let (records, end) = run();
    let (records, temp) = (&records[..events], tempfile::tempdir().unwrap());
    let directory = StorageDirectory::new(temp.path().join("store"));
    let created = directory.create(
        ReplacePolicy::Never,
        &Environment::new(&team()),
        &definition(),
    );
    let mut store = created.unwrap().lease;
    let (first, rest) = records.split_at(16);
    store.append(first, Durability::Process).unwrap();
    store.save_snapshot(&replay(first)).unwrap();
    store.append(rest, Durability::Process).unwrap();
    let bytes: Arc<[u8]> = b"the bytes of a file".as_slice().into();
    let blobs = [(strata_base::files::blob::digest_of(&bytes), bytes)]
        .into_iter()
        .collect();
    store.put_blobs(&blobs).unwrap();
    super::damage::add_lineage(&mut store);
    let fill: &crate::WriteContent<'_> =
        &|out| strata_team_json::write(&team(), &end, &definition(), out);
    let file = directory.projection();
    file.write(&mut store, fill, Durability::Full).unwrap();
    drop(store);
    (temp, directory)
}

/// Returns the SQL statements that create a copy of a database: its schema and all rows. The change
/// stamp in the note about `team.json` differs between two files and is left out.
fn dump(path: &Path) -> String {
    let conn = Connection::open(path).unwrap();
    let number = |name: &str| -> i64 {
        conn.pragma_query_value(None, name, |row| row.get(0))
            .unwrap()
    };
    let mut text = format!(
        "PRAGMA application_id = {};\nPRAGMA user_version = {};\n",
        number("application_id"),
        number("user_version")
    );
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY rowid";
    let mut statement = conn.prepare(sql).unwrap();
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let tables = statement.query_map([], read).unwrap();
    let tables: Vec<(String, String)> = tables.map(Result::unwrap).collect();
    for (_, sql) in &tables {
        text += &format!("{sql};\n");
    }
    for (table, _) in &tables {
        let mut statement = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let values: Vec<String> = (0..columns)
                .map(|at| match statement_column(row, at) {
                    "text" if table == "note" => {
                        let note: String = row.get(at).unwrap();
                        let [current, next, _]: [String; 3] = serde_json::from_str(&note).unwrap();
                        format!("'{}'", serde_json::json!([current, next, ""]))
                    }
                    _ => literal(row.get_ref(at).unwrap()),
                })
                .collect();
            text += &format!("INSERT INTO {table} VALUES ({});\n", values.join(", "));
        }
    }
    text
}

fn statement_column<'a>(row: &'a Row<'_>, at: usize) -> &'a str {
    row.as_ref().column_name(at).unwrap()
}

/// Returns a value as SQL.
fn literal(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".into(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => {
            format!("'{}'", String::from_utf8_lossy(text).replace('\'', "''"))
        }
        ValueRef::Blob(bytes) => format!("X'{}'", strata_core::record::id::to_hex(bytes)),
        ValueRef::Real(_) => panic!("no column has such numbers"),
    }
}

/// Compares a database with a golden file, and what is read from both.
fn check_database(name: &str, written: &StorageDirectory) {
    let text = golden(name, dump(&written.database()).as_bytes());
    let temp = tempfile::tempdir().unwrap();
    let directory = StorageDirectory::new(temp.path());
    let conn = Connection::open(directory.path().join(DATABASE)).unwrap();
    conn.execute_batch(&String::from_utf8(text).unwrap())
        .unwrap();
    conn.close().unwrap();
    let [found, expected] =
        [&directory, written].map(|directory| SqliteRows::open(directory).unwrap());
    assert_eq!(found.dropped().unwrap(), expected.dropped().unwrap());
    let checkpoints = expected.checkpoints().unwrap();
    assert_eq!(found.checkpoints().unwrap(), checkpoints);
    assert_eq!(found.lineages().unwrap(), expected.lineages().unwrap());
    assert_eq!(found.definition().unwrap(), definition());
    for row in checkpoints {
        let at = StateSelector::Checkpoint(row.id);
        let [found, expected] = [&found, &expected].map(|reader| reader.load(&at).unwrap());
        assert_eq!(loaded_state(&found), loaded_state(&expected));
    }
    let newest = |reader: &SqliteReader| reader.load(&StateSelector::Head).unwrap();
    assert_eq!(newest(&found), newest(&expected));
    // The program that writes accepts it, too.
    directory.open().unwrap();
}

#[test]
fn a_database_has_the_schema_and_the_rows_of_the_golden_file() {
    let (_temp, directory) = create_storage(24);
    check_database("team.db.sql", &directory);
}

#[test]
fn a_database_with_dropped_events_is_as_the_golden_file() {
    let (_temp, directory) = create_storage(100);
    let mut store = directory.open().unwrap().lease;
    let pruned = store.prune(1, &mut |saved| Ok(loaded_state(&saved)));
    drop((pruned.unwrap(), store));
    let (dropped, _) = SqliteRows::open(&directory).unwrap().dropped().unwrap();
    assert!(dropped > 50, "only {dropped} were dropped");
    check_database("pruned-team.db.sql", &directory);
}

#[test]
fn team_json_is_as_the_golden_file() {
    let (_, env) = run();
    let written = strata_team_json::export(&team(), &env, &definition());
    let text = golden(TEAM_JSON, written.as_bytes());
    let read = strata_team_json::import(&team(), &text).unwrap();
    assert_eq!(normalized(&read), normalized(&env));
}

#[test]
fn the_lock_is_as_the_golden_file() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join(LOCK_FILE);
    let lock = StorageLock::acquire(temp.path()).unwrap();
    let socket = RunSocket::open(temp.path()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let [pid, listens_at] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("the lock has other lines: {text}");
    };
    let written = text
        .replace(listens_at, "/run/user/0/strata-host/socket")
        .replacen(pid, PID, 1);
    drop((socket, lock));
    let text = golden(LOCK_FILE, written.as_bytes());
    std::fs::write(&path, text).unwrap();
    let held = std::fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let holder = directory_holder(temp.path()).unwrap();
    assert_eq!(
        holder,
        LockHolder::Process {
            pid: PID.parse().ok()
        }
    );
}
