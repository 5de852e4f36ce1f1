// Language models. Replies are recorded as they arrive and are not paid for twice.
#ifndef STRATA_LLM_H
#define STRATA_LLM_H

#include "strata_host.h"

// A message of a conversation.
typedef strata_action_llm_chat_message_t strata_llm_message;
typedef strata_action_llm_list_chat_message_t strata_llm_messages;
// A tool that the model may ask for; the action carries the call out itself. `parameters` is JSON Schema as text.
typedef strata_action_llm_tool_t strata_llm_tool;
typedef strata_action_llm_list_tool_t strata_llm_tools;
// A call of a tool that the model asks for. `arguments` is what the model wrote: usually JSON, but it may be anything.
typedef strata_action_llm_tool_call_t strata_llm_tool_call;
// The result of a tool call.
typedef strata_action_llm_tool_result_t strata_llm_tool_result;
typedef strata_action_llm_list_tool_result_t strata_llm_tool_results;
// A piece of a reply: a text, an image or a file, a call of a tool, or something for the provider only. `tag` is one of
// `STRATA_ACTION_LLM_ASSISTANT_PART_…`.
typedef strata_action_llm_assistant_part_t strata_llm_part;
typedef strata_action_llm_list_assistant_part_t strata_llm_parts;

// Several tool calls.
typedef struct {
  strata_llm_tool_call *ptr;
  size_t len;
} strata_llm_tool_calls;

// Whether the model calls tools.
typedef enum {
  // The model decides.
  STRATA_TOOLS_AUTO = STRATA_ACTION_LLM_TOOL_CHOICE_AUTO,
  // It calls at least one.
  STRATA_TOOLS_REQUIRED = STRATA_ACTION_LLM_TOOL_CHOICE_REQUIRED,
  // It calls none.
  STRATA_TOOLS_NONE = STRATA_ACTION_LLM_TOOL_CHOICE_NONE,
  // It calls the one that `tool` names.
  STRATA_TOOLS_ONE = STRATA_ACTION_LLM_TOOL_CHOICE_TOOL,
} strata_tool_choice;

// What is asked of a model. All but `messages` may be left out.
typedef struct {
  // A name of the team file, or an id of the provider; none takes the role's.
  strata_str model;
  // Oldest first.
  strata_llm_messages messages;
  strata_llm_tools tools;
  strata_tool_choice tool_choice;
  // The tool of `STRATA_TOOLS_ONE`.
  strata_str tool;
  // JSON Schema that the reply shall follow.
  const strata_json *output_schema;
  // How much the model thinks: a word that the provider knows, e.g. `low`.
  strata_str effort;
  strata_action_option_f64_t temperature;
  // Upper bound of output tokens; 0 sets none.
  uint32_t max_tokens;
  // Texts that end the reply.
  strata_strs stop;
  strata_action_option_u32_t seed;
} strata_llm_request;

// Why a reply ended.
typedef enum {
  STRATA_FINISH_STOP = STRATA_ACTION_LLM_FINISH_REASON_STOP,
  // It was truncated at the limit of output tokens.
  STRATA_FINISH_LENGTH = STRATA_ACTION_LLM_FINISH_REASON_LENGTH,
  STRATA_FINISH_TOOL_CALLS = STRATA_ACTION_LLM_FINISH_REASON_TOOL_CALLS,
  STRATA_FINISH_REFUSAL = STRATA_ACTION_LLM_FINISH_REASON_REFUSAL,
  STRATA_FINISH_OTHER = STRATA_ACTION_LLM_FINISH_REASON_OTHER,
} strata_finish;

// What the model answered.
typedef struct {
  // The reply as it was received.
  strata_llm_parts parts;
  // Its text.
  strata_str text;
  // The structured reply; `null` where there is none.
  strata_json *data;
  // The tool calls among the parts.
  strata_llm_tool_calls tool_calls;
  strata_finish finish;
  // The model that answered.
  strata_str model;
  // What the call consumed, in tokens.
  strata_action_llm_usage_t usage;
} strata_llm_reply;

// Messages: instructions, what the user says, a reply as it was received, and the results of its tool calls.
strata_llm_message strata_llm_system(strata_str text);
strata_llm_message strata_llm_user(strata_str text);
strata_llm_message strata_llm_user_parts(strata_parts parts);
strata_llm_message strata_llm_assistant(const strata_llm_reply *reply);
strata_llm_message strata_llm_results(strata_llm_tool_results results);
// The result of a tool call that is a text.
strata_llm_tool_result strata_llm_result(const strata_llm_tool_call *call, strata_str content);

// Asks with one prompt, and takes the text of the reply.
strata_error strata_llm_ask(strata_str prompt, strata_str *text);

strata_error strata_llm_complete(const strata_llm_request *request, strata_llm_reply *reply);

// What one of several requests came to: `reply` is set if `error.kind` is `STRATA_OK`.
typedef struct {
  strata_error error;
  strata_llm_reply reply;
} strata_llm_result_of_many;

// Asks several times at once. `results` has room for `count`.
void strata_llm_complete_many(const strata_llm_request *requests, size_t count, strata_llm_result_of_many *results);

// Texts to embed. `model` and `dimensions`, the number of components of each vector, may be left out.
typedef struct {
  strata_strs texts;
  strata_str model;
  uint32_t dimensions;
} strata_llm_embed_request;

// One vector per text, in order, all of the same length; the model that answered; the tokens of the texts.
typedef strata_action_llm_embeddings_t strata_llm_embeddings;

strata_error strata_llm_embed(const strata_llm_embed_request *request, strata_llm_embeddings *embeddings);

#endif
