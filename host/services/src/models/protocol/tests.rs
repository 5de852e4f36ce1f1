//! What holds for the requests of all protocols.

mod conversations;
mod provider_rules;

use serde_json::json;
use strata_base::files::blob::{Blobs, digest_of};
use strata_core::record::conversation::{
    AssistantPart, Media, MediaSource, ModelMessage, Part, ToolCall, ToolChoice, ToolResult,
};

use super::*;
use crate::models::ToolDefinition;
use crate::models::surrogate::parse_chunk;

const IMAGE: &[u8] = b"\x89PNG";

/// Returns the body of a request in a protocol.
fn body(protocol_name: ProtocolName, request: &ModelRequest, settings: &ModelSettings) -> String {
    body_for(protocol_name, "m", request, settings)
}

/// Returns the body of a request to a model in a protocol.
fn body_for(
    protocol_name: ProtocolName,
    model: &str,
    request: &ModelRequest,
    settings: &ModelSettings,
) -> String {
    let base = Url::parse(protocol_name.default_base_url()).expect("an address");
    let blobs = Blobs::from([(digest_of(IMAGE), IMAGE.into())]);
    let outbound = Outbound {
        model,
        request,
        settings,
        origin: &Origin(protocol_name.name().to_owned()),
        media: MediaBytes {
            provider: protocol_name.name(),
            blobs: &blobs,
        },
        transfer: TransferMode::Unstreamed,
    };
    let mut body = protocol(protocol_name, &base)
        .body(&outbound)
        .expect("a request that can be sent");
    body.customize(&settings.options, &settings.without);
    body.finish()
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "a tool".to_owned(),
        parameters: "{}".to_owned(),
    }
}

/// The cache mark of Anthropic.
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

#[test]
fn the_cache_is_marked_at_the_instructions_the_last_tool_and_the_newest_message() {
    let request = ModelRequest {
        system: "be brief".to_owned(),
        tools: vec![tool("a"), tool("b")],
        ..ModelRequest::new(vec![
            crate::models::user_message("one"),
            ModelMessage::User(vec![Part::Text("two".into()), Part::Text("three".into())]),
        ])
    };
    let sent = body(ProtocolName::Anthropic, &request, &ModelSettings::default());
    let sent: Value = serde_json::from_str(&sent).expect("JSON");
    let mark = json!({ "type": "ephemeral" });
    let marked = [
        "/system/0/cache_control",
        "/tools/1/cache_control",
        "/messages/1/content/1/cache_control",
    ];
    for place in marked {
        assert_eq!(sent.pointer(place), Some(&mark), "{place}");
    }
    assert_eq!(
        sent.to_string().matches("cache_control").count(),
        marked.len()
    );
}

#[test]
fn effort_and_limits_are_sent_in_the_form_of_each_provider() {
    let settings = ModelSettings {
        effort: Some("low".to_owned()),
        max_tokens: Some(7),
        ..ModelSettings::default()
    };
    let check = |protocol, expected: Value| {
        let sent = body(protocol, &ModelRequest::ask("hello"), &settings);
        let mut sent: Value = serde_json::from_str(&sent).expect("JSON");
        for conversation in ["messages", "input", "contents"] {
            let fields = sent.as_object_mut().expect("an object");
            fields.remove(conversation);
        }
        assert_eq!(sent, expected);
    };
    check(
        ProtocolName::OpenAi,
        json!({ "model": "m", "max_completion_tokens": 7, "reasoning_effort": "low" }),
    );
    check(
        ProtocolName::Responses,
        json!({ "model": "m", "store": false, "include": ["reasoning.encrypted_content"],
            "max_output_tokens": 7, "reasoning": { "effort": "low" } }),
    );
    check(
        ProtocolName::Anthropic,
        json!({ "model": "m", "max_tokens": 7, "output_config": { "effort": "low" } }),
    );
    check(
        ProtocolName::Gemini,
        json!({ "generationConfig": { "maxOutputTokens": 7,
            "thinkingConfig": { "thinkingLevel": "low" } } }),
    );
}

#[test]
fn the_choice_of_a_tool_is_sent_in_the_form_of_each_provider() {
    let check = |protocol, choice: ToolChoice, place: &str, expected: Value| {
        let request = ModelRequest {
            tools: vec![tool("add")],
            tool_choice: choice.clone(),
            ..ModelRequest::ask("hello")
        };
        let sent = body(protocol, &request, &ModelSettings::default());
        let sent: Value = serde_json::from_str(&sent).expect("JSON");
        let found = sent.pointer(place).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{}: {choice:?}", protocol.name());
    };
    let named = || ToolChoice::Tool("add".to_owned());
    use ProtocolName::{Anthropic, Gemini, OpenAi, Responses};
    for protocol in ProtocolName::ALL {
        check(protocol, ToolChoice::Auto, "/tool_choice", Value::Null);
        check(protocol, ToolChoice::Auto, "/toolConfig", Value::Null);
    }
    check(
        OpenAi,
        ToolChoice::Required,
        "/tool_choice",
        json!("required"),
    );
    check(OpenAi, ToolChoice::None, "/tool_choice", json!("none"));
    check(
        OpenAi,
        named(),
        "/tool_choice",
        json!({ "type": "function", "function": { "name": "add" } }),
    );
    check(
        Responses,
        ToolChoice::Required,
        "/tool_choice",
        json!("required"),
    );
    check(
        Responses,
        named(),
        "/tool_choice",
        json!({ "type": "function", "name": "add" }),
    );
    check(
        Anthropic,
        ToolChoice::Required,
        "/tool_choice",
        json!({ "type": "any" }),
    );
    check(
        Anthropic,
        ToolChoice::None,
        "/tool_choice",
        json!({ "type": "none" }),
    );
    check(
        Anthropic,
        named(),
        "/tool_choice",
        json!({ "type": "tool", "name": "add" }),
    );
    let calling = "/toolConfig/functionCallingConfig";
    check(
        Gemini,
        ToolChoice::Required,
        calling,
        json!({ "mode": "ANY" }),
    );
    check(Gemini, ToolChoice::None, calling, json!({ "mode": "NONE" }));
    check(
        Gemini,
        named(),
        calling,
        json!({ "mode": "ANY", "allowedFunctionNames": ["add"] }),
    );
}

#[test]
fn a_conversation_with_tools_is_sent_in_the_form_of_each_provider() {
    let call = |id: &str, arguments: &str| {
        AssistantPart::ToolCall(ToolCall {
            id: id.to_owned(),
            name: "add".to_owned(),
            arguments: arguments.to_owned(),
        })
    };
    let result = |call: &str, content: &str, is_error| ToolResult {
        call: call.to_owned(),
        tool: "add".to_owned(),
        content: vec![Part::Text(content.to_owned())],
        is_error,
    };
    let request = ModelRequest::new(vec![
        crate::models::user_message("1+1?"),
        ModelMessage::Assistant(vec![
            AssistantPart::Text("let me".to_owned()),
            call("c 1", r#"{"a":1}"#),
            call("call-1-2", "{"),
        ]),
        ModelMessage::ToolResults(vec![
            result("c 1", "2", false),
            result("call-1-2", "no", true),
        ]),
    ]);
    let sent = |protocol| -> Value {
        let sent = body(protocol, &request, &ModelSettings::default());
        serde_json::from_str(&sent).expect("JSON")
    };
    let openai = sent(ProtocolName::OpenAi);
    let id = &openai["messages"][1]["tool_calls"][0]["id"];
    assert!(id.as_str().is_some_and(|id| !id.contains(' ')), "{id}");
    assert_eq!(openai["messages"][2]["tool_call_id"], *id);
    assert_eq!(openai["messages"][3]["content"], "no");
    let responses = sent(ProtocolName::Responses);
    assert_eq!(
        responses["input"][3],
        json!({ "type": "function_call", "call_id": "call-1-2", "name": "add",
            "arguments": r#"{"arguments":"{"}"# })
    );
    assert_eq!(
        responses["input"][5],
        json!({ "type": "function_call_output", "call_id": "call-1-2", "output": "no" })
    );
    let anthropic = sent(ProtocolName::Anthropic);
    let blocks = &anthropic["messages"][1]["content"];
    assert_eq!(blocks[0], json!({ "type": "text", "text": "let me" }));
    assert_eq!(blocks[1]["input"], json!({ "a": 1 }));
    assert_eq!(blocks[2]["input"], json!({ "arguments": "{" }));
    let results = &anthropic["messages"][2]["content"];
    assert_eq!(results[0]["tool_use_id"], blocks[1]["id"]);
    assert_eq!(results[0]["is_error"], Value::Null);
    assert_eq!(results[1]["is_error"], true);
    let gemini = sent(ProtocolName::Gemini);
    assert_eq!(
        gemini["contents"][1]["parts"][1],
        json!({ "functionCall": { "id": id, "name": "add", "args": { "a": 1 } },
            "thoughtSignature": "skip_thought_signature_validator" })
    );
    assert_eq!(
        gemini["contents"][2]["parts"],
        json!([
            { "functionResponse": { "id": id, "name": "add", "response": { "result": "2" } } },
            { "functionResponse": { "name": "add", "response": { "error": "no" } } },
        ])
    );
}

#[test]
fn images_are_sent_in_the_form_of_each_provider() {
    let image = |source| {
        let media = Media {
            media_type: "image/png".to_owned(),
            name: None,
            source,
        };
        ModelRequest::new(vec![ModelMessage::User(vec![
            Part::Text("what?".to_owned()),
            Part::Image(media),
        ])])
    };
    let bytes = image(MediaSource::Blob {
        digest: digest_of(IMAGE),
        size: IMAGE.len() as u64,
    });
    let url = image(MediaSource::Url("https://a.example/x.png".to_owned()));
    let check = |protocol, request: &ModelRequest, place: &str, expected: Value| {
        let sent = body(protocol, request, &ModelSettings::default()).replace(MARK, "");
        let sent: Value = serde_json::from_str(&sent).expect("JSON");
        assert_eq!(sent.pointer(place), Some(&expected), "{sent}");
    };
    let data = "data:image/png;base64,iVBORw==";
    check(
        ProtocolName::Responses,
        &bytes,
        "/input/0/content/1",
        json!({ "type": "input_image", "image_url": data }),
    );
    check(
        ProtocolName::Anthropic,
        &bytes,
        "/messages/0/content/1",
        json!({ "type": "image",
            "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw==" } }),
    );
    check(
        ProtocolName::Anthropic,
        &url,
        "/messages/0/content/1/source",
        json!({ "type": "url", "url": "https://a.example/x.png" }),
    );
    check(
        ProtocolName::Gemini,
        &bytes,
        "/contents/0/parts/1",
        json!({ "inlineData": { "mimeType": "image/png", "data": "iVBORw==" } }),
    );
    check(
        ProtocolName::Gemini,
        &url,
        "/contents/0/parts/1",
        json!({ "fileData": { "mimeType": "image/png", "fileUri": "https://a.example/x.png" } }),
    );
}

/// Returns a reply's parts as they are read from `reply`.
fn parts_of(protocol_name: ProtocolName, reply: &Value, keep_thinking: bool) -> Vec<AssistantPart> {
    let base = Url::parse(protocol_name.default_base_url()).expect("an address");
    let context = ReplyContext {
        model: "m",
        request: &ModelRequest::ask("hello"),
        origin: &Origin(protocol_name.name().to_owned()),
        keep_thinking,
    };
    read_reply(&*protocol(protocol_name, &base), reply, context)
        .expect("a reply")
        .parts
}

#[test]
fn a_reply_is_returned_as_it_came() {
    let check = |protocol, reply: Value, came: &str, sent: &str| {
        let parts = parts_of(protocol, &reply, true);
        let request = ModelRequest::new(vec![
            crate::models::user_message("hello"),
            ModelMessage::Assistant(parts),
            crate::models::user_message("go on"),
        ]);
        let body = body(protocol, &request, &ModelSettings::default());
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(body.pointer(sent), reply.pointer(came), "{body}");
    };
    let content = json!([
        { "type": "thinking", "thinking": "hm", "signature": "c2ln" },
        { "type": "redacted_thinking", "data": "ZW5j" },
        { "type": "text", "text": "x" },
        { "type": "tool_use", "id": "toolu_1", "name": "add", "input": { "a": 1 } },
    ]);
    check(
        ProtocolName::Anthropic,
        json!({ "content": content, "stop_reason": "tool_use" }),
        "/content",
        "/messages/1/content",
    );
    let reasoning = json!({ "id": "rs_1", "type": "reasoning", "encrypted_content": "enc==",
        "summary": [{ "type": "summary_text", "text": "hm" }] });
    check(
        ProtocolName::Responses,
        json!({ "status": "completed", "output": [reasoning, { "type": "message",
            "content": [{ "type": "output_text", "text": "x" }] }] }),
        "/output/0",
        "/input/1",
    );
    let parts = json!([
        { "text": "hm", "thought": true },
        { "text": "x", "thoughtSignature": "c2ln" },
        { "functionCall": { "name": "add", "args": { "a": 1 } }, "thoughtSignature": "c2ln" },
        { "text": "", "thoughtSignature": "c2ln" },
    ]);
    check(
        ProtocolName::Gemini,
        json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }] }),
        "/candidates/0/content/parts",
        "/contents/1/parts",
    );
}

#[test]
fn reasoning_that_is_not_kept_leaves_only_its_signature() {
    let check = |protocol, reply: Value| {
        let parts = parts_of(protocol, &reply, false);
        let text = format!("{parts:?}");
        assert!(!text.contains("hm"), "{text}");
        assert!(text.contains("c2ln"), "{text}");
    };
    check(
        ProtocolName::Anthropic,
        json!({ "content": [{ "type": "thinking", "thinking": "hm", "signature": "c2ln" }] }),
    );
    let reasoning = json!({ "type": "reasoning", "encrypted_content": "c2ln",
        "summary": [{ "type": "summary_text", "text": "hm" }],
        "content": [{ "type": "reasoning_text", "text": "hm" }] });
    check(
        ProtocolName::Responses,
        json!({ "status": "completed", "output": [reasoning] }),
    );
    let parts = json!([{ "text": "hm", "thought": true, "thoughtSignature": "c2ln" }]);
    check(
        ProtocolName::Gemini,
        json!({ "candidates": [{ "content": { "parts": parts }, "finishReason": "STOP" }] }),
    );
    let details = json!([{ "type": "reasoning.text", "text": "hm", "signature": "c2ln" }]);
    let message =
        json!({ "content": "x", "reasoning_content": "hm", "reasoning_details": details });
    check(
        ProtocolName::OpenAi,
        json!({ "choices": [{ "message": message }] }),
    );
}

#[test]
fn a_character_that_is_split_over_two_chunks_of_reasoning_is_put_together() {
    let check = |name: ProtocolName, chunks: &[&str], pointer: &str| {
        let base = Url::parse(name.default_base_url()).expect("an address");
        let mut builder = protocol(name, &base).builder();
        for chunk in chunks {
            builder.push(parse_chunk(chunk).expect("a chunk"));
        }
        let reply = builder.finish();
        let found = reply.pointer(pointer);
        assert_eq!(found, Some(&json!("a😀b")), "{name:?}: {reply}");
    };
    check(
        ProtocolName::OpenAi,
        &[
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"t","index":0,"text":"a\ud83d"}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"t","index":0,"text":"\ude00b"}]}}]}"#,
        ],
        "/choices/0/message/reasoning_details/0/text",
    );
    check(
        ProtocolName::Anthropic,
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a\ud83d"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"\ude00b"}}"#,
        ],
        "/content/0/thinking",
    );
    check(
        ProtocolName::Gemini,
        &[
            r#"{"candidates":[{"content":{"parts":[{"thought":true,"text":"a\ud83d"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"thought":true,"text":"\ude00b"}]}}]}"#,
        ],
        "/candidates/0/content/parts/0/text",
    );
}
