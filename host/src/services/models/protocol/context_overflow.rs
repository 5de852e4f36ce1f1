//! Recognises the error of an endpoint that the context is too long for the model. Providers have no
//! common code for it, and several have only words.

use serde_json::Value;

use super::reply::text_of;

/// The codes, types and reasons by which providers name it.
const CODES: [&str; 5] = [
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "string_above_max_length",
];

/// The words in which providers without a code say it: Anthropic, Bedrock, Gemini, vLLM, llama.cpp,
/// Mistral, Groq, xAI, Cohere.
const PHRASES: [&str; 12] = [
    "prompt is too long",
    "input is too long",
    "input token count",
    "context length",
    "context window",
    "context size",
    "context is too long",
    "context too long",
    "maximum prompt length",
    "exceeds the maximum number of tokens",
    "reduce the length of the messages",
    "too many tokens",
];

/// Returns whether an error that came with the status 400 says that the context is too long.
pub(in super::super) fn is_context_overflow(error: &Value) -> bool {
    let names = [&error["code"], &error["type"], &error["status"]].map(text_of);
    if names.iter().any(|name| CODES.contains(name)) {
        return true;
    }
    let said = match error {
        Value::String(text) => text,
        error => text_of(&error["message"]),
    };
    let said = said.to_ascii_lowercase();
    PHRASES.iter().any(|phrase| said.contains(phrase))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_providers_say_of_a_context_that_is_too_long_is_recognised() {
        let check = |error: Value, expected: bool| {
            assert_eq!(is_context_overflow(&error), expected, "{error}")
        };
        check(
            json!({ "code": "context_length_exceeded", "message": "x" }),
            true,
        );
        check(
            json!({ "type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum" }),
            true,
        );
        check(
            json!({ "code": 400, "status": "INVALID_ARGUMENT",
                "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)." }),
            true,
        );
        check(
            json!({ "object": "error", "message": "This model's maximum context length is 4096 tokens." }),
            true,
        );
        check(json!({ "type": "exceed_context_size_error" }), true);
        check(
            json!("the request exceeds the available context size"),
            true,
        );
        check(
            json!({ "message": "Input is too long for requested model." }),
            true,
        );
        check(
            json!(
                "This model's maximum prompt length is 131072 but the request contains 200000 tokens."
            ),
            true,
        );
        check(
            json!({ "code": "invalid_value", "message": "max_tokens is too large" }),
            false,
        );
        check(json!(null), false);
    }
}
