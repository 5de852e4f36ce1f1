//! Tests of the request bodies and of the interpretation of replies.

use proptest::prelude::*;

use serde_json::json;

use reqwest::Url;

use super::*;
use crate::gateway::HostErrorKind;
use crate::services::models::protocol::TransferMode;
use crate::services::models::tokens::TokenCounts;
use crate::services::models::{ChatMessage, ModelRequest, Speaker, ToolDefinition};

fn request() -> ModelRequest {
    ModelRequest::new(vec![ChatMessage::new(Speaker::User, "hello")])
}

fn add_tool(parameters: &str) -> ToolDefinition {
    ToolDefinition {
        name: "add".to_owned(),
        description: "adds".to_owned(),
        parameters: parameters.to_owned(),
    }
}

#[test]
fn everything_that_is_asked_is_sent() {
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "add".to_owned(),
        arguments: r#"{"a":1}"#.to_owned(),
    };
    let request = ModelRequest {
        messages: vec![
            ChatMessage::new(Speaker::System, "be brief"),
            ChatMessage::new(Speaker::User, "1+1?"),
            ChatMessage {
                tool_calls: vec![call],
                ..ChatMessage::new(Speaker::Assistant, "")
            },
            ChatMessage {
                tool_call_id: Some("c1".to_owned()),
                ..ChatMessage::new(Speaker::Tool, "2")
            },
        ],
        tools: vec![add_tool(r#"{"type":"object"}"#)],
        output_schema: Some(r#"{"type":"integer"}"#.to_owned()),
        temperature: Some(0.2),
        max_tokens: Some(100),
        stop: vec!["END".to_owned()],
        seed: Some(7),
        ..request()
    };
    let sent =
        request_body("m", &request, TransferMode::Unstreamed, Dialect::Compatible).expect("a body");
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
    let check = |request: ModelRequest, expected: &str| {
        let error = request_body("m", &request, TransferMode::Unstreamed, Dialect::Compatible)
            .expect_err("a bad schema");
        assert_eq!(error.kind, HostErrorKind::Invalid);
        assert!(error.message.contains(expected), "{}", error.message);
    };
    let output_schema = Some("{".to_owned());
    check(
        ModelRequest {
            output_schema,
            ..request()
        },
        "`output-schema` is not a JSON document",
    );
    let tools = vec![add_tool("")];
    check(
        ModelRequest { tools, ..request() },
        "the parameters of the tool `add` is not a JSON document",
    );
}

/// Returns a reply with this message and finish reason.
fn reply_of(message: Value, finish: Value) -> Value {
    json!({ "choices": [{ "message": message, "finish_reason": finish }] })
}

#[test]
fn the_bound_of_output_tokens_is_named_as_the_endpoint_wants_it() {
    let check = |url: &str, name: &str| {
        let dialect = Dialect::for_url(&Url::parse(url).expect("a URL"));
        let request = ModelRequest {
            max_tokens: Some(7),
            ..request()
        };
        let sent = request_body("m", &request, TransferMode::Unstreamed, dialect).expect("a body");
        let expected = format!(
            r#"{{"{name}":7,"messages":[{{"content":"hello","role":"user"}}],"model":"m"}}"#
        );
        assert_eq!(sent, expected, "{url}");
    };
    check(
        "https://api.openai.com/v1/chat/completions",
        "max_completion_tokens",
    );
    check("https://API.OpenAI.com/v1", "max_completion_tokens");
    check("https://eu.api.openai.com/v1", "max_tokens");
    check("https://api.openai.com.example/v1", "max_tokens");
    check("http://127.0.0.1/api.openai.com", "max_tokens");
}

#[test]
fn a_text_is_read_in_all_its_forms() {
    let check = |content: Value, text: &str| {
        let answer =
            parse_reply(&reply_of(json!({ "content": content }), Value::Null)).expect("an answer");
        assert_eq!(answer.text, text, "{content}");
    };
    check(json!("hi"), "hi");
    check(json!(null), "");
    check(
        json!([{ "type": "text", "text": "a" }, { "type": "image" }, { "text": "b" }, "c"]),
        "abc",
    );
    check(
        json!([{ "type": "thinking", "thinking": "hm" }, { "type": "reasoning", "text": "hm" }]),
        "",
    );
    check(json!({ "type": "text", "text": "hi" }), "hi");
    check(json!({ "text": "hi" }), "hi");
    check(json!({ "type": "image_url" }), "");
    check(json!({ "answer": 42 }), r#"{"answer":42}"#);
    check(json!(42), "42");
    check(json!([]), "");
}

#[test]
fn the_choice_with_the_lowest_index_counts() {
    let choice =
        |index: Value, text: &str| json!({ "index": index, "message": { "content": text } });
    let check = |choices: Value, text: &str| {
        let answer = parse_reply(&json!({ "choices": choices })).expect("an answer");
        assert_eq!(answer.text, text, "{choices}");
    };
    check(json!([choice(json!(1), "b"), choice(json!(0), "a")]), "a");
    check(
        json!([choice(json!(null), "a"), choice(json!(null), "b")]),
        "a",
    );
    check(json!([choice(json!(3), "a")]), "a");
}

#[test]
fn how_a_reply_ended_is_read_in_the_words_of_many() {
    let check = |message: Value, reason: Value, expected: FinishReason| {
        let answer = parse_reply(&reply_of(message.clone(), reason.clone())).expect("an answer");
        assert_eq!(answer.finish, expected, "{message} {reason}");
    };
    let text = json!({ "content": "hi" });
    let call =
        json!({ "content": null, "tool_calls": [{ "id": "c", "function": { "name": "add" } }] });
    check(text.clone(), json!("stop"), FinishReason::Stop);
    check(text.clone(), json!(null), FinishReason::Stop);
    check(text.clone(), json!("length"), FinishReason::Length);
    check(text.clone(), json!("MAX_TOKENS"), FinishReason::Length);
    check(text.clone(), json!("content_filter"), FinishReason::Refusal);
    check(
        text.clone(),
        json!("compute_unit_limit"),
        FinishReason::Other,
    );
    check(text, json!("tool_calls"), FinishReason::Stop);
    check(call.clone(), json!("tool_calls"), FinishReason::ToolCalls);
    check(call.clone(), json!("stop"), FinishReason::ToolCalls);
    check(call, json!("length"), FinishReason::Length);
    check(
        json!({ "content": null, "refusal": "no" }),
        json!("stop"),
        FinishReason::Refusal,
    );
    check(
        json!({ "content": [{ "type": "refusal", "refusal": "no" }] }),
        json!("stop"),
        FinishReason::Refusal,
    );
}

#[test]
fn a_refusal_is_the_text_where_there_is_no_other() {
    let check = |message: Value, text: &str| {
        assert_eq!(
            parse_reply(&reply_of(message, json!("stop")))
                .expect("an answer")
                .text,
            text
        );
    };
    check(json!({ "content": null, "refusal": "no" }), "no");
    check(json!({ "content": "", "refusal": "no" }), "no");
    check(json!({ "content": "half", "refusal": "no" }), "half");
}

#[test]
fn a_reply_that_states_a_failure_is_none() {
    let check = |reply: Value, problem: ReplyProblem, usage: UsageWithoutReply| {
        assert_eq!(
            parse_reply(&reply).expect_err("no answer"),
            UnusableReply { problem, usage },
            "{reply}"
        );
    };
    let stated = ReplyProblem::StatedError;
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 3 });
    let counted = UsageWithoutReply::Tokens(TokenCounts::new(10, 3));
    check(
        json!({ "error": "overloaded" }),
        stated(json!("overloaded")),
        UsageWithoutReply::Nothing,
    );
    check(
        json!({ "error": { "code": 429 } }),
        stated(json!({ "code": 429 })),
        UsageWithoutReply::Nothing,
    );
    check(
        json!({ "error": true, "usage": usage }),
        stated(json!(true)),
        counted,
    );
    let choice = json!({ "message": { "content": "half" }, "finish_reason": "stop" });
    check(
        json!({ "choices": [choice], "error": "x" }),
        stated(json!("x")),
        UsageWithoutReply::Unknown,
    );
    let choice = json!({ "message": { "content": "half" }, "error": { "message": "x" } });
    check(
        json!({ "choices": [choice], "usage": usage }),
        stated(json!({ "message": "x" })),
        counted,
    );
    let vllm = json!({ "object": "error", "code": 400 });
    check(vllm.clone(), stated(vllm), UsageWithoutReply::Nothing);
    let typed = json!({ "type": "error", "message": "overloaded" });
    check(typed.clone(), stated(typed), UsageWithoutReply::Nothing);
    check(
        reply_of(json!({ "content": "" }), json!("")),
        ReplyProblem::FailureReason(String::new()),
        UsageWithoutReply::Nothing,
    );
    check(
        reply_of(json!({ "content": "a" }), json!("error")),
        ReplyProblem::FailureReason("error".into()),
        UsageWithoutReply::Unknown,
    );
    for none in [
        json!({}),
        json!([]),
        json!({ "choices": [] }),
        json!({ "choices": [{}] }),
        json!("x"),
        json!(null),
    ] {
        check(none, ReplyProblem::NoMessage, UsageWithoutReply::Nothing);
    }
}

#[test]
fn what_states_no_error_is_an_answer() {
    for error in [json!(null), json!(false), json!(""), json!({}), json!([])] {
        let reply = json!({ "choices": [{ "message": { "content": "hi" }, "error": error }], "error": error });
        assert_eq!(parse_reply(&reply).expect("an answer").text, "hi");
    }
}

#[test]
fn tool_calls_are_read_in_all_their_forms() {
    let check_in = |message: Value, expected: (&str, &str, &str)| {
        let answer = parse_reply(&reply_of(message, Value::Null)).expect("an answer");
        let [call] = answer.tool_calls.as_slice() else {
            panic!("one call: {answer:?}")
        };
        assert_eq!(
            (
                call.id.as_str(),
                call.name.as_str(),
                call.arguments.as_str()
            ),
            expected
        );
    };
    let check = |call: Value, expected| {
        check_in(json!({ "content": null, "tool_calls": [call] }), expected)
    };
    let function = |arguments: Value| json!({ "name": "add", "arguments": arguments });
    check(
        json!({ "id": "c1", "function": function(json!("{\"a\":1}")) }),
        ("c1", "add", "{\"a\":1}"),
    );
    check(
        json!({ "function": function(json!({ "a": 1 })) }),
        ("", "add", "{\"a\":1}"),
    );
    check(
        json!({ "id": "", "function": function(json!("")) }),
        ("", "add", "{}"),
    );
    check(
        json!({ "function": function(Value::Null) }),
        ("", "add", "{}"),
    );
    check(
        json!({ "id": "c1", "name": "add", "arguments": "{}" }),
        ("c1", "add", "{}"),
    );
    check(json!({}), ("", "", "{}"));
    let legacy = json!({ "content": null, "function_call": function(json!("{\"a\":1}")) });
    check_in(legacy, ("", "add", "{\"a\":1}"));
}

#[test]
fn what_was_used_is_read_in_all_its_forms() {
    let check = |usage: Value, expected: (Option<u32>, Option<u32>, Option<u32>, Option<u32>)| {
        let reply = json!({ "choices": [{ "message": { "content": "hi" } }], "usage": usage });
        let usage = parse_reply(&reply).expect("an answer").usage;
        assert_eq!(
            (usage.input, usage.output, usage.total, usage.cached),
            expected,
            "{reply}"
        );
    };
    check(json!(null), (None, None, None, None));
    check(
        json!({ "prompt_tokens": 3, "completion_tokens": "4" }),
        (Some(3), Some(4), None, None),
    );
    check(
        json!({ "input_tokens": 3.2, "output_tokens": 4 }),
        (Some(4), Some(4), None, None),
    );
    check(json!({ "total_tokens": 9 }), (None, None, Some(9), None));
    check(
        json!({ "prompt_tokens": -3, "completion_tokens": "NaN" }),
        (None, None, None, None),
    );
    let details = json!({ "cached_tokens": 2 });
    check(
        json!({ "prompt_tokens": 3, "prompt_tokens_details": details }),
        (Some(3), None, None, Some(2)),
    );
    check(
        json!({ "input_tokens": 3, "input_tokens_details": details }),
        (Some(3), None, None, Some(2)),
    );
    check(
        json!({ "prompt_tokens": 3, "prompt_cache_hit_tokens": 2 }),
        (Some(3), None, None, Some(2)),
    );
}

/// Assembles the deltas of one choice and interprets the reply.
fn assembled(deltas: &[Value]) -> ParsedReply {
    let mut assembler = Assembler::default();
    for delta in deltas {
        assembler.push(json!({ "choices": [{ "delta": delta }] }));
    }
    assembler.push(json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }));
    parse_reply(&assembler.finish()).expect("an answer")
}

/// Assembles tool calls from lists of chunks and compares their ids and arguments.
fn check_tool_calls(pieces: &[Value], expected: &[(&str, &str)]) {
    let deltas: Vec<Value> = pieces
        .iter()
        .map(|calls| json!({ "tool_calls": calls }))
        .collect();
    let answer = assembled(&deltas);
    let calls: Vec<_> = answer
        .tool_calls
        .iter()
        .map(|c| (c.id.as_str(), c.arguments.as_str()))
        .collect();
    assert_eq!(calls, expected, "{pieces:?}");
}

/// Returns a chunk of a tool call. Empty and null fields are left out.
fn call_piece(index: Value, id: &str, name: &str, arguments: &str) -> Value {
    let mut call = json!({ "function": { "arguments": arguments } });
    for (field, value) in [("index", index), ("id", id.into())] {
        if !value.is_null() && value != "" {
            call[field] = value;
        }
    }
    if !name.is_empty() {
        call["function"]["name"] = name.into();
    }
    call
}

#[test]
fn the_pieces_of_tool_calls_are_told_apart() {
    let (none, zero) = (Value::Null, json!(0));
    let (first, second) = (r#"{"a":1}"#, r#"{"a":2}"#);
    let both = [("c1", first), ("c2", second)];
    for index in [&none, &zero] {
        let whole = [
            json!([call_piece(index.clone(), "c1", "add", first)]),
            json!([call_piece(index.clone(), "c2", "add", second)]),
        ];
        check_tool_calls(&whole, &both);
        let together = [json!([
            call_piece(index.clone(), "c1", "add", first),
            call_piece(index.clone(), "c2", "add", second)
        ])];
        check_tool_calls(&together, &both);
        let parts = [
            json!([call_piece(index.clone(), "c1", "add", "")]),
            json!([call_piece(index.clone(), "", "", "{\"a\":")]),
            json!([call_piece(index.clone(), "", "", "1}")]),
            json!([call_piece(index.clone(), "c2", "add", "{\"a\"")]),
            json!([call_piece(index.clone(), "c2", "", ":2}")]),
        ];
        check_tool_calls(&parts, &both);
        let without_ids = [
            json!([call_piece(index.clone(), "", "add", first)]),
            json!([call_piece(index.clone(), "", "add", second)]),
        ];
        check_tool_calls(&without_ids, &[("", first), ("", second)]);
    }
}

#[test]
fn the_number_of_tool_calls_is_bounded() {
    let piece = |n: usize| call_piece(json!(n), &format!("c{n}"), "add", "{}");
    let limit = MAX_TOOL_CALLS;
    let problem = ReplyProblem::TooManyToolCalls { limit };
    // Far more of them take no longer than their text.
    for (count, is_accepted) in [(limit, true), (limit + 1, false), (200_000, false)] {
        let mut assembler = Assembler::default();
        for n in 0..count {
            assembler.push(json!({ "choices": [{ "delta": { "tool_calls": [piece(n)] } }] }));
        }
        let whole: Vec<Value> = (0..count).map(piece).collect();
        let whole = reply_of(json!({ "tool_calls": whole }), json!("tool_calls"));
        for reply in [assembler.finish(), whole] {
            match parse_reply(&reply) {
                Ok(answer) => assert!(is_accepted && answer.tool_calls.len() == count, "{count}"),
                Err(unusable) => {
                    assert!(!is_accepted, "{count}");
                    assert_eq!(unusable.problem, problem, "{count}");
                    assert_eq!(unusable.usage, UsageWithoutReply::Unknown, "{count}");
                }
            }
        }
    }
}

#[test]
fn the_pieces_of_interleaved_tool_calls_are_told_apart() {
    let (zero, one) = (json!(0), json!(1));
    let (first, second) = (r#"{"a":1}"#, r#"{"a":2}"#);
    let both = [("c1", first), ("c2", second)];
    let mixed = [
        json!([
            call_piece(one.clone(), "c2", "add", "{\"a\""),
            call_piece(zero.clone(), "c1", "add", "{\"a\"")
        ]),
        json!([call_piece(one.clone(), "", "", ":2}")]),
        json!([call_piece(zero.clone(), "", "", ":1}")]),
    ];
    check_tool_calls(&mixed, &both);
    let repeated = [
        json!([call_piece(zero.clone(), "c1", "add", "{\"a\"")]),
        json!([call_piece(zero.clone(), "c1", "add", ":1}")]),
        json!([call_piece(one, "c2", "add", second)]),
    ];
    check_tool_calls(&repeated, &both);
    // An endpoint that gives each chunk an id of its own.
    check_tool_calls(
        &[
            json!([call_piece(zero.clone(), "c1", "add", "{\"a\"")]),
            json!([call_piece(zero, "x", "", ":1}")]),
        ],
        &both[..1],
    );
}

#[test]
fn a_complete_message_behind_its_pieces_is_not_taken_twice() {
    let call = json!({ "id": "c1", "function": { "name": "add", "arguments": "{\"a\":1}" } });
    let whole = json!({ "content": "hello", "tool_calls": [call] });
    let pieces = [
        json!({ "choices": [{ "delta": { "content": "hel" } }] }),
        json!({ "choices": [{ "delta": { "content": "lo", "tool_calls": [call] } }] }),
        json!({ "choices": [{ "message": whole, "finish_reason": "stop" }] }),
    ];
    for skipped in 0..=2 {
        let mut assembler = Assembler::default();
        let heard: String = pieces[skipped..]
            .iter()
            .map(|piece| assembler.push(piece.clone()))
            .collect();
        let answer = parse_reply(&assembler.finish()).expect("an answer");
        if skipped != 1 {
            assert_eq!((answer.text.as_str(), heard.as_str()), ("hello", "hello"));
        }
        assert_eq!(answer.tool_calls.len(), 1, "{answer:?}");
    }
}

fn documents() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "choices",
        "message",
        "content",
        "tool_calls",
        "function",
        "usage",
        "id",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        ".*".prop_map(Value::from)
    ];
    leaf.prop_recursive(6, 64, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..4)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_makes_us_panic(document in documents(), content in documents()) {
        let _ = parse_reply(&document);
        let message = json!({ "content": content, "tool_calls": [document] });
        let _ = parse_reply(&json!({ "choices": [{ "message": message }], "usage": content }));
        let mut assembler = Assembler::default();
        assembler.push(document.clone());
        assembler.push(json!({ "choices": [{ "delta": { "tool_calls": [document], "content": content } }] }));
        assembler.push(json!({ "choices": [{ "message": message }, { "delta": content }], "usage": document }));
        let _ = parse_reply(&assembler.finish());
    }
}
