//! Variants of Messages.

use serde_json::{Value, json};

use super::{ADD, LogicalReply, NOW, WireReply, calling, hello};

pub(super) fn replies() -> Vec<(LogicalReply, WireReply)> {
    calls().into_iter().chain(texts()).collect()
}

fn calls() -> Vec<(LogicalReply, WireReply)> {
    let add = json!({ "type": "tool_use", "id": "t1", "name": "add", "input": { "a": 1 } });
    let now = json!({ "type": "tool_use", "id": "t2", "name": "now", "input": {} });
    let empty = |call: &Value| {
        let mut call = call.clone();
        call["input"] = json!({});
        call
    };
    let arguments = |text: &str| json!({ "type": "input_json_delta", "partial_json": text });
    let case = |name, calls, content: &[&Value], blocks: Vec<Value>| {
        let content: Vec<Value> = content.iter().copied().cloned().collect();
        let events = events(json!([]), blocks, usage_delta());
        (
            calling(name, calls),
            WireReply {
                whole: message(content.into(), usage()),
                events,
            },
        )
    };
    let text = json!({ "type": "text", "text": "" });
    vec![
        case(
            "empty text beside a call",
            &[ADD],
            &[&text, &add],
            vec![
                start(0, &text),
                stop(0),
                start(1, &empty(&add)),
                delta(1, arguments("{\"a\":1}")),
                stop(1),
            ],
        ),
        case(
            "arguments at the beginning",
            &[ADD],
            &[&add],
            vec![start(0, &add), stop(0)],
        ),
        case(
            "arguments at the beginning and after it",
            &[ADD],
            &[&add],
            vec![
                start(0, &add),
                delta(0, arguments("")),
                delta(0, arguments("{\"a\":1}")),
                stop(0),
            ],
        ),
        case(
            "blocks with the same index",
            &[ADD, NOW],
            &[&add, &now],
            vec![
                start(0, &text),
                stop(0),
                start(0, &empty(&add)),
                delta(0, arguments("{\"a\"")),
                delta(0, arguments(":1}")),
                stop(0),
                start(0, &now),
                stop(0),
            ],
        ),
        case(
            "interleaved calls",
            &[ADD, NOW],
            &[&add, &now],
            vec![
                start(0, &empty(&add)),
                start(1, &now),
                delta(0, arguments("{\"a\"")),
                delta(1, arguments("{}")),
                delta(0, arguments(":1}")),
                stop(1),
                stop(0),
            ],
        ),
        case(
            "a repeated call",
            &[ADD],
            &[&add, &add],
            vec![start(0, &add), stop(0), start(1, &add), stop(1)],
        ),
        case(
            "a block that begins twice",
            &[ADD],
            &[&add],
            vec![
                start(0, &empty(&add)),
                start(0, &empty(&add)),
                delta(0, arguments("{\"a\":1}")),
                stop(0),
            ],
        ),
    ]
}

fn texts() -> Vec<(LogicalReply, WireReply)> {
    let hello_block = json!({ "type": "text", "text": "hello" });
    let whole = || message(json!([hello_block]), usage());
    let text = |text: &str| json!({ "type": "text", "text": text });
    let more = |text: &str| json!({ "type": "text_delta", "text": text });
    let blocks = || {
        vec![
            start(0, &text("")),
            delta(0, more("hel")),
            delta(0, more("lo")),
            stop(0),
        ]
    };
    let case = |name, events| {
        (
            hello(name),
            WireReply {
                whole: whole(),
                events,
            },
        )
    };
    let zero = json!({ "input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 20 });
    let mut without_end = events(json!([]), blocks(), usage_delta());
    without_end.pop();
    let mut estimated = events(json!([]), blocks(), usage());
    estimated[0]["message"]["usage"] = json!({ "input_tokens": 140, "output_tokens": 1 });
    let mut late = events(json!([]), blocks(), usage());
    late[0]["message"]["usage"] = json!({ "input_tokens": 0, "output_tokens": 0 });
    vec![
        case("a later usage of zero", events(json!([]), blocks(), zero)),
        case("an estimate that is corrected", estimated),
        case("usage at the end alone", late),
        case("no last event", without_end),
        case(
            "the message at the beginning",
            events(json!([hello_block]), Vec::new(), usage_delta()),
        ),
        case(
            "the message at the beginning and in pieces",
            events(json!([hello_block]), blocks(), usage_delta()),
        ),
        case(
            "text at the beginning of a block",
            events(
                json!([]),
                vec![start(0, &text("hel")), delta(0, more("lo"))],
                usage_delta(),
            ),
        ),
    ]
}

fn usage() -> Value {
    json!({ "input_tokens": 70, "cache_read_input_tokens": 30, "output_tokens": 20 })
}

fn usage_delta() -> Value {
    json!({ "output_tokens": 20 })
}

fn message(content: Value, usage: Value) -> Value {
    json!({ "type": "message", "role": "assistant", "model": "served", "content": content,
        "stop_reason": "end_turn", "usage": usage })
}

fn start(index: u64, block: &Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

/// Returns a stream of these blocks, whose first event has this content and whose last but one this
/// usage.
fn events(content: Value, blocks: Vec<Value>, last_usage: Value) -> Vec<Value> {
    let mut start = message(content, usage());
    start["usage"]["output_tokens"] = 1.into();
    start["stop_reason"] = Value::Null;
    let mut events = vec![
        json!({ "type": "message_start", "message": start }),
        json!({ "type": "ping" }),
    ];
    events.extend(blocks);
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": last_usage }));
    events.push(json!({ "type": "message_stop" }));
    events
}
