//! Reads from the error of an endpoint after what delay the request may be sent again. Endpoints
//! that send no `Retry-After` header say it in the body.

use std::time::Duration;

use serde_json::Value;

use crate::client::believable;
use crate::models::protocol::items_of;

/// The fields that contain a delay in seconds, or with a unit: of Gemini's `RetryInfo`
/// (<https://cloud.google.com/apis/design/errors>), and of routers and proxies.
const FIELDS: [&str; 4] = [
    "retryDelay",
    "retry_after",
    "retry_after_seconds",
    "retryAfter",
];

/// The words that precede a delay in messages.
const PHRASES: [&str; 7] = [
    // OpenAI, Groq, Together: "Please try again in 7m12.5s.", "in 20ms"
    "try again in ",
    "try again after ",
    // Gemini: "Please retry in 34.07s."
    "retry in ",
    // Azure: "Please retry after 26 seconds."
    "retry after ",
    "retry your request after ",
    // Mistral, Cohere, GitHub: "Please wait 41 seconds before retrying."
    "please wait ",
    "wait for ",
];

/// The units of delays, each with its length in seconds. A unit precedes those that it begins with.
const UNITS: [(&str, f64); 16] = [
    ("milliseconds", 0.001),
    ("millisecond", 0.001),
    ("minutes", 60.0),
    ("minute", 60.0),
    ("mins", 60.0),
    ("min", 60.0),
    ("ms", 0.001),
    ("m", 60.0),
    ("seconds", 1.0),
    ("second", 1.0),
    ("secs", 1.0),
    ("sec", 1.0),
    ("s", 1.0),
    ("hours", 3600.0),
    ("hour", 3600.0),
    ("h", 3600.0),
];

/// Returns the delay that an error requests.
pub(super) fn stated_delay(error: &Value) -> Option<Duration> {
    let objects = [error, &error["details"], &error["metadata"]];
    let mut objects = objects.into_iter().chain(items_of(&error["details"]));
    let field = objects.find_map(|object| {
        let mut fields = FIELDS.iter().map(|field| &object[*field]);
        fields.find_map(delay_of_value)
    });
    let message = error["message"].as_str().or(error.as_str());
    let seconds = field.or_else(|| delay_in_text(message?))?;
    // Fails for negative numbers and for those that are not finite.
    believable(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Returns a delay in seconds: a number, or text with a unit or without.
fn delay_of_value(value: &Value) -> Option<f64> {
    match value {
        Value::Number(seconds) => seconds.as_f64(),
        Value::String(text) => text.trim().parse().ok().or_else(|| leading_delay(text)),
        _ => None,
    }
}

/// Returns the delay in seconds that a message contains after one of the phrases.
fn delay_in_text(message: &str) -> Option<f64> {
    let message = message.to_ascii_lowercase();
    let mut rests = PHRASES
        .iter()
        .filter_map(|phrase| Some(message.split_once(phrase)?.1));
    rests.find_map(leading_delay)
}

/// Returns the delay in seconds with which a text begins, such as `1m12.5s` or `26 seconds`.
fn leading_delay(text: &str) -> Option<f64> {
    let mut rest = text.trim_start();
    let mut sum = None;
    loop {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let end = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let Ok(number) = rest[..end].parse::<f64>() else {
            return sum;
        };
        let behind = rest[end..].trim_start();
        let Some((unit, seconds)) = UNITS.iter().find(|(unit, _)| behind.starts_with(unit)) else {
            return sum;
        };
        sum = Some(sum.unwrap_or_default() + number * seconds);
        rest = behind[unit.len()..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_delay_is_read_from_an_error() {
        let check = |error: Value, expected_ms: Option<u64>| {
            let expected = expected_ms.map(Duration::from_millis);
            assert_eq!(stated_delay(&error), expected, "{error}");
        };
        let info = |delay: Value| {
            let info =
                json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay });
            json!({ "code": 429, "details": [{ "@type": "other" }, info] })
        };
        check(info(json!("2s")), Some(2000));
        check(info(json!("34.25s")), Some(34_250));
        let message = |text: &str| json!({ "message": text });
        check(
            message("Limit reached. Please try again in 6.5s. Visit us."),
            Some(6500),
        );
        check(message("Please try again in 20ms."), Some(20));
        check(message("Please try again in 1m12.5s."), Some(60_000));
        check(message("Please retry after 26 seconds."), Some(26_000));
        check(
            message("quota, limit: 5\nPlease retry in 34.5s."),
            Some(34_500),
        );
        check(
            message("Please wait 41 seconds before retrying."),
            Some(41_000),
        );
        check(json!("try again in 3 s"), Some(3000));
        check(json!({ "metadata": { "retry_after": 7 } }), Some(7000));
        check(json!({ "retry_after": "1.5" }), Some(1500));
        for none in [
            "try again in a while",
            "try again in 5",
            "retry after all",
            "in 20s",
        ] {
            check(message(none), None);
        }
        check(info(json!("soon")), None);
        check(info(json!(-2)), None);
        check(message("try again in 90h"), None);
        check(json!(null), None);
    }
}
