//! Tests of scripts with interpreters that behave and interpreters that do not: how a script is
//! translated, and what its interpreter receives.

use std::fs;
use std::time::Duration;

use strata_core::record::fault::FaultKind;
use strata_core::record::id::Digest;
use strata_core::record::json::Json;
use strata_core::team::RoleProfile;
use strata_host::blob::digest_of;
use strata_host::plugin::{Limits, Plugin};
use strata_host::sandbox::{
    InterpreterComponent, Metering, ReturnValue, Sandbox, SandboxCall, SandboxOutcome, ScriptFile,
    WasmSandbox,
};

use crate::driver::{SANDBOX, block_on, gateway, limits, plugin};
use crate::guest;

/// Returns the configuration of the call.
const CONFIG: &str =
    "(call $ok (i32.load offset=100 (local.get 0)) (i32.load offset=104 (local.get 0)))";
/// Returns the translation of `ITEMS`.
const TRANSLATION: &str =
    "(call $ok_data (i32.const 640) (i32.const 0) (i32.const 4096) (i32.const 10))";
const ITEMS: &str =
    r#"(data (i32.const 4096) "{\"code\":1}") (data (i32.const 4200) "translating")"#;
const LOG: &str = "(call $log (i32.const 3) (i32.const 4200) (i32.const 11))";

/// Returns an interpreter with these bodies of `run`: one for calls that are to translate a script,
/// and one for those that are to run it.
fn interpreter(translate: &str, run: &str) -> Vec<u8> {
    // The third byte of the configuration tells them apart: it is a `t`, the beginning of `translate`.
    let run = format!(
        "(local $n i32)
        (if (result i32) (i32.eq (i32.const 116) (i32.load8_u offset=2 (i32.load offset=100 (local.get 0))))
            (then {translate}) (else {run}))"
    );
    guest::with(ITEMS, &run)
}

/// Loads the script `1` with an interpreter, and returns a function that calls it within limits.
fn load(interpreter: &[u8], limits: Limits) -> impl Fn() -> SandboxOutcome + use<> {
    load_in(&SANDBOX, interpreter, limits)
}

/// Does the same in this sandbox.
fn load_in(
    sandbox: &WasmSandbox,
    interpreter: &[u8],
    limits: Limits,
) -> impl Fn() -> SandboxOutcome + use<> {
    let script = ScriptFile {
        name: "a.js".into(),
        text: Some("1".into()),
    };
    let interpreter_digest = digest_of(interpreter);
    let digest: Digest = script.digest(&interpreter_digest);
    let component = InterpreterComponent {
        digest: &interpreter_digest,
        bytes: &interpreter,
    };
    let metering = Metering::for_limits(&limits);
    sandbox
        .load_script(&script, &digest, component, metering, &limits)
        .expect("the interpreter loads");
    let plugin = Plugin {
        config: Json::parse(r#"{"by":2}"#).expect("it is JSON"),
        ..plugin(limits)
    };
    let sandbox = sandbox.clone();
    move || {
        let role = RoleProfile::default();
        let call = SandboxCall::first_attempt(digest.clone(), plugin.clone(), role, "A");
        block_on(sandbox.call(call, gateway()))
    }
}

/// Returns the content of a successful call without emissions.
fn content(outcome: SandboxOutcome) -> String {
    let output = outcome.result.expect("it succeeds");
    assert!(output.emissions.is_empty());
    match output.value {
        ReturnValue::Output(draft) => draft.content,
        other => panic!("it returned {other:?}"),
    }
}

const TRANSLATED: &str =
    r#"{"config":{"by":2},"script":{"name":"a.js","text":"1","translation":{"code":1}}}"#;
const NOT_TRANSLATED: &str = r#"{"config":{"by":2},"script":{"name":"a.js","text":"1"}}"#;

#[test]
fn an_interpreter_receives_the_script_with_its_translation() {
    for fuel in [None, Some(1_000_000)] {
        let limits = Limits { fuel, ..limits() };
        let call = load(&interpreter(TRANSLATION, CONFIG), limits);
        for _ in 0..2 {
            assert_eq!(content(call()), TRANSLATED);
        }
    }
}

#[test]
fn a_script_is_translated_in_the_first_call_only() {
    let fail = "(call $fail (i32.const 2) (i32.const 640) (i32.const 5))";
    let call = load(
        &interpreter(&format!("{LOG} {TRANSLATION}"), fail),
        limits(),
    );
    let log = || call().result.expect_err("it fails").log;
    assert_eq!(log(), ["translating"]);
    assert!(log().is_empty());
}

#[test]
fn a_translation_has_no_effects_and_no_driver() {
    let emit = "(call $emit (i32.const 640) (i32.const 5))
        (if (i32.eqz (i32.load8_u (i32.const 2048))) (then unreachable))
        (if (f64.ne (f64.const 0) (call $now)) (then unreachable))";
    let call = load(
        &interpreter(&format!("{emit} {TRANSLATION}"), CONFIG),
        limits(),
    );
    assert_eq!(content(call()), TRANSLATED);
}

#[test]
fn a_translation_that_fails_is_not_kept() {
    let failures = [
        ("a failure", "(call $fail (i32.const 2) (i32.const 640) (i32.const 5))"),
        ("a trap", "unreachable"),
        ("no data", "(call $ok (i32.const 640) (i32.const 5))"),
        (
            "no JSON",
            "(call $ok_data (i32.const 640) (i32.const 0) (i32.const 4096) (i32.const 9))",
        ),
        (
            "too much",
            "(drop (memory.grow (i32.const 150))) (memory.fill (i32.const 65536) (i32.const 49) (i32.const 8388609))
             (call $ok_data (i32.const 640) (i32.const 0) (i32.const 65536) (i32.const 8388609))",
        ),
        (
            "too much memory",
            "(if (i32.eq (i32.const -1) (memory.grow (i32.const 1100))) (then unreachable)) (i32.const 0)",
        ),
    ];
    for (what, translate) in failures {
        let call = load(&interpreter(translate, CONFIG), limits());
        for _ in 0..2 {
            assert_eq!(content(call()), NOT_TRANSLATED, "{what}");
        }
    }
}

#[test]
fn a_translation_does_not_depend_on_the_limits_of_the_action() {
    // More memory and more instructions than the action has.
    let work = "(if (i32.eq (i32.const -1) (memory.grow (i32.const 300))) (then unreachable))
        (loop $again
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 100000))))";
    for fuel in [None, Some(10_000)] {
        let limits = Limits { fuel, ..limits() };
        let call = load(
            &interpreter(&format!("{work} {TRANSLATION}"), CONFIG),
            limits,
        );
        assert_eq!(content(call()), TRANSLATED);
    }
}

#[test]
fn a_translation_is_cached_and_made_again_if_the_cache_is_damaged() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("own");
    let fail = "(call $fail (i32.const 2) (i32.const 640) (i32.const 5))";
    let interpreter = interpreter(&format!("{LOG} {TRANSLATION}"), fail);
    // A sandbox of its own stands for another process.
    let first_log = || {
        let sandbox = WasmSandbox::caching_in(&dir).expect("the sandbox starts");
        let call = load_in(&sandbox, &interpreter, limits());
        call().result.expect_err("it fails").log
    };
    assert_eq!(first_log(), ["translating"]);
    assert!(first_log().is_empty());

    let entry = fs::read_dir(&dir)
        .expect("the cache")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().ends_with("-translation"))
        .expect("it is cached");
    let mut bytes = fs::read(&entry).expect("it is read");
    bytes[0] ^= 1;
    fs::write(&entry, bytes).expect("it is written");
    assert_eq!(first_log(), ["translating"]);
    assert!(first_log().is_empty());
}

#[test]
fn the_time_of_a_translation_is_that_of_the_attempt() {
    let spin = "(loop $again (br $again)) unreachable";
    let limits = Limits {
        cpu: Duration::from_millis(50),
        ..limits()
    };
    // Without a translation, a real interpreter runs into the same limit again.
    let call = load(&interpreter(&format!("{LOG} {spin}"), spin), limits);
    for _ in 0..2 {
        let fault = call().result.expect_err("it fails");
        assert_eq!(fault.kind, FaultKind::Cpu, "{fault:?}");
        assert!(
            fault
                .message
                .contains("CPU limit of 50ms reached; raise `limits.cpu`"),
            "{}",
            fault.message
        );
        assert_eq!(fault.backtrace, ["a.js (a script; no line of it has run)"]);
        assert_eq!(fault.log, ["translating"], "it is tried again");
    }
}
