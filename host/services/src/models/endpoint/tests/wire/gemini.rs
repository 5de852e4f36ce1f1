//! The list as `generateContent` responses, in one piece and in the pieces of
//! `streamGenerateContent`.

use serde_json::{Value, json};

use super::WireReply;

pub(super) fn replies() -> [WireReply; 5] {
    let text = |text: &str| json!({ "text": text });
    let calls = || {
        [
            json!({ "functionCall": { "name": "add", "args": { "a": 1, "b": "ü" } }, "thoughtSignature": "c2ln" }),
            json!({ "functionCall": { "name": "now", "args": {} } }),
        ]
    };
    let [add, now] = calls();
    [
        reply(
            json!([text("hellö wörld")]),
            "STOP",
            &[json!([text("hellö")]), json!([text(" wörld")])],
        ),
        reply(
            json!([text("half an ans")]),
            "MAX_TOKENS",
            &[json!([text("half an")]), json!([text(" ans")])],
        ),
        reply(
            json!([text("let me see"), add, now]),
            "STOP",
            &[
                json!([text("let me ")]),
                json!([text("see")]),
                calls().into_iter().collect(),
            ],
        ),
        with_reasoning(reply(
            json!([{ "text": "step by step", "thought": true }, text("so it is 4")]),
            "STOP",
            &[
                json!([{ "text": "step ", "thought": true }]),
                json!([{ "text": "by step", "thought": true }]),
                json!([text("so it is 4")]),
            ],
        )),
        reply(
            json!([text("I cannot help with that")]),
            "SAFETY",
            &[json!([text("I cannot help with that")])],
        ),
    ]
}

fn reply(parts: Value, finish: &str, pieces: &[Value]) -> WireReply {
    let usage = json!({
        "promptTokenCount": 100,
        "cachedContentTokenCount": 30,
        "candidatesTokenCount": 20,
        "totalTokenCount": 120,
    });
    let chunk = |parts: &Value, finish: Value, usage: &Value| {
        json!({
            "candidates": [{ "index": 0, "content": { "role": "model", "parts": parts }, "finishReason": finish }],
            "usageMetadata": usage,
            "modelVersion": "served",
            "responseId": "r1",
        })
    };
    let first_usage = json!({ "promptTokenCount": 100, "totalTokenCount": 100 });
    let (last, first) = pieces.split_last().expect("a piece");
    let mut events: Vec<Value> = first
        .iter()
        .map(|parts| chunk(parts, Value::Null, &first_usage))
        .collect();
    events.push(chunk(last, finish.into(), &usage));
    WireReply {
        whole: chunk(&parts, finish.into(), &usage),
        events,
    }
}

fn with_reasoning(mut reply: WireReply) -> WireReply {
    let last = reply.events.last_mut().expect("an event with the usage");
    for usage in [
        &mut reply.whole["usageMetadata"],
        &mut last["usageMetadata"],
    ] {
        usage["candidatesTokenCount"] = 5.into();
        usage["thoughtsTokenCount"] = 15.into();
    }
    reply
}
