// Language models.
#include "convert.h"

strata_llm_message strata_llm_system(strata_str text) {
  return (strata_llm_message){ STRATA_ACTION_LLM_CHAT_MESSAGE_SYSTEM, { .system = text } };
}

strata_llm_message strata_llm_user(strata_str text) {
  strata_part *part = strata_alloc(sizeof *part);
  *part = strata_part_text(text);
  return strata_llm_user_parts((strata_parts){ part, 1 });
}

strata_llm_message strata_llm_user_parts(strata_parts parts) {
  return (strata_llm_message){ STRATA_ACTION_LLM_CHAT_MESSAGE_USER, { .user = { parts.ptr, parts.len } } };
}

strata_llm_message strata_llm_assistant(const strata_llm_reply *reply) {
  return (strata_llm_message){ STRATA_ACTION_LLM_CHAT_MESSAGE_ASSISTANT, { .assistant = reply->parts } };
}

strata_llm_message strata_llm_results(strata_llm_tool_results results) {
  return (strata_llm_message){ STRATA_ACTION_LLM_CHAT_MESSAGE_TOOL_RESULTS, { .tool_results = results } };
}

strata_llm_tool_result strata_llm_result(const strata_llm_tool_call *call, strata_str content) {
  strata_part *part = strata_alloc(sizeof *part);
  *part = strata_part_text(content);
  return (strata_llm_tool_result){ .call = call->id, .tool = call->name, .content = { part, 1 } };
}

// Returns the parts with their texts converted to UTF-8.
static strata_action_llm_list_part_t utf8_parts(strata_action_llm_list_part_t parts) {
  strata_action_llm_list_part_t clean = { strata_alloc(parts.len * sizeof *parts.ptr), parts.len };
  for (size_t i = 0; i < parts.len; i++) {
    clean.ptr[i] = parts.ptr[i];
    if (parts.ptr[i].tag != STRATA_ACTION_TYPES_PART_TEXT) continue;
    clean.ptr[i].val.text = strata_utf8(parts.ptr[i].val.text);
  }
  return clean;
}

static strata_llm_message utf8_message(strata_llm_message message) {
  if (message.tag == STRATA_ACTION_LLM_CHAT_MESSAGE_SYSTEM) {
    message.val.system = strata_utf8(message.val.system);
  } else if (message.tag == STRATA_ACTION_LLM_CHAT_MESSAGE_USER) {
    message.val.user = utf8_parts(message.val.user);
  } else if (message.tag == STRATA_ACTION_LLM_CHAT_MESSAGE_TOOL_RESULTS) {
    strata_llm_tool_results given = message.val.tool_results;
    strata_llm_tool_result *clean = strata_alloc(given.len * sizeof *clean);
    for (size_t i = 0; i < given.len; i++) {
      clean[i] = given.ptr[i];
      clean[i].content = utf8_parts(given.ptr[i].content);
    }
    message.val.tool_results.ptr = clean;
  }
  return message;
}

static strata_llm_messages utf8_messages(strata_llm_messages messages) {
  strata_llm_messages clean = { strata_alloc(messages.len * sizeof *messages.ptr), messages.len };
  for (size_t i = 0; i < messages.len; i++) clean.ptr[i] = utf8_message(messages.ptr[i]);
  return clean;
}

static strata_action_llm_request_t to_bindings(const strata_llm_request *request) {
  strata_action_types_option_json_t schema = strata_written_or_none(request->output_schema);
  return (strata_action_llm_request_t){
    .model = strata_some_or_none(request->model),
    .messages = utf8_messages(request->messages),
    .tools = request->tools,
    .tool_choice = { (uint8_t)request->tool_choice, { request->tool } },
    .output_schema = { schema.is_some, schema.val },
    .effort = strata_some_or_none(request->effort),
    .temperature = request->temperature,
    .max_tokens = { request->max_tokens > 0, request->max_tokens },
    .stop = request->stop,
    .seed = request->seed,
  };
}

static strata_llm_tool_calls tool_calls_of(strata_llm_parts parts) {
  strata_llm_tool_calls calls = { strata_alloc(parts.len * sizeof *calls.ptr), 0 };
  for (size_t i = 0; i < parts.len; i++) {
    if (parts.ptr[i].tag != STRATA_ACTION_LLM_ASSISTANT_PART_TOOL_CALL) continue;
    calls.ptr[calls.len++] = parts.ptr[i].val.tool_call;
  }
  return calls;
}

static strata_llm_reply from_bindings(const strata_action_llm_reply_t *reply) {
  return (strata_llm_reply){
    .parts = reply->parts,
    .text = reply->text,
    .data = strata_parse_or_null((strata_action_types_option_json_t){ reply->data.is_some, reply->data.val }),
    .tool_calls = tool_calls_of(reply->parts),
    .finish = (strata_finish)reply->finish,
    .model = reply->model,
    .usage = reply->usage,
  };
}

strata_error strata_llm_ask(strata_str prompt, strata_str *text) {
  strata_llm_message message = strata_llm_user(prompt);
  strata_llm_request request = { .messages = { &message, 1 } };
  strata_llm_reply reply;
  STRATA_TRY(strata_llm_complete(&request, &reply));
  *text = reply.text;
  return STRATA_SUCCESS;
}

strata_error strata_llm_complete(const strata_llm_request *request, strata_llm_reply *reply) {
  strata_action_types_host_error_t error;
  strata_action_llm_request_t raw = to_bindings(request);
  strata_action_llm_reply_t result;
  *reply = (strata_llm_reply){ 0 };
  STRATA_TRY(OUTCOME(strata_action_llm_complete(&raw, &result, &error)));
  *reply = from_bindings(&result);
  return STRATA_SUCCESS;
}

void strata_llm_complete_many(const strata_llm_request *requests, size_t count, strata_llm_result_of_many *results) {
  strata_action_llm_request_t *raw = strata_alloc(count * sizeof *raw);
  for (size_t i = 0; i < count; i++) raw[i] = to_bindings(&requests[i]);
  strata_action_llm_list_request_t list = { raw, count };
  strata_action_llm_list_result_reply_host_error_t result;
  strata_action_llm_complete_many(&list, &result);
  for (size_t i = 0; i < count; i++) {
    results[i] = (strata_llm_result_of_many){ 0 };
    if (i >= result.len) results[i].error = strata_fail(STRATA_HOST, "sending requests: too few replies");
    else if (result.ptr[i].is_err) results[i].error = strata_from_host(&result.ptr[i].val.err);
    else results[i].reply = from_bindings(&result.ptr[i].val.ok);
  }
}

strata_error strata_llm_embed(const strata_llm_embed_request *request, strata_llm_embeddings *embeddings) {
  strata_action_types_host_error_t error;
  strata_action_llm_embed_request_t raw = {
    .model = strata_some_or_none(request->model),
    .texts = request->texts,
    .dimensions = { request->dimensions > 0, request->dimensions },
  };
  *embeddings = (strata_llm_embeddings){ 0 };
  return OUTCOME(strata_action_llm_embed(&raw, embeddings, &error));
}
