//! Variants of `generateContent`.

use serde_json::{Value, json};
use strata_core::record::conversation::TokenUsage;

use super::{ADD, LogicalReply, NOW, USAGE, WireReply, calling, hello};

pub(super) fn replies() -> Vec<(LogicalReply, WireReply)> {
    let text = |text: &str| json!({ "text": text });
    let call = json!({ "functionCall": { "name": "add", "args": { "a": 1 } }, "thoughtSignature": "c2ln" });
    let beside = |text: &str| {
        let mut part = call.clone();
        part["text"] = text.into();
        part
    };
    let thoughtful = |mut part: Value| {
        part["thought"] = true.into();
        part
    };
    let identified = json!({ "functionCall": { "id": "f1", "name": "add", "args": { "a": 1 } } });
    let now = json!({ "functionCall": { "name": "now" } });
    let said_and_called = LogicalReply {
        text: "hello",
        ..calling("text beside a call", &[ADD])
    };
    let thought = LogicalReply {
        reasoning: "hm",
        ..calling("reasoning beside a call", &[ADD])
    };
    let case = |logical, parts: &[Value], pieces: &[&[Value]]| {
        let mut events: Vec<Value> = pieces
            .iter()
            .map(|parts| chunk(parts, Value::Null, growing()))
            .collect();
        events.push(json!({ "candidates": [{ "finishReason": "STOP" }], "usageMetadata": usage(), "modelVersion": "served" }));
        (
            logical,
            WireReply {
                whole: chunk(parts, "STOP".into(), usage()),
                events,
            },
        )
    };
    let mut list = vec![
        case(
            calling("empty text beside a call", &[ADD]),
            &[beside("")],
            &[&[beside("")]],
        ),
        case(said_and_called, &[beside("hello")], &[&[beside("hello")]]),
        case(
            thought,
            &[thoughtful(beside("hm"))],
            &[&[thoughtful(beside("hm"))]],
        ),
        case(
            calling("a call that is called a thought", &[ADD]),
            &[thoughtful(call.clone())],
            &[&[thoughtful(call.clone())]],
        ),
        case(
            hello("text in several parts"),
            &[text("hel"), text(""), text("lo")],
            &[&[text("hel"), text("l")], &[text(""), text("o")]],
        ),
        case(
            calling("a call without arguments", &[NOW]),
            std::slice::from_ref(&now),
            &[std::slice::from_ref(&now)],
        ),
        case(
            calling("a repeated call", &[ADD]),
            &[identified.clone(), identified.clone()],
            &[
                std::slice::from_ref(&identified),
                std::slice::from_ref(&identified),
            ],
        ),
        case(
            calling("calls in chunks of their own", &[ADD, NOW]),
            &[call.clone(), now.clone()],
            &[std::slice::from_ref(&call), std::slice::from_ref(&now)],
        ),
    ];
    // Counts of reasoning that the other output includes, and a later report without counts.
    let included = json!({ "promptTokenCount": 100, "cachedContentTokenCount": 30, "candidatesTokenCount": 20,
        "thoughtsTokenCount": 15, "totalTokenCount": 120 });
    let zero = json!({ "promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0 });
    let reasoning = LogicalReply {
        usage: TokenUsage {
            reasoning: 15,
            ..USAGE
        },
        ..hello("reasoning within the other output")
    };
    list.push((
        reasoning,
        WireReply {
            whole: chunk(&[text("hello")], "STOP".into(), included.clone()),
            events: vec![
                chunk(&[text("hello")], Value::Null, included),
                chunk(&[], "STOP".into(), zero),
            ],
        },
    ));
    list
}

fn usage() -> Value {
    json!({ "promptTokenCount": 100, "cachedContentTokenCount": 30, "candidatesTokenCount": 20, "totalTokenCount": 120 })
}

fn growing() -> Value {
    json!({ "promptTokenCount": 100, "candidatesTokenCount": 3, "totalTokenCount": 103 })
}

fn chunk(parts: &[Value], finish: Value, usage: Value) -> Value {
    json!({ "candidates": [{ "index": 0, "content": { "role": "model", "parts": parts }, "finishReason": finish }],
        "usageMetadata": usage, "modelVersion": "served" })
}
