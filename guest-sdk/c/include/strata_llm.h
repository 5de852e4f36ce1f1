// Language models, as granted by `allow.llm`. Replies are recorded; a repeated attempt gets the recorded ones and is
// not charged again.
#ifndef STRATA_LLM_H
#define STRATA_LLM_H

#include "strata_host.h"

// A message of a conversation.
typedef strata_action_llm_chat_message_t strata_llm_message;
typedef strata_action_llm_list_chat_message_t strata_llm_messages;

// A tool that the model may call. The action carries out the calls. `parameters` is the JSON Schema of the arguments,
// as text.
typedef strata_action_llm_tool_t strata_llm_tool;
typedef strata_action_llm_list_tool_t strata_llm_tools;

// A tool call that the model requests. `arguments` are the arguments as the model wrote them. They should be JSON that
// matches the tool's schema, but they may be any text.
typedef strata_action_llm_tool_call_t strata_llm_tool_call;

// The result of a tool call.
typedef strata_action_llm_tool_result_t strata_llm_tool_result;
typedef strata_action_llm_list_tool_result_t strata_llm_tool_results;

// A part of a reply: text, an image or a file, a tool call, or data for the provider only. `tag` is one of
// `STRATA_ACTION_LLM_ASSISTANT_PART_…`.
typedef strata_action_llm_assistant_part_t strata_llm_part;
typedef strata_action_llm_list_assistant_part_t strata_llm_parts;

// An array of tool calls.
typedef struct {
  strata_llm_tool_call *ptr;
  size_t len;
} strata_llm_tool_calls;

// Whether the model calls tools.
typedef enum {
  // The model decides.
  STRATA_TOOLS_AUTO = STRATA_ACTION_LLM_TOOL_CHOICE_AUTO,
  // The model calls at least one tool.
  STRATA_TOOLS_REQUIRED = STRATA_ACTION_LLM_TOOL_CHOICE_REQUIRED,
  // The model calls no tool.
  STRATA_TOOLS_NONE = STRATA_ACTION_LLM_TOOL_CHOICE_NONE,
  // The model calls the tool named by `tool` of the request.
  STRATA_TOOLS_ONE = STRATA_ACTION_LLM_TOOL_CHOICE_TOOL,
} strata_tool_choice;

// A request to a language model. All fields except `messages` are optional.
typedef struct {
  // The model: a name in the team file, or an id of the provider. If it is absent, the role's model.
  strata_str model;
  // The conversation, oldest message first.
  strata_llm_messages messages;
  // The tools that the model may call.
  strata_llm_tools tools;
  strata_tool_choice tool_choice;
  // The name of the tool for `STRATA_TOOLS_ONE`.
  strata_str tool;
  // The JSON Schema of the reply. If it is a null pointer, the reply is text.
  const strata_json *output_schema;
  // The reasoning effort, as named by the provider, e.g. `low`.
  strata_str effort;
  // The sampling temperature, as defined by the provider.
  strata_action_option_f64_t temperature;
  // The maximum number of output tokens; 0 for the default.
  uint32_t max_tokens;
  // Strings that end the reply when the model writes them.
  strata_strs stop;
  // A sampling seed, if the provider supports one.
  strata_action_option_u32_t seed;
} strata_llm_request;

// The finish reason of a reply.
typedef enum {
  STRATA_FINISH_STOP = STRATA_ACTION_LLM_FINISH_REASON_STOP,
  // The reply was truncated at the maximum number of output tokens.
  STRATA_FINISH_LENGTH = STRATA_ACTION_LLM_FINISH_REASON_LENGTH,
  // The model requests tool calls.
  STRATA_FINISH_TOOL_CALLS = STRATA_ACTION_LLM_FINISH_REASON_TOOL_CALLS,
  // The model or a filter refused the request.
  STRATA_FINISH_REFUSAL = STRATA_ACTION_LLM_FINISH_REASON_REFUSAL,
  STRATA_FINISH_OTHER = STRATA_ACTION_LLM_FINISH_REASON_OTHER,
} strata_finish;

// The reply of a language model.
typedef struct {
  // The parts, as they were received.
  strata_llm_parts parts;
  // The text.
  strata_str text;
  // The structured reply; `null` if the request had no `output_schema`.
  strata_json *data;
  // The tool calls among the parts.
  strata_llm_tool_calls tool_calls;
  // The finish reason.
  strata_finish finish;
  // The model that replied, as named in the reply.
  strata_str model;
  // The numbers of tokens.
  strata_action_llm_usage_t usage;
} strata_llm_reply;

// Return a message: the system prompt, a message of the user, a reply as it was received, or the results of its tool
// calls, in the same order.
strata_llm_message strata_llm_system(strata_str text);
strata_llm_message strata_llm_user(strata_str text);
strata_llm_message strata_llm_user_parts(strata_parts parts);
strata_llm_message strata_llm_assistant(const strata_llm_reply *reply);
strata_llm_message strata_llm_results(strata_llm_tool_results results);

// Returns a text as the result of a tool call.
strata_llm_tool_result strata_llm_result(const strata_llm_tool_call *call, strata_str content);

// Sends a request with one message of the user, and sets `*text` to the text of the reply. The errors are those of
// `strata_llm_complete`.
strata_error strata_llm_ask(strata_str prompt, strata_str *text);

// Sends a request, and sets `*reply`. Returns `STRATA_DENIED` if the model is not granted or the granted calls are used
// up, `STRATA_UPSTREAM` if the provider fails or the reply does not match the schema, `STRATA_OUT_OF_BUDGET` if the
// action's budget is used up, and `STRATA_INVALID` if the request is not valid.
strata_error strata_llm_complete(const strata_llm_request *request, strata_llm_reply *reply);

// The result of one of several requests: `reply` is valid if `error.kind` is `STRATA_OK`.
typedef struct {
  strata_error error;
  strata_llm_reply reply;
} strata_llm_result_of_many;

// Sends several requests in parallel, at most 64. Sets `results`, an array of `count` elements, in the order of the
// requests.
void strata_llm_complete_many(const strata_llm_request *requests, size_t count, strata_llm_result_of_many *results);

// A request for embeddings. `model` and `dimensions`, the length of the vectors, are optional.
typedef struct {
  // The texts, at most 2048.
  strata_strs texts;
  strata_str model;
  uint32_t dimensions;
} strata_llm_embed_request;

// The vectors of texts, one per text in the same order, all of the same length; the model; and the number of tokens.
typedef strata_action_llm_embeddings_t strata_llm_embeddings;

// Sends a request for embeddings, and sets `*embeddings`. The errors are those of `strata_llm_complete`; also
// `STRATA_INVALID` if the provider has no embeddings.
strata_error strata_llm_embed(const strata_llm_embed_request *request, strata_llm_embeddings *embeddings);

#endif
