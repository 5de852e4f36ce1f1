//! Recognises from the error of an endpoint why it refuses a request that another model may answer:
//! the context is too long for the model, or the account cannot pay. Providers have no common code
//! for either, and several have only words. The lists contain what they say, with the source.

use serde_json::Value;

use super::parsed_reply::{items_of, text_of};

/// The codes, types and reasons of an error about a context that is too long.
const CONTEXT_CODES: [&str; 10] = [
    // OpenAI, Azure, Groq, DeepSeek, Cerebras: platform.openai.com/docs/guides/error-codes
    "context_length_exceeded",
    "context_window_exceeded",
    "string_above_max_length",
    // Anthropic: docs.claude.com/en/api/handling-stop-reasons
    "model_context_window_exceeded",
    // llama.cpp: tools/server/README.md
    "exceed_context_size_error",
    // GitHub Models and Copilot: their responses with 413 and 400
    "tokens_limit_reached",
    "model_max_prompt_tokens_exceeded",
    // LiteLLM: docs.litellm.ai/docs/exception_mapping
    "ContextWindowExceededError",
    // OpenRouter: openrouter.ai/docs/api-reference/errors
    "context_length",
    // Mistral: the type of its errors about prompts
    "context_length_error",
];

/// Words of messages about a context that is too long, in lower case.
const CONTEXT_PHRASES: [&str; 36] = [
    // Anthropic: "prompt is too long: 210000 tokens > 200000 maximum", "input length and
    // `max_tokens` exceed context limit: 190000 + 20000 > 200000"
    "prompt is too long",
    "context limit",
    "decrease input length",
    // OpenAI, vLLM, SGLang, Together, Mistral, DeepSeek, OpenRouter, LM Studio, Ollama: "maximum
    // context length is …", "longer than the model's context length", "exceeds the context window"
    "context length",
    "context window",
    "maximum context",
    "max context",
    "input tokens exceed",
    "string too long",
    // llama.cpp: "the request exceeds the available context size"
    "context size",
    "context is too long",
    "context too long",
    // vLLM: "The decoder prompt (length …) is longer than the maximum model length of …"
    "maximum model length",
    "max_model_len",
    // Ollama: "prompt too long; exceeded max context length by 4 tokens"
    "prompt too long",
    // Bedrock: "Input is too long for requested model."
    "input is too long",
    "number of input tokens exceeds",
    // Gemini and Vertex: "The input token count (1200000) exceeds the maximum number of tokens
    // allowed (1048576)."
    "input token count",
    "exceeds the maximum number of tokens",
    // Copilot: "prompt token count of 130431 exceeds the limit of 128000"
    "prompt token count",
    // xAI: "This model's maximum prompt length is 131072 but the request contains …"
    "maximum prompt length",
    // Groq, Cerebras, OpenRouter: "Please reduce the length of the messages or completion."
    "reduce the length of",
    "reduce your prompt",
    // Cohere, AI21: "too many tokens: total number of tokens in the prompt cannot exceed …"
    "too many tokens",
    "too many input tokens",
    // Text Generation Inference: "`inputs` tokens + `max_new_tokens` must be <= 4096", "`inputs`
    // must have less than 1024 tokens"
    "`max_new_tokens` must be <=",
    "`inputs` must have less than",
    "inputs must have less than",
    // Moonshot: "Your request exceeded model token limit: 8192", "Input token length too long"
    "model token limit",
    "input token length too long",
    // DashScope: "Range of input length should be [1, 30720]"
    "range of input length",
    // Poolside, NVIDIA, Baidu: "Input length … exceeds the maximum allowed input length of …"
    "maximum allowed input length",
    "maximum input length",
    "max input characters",
    // Zhipu: "Prompt exceeds max length", "Prompt 超长"
    "exceeds max length",
    "prompt 超长",
];

/// The codes, types and reasons of an error about an account that cannot pay.
const ACCOUNT_CODES: [&str; 24] = [
    // OpenAI and Azure: platform.openai.com/docs/guides/error-codes
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "organization_usage_limit_exceeded",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    // Anthropic: docs.claude.com/en/api/errors and /rate-limits
    "billing_error",
    "enforced_spend_limit_reached",
    // Google: cloud.google.com/apis/design/errors (the reason in the details)
    "BILLING_DISABLED",
    // Groq: console.groq.com/docs/spend-limits
    "blocked_api_access",
    "spend_limit_reached",
    // Together: docs.together.ai/docs/error-codes
    "credit_limit",
    // OpenRouter and other routers
    "insufficient_credits",
    "insufficient_balance",
    "insufficient_funds",
    "payment_required",
    "credits_exhausted",
    // LiteLLM: docs.litellm.ai/docs/proxy/users
    "budget_exceeded",
    // Moonshot: platform.moonshot.ai/docs/api/chat
    "exceeded_current_quota_error",
    // DashScope: alibabacloud.com/help/en/model-studio/error-code
    "Arrearage",
    "PostpaidBillOverdue",
    "PrepaidBillOverdue",
    "CommodityNotPurchased",
    "AllocationQuota.FreeTierOnly",
];

/// Words of messages about an account that cannot pay, in lower case.
const ACCOUNT_PHRASES: [&str; 35] = [
    // Anthropic: "Your credit balance is too low to access the Anthropic API. Please go to Plans &
    // Billing …", "You have reached your specified API usage limits."
    "credit balance",
    "api usage limits",
    // OpenAI, Azure, Moonshot: "You exceeded your current quota, please check your plan and billing
    // details.", "Your account is not active, please check your billing details", "Billing hard
    // limit has been reached"
    "exceeded your current quota",
    "plan and billing",
    "plans & billing",
    "your billing details",
    "billing hard limit",
    // Google: "This API method requires billing to be enabled.", "Your prepayment credits are
    // depleted."
    "billing to be enabled",
    "enable billing",
    "credits are depleted",
    // DeepSeek, MiniMax, SiliconFlow: "Insufficient Balance"
    "insufficient balance",
    "insufficient account balance",
    "insufficient quota",
    "insufficient funds",
    // OpenRouter: "Insufficient credits. Add more using …", "This request requires more credits"
    "insufficient credit",
    "requires more credits",
    "not enough credits",
    "out of credits",
    "purchase more credits",
    "purchase credits",
    // Together: "Credit limit exceeded, please navigate to …"
    "credit limit exceeded",
    // xAI, Fireworks, Groq: "used all available credits or reached its monthly spending limit"
    "all available credits",
    "spending limit",
    "spend limit",
    // Hugging Face: "You have exceeded your monthly included credits for Inference Providers."
    "included credits",
    // LiteLLM: "Budget has been exceeded! Current cost: …"
    "budget has been exceeded",
    "exceededbudget",
    // Fireworks, Moonshot: "Account … is suspended"
    "account is suspended",
    "account suspended",
    "failure to pay",
    // DashScope: "please make sure your account is in good standing", "Free allocated quota
    // exceeded."
    "account is in good standing",
    "free allocated quota exceeded",
    "payment required",
    // Zhipu, DashScope: "余额不足或无可用资源包,请充值。", "账户已欠费"
    "余额不足",
    "欠费",
];

/// Returns whether an error says that the context is too long for the model.
pub(in super::super) fn is_context_overflow(error: &Value) -> bool {
    says(error, &CONTEXT_CODES, &CONTEXT_PHRASES)
}

/// Returns whether an error has a code for an account that cannot pay.
pub(in super::super) fn has_account_code(error: &Value) -> bool {
    says(error, &ACCOUNT_CODES, &[])
}

/// Returns whether an error says that the account cannot pay. Some limits that pass are described in
/// the same words.
pub(in super::super) fn is_account_refusal(error: &Value) -> bool {
    says(error, &ACCOUNT_CODES, &ACCOUNT_PHRASES)
}

/// Returns whether an error has one of these codes or contains one of these phrases.
fn says(error: &Value, codes: &[&str], phrases: &[&str]) -> bool {
    let is_known = |name: &str| codes.iter().any(|code| code.eq_ignore_ascii_case(name));
    if names(error).any(is_known) {
        return true;
    }
    let mut texts = texts(error).map(str::to_lowercase);
    texts.any(|text| phrases.iter().any(|phrase| text.contains(phrase)))
}

/// Returns the codes of an error: its own, those of its details, as Google and Anthropic send them,
/// and that of the error behind it, as Azure does.
fn names(error: &Value) -> impl Iterator<Item = &str> {
    let details = &error["details"];
    let objects = [error, details, &error["innererror"]];
    let objects = objects.into_iter().chain(items_of(details));
    let fields = ["code", "type", "status", "reason", "error_code"];
    objects.flat_map(move |object| fields.map(|field| text_of(&object[field])))
}

/// Returns the messages of an error, and what the endpoint behind a router said.
fn texts(error: &Value) -> impl Iterator<Item = &str> {
    let values = [
        error,
        &error["message"],
        &error["detail"],
        &error["error"],
        &error["metadata"]["raw"],
    ];
    values.into_iter().map(text_of)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_providers_say_of_a_context_that_is_too_long_is_recognised() {
        let check = |error: Value, expected: bool| {
            assert_eq!(is_context_overflow(&error), expected, "{error}");
            assert!(!is_account_refusal(&error), "{error}");
        };
        for message in [
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            "Unable to submit request because the input token count is 40000 but model only supports up to 32768. Reduce the input token count and try again.",
            "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "Input tokens exceed the configured limit of 272000 tokens.",
            "the request exceeds the available context size, try increasing it",
            "Input is too long for requested model.",
            "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
            "Please reduce the length of the messages or completion.",
            "The input (4500 tokens) is longer than the model's context length (4096 tokens).",
            "The decoder prompt (length 4500) is longer than the maximum model length of 4096.",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
            "prompt too long; exceeded max context length by 4 tokens",
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
            "too many tokens: total number of tokens in the prompt cannot exceed 4081",
            "invalid params, context window exceeds limit (2013)",
            "Your request exceeded model token limit: 8192",
            "Range of input length should be [1, 30720]",
            "prompt token count of 130431 exceeds the limit of 128000",
        ] {
            check(json!({ "message": message }), true);
            check(json!(message), true);
        }
        check(json!({ "code": "context_length_exceeded" }), true);
        check(json!({ "type": "exceed_context_size_error" }), true);
        let raw = r#"{"error":{"message":"prompt is too long: 2 tokens > 1 maximum"}}"#;
        check(
            json!({ "message": "Provider returned error", "metadata": { "raw": raw } }),
            true,
        );
        check(
            json!({ "code": "invalid_value", "message": "max_tokens is too large: 20000. This model supports at most 16384 completion tokens." }),
            false,
        );
        check(json!(null), false);
    }

    #[test]
    fn what_providers_say_of_an_account_that_cannot_pay_is_recognised() {
        let check = |error: Value, expected: bool| {
            assert_eq!(is_account_refusal(&error), expected, "{error}");
            assert!(!is_context_overflow(&error), "{error}");
        };
        for message in [
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
            "You have reached your specified API usage limits. You will regain access on 2026-09-01 at 00:00 UTC.",
            "You exceeded your current quota, please check your plan and billing details.",
            "Your account is not active, please check your billing details on our website.",
            "Billing hard limit has been reached",
            "This API method requires billing to be enabled.",
            "Gemini API free tier is not available in your country. Please enable billing on your project in Google AI Studio.",
            "Insufficient Balance",
            "Insufficient credits. Add more using https://openrouter.ai/settings/credits",
            "This request requires more credits, or fewer max_tokens.",
            "Credit limit exceeded, please navigate to https://api.together.ai/settings/billing",
            "Your team has either used all available credits or reached its monthly spending limit.",
            "You have exceeded your monthly included credits for Inference Providers.",
            "Budget has been exceeded! Current cost: 10.1, Max budget: 10.0",
            "Access denied, please make sure your account is in good standing.",
            "余额不足或无可用资源包,请充值。",
        ] {
            check(json!({ "message": message }), true);
        }
        for code in ["insufficient_quota", "Arrearage", "billing_not_active"] {
            check(json!({ "code": code, "message": "no" }), true);
            assert!(has_account_code(&json!({ "type": code })), "{code}");
        }
        check(
            json!({ "details": { "error_code": "enforced_spend_limit_reached" } }),
            true,
        );
        check(
            json!({ "details": [{ "reason": "BILLING_DISABLED" }] }),
            true,
        );
        check(
            json!({ "message": "Invalid value: 'billing'. Supported values are: 'a' and 'b'." }),
            false,
        );
        check(
            json!({ "message": "Rate limit reached for gpt in organization o on requests per min." }),
            false,
        );
    }
}
