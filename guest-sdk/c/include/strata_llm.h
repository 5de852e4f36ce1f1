// Language models. Replies are recorded as they arrive and are not paid for twice.
#ifndef STRATA_LLM_H
#define STRATA_LLM_H

#include "strata_host.h"

// Who speaks.
typedef enum {
  STRATA_SYSTEM = STRATA_ACTION_LLM_SPEAKER_SYSTEM,
  STRATA_USER = STRATA_ACTION_LLM_SPEAKER_USER,
  STRATA_ASSISTANT = STRATA_ACTION_LLM_SPEAKER_ASSISTANT,
  STRATA_TOOL = STRATA_ACTION_LLM_SPEAKER_TOOL,
} strata_speaker;

// A turn of the conversation: `{ .speaker = STRATA_USER, .content = prompt }`.
typedef strata_action_llm_chat_message_t strata_llm_turn;
// A tool that the model may ask for; the action carries the call out itself. `parameters` is JSON Schema as text.
typedef strata_action_llm_tool_t strata_llm_tool;
// A call of a tool that the model asks for; `arguments` is JSON as text.
typedef strata_action_llm_tool_call_t strata_llm_tool_call;
typedef strata_action_llm_list_chat_message_t strata_llm_turns;
typedef strata_action_llm_list_tool_t strata_llm_tools;
typedef strata_action_llm_list_tool_call_t strata_llm_tool_calls;

// What is asked of a model. All but `turns` may be left out.
typedef struct {
  // None takes the team's.
  strata_str model;
  // Oldest first.
  strata_llm_turns turns;
  strata_llm_tools tools;
  // JSON Schema that the reply shall follow.
  const strata_json *output_schema;
  strata_action_option_f64_t temperature;
  // Upper bound of output tokens; 0 sets none.
  uint32_t max_tokens;
  // Texts that end the reply.
  strata_strs stop;
  strata_action_option_u32_t seed;
} strata_llm_request;

// What the model answered.
typedef struct {
  strata_str text;
  // The structured reply; `null` where there is none.
  strata_json *data;
  strata_llm_tool_calls tool_calls;
  // The model that answered.
  strata_str model;
  uint32_t input_tokens;
  uint32_t output_tokens;
} strata_llm_reply;

// Asks with one prompt, and takes the text of the reply.
strata_error strata_llm_ask(strata_str prompt, strata_str *text);

strata_error strata_llm_complete(const strata_llm_request *request, strata_llm_reply *reply);

// What one of several requests came to: `reply` is set if `error.kind` is `STRATA_OK`.
typedef struct {
  strata_error error;
  strata_llm_reply reply;
} strata_llm_result;

// Asks several times at once. `results` has room for `count`.
void strata_llm_complete_many(const strata_llm_request *requests, size_t count, strata_llm_result *results);

#endif
