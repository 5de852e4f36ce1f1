//! The list as chat completions and their chunks.

use serde_json::{Value, json};

use super::WireReply;

pub(super) fn replies() -> [WireReply; 5] {
    [
        reply(
            json!({ "role": "assistant", "content": "hellö wörld", "refusal": null }),
            "stop",
            &[
                json!({ "role": "assistant", "content": "" }),
                json!({ "content": "hellö" }),
                json!({ "content": " wörld" }),
            ],
        ),
        reply(
            json!({ "role": "assistant", "content": "half an ans", "refusal": null }),
            "length",
            &[
                json!({ "role": "assistant", "content": "half an" }),
                json!({ "content": " ans" }),
            ],
        ),
        reply(
            json!({ "role": "assistant", "content": "let me see", "tool_calls": [
                { "id": "call_1", "type": "function",
                  "function": { "name": "add", "arguments": "{\"a\":1,\"b\":\"ü\"}" } },
                { "id": "call_2", "type": "function",
                  "function": { "name": "now", "arguments": "{}" } },
            ] }),
            "tool_calls",
            &[
                json!({ "role": "assistant", "content": "let me see" }),
                call(json!({ "index": 0, "id": "call_1", "type": "function",
                    "function": { "name": "add", "arguments": "" } })),
                call(json!({ "index": 0, "function": { "arguments": "{\"a\":1," } })),
                call(json!({ "index": 0, "function": { "arguments": "\"b\":\"ü\"}" } })),
                call(json!({ "index": 1, "id": "call_2", "type": "function",
                    "function": { "name": "now", "arguments": "" } })),
                call(json!({ "index": 1, "function": { "arguments": "{}" } })),
            ],
        ),
        with_reasoning(reply(
            json!({ "role": "assistant", "content": "so it is 4", "reasoning_content": "step by step" }),
            "stop",
            &[
                json!({ "role": "assistant", "content": null, "reasoning_content": "step " }),
                json!({ "reasoning_content": "by step" }),
                json!({ "content": "so it is 4" }),
            ],
        )),
        reply(
            json!({ "role": "assistant", "content": null, "refusal": "I cannot help with that" }),
            "stop",
            &[
                json!({ "role": "assistant", "content": null, "refusal": "I cannot" }),
                json!({ "refusal": " help with that" }),
            ],
        ),
    ]
}

fn call(piece: Value) -> Value {
    json!({ "tool_calls": [piece] })
}

pub(super) fn usage() -> Value {
    json!({
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": { "cached_tokens": 30, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0 },
    })
}

fn reply(message: Value, finish: &str, deltas: &[Value]) -> WireReply {
    let chunk = |choices: Value, usage: Value| {
        json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "served",
            "choices": choices, "usage": usage })
    };
    let mut events: Vec<Value> = deltas
        .iter()
        .map(|delta| {
            let choices =
                json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }]);
            chunk(choices, Value::Null)
        })
        .collect();
    let last = json!([{ "index": 0, "delta": {}, "logprobs": null, "finish_reason": finish }]);
    events.push(chunk(last, Value::Null));
    events.push(chunk(json!([]), usage()));
    let choice =
        json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": finish });
    WireReply {
        whole: json!({ "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "served",
            "choices": [choice], "usage": usage() }),
        events,
    }
}

fn with_reasoning(mut reply: WireReply) -> WireReply {
    let last = reply.events.last_mut().expect("an event with the usage");
    for usage in [&mut reply.whole["usage"], &mut last["usage"]] {
        usage["completion_tokens_details"]["reasoning_tokens"] = 15.into();
    }
    reply
}
