//! Tests of functions of foreign components as actions: their arguments and results. `echo` tests
//! all types and values.

use std::sync::Arc;

use serde_json::{Value, json};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::id::MessageId;
use strata_core::record::json::Json;
use strata_core::record::message::{Draft, Instruct, Message};
use strata_core::record::work::Task;
use strata_host::blob::digest_of;
use strata_host::plugin::{Limits, Plugin};
use strata_host::sandbox::{self, EntryPoint, Metering, ToolCallInput};

use crate::driver::{SANDBOX, call, limits, plugin, run};

/// The core module of the components in these tests, with functions that most of them share.
pub const CORE: &str = r#"
    (core module $m
        (memory (export "memory") 1)
        (global $heap (mut i32) (i32.const 4096))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 15)) (i32.const -16)))
            (global.set $heap (i32.add (local.get $at) (local.get 3)))
            (block $fits
                (br_if $fits (i32.le_u (global.get $heap) (i32.mul (memory.size) (i32.const 65536))))
                (drop (memory.grow (i32.add (i32.const 1) (i32.shr_u (local.get 3) (i32.const 16))))))
            (local.get $at))
        ;; Whatever two numbers flatten to: a list or a text comes back as it is.
        (func $echo (export "echo") (param i32 i32) (result i32)
            (i32.store (i32.const 8) (local.get 0))
            (i32.store (i32.const 12) (local.get 1))
            (i32.const 8))
        (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
        ;; The text, or the error `text` where it is empty.
        (func (export "nonempty") (param i32 i32) (result i32)
            (i32.store (i32.const 16) (i32.eqz (local.get 1)))
            (i32.store (i32.const 20) (select (local.get 0) (i32.const 64) (local.get 1)))
            (i32.store (i32.const 24) (select (local.get 1) (i32.const 4) (local.get 1)))
            (i32.const 16))
        (func (export "even") (param i32) (result i32)
            (i32.store8 (i32.const 16) (i32.and (local.get 0) (i32.const 1)))
            (i32.store (i32.const 20) (local.get 0))
            (i32.const 16))
        ;; How often, or 7 times.
        (func (export "times") (param i32 i32) (result i32)
            (select (local.get 1) (i32.const 7) (local.get 0)))
        (func (export "nothing"))
        (func $deep (export "boom") unreachable)
        (func (export "spin") (loop (br 0)))
        (func (export "handle") (result i32) (i32.const 1))
        (data (i32.const 64) "text"))
    (core instance $i (instantiate $m))
"#;

/// Returns a component that does not use the host's interfaces.
fn tools() -> Vec<u8> {
    let lifted = |name: &str, core: &str, ty: &str| {
        format!(
            r#"(func ${name} {ty}
                (canon lift (core func $i "{core}") (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))"#
        )
    };
    let functions = [
        ("echo", "echo", r#"(param "text" string) (result string)"#),
        (
            "bytes",
            "echo",
            r#"(param "raw" (list u8)) (result (list u8))"#,
        ),
        (
            "add",
            "add",
            r#"(param "a" u32) (param "b" u32) (result u32)"#,
        ),
        (
            "nonempty",
            "nonempty",
            r#"(param "text" string) (result (result string (error string)))"#,
        ),
        (
            "even",
            "even",
            r#"(param "n" u32) (result (result (error u32)))"#,
        ),
        ("times", "times", r#"(param "n" (option u32)) (result u32)"#),
        ("nothing", "nothing", ""),
        ("boom", "boom", ""),
        ("spin", "spin", ""),
    ];
    let items: String = functions
        .iter()
        .map(|(name, core, ty)| lifted(name, core, ty))
        .collect();
    let exports: String = functions
        .iter()
        .map(|(name, ..)| format!(r#"(export "{name}" (func ${name}))"#))
        .collect();
    let text = format!(
        r#"(component {CORE} {items} {exports}
            (type $f (resource (rep i32)))
            (export $file "file" (type $f))
            (func $open (result (own $file)) (canon lift (core func $i "handle")))
            (export "open" (func $open))
            (instance $math (export "add" (func $add)))
            (export "tools:math/basic@1.0.0" (instance $math)))"#
    );
    wat::parse_str(text).expect("the component's text is right")
}

/// Returns a message as it is delivered.
fn message(content: &str, data: Option<Value>) -> Arc<Message> {
    let mut message = Message::from_user(MessageId("m".into()), content.into(), "L".into());
    message.instruct = data.map(|data| Instruct::untyped(Json::from(data)));
    Arc::new(message)
}

fn plugin_calling(function: &str, config: Value) -> Plugin {
    Plugin {
        function: Some(function.into()),
        config: Json::from(config),
        ..plugin(limits())
    }
}

fn output(result: Result<sandbox::AttemptOutput, Fault>) -> Result<Draft, Fault> {
    result.map(|returned| match returned.value {
        sandbox::ReturnValue::Output(draft) => draft,
        other => panic!("not an output: {other:?}"),
    })
}

/// Calls a function with a message. Returns its output.
fn call_function(component: &[u8], plugin: Plugin, news: Arc<Message>) -> Result<Draft, Fault> {
    let mut call = call(component, plugin);
    call.news = vec![
        message("an older one", Some(json!({ "a": 40, "b": 50 }))),
        news,
    ];
    output(run(call).result)
}

/// Calls a function with the data of a message. Returns the data of its output.
pub fn data(component: &[u8], function: &str, data: Value) -> Result<Value, String> {
    let result = call_function(
        component,
        plugin_calling(function, Value::Null),
        message("", Some(data)),
    );
    result
        .map(|draft| draft.data.map_or(Value::Null, |data| data.value()))
        .map_err(|fault| fault.message)
}

/// Calls a function with the text and data of a message and a `config`. Compares its text and data,
/// or a part of its error.
fn check(
    function: &str,
    content: &str,
    data: Value,
    config: Value,
    expected: Result<(&str, Value), &str>,
) {
    let news = message(content, (!data.is_null()).then_some(data));
    let got = match call_function(&tools(), plugin_calling(function, config), news) {
        Ok(draft) => Ok((
            draft.content,
            draft.data.map_or(Value::Null, |data| data.value()),
        )),
        Err(fault) => {
            assert_eq!(
                fault.kind,
                FaultKind::Error,
                "{function}: {}",
                fault.message
            );
            Err(fault.message)
        }
    };
    match (got, expected) {
        (Ok((content, data)), Ok(expected)) => {
            assert_eq!((content.as_str(), data), expected, "{function}")
        }
        (Err(message), Err(part)) => assert!(message.contains(part), "{function}: {message}"),
        (got, _) => panic!("{function}: {got:?}"),
    }
}

#[test]
fn the_only_needed_argument_is_the_whole_message_unless_it_names_it() {
    let none = Value::Null;
    check(
        "echo",
        "hi",
        none.clone(),
        none.clone(),
        Ok(("hi", json!("hi"))),
    );
    check(
        "echo",
        "{\"text\":1}",
        none.clone(),
        none.clone(),
        Ok(("{\"text\":1}", json!("{\"text\":1}"))),
    );
    check(
        "echo",
        "hi",
        json!("data"),
        none.clone(),
        Ok(("data", json!("data"))),
    );
    check(
        "echo",
        "hi",
        json!({ "text": "named" }),
        none.clone(),
        Ok(("named", json!("named"))),
    );
    check(
        "echo",
        "hi",
        json!({ "other": 1 }),
        none.clone(),
        Ok(("hi", json!("hi"))),
    );
    check(
        "echo",
        "hi",
        json!({ "text": 1 }),
        none.clone(),
        Err("argument `text`: expected a string, found `1`"),
    );
    check(
        "bytes",
        "",
        json!("AAH/"),
        none.clone(),
        Ok(("AAH/", json!("AAH/"))),
    );
    check(
        "bytes",
        "",
        json!([0, 1]),
        none.clone(),
        Err("expected a string in base64, found `[0,1]`"),
    );
}

#[test]
fn several_arguments_are_taken_by_name() {
    let none = Value::Null;
    check(
        "add",
        "",
        json!({ "a": 1, "b": 2, "more": 3 }),
        none.clone(),
        Ok(("3", json!(3))),
    );
    check(
        "add",
        "{\"a\": 1, \"b\": 2.0}",
        none.clone(),
        none.clone(),
        Ok(("3", json!(3))),
    );
    check(
        "add",
        "x",
        json!({ "a": 1 }),
        none.clone(),
        Err("argument `b` is missing: the newest message has `a`"),
    );
    check(
        "add",
        "x",
        none.clone(),
        none.clone(),
        Err("`a` is missing: the newest message holds no object"),
    );
    check(
        "add",
        "",
        json!({ "a": -1, "b": 2 }),
        none.clone(),
        Err("`a`: expected a whole number from 0 to 4294967295"),
    );
}

#[test]
fn arguments_in_the_team_file_override_the_message_and_its_defaults_do_not() {
    let none = Value::Null;
    let fixed = json!({ "args": { "b": 10 } });
    check(
        "add",
        "5",
        none.clone(),
        fixed.clone(),
        Ok(("15", json!(15))),
    );
    check(
        "add",
        "",
        json!({ "a": 1, "b": 2 }),
        fixed,
        Ok(("11", json!(11))),
    );
    let default = json!({ "defaults": { "b": 10 } });
    check(
        "add",
        "",
        json!({ "a": 1, "b": 2 }),
        default.clone(),
        Ok(("3", json!(3))),
    );
    check("add", "", json!({ "a": 1 }), default, Ok(("11", json!(11))));
    check(
        "times",
        "nothing of use",
        none.clone(),
        none.clone(),
        Ok(("7", json!(7))),
    );
    check(
        "times",
        "",
        json!({ "n": 3 }),
        none.clone(),
        Ok(("3", json!(3))),
    );
}

#[test]
fn a_result_tells_whether_the_function_failed() {
    let none = Value::Null;
    check(
        "nonempty",
        "x",
        none.clone(),
        none.clone(),
        Ok(("x", json!("x"))),
    );
    check("nonempty", "", none.clone(), none.clone(), Err("text"));
    check(
        "even",
        "4",
        none.clone(),
        none.clone(),
        Ok(("", none.clone())),
    );
    check("even", "3", none.clone(), none.clone(), Err("3"));
    check(
        "nothing",
        "x",
        none.clone(),
        none.clone(),
        Ok(("", none.clone())),
    );
    check(
        "tools:math/basic@1.0.0#add",
        "",
        json!({ "a": 1, "b": 2 }),
        none.clone(),
        Ok(("3", json!(3))),
    );
}

#[test]
fn the_newest_output_or_the_planned_task_comes_before_the_news() {
    let tools = tools();
    let mut call = call(&tools, plugin_calling("echo", Value::Null));
    call.news = vec![message("news", None)];
    call.outputs = vec![message("older", None), message("newest", None)];
    assert_eq!(output(run(call.clone()).result).unwrap().content, "newest");
    let task = Task {
        text: "do it".into(),
        action: None,
    };
    call.entry = EntryPoint::Run {
        action: "A".into(),
        index: 0,
        task: Some(task),
        tool_call: None,
    };
    assert_eq!(output(run(call.clone()).result).unwrap().content, "do it");
    // A tool call brings its own arguments, and no message stands in for them.
    let mut call_tool = |arguments: &str| {
        call.entry = EntryPoint::Run {
            action: "A".into(),
            index: 0,
            task: None,
            tool_call: Some(ToolCallInput {
                arguments: Json::parse(arguments).unwrap(),
                turn: 0,
                call: 0,
            }),
        };
        output(run(call.clone()).result)
    };
    let called = call_tool(r#"{"text":"argument"}"#);
    assert_eq!(called.unwrap().content, "argument");
    let message = call_tool("{}").unwrap_err().message;
    assert!(message.contains("the tool call has none"), "{message}");
}

#[test]
fn limits_and_faults_are_those_of_any_action() {
    let tools = tools();
    let fault = |function: &str, limits: Limits, content: &str| {
        let plugin = Plugin {
            limits,
            ..plugin_calling(function, Value::Null)
        };
        call_function(&tools, plugin, message(content, None)).unwrap_err()
    };
    let boom = fault("boom", limits(), "");
    assert_eq!((boom.kind, boom.backtrace.len()), (FaultKind::Trap, 1));
    assert!(
        boom.backtrace[0].starts_with("deep "),
        "{:?}",
        boom.backtrace
    );
    let spin = Limits {
        cpu: std::time::Duration::from_millis(50),
        ..limits()
    };
    assert_eq!(fault("spin", spin, "").kind, FaultKind::Cpu);
    assert_eq!(
        fault(
            "spin",
            Limits {
                fuel: Some(1000),
                ..limits()
            },
            ""
        )
        .kind,
        FaultKind::Fuel
    );
    let narrow = Limits {
        output_bytes: 10,
        ..limits()
    };
    assert_eq!(
        fault("echo", narrow, "more than ten bytes").kind,
        FaultKind::OutputLimit
    );
    let mut plugin = plugin_calling("add", json!({ "args": { "a": 1, "b": 2 } }));
    plugin.output_schema =
        Some(strata_host::plugin::CompiledSchema::compile(&json!({ "type": "string" })).unwrap());
    let broken = call_function(&tools, plugin, message("", None)).unwrap_err();
    assert_eq!(broken.kind, FaultKind::OutputInvalid);
    assert!(
        broken.message.contains("breaks `output_schema`"),
        "{}",
        broken.message
    );
}

#[test]
fn what_cannot_be_called_is_found_when_the_component_is_loaded() {
    let tools = tools();
    let digest = digest_of(&tools);
    let loaded = SANDBOX
        .load_without_handler(digest, &tools, Metering::Plain, &Limits::default())
        .unwrap();
    assert!(!loaded.exports.handler);
    let check = |function: &str, config: Value, expected: Result<(), &str>| {
        let got = SANDBOX.check_function(
            &loaded.digest,
            Metering::Plain,
            function,
            &Json::from(config),
        );
        match (got, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (got, _) => panic!("{function}: {got:?}"),
        }
    };
    check("add", Value::Null, Ok(()));
    check(
        "add",
        json!({ "args": { "a": 1 }, "defaults": { "b": 2 } }),
        Ok(()),
    );
    check(
        "adds",
        Value::Null,
        Err("the component has no function `adds`; it has `add`, `boom`, `bytes`"),
    );
    check(
        "open",
        Value::Null,
        Err("cannot call `open`: its result has a resource in it"),
    );
    check(
        "add",
        json!({ "args": { "c": 1 } }),
        Err("`args` has `c`, but the function's parameters are `a`, `b`"),
    );
    check(
        "add",
        json!({ "args": { "a": "x" } }),
        Err("`a` in `args`: expected a whole number"),
    );
    check(
        "add",
        json!({ "a": 1 }),
        Err("unknown field `a`, expected `args` or `defaults`"),
    );
    check(
        "add",
        json!([1]),
        Err("cannot call `add` with this `config`"),
    );
    let as_action = SANDBOX
        .load(&tools, Metering::Plain)
        .unwrap_err()
        .to_string();
    assert!(as_action.contains("so it is not an action"), "{as_action}");
    assert!(as_action.contains("`function = \"…\"`"), "{as_action}");
}
