//! Runs every target with its corpus and with generated inputs, which are the same in every run and
//! take a few seconds.

#![allow(clippy::unwrap_used, reason = "all of this is tests")]

use std::fs;
use std::panic::AssertUnwindSafe;

use strata_fuzz::mutate::Mutator;
use strata_fuzz::{Taker, target};
use strata_host::sandbox::{Metering, WasmSandbox};

/// Passes an input to a target, and prints the input if that panics.
fn take(taker: &Taker, bytes: &[u8], what: &str) {
    if std::panic::catch_unwind(AssertUnwindSafe(|| taker(bytes))).is_err() {
        panic!(
            "failed with {what}:\n{}\n{bytes:?}",
            String::from_utf8_lossy(bytes)
        );
    }
}

fn check(name: &str) {
    let target = target(name).unwrap();
    let (taker, corpus) = ((target.start)(), target.corpus());
    for (path, bytes) in &corpus {
        take(&taker, bytes, &path.display().to_string());
    }
    let mut mutator = Mutator::new(corpus.iter().map(|(_, bytes)| bytes.as_slice()), 1);
    for nth in 0..target.share {
        take(
            &taker,
            &mutator.next_input(),
            &format!("made-up input {nth}"),
        );
    }
}

#[test]
fn a_team_file_is_taken_or_explained() {
    check("team-toml");
}

#[test]
fn a_saved_state_is_taken_whole_or_refused() {
    check("team-json");
}

#[test]
fn a_machine_part_is_gone_on_from_or_refused() {
    check("machine-part");
}

#[test]
fn a_strangers_message_is_taken_or_refused() {
    check("letter");
}

#[test]
fn a_changed_database_is_read_or_refused() {
    check("storage");
}

/// `action.bin` is an action in C that returns the text of its messages: `action.c` of `new action NAME --lang c`
/// without its request to a model, built.
#[test]
fn the_action_in_the_corpus_can_be_called() {
    let bytes = fs::read(target("component").unwrap().folder().join("action.bin")).unwrap();
    let sandbox = WasmSandbox::uncached().unwrap();
    let loaded = sandbox.load(&bytes, Metering::Plain);
    let loaded = loaded.unwrap_or_else(|error| panic!("build it again: {error}"));
    assert_eq!(loaded.manifest.name, "echo");
}

#[test]
fn bytes_are_a_component_or_are_rejected_with_a_reason() {
    check("component");
}

#[test]
fn a_guest_may_call_the_host_with_anything() {
    check("guest");
}
