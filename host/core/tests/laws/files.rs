//! Files that actions write: kept with the commit of their step, and taken back with their call.

use strata_core::event::{CallPolicy, Event, Status};
use strata_core::file::{Content, FileChange};
use strata_core::id::{Digest, RoleId};
use strata_core::json::Json;
use strata_core::message::IDEA_LABEL;
use strata_core::request::Answer;

use crate::hand::{Hand, says};
use crate::teams::{role, team};

/// A file with these bytes.
fn file(bytes: &str) -> Content {
    Content::File {
        digest: Digest::from(bytes),
        bytes: bytes.len() as u64,
    }
}

/// A call that leaves these files, each where the one before it lay.
fn writes_files(life: &mut Hand, text: &str, files: &[(&str, Content, Content)]) -> RoleId {
    let call = life.call();
    let change = |(path, before, after): &(&str, Content, Content)| {
        let (before, after) = (before.clone(), after.clone());
        FileChange {
            path: (*path).into(),
            before,
            after,
        }
    };
    let files = files.iter().map(change).collect();
    life.record(Event::FilesWritten {
        role: call.role,
        work: call.work,
        files,
    });
    life.end(call.role, Ok(says(text)));
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
    let mut life = Hand::start(two());
    let absent = || Content::Absent;
    writes_files(&mut life, "p ok", &[("y", absent(), file("1"))]);
    writes_files(&mut life, "q ok", &[("y", file("1"), file("2"))]);
    writes_files(
        &mut life,
        "a ok",
        &[("x", absent(), file("a")), ("y", file("2"), file("3"))],
    );
    writes_files(&mut life, "b ok", &[("x", absent(), file("b"))]);
    assert_eq!(life.halt(), Status::Failed);
    let decided = |life: &Hand, path: &str| life.env().files.decided[path].clone();
    assert_eq!(
        (decided(&life, "x"), decided(&life, "y")),
        (absent(), file("2"))
    );
    assert!(life.env().files.kept.is_empty());
    life.resume(two(), CallPolicy::Auto);
    life.act(Ok(says("a again")));
    let b = writes_files(&mut life, "b again", &[("x", absent(), file("b"))]);
    assert_eq!(life.halt(), Status::Done);
    let kept = |path: &str| {
        let kept = &life.env().files.kept[path];
        (kept.role, kept.step, kept.content.clone())
    };
    assert_eq!(
        (kept("x"), kept("y")),
        ((b, 0, file("b")), (RoleId(0), 0, file("2")))
    );
}

#[test]
fn several_may_write_a_file_again_with_the_bytes_it_has_and_make_one_directory() {
    let mut life = Hand::start(team(vec![
        role("A", &[IDEA_LABEL], &["a"]),
        role("B", &[IDEA_LABEL], &["b"]),
    ]));
    for text in ["a ok", "b ok"] {
        let made = ("d", Content::Absent, Content::Directory);
        writes_files(&mut life, text, &[made, ("x", file("same"), file("same"))]);
    }
    assert_eq!(life.halt(), Status::Done);
}

#[test]
fn a_commit_puts_nothing_back_that_a_later_action_of_the_same_activation_replaced() {
    let mut life = Hand::start(team(vec![role("A", &[IDEA_LABEL], &["p", "q"])]));
    let absent = || Content::Absent;
    writes_files(
        &mut life,
        "p ok",
        &[("d", absent(), file("1")), ("y", absent(), file("1"))],
    );
    let (within, dir) = (
        ("d/x", absent(), file("2")),
        ("d", file("1"), Content::Directory),
    );
    writes_files(
        &mut life,
        "q ok",
        &[dir, within, ("y", file("1"), file("2"))],
    );
    assert_eq!(life.halt(), Status::Done);
    let placed = life
        .env()
        .files
        .pending
        .iter()
        .map(|placement| (placement.path.as_str(), &placement.content));
    let (one, two) = (&file("1"), &file("2"));
    let expected = [
        ("d", one),
        ("y", one),
        ("d", &Content::Directory),
        ("d/x", two),
        ("y", two),
    ];
    assert_eq!(placed.collect::<Vec<_>>(), expected);
    let kept = life
        .env()
        .files
        .kept
        .iter()
        .map(|(path, kept)| (path.as_str(), &kept.content));
    assert_eq!(
        kept.collect::<Vec<_>>(),
        [("d", &Content::Directory), ("d/x", two), ("y", two)]
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
    let mut life = Hand::start(team(roles()));
    let absent = || Content::Absent;
    writes_files(&mut life, "p ok", &[("x", absent(), file("a"))]);
    assert_eq!(life.call().role, RoleId(0));
    life.consult(0, 0, None);
    writes_files(&mut life, "b ok", &[("x", absent(), file("b"))]);
    // The step is committed without A.
    let d = life.call();
    assert_eq!(
        (d.role, &life.env().files.kept["x"].content),
        (RoleId(2), &file("b"))
    );
    life.reply(0, Answer::Given(Json::null()));
    let change = FileChange {
        path: "x".into(),
        before: file("b"),
        after: file("d"),
    };
    life.record(Event::FilesWritten {
        role: d.role,
        work: d.work,
        files: vec![change],
    });
    life.end(d.role, Ok(says("d ok")));
    life.act(Ok(says("q ok")));
    assert_eq!(life.halt(), Status::Failed);
    assert_eq!(life.env().files.decided["x"], file("b"));
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
    let mut life = Hand::start(team(roles()));
    writes_files(&mut life, "a ok", &[("x", Content::Absent, file("1"))]);
    // Somebody else changes it, and both find that.
    writes_files(&mut life, "b ok", &[("x", file("theirs"), file("2"))]);
    writes_files(&mut life, "c ok", &[("x", file("theirs"), file("3"))]);
    assert_eq!(life.halt(), Status::Failed);
    assert_eq!(life.env().files.decided["x"], file("theirs"));
}
