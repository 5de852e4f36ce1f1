//! Files that actions write: committed with their step, and reverted with their call.

use strata_core::record::event::{AttemptEvent, Event, FilesWritten, Status};
use strata_core::record::file::{FileChange, PathContent};
use strata_core::record::host_call::CallPolicy;
use strata_core::record::human_request::HumanAnswer;
use strata_core::record::id::{Digest, RoleId};
use strata_core::record::json::Json;
use strata_core::record::message::IDEA_LABEL;

use crate::manual_run::{ManualRun, says};
use crate::teams::{role, team};

/// Returns a file with these bytes.
fn file(bytes: &str) -> PathContent {
    PathContent::File {
        digest: Digest::from(bytes),
        bytes: bytes.len() as u64,
    }
}

/// Makes a call that changes these files: path, content before, content after.
fn writes_files(
    run: &mut ManualRun,
    text: &str,
    files: &[(&str, PathContent, PathContent)],
) -> RoleId {
    let call = run.call();
    let change = |(path, before, after): &(&str, PathContent, PathContent)| {
        let (before, after) = (before.clone(), after.clone());
        FileChange {
            path: (*path).into(),
            before,
            after,
        }
    };
    let files = files.iter().map(change).collect();
    run.record(Event::Attempt(
        call.key(),
        AttemptEvent::FilesWritten(FilesWritten { files }),
    ));
    run.end(call.role, Ok(says(text)));
    call.role
}

#[test]
fn what_an_undone_call_did_to_files_is_taken_back_and_not_kept_with_what_it_does_next() {
    let two = || {
        team(vec![
            role("A", &[IDEA_LABEL], &["p", "q", "a"]),
            role("B", &[IDEA_LABEL], &["b"]),
        ])
    };
    let mut run = ManualRun::start(two());
    let absent = || PathContent::Absent;
    writes_files(&mut run, "p ok", &[("y", absent(), file("1"))]);
    writes_files(&mut run, "q ok", &[("y", file("1"), file("2"))]);
    writes_files(
        &mut run,
        "a ok",
        &[("x", absent(), file("a")), ("y", file("2"), file("3"))],
    );
    writes_files(&mut run, "b ok", &[("x", absent(), file("b"))]);
    assert_eq!(run.halt(), Status::Failed);
    let decided = |run: &ManualRun, path: &str| run.env().files.intended[path].clone();
    assert_eq!(
        (decided(&run, "x"), decided(&run, "y")),
        (absent(), file("2"))
    );
    assert!(run.env().files.committed.is_empty());
    run.resume(two(), CallPolicy::Auto);
    run.act(Ok(says("a again")));
    let b = writes_files(&mut run, "b again", &[("x", absent(), file("b"))]);
    assert_eq!(run.halt(), Status::Done);
    let kept = |path: &str| {
        let kept = &run.env().files.committed[path];
        (kept.role, kept.step, kept.content.clone())
    };
    assert_eq!(
        (kept("x"), kept("y")),
        ((b, 0, file("b")), (RoleId(0), 0, file("2")))
    );
}

#[test]
fn several_may_write_a_file_again_with_the_bytes_it_has_and_make_one_directory() {
    let mut run = ManualRun::start(team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ]));
    for text in ["a ok", "b ok"] {
        let directory = ("d", PathContent::Absent, PathContent::Directory);
        writes_files(
            &mut run,
            text,
            &[directory, ("x", file("same"), file("same"))],
        );
    }
    assert_eq!(run.halt(), Status::Done);
}

#[test]
fn a_commit_puts_nothing_back_that_a_later_action_of_the_same_activation_replaced() {
    let mut run = ManualRun::start(team(vec![role("A", &[IDEA_LABEL], &["p", "q"])]));
    let absent = || PathContent::Absent;
    writes_files(
        &mut run,
        "p ok",
        &[("d", absent(), file("1")), ("y", absent(), file("1"))],
    );
    let (within, dir) = (
        ("d/x", absent(), file("2")),
        ("d", file("1"), PathContent::Directory),
    );
    writes_files(
        &mut run,
        "q ok",
        &[dir, within, ("y", file("1"), file("2"))],
    );
    assert_eq!(run.halt(), Status::Done);
    let placed = run
        .env()
        .files
        .pending
        .iter()
        .map(|placement| (placement.path.as_str(), &placement.content));
    let (one, two) = (&file("1"), &file("2"));
    let expected = [
        ("d", one),
        ("y", one),
        ("d", &PathContent::Directory),
        ("d/x", two),
        ("y", two),
    ];
    assert_eq!(placed.collect::<Vec<_>>(), expected);
    let kept = run
        .env()
        .files
        .committed
        .iter()
        .map(|(path, kept)| (path.as_str(), &kept.content));
    assert_eq!(
        kept.collect::<Vec<_>>(),
        [("d", &PathContent::Directory), ("d/x", two), ("y", two)]
    );
}

#[test]
fn what_a_step_kept_meanwhile_is_not_taken_back_with_a_call_that_waited() {
    let roles = || {
        vec![
            role("A", &[IDEA_LABEL], &["p", "q"]),
            role("B", &[IDEA_LABEL], &["b"]),
            role("D", &["b"], &["d"]),
        ]
    };
    let mut run = ManualRun::start(team(roles()));
    let absent = || PathContent::Absent;
    writes_files(&mut run, "p ok", &[("x", absent(), file("a"))]);
    assert_eq!(run.call().role, RoleId(0));
    run.ask_human(0, 0, None);
    writes_files(&mut run, "b ok", &[("x", absent(), file("b"))]);
    // The step is committed without A.
    let d = run.call();
    assert_eq!(
        (d.role, &run.env().files.committed["x"].content),
        (RoleId(2), &file("b"))
    );
    run.reply(0, HumanAnswer::Given(Json::null()));
    let change = FileChange {
        path: "x".into(),
        before: file("b"),
        after: file("d"),
    };
    run.record(Event::Attempt(
        d.key(),
        AttemptEvent::FilesWritten(FilesWritten {
            files: vec![change],
        }),
    ));
    run.end(d.role, Ok(says("d ok")));
    run.act(Ok(says("q ok")));
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(run.env().files.intended["x"], file("b"));
}

#[test]
fn what_somebody_changed_since_it_was_kept_is_put_back_as_it_was_found() {
    let roles = || {
        vec![
            role("A", &[IDEA_LABEL], &["a"]),
            role("B", &["a"], &["b"]),
            role("C", &["a"], &["c"]),
        ]
    };
    let mut run = ManualRun::start(team(roles()));
    writes_files(&mut run, "a ok", &[("x", PathContent::Absent, file("1"))]);
    // Somebody else changes the file, and both find that.
    writes_files(&mut run, "b ok", &[("x", file("theirs"), file("2"))]);
    writes_files(&mut run, "c ok", &[("x", file("theirs"), file("3"))]);
    assert_eq!(run.halt(), Status::Failed);
    assert_eq!(run.env().files.intended["x"], file("theirs"));
}
