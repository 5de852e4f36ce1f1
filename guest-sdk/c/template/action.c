// Answers the incoming messages as its `instruction` says.
#include <strata_action.h>

static int64_t count_words(strata_str text) {
  int64_t words = 0;
  bool inside = false;
  for (size_t i = 0; i < text.len; i++) {
    bool blank = text.ptr[i] == ' ' || text.ptr[i] == '\n' || text.ptr[i] == '\t';
    words += !blank && !inside;
    inside = !blank;
  }
  return words;
}

static strata_error respond(const strata_call *call, strata_output *output) {
  strata_str instruction = strata_json_text(strata_json_get(call->config, "instruction"), (strata_str){ 0 });
  if (!instruction.len) return strata_fail(STRATA_ERROR, "reading the config: `instruction` is missing");

  strata_str prompt = strata_format("%.*s\n\n%.*s", STR_ARG(instruction), STR_ARG(strata_text(call)));
  strata_llm_message messages[] = { strata_llm_system(strata_persona(&call->role)), strata_llm_user(prompt) };
  strata_llm_request request = { .messages = { messages, 2 } };
  strata_llm_reply reply;
  STRATA_TRY(strata_llm_complete(&request, &reply));

  output->content = reply.text;
  output->data = strata_json_set(strata_json_new_object(), "words", strata_json_new_int(count_words(reply.text)));
  return STRATA_SUCCESS;
}

STRATA_ACTION(respond, .name = "{{name}}", .version = "0.1.0",
              .description = "Answers the incoming messages as its instruction says",
              .config_schema = "{\"type\": \"object\", \"properties\": {\"instruction\": {\"type\": \"string\"}}, "
                               "\"required\": [\"instruction\"], \"additionalProperties\": false}",
              .needs = { "llm" })
