//! Variants of Responses.

use serde_json::{Value, json};
use strata_core::record::conversation::TokenUsage;

use super::{ADD, LogicalReply, NOW, USAGE, WireReply, calling, hello};
use crate::models::FinishReason;

pub(super) fn replies() -> Vec<(LogicalReply, WireReply)> {
    let add = json!({ "id": "f1", "type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\":1}" });
    let now = json!({ "id": "f2", "type": "function_call", "call_id": "c2", "name": "now", "arguments": "" });
    let message = |kind: &str, text: &str| {
        let field = if kind == "refusal" { "refusal" } else { "text" };
        json!({ "id": "m1", "type": "message", "role": "assistant", "content": [{ "type": kind, field: text }] })
    };
    let text = message("output_text", "hello");
    let none = message("output_text", "");
    let refusal = message("refusal", "hello");
    let done = |place: u64, item: &Value| json!({ "type": "response.output_item.done", "output_index": place, "item": item });
    let unplaced = |item: &Value| json!({ "type": "response.output_item.done", "item": item });
    let added = |place: u64, item: &Value| {
        let mut item = item.clone();
        item["arguments"] = "".into();
        json!({ "type": "response.output_item.added", "output_index": place, "item": item })
    };
    let arguments = |place: u64, delta: &str| json!({ "type": "response.function_call_arguments.delta", "output_index": place, "delta": delta });
    let written = |kind: &str, delta: &str| json!({ "type": format!("response.{kind}.delta"), "output_index": 0, "delta": delta });
    let case = |logical, output: &[&Value], events: Vec<Value>, is_empty: bool| {
        let whole = response(output, usage());
        let end = if is_empty {
            response(&[], usage())
        } else {
            whole.clone()
        };
        (logical, wire(whole, events, end))
    };
    let refused = LogicalReply {
        finish: FinishReason::Refusal,
        ..hello("a refusal in pieces alone")
    };
    let mut list = vec![
        case(
            hello("items alone"),
            &[&text],
            vec![written("output_text", "hello"), done(0, &text)],
            true,
        ),
        case(
            hello("pieces alone"),
            &[&text],
            vec![written("output_text", "hel"), written("output_text", "lo")],
            true,
        ),
        case(
            refused,
            &[&refusal],
            vec![written("refusal", "hel"), written("refusal", "lo")],
            true,
        ),
        case(
            hello("an item without its place that is repeated"),
            &[&text],
            vec![unplaced(&text), unplaced(&text)],
            true,
        ),
        case(
            calling("items without their places", &[ADD, NOW]),
            &[&add, &now],
            vec![unplaced(&add), unplaced(&now)],
            true,
        ),
        case(
            calling("a repeated call", &[ADD]),
            &[&add, &add],
            vec![done(0, &add), done(1, &add)],
            true,
        ),
        case(
            calling("empty text beside a call", &[ADD]),
            &[&none, &add],
            vec![done(0, &none), done(1, &add)],
            false,
        ),
        case(
            calling("interleaved calls without arguments", &[ADD, NOW]),
            &[&add, &now],
            vec![
                added(0, &add),
                added(1, &now),
                arguments(1, ""),
                arguments(0, "{\"a\""),
                arguments(0, ":1}"),
                done(1, &now),
                done(0, &add),
            ],
            true,
        ),
    ];
    list.push(reasoning_beside(&text));
    list
}

/// Returns a reply whose reasoning is counted beside the other output.
fn reasoning_beside(text: &Value) -> (LogicalReply, WireReply) {
    let beside = json!({ "input_tokens": 100, "output_tokens": 5, "total_tokens": 120,
        "input_tokens_details": { "cached_tokens": 30 }, "output_tokens_details": { "reasoning_tokens": 15 } });
    let reasoning = LogicalReply {
        usage: TokenUsage {
            reasoning: 15,
            ..USAGE
        },
        ..hello("reasoning beside the other output")
    };
    let whole = response(&[text], beside);
    let done = json!({ "type": "response.output_item.done", "output_index": 0, "item": text });
    (reasoning, wire(whole.clone(), vec![done], whole))
}

fn usage() -> Value {
    json!({ "input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "input_tokens_details": { "cached_tokens": 30 } })
}

fn response(output: &[&Value], usage: Value) -> Value {
    json!({ "object": "response", "status": "completed", "error": null, "model": "served", "output": output, "usage": usage })
}

/// Returns a reply whose stream ends with `end`.
fn wire(whole: Value, events: Vec<Value>, end: Value) -> WireReply {
    let mut start = response(&[], Value::Null);
    start["status"] = "in_progress".into();
    let first = json!({ "type": "response.created", "response": start });
    let last = json!({ "type": "response.completed", "response": end });
    let events = [first].into_iter().chain(events).chain([last]).collect();
    WireReply { whole, events }
}
