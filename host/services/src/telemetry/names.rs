//! The names of what is exported about runs, in one place: those of the conventions for generative AI
//! of OpenTelemetry (`semantic-conventions-genai`, release 0.1.0), and the program's own, which begin
//! with `strata.`. `docs/src/observing.md` lists them.

/// The address that names the release of the conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai/0.1.0";

// Operations: values of `OPERATION_NAME`, with which the names of spans begin.

/// A run of a team.
pub const INVOKE_WORKFLOW: &str = "invoke_workflow";
/// An activation of a role.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// A request to a model for a reply.
pub const CHAT: &str = "chat";
/// A request to a model for vectors.
pub const EMBEDDINGS: &str = "embeddings";
/// An attempt at a tool call.
pub const EXECUTE_TOOL: &str = "execute_tool";

// Attributes of several operations.

/// The operation.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// The id of the run.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The name of the role; in the span of a run, that of the team.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// Why it failed, in a word.
pub const ERROR_TYPE: &str = "error.type";
/// The host to which a request is sent.
pub const SERVER_ADDRESS: &str = "server.address";
/// The port to which a request is sent.
pub const SERVER_PORT: &str = "server.port";

// Attributes of requests to models.

/// The provider.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The provider's id of the model that is asked.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The provider's id of the model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The provider's id of the reply.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// Why the reply ended. A list.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// The tokens of the request, with those that were read from a cache.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// The tokens of the reply, with those of reasoning.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The tokens of the request that were read from a cache.
pub const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
/// The tokens of the request that were written to a cache.
pub const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_write.input_tokens";
/// The tokens of the reply that were reasoning.
pub const REASONING_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
/// Whether a part of the conversation was replaced by something shorter.
pub const COMPACTED: &str = "gen_ai.conversation.compacted";
/// The status of a response over HTTP; of a model's endpoint, if it refused.
pub const STATUS_CODE: &str = "http.response.status_code";

// Content, which is exported only on demand.

/// The variable that demands it.
pub const CAPTURE_CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
/// The instructions of a request, as JSON.
pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// The conversation in a request, as JSON.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// The reply, as JSON.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// The arguments of a tool call, as JSON.
pub const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// The result of a tool call.
pub const TOOL_RESULT: &str = "gen_ai.tool.call.result";

/// The method of a request over HTTP.
pub const HTTP_METHOD: &str = "http.request.method";

// Attributes of tool calls.

/// The name of the tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The kind of the tool: `function` or `extension`.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// The provider's id of the call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The type of tools that the host runs.
pub const FUNCTION: &str = "function";
/// The type of tools that a server offers.
pub const EXTENSION: &str = "extension";
/// The type of the error of a tool that said itself that it failed.
pub const TOOL_ERROR: &str = "tool_error";

// Attributes of requests to servers of the Model Context Protocol, and of requests that this program
// serves.

/// The method of a request.
pub const MCP_METHOD: &str = "mcp.method.name";
/// The revision of the protocol.
pub const MCP_REVISION: &str = "mcp.protocol.version";
/// How the messages are transported: `pipe` or `tcp`.
pub const NETWORK_TRANSPORT: &str = "network.transport";
/// The id of a request.
pub const REQUEST_ID: &str = "jsonrpc.request.id";
/// The method that calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// The key of `_meta` with the context of the trace that a request belongs to.
pub const TRACEPARENT: &str = "traceparent";

// The program's own attributes.

/// What the model's reply cost; what the run has spent.
pub const COST_USD: &str = "strata.cost_usd";
/// The name of the run in its database.
pub const RUN_NAME: &str = "strata.run.name";
/// The id of the worker that runs it.
pub const WORKER: &str = "strata.worker";
/// The lineage of the run.
pub const LINEAGE: &str = "strata.lineage";
/// How the run ended.
pub const STATUS: &str = "strata.status";
/// The number of the step.
pub const STEP: &str = "strata.step";
/// The checkpoint with which the step ended.
pub const CHECKPOINT: &str = "strata.checkpoint";
/// The name of the action.
pub const ACTION: &str = "strata.action";
/// The number of the attempt, from 1.
pub const ATTEMPT: &str = "strata.attempt";
/// How the attempt ended.
pub const OUTCOME: &str = "strata.outcome";
/// The kind of a host call.
pub const CALL_KIND: &str = "strata.call.kind";
/// Where the answer of a host call came from: `live` or `recorded`.
pub const CALL_SOURCE: &str = "strata.call.source";

/// The attributes whose values are lists, which hold one text each.
pub const LISTS: &[&str] = &[FINISH_REASONS];

// Metrics.

/// How long requests to models took, in seconds.
pub const INFERENCE_DURATION: &str = "gen_ai.client.inference.duration";
/// How long attempts at tool calls took, in seconds.
pub const TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
/// How long requests to servers of the Model Context Protocol took, in seconds.
pub const MCP_CLIENT_DURATION: &str = "mcp.client.operation.duration";
/// How long requests took that this program served, in seconds.
pub const MCP_SERVER_DURATION: &str = "mcp.server.operation.duration";

/// A counter of tokens, and the attribute of a span that it counts.
pub struct TokenCounter {
    /// The name of the metric.
    pub metric: &'static str,
    /// The attribute.
    pub attribute: &'static str,
    /// What it counts.
    pub description: &'static str,
}

/// The counters of tokens.
pub const TOKEN_COUNTERS: &[TokenCounter] = &[
    TokenCounter {
        metric: "gen_ai.client.inference.usage.input_tokens",
        attribute: INPUT_TOKENS,
        description: "Tokens of requests, with those read from a cache.",
    },
    TokenCounter {
        metric: "gen_ai.client.inference.usage.output_tokens",
        attribute: OUTPUT_TOKENS,
        description: "Tokens of replies, with those of reasoning.",
    },
    TokenCounter {
        metric: "gen_ai.client.inference.usage.cache_read.input_tokens",
        attribute: CACHE_READ_TOKENS,
        description: "Tokens of requests that were read from a cache.",
    },
    TokenCounter {
        metric: "gen_ai.client.inference.usage.cache_write.input_tokens",
        attribute: CACHE_WRITE_TOKENS,
        description: "Tokens of requests that were written to a cache.",
    },
    TokenCounter {
        metric: "gen_ai.client.inference.usage.reasoning.output_tokens",
        attribute: REASONING_TOKENS,
        description: "Tokens of replies that were reasoning.",
    },
];

// Older names, which are exported in addition if `compat` is set.

/// The older name of `CACHE_WRITE_TOKENS`.
pub const OLD_CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
/// The older name of `INFERENCE_DURATION`.
pub const OLD_DURATION: &str = "gen_ai.client.operation.duration";
/// The older metric of tokens, a histogram.
pub const OLD_TOKEN_USAGE: &str = "gen_ai.client.token.usage";
/// What kind of tokens the older metric counts.
pub const TOKEN_TYPE: &str = "gen_ai.token.type";
