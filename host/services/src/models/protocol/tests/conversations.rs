//! What holds for any conversation: providers accept it, and a request begins with the previous one.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use strata_core::record::conversation::{
    AssistantPart, Media, MediaSource, ModelMessage, Part, ToolCall, ToolResult,
};

use super::provider_rules::{
    check_chat_completions, check_generate_content, check_messages, check_responses,
};
use super::*;
use crate::models::protocol::tools::ToolNames;
use crate::models::user_message;

/// Returns texts as models and people write them, among them those that providers refuse.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => ".{0,12}",
        1 => select(vec!["", " ", "\n\n", "\u{1f}\t", "\0", "a\0b", "\\u0000", "\u{feff}"])
            .prop_map(str::to_owned),
    ]
}

/// Returns names of tools. Few of them, so that some are equal.
fn names() -> impl Strategy<Value = String> {
    let long = "x".repeat(70);
    let written = [
        "a",
        "b",
        "2fa",
        "functions.a",
        "a<|channel|>b",
        "",
        "-",
        "a\n\u{1b}[2J",
    ];
    let mut names: Vec<String> = written.map(str::to_owned).to_vec();
    names.push(long);
    prop_oneof![3 => select(names), 1 => ".{0,6}"]
}

fn ids() -> impl Strategy<Value = String> {
    let mut ids = ["call_0", "call_1", "call-1-1", "", "functions.a:0", "é"]
        .map(str::to_owned)
        .to_vec();
    ids.extend([41, 46, 64, 65, 300].map(|length| "i".repeat(length)));
    prop_oneof![3 => select(ids), 1 => ".{0,6}"]
}

fn media() -> Media {
    Media {
        media_type: "image/png".to_owned(),
        name: None,
        source: MediaSource::Blob {
            digest: digest_of(IMAGE),
            size: IMAGE.len() as u64,
        },
    }
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        4 => texts().prop_map(Part::Text),
        1 => Just(Part::Image(media())),
    ];
    prop::collection::vec(part, 0..4)
}

fn arguments() -> impl Strategy<Value = String> {
    let written = [
        "{}",
        r#"{"b": 1, "a": 2}"#,
        "{",
        "",
        "[1]",
        r#"{"a": "\ud83d"}"#,
        r#"{"a": "\u0000"}"#,
    ];
    prop_oneof![3 => select(written.map(str::to_owned).to_vec()), 1 => ".{0,12}"]
}

/// Returns opaque parts of all providers, and of another model of the same ones.
fn opaque_parts() -> impl Strategy<Value = AssistantPart> {
    let data = select(vec![
        json!({ "thoughtSignature": "c2ln" }),
        json!({ "thoughtSignature": "c2ln", "text": "" }),
        json!({ "thought": true, "text": "hm" }),
        json!({ "type": "thinking", "thinking": "hm", "signature": "c2ln", "text": "" , "thought": true }),
        json!({ "type": "reasoning", "id": "rs_1", "summary": [], "thought": true, "text": "" }),
        json!({ "type": "tool_use", "id": "call_0", "name": "a", "input": {}, "functionCall": {} }),
        json!({ "type": "function_call", "call_id": "call_0", "functionResponse": {} }),
        json!({ "reasoning_content": "hm", "role": "system", "thought": true, "text": "" }),
        json!("text"),
    ]);
    let providers = ProtocolName::ALL.map(ProtocolName::name).to_vec();
    let models = select(vec!["m", "m", "other"]);
    (select(providers), models, data).prop_filter_map(
        "what another protocol's replies contain is never labelled as one's own",
        |(provider, model, data)| {
            let kind = data["type"].as_str();
            let fits = match provider {
                "anthropic" => matches!(kind, Some("thinking" | "tool_use") | None),
                "responses" => matches!(kind, Some("reasoning" | "function_call") | None),
                _ => true,
            };
            fits.then(|| {
                AssistantPart::Opaque(OpaquePart {
                    provider: provider.to_owned(),
                    model: model.to_owned(),
                    data: data.into(),
                    reasoning: String::new(),
                })
            })
        },
    )
}

fn replies() -> impl Strategy<Value = Vec<AssistantPart>> {
    let call = (ids(), names(), arguments()).prop_map(|(id, name, arguments)| {
        AssistantPart::ToolCall(ToolCall {
            id,
            name,
            arguments,
        })
    });
    let part = prop_oneof![
        3 => texts().prop_map(AssistantPart::Text),
        3 => call,
        2 => opaque_parts(),
        1 => Just(AssistantPart::Media(media())),
    ];
    prop::collection::vec(part, 0..5)
}

fn result(call: String, content: Vec<Part>, is_error: bool) -> ToolResult {
    ToolResult {
        call,
        tool: "a".to_owned(),
        content,
        is_error,
    }
}

/// Returns a reply with the results of its calls, some of which may be missing.
fn exchanges() -> impl Strategy<Value = Vec<ModelMessage>> {
    (
        replies(),
        prop::collection::vec((parts(), any::<bool>()), 0..5),
    )
        .prop_map(|(reply, contents)| {
            let calls = reply.iter().filter_map(|part| match part {
                AssistantPart::ToolCall(call) => Some(call.id.clone()),
                _ => None,
            });
            let results: Vec<ToolResult> = calls
                .zip(contents)
                .map(|(call, (content, is_error))| result(call, content, is_error))
                .collect();
            let mut messages = vec![ModelMessage::Assistant(reply)];
            if !results.is_empty() {
                messages.push(ModelMessage::ToolResults(results));
            }
            messages
        })
}

fn conversations() -> impl Strategy<Value = Vec<ModelMessage>> {
    let stray = (ids(), parts(), any::<bool>())
        .prop_map(|(call, content, is_error)| result(call, content, is_error));
    let messages = prop_oneof![
        1 => texts().prop_map(|text| vec![ModelMessage::System(text)]),
        2 => parts().prop_map(|parts| vec![ModelMessage::User(parts)]),
        4 => exchanges(),
        1 => prop::collection::vec(stray, 0..3)
            .prop_map(|results| vec![ModelMessage::ToolResults(results)]),
    ];
    prop::collection::vec(messages, 0..6).prop_map(|messages| messages.concat())
}

fn check(protocol: ProtocolName, body: &str) -> Result<(), String> {
    let value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    match protocol {
        ProtocolName::OpenAi => check_chat_completions(&value),
        ProtocolName::Responses => check_responses(&value),
        ProtocolName::Anthropic => check_messages(&value),
        ProtocolName::Gemini => check_generate_content(&value),
    }
}

fn request(messages: &[ModelMessage], tools: usize) -> ModelRequest {
    ModelRequest {
        tools: ["a", "2fa"]
            .iter()
            .take(tools)
            .map(|name| tool(name))
            .collect(),
        ..ModelRequest::new(messages.to_vec())
    }
}

/// Returns how many messages the requests of a conversation contain: those before each reply, and
/// all of them. A request
/// asks about news or results.
fn lengths(messages: &[ModelMessage]) -> Vec<usize> {
    let asks = |length: &usize| {
        let asked = match &messages[length - 1] {
            ModelMessage::User(_) => true,
            ModelMessage::ToolResults(results) => !results.is_empty(),
            ModelMessage::System(_) | ModelMessage::Assistant(_) => false,
        };
        asked && matches!(messages[*length], ModelMessage::Assistant(_))
    };
    let mut lengths: Vec<usize> = (1..messages.len()).filter(asks).collect();
    lengths.push(messages.len());
    lengths
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_conversation_is_sent_in_a_form_that_the_provider_accepts(
        messages in conversations(), system in texts(), tools in 0_usize..3, join_news: bool,
    ) {
        let settings = ModelSettings { join_news, ..ModelSettings::default() };
        let request = ModelRequest { system, ..request(&messages, tools) };
        for protocol in ProtocolName::ALL {
            let body = body(protocol, &request, &settings);
            let checked = check(protocol, &body);
            prop_assert_eq!(checked, Ok(()), "{}: {}", protocol.name(), body);
        }
    }

    #[test]
    fn a_request_begins_with_the_previous_one(
        messages in conversations(), system in texts(), tools in 1_usize..3, join_news: bool,
    ) {
        let settings = ModelSettings {
            effort: Some("low".to_owned()),
            max_tokens: Some(7),
            options: json!({ "top_p": 0.9 }).as_object().expect("an object").clone(),
            join_news,
            ..ModelSettings::default()
        };
        for protocol in ProtocolName::ALL {
            let mut previous = String::new();
            for length in lengths(&messages) {
                let request = ModelRequest {
                    system: system.clone(),
                    ..request(&messages[..length], tools)
                };
                let body = body(protocol, &request, &settings);
                let body = body.replace(MARK, "");
                let beginning = body.strip_suffix("]}").expect("the conversation comes last");
                prop_assert!(beginning.starts_with(&previous), "{}: {previous}\n{body}", protocol.name());
                previous = beginning.to_owned();
            }
        }
    }

    #[test]
    fn with_joined_news_the_roles_alternate(messages in conversations(), system in texts()) {
        let settings = ModelSettings { join_news: true, ..ModelSettings::default() };
        let request = ModelRequest { system, ..request(&messages, 1) };
        let body = body(ProtocolName::OpenAi, &request, &settings);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let roles = body["messages"].as_array().expect("a list").iter();
        let roles: Vec<&str> = roles.filter_map(|message| message["role"].as_str()).collect();
        let conversation: Vec<&str> = roles.iter().copied().skip_while(|role| *role == "system").collect();
        prop_assert_eq!(conversation.first(), Some(&"user"));
        let alternates = conversation.windows(2).all(|pair| pair[0] != pair[1] || pair[0] == "tool");
        prop_assert!(alternates && !conversation.contains(&"system"), "{:?}", roles);
    }
}

#[test]
fn two_messages_are_joined_into_one_text() {
    let settings = ModelSettings {
        join_news: true,
        ..ModelSettings::default()
    };
    let request = ModelRequest::new(vec![user_message("one"), user_message("two")]);
    let sent = body(ProtocolName::OpenAi, &request, &settings);
    let expected = r#"{"model":"m","messages":[{"role":"user","content":"one\n\ntwo"}]}"#;
    assert_eq!(sent, expected);
}

#[test]
fn a_repeated_id_is_replaced_alike_in_each_request() {
    let exchange = |content: &str| {
        let call = ToolCall {
            id: "call_0".to_owned(),
            name: "a".to_owned(),
            arguments: "{}".to_owned(),
        };
        [
            ModelMessage::Assistant(vec![AssistantPart::ToolCall(call)]),
            ModelMessage::ToolResults(vec![result(
                "call_0".to_owned(),
                vec![Part::Text(content.to_owned())],
                false,
            )]),
        ]
    };
    let mut messages = vec![user_message("go")];
    messages.extend(exchange("first"));
    messages.extend(exchange("second"));
    let sent = |messages: &[ModelMessage]| -> Value {
        let sent = body(
            ProtocolName::OpenAi,
            &request(messages, 1),
            &ModelSettings::default(),
        );
        serde_json::from_str(&sent).expect("JSON")
    };
    let two = sent(&messages);
    let ids = |index: usize| two["messages"][index]["tool_calls"][0]["id"].clone();
    assert_eq!(ids(1), "call_0");
    assert_ne!(ids(3), "call_0");
    assert_eq!(two["messages"][4]["tool_call_id"], ids(3));
    assert_eq!(two["messages"][4]["content"], "second");
    messages.extend(exchange("third"));
    let three = sent(&messages);
    assert_eq!(three["messages"][3], two["messages"][3]);
    assert_ne!(three["messages"][5]["tool_calls"][0]["id"], ids(3));
}

#[test]
fn a_call_of_another_model_gets_a_placeholder_where_signatures_are_required() {
    let check = |model: &str, is_signed: bool| {
        let messages = vec![
            user_message("go"),
            ModelMessage::Assistant(vec![AssistantPart::ToolCall(ToolCall {
                id: "1".to_owned(),
                name: "a".to_owned(),
                arguments: "{}".to_owned(),
            })]),
        ];
        let sent = body_for(
            ProtocolName::Gemini,
            model,
            &request(&messages, 1),
            &ModelSettings::default(),
        );
        assert_eq!(
            sent.contains("thoughtSignature"),
            is_signed,
            "{model}: {sent}"
        );
    };
    check("gemini-3-pro", true);
    check("models/gemini-flash-latest", true);
    check("gemini-2.5-pro", false);
    check("models/gemini-2.0-flash", false);
}

#[test]
fn the_calls_of_a_reply_have_the_names_of_the_request() {
    let names = ["a b", "2fa", "plain"];
    let request = ModelRequest {
        tools: names.iter().map(|name| tool(name)).collect(),
        ..ModelRequest::new(vec![user_message("go")])
    };
    let check = |name: ProtocolName, base: &str, expected: [&str; 3]| {
        let base = Url::parse(base).expect("an address");
        let protocol = protocol(name, &base);
        let sent = ToolNames::new(&request, protocol.tool_names());
        let sent = names.map(|name| sent.sent(name));
        assert_eq!(sent, expected, "{base}");
        let call = |sent: &String| match name {
            ProtocolName::Gemini => json!({ "functionCall": { "name": sent, "args": {} } }),
            ProtocolName::Anthropic => {
                json!({ "type": "tool_use", "id": sent, "name": sent, "input": {} })
            }
            ProtocolName::OpenAi | ProtocolName::Responses => {
                json!({ "type": "function_call", "call_id": sent, "id": sent, "name": sent,
                "arguments": "{}", "function": { "name": sent, "arguments": "{}" } })
            }
        };
        let calls: Vec<Value> = sent.iter().map(call).collect();
        let reply = json!({
            "choices": [{ "message": { "tool_calls": calls }, "finish_reason": "tool_calls" }],
            "candidates": [{ "content": { "parts": calls }, "finishReason": "STOP" }],
            "content": calls, "stop_reason": "tool_use", "role": "assistant", "type": "message",
            "output": calls, "status": "completed", "object": "response",
        });
        let context = ReplyContext {
            model: "m",
            request: &request,
            origin: &Origin(name.name().to_owned()),
            keep_thinking: true,
        };
        let read = read_reply(&*protocol, &reply, context).expect("a reply");
        let found: Vec<&str> = strata_core::record::conversation::tool_calls(&read.parts)
            .map(|call| call.name.as_str())
            .collect();
        assert_eq!(found, names, "{base}");
    };
    let common = ["a_b", "2fa", "plain"];
    let letter_first = ["a_b", "_2fa", "plain"];
    for name in [ProtocolName::Responses, ProtocolName::Anthropic] {
        check(name, name.default_base_url(), common);
    }
    check(ProtocolName::OpenAi, "https://api.openai.com/v1", common);
    let gemini = "https://generativelanguage.googleapis.com/v1beta/openai";
    check(ProtocolName::OpenAi, gemini, letter_first);
    check(ProtocolName::OpenAi, "https://a.example/v1", letter_first);
    let own = ProtocolName::Gemini;
    check(own, own.default_base_url(), letter_first);
}

#[test]
fn gemini_knows_tools_by_names_that_begin_with_a_letter() {
    let request = request(&[user_message("go")], 2);
    let sent = body(ProtocolName::Gemini, &request, &ModelSettings::default());
    let sent: Value = serde_json::from_str(&sent).expect("JSON");
    let declared = &sent["tools"][0]["functionDeclarations"];
    assert_eq!(declared[1]["name"], "_2fa");
    let reply = json!({ "candidates": [{ "content": { "parts": [
        { "functionCall": { "name": "_2fa", "args": {} } },
        { "functionCall": { "name": "other", "args": {} } },
    ] }, "finishReason": "STOP" }] });
    let base = Url::parse(ProtocolName::Gemini.default_base_url()).expect("an address");
    let context = ReplyContext {
        model: "m",
        request: &request,
        origin: &Origin("gemini".to_owned()),
        keep_thinking: true,
    };
    let read = read_reply(&*protocol(ProtocolName::Gemini, &base), &reply, context);
    let parts = read.expect("a reply").parts;
    let names: Vec<&str> = strata_core::record::conversation::tool_calls(&parts)
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(names, ["2fa", "other"]);
}
