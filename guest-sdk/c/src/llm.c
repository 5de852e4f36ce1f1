// Language models.
#include "border.h"

// The turns, as UTF-8.
static strata_llm_turns cleaned(strata_llm_turns turns) {
  strata_llm_turns clean = { strata_alloc(turns.len * sizeof *turns.ptr), turns.len };
  for (size_t i = 0; i < turns.len; i++) {
    clean.ptr[i] = turns.ptr[i];
    clean.ptr[i].content = strata_utf8(turns.ptr[i].content);
  }
  return clean;
}

static strata_action_llm_request_t lowered(const strata_llm_request *request) {
  strata_action_types_option_json_t schema = strata_written_or_none(request->output_schema);
  return (strata_action_llm_request_t){
    .model = strata_some_or_none(request->model),
    .messages = cleaned(request->turns),
    .tools = request->tools,
    .output_schema = { schema.is_some, schema.val },
    .temperature = request->temperature,
    .max_tokens = { request->max_tokens > 0, request->max_tokens },
    .stop = request->stop,
    .seed = request->seed,
  };
}

static strata_llm_reply lifted(const strata_action_llm_reply_t *reply) {
  return (strata_llm_reply){
    .text = reply->text,
    .data = strata_parse_or_null((strata_action_types_option_json_t){ reply->data.is_some, reply->data.val }),
    .tool_calls = reply->tool_calls,
    .model = reply->model,
    .input_tokens = reply->usage.input_tokens,
    .output_tokens = reply->usage.output_tokens,
  };
}

strata_error strata_llm_ask(strata_str prompt, strata_str *text) {
  strata_llm_turn turn = { .speaker = STRATA_USER, .content = prompt };
  strata_llm_request request = { .turns = { &turn, 1 } };
  strata_llm_reply reply;
  STRATA_TRY(strata_llm_complete(&request, &reply));
  *text = reply.text;
  return STRATA_SUCCESS;
}

strata_error strata_llm_complete(const strata_llm_request *request, strata_llm_reply *reply) {
  strata_action_types_host_error_t error;
  strata_action_llm_request_t raw = lowered(request);
  strata_action_llm_reply_t got;
  *reply = (strata_llm_reply){ 0 };
  STRATA_TRY(OUTCOME(strata_action_llm_complete(&raw, &got, &error)));
  *reply = lifted(&got);
  return STRATA_SUCCESS;
}

void strata_llm_complete_many(const strata_llm_request *requests, size_t count, strata_llm_result *results) {
  strata_action_llm_request_t *raw = strata_alloc(count * sizeof *raw);
  for (size_t i = 0; i < count; i++) raw[i] = lowered(&requests[i]);
  strata_action_llm_list_request_t list = { raw, count };
  strata_action_llm_list_result_reply_host_error_t got;
  strata_action_llm_complete_many(&list, &got);
  for (size_t i = 0; i < count; i++) {
    results[i] = (strata_llm_result){ 0 };
    if (i >= got.len) results[i].error = strata_fail(STRATA_HOST, "asking: the host gave fewer replies than requests");
    else if (got.ptr[i].is_err) results[i].error = strata_from_host(&got.ptr[i].val.err);
    else results[i].reply = lifted(&got.ptr[i].val.ok);
  }
}
