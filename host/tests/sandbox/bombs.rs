//! Inputs that are small for a guest but would be large in the host: documents with many values,
//! texts outside the guest's memory, components with many parts. Each is refused before it is
//! expanded, and the guest can continue.

use serde_json::json;
use strata_core::record::fault::FaultKind;
use strata_core::record::json::Json;
use strata_host::blob::digest_of;
use strata_host::plugin::{Grants, Limits, LlmGrant, Plugin};
use strata_host::sandbox::{Metering, ReturnValue};

use crate::driver::{SANDBOX, call, limits, plugin, run};
use crate::guest::Guest;

/// The address and length of the document: 1.5 MiB that would be 130 MiB as values.
const BOMB: &str = "(i32.const 131072) (i32.const 1600003)";
/// Writes the document `[ {"":0}, … 0]`.
const WRITE_BOMB: &str = r#"
    (func $lay (local $at i32)
        (i32.store8 (i32.const 131072) (i32.const 91))
        (local.set $at (i32.const 131073))
        (loop $again
            (i64.store (local.get $at) (i64.const 0x2c7d303a22227b20))
            (local.set $at (i32.add (local.get $at) (i32.const 8)))
            (br_if $again (i32.lt_u (local.get $at) (i32.const 1731073))))
        (i32.store16 (local.get $at) (i32.const 0x5d30)))"#;

/// Runs a guest with the document. Returns its text or its fault.
fn run_with_bomb(run_body: &str) -> Result<String, (FaultKind, String)> {
    let run_body = format!("(call $lay) {run_body}");
    let guest = Guest {
        items: WRITE_BOMB,
        run: &run_body,
        memory: "30",
        ..Guest::default()
    }
    .build();
    let mut plugin = plugin(Limits {
        output_bytes: 4 << 20,
        ..limits()
    });
    plugin.grants = Grants {
        llm: Some(LlmGrant {
            models: vec!["*".into()],
            ..LlmGrant::default()
        }),
        ..Grants::default()
    };
    match run(call(&guest, plugin)).result {
        Ok(returned) => match returned.value {
            ReturnValue::Output(draft) => Ok(draft.content),
            other => panic!("not an output: {other:?}"),
        },
        Err(fault) => Err((fault.kind, fault.message)),
    }
}

#[test]
fn a_document_of_too_many_values_is_refused_whichever_way_it_comes() {
    let check = |run: &str, kind: FaultKind, expected: &str| {
        let (got, message) = run_with_bomb(run).expect_err(run);
        assert_eq!(got, kind, "{message}");
        assert!(
            message.contains(expected) && message.contains("128 MiB"),
            "{message}"
        );
    };
    let failure = FaultKind::Error;
    let set = format!(
        "(i64.store (i32.const 4096) (i64.const 0x656c6f72))
         (call $set (i32.const 4096) (i32.const 4) (i32.const 4096) (i32.const 1) {BOMB} (i32.const 2048))
         (call $told (i32.const 0))"
    );
    check(
        &set,
        failure,
        "cannot set `r`: the value is too large to be read",
    );
    let none = "(i32.const 0) (i32.const 0)";
    let emit = format!(
        "(call $emit_raw {none} (i32.const 1) {BOMB} {none} {none} (i32.const 0) {none} {none} (i32.const 2048))
         (call $told (i32.const 0))"
    );
    check(
        &emit,
        failure,
        "cannot emit: `data` is too large to be read",
    );
    let output = format!("(call $ok_data (i32.const 640) (i32.const 5) {BOMB})");
    check(
        &output,
        FaultKind::OutputInvalid,
        "the output's `data` is too large to be read",
    );
    // In the record of a request, the schema of the reply follows the model, the messages, the tools
    // and their choice.
    let llm = "(i32.store (i32.const 4136) (i32.const 1))
        (i32.store (i32.const 4140) (i32.const 131072)) (i32.store (i32.const 4144) (i32.const 1600003))
        (call $complete (i32.const 4096) (i32.const 2048)) (call $told (i32.const 0))";
    check(
        llm,
        failure,
        "cannot ask the model: `output-schema` is too large to be read",
    );
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
    let roomy = Limits {
        memory_bytes: 64 << 20,
        ..limits()
    };
    let plugin = Plugin {
        function: Some("many".into()),
        ..plugin(roomy)
    };
    let fault = run(call(
        &wat::parse_str(text).expect("the component's text is right"),
        plugin,
    ))
    .result
    .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Error);
    assert!(
        fault.message.contains("the result is too large to be read"),
        "{}",
        fault.message
    );
}

#[test]
fn what_a_plain_function_is_called_with_is_no_larger_than_a_document() {
    // An empty object becomes a thousand fields with their names, and a base64 character a value of
    // its own.
    let fields: String = (0..1000)
        .map(|n| format!("(field \"f{n}\" (option u8))"))
        .collect();
    let text = format!(
        r#"(component
        (core module $m
            (memory (export "memory") 1)
            (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "take") (param i32 i32)))
        (core instance $i (instantiate $m))
        (type $record (record {fields}))
        (export $named "record" (type $record))
        (func (export "records") (param "items" (list $named))
            (canon lift (core func $i "take") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))
        (func (export "bytes") (param "items" (list u8))
            (canon lift (core func $i "take") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))"#
    );
    let component = wat::parse_str(&text).expect("the component's text is right");
    let called = |function: &str, items: serde_json::Value| {
        let mut plugin = Plugin {
            function: Some(function.into()),
            ..plugin(limits())
        };
        plugin.config = Json::from(json!({ "args": { "items": items } }));
        run(call(&component, plugin)).result.unwrap_err()
    };
    for (function, items) in [
        ("records", json!(vec![json!({}); 1000])),
        ("bytes", json!("AAAA".repeat(3 << 19))),
    ] {
        let fault = called(function, items);
        assert_eq!(fault.kind, FaultKind::Error, "{}", fault.message);
        let why = "argument `items`: as a value of its type it is too large to be read";
        assert!(fault.message.contains(why), "{}", fault.message);
    }
    // A value that fits is passed to the guest, which has no memory for it.
    assert_eq!(
        called("records", json!(vec![json!({}); 100])).kind,
        FaultKind::Trap
    );
}

#[test]
fn a_manifest_of_many_empty_needs_is_refused() {
    // The list is in zeroed memory, and takes eight bytes per item in the guest.
    let describe = "(i32.store (i32.const 572) (i32.const 65536)) (i32.store (i32.const 576) (i32.const 70000))
        (i32.const 512)";
    let guest = Guest {
        describe,
        memory: "10",
        ..Guest::default()
    }
    .build();
    let told = SANDBOX
        .load(&guest, Metering::Plain)
        .unwrap_err()
        .to_string();
    assert!(
        told.contains("its manifest has 1.1 MiB, at most 1 MiB are taken"),
        "{told}"
    );
}

#[test]
fn a_refused_document_is_nothing_that_a_guest_could_not_handle() {
    let handled = format!(
        "(i64.store (i32.const 4096) (i64.const 0x656c6f72))
         (call $set (i32.const 4096) (i32.const 4) (i32.const 4096) (i32.const 1) {BOMB} (i32.const 2048))
         (if (i32.eqz (i32.load8_u (i32.const 2048))) (then unreachable))
         (call $ok (i32.const 640) (i32.const 5))"
    );
    assert_eq!(run_with_bomb(&handled), Ok("guest".into()));
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
        let guest = Guest {
            run: &format!("{way} unreachable"),
            ..Guest::default()
        }
        .build();
        let fault = run(call(&guest, plugin(limits()))).result.expect_err(&way);
        assert!(
            matches!(
                fault.kind,
                FaultKind::Trap | FaultKind::OutputInvalid | FaultKind::OutputLimit
            ),
            "{way}: {fault:?}"
        );
        assert!(!fault.message.contains("unreachable"), "{way}: {fault:?}");
    }
}

#[test]
fn a_text_of_a_gibibyte_that_is_there_counts_like_any_other() {
    // Nothing is written to the text, so the machine needs no memory for it.
    let roomy = || Limits {
        memory_bytes: 3 << 30,
        ..limits()
    };
    let gib = "(i32.const 1048576) (i32.const 1073741824)";
    let check = |run_body: &str, kind: FaultKind, message: &str| {
        let run_body = format!("(drop (memory.grow (i32.const 16500))) {run_body}");
        let guest = Guest {
            run: &run_body,
            ..Guest::default()
        }
        .build();
        let fault = run(call(&guest, plugin(roomy())))
            .result
            .expect_err("the guest fails");
        assert_eq!(fault.kind, kind, "{fault:?}");
        assert!(fault.message.contains(message), "{}", fault.message);
    };
    check(
        &format!("(call $emit {gib}) unreachable"),
        FaultKind::Host,
        "limit of 64 MiB to and from the host reached",
    );
    check(
        &format!("(call $ok {gib})"),
        FaultKind::OutputLimit,
        "output reached by the output",
    );
}

/// Loads a component. Returns the error.
fn load_component(text: &str) -> Result<(), String> {
    let component = wat::parse_str(text).expect("the component's text is right");
    let digest = digest_of(&component);
    SANDBOX
        .load_without_handler(digest, &component, Metering::Plain, &Limits::default())
        .map(drop)
        .map_err(|error| error.to_string())
}

#[test]
fn a_component_of_components_is_counted_before_it_is_put_together() {
    let check = |text: String, expected: &str| {
        let told = load_component(&format!("(component {text})")).expect_err(&text);
        assert!(
            told.starts_with("the component") && told.contains(expected),
            "{told}"
        );
    };
    // Each level creates new instances of the one before.
    let tower = |ground: &str, levels: usize, each: usize| {
        let level = |n: usize| {
            format!(
                "(component $c{n} {})",
                format!("(instance (instantiate $c{}))", n - 1).repeat(each)
            )
        };
        let levels: String = (1..=levels).map(level).collect();
        format!("(component $c0 {ground}) {levels}")
    };
    let ground = "(core module $m) (core instance (instantiate $m))";
    check(
        tower(ground, 3, 100),
        "65 core instances, the sandbox holds 64",
    );
    check(
        tower("", 3, 100),
        " instances of nested components, the sandbox holds 256",
    );
    check(
        tower("", 17, 1),
        "17 levels of components, the sandbox holds 16",
    );
    check(
        format!(
            "(component $c {}) {}",
            "(type (resource (rep i32)))".repeat(2000),
            "(instance (instantiate $c))".repeat(100)
        ),
        " parts",
    );
    // Each instance contains the one before twice.
    let twice = |n: usize| {
        format!(
            "(instance $i{n} (export \"a\" (instance $i{0})) (export \"b\" (instance $i{0})))",
            n - 1
        )
    };
    let doubling: String = (1..18).map(twice).collect();
    check(
        format!("(instance $i0) {doubling}"),
        " parts, the sandbox holds 131072",
    );
    check(
        format!(
            "(instance $some (export \"a\" (instance $none)))
             (component $c (import \"i\" (instance $i0)) {doubling})
             (instance (instantiate $c (with \"i\" (instance $some))))"
        )
        .replacen("(instance $some", "(instance $none) (instance $some", 1),
        " parts",
    );
    // Each component captures the one before twice.
    let outer = |n: usize| {
        format!(
            "(component $c{n} {0} {0})",
            format!("(alias outer 1 $c{} (component))", n - 1)
        )
    };
    let keeping: String = (1..18).map(outer).collect();
    check(format!("(component $c0) {keeping}"), " parts");
    // The number of its parts is unknown.
    check(
        "(component $c (import \"x\" (component $x)) (instance (instantiate $x)))".into(),
        "that it is given",
    );
}

#[test]
fn components_that_are_composed_of_others_are_put_together() {
    let tool = r#"(component $tool
        (import "ask" (instance $ask (export "more" (func (result u32)))))
        (core func $more (canon lower (func $ask "more")))
        (core module $m (import "ask" "more" (func $more (result i32)))
            (func (export "more") (result i32) (i32.add (call $more) (i32.const 1))))
        (core instance $i (instantiate $m (with "ask" (instance (export "more" (func $more))))))
        (func $f (result u32) (canon lift (core func $i "more")))
        (instance $x (export "more" (func $f)))
        (export "tell" (instance $x)))"#;
    let last = 20;
    let link = |n: usize| {
        format!(
            "(instance $t{n} (instantiate $tool (with \"ask\" (instance $t{} \"tell\"))))",
            n - 1
        )
    };
    let links: String = (1..=last).map(link).collect();
    let text = format!(
        r#"(component {tool}
            (component $first
                (core module $m (func (export "none") (result i32) (i32.const 0)))
                (core instance $i (instantiate $m))
                (func $f (result u32) (canon lift (core func $i "none")))
                (instance $x (export "more" (func $f)))
                (export "tell" (instance $x)))
            (instance $t0 (instantiate $first)) {links}
            (alias export $t{last} "tell" (instance $told))
            (export "told" (instance $told)))"#
    );
    let component = wat::parse_str(&text).expect("the component's text is right");
    let plugin = Plugin {
        function: Some("told#more".into()),
        ..plugin(limits())
    };
    match run(call(&component, plugin))
        .result
        .expect("it is called")
        .value
    {
        ReturnValue::Output(draft) => assert_eq!(draft.content, last.to_string()),
        other => panic!("not an output: {other:?}"),
    }
}
