//! Tests of what thinking excludes, and of the usage of a streamed message.

use serde_json::{Value, json};
use strata_base::files::blob::Blobs;
use strata_core::record::conversation::ToolChoice;

use super::*;
use crate::models::config::ModelSettings;
use crate::models::media::MediaBytes;
use crate::models::protocol::Origin;
use crate::models::{ModelRequest, ToolDefinition};

/// Returns the body of a request with these options, or the error.
fn body(request: &ModelRequest, options: &Value) -> Result<Value, String> {
    let settings = ModelSettings {
        options: options.as_object().expect("an object").clone(),
        ..ModelSettings::default()
    };
    let outbound = Outbound {
        model: "m",
        request,
        settings: &settings,
        origin: &Origin("anthropic".to_owned()),
        media: MediaBytes {
            provider: "anthropic",
            blobs: &Blobs::new(),
        },
        transfer: TransferMode::Unstreamed,
    };
    let mut body = CreateMessage.body(&outbound).expect("a request");
    body.customize(&settings.options, &settings.without);
    CreateMessage
        .check_body(&body)
        .map_err(|error| error.message)?;
    Ok(serde_json::from_str(&body.finish()).expect("JSON"))
}

fn choosing(tool_choice: ToolChoice) -> ModelRequest {
    ModelRequest {
        tools: vec![ToolDefinition {
            name: "add".to_owned(),
            description: String::new(),
            parameters: "{}".to_owned(),
        }],
        tool_choice,
        ..ModelRequest::ask("hello")
    }
}

#[test]
fn thinking_excludes_a_choice_that_forces_a_tool() {
    let thinking = |kind: &str| json!({ "thinking": { "type": kind } });
    let forced = [ToolChoice::Required, ToolChoice::Tool("add".to_owned())];
    for choice in forced {
        for kind in ["enabled", "adaptive"] {
            let error = body(&choosing(choice.clone()), &thinking(kind)).expect_err("a conflict");
            assert!(error.contains("`tool_choice = \"auto\"`"), "{error}");
        }
        body(&choosing(choice.clone()), &thinking("disabled")).expect("a request");
        body(&choosing(choice), &json!({})).expect("a request");
    }
    for choice in [ToolChoice::Auto, ToolChoice::None] {
        body(&choosing(choice), &thinking("enabled")).expect("a request");
    }
    // The operator's own choice comes last.
    let mut options = thinking("enabled");
    options["tool_choice"] = json!({ "type": "auto" });
    body(&choosing(ToolChoice::Required), &options).expect("a request");
}

#[test]
fn thinking_excludes_a_temperature() {
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 2000 } });
    let warm = |temperature| ModelRequest {
        temperature: Some(temperature),
        ..ModelRequest::ask("hello")
    };
    let error = body(&warm(0.5), &thinking).expect_err("a conflict");
    assert!(error.contains("temperature cannot be 0.5"), "{error}");
    body(&warm(1.0), &thinking).expect("a request");
    body(&warm(0.5), &json!({})).expect("a request");
}

#[test]
fn the_limit_of_output_includes_what_is_reserved_for_thinking() {
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 10_000 } });
    let limited = |max_tokens| ModelRequest {
        max_tokens,
        ..ModelRequest::ask("hello")
    };
    let sent = body(&limited(None), &thinking).expect("a request");
    assert_eq!(sent["max_tokens"], 18_192);
    let error = body(&limited(Some(10_000)), &thinking).expect_err("a conflict");
    assert!(error.contains("`max_tokens` cannot be 10000"), "{error}");
    body(&limited(Some(10_001)), &thinking).expect("a request");
}

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
