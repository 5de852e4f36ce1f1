//! Serializes requests. They are written directly from the request, because `serde_json` values
//! with many small parts would need a hundred times the memory of their texts.

use reqwest::Url;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use strata_core::json;

use crate::gateway::HostError;
use crate::services::llm::models::invalid;
use crate::services::llm::protocol::Form;
use crate::services::llm::{self, Request, Speaker, Turn};

/// The name of the schema, which the protocol requires.
const SCHEMA_NAME: &str = "reply";

/// The host that uses another name for the maximum number of output tokens.
const OPENAI_HOST: &str = "api.openai.com";

/// The differences between endpoints that use the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Dialect {
    /// OpenAI's own, whose newer models reject `max_tokens`.
    OpenAi,
    /// That of all other endpoints.
    Compatible,
}

impl Dialect {
    /// Returns the dialect of the endpoint at a URL.
    pub(in super::super) fn at(url: &Url) -> Self {
        if url.host_str() == Some(OPENAI_HOST) {
            Self::OpenAi
        } else {
            Self::Compatible
        }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    messages: Vec<Message<'a>>,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
struct Message<'a> {
    content: Option<&'a str>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    function: Called<'a>,
    id: &'a str,
    r#type: &'static str,
}

#[derive(Serialize)]
struct Called<'a> {
    arguments: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct Tool<'a> {
    function: Function<'a>,
    r#type: &'static str,
}

#[derive(Serialize)]
struct Function<'a> {
    description: &'a str,
    name: &'a str,
    parameters: Schema<'a>,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    json_schema: Named<'a>,
    r#type: &'static str,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'static str,
    schema: Schema<'a>,
}

/// The text of a schema. It is parsed when it is serialized.
struct Schema<'a> {
    text: &'a str,
    /// The tool that it belongs to, or `None` for the schema of the reply.
    tool: Option<&'a str>,
}

/// Returns the body of a request. Fails if a schema in it is not JSON.
pub(in super::super) fn body(
    model: &str,
    request: &Request,
    form: Form,
    dialect: Dialect,
) -> Result<String, HostError> {
    let format = |text| {
        let schema = Schema { text, tool: None };
        ResponseFormat {
            json_schema: Named {
                name: SCHEMA_NAME,
                schema,
            },
            r#type: "json_schema",
        }
    };
    let streamed = form == Form::Streamed;
    let body = Body {
        max_completion_tokens: request.max_tokens.filter(|_| dialect == Dialect::OpenAi),
        max_tokens: request
            .max_tokens
            .filter(|_| dialect == Dialect::Compatible),
        messages: request.messages.iter().map(message).collect(),
        model,
        response_format: request.output_schema.as_deref().map(format),
        seed: request.seed,
        stop: &request.stop,
        stream: streamed.then_some(true),
        stream_options: streamed.then(|| json!({ "include_usage": true })),
        temperature: request.temperature,
        tools: request.tools.iter().map(tool).collect(),
    };
    // Only a schema can cause an error here.
    serde_json::to_string(&body).map_err(|error| invalid(format!("cannot ask a model: {error}")))
}

fn message(turn: &Turn) -> Message<'_> {
    let role = match turn.speaker {
        Speaker::System => "system",
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tool => "tool",
    };
    let tool_calls: Vec<_> = turn.tool_calls.iter().map(tool_call).collect();
    let silent = turn.content.is_empty() && !tool_calls.is_empty();
    let content = (!silent).then_some(turn.content.as_str());
    Message {
        content,
        role,
        tool_call_id: turn.tool_call_id.as_deref(),
        tool_calls,
    }
}

fn tool_call(call: &llm::ToolCall) -> ToolCall<'_> {
    let function = Called {
        arguments: &call.arguments,
        name: &call.name,
    };
    ToolCall {
        function,
        id: &call.id,
        r#type: "function",
    }
}

fn tool(tool: &llm::Tool) -> Tool<'_> {
    let llm::Tool {
        name,
        description,
        parameters,
    } = tool;
    let parameters = Schema {
        text: parameters,
        tool: Some(name),
    };
    Tool {
        function: Function {
            description,
            name,
            parameters,
        },
        r#type: "function",
    }
}

impl Serialize for Schema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let schema = json::read(self.text).map_err(|e| {
            let what = match self.tool {
                Some(tool) => format!("the parameters of the tool `{tool}`"),
                None => "`output-schema`".to_owned(),
            };
            S::Error::custom(format!("{what} is {e}; give a JSON Schema"))
        })?;
        schema.serialize(serializer)
    }
}
