//! Tests of the usage of a streamed message.

use serde_json::{Value, json};

use super::*;

#[test]
fn the_output_of_a_message_is_not_counted_before_it_is_written() {
    let check = |content: Value, later: Value, expected: Option<u64>| {
        let usage = json!({ "input_tokens": 10, "output_tokens": 1 });
        let message = json!({ "content": content, "usage": usage });
        let block = json!({ "type": "text", "text": "hello" });
        let mut builder = CreateMessage.builder();
        for event in [
            json!({ "type": "message_start", "message": message }),
            json!({ "type": "content_block_start", "index": 1, "content_block": block }),
            json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": later }),
        ] {
            builder.push(event);
        }
        let usage = super::usage(&builder.finish()["usage"]);
        assert_eq!((usage.input, usage.output), (Some(10), expected), "{later}");
    };
    let whole = json!([{ "type": "text", "text": "hi" }]);
    check(json!([]), Value::Null, None);
    check(json!([]), json!({ "input_tokens": 10 }), None);
    check(json!([]), json!({ "output_tokens": 5 }), Some(5));
    check(whole, Value::Null, Some(1));
}
