//! Tests of the request bodies and of the interpretation of replies.

mod streamed;

use serde_json::json;
use strata_base::files::blob::{Blobs, digest_of};
use strata_core::record::conversation::{
    Media, MediaSource, ModelMessage, Part, TokenUsage, ToolCall, ToolChoice, ToolResult,
    reply_text, tool_calls,
};

use super::*;
use crate::gateway::HostErrorKind;
use crate::models::config::ModelSettings;
use crate::models::media::MediaBytes;
use crate::models::protocol::{Assembler, MAX_TOOL_CALLS, Origin, UnusableReply, read_reply};
use crate::models::tokens::UsageWithoutReply;
use crate::models::{ModelRequest, ToolDefinition};

fn request() -> ModelRequest {
    ModelRequest::ask("hello")
}

fn add_tool(parameters: &str) -> ToolDefinition {
    ToolDefinition {
        name: "add".to_owned(),
        description: "adds".to_owned(),
        parameters: parameters.to_owned(),
    }
}

/// Returns the body of a request.
fn body_of(dialect: ChatCompletions, request: &ModelRequest) -> Result<String, HostError> {
    body_with(dialect, request, &Blobs::new())
}

fn body_with(
    dialect: ChatCompletions,
    request: &ModelRequest,
    blobs: &Blobs,
) -> Result<String, HostError> {
    let outbound = Outbound {
        model: "m",
        request,
        settings: &ModelSettings::default(),
        origin: &Origin("openai".to_owned()),
        media: MediaBytes {
            provider: "openai",
            blobs,
        },
        transfer: TransferMode::Unstreamed,
    };
    dialect.body(&outbound).map(RequestBody::finish)
}

/// Interprets a reply to `request`.
fn read(reply: &Value) -> Result<ParsedReply, UnusableReply> {
    let context = ReplyContext {
        model: "m",
        request: &request(),
        origin: &Origin("openai".to_owned()),
        keep_thinking: true,
    };
    read_reply(&ChatCompletions::Compatible, reply, context)
}

fn text(parsed: &ParsedReply) -> String {
    reply_text(&parsed.parts)
}

fn calls(parsed: &ParsedReply) -> Vec<&ToolCall> {
    tool_calls(&parsed.parts).collect()
}

fn assembler() -> Assembler {
    Assembler::new(ChatCompletions::Compatible.builder())
}

#[test]
fn everything_that_is_asked_is_sent() {
    let call = ToolCall {
        id: "c1".to_owned(),
        name: "add".to_owned(),
        arguments: r#"{"a":1}"#.to_owned(),
    };
    let result = ToolResult {
        call: "c1".to_owned(),
        tool: "add".to_owned(),
        content: vec![Part::Text("2".to_owned())],
        is_error: false,
    };
    let request = ModelRequest {
        system: "be brief".to_owned(),
        messages: vec![
            crate::models::user_message("1+1?"),
            ModelMessage::Assistant(vec![AssistantPart::ToolCall(call)]),
            ModelMessage::ToolResults(vec![result]),
        ],
        tools: vec![add_tool(r#"{"type":"object"}"#)],
        tool_choice: ToolChoice::Required,
        output_schema: Some(r#"{"type":"integer"}"#.to_owned()),
        effort: Some("low".to_owned()),
        temperature: Some(0.2),
        max_tokens: Some(100),
        stop: vec!["END".to_owned()],
        seed: Some(7),
        ..request()
    };
    let sent = body_of(ChatCompletions::Compatible, &request).expect("a body");
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
            "function": { "name": "add", "description": "adds", "parameters": { "type": "object", "properties": {} } },
        }],
        "tool_choice": "required",
        "response_format": {
            "type": "json_schema",
            "json_schema": { "name": "reply", "schema": { "type": "integer" } },
        },
        "reasoning_effort": "low",
        "temperature": 0.2,
        "max_tokens": 100,
        "stop": ["END"],
        "seed": 7,
    });
    assert_eq!(sent, expected);
}

#[test]
fn images_and_files_are_sent_as_parts() {
    let bytes: std::sync::Arc<[u8]> = b"\x89PNG".as_slice().into();
    let digest = digest_of(&bytes);
    let blobs = Blobs::from([(digest.clone(), bytes)]);
    let media = |media_type: &str, source: MediaSource| Media {
        media_type: media_type.to_owned(),
        name: None,
        source,
    };
    let blob = || MediaSource::Blob {
        digest: digest.clone(),
        size: 4,
    };
    let check = |part: Part, expected: Result<Value, &str>| {
        let message = ModelMessage::User(vec![Part::Text("what?".into()), part]);
        let request = ModelRequest::new(vec![message]);
        match (
            body_with(ChatCompletions::Compatible, &request, &blobs),
            expected,
        ) {
            (Ok(sent), Ok(expected)) => {
                let sent: Value = serde_json::from_str(&sent).expect("JSON");
                let content = json!([{ "type": "text", "text": "what?" }, expected]);
                assert_eq!(sent["messages"][0]["content"], content);
            }
            (Err(error), Err(part)) => {
                assert_eq!(error.kind, HostErrorKind::Invalid);
                assert!(error.message.contains(part), "{}", error.message);
            }
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    };
    let data = "data:image/png;base64,iVBORw==";
    check(
        Part::Image(media("image/png", blob())),
        Ok(json!({ "type": "image_url", "image_url": { "url": data } })),
    );
    let url = || MediaSource::Url("https://a.example/x.png".into());
    check(
        Part::Image(media("image/png", url())),
        Ok(json!({ "type": "image_url", "image_url": { "url": "https://a.example/x.png" } })),
    );
    check(
        Part::File(media("application/pdf", blob())),
        Ok(json!({ "type": "file",
            "file": { "filename": "file", "file_data": "data:application/pdf;base64,iVBORw==" } })),
    );
    check(
        Part::File(media("audio/wav", blob())),
        Ok(
            json!({ "type": "input_audio", "input_audio": { "data": "iVBORw==", "format": "wav" } }),
        ),
    );
    check(
        Part::Image(media("image/tiff", blob())),
        Err("an image of type `image/tiff` to the provider `openai`: it accepts `image/png`"),
    );
    check(
        Part::File(media("application/pdf", url())),
        Err("the address of a file"),
    );
    let missing = MediaSource::Blob {
        digest: digest_of(b"other"),
        size: 5,
    };
    check(
        Part::Image(media("image/png", missing)),
        Err("[image/png, 5 bytes] to a model: its bytes are not stored"),
    );
}

#[test]
fn schemas_that_are_not_json_are_refused() {
    let check = |request: ModelRequest, expected: &str| {
        let error = body_of(ChatCompletions::Compatible, &request).expect_err("a bad schema");
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
        let dialect = ChatCompletions::for_url(&Url::parse(url).expect("a URL"));
        let request = ModelRequest {
            max_tokens: Some(7),
            ..request()
        };
        let sent = body_of(dialect, &request).expect("a body");
        let expected = format!(
            r#"{{"model":"m","{name}":7,"messages":[{{"role":"user","content":"hello"}}]}}"#
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
            read(&reply_of(json!({ "content": content }), Value::Null)).expect("an answer");
        assert_eq!(self::text(&answer), text, "{content}");
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
        let answer = read(&json!({ "choices": choices })).expect("an answer");
        assert_eq!(self::text(&answer), text, "{choices}");
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
        let answer = read(&reply_of(message.clone(), reason.clone())).expect("an answer");
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
            self::text(&read(&reply_of(message, json!("stop"))).expect("an answer")),
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
            read(&reply).expect_err("no answer"),
            UnusableReply { problem, usage },
            "{reply}"
        );
    };
    let stated = ReplyProblem::StatedError;
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 3 });
    let counted = UsageWithoutReply::Tokens(TokenUsage {
        input: 10,
        output: 3,
        ..TokenUsage::default()
    });
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
        assert_eq!(text(&read(&reply).expect("an answer")), "hi");
    }
}

#[test]
fn tool_calls_are_read_in_all_their_forms() {
    let check_in = |message: Value, expected: (&str, &str, &str)| {
        let answer = read(&reply_of(message, Value::Null)).expect("an answer");
        let calls = calls(&answer);
        let [call] = calls[..] else {
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
        ("call-1-1", "add", "{\"a\":1}"),
    );
    check(
        json!({ "id": "", "function": function(json!("")) }),
        ("call-1-1", "add", "{}"),
    );
    check(
        json!({ "function": function(Value::Null) }),
        ("call-1-1", "add", "{}"),
    );
    check(
        json!({ "id": "c1", "name": "add", "arguments": "{}" }),
        ("c1", "add", "{}"),
    );
    check(json!({}), ("call-1-1", "", "{}"));
    let legacy = json!({ "content": null, "function_call": function(json!("{\"a\":1}")) });
    check_in(legacy, ("call-1-1", "add", "{\"a\":1}"));
}

#[test]
fn what_was_used_is_read_in_all_its_forms() {
    let check = |usage: Value, expected: (Option<u64>, Option<u64>, Option<u64>, Option<u64>)| {
        let reply = json!({ "choices": [{ "message": { "content": "hi" } }], "usage": usage });
        let usage = read(&reply).expect("an answer").usage;
        assert_eq!(
            (usage.input, usage.output, usage.total, usage.cache_read),
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

#[test]
fn what_an_endpoint_expects_back_is_returned_to_it_alone() {
    let details =
        json!([{ "type": "reasoning.text", "text": "hm", "signature": "c2ln", "index": 0 }]);
    let message = json!({
        "content": "x",
        "reasoning_content": "hm",
        "reasoning_details": details,
        "tool_calls": [{ "id": "c1", "function": { "name": "add", "arguments": "{}" },
            "extra_content": { "google": { "thought_signature": "c2ln" } },
            "provider_specific_fields": { "thought_signature": "bGl0" } }],
        "extra_content": { "google": { "thought_signature": "bXNn" } },
    });
    let answer = read(&reply_of(message, json!("tool_calls"))).expect("an answer");
    let request = ModelRequest::new(vec![
        crate::models::user_message("hello"),
        ModelMessage::Assistant(answer.parts),
    ]);
    let sent = |origin: &str, model: &str| -> Value {
        let outbound = Outbound {
            model,
            request: &request,
            settings: &ModelSettings::default(),
            origin: &Origin(origin.to_owned()),
            media: MediaBytes {
                provider: "openai",
                blobs: &Blobs::new(),
            },
            transfer: TransferMode::Unstreamed,
        };
        let body = ChatCompletions::Compatible.body(&outbound).expect("a body");
        serde_json::from_str(&body.finish()).expect("JSON")
    };
    let own = &sent("openai", "m")["messages"][1];
    assert_eq!(own["reasoning_content"], "hm");
    assert_eq!(own["reasoning_details"], details);
    let extra = json!({ "google": { "thought_signature": "c2ln" } });
    assert_eq!(own["tool_calls"][0]["extra_content"], extra);
    let extra = json!({ "thought_signature": "bGl0" });
    assert_eq!(own["tool_calls"][0]["provider_specific_fields"], extra);
    let extra = json!({ "google": { "thought_signature": "bXNn" } });
    assert_eq!(own["extra_content"], extra);
    for (origin, model) in [("openai", "other"), ("openai a.example", "m")] {
        let message = sent(origin, model)["messages"][1].clone();
        let fields: Vec<&String> = message.as_object().expect("a message").keys().collect();
        assert_eq!(fields, ["content", "role", "tool_calls"]);
        let call = message["tool_calls"][0].as_object().expect("a call");
        let fields: Vec<&String> = call.keys().collect();
        assert_eq!(fields, ["function", "id", "type"]);
    }
}

#[test]
fn what_is_returned_with_a_call_is_bounded() {
    let opaque_with = |extra: Value| {
        let call = json!({ "id": "c1", "extra_content": extra,
            "function": { "name": "add", "arguments": "{}" } });
        let message = json!({ "tool_calls": [call] });
        let parsed = read(&reply_of(message, json!("tool_calls"))).expect("an answer");
        let is_opaque = |part: &AssistantPart| matches!(part, AssistantPart::Opaque(_));
        parsed.parts.iter().filter(|part| is_opaque(part)).count()
    };
    assert_eq!(
        opaque_with(json!({ "x": "y".repeat(MAX_EXTRA_BYTES - 8) })),
        1
    );
    assert_eq!(
        opaque_with(json!({ "x": "y".repeat(MAX_EXTRA_BYTES - 7) })),
        0
    );
    assert_eq!(opaque_with(json!({})), 0);
    assert_eq!(opaque_with(json!("text")), 0);
}
