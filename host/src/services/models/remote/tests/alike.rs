//! A table of replies. Each is read unstreamed, streamed, and streamed but cut at every byte. The
//! outcome is the same reply or a failure of the endpoint.

use serde_json::{Value, json};

use super::*;
use crate::services::models::remote::receive::read_bytes;

/// A reply in unstreamed form, and the same reply as the chunks of a stream.
struct Case {
    whole: Value,
    pieces: Vec<Value>,
}

fn case(message: Value, finish: Value, deltas: Vec<Value>) -> Case {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5 });
    let piece = |delta| json!({ "model": "served", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] });
    let mut pieces: Vec<Value> = deltas.into_iter().map(piece).collect();
    pieces.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] }));
    pieces.push(json!({ "choices": [], "usage": usage }));
    let choices = json!([{ "index": 0, "message": message, "finish_reason": finish }]);
    Case {
        whole: json!({ "model": "served", "choices": choices, "usage": usage }),
        pieces,
    }
}

fn cases() -> Vec<Case> {
    let mut cases = text_cases();
    cases.extend(thinking_cases());
    cases.extend(tool_call_cases());
    cases
}

fn text_case(whole: Value, finish: Value, parts: &[Value]) -> Case {
    let message = |content: &Value| json!({ "content": content });
    case(message(&whole), finish, parts.iter().map(message).collect())
}

fn text_cases() -> Vec<Case> {
    let parts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| json!({ "type": "text", "text": text }))
            .collect::<Value>()
    };
    vec![
        text_case(json!("hellö"), json!("stop"), &[json!("he"), json!("llö")]),
        text_case(json!("a  b\n"), json!(null), &[json!("a "), json!(" b\n")]),
        text_case(
            parts(&["he", "llo"]),
            json!("stop"),
            &[parts(&["he"]), parts(&["l", "lo"])],
        ),
        text_case(
            parts(&["x"])[0].clone(),
            json!("stop"),
            &[parts(&["x"])[0].clone()],
        ),
        text_case(json!({ "a": 1 }), json!("stop"), &[json!({ "a": 1 })]),
        text_case(json!("half a tho"), json!("length"), &[json!("half a tho")]),
        text_case(json!(null), json!("content_filter"), &[json!(null)]),
        text_case(json!(""), json!("error"), &[json!("")]),
        case(
            json!({ "refusal": "no" }),
            json!("stop"),
            vec![json!({ "refusal": "n" }), json!({ "refusal": "o" })],
        ),
    ]
}

fn thinking_cases() -> Vec<Case> {
    vec![
        text_case(
            json!("<think>hm</think>\nx"),
            json!("stop"),
            &[json!("<thi"), json!("nk>hm</think>\nx")],
        ),
        text_case(
            json!("hm\n</think>\nx"),
            json!("stop"),
            &[json!("hm\n</think>"), json!("\nx")],
        ),
        text_case(
            json!("<think>hm"),
            json!("length"),
            &[json!("<think>"), json!("hm")],
        ),
        case(
            json!({ "content": "x", "reasoning_content": "hm" }),
            json!("stop"),
            vec![
                json!({ "reasoning_content": "hm" }),
                json!({ "content": "x" }),
            ],
        ),
    ]
}

fn tool_call_cases() -> Vec<Case> {
    let call = |id: &str, arguments: &str| json!({ "id": id, "function": { "name": "add", "arguments": arguments } });
    let numbered = |index: u32, mut call: Value| {
        call["index"] = index.into();
        call
    };
    let calls =
        json!({ "content": null, "tool_calls": [call("c1", "{\"a\":1}"), call("c2", "{}")] });
    let said = |delta: Value| json!({ "tool_calls": [delta] });
    vec![
        case(
            calls.clone(),
            json!("tool_calls"),
            vec![json!({ "tool_calls": calls["tool_calls"] })],
        ),
        case(
            calls.clone(),
            json!("stop"),
            vec![said(call("c1", "{\"a\":1}")), said(call("c2", "{}"))],
        ),
        case(
            calls,
            json!("tool_calls"),
            vec![
                said(numbered(0, call("c1", ""))),
                said(json!({ "index": 0, "function": { "arguments": "{\"a\":1}" } })),
                said(numbered(1, call("c2", ""))),
            ],
        ),
        case(
            json!({ "content": "x", "function_call": { "name": "add", "arguments": "{\"a\":1}" } }),
            json!("function_call"),
            vec![
                json!({ "content": "x", "function_call": { "name": "add", "arguments": "" } }),
                json!({ "function_call": { "arguments": "{\"a\"" } }),
                json!({ "function_call": { "arguments": ":1}" } }),
            ],
        ),
    ]
}

fn remote() -> RemoteProvider {
    let endpoint = ModelServer::new([respond_with_text("unused")]).endpoint();
    provider_of(&endpoint).expect("a usable endpoint")
}

/// Reads a response in chunks of `size` bytes.
fn read(remote: &RemoteProvider, bytes: &[u8], size: usize) -> Result<ModelReply, String> {
    let value = read_bytes(remote, bytes, size).map_err(|failure| failure.message)?;
    let answer = remote
        .protocol
        .parse_reply(&value)
        .map_err(|unusable| format!("{unusable:?}"))?;
    Ok(remote.convert_reply(answer, "m", &request()))
}

#[test]
fn a_streamed_reply_is_the_same_as_one_in_one_piece() {
    let remote = remote();
    for Case { whole, pieces } in cases() {
        let expected = read(&remote, whole.to_string().as_bytes(), usize::MAX);
        for (end, done) in [
            ("\n\n", "data: [DONE]\n\n"),
            ("\r\n\r\n", ""),
            ("\r\r", "data: [DONE]\r\r"),
        ] {
            let stream: String = pieces
                .iter()
                .map(|piece| format!("data: {piece}{end}"))
                .collect::<String>()
                + done;
            for size in [1, 7, usize::MAX] {
                // Without an end marker, a reply without a finish reason is not complete.
                let found = read(&remote, stream.as_bytes(), size);
                if done.is_empty() && whole["choices"][0]["finish_reason"].is_null() {
                    assert!(found.is_err(), "{found:?}");
                } else {
                    assert_eq!(
                        found.is_err(),
                        expected.is_err(),
                        "{found:?} instead of {expected:?}"
                    );
                    assert!(
                        expected.is_err() || found == expected,
                        "{found:?} instead of {expected:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_reply_that_is_cut_is_the_same_or_a_failure() {
    let remote = remote();
    for Case { whole, pieces } in cases() {
        let whole = whole.to_string();
        let expected = read(&remote, whole.as_bytes(), usize::MAX);
        let stream: String = pieces
            .iter()
            .map(|piece| format!("data: {piece}\n\n"))
            .collect::<String>()
            + "data: [DONE]";
        let mut is_complete = false;
        for end in 0..=stream.len() {
            let Ok(found) = read(&remote, &stream.as_bytes()[..end], usize::MAX) else {
                assert!(!is_complete || expected.is_err(), "{}", &stream[..end]);
                continue;
            };
            is_complete = true;
            // If the usage is cut off, it is estimated.
            let (input_tokens, output_tokens) = (found.input_tokens, found.output_tokens);
            let expected = expected.clone().map(|reply| ModelReply {
                input_tokens,
                output_tokens,
                ..reply
            });
            assert_eq!(Ok(found), expected, "{}", &stream[..end]);
        }
        for end in 0..whole.len() {
            assert!(
                read(&remote, &whole.as_bytes()[..end], usize::MAX).is_err(),
                "{}",
                &whole[..end]
            );
        }
    }
}
