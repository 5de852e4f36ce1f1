//! An open request to a person, as it is shown.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use strata_core::machine::stepper::Stepper;
use strata_core::record::json::Json;
use strata_host::clock::rfc3339;
use strata_host::storage::ServedRun;
use strata_host::view::{AnswerField, NewsView, RequestView};

use crate::markdown::cut_text;

/// An open request to a person.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OpenRequest {
    /// Its id, which the answer names.
    id: String,
    /// The name of its run.
    run: String,
    /// The id of its run.
    run_id: String,
    /// The tenant of its run.
    tenant: String,
    /// The name of the role that asks.
    role: String,
    /// The name of the action or tool that asks; `think` or `answer` if it is none.
    action: String,
    /// The question.
    question: String,
    /// The JSON Schema of the answer; `null` if any answer is valid.
    schema: Option<Value>,
    /// The name of the tool, if a call of one is to be approved.
    tool: Option<String>,
    /// The arguments of that call.
    arguments: Option<Value>,
    /// The JSON Schema of the arguments, which changed arguments have to follow.
    input_schema: Option<Value>,
    /// What the model said when it called the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<String>,
    /// The name of the MCP server that asks.
    server: Option<String>,
    /// The address that the MCP server wants to be opened.
    url: Option<String>,
    /// The messages that the role works on.
    news: Vec<RequestNews>,
    /// The valid answers; empty if others are valid, too.
    choices: Vec<String>,
    /// The fields of the answer, if it is an object with known fields.
    fields: Vec<AnswerField>,
    /// The answer that is used if nobody answers in time.
    default: Option<Value>,
    /// When it was opened.
    opened: Option<String>,
    /// Until when it can be answered.
    expires: Option<String>,
}

/// A message that a role works on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct RequestNews {
    #[serde(flatten)]
    message: NewsView,
    /// Whether its content is cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

impl OpenRequest {
    /// Returns an open request of a run with this state, which was made at `opened_ms`.
    pub fn new(
        run: &ServedRun,
        stepper: &Stepper,
        view: RequestView,
        opened_ms: Option<i64>,
    ) -> Self {
        let env = stepper.env();
        let mut open = env.activations().flat_map(|(_, activation)| {
            let requests = activation.open_requests();
            requests.map(move |request| (activation, request))
        });
        let found = open.find(|(_, request)| request.id.0 == view.id);
        let input_schema = found
            .and_then(|(_, request)| request.proposed.as_ref())
            .and_then(|call| call.input_schema.clone());
        let asked_by = found.and_then(|(_, request)| request.asked_by.as_ref());
        // What the role works on is what the question is about.
        let news = found.map_or_else(Vec::new, |(activation, _)| {
            let messages = activation.news.iter().map(|message| env.message(*message));
            messages
                .map(|message| RequestNews::new(NewsView::from_message(message)))
                .collect()
        });
        let value = |json: &Option<Json>| json.as_ref().map(Json::value);
        Self {
            schema: value(&view.schema),
            tool: view.arguments.as_ref().map(|_| view.action.clone()),
            arguments: value(&view.arguments),
            input_schema: value(&input_schema),
            default: value(&view.default),
            id: view.id,
            run: run.name().into(),
            run_id: run.id.clone(),
            tenant: run.tenant.clone(),
            role: view.role,
            action: view.action,
            question: view.question,
            said: view.said,
            server: asked_by.map(|by| by.server.clone()),
            url: asked_by.and_then(|by| by.url.clone()),
            news,
            choices: view.choices,
            fields: view.fields,
            opened: opened_ms.map(rfc3339),
            expires: view.expires_ms.map(rfc3339),
        }
    }
}

impl RequestNews {
    fn new(mut message: NewsView) -> Self {
        let truncated = cut_text(&mut message.content);
        Self { message, truncated }
    }
}
