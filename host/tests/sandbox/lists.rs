//! Tests of lists that are cheap for a guest, which may pass the same item many times, or zeroed
//! memory as empty items. They count with their size in the host.

use strata_core::record::fault::FaultKind;
use strata_host::plugin::http::{HostPattern, HttpGrant};
use strata_host::plugin::{Grants, Limits, LlmGrant};

use crate::driver::{call, limits, plugin, run};
use crate::guest::Guest;

/// Runs a guest that may use models and a server. Returns the message of its fault.
fn failed(items: &str, run_body: &str) -> String {
    let guest = Guest {
        items,
        run: run_body,
        memory: "60",
        ..Guest::default()
    }
    .build();
    let mut plugin = plugin(Limits {
        memory_bytes: 64 << 20,
        ..limits()
    });
    let http = HttpGrant {
        host: HostPattern::parse("api.example.com").expect("a host"),
        methods: vec!["GET".into()],
        path: "/*".into(),
        secrets: vec!["T".into()],
        headers: Vec::new(),
    };
    let llm = Some(LlmGrant {
        models: vec!["*".into()],
        ..LlmGrant::default()
    });
    plugin.grants = Grants {
        llm,
        http: vec![http],
        ..Grants::default()
    };
    let fault = run(call(&guest, plugin))
        .result
        .expect_err("the request is refused");
    assert_eq!(fault.kind, FaultKind::Error, "{fault:?}");
    fault.message
}

/// Returns the code that sends `count` messages of an assistant to a model. They start at 1 MiB and
/// all have the same tool calls.
fn conversation(count: usize, calls: usize) -> String {
    format!(
        "(local $at i32) (local $left i32) (call $lay)
         (local.set $at (i32.const 1048576)) (local.set $left (i32.const {count}))
         (loop $turn
            (i32.store8 (local.get $at) (i32.const 2))
            (i32.store offset=4 (local.get $at) (i32.const 131072))
            (i32.store offset=8 (local.get $at) (i32.const {calls}))
            (local.set $at (i32.add (local.get $at) (i32.const 12)))
            (br_if $turn (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))
         (i32.store (i32.const 8204) (i32.const 1048576)) (i32.store (i32.const 8208) (i32.const {count}))
         (call $complete (i32.const 8192) (i32.const 2048)) (call $told (i32.const 0))"
    )
}

#[test]
fn turns_and_tool_calls_of_no_text_are_no_endless_conversation() {
    // Each call is a part of ten words with the argument `0`.
    let calls = r#"
        (data (i32.const 4200) "0")
        (func $lay (local $at i32)
            (local.set $at (i32.const 131072))
            (loop $call
                (i32.store8 (local.get $at) (i32.const 2))
                (i32.store offset=20 (local.get $at) (i32.const 4200))
                (i32.store offset=24 (local.get $at) (i32.const 1))
                (local.set $at (i32.add (local.get $at) (i32.const 40)))
                (br_if $call (i32.lt_u (local.get $at) (i32.const 171072)))))"#;
    for (turns, calls_each) in [(66_000, 0), (70, 1_000)] {
        let message = failed(calls, &conversation(turns, calls_each));
        assert!(
            message.contains("at most 8 MiB are sent"),
            "{turns} turns: {message}"
        );
    }
}

#[test]
fn a_secret_is_not_named_a_thousand_times() {
    let texts =
        r#"(data (i32.const 4096) "GET") (data (i32.const 4112) "http://api.example.com/")"#;
    let none = "(i32.const 0) (i32.const 0)";
    let message = failed(
        texts,
        &format!(
            "(call $fetch (i32.const 4096) (i32.const 3) (i32.const 4112) (i32.const 23) {none} (i32.const 0) {none}
                (i32.const 131072) (i32.const 1000) {none} (i32.const 0) {none} (i32.const 2048))
             (call $told (i32.const 0))"
        ),
    );
    assert!(
        message.contains("it names 1000 secrets, at most 64 are put in"),
        "{message}"
    );
}
