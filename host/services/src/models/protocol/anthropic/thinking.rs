//! Extended thinking, which the operator turns on with the option `thinking`, and what it excludes
//! (<https://docs.claude.com/en/docs/build-with-claude/extended-thinking#feature-compatibility>).

use serde_json::{Map, Value, json};

use crate::gateway::HostError;
use crate::models::config::ModelSettings;
use crate::models::error_text::invalid;
use crate::models::protocol::{ExcludedOption, RequestBody};

/// The option.
const THINKING: &str = "thinking";
/// The types of a choice after which the model has to call a tool.
const FORCING: [&str; 2] = ["any", "tool"];

/// Returns how many tokens options reserve for thinking. They are a part of `max_tokens`.
pub(super) fn budget(options: &Map<String, Value>) -> Option<u32> {
    let budget = options.get(THINKING)?.get("budget_tokens")?.as_u64()?;
    u32::try_from(budget).ok()
}

/// Returns whether a model with these settings can be forced to call a tool.
pub(in super::super) fn allows_forced_choice(settings: &ModelSettings) -> bool {
    let mut body = RequestBody::default();
    body.field("tool_choice", &json!({ "type": FORCING[0] }));
    body.customize(&settings.options, &settings.without);
    !is_on(&body.value(THINKING)) || forced_choice(&body).is_none()
}

/// What a body with thinking contains although thinking excludes it.
struct Exclusion {
    /// What it contains.
    problem: String,
    /// What to set instead.
    hint: &'static str,
}

/// Fails if a request turns thinking on and contains what is not allowed then.
pub(super) fn check_body(body: &RequestBody) -> Result<(), HostError> {
    let Some(Exclusion { problem, hint }) = find_exclusion(body) else {
        return Ok(());
    };
    Err(invalid(format!(
        "cannot ask a model of `anthropic`: {problem} together with `thinking`; {hint}, or remove `thinking` from the \
         model's `options`"
    )))
}

/// Returns what these settings contain although thinking, which they turn on, excludes it, whatever the request.
pub(in super::super) fn check_settings(settings: &ModelSettings) -> Result<(), ExcludedOption> {
    let mut body = RequestBody::default();
    if let Some(tokens) = settings.max_tokens {
        body.field("max_tokens", &tokens);
    }
    body.customize(&settings.options, &settings.without);
    match find_exclusion(&body) {
        Some(Exclusion { problem, hint }) => Err(ExcludedOption {
            problem: format!("{problem} together with `thinking`"),
            hint: format!("{hint}, or remove `thinking`"),
        }),
        None => Ok(()),
    }
}

fn find_exclusion(body: &RequestBody) -> Option<Exclusion> {
    let thinking = body.value(THINKING);
    if !is_on(&thinking) {
        return None;
    }
    let found = |problem: String, hint| Some(Exclusion { problem, hint });
    if let Some(kind) = forced_choice(body) {
        return found(
            format!("it cannot be forced to call a tool (`tool_choice` is `{kind}`)"),
            "let it choose (`tool_choice = \"auto\"`)",
        );
    }
    let temperature = body.value("temperature").as_f64();
    if let Some(temperature) = temperature.filter(|temperature| *temperature != 1.0) {
        return found(
            format!("the temperature cannot be {temperature}"),
            "set none, or 1",
        );
    }
    let (limit, budget) = (body.value("max_tokens"), &thinking["budget_tokens"]);
    match (limit.as_u64(), budget.as_u64()) {
        (Some(limit), Some(budget)) if limit <= budget => found(
            format!("`max_tokens` cannot be {limit} with `budget_tokens = {budget}`"),
            "set a limit that is larger than what is reserved for thinking",
        ),
        _ => None,
    }
}

fn is_on(thinking: &Value) -> bool {
    matches!(thinking["type"].as_str(), Some("enabled" | "adaptive"))
}

/// Returns the type of the choice of a request that forces the model to call a tool.
fn forced_choice(body: &RequestBody) -> Option<&'static str> {
    let choice = body.value("tool_choice");
    FORCING.into_iter().find(|kind| choice["type"] == *kind)
}
