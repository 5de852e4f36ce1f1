//! The list as Responses and their events.

use serde_json::{Value, json};

use super::WireReply;

pub(super) fn replies() -> [WireReply; 5] {
    let text = |text: &str| {
        json!([message(
            json!({ "type": "output_text", "text": text, "annotations": [] })
        )])
    };
    [
        reply(text("hellö wörld"), "completed", &["hellö", " wörld"]),
        reply(text("half an ans"), "incomplete", &["half an", " ans"]),
        reply(
            json!([
                message(json!({ "type": "output_text", "text": "let me see", "annotations": [] })),
                { "id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1",
                  "name": "add", "arguments": "{\"a\":1,\"b\":\"ü\"}" },
                { "id": "fc_2", "type": "function_call", "status": "completed", "call_id": "call_2",
                  "name": "now", "arguments": "{}" },
            ]),
            "completed",
            &["let me see"],
        ),
        with_reasoning(reply(
            json!([
                { "id": "rs_1", "type": "reasoning", "encrypted_content": "enc==",
                  "summary": [{ "type": "summary_text", "text": "step by step" }] },
                message(json!({ "type": "output_text", "text": "so it is 4", "annotations": [] })),
            ]),
            "completed",
            &["so it", " is 4"],
        )),
        refusal(),
    ]
}

fn message(part: Value) -> Value {
    json!({ "id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part] })
}

fn reply(output: Value, status: &str, deltas: &[&str]) -> WireReply {
    let mut whole = json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": status, "error": null,
        "incomplete_details": null, "model": "served", "output": output,
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": { "cached_tokens": 30 },
            "output_tokens": 20,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": 120,
        },
    });
    if status == "incomplete" {
        whole["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    }
    let events = events(&whole, &format!("response.{status}"), deltas);
    WireReply { whole, events }
}

fn events(whole: &Value, end: &str, deltas: &[&str]) -> Vec<Value> {
    let mut start = whole.clone();
    start["status"] = "in_progress".into();
    start["output"] = json!([]);
    start["usage"] = Value::Null;
    start["incomplete_details"] = Value::Null;
    let mut events = vec![
        json!({ "type": "response.created", "response": start }),
        json!({ "type": "response.in_progress", "response": start }),
    ];
    let items = whole["output"].as_array().expect("a list of items");
    for (index, item) in items.iter().enumerate() {
        let mut open = item.clone();
        open["status"] = "in_progress".into();
        events.push(
            json!({ "type": "response.output_item.added", "output_index": index, "item": open }),
        );
        if item["type"] == "message" {
            events.extend(deltas.iter().map(|delta| {
                json!({ "type": "response.output_text.delta", "item_id": "msg_1", "output_index": index,
                    "content_index": 0, "delta": delta })
            }));
        }
        if item["type"] == "function_call" {
            let arguments = item["arguments"].as_str().expect("arguments");
            events.push(
                json!({ "type": "response.function_call_arguments.delta", "output_index": index,
                "item_id": item["id"], "delta": arguments }),
            );
            events.push(
                json!({ "type": "response.function_call_arguments.done", "output_index": index,
                "item_id": item["id"], "arguments": arguments }),
            );
        }
        events.push(
            json!({ "type": "response.output_item.done", "output_index": index, "item": item }),
        );
    }
    events.push(json!({ "type": end, "response": whole }));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}

fn with_reasoning(mut reply: WireReply) -> WireReply {
    let last = reply.events.last_mut().expect("the last event");
    for usage in [&mut reply.whole["usage"], &mut last["response"]["usage"]] {
        usage["output_tokens_details"]["reasoning_tokens"] = 15.into();
    }
    reply
}

fn refusal() -> WireReply {
    let part = json!({ "type": "refusal", "refusal": "I cannot help with that" });
    let mut reply = reply(
        json!([message(part)]),
        "completed",
        &["I cannot", " help with that"],
    );
    for event in &mut reply.events {
        if event["type"] == "response.output_text.delta" {
            event["type"] = "response.refusal.delta".into();
        }
    }
    reply
}
