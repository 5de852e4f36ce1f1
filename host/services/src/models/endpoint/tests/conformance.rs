//! What holds for the replies of each provider. Each reply of the list is read in one piece, and
//! streamed in all ways in which a stream may be cut into chunks. The outcome is the same reply or a
//! failure of the endpoint.

use bytes::Bytes;
use encoding_rs::{Encoding, GB18030, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::wire::{
    Framing, LogicalReply, WireReply, all_replies, logical_replies, stream, wire_replies,
};
use super::*;
use crate::models::endpoint::receive::read_pieces;
use crate::text_response::TextDecoder;

/// An endpoint of a provider that is never reached.
fn endpoint_of(protocol: ProtocolName) -> ModelEndpoint {
    provider_of(&Endpoint {
        protocol,
        base_url: "http://127.0.0.1:1".to_owned(),
        api_key_env: None,
        retries: 0,
        timeout: Endpoint::DEFAULT_TIMEOUT,
    })
    .expect("a usable endpoint")
}

/// Reads a response in chunks of `size` bytes.
fn read(endpoint: &ModelEndpoint, bytes: &[u8], size: usize) -> Result<ModelReply, String> {
    read_encoded(endpoint, bytes, UTF_8, size)
}

/// Reads a response whose content type names this encoding, in chunks of `size` bytes.
fn read_encoded(
    endpoint: &ModelEndpoint,
    bytes: &[u8],
    declared: &'static Encoding,
    size: usize,
) -> Result<ModelReply, String> {
    let mut decoder = TextDecoder::new(declared);
    let mut pieces: Vec<Bytes> = bytes
        .chunks(size)
        .map(|piece| decoder.feed(piece).into())
        .collect();
    pieces.push(decoder.finish().into());
    let request = request();
    let check = ReplyCheck::for_request(&request).expect("a request without a schema");
    let question = Question {
        model: "m",
        request: &request,
        settings: &ModelSettings::default(),
        blobs: &Blobs::new(),
        check: &check,
        pace: &RateLimiter::default(),
    };
    let context = endpoint.context(question);
    let value = read_pieces(endpoint, context, &pieces).map_err(|failure| failure.message)?;
    let parsed = read_reply(&*endpoint.protocol, &value, context)
        .map_err(|unusable| format!("{unusable:?}"))?;
    Ok(endpoint.convert_reply(parsed, question))
}

/// Calls `check` for each reply of the list, of each provider.
fn each_reply(check: impl Fn(ProtocolName, &ModelEndpoint, &LogicalReply, WireReply)) {
    for protocol in ProtocolName::ALL {
        let endpoint = endpoint_of(protocol);
        for (logical, wire) in all_replies(protocol) {
            check(protocol, &endpoint, &logical, wire);
        }
    }
}

/// Calls `check` for each reply in the shape that its provider documents.
fn each_documented_reply(check: impl Fn(ProtocolName, &ModelEndpoint, &LogicalReply, WireReply)) {
    for protocol in ProtocolName::ALL {
        let endpoint = endpoint_of(protocol);
        let logical = logical_replies();
        for (logical, wire) in logical.iter().zip(wire_replies(protocol)) {
            check(protocol, &endpoint, logical, wire);
        }
    }
}

#[test]
fn the_same_reply_is_read_from_each_provider() {
    each_reply(|protocol, endpoint, logical, wire| {
        let name = format!("{}: {}", protocol.name(), logical.name);
        let reply = read(endpoint, wire.whole.to_string().as_bytes(), usize::MAX);
        let reply = reply.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(reply.text(), logical.text, "{name}");
        let calls: Vec<_> = reply
            .tool_calls()
            .map(|call| (call.name.as_str(), call.arguments.as_str()))
            .collect();
        let expected: Vec<_> = logical
            .calls
            .iter()
            .map(|call| (call.name, call.arguments))
            .collect();
        assert_eq!(calls, expected, "{name}");
        let reasoning: String = reply
            .parts
            .iter()
            .filter_map(|part| match part {
                AssistantPart::Opaque(part) => Some(part.reasoning.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(reasoning, logical.reasoning, "{name}");
        assert_eq!(reply.finish, logical.finish, "{name}");
        assert_eq!(reply.usage, logical.usage, "{name}");
        assert_eq!(reply.model, "served", "{name}");
    });
}

#[test]
fn arguments_have_the_integers_that_the_model_wrote() {
    const LARGE: &str = "-123456789012345678901234567890";
    let enlarge = |text: &str| {
        let text = text.replace("a\":1", &format!("a\":{LARGE}"));
        text.replace("a\\\":1", &format!("a\\\":{LARGE}"))
    };
    each_documented_reply(|protocol, endpoint, logical, wire| {
        if logical.calls.is_empty() {
            return;
        }
        let stream = stream(protocol, &wire.events, Framing::ALL[0]);
        for sent in [wire.whole.to_string(), stream] {
            let reply = read(endpoint, enlarge(&sent).as_bytes(), 7);
            let reply = reply.unwrap_or_else(|error| panic!("{}: {error}", protocol.name()));
            let arguments = reply
                .tool_calls()
                .next()
                .map(|call| call.arguments.as_str());
            let expected = enlarge(logical.calls[0].arguments);
            assert_eq!(arguments, Some(expected.as_str()), "{}", protocol.name());
        }
    });
}

#[test]
fn a_streamed_reply_is_the_same_as_one_in_one_piece() {
    each_reply(|protocol, endpoint, logical, wire| {
        let expected = read(endpoint, wire.whole.to_string().as_bytes(), usize::MAX);
        let name = format!("{}: {}", protocol.name(), logical.name);
        for framing in Framing::ALL {
            let stream = stream(protocol, &wire.events, framing);
            for size in [1, 7, usize::MAX] {
                let found = read(endpoint, stream.as_bytes(), size);
                assert_eq!(found, expected, "{name}: {framing:?}");
            }
        }
    });
}

/// Returns a text in an encoding that can represent it. UTF-16 is written by hand, because the
/// Encoding Standard only reads it.
fn encode(text: &str, encoding: &'static Encoding) -> Option<Vec<u8>> {
    let units = text.encode_utf16();
    if encoding == UTF_16LE {
        return Some(units.flat_map(u16::to_le_bytes).collect());
    }
    if encoding == UTF_16BE {
        return Some(units.flat_map(u16::to_be_bytes).collect());
    }
    let (bytes, _, has_unmappable) = encoding.encode(text);
    (!has_unmappable).then(|| bytes.into_owned())
}

#[test]
fn a_reply_is_read_in_the_encoding_that_the_response_names() {
    each_reply(|protocol, endpoint, logical, wire| {
        let name = format!("{}: {}", protocol.name(), logical.name);
        let whole = wire.whole.to_string();
        let stream = stream(protocol, &wire.events, Framing::DOCUMENTED);
        let expected = read(endpoint, whole.as_bytes(), usize::MAX);
        for encoding in [UTF_8, WINDOWS_1252, GB18030, UTF_16LE, UTF_16BE] {
            for text in [&whole, &stream] {
                let Some(bytes) = encode(text, encoding) else {
                    assert_eq!(encoding, WINDOWS_1252, "{name}: {text}");
                    continue;
                };
                for size in [1, 7, usize::MAX] {
                    let found = read_encoded(endpoint, &bytes, encoding, size);
                    assert_eq!(found, expected, "{name}: {}", encoding.name());
                }
            }
        }
        for encoding in [UTF_8, UTF_16LE, UTF_16BE] {
            for text in [&whole, &stream] {
                let marked = encode(&format!("\u{feff}{text}"), encoding).expect("any text");
                for size in [1, 7, usize::MAX] {
                    // The mark says more than the content type.
                    let found = read_encoded(endpoint, &marked, WINDOWS_1252, size);
                    assert_eq!(found, expected, "{name}: {} with a mark", encoding.name());
                }
            }
        }
    });
}

#[test]
fn a_reply_that_is_cut_is_the_same_or_a_failure() {
    each_reply(|protocol, endpoint, logical, wire| {
        let name = format!("{}: {}", protocol.name(), logical.name);
        let whole = wire.whole.to_string();
        let expected = read(endpoint, whole.as_bytes(), usize::MAX).expect("a reply");
        let stream = stream(protocol, &wire.events, Framing::DOCUMENTED);
        let mut is_complete = false;
        for end in 0..=stream.len() {
            match read(endpoint, &stream.as_bytes()[..end], usize::MAX) {
                // What was cut off behind a complete reply may be its usage.
                Ok(found) => {
                    is_complete = true;
                    let usage = found.usage;
                    let expected = ModelReply {
                        usage,
                        ..expected.clone()
                    };
                    assert_eq!(found, expected, "{name}: {}", &stream[..end]);
                }
                Err(_) => assert!(!is_complete, "{name}: {}", &stream[..end]),
            }
        }
        assert!(is_complete, "{name}");
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            let found = read(endpoint, &whole.as_bytes()[..end], usize::MAX);
            assert!(found.is_err(), "{name}: {}", &whole[..end]);
        }
    });
}

/// Removes the indices of choices, calls, blocks, items and candidates.
fn without_indices(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(without_indices).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, value)| {
                !(value.is_number() && matches!(name.as_str(), "index" | "output_index"))
            })
            .map(|(name, value)| (name.clone(), without_indices(value)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn indices_that_are_missing_change_nothing() {
    each_documented_reply(|protocol, endpoint, logical, wire| {
        let name = format!("{}: {}", protocol.name(), logical.name);
        let expected = read(endpoint, wire.whole.to_string().as_bytes(), usize::MAX);
        let whole = without_indices(&wire.whole).to_string();
        assert_eq!(
            read(endpoint, whole.as_bytes(), usize::MAX),
            expected,
            "{name}"
        );
        let events: Vec<Value> = wire.events.iter().map(without_indices).collect();
        let stream = stream(protocol, &events, Framing::DOCUMENTED);
        assert_eq!(
            read(endpoint, stream.as_bytes(), usize::MAX),
            expected,
            "{name}"
        );
    });
}

/// The errors of providers as they document them, and in forms that others use.
fn errors() -> [Value; 7] {
    [
        json!({ "error": { "message": "busy", "type": "server_error", "param": null, "code": null } }),
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } }),
        json!({ "error": { "code": 503, "message": "busy", "status": "UNAVAILABLE" } }),
        json!({ "type": "error", "code": "server_error", "message": "busy", "param": null }),
        json!({ "type": "response.failed", "response": { "id": "r", "status": "failed",
            "error": { "code": "server_error", "message": "busy" }, "output": [] } }),
        json!({ "object": "error", "message": "busy", "code": 503 }),
        json!({ "error": "busy" }),
    ]
}

#[test]
fn an_error_inside_a_reply_is_a_failure_unless_the_reply_was_complete() {
    each_reply(|protocol, endpoint, logical, wire| {
        let name = format!("{}: {}", protocol.name(), logical.name);
        let expected = read(endpoint, wire.whole.to_string().as_bytes(), usize::MAX);
        for error in errors() {
            if error["type"] == "response.failed" && protocol != ProtocolName::Responses {
                continue;
            }
            let mut is_complete = false;
            for place in 0..=wire.events.len() {
                let mut events = wire.events[..place].to_vec();
                events.push(error.clone());
                let stream = stream(protocol, &events, Framing::DOCUMENTED);
                let found = read(endpoint, stream.as_bytes(), usize::MAX);
                match &found {
                    Ok(_) => {
                        is_complete = true;
                        let found = found.map(|reply| reply.parts);
                        let parts = expected.clone().map(|reply| reply.parts);
                        assert_eq!(found, parts, "{name}: {error} at {place}");
                    }
                    Err(_) => assert!(!is_complete, "{name}: {error} at {place}"),
                }
            }
            if error["type"] != "response.failed" {
                let mut whole = wire.whole.clone();
                whole["error"] = json!({ "message": "busy" });
                let found = read(endpoint, whole.to_string().as_bytes(), usize::MAX);
                assert!(found.is_err(), "{name}: {found:?}");
                let found = read(endpoint, error.to_string().as_bytes(), usize::MAX);
                assert!(found.is_err(), "{name}: {found:?}");
            }
        }
    });
}

#[test]
fn what_is_no_reply_is_a_failure_of_the_endpoint() {
    for protocol in ProtocolName::ALL {
        let endpoint = endpoint_of(protocol);
        for body in [
            "",
            " \n",
            "{}",
            "[]",
            "null",
            "1",
            "\"x\"",
            "{",
            "<html>",
            "data: {}\n\n",
            "data: null\n\n",
            "data: [DONE]\n\n",
            "event: ping\ndata: {\"type\":\"ping\"}\n\n",
            ": comment\n\n",
            "data: <\n\n",
            "data: [[[\n\n",
        ] {
            let found = read(&endpoint, body.as_bytes(), usize::MAX);
            assert!(found.is_err(), "{}: {body}: {found:?}", protocol.name());
        }
    }
}

#[test]
fn documents_that_are_too_deep_or_too_large_are_failures() {
    for protocol in ProtocolName::ALL {
        let endpoint = endpoint_of(protocol);
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        // Each item takes far more memory than its two bytes.
        let wide = format!("{{\"x\":[{}0]}}", "0,".repeat(6 << 20));
        for bomb in [deep, wide] {
            let streamed = format!("data: {bomb}\n\n");
            for bytes in [bomb, streamed] {
                let found = read(&endpoint, bytes.as_bytes(), usize::MAX);
                assert!(found.is_err(), "{}", protocol.name());
            }
        }
    }
}

#[test]
fn a_million_empty_events_take_no_longer_than_their_bytes() {
    for protocol in ProtocolName::ALL {
        let endpoint = endpoint_of(protocol);
        let wire = wire_replies(protocol);
        let empty = [": x\n\n", "data: {}\n\n", "data:\n\n"]
            .concat()
            .repeat(250_000);
        let stream = empty + &stream(protocol, &wire[0].events, Framing::DOCUMENTED);
        let found = read(&endpoint, stream.as_bytes(), 1 << 16).expect("a reply");
        assert_eq!(found.text(), logical_replies()[0].text);
    }
}

fn documents() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "choices",
        "message",
        "delta",
        "content",
        "tool_calls",
        "function",
        "usage",
        "id",
        "type",
        "index",
        "output_index",
        "output",
        "item",
        "response",
        "status",
        "content_block",
        "text",
        "input",
        "candidates",
        "parts",
        "functionCall",
        "finishReason",
        "stop_reason",
        "summary",
        "thought",
        "thoughtSignature",
        "reasoning_details",
        "extra_content",
    ]);
    let words = prop::sample::select(vec![
        "message",
        "text",
        "tool_use",
        "thinking",
        "function_call",
        "reasoning",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "message_stop",
        "response.created",
        "response.output_item.done",
        "response.completed",
        "completed",
        "failed",
        "STOP",
        "",
        "{\"a\":",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        words.prop_map(Value::from),
        ".{0,8}".prop_map(Value::from)
    ];
    leaf.prop_recursive(6, 48, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..5)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

/// Returns documents that differ from those of a reply in one place.
fn damaged(value: &Value, place: &mut usize, with: &Value) -> Value {
    if *place == 0 {
        *place = usize::MAX;
        return with.clone();
    }
    *place = place.saturating_sub(usize::from(*place != usize::MAX));
    match value {
        Value::Array(list) => list.iter().map(|item| damaged(item, place, with)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, item)| (name.clone(), damaged(item, place, with)))
            .collect(),
        other => other.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_makes_us_panic(documents in prop::collection::vec(documents(), 1..5)) {
        for protocol in ProtocolName::ALL {
            let endpoint = endpoint_of(protocol);
            let _ = read(&endpoint, documents[0].to_string().as_bytes(), usize::MAX);
            let _ = read(&endpoint, stream(protocol, &documents, Framing::DOCUMENTED).as_bytes(), usize::MAX);
        }
    }

    #[test]
    fn no_damage_to_an_answer_makes_us_panic(
        with in documents(), reply in 0_usize..5, event in any::<prop::sample::Index>(), place in 0_usize..40,
    ) {
        for protocol in ProtocolName::ALL {
            let endpoint = endpoint_of(protocol);
            let mut wire = wire_replies(protocol).into_iter().nth(reply).expect("a reply");
            let whole = damaged(&wire.whole, &mut place.clone(), &with);
            let _ = read(&endpoint, whole.to_string().as_bytes(), usize::MAX);
            let event = event.get(&wire.events).clone();
            let at = wire.events.iter().position(|other| *other == event).expect("an event");
            wire.events[at] = damaged(&event, &mut place.clone(), &with);
            let _ = read(&endpoint, stream(protocol, &wire.events, Framing::DOCUMENTED).as_bytes(), usize::MAX);
        }
    }
}
