//! Serializes requests. They are written directly from the request, because `serde_json` values
//! with many small parts would need a hundred times the memory of their texts.

use reqwest::Url;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use strata_core::record::json;

use crate::gateway::HostError;
use crate::services::models::protocol::TransferMode;
use crate::services::models::registry::invalid;
use crate::services::models::{self, ChatMessage, ModelRequest, Speaker};

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
    pub(in super::super) fn for_url(url: &Url) -> Self {
        if url.host_str() == Some(OPENAI_HOST) {
            Self::OpenAi
        } else {
            Self::Compatible
        }
    }
}

#[derive(Serialize)]
struct RequestBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    messages: Vec<MessageBody<'a>>,
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
    tools: Vec<ToolBody<'a>>,
}

#[derive(Serialize)]
struct MessageBody<'a> {
    content: Option<&'a str>,
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCallBody<'a>>,
}

#[derive(Serialize)]
struct ToolCallBody<'a> {
    function: FunctionCallBody<'a>,
    id: &'a str,
    r#type: &'static str,
}

#[derive(Serialize)]
struct FunctionCallBody<'a> {
    arguments: &'a str,
    name: &'a str,
}

#[derive(Serialize)]
struct ToolBody<'a> {
    function: FunctionBody<'a>,
    r#type: &'static str,
}

#[derive(Serialize)]
struct FunctionBody<'a> {
    description: &'a str,
    name: &'a str,
    parameters: SchemaText<'a>,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    json_schema: JsonSchemaBody<'a>,
    r#type: &'static str,
}

#[derive(Serialize)]
struct JsonSchemaBody<'a> {
    name: &'static str,
    schema: SchemaText<'a>,
}

/// The text of a schema. It is parsed when it is serialized.
struct SchemaText<'a> {
    text: &'a str,
    /// The tool that it belongs to, or `None` for the schema of the reply.
    tool: Option<&'a str>,
}

/// Returns the body of a request. Fails if a schema in it is not JSON.
pub(in super::super) fn request_body(
    model: &str,
    request: &ModelRequest,
    transfer: TransferMode,
    dialect: Dialect,
) -> Result<String, HostError> {
    let format = |text| {
        let schema = SchemaText { text, tool: None };
        ResponseFormat {
            json_schema: JsonSchemaBody {
                name: SCHEMA_NAME,
                schema,
            },
            r#type: "json_schema",
        }
    };
    let streamed = transfer == TransferMode::Streamed;
    let body = RequestBody {
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

fn message(message: &ChatMessage) -> MessageBody<'_> {
    let role = match message.speaker {
        Speaker::System => "system",
        Speaker::User => "user",
        Speaker::Assistant => "assistant",
        Speaker::Tool => "tool",
    };
    let tool_calls: Vec<_> = message.tool_calls.iter().map(tool_call).collect();
    let silent = message.content.is_empty() && !tool_calls.is_empty();
    let content = (!silent).then_some(message.content.as_str());
    MessageBody {
        content,
        role,
        tool_call_id: message.tool_call_id.as_deref(),
        tool_calls,
    }
}

fn tool_call(call: &models::ToolCall) -> ToolCallBody<'_> {
    let function = FunctionCallBody {
        arguments: &call.arguments,
        name: &call.name,
    };
    ToolCallBody {
        function,
        id: &call.id,
        r#type: "function",
    }
}

fn tool(tool: &models::ToolDefinition) -> ToolBody<'_> {
    let models::ToolDefinition {
        name,
        description,
        parameters,
    } = tool;
    let parameters = SchemaText {
        text: parameters,
        tool: Some(name),
    };
    ToolBody {
        function: FunctionBody {
            description,
            name,
            parameters,
        },
        r#type: "function",
    }
}

impl Serialize for SchemaText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let schema = json::parse_untrusted(self.text).map_err(|e| {
            let what = match self.tool {
                Some(tool) => format!("the parameters of the tool `{tool}`"),
                None => "`output-schema`".to_owned(),
            };
            S::Error::custom(format!("{what} is {e}; give a JSON Schema"))
        })?;
        schema.serialize(serializer)
    }
}
