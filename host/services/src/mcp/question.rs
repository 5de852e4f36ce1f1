//! Questions of servers to people, and the answers as the protocol has them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use reqwest::Url;
use serde_json::{Map, Value, json};
use strata_base::files::sha256::sha256;
use strata_core::record::asking_call::{AskingCall, CallQuestion};
use strata_core::record::human_request::{AskingServer, HumanAnswer, HumanRequest};
use strata_core::record::id::{RequestId, to_hex};
use strata_core::record::json::Json;

use super::legible::removed_for_models;
use super::message::ELICITATION;
use crate::human::fill_in_defaults;
use crate::plugin::CompiledSchema;

/// The longest message of a question, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 10;
/// How many questions a server may ask at once.
const MAX_QUESTIONS: usize = 16;

/// What a server asks before it answers a call.
#[derive(Debug, Default)]
pub(super) struct AskedRound {
    /// What is asked of a person.
    pub(super) questions: Vec<CallQuestion>,
    /// The responses to what is declined without asking.
    pub(super) declined: Map<String, Value>,
}

/// Reads the `inputRequests` of a result. Fails with what the server asks for that was not offered.
pub(super) fn read_round(
    server: &str,
    tool: &str,
    requests: &Map<String, Value>,
) -> Result<AskedRound, String> {
    if requests.len() > MAX_QUESTIONS {
        return Err(format!("more than {MAX_QUESTIONS} answers at once"));
    }
    let mut round = AskedRound::default();
    for (name, request) in requests {
        let method = request.get("method").and_then(Value::as_str);
        if method != Some(ELICITATION) {
            let method = method.unwrap_or("something without a method");
            return Err(method.replace(strata_core::text::is_invisible, " "));
        }
        let params = request.get("params").unwrap_or(&Value::Null);
        match read_question(server, tool, name, params)? {
            Some(question) => round.questions.push(question),
            None => {
                round.declined.insert(name.clone(), declined());
            }
        }
    }
    Ok(round)
}

/// Reads a question. Returns `None` if it is declined without asking.
pub(super) fn read_question(
    server: &str,
    tool: &str,
    name: &str,
    params: &Value,
) -> Result<Option<CallQuestion>, String> {
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    let mut message = text("message").unwrap_or_default().to_owned();
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    let (schema, url) = match text("mode") {
        Some("url") => {
            let url = text("url").unwrap_or_default();
            if !is_safe(url) {
                tracing::warn!(
                    "the MCP server `{server}` asks to open an address that is neither https nor on this machine; declined"
                );
                return Ok(None);
            }
            (json!({ "const": true }), Some(url.to_owned()))
        }
        _ => {
            let schema = params.get("requestedSchema").cloned();
            let schema = schema.unwrap_or_else(|| json!({ "type": "object" }));
            CompiledSchema::compile_bounded(&schema)
                .map_err(|why| format!("an answer whose schema cannot be used: {why}"))?;
            (schema, None)
        }
    };
    let request = HumanRequest {
        id: RequestId(String::new()),
        question: quoted(server, tool, &message, url.as_deref()),
        schema: Some(Json::from(schema)),
        choices: Vec::new(),
        default: None,
        expires_ms: None,
        proposed: None,
        asked_by: Some(AskingServer {
            server: server.to_owned(),
            tool: tool.to_owned(),
            url,
        }),
    };
    Ok(Some(CallQuestion {
        name: name.to_owned(),
        request,
        answer: None,
    }))
}

/// Returns the text of a question: who asks, what it says as a quotation, and the address that a person is to open.
/// Characters that nobody sees are shown as their codes.
fn quoted(server: &str, tool: &str, message: &str, url: Option<&str>) -> String {
    let mut shown = format!("the MCP server `{server}` asks, before it answers `{tool}`:");
    let mut quote = |line: &str| {
        shown += "\n> ";
        for c in line.chars() {
            if removed_for_models(c) {
                shown.extend(c.escape_unicode())
            } else {
                shown.push(c)
            }
        }
    };
    message.lines().for_each(&mut quote);
    if let Some(url) = url {
        quote(url);
        shown +=
            "\nThe answer is `true` once this page was opened and left; the host does not open it.";
    }
    shown.replace(|c: char| removed_for_models(c), " ")
}

/// Returns whether a person may be asked to open an address.
fn is_safe(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    match url.scheme() {
        "https" => true,
        "http" => url.host_str().is_some_and(|host| {
            let address = host.trim_matches(['[', ']']).parse();
            host == "localhost" || address.is_ok_and(|address: IpAddr| address.is_loopback())
        }),
        _ => false,
    }
}

/// Returns the response to a question that is declined.
pub(super) fn declined() -> Value {
    json!({ "action": "decline" })
}

/// Returns the responses to questions that were answered, by their names.
pub(super) fn responses(asking_call: &AskingCall) -> Map<String, Value> {
    let answered = asking_call.questions.iter();
    let responses = answered.map(|question| (question.name.clone(), response(question)));
    responses.collect()
}

/// Returns the response to a question: a request that expired is no refusal.
fn response(question: &CallQuestion) -> Value {
    let Some(HumanAnswer::Given(answer) | HumanAnswer::Default(answer)) = &question.answer else {
        return json!({ "action": "cancel" });
    };
    let mut content = answer.value();
    let asking = question.request.asked_by.as_ref();
    if content.is_null() {
        return declined();
    }
    if asking.is_some_and(|asking| asking.url.is_some()) {
        return json!({ "action": "accept" });
    }
    let schema = question.request.schema.as_ref().map(Json::value);
    fill_in_defaults(&mut content, &schema.unwrap_or_default());
    json!({ "action": "accept", "content": content })
}

/// Returns what identifies a question that a server asks within a call: its message and its schema.
pub(super) fn question_digest(params: &Value) -> String {
    let part = |key: &str| params.get(key).cloned().unwrap_or_default();
    let document = Json::from(json!([
        part("message"),
        part("requestedSchema"),
        part("url")
    ]));
    to_hex(&sha256(document.as_str()))
}

/// The answers that are known to questions that a server asks within a call.
pub(super) type KnownAnswers = BTreeMap<String, Value>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_open_is_part_of_the_question_and_one_that_is_not_safe_is_declined() {
        let ask = |url: &str| {
            let params = json!({ "mode": "url", "message": "log in", "url": url });
            read_question("wiki", "edit", "q", &params).expect("a question")
        };
        let question = ask("https://wiki.example/login?x=1").expect("it is asked");
        let expected = "the MCP server `wiki` asks, before it answers `edit`:\n> log in\n> https://wiki.example/login?x=1\n\
            The answer is `true` once this page was opened and left; the host does not open it.";
        assert_eq!(question.request.question, expected);
        for unsafe_url in [
            "http://wiki.example/login",
            "file:///etc/passwd",
            "",
            "wiki",
        ] {
            assert_eq!(ask(unsafe_url), None, "{unsafe_url}");
        }
    }
}
