//! What is sent, and what is understood, as data.

use proptest::prelude::*;

use serde_json::json;

use super::*;
use crate::gateway::HostErrorKind;
use crate::services::llm::{Speaker, Tool, Turn};

fn request() -> Request {
    Request::new(vec![Turn::new(Speaker::User, "hello")])
}

fn add_tool(parameters: &str) -> Tool {
    Tool { name: "add".to_owned(), description: "adds".to_owned(), parameters: parameters.to_owned() }
}

#[test]
fn everything_that_is_asked_is_sent() {
    let call = ToolCall { id: "c1".to_owned(), name: "add".to_owned(), arguments: r#"{"a":1}"#.to_owned() };
    let request = Request {
        messages: vec![
            Turn::new(Speaker::System, "be brief"),
            Turn::new(Speaker::User, "1+1?"),
            Turn { tool_calls: vec![call], ..Turn::new(Speaker::Assistant, "") },
            Turn { tool_call_id: Some("c1".to_owned()), ..Turn::new(Speaker::Tool, "2") },
        ],
        tools: vec![add_tool(r#"{"type":"object"}"#)],
        output_schema: Some(r#"{"type":"integer"}"#.to_owned()),
        temperature: Some(0.2),
        max_tokens: Some(100),
        stop: vec!["END".to_owned()],
        seed: Some(7),
        ..request()
    };
    let sent = body("m", &request, Form::Whole).expect("a body");
    let sent: Value = serde_json::from_str(&sent).expect("JSON");
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "add", "arguments": "{\"a\":1}" } });
    let expected = json!({
        "model": "m",
        "messages": [
            { "role": "system", "content": "be brief" },
            { "role": "user", "content": "1+1?" },
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "content": "2", "tool_call_id": "c1" },
        ],
        "tools": [{
            "type": "function",
            "function": { "name": "add", "description": "adds", "parameters": { "type": "object" } },
        }],
        "response_format": {
            "type": "json_schema",
            "json_schema": { "name": "reply", "schema": { "type": "integer" } },
        },
        "temperature": 0.2,
        "max_tokens": 100,
        "stop": ["END"],
        "seed": 7,
    });
    assert_eq!(sent, expected);
}

#[test]
fn schemas_that_are_not_json_are_refused() {
    let check = |request: Request, expected: &str| {
        let error = body("m", &request, Form::Whole).expect_err("a bad schema");
        assert_eq!(error.kind, HostErrorKind::Invalid);
        assert!(error.message.contains(expected), "{}", error.message);
    };
    let output_schema = Some("{".to_owned());
    check(Request { output_schema, ..request() }, "`output-schema` is not a JSON document");
    let tools = vec![add_tool("")];
    check(Request { tools, ..request() }, "the parameters of the tool `add` is not a JSON document");
}

#[test]
fn a_reply_is_read_whatever_it_leaves_out() {
    let check = |answer: Value, text: &str, model: &str, tokens: (u32, u32)| {
        let reply = reply(&answer.to_string(), "asked", &request(), Hush::of(None)).expect("a reply");
        assert_eq!((reply.text.as_str(), reply.model.as_str()), (text, model), "{answer}");
        assert_eq!((reply.input_tokens, reply.output_tokens), tokens, "{answer}");
    };
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": 4 });
    let said = json!([{ "message": { "content": "hi" } }]);
    check(json!({ "choices": said, "usage": usage, "model": "served" }), "hi", "served", (3, 4));
    check(json!({ "choices": said }), "hi", "asked", (2, 1));
    check(json!({ "choices": said, "usage": { "prompt_tokens": 5_000_000_000_u64 } }), "hi", "asked", (u32::MAX, 1));
    check(json!({ "choices": said, "usage": { "prompt_tokens": -1 }, "model": "" }), "hi", "asked", (2, 1));
    let parts = json!([{ "type": "text", "text": "a" }, { "type": "image" }, { "type": "text", "text": "b" }]);
    check(json!({ "choices": [{ "message": { "content": parts } }] }), "ab", "asked", (2, 1));
    check(json!({ "choices": [{ "message": { "content": null, "refusal": "no" } }] }), "no", "asked", (2, 1));
    check(json!({ "choices": [{ "message": {} }] }), "", "asked", (2, 0));
}

#[test]
fn an_answer_without_a_reply_is_quoted() {
    let check = |answer: &str, expected: &str| {
        let error = reply(answer, "asked", &request(), Hush::of(None)).expect_err("no reply");
        assert!(error.contains(expected), "{error}");
    };
    check("", "the answer is not a JSON document");
    check("<html>", "`<html>`; is `base_url` right?");
    check("[]", "the answer holds no reply: `[]`");
    check(r#"{"choices":[]}"#, "holds no reply");
    check(r#"{"error":{"message":"overloaded"}}"#, "overloaded");
    check(&"[".repeat(1000), "is nested deeper than 100 levels");
    check(&format!("[{}0]", "{\"\":0},".repeat(200_000)), "is too large to be read");
}

#[test]
fn tool_calls_are_read_in_all_their_forms() {
    let check = |call: Value, expected: (&str, &str, &str)| {
        let answer = json!({ "choices": [{ "message": { "content": null, "tool_calls": [call] } }] });
        let reply = reply(&answer.to_string(), "asked", &request(), Hush::of(None)).expect("a reply");
        let [call] = reply.tool_calls.as_slice() else { panic!("one call: {reply:?}") };
        assert_eq!((call.id.as_str(), call.name.as_str(), call.arguments.as_str()), expected);
    };
    let function = |arguments: Value| json!({ "name": "add", "arguments": arguments });
    check(json!({ "id": "c1", "function": function(json!("{\"a\":1}")) }), ("c1", "add", "{\"a\":1}"));
    check(json!({ "function": function(json!({ "a": 1 })) }), ("call-1-1", "add", "{\"a\":1}"));
    check(json!({ "id": "", "function": function(json!("")) }), ("call-1-1", "add", "{}"));
    check(json!({ "function": function(Value::Null) }), ("call-1-1", "add", "{}"));
    check(json!({}), ("call-1-1", "", "{}"));
}

fn documents() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["choices", "message", "content", "tool_calls", "function", "usage", "id"]);
    let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".*".prop_map(Value::from)];
    leaf.prop_recursive(6, 64, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..4)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_answer_makes_us_panic(document in documents(), content in documents()) {
        let _ = reply(&document.to_string(), "m", &request(), Hush::of(None));
        let message = json!({ "content": content, "tool_calls": [document] });
        let answer = json!({ "choices": [{ "message": message }], "usage": content });
        let _ = reply(&answer.to_string(), "m", &request(), Hush::of(None));
    }
}
