//! Small things of a guest's that would become large ones in the host: documents of many values, texts that reach beyond
//! the guest's memory. Each is refused before anything is made of it, and the guest can go on.

use strata_core::fault::FaultKind;
use strata_host::plugin::{Grants, Limits, LlmGrant, Plugin};
use strata_host::sandbox::Value;

use crate::driver::{call, limits, plugin, run};
use crate::guest::Guest;

/// Where the document begins and how long it is: 1.5 MiB that would be 130 MiB as values.
const BOMB: &str = "(i32.const 131072) (i32.const 1600003)";
/// Writes the document `[ {"":0}, … 0]`.
const LAY: &str = r#"
    (func $lay (local $at i32)
        (i32.store8 (i32.const 131072) (i32.const 91))
        (local.set $at (i32.const 131073))
        (loop $again
            (i64.store (local.get $at) (i64.const 0x2c7d303a22227b20))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br_if $again (i32.lt_u (local.get $at) (i32.const 1731073))))
        (i32.store16 (local.get $at) (i32.const 0x5d30)))"#;

/// What a guest with a document comes to.
fn told(run_body: &str) -> Result<String, (FaultKind, String)> {
    let run_body = format!("(call $lay) {run_body}");
    let guest = Guest { items: LAY, run: &run_body, memory: "30", ..Guest::default() }.build();
    let mut plugin = plugin(Limits { output_bytes: 4 << 20, ..limits() });
    plugin.grants = Grants { llm: Some(LlmGrant { models: vec!["*".into()], calls: None }), ..Grants::default() };
    match run(call(&guest, plugin)).result {
        Ok(returned) => match returned.value {
            Value::Output(draft) => Ok(draft.content),
            other => panic!("not an output: {other:?}"),
        },
        Err(fault) => Err((fault.kind, fault.message)),
    }
}

#[test]
fn a_document_of_too_many_values_is_refused_whichever_way_it_comes() {
    let check = |run: &str, kind: FaultKind, expected: &str| {
        let (got, message) = told(run).expect_err(run);
        assert_eq!(got, kind, "{message}");
        assert!(message.contains(expected) && message.contains("128 MiB"), "{message}");
    };
    let failure = FaultKind::Error;
    let set = format!(
        "(i64.store (i32.const 4096) (i64.const 0x656c6f72))
         (call $set (i32.const 4096) (i32.const 4) (i32.const 4096) (i32.const 1) {BOMB} (i32.const 2048))
         (call $told (i32.const 0))"
    );
    check(&set, failure, "cannot set `r`: the value is too large to be read");
    let none = "(i32.const 0) (i32.const 0)";
    let emit = format!(
        "(call $emit_raw {none} (i32.const 1) {BOMB} {none} (i32.const 0) {none} {none} (i32.const 2048))
         (call $told (i32.const 0))"
    );
    check(&emit, failure, "cannot emit: `data` is too large to be read");
    let output = format!("(call $ok_data (i32.const 640) (i32.const 5) {BOMB})");
    check(&output, FaultKind::OutputInvalid, "the output's `data` is too large to be read");
    // A request's record: the schema of the reply lies behind the model, the messages and the tools.
    let llm = "(i32.store (i32.const 4124) (i32.const 1))
        (i32.store (i32.const 4128) (i32.const 131072)) (i32.store (i32.const 4132) (i32.const 1600003))
        (call $complete (i32.const 4096) (i32.const 2048)) (call $told (i32.const 0))";
    check(llm, failure, "cannot ask the model: `output-schema` is too large to be read");
}

#[test]
fn what_a_plain_function_returns_is_no_larger_as_a_document() {
    // 300,000 values of three bytes each, `some(some(true))`, which are objects in JSON.
    let text = r#"(component
        (core module $m
            (memory (export "memory") 16)
            (func (export "many") (result i32)
                (memory.fill (i32.const 64) (i32.const 1) (i32.const 900000))
                (i32.store (i32.const 8) (i32.const 64))
                (i32.store (i32.const 12) (i32.const 300000))
                (i32.const 8)))
        (core instance $i (instantiate $m))
        (func (export "many") (result (list (option (option bool))))
            (canon lift (core func $i "many") (memory (core memory $i "memory")))))"#;
    let roomy = Limits { memory_bytes: 64 << 20, ..limits() };
    let plugin = Plugin { function: Some("many".into()), ..plugin(roomy) };
    let fault = run(call(&wat::parse_str(text).expect("the component's text is right"), plugin)).result.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Error);
    assert!(fault.message.contains("the result is too large to be read"), "{}", fault.message);
}

#[test]
fn a_refused_document_is_nothing_that_a_guest_could_not_handle() {
    let handled = format!(
        "(i64.store (i32.const 4096) (i64.const 0x656c6f72))
         (call $set (i32.const 4096) (i32.const 4) (i32.const 4096) (i32.const 1) {BOMB} (i32.const 2048))
         (if (i32.eqz (i32.load8_u (i32.const 2048))) (then unreachable))
         (call $ok (i32.const 640) (i32.const 5))"
    );
    assert_eq!(told(&handled), Ok("guest".into()));
}

#[test]
fn a_text_of_a_gibibyte_that_is_not_there_is_a_trap() {
    const GIB: &str = "(i32.const 1024) (i32.const 1073741824)";
    let none = "(i32.const 0) (i32.const 0)";
    let ways = [
        format!("(call $log (i32.const 1) {GIB})"),
        format!("(call $emit {GIB})"),
        format!("(call $set {GIB} {none} {none} (i32.const 2048))"),
        format!("(call $set {none} {none} {GIB} (i32.const 2048))"),
        format!("(call $get {none} {GIB} (i32.const 2048))"),
        format!("(call $read {GIB} (i32.const 2048))"),
        format!("(call $write {none} {GIB} (i32.const 2048))"),
        format!("(call $placeholder {GIB} (i32.const 2048))"),
        format!("(return (call $ok {GIB}))"),
    ];
    for way in ways {
        let guest = Guest { run: &format!("{way} unreachable"), ..Guest::default() }.build();
        let fault = run(call(&guest, plugin(limits()))).result.expect_err(&way);
        assert!(
            matches!(fault.kind, FaultKind::Trap | FaultKind::OutputInvalid | FaultKind::OutputLimit),
            "{way}: {fault:?}"
        );
        assert!(!fault.message.contains("unreachable"), "{way}: {fault:?}");
    }
}

#[test]
fn a_text_of_a_gibibyte_that_is_there_counts_like_any_other() {
    // Nothing is written to it, so the machine has to find no room for it.
    let roomy = || Limits { memory_bytes: 3 << 30, ..limits() };
    let gib = "(i32.const 1048576) (i32.const 1073741824)";
    let check = |run_body: &str, kind: FaultKind, message: &str| {
        let run_body = format!("(drop (memory.grow (i32.const 16500))) {run_body}");
        let guest = Guest { run: &run_body, ..Guest::default() }.build();
        let fault = run(call(&guest, plugin(roomy()))).result.expect_err("the guest fails");
        assert_eq!(fault.kind, kind, "{fault:?}");
        assert!(fault.message.contains(message), "{}", fault.message);
    };
    check(&format!("(call $emit {gib}) unreachable"), FaultKind::Host, "limit of 64 MiB to and from the host reached");
    check(&format!("(call $ok {gib})"), FaultKind::OutputLimit, "output reached by the output");
}
