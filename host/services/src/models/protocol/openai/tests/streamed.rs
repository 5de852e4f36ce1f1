//! Tests of replies that are assembled from the chunks of a stream.

use super::*;

/// Assembles the deltas of one choice and interprets the reply.
fn assembled(deltas: &[Value]) -> ParsedReply {
    let mut assembler = assembler();
    for delta in deltas {
        assembler.push(json!({ "choices": [{ "delta": delta }] }));
    }
    assembler.push(json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }));
    read(&assembler.finish()).expect("an answer")
}

/// Assembles tool calls from lists of chunks and compares their ids and arguments.
fn check_tool_calls(pieces: &[Value], expected: &[(&str, &str)]) {
    let deltas: Vec<Value> = pieces
        .iter()
        .map(|calls| json!({ "tool_calls": calls }))
        .collect();
    let answer = assembled(&deltas);
    let calls: Vec<_> = calls(&answer)
        .into_iter()
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
        check_tool_calls(&without_ids, &[("call-1-1", first), ("call-1-2", second)]);
    }
}

#[test]
fn a_call_in_both_forms_is_one_call() {
    let begin = json!({ "name": "add", "arguments": "" });
    let parts = [
        begin,
        json!({ "arguments": "{\"a\":" }),
        json!({ "arguments": "1}" }),
    ];
    let both = |function: &Value| {
        let call = json!({ "index": 0, "id": "c1", "function": function });
        json!({ "function_call": function, "tool_calls": [call] })
    };
    let legacy = |function: &Value| json!({ "function_call": function });
    let whole = both(&json!({ "name": "add", "arguments": "{\"a\":1}" }));
    let streamed = [
        (parts.iter().map(both).collect(), "c1"),
        (parts.iter().map(legacy).collect(), "call-1-1"),
        (vec![whole], "c1"),
    ];
    for (deltas, id) in streamed {
        let deltas: Vec<Value> = deltas;
        let answer = assembled(&deltas);
        let found: Vec<_> = calls(&answer)
            .into_iter()
            .map(|call| {
                (
                    call.id.as_str(),
                    call.name.as_str(),
                    call.arguments.as_str(),
                )
            })
            .collect();
        assert_eq!(found, [(id, "add", "{\"a\":1}")], "{deltas:?}");
    }
}

#[test]
fn the_number_of_tool_calls_is_bounded() {
    let piece = |n: usize| call_piece(json!(n), &format!("c{n}"), "add", "{}");
    let limit = MAX_TOOL_CALLS;
    let problem = ReplyProblem::TooManyToolCalls { limit };
    // Far more of them take no longer than their text.
    for (count, is_accepted) in [(limit, true), (limit + 1, false), (200_000, false)] {
        let mut assembler = assembler();
        for n in 0..count {
            assembler.push(json!({ "choices": [{ "delta": { "tool_calls": [piece(n)] } }] }));
        }
        let whole: Vec<Value> = (0..count).map(piece).collect();
        let whole = reply_of(json!({ "tool_calls": whole }), json!("tool_calls"));
        for reply in [assembler.finish(), whole] {
            match read(&reply) {
                Ok(answer) => assert!(is_accepted && calls(&answer).len() == count, "{count}"),
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
        let mut assembler = assembler();
        let heard: String = pieces[skipped..]
            .iter()
            .map(|piece| assembler.push(piece.clone()))
            .collect();
        let answer = read(&assembler.finish()).expect("an answer");
        if skipped != 1 {
            assert_eq!((text(&answer).as_str(), heard.as_str()), ("hello", "hello"));
        }
        assert_eq!(calls(&answer).len(), 1, "{answer:?}");
    }
}

#[test]
fn what_an_endpoint_expects_back_is_kept_from_chunks() {
    let mut call = call_piece(json!(0), "c1", "add", "{}");
    call["extra_content"] = json!({ "google": { "thought_signature": "c2ln" } });
    let mut repeated = call_piece(json!(0), "", "", "");
    repeated["provider_specific_fields"] = json!({ "thought_signature": "bGl0" });
    let parsed = assembled(&[
        json!({ "tool_calls": [call] }),
        json!({ "tool_calls": [repeated] }),
        json!({ "content": "", "extra_content": { "google": { "thought_signature": "bXNn" } } }),
    ]);
    let Some(AssistantPart::Opaque(part)) = parsed.parts.last() else {
        panic!("nothing is returned: {:?}", parsed.parts);
    };
    assert_eq!(
        part.data.value(),
        json!({
            "extra_content": { "c1": { "google": { "thought_signature": "c2ln" } } },
            "provider_specific_fields": { "c1": { "thought_signature": "bGl0" } },
            "message_extra_content": { "google": { "thought_signature": "bXNn" } },
        })
    );
}
