//! The list as Messages and their events.

use serde_json::{Value, json};

use super::WireReply;

pub(super) fn replies() -> [WireReply; 5] {
    let text = |text: &str| json!({ "type": "text", "text": text });
    [
        reply(
            json!([text("hellö wörld")]),
            "end_turn",
            &[&["hellö", " wörld"]],
        ),
        reply(
            json!([text("half an ans")]),
            "max_tokens",
            &[&["half an", " ans"]],
        ),
        reply(
            json!([
                text("let me see"),
                { "type": "tool_use", "id": "toolu_1", "name": "add", "input": { "a": 1, "b": "ü" } },
                { "type": "tool_use", "id": "toolu_2", "name": "now", "input": {} },
            ]),
            "tool_use",
            &[&["let me see"], &["", "{\"a\":1,", "\"b\":\"ü\"}"], &[""]],
        ),
        with_reasoning(reply(
            json!([
                { "type": "thinking", "thinking": "step by step", "signature": "c2lnbmF0dXJl" },
                text("so it is 4"),
            ]),
            "end_turn",
            &[&["step ", "by step"], &["so it", " is 4"]],
        )),
        reply(
            json!([text("I cannot help with that")]),
            "refusal",
            &[&["I cannot help with that"]],
        ),
    ]
}

/// Returns a reply whose blocks are streamed in these pieces.
fn reply(content: Value, stop_reason: &str, pieces: &[&[&str]]) -> WireReply {
    let usage = json!({
        "input_tokens": 70,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 30,
        "output_tokens": 20,
    });
    let message = |content: &Value, stop_reason: Value, usage: Value| {
        json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "served", "content": content,
            "stop_reason": stop_reason, "stop_sequence": null, "usage": usage })
    };
    let mut first_usage = usage.clone();
    first_usage["output_tokens"] = 1.into();
    let start = message(&json!([]), Value::Null, first_usage);
    let mut events = vec![json!({ "type": "message_start", "message": start })];
    let blocks = content.as_array().expect("a list of blocks");
    for (index, (block, pieces)) in blocks.iter().zip(pieces).enumerate() {
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": opening(block) }));
        if index == 0 {
            events.push(json!({ "type": "ping" }));
        }
        let delta = |piece: &&str| match block["type"].as_str() {
            Some("tool_use") => json!({ "type": "input_json_delta", "partial_json": piece }),
            Some("thinking") => json!({ "type": "thinking_delta", "thinking": piece }),
            _ => json!({ "type": "text_delta", "text": piece }),
        };
        let mut deltas: Vec<Value> = pieces.iter().map(delta).collect();
        if block["signature"].is_string() {
            deltas.push(json!({ "type": "signature_delta", "signature": block["signature"] }));
        }
        let event =
            |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        events.extend(deltas.into_iter().map(event));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(
        json!({ "type": "message_delta", "usage": { "output_tokens": 20 },
        "delta": { "stop_reason": stop_reason, "stop_sequence": null } }),
    );
    events.push(json!({ "type": "message_stop" }));
    WireReply {
        whole: message(&content, stop_reason.into(), usage),
        events,
    }
}

/// Returns a block as it begins, without what follows in deltas.
fn opening(block: &Value) -> Value {
    let mut opening = block.clone();
    for (field, empty) in [
        ("text", json!("")),
        ("thinking", json!("")),
        ("signature", json!("")),
        ("input", json!({})),
    ] {
        if !opening[field].is_null() {
            opening[field] = empty;
        }
    }
    opening
}

fn with_reasoning(mut reply: WireReply) -> WireReply {
    let details = json!({ "thinking_tokens": 15 });
    reply.whole["usage"]["output_tokens_details"] = details.clone();
    for event in &mut reply.events {
        if event["type"] == "message_delta" {
            event["usage"]["output_tokens_details"] = details.clone();
        }
    }
    reply
}
