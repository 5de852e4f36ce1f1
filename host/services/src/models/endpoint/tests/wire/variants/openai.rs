//! Variants of chat completions.

use serde_json::{Value, json};
use strata_core::record::conversation::TokenUsage;

use super::{ADD, LogicalReply, NOW, USAGE, WireReply, calling, hello};
use crate::models::FinishReason;

pub(super) fn replies() -> Vec<(LogicalReply, WireReply)> {
    calls().into_iter().chain(texts()).chain(counts()).collect()
}

fn calls() -> Vec<(LogicalReply, WireReply)> {
    let add = || json!({ "index": 0, "id": "c1", "type": "function", "function": { "name": "add", "arguments": "{\"a\":1}" } });
    let now = || json!({ "index": 1, "id": "c2", "type": "function", "function": { "name": "now", "arguments": "{}" } });
    let piece = |index: u64, arguments: &str| json!({ "index": index, "function": { "arguments": arguments } });
    let begin = |index: u64, id: &str, name: &str| json!({ "index": index, "id": id, "function": { "name": name, "arguments": "" } });
    let list = |calls: &[Value]| json!({ "tool_calls": calls });
    let whole =
        |calls: &[Value]| message(json!({ "content": "", "tool_calls": calls }), "tool_calls");
    let mut respelt = add();
    respelt["function"]["arguments"] = "{ \"a\": 1 }".into();
    let mut nameless = add();
    nameless["function"] = without(&nameless["function"], "name");
    let mut as_object = add();
    as_object["function"]["arguments"] = json!({ "a": 1 });
    let without_arguments = json!({ "index": 0, "id": "c2", "function": { "name": "now" } });
    let events = |deltas: &[Value]| {
        let mut events: Vec<Value> = deltas
            .iter()
            .map(|delta| chunk(delta, Value::Null))
            .collect();
        events.extend([chunk(&json!({}), "tool_calls".into()), counted()]);
        events
    };
    let case = |name, calls, whole: Value, events: Vec<Value>| {
        (calling(name, calls), WireReply { whole, events })
    };
    vec![
        case(
            "empty text beside a call",
            &[ADD],
            whole(&[add()]),
            events(&[json!({ "role": "assistant", "content": "", "tool_calls": [add()] })]),
        ),
        case(
            "a repeated call",
            &[ADD],
            whole(&[add(), add()]),
            events(&[list(&[add()]), list(&[add()])]),
        ),
        case(
            "a call repeated in other words",
            &[ADD],
            whole(&[add()]),
            events(&[list(&[add()]), list(&[respelt])]),
        ),
        case(
            "a call repeated without its name",
            &[ADD],
            whole(&[add()]),
            events(&[list(&[add()]), list(&[nameless])]),
        ),
        case(
            "calls repeated with the finish reason",
            &[ADD, NOW],
            whole(&[add(), now()]),
            vec![
                chunk(&list(&[begin(0, "c1", "add")]), Value::Null),
                chunk(&list(&[piece(0, "{\"a\":1}")]), Value::Null),
                chunk(&list(&[now()]), Value::Null),
                chunk(&list(&[add(), now()]), "tool_calls".into()),
                counted(),
            ],
        ),
        case(
            "interleaved calls, ids only at first",
            &[ADD, NOW],
            whole(&[add(), now()]),
            events(&[
                list(&[begin(0, "c1", "add"), begin(1, "c2", "now")]),
                list(&[piece(1, "{"), piece(0, "{\"a\"")]),
                list(&[piece(0, ":1}")]),
                list(&[piece(1, "}")]),
            ]),
        ),
        case(
            "calls without index",
            &[ADD, NOW],
            whole(&[add(), now()]),
            events(&[
                list(&[without(&add(), "index")]),
                list(&[without(&now(), "index")]),
            ]),
        ),
        case(
            "a call without arguments",
            &[NOW],
            whole(std::slice::from_ref(&without_arguments)),
            events(&[list(&[without_arguments])]),
        ),
        case(
            "arguments as an object",
            &[ADD],
            whole(&[as_object.clone()]),
            events(&[list(&[as_object])]),
        ),
    ]
}

fn texts() -> Vec<(LogicalReply, WireReply)> {
    let thinking =
        |text: &str| json!({ "type": "thinking", "thinking": [{ "type": "text", "text": text }] });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let mut usage = usage();
    usage["completion_tokens_details"] = json!({ "reasoning_tokens": 15 });
    let reasoning = LogicalReply {
        reasoning: "step by step",
        usage: TokenUsage {
            reasoning: 15,
            ..USAGE
        },
        ..hello("reasoning in parts")
    };
    let mut thought = message(
        json!({ "content": [thinking("step by step"), text("hello")] }),
        "stop",
    );
    thought["usage"] = usage.clone();
    let refused = LogicalReply {
        finish: FinishReason::Refusal,
        ..hello("a refusal in a part")
    };
    let refusal = |text: &str| json!({ "content": [{ "type": "refusal", "refusal": text }] });
    let delta = |text: &str| chunk(&json!({ "content": text }), Value::Null);
    let open = |text: &str| chunk(&json!({ "content": text }), "".into());
    let whole = || message(json!({ "content": "hello" }), "stop");
    vec![
        (
            reasoning,
            WireReply {
                whole: thought,
                events: vec![
                    chunk(&json!({ "content": [thinking("step ")] }), Value::Null),
                    chunk(&json!({ "content": [thinking("by step")] }), Value::Null),
                    chunk(&json!({ "content": [text("hello")] }), "stop".into()),
                    json!({ "model": "served", "choices": [], "usage": usage }),
                ],
            },
        ),
        (
            refused,
            WireReply {
                whole: message(refusal("hello"), "stop"),
                events: vec![
                    chunk(&refusal("hel"), Value::Null),
                    chunk(&refusal("lo"), Value::Null),
                    chunk(&json!({}), "stop".into()),
                    counted(),
                ],
            },
        ),
        (
            hello("empty finish reasons"),
            WireReply {
                whole: whole(),
                events: vec![
                    open("hel"),
                    open("lo"),
                    chunk(&json!({ "content": "" }), "stop".into()),
                    counted(),
                ],
            },
        ),
        (
            hello("finish reasons that are none"),
            WireReply {
                whole: whole(),
                events: vec![
                    chunk(&json!({ "content": "hel" }), false.into()),
                    delta("lo"),
                    chunk(&json!({}), "stop".into()),
                    counted(),
                ],
            },
        ),
        (
            hello("the message after its pieces"),
            WireReply {
                whole: whole(),
                events: vec![
                    delta("hel"),
                    delta("lo"),
                    json!({ "model": "served", "usage": self::usage(), "choices": [
                { "index": 0, "message": { "content": "hello" }, "finish_reason": "stop" } ] }),
                ],
            },
        ),
    ]
}

fn counts() -> Vec<(LogicalReply, WireReply)> {
    let whole = || message(json!({ "content": "hello" }), "stop");
    let with_usage = |mut event: Value, usage: Value| {
        event["usage"] = usage;
        event
    };
    let delta = || chunk(&json!({ "content": "hello" }), Value::Null);
    let end = || chunk(&json!({}), "stop".into());
    let zero = json!({ "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 });
    let growing = |tokens: u64| json!({ "prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens });
    let mut in_choice = whole();
    let usage = in_choice["usage"].take();
    in_choice["choices"][0]["usage"] = usage.clone();
    let mut end_with_usage = end();
    end_with_usage["choices"][0]["usage"] = usage;
    let mut beside = whole();
    beside["usage"] = json!({ "prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 120,
        "prompt_tokens_details": { "cached_tokens": 30 },
        "completion_tokens_details": { "reasoning_tokens": 15 } });
    let counted_beside = json!({ "model": "served", "choices": [], "usage": beside["usage"] });
    let reasoning = LogicalReply {
        usage: TokenUsage {
            reasoning: 15,
            ..USAGE
        },
        ..hello("reasoning beside the other output")
    };
    vec![
        (
            hello("usage in each chunk"),
            WireReply {
                whole: whole(),
                events: vec![
                    with_usage(delta(), growing(10)),
                    with_usage(end(), growing(20)),
                    counted(),
                ],
            },
        ),
        (
            hello("a later usage of zero"),
            WireReply {
                whole: whole(),
                events: vec![
                    delta(),
                    end(),
                    counted(),
                    json!({ "model": "served", "choices": [], "usage": zero }),
                ],
            },
        ),
        (
            hello("a repeated usage"),
            WireReply {
                whole: whole(),
                events: vec![delta(), end(), counted(), counted()],
            },
        ),
        (
            hello("usage in the choice"),
            WireReply {
                whole: in_choice,
                events: vec![delta(), end_with_usage],
            },
        ),
        (
            reasoning,
            WireReply {
                whole: beside,
                events: vec![delta(), end(), counted_beside],
            },
        ),
    ]
}

/// Returns an object without a field.
fn without(object: &Value, field: &str) -> Value {
    let mut fields = object.as_object().expect("an object").clone();
    fields.remove(field);
    fields.into()
}

fn usage() -> Value {
    super::super::openai::usage()
}

fn message(message: Value, finish: &str) -> Value {
    json!({ "model": "served", "usage": usage(),
        "choices": [{ "index": 0, "message": message, "finish_reason": finish }] })
}

fn chunk(delta: &Value, finish: Value) -> Value {
    json!({ "model": "served", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

/// Returns the chunk that contains the usage alone.
fn counted() -> Value {
    json!({ "model": "served", "choices": [], "usage": usage() })
}
