//! Tests of scripts with interpreters that behave and interpreters that do not: how a script is
//! translated, and what its interpreter receives.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use strata_core::record::fault::FaultKind;
use strata_core::record::id::Digest;
use strata_core::record::json::Json;
use strata_core::team::RoleProfile;
use strata_host::blob::digest_of;
use strata_host::plugin::{Limits, Plugin};
use strata_host::sandbox::{
    ComponentInfo, InterpreterComponent, LoadError, Metering, ReturnValue, Sandbox, SandboxCall,
    SandboxOutcome, ScriptFile, ScriptProblem, ScriptSource, WasmSandbox,
};

use crate::driver::{SANDBOX, block_on, gateway, limits, plugin};
use crate::guest;

/// Returns the configuration of the call.
const CONFIG: &str =
    "(call $ok (i32.load offset=100 (local.get 0)) (i32.load offset=104 (local.get 0)))";
/// Returns the translation of `ITEMS`.
const TRANSLATION: &str =
    "(call $ok_data (i32.const 640) (i32.const 0) (i32.const 4096) (i32.const 10))";
/// Returns the description of `ITEMS`.
const DESCRIPTION: &str =
    "(call $ok_data (i32.const 640) (i32.const 0) (i32.const 4300) (i32.const 90))";
const ITEMS: &str = r#"(data (i32.const 4096) "{\"code\":1}")
    (data (i32.const 4300) "{\"description\":\"Counts.\",\"input_schema\":\"{}\",\"needs\":[\"llm\"],\"exports\":[\"action\"]}              ")
    (data (i32.const 4500) "{\"error\":{\"message\":\"odd\",\"file\":\"/etc/b.js\",\"line\":3,\"column\":5}}        ")"#;

/// Returns an interpreter with these bodies of `run`: for calls that are to translate a script, those
/// that are to describe it, and those that are to run it.
fn interpreter_with(translate: &str, describe: &str, run: &str) -> Vec<u8> {
    // The third byte of the configuration tells them apart: it is that of `translate`, `describe` or
    // `config`.
    let first = "(i32.load8_u offset=2 (i32.load offset=100 (local.get 0)))";
    let run = format!(
        "(local $n i32)
        (if (result i32) (i32.eq (i32.const 116) {first})
            (then {translate})
            (else (if (result i32) (i32.eq (i32.const 100) {first})
                (then {describe}) (else {run}))))"
    );
    guest::with(ITEMS, &run)
}

fn interpreter(translate: &str, run: &str) -> Vec<u8> {
    interpreter_with(translate, DESCRIPTION, run)
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
    let loaded = try_load(sandbox, interpreter, &limits);
    let digest = loaded.expect("the script is loaded").digest;
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

fn try_load(
    sandbox: &WasmSandbox,
    interpreter: &[u8],
    limits: &Limits,
) -> Result<ComponentInfo, LoadError> {
    let script = ScriptFile {
        name: "a.js".into(),
        source: ScriptSource::Text("1".into()),
    };
    let interpreter_digest = digest_of(interpreter);
    let digest: Digest = script.digest(&interpreter_digest);
    let component = InterpreterComponent {
        digest: &interpreter_digest,
        bytes: &interpreter,
    };
    let metering = Metering::for_limits(limits);
    sandbox.load_script(&script, &digest, component, metering, limits)
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
fn a_script_is_described_by_its_interpreter() {
    let info = try_load(&SANDBOX, &interpreter(TRANSLATION, CONFIG), &limits());
    let info = info.expect("it is loaded");
    let manifest = &info.manifest;
    assert_eq!(
        (&*manifest.name, &*manifest.description),
        ("a.js", "Counts.")
    );
    assert_eq!(manifest.input_schema.as_deref(), Some("{}"));
    assert_eq!(manifest.needs, ["llm"]);
    assert!(info.exports.handler && !info.exports.thinker && !info.exports.planner);
    assert_eq!(info.problem, None);
}

#[test]
fn a_script_that_cannot_be_described_can_be_run() {
    for describe in [
        "(call $fail (i32.const 2) (i32.const 640) (i32.const 5))",
        "unreachable",
        "(call $ok (i32.const 640) (i32.const 5))",
        "(call $ok_data (i32.const 640) (i32.const 0) (i32.const 4096) (i32.const 9))",
    ] {
        let interpreter = interpreter_with(TRANSLATION, describe, CONFIG);
        let info = try_load(&SANDBOX, &interpreter, &limits()).expect("it is loaded");
        assert!(
            matches!(info.problem.as_deref(), Some(ScriptProblem::Undescribed(_))),
            "{describe}"
        );
        assert_eq!(info.manifest.description, "");
        assert_eq!(content(load(&interpreter, limits())()), TRANSLATED);
    }
}

#[test]
fn a_syntax_error_is_reported_and_the_script_is_translated_again_in_the_call() {
    let translate = "(call $ok_data (i32.const 640) (i32.const 0) (i32.const 4500) (i32.const 70))";
    let interpreter = interpreter(translate, CONFIG);
    let info = try_load(&SANDBOX, &interpreter, &limits()).expect("it is loaded");
    let problem = ScriptProblem::Unusable {
        // An interpreter may name no other file.
        file: "a.js".into(),
        line: Some(3),
        column: Some(5),
        message: "odd".into(),
    };
    assert_eq!(info.problem.as_deref(), Some(&problem));
    assert_eq!(content(load(&interpreter, limits())()), NOT_TRANSLATED);
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
    let entry = || {
        fs::read_dir(&dir)
            .expect("the cache")
            .map(|entry| entry.expect("an entry").path())
            .find(|path| path.to_string_lossy().ends_with("-translation"))
            .expect("it is cached")
    };
    let interpreter = interpreter(TRANSLATION, CONFIG);
    // A sandbox of its own stands for another process.
    let call = || {
        let sandbox = WasmSandbox::caching_in(&dir).expect("the sandbox starts");
        content(load_in(&sandbox, &interpreter, limits())())
    };
    assert_eq!(call(), TRANSLATED);
    let inode = entry().metadata().expect("it is there").ino();
    assert_eq!(call(), TRANSLATED);
    assert_eq!(entry().metadata().expect("it is there").ino(), inode);

    let mut bytes = fs::read(entry()).expect("it is read");
    bytes[0] ^= 1;
    fs::write(entry(), &bytes).expect("it is written");
    assert_eq!(call(), TRANSLATED);
    assert_ne!(fs::read(entry()).expect("it is read"), bytes);
}

#[test]
fn a_script_that_takes_too_long_to_translate_fails_in_each_call() {
    let spin = "(loop $again (br $again)) unreachable";
    let limits = Limits {
        cpu: Duration::from_millis(50),
        ..limits()
    };
    // Without a translation, a real interpreter runs into a limit again.
    let call = load(&interpreter(spin, spin), limits);
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
    }
}
