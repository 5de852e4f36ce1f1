//! Tests of what is passed to a guest and what it returns.

use std::time::Duration;

use strata_core::record::fault::{FaultCause, FaultKind, Retryability};
use strata_core::record::id::RoleId;
use strata_core::record::json::Json;
use strata_core::record::scope_write::{ScopeChange, Write};
use strata_core::team::Candidate;
use strata_host::gateway::{AttemptId, Gateway};
use strata_host::plugin::CompiledSchema;
use strata_host::sandbox::{
    AttemptOutput, EntryPoint, Metering, ReturnValue, Sandbox, SandboxCall, ToolCallInput,
    WasmSandbox,
};

use crate::driver::{SANDBOX, block_on, call, gateway, limits, plugin, run, run_within};
use crate::guest::{self, Guest};

/// Returns the text of a successful run.
fn content(returned: &AttemptOutput) -> &str {
    match &returned.value {
        ReturnValue::Output(draft) => &draft.content,
        other => panic!("not an output: {other:?}"),
    }
}

/// Returns a guest that exports all interfaces.
fn versatile() -> Vec<u8> {
    let guest = Guest {
        world: "versatile-action",
        exports: r#"
            (func (export "strata:action/thinker@0.2.0#choose") (param i32) (result i32)
                (call $emit (i32.const 640) (i32.const 5))
                (i32.store (i32.const 1024) (i32.const 0))
                ;; -1 after a refused emission
                (i32.store (i32.const 1028) (i32.sub (i32.const 0) (i32.load8_u (i32.const 2048))))
                (i32.const 1024))
            (func (export "strata:action/planner@0.2.0#plan") (param i32) (result i32)
                (i32.store (i32.const 1024) (i32.const 0))
                (i32.store (i32.const 1028) (i32.const 4096))
                (i32.store (i32.const 1032) (i32.const 2))
                (i32.store (i32.const 4096) (i32.const 640))
                (i32.store (i32.const 4100) (i32.const 5))
                (i32.const 1024))"#,
        ..Guest::default()
    };
    guest.build()
}

#[test]
fn an_output_comes_back_with_what_was_used() {
    let ended = run_within(limits(), &Guest::default().build());
    let returned = ended.result.unwrap();
    assert_eq!(content(&returned), "guest");
    // Two pages and the tables of the component's adapters.
    assert!(
        (131_072..140_000).contains(&ended.usage.peak_memory_bytes),
        "{:?}",
        ended.usage
    );
    assert_eq!(ended.usage.host_calls, 0);
    assert!(ended.usage.cpu_us > 0);
}

#[test]
fn the_guest_is_handed_its_configuration() {
    let guest = guest::running(
        "(call $ok (i32.load (i32.add (local.get 0) (i32.const 100)))
        (i32.load (i32.add (local.get 0) (i32.const 104))))",
    );
    let mut plugin = plugin(limits());
    plugin.config = Json::parse(r#"{"b":[1],"a":"x"}"#).unwrap();
    let returned = run(call(&guest, plugin)).result.unwrap();
    assert_eq!(content(&returned), r#"{"a":"x","b":[1]}"#);
}

#[test]
fn each_call_has_a_new_instance() {
    let guest = guest::with(
        "(global $count (mut i32) (i32.const 0))",
        "(global.set $count (i32.add (global.get $count) (i32.const 1)))
         (i32.store8 (i32.const 4096) (i32.add (i32.const 48) (global.get $count)))
         (i32.store8 (i32.const 640) (i32.add (i32.load8_u (i32.const 640)) (i32.const 1)))
         (i32.store8 (i32.const 4097) (i32.load8_u (i32.const 640)))
         (call $ok (i32.const 4096) (i32.const 2))",
    );
    for _ in 0..3 {
        let returned = run_within(limits(), &guest).result.unwrap();
        assert_eq!(content(&returned), "1h");
    }
}

#[test]
fn a_trap_is_a_fault_with_the_names_of_the_functions_on_the_stack() {
    let guest = guest::with("(func $inner unreachable)", "(call $inner) (i32.const 0)");
    let fault = run_within(limits(), &guest).result.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Trap);
    assert_eq!(fault.retryability, Retryability::Final);
    assert!(fault.message.contains("unreachable"), "{}", fault.message);
    assert!(
        fault.backtrace[0].starts_with("inner (guest+0x"),
        "{:?}",
        fault.backtrace
    );
    assert!(
        fault.backtrace[1].starts_with("run (guest+0x"),
        "{:?}",
        fault.backtrace
    );
}

#[test]
fn a_fault_shows_what_the_guest_logged_last() {
    let items = r#"(data (i32.const 4096) "first\npanicked at `x`")"#;
    let guest = guest::with(
        items,
        "(call $log (i32.const 3) (i32.const 4096) (i32.const 21)) unreachable",
    );
    let fault = run_within(limits(), &guest).result.unwrap_err();
    assert_eq!(fault.log, ["first", "panicked at `x`"]);
}

#[test]
fn what_a_guest_logs_and_prints_is_noted_if_it_succeeds() {
    const OK: &str = "(call $ok (i32.const 640) (i32.const 5))";
    let items = r#"(data (i32.const 4096) "first\nsecond")"#;
    let log = "(call $log (i32.const 1) (i32.const 4096) (i32.const 12))";
    let ended = run_within(limits(), &guest::with(items, &format!("{log} {OK}")));
    assert!(ended.result.is_ok(), "{:?}", ended.result);
    let logged = ended.notes.logged.expect("a log");
    assert_eq!(logged.lines, ["first", "second"]);
    assert_eq!(logged.left_out, 0);

    let print =
        "(call $wasi_write (call $wasi_stdout) (i32.const 640) (i32.const 5) (i32.const 2048))";
    let ended = run_within(limits(), &guest::wasi(&format!("{print} {OK}")));
    assert!(ended.result.is_ok(), "{:?}", ended.result);
    assert_eq!(ended.notes.logged.expect("a log").lines, ["guest"]);

    let silent = run_within(limits(), &guest::running(OK));
    assert_eq!(silent.notes.logged, None);
}

#[test]
fn a_guests_own_failures_keep_their_kind_and_message() {
    let check = |kind: u32, length: u32, expected: (FaultKind, Retryability, &str)| {
        let fail = format!("(call $fail (i32.const {kind}) (i32.const 640) (i32.const {length}))");
        let fault = run_within(limits(), &guest::running(&fail))
            .result
            .unwrap_err();
        assert_eq!(
            (fault.kind, fault.retryability, fault.message.as_str()),
            expected
        );
        assert_eq!(
            fault.cause,
            FaultCause::Declared,
            "the host refused it nothing"
        );
    };
    check(0, 5, (FaultKind::Error, Retryability::Final, "guest"));
    check(1, 5, (FaultKind::Error, Retryability::Retryable, "guest"));
    check(2, 5, (FaultKind::Denied, Retryability::Final, "guest"));
    check(3, 5, (FaultKind::Host, Retryability::Retryable, "guest"));
    check(
        0,
        0,
        (
            FaultKind::Error,
            Retryability::Final,
            "the action gave no reason",
        ),
    );
}

#[test]
fn emissions_and_writes_come_back_in_order_and_only_on_success() {
    let items = r#"
        (data (i32.const 4096) "rolekey12")
        (func $do
            (call $emit (i32.const 640) (i32.const 5))
            (call $set (i32.const 4096) (i32.const 4) (i32.const 4100) (i32.const 3)
                (i32.const 4103) (i32.const 2) (i32.const 2048))
            (call $emit (i32.const 4100) (i32.const 3))
            (call $delete (i32.const 4096) (i32.const 4) (i32.const 4100) (i32.const 3) (i32.const 2048)))"#;
    let ended = run_within(
        limits(),
        &guest::with(items, "(call $do) (call $ok (i32.const 640) (i32.const 5))"),
    );
    assert_eq!(ended.usage.host_calls, 4);
    let returned = ended.result.unwrap();
    let texts: Vec<&str> = returned
        .emissions
        .iter()
        .map(|draft| draft.content.as_str())
        .collect();
    assert_eq!(texts, ["guest", "key"]);
    let write = |change| Write {
        scope: "role".into(),
        key: "key".into(),
        change,
    };
    let set = ScopeChange::Set(Json::parse("12").unwrap());
    assert_eq!(returned.writes, [write(set), write(ScopeChange::Delete)]);

    let failed = run_within(limits(), &guest::with(items, "(call $do) unreachable"));
    assert_eq!(failed.result.unwrap_err().kind, FaultKind::Trap);
}

#[test]
fn a_guest_sees_its_own_writes_and_unknown_scopes_are_invalid_at_once() {
    let check = |scope: &str, value: &str, expected: Result<&str, &str>| {
        let (scope_length, value_length) = (scope.len(), value.len());
        let items =
            format!(r#"(data (i32.const 4096) "{scope}") (data (i32.const 4196) "key{value}")"#);
        let run = format!(
            "(call $set (i32.const 4096) (i32.const {scope_length}) (i32.const 4196) (i32.const 3)
                (i32.const 4199) (i32.const {value_length}) (i32.const 2048))
             (if (i32.load8_u (i32.const 2048)) (then (return (call $told (i32.const 0)))))
             (call $get (i32.const 4096) (i32.const {scope_length}) (i32.const 4196) (i32.const 3) (i32.const 2048))
             (call $told (i32.const 4))"
        );
        let result = run_within(limits(), &guest::with(&items, &run)).result;
        match (&result, expected) {
            (Ok(returned), Ok(text)) => assert_eq!(content(returned), text),
            (Err(fault), Err(text)) => assert!(fault.message.contains(text), "{}", fault.message),
            _ => panic!("{scope} {value}: {result:?}"),
        }
    };
    check("role", "12", Ok("12"));
    check("shared", "[1, 2]", Ok("[1,2]"));
    check("nowhere", "12", Err("there is no scope `nowhere`"));
    check("role", "{", Err("the value is not a JSON document"));
    check("nowhere", "{", Err("the value is not a JSON document"));
}

#[test]
fn the_host_answers_time_randomness_and_what_is_too_much() {
    let check = |length: u32, expected: Result<&str, &str>| {
        let run = format!(
            "(call $random (i32.const {length}) (i32.const 2048)) (call $told (i32.const 0))"
        );
        let result = run_within(limits(), &guest::running(&run)).result;
        match (&result, expected) {
            (Ok(returned), Ok(text)) => assert_eq!(content(returned), text),
            (Err(fault), Err(text)) => assert!(fault.message.contains(text), "{}", fault.message),
            _ => panic!("{length}: {result:?}"),
        }
    };
    check(3, Ok("rrr"));
    check(65537, Err("at most 65536 are given at once"));
    let guest = guest::running(
        "(if (f64.ne (call $now) (f64.const 1234)) (then unreachable))
         (call $recent (i32.const 4000000000) (i32.const 4000000000) (i32.const 2048))
         (call $ok (i32.const 640) (i32.const 5))",
    );
    assert!(run_within(limits(), &guest).result.is_ok());
}

#[test]
fn an_output_must_be_json_and_of_its_schema() {
    let check = |data: &str, expected: Result<(), &str>| {
        let escaped = data.replace('"', "\\22");
        let items = format!(r#"(data (i32.const 4096) "{escaped}")"#);
        let length = data.len();
        let run = match data {
            "" => "(call $ok (i32.const 640) (i32.const 5))".to_owned(),
            _ => format!(
                "(call $ok_data (i32.const 640) (i32.const 5) (i32.const 4096) (i32.const {length}))"
            ),
        };
        let mut plugin = plugin(limits());
        let schema = serde_json::json!({"properties": {"n": {"type": "integer"}}, "required": ["n"], "type": "object"});
        plugin.output_schema = Some(CompiledSchema::compile(&schema).unwrap());
        let result = crate::driver::run(call(&guest::with(&items, &run), plugin)).result;
        match (&result, expected) {
            (Ok(_), Ok(())) => {}
            (Err(fault), Err(text)) => {
                assert_eq!(fault.kind, FaultKind::OutputInvalid);
                assert!(fault.message.contains(text), "{}", fault.message);
            }
            _ => panic!("{data}: {result:?}"),
        }
    };
    check(r#"{"n":1}"#, Ok(()));
    check(r#"{"n":"x"}"#, Err("(at `/n`)"));
    check("{}", Err("\"n\" is a required property"));
    check("{", Err("is not a JSON document"));
    check("", Err("has no `data`"));
}

#[test]
fn a_component_chooses_and_plans_and_a_choice_changes_nothing() {
    let guest = versatile();
    let choose = EntryPoint::Choose {
        round: 0,
        candidates: vec![Candidate {
            name: "A".into(),
            description: String::new(),
        }],
    };
    let plan = EntryPoint::Plan {
        action: "A".into(),
        index: 0,
    };
    let enter = |entry| {
        let call = call(&guest, plugin(limits()));
        run(SandboxCall { entry, ..call }).result.unwrap()
    };
    let chosen = enter(choose);
    assert_eq!(
        (chosen.value, chosen.emissions.len()),
        (ReturnValue::Choice(-1), 0)
    );
    let ReturnValue::Tasks(tasks) = enter(plan).value else {
        panic!("not a plan");
    };
    let texts: Vec<&str> = tasks.iter().map(|task| task.text.as_str()).collect();
    assert_eq!(texts, ["guest", ""]);
}

#[test]
fn a_component_that_cannot_choose_says_so_when_it_is_asked_to() {
    let call = call(&Guest::default().build(), plugin(limits()));
    let entry = EntryPoint::Plan {
        action: "A".into(),
        index: 0,
    };
    let fault = run(SandboxCall { entry, ..call }).result.unwrap_err();
    assert_eq!(fault.message, "the component does not export `planner`");
}

#[test]
fn a_call_is_ended_by_dropping_it() {
    let guest = guest::running("(call $sleep (i32.const 60000)) unreachable");
    let call = call(&guest, plugin(limits()));
    let ended = block_on(async {
        let calling = SANDBOX.call(call, gateway());
        tokio::time::timeout(Duration::from_millis(50), calling).await
    });
    assert!(ended.is_err());
}

#[test]
fn a_call_whose_driver_is_gone_is_interrupted() {
    let guest = guest::running("(drop (call $now)) unreachable");
    let (questions, _) = tokio::sync::mpsc::channel(1);
    let calling = SANDBOX.call(
        call(&guest, plugin(limits())),
        Gateway::new(AttemptId::first(RoleId(0)), questions),
    );
    assert_eq!(
        block_on(calling).result.unwrap_err().kind,
        FaultKind::Interrupted
    );
}

#[test]
fn a_component_loads_while_all_room_for_calls_is_taken() {
    let sandbox = WasmSandbox::uncached().unwrap();
    let asleep =
        guest::running("(call $sleep (i32.const 60000)) (call $ok (i32.const 640) (i32.const 5))");
    let call = call(&asleep, plugin(limits()));
    sandbox.load(&asleep, Metering::Plain).unwrap();
    block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..200 {
            calls.spawn(sandbox.call(call.clone(), gateway()));
        }
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        let other = guest::running("(call $ok (i32.const 640) (i32.const 7))");
        assert!(sandbox.load(&other, Metering::Plain).is_ok());
    });
}

#[test]
fn more_calls_than_there_is_room_for_take_turns() {
    let guest =
        guest::running("(call $sleep (i32.const 5)) (call $ok (i32.const 640) (i32.const 5))");
    let call = call(&guest, plugin(limits()));
    let gateway = gateway();
    block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..500 {
            calls.spawn(SANDBOX.call(call.clone(), gateway.clone()));
        }
        while let Some(ended) = calls.join_next().await {
            assert!(ended.unwrap().result.is_ok());
        }
    });
}

#[test]
fn a_tool_call_is_told_its_arguments_and_its_position() {
    // Turn and call are options at 12 and 20 of the parameters, the arguments are at 148.
    let guest = guest::running(
        "(if (i32.ne (i32.load (i32.add (local.get 0) (i32.const 16))) (i32.const 2)) (then unreachable))
         (if (i32.ne (i32.load (i32.add (local.get 0) (i32.const 24))) (i32.const 1)) (then unreachable))
         (if (f64.lt (f64.load (i32.add (local.get 0) (i32.const 40))) (f64.const 1e12)) (then unreachable))
         (call $ok (i32.load (i32.add (local.get 0) (i32.const 152)))
            (i32.load (i32.add (local.get 0) (i32.const 156))))",
    );
    let entry = EntryPoint::Run {
        action: "A".into(),
        index: 0,
        task: None,
        tool_call: Some(ToolCallInput {
            arguments: Json::parse(r#"{"n":1}"#).unwrap(),
            turn: 2,
            call: 1,
        }),
    };
    let call = call(&guest, plugin(limits()));
    let returned = run(SandboxCall { entry, ..call }).result.unwrap();
    assert_eq!(content(&returned), r#"{"n":1}"#);
}
