// The functions of the host, implemented with those of the bindings.
#include "convert.h"

strata_error strata_fail(strata_kind kind, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  strata_error error = { kind, strata_vformat(format, arguments) };
  va_end(arguments);
  return error;
}

strata_error strata_from_host(const strata_action_types_host_error_t *error) {
  static const strata_kind kinds[] = {
    [STRATA_ACTION_TYPES_HOST_ERROR_KIND_DENIED] = STRATA_DENIED,
    [STRATA_ACTION_TYPES_HOST_ERROR_KIND_INVALID] = STRATA_INVALID,
    [STRATA_ACTION_TYPES_HOST_ERROR_KIND_NOT_FOUND] = STRATA_NOT_FOUND,
    [STRATA_ACTION_TYPES_HOST_ERROR_KIND_UPSTREAM] = STRATA_UPSTREAM,
    [STRATA_ACTION_TYPES_HOST_ERROR_KIND_OUT_OF_BUDGET] = STRATA_OUT_OF_BUDGET,
    [STRATA_ACTION_TYPES_HOST_ERROR_KIND_EXPIRED] = STRATA_EXPIRED,
    [STRATA_ACTION_TYPES_HOST_ERROR_KIND_FAILED] = STRATA_FAILED,
  };
  return (strata_error){ kinds[error->kind], error->message };
}

strata_json *strata_parse_or_null(strata_action_types_option_json_t text) {
  strata_json *value;
  // The host passes only valid JSON. If it did not, the value would be `null`.
  if (!text.is_some) return strata_json_new_null();
  strata_json_parse(text.val, &value, NULL);
  return value;
}

strata_action_types_option_json_t strata_written_or_none(const strata_json *value) {
  strata_action_types_option_json_t text = { value != NULL, { 0, 0 } };
  if (value) text.val = strata_json_write(value);
  return text;
}

strata_action_option_string_t strata_some_or_none(strata_str text) {
  return (strata_action_option_string_t){ text.ptr != NULL, text };
}

strata_json *strata_message_data(const strata_message *message) {
  return strata_parse_or_null(message->data);
}

strata_part strata_part_text(strata_str text) {
  return (strata_part){ STRATA_ACTION_TYPES_PART_TEXT, { .text = text } };
}

static strata_action_types_media_t media(strata_str media_type, strata_str bytes) {
  strata_action_list_u8_t raw = { (uint8_t *)bytes.ptr, bytes.len };
  return (strata_action_types_media_t){
    .media_type = media_type,
    .source = { STRATA_ACTION_TYPES_MEDIA_SOURCE_BYTES, { .bytes = raw } },
  };
}

strata_part strata_part_image(strata_str media_type, strata_str bytes) {
  return (strata_part){ STRATA_ACTION_TYPES_PART_IMAGE, { .image = media(media_type, bytes) } };
}

strata_part strata_part_file(strata_str media_type, strata_str bytes) {
  return (strata_part){ STRATA_ACTION_TYPES_PART_FILE, { .file = media(media_type, bytes) } };
}

strata_error strata_part_load(const strata_part *part, strata_str *bytes) {
  strata_action_types_host_error_t error;
  *bytes = (strata_str){ 0, 0 };
  if (part->tag == STRATA_ACTION_TYPES_PART_TEXT) {
    *bytes = part->val.text;
    return STRATA_SUCCESS;
  }
  // Images and files have the same type.
  strata_action_types_media_source_t source = part->val.image.source;
  if (source.tag == STRATA_ACTION_TYPES_MEDIA_SOURCE_URL) {
    return strata_fail(STRATA_INVALID, "loading `%.*s`: the host does not read addresses", STR_ARG(source.val.url));
  }
  strata_action_list_u8_t raw = { 0, 0 };
  if (source.tag == STRATA_ACTION_TYPES_MEDIA_SOURCE_BYTES) raw = source.val.bytes;
  else STRATA_TRY(OUTCOME(strata_action_media_load(&source.val.blob.digest, &raw, &error)));
  *bytes = (strata_str){ (const char *)raw.ptr, raw.len };
  return STRATA_SUCCESS;
}

strata_error strata_emit(const strata_emission *emission) {
  strata_action_types_host_error_t error;
  strata_action_types_option_json_t data = strata_written_or_none(emission->data);
  strata_action_environment_emission_t raw = {
    .content = strata_utf8(emission->content),
    .data = { data.is_some, data.val },
    .parts = { emission->parts.ptr, emission->parts.len },
    .to = emission->to,
    .cause_by = strata_some_or_none(emission->cause_by),
    .route = { emission->route.ptr, emission->route.len },
  };
  return OUTCOME(strata_action_environment_emit(&raw, &error));
}

strata_error strata_state_get(strata_str scope, strata_str key, strata_json **value) {
  strata_action_types_host_error_t error;
  strata_action_state_option_json_t text;
  *value = strata_json_new_null();
  STRATA_TRY(OUTCOME(strata_action_state_get(&scope, &key, &text, &error)));
  *value = strata_parse_or_null((strata_action_types_option_json_t){ text.is_some, text.val });
  return STRATA_SUCCESS;
}

strata_error strata_state_set(strata_str scope, strata_str key, const strata_json *value) {
  strata_action_types_host_error_t error;
  strata_str text = strata_json_write(value);
  return OUTCOME(strata_action_state_set(&scope, &key, &text, &error));
}

strata_error strata_state_delete(strata_str scope, strata_str key) {
  strata_action_types_host_error_t error;
  return OUTCOME(strata_action_state_delete(&scope, &key, &error));
}

strata_error strata_state_keys(strata_str scope, strata_strs *keys) {
  strata_action_types_host_error_t error;
  *keys = (strata_strs){ 0, 0 };
  return OUTCOME(strata_action_state_keys(&scope, keys, &error));
}

strata_messages strata_memory_recent(strata_bounds bounds) {
  strata_action_memory_list_message_t found;
  strata_action_memory_recent(&bounds, &found);
  return (strata_messages){ found.ptr, found.len };
}

strata_messages strata_memory_by_label(strata_str label, strata_bounds bounds) {
  strata_action_memory_list_message_t found;
  strata_action_memory_by_label(&label, &bounds, &found);
  return (strata_messages){ found.ptr, found.len };
}

strata_error strata_memory_replace(uint32_t up_to, strata_str summary) {
  strata_action_types_host_error_t error;
  return OUTCOME(strata_action_memory_replace(up_to, &summary, &error));
}

#define LOG(name, level)                              \
  void strata_log_##name(const char *format, ...) {   \
    va_list arguments;                                \
    va_start(arguments, format);                      \
    strata_str line = strata_utf8(strata_vformat(format, arguments)); \
    va_end(arguments);                                \
    strata_action_log_write(level, &line);            \
  }
LOG(debug, STRATA_ACTION_LOG_LEVEL_DEBUG)
LOG(info, STRATA_ACTION_LOG_LEVEL_INFO)
LOG(warn, STRATA_ACTION_LOG_LEVEL_WARN)
LOG(error, STRATA_ACTION_LOG_LEVEL_ERROR)

double strata_unix_time_ms(void) {
  return strata_action_clock_unix_time_ms();
}

void strata_sleep(uint32_t duration_ms) {
  strata_action_clock_sleep(duration_ms);
}

strata_error strata_random(uint32_t length, strata_str *bytes) {
  strata_action_types_host_error_t error;
  strata_action_list_u8_t raw = { 0, 0 };
  strata_error outcome = OUTCOME(strata_action_random_bytes(length, &raw, &error));
  *bytes = (strata_str){ (const char *)raw.ptr, raw.len };
  return outcome;
}

strata_error strata_file_read(strata_str path, strata_str *content) {
  strata_action_types_host_error_t error;
  strata_action_list_u8_t raw = { 0, 0 };
  strata_error outcome = OUTCOME(strata_action_files_read(&path, &raw, &error));
  *content = (strata_str){ (const char *)raw.ptr, raw.len };
  return outcome;
}

strata_error strata_file_write(strata_str path, strata_str content) {
  strata_action_types_host_error_t error;
  strata_action_list_u8_t raw = { (uint8_t *)content.ptr, content.len };
  return OUTCOME(strata_action_files_write(&path, &raw, &error));
}

strata_error strata_file_remove(strata_str path) {
  strata_action_types_host_error_t error;
  return OUTCOME(strata_action_files_remove(&path, &error));
}

strata_error strata_file_list(strata_str path, strata_strs *names) {
  strata_action_types_host_error_t error;
  *names = (strata_strs){ 0, 0 };
  return OUTCOME(strata_action_files_list(&path, names, &error));
}

strata_error strata_env(strata_str name, strata_str *value) {
  strata_action_types_host_error_t error;
  strata_action_option_string_t found = { 0 };
  strata_error outcome = OUTCOME(strata_action_env_get(&name, &found, &error));
  *value = outcome.kind == STRATA_OK && found.is_some ? found.val : (strata_str){ 0, 0 };
  return outcome;
}

strata_error strata_secret(strata_str name, strata_str *placeholder) {
  strata_action_types_host_error_t error;
  *placeholder = (strata_str){ 0, 0 };
  return OUTCOME(strata_action_secrets_placeholder(&name, placeholder, &error));
}

strata_error strata_tools_list(strata_granted_tools *tools) {
  strata_action_types_host_error_t error;
  *tools = (strata_granted_tools){ 0, 0 };
  return OUTCOME(strata_action_tools_list(tools, &error));
}

static strata_action_tools_tool_call_t tool_call(strata_str name, const strata_json *arguments) {
  return (strata_action_tools_tool_call_t){ name, arguments ? strata_json_write(arguments) : STR("{}") };
}

static strata_json *tool_result(strata_str text) {
  return strata_parse_or_null((strata_action_types_option_json_t){ true, text });
}

strata_error strata_tools_call(strata_str name, const strata_json *arguments, strata_json **result) {
  strata_action_types_host_error_t error;
  strata_action_tools_tool_call_t call = tool_call(name, arguments);
  strata_str text;
  *result = strata_json_new_null();
  STRATA_TRY(OUTCOME(strata_action_tools_call(&call, &text, &error)));
  *result = tool_result(text);
  return STRATA_SUCCESS;
}

void strata_tools_call_many(strata_tools_request *calls, size_t count) {
  strata_action_tools_list_tool_call_t made = { strata_alloc(count * sizeof *made.ptr), count };
  strata_action_tools_list_result_json_host_error_t results;
  for (size_t i = 0; i < count; i++) made.ptr[i] = tool_call(calls[i].name, calls[i].arguments);
  strata_action_tools_call_many(&made, &results);
  for (size_t i = 0; i < count; i++) {
    calls[i].result = strata_json_new_null();
    if (results.ptr[i].is_err) {
      calls[i].error = strata_from_host(&results.ptr[i].val.err);
    } else {
      calls[i].error = STRATA_SUCCESS;
      calls[i].result = tool_result(results.ptr[i].val.ok);
    }
  }
}

strata_error strata_mcp_call(strata_str server, strata_str tool, const strata_json *arguments,
                             strata_mcp_result *result) {
  strata_action_types_host_error_t error;
  strata_action_mcp_tool_result_t found;
  strata_str given = arguments ? strata_json_write(arguments) : STR("{}");
  *result = (strata_mcp_result){ .data = strata_json_new_null(), .content = strata_json_new_null() };
  STRATA_TRY(OUTCOME(strata_action_mcp_call_tool(&server, &tool, &given, &found, &error)));
  result->text = found.text;
  result->data = strata_parse_or_null((strata_action_types_option_json_t){ found.data.is_some, found.data.val });
  result->content = strata_parse_or_null((strata_action_types_option_json_t){ true, found.content });
  result->is_error = found.is_error;
  return STRATA_SUCCESS;
}

strata_error strata_ask(const strata_question *question, strata_json **answer) {
  strata_action_types_host_error_t error;
  strata_action_types_option_json_t schema = strata_written_or_none(question->schema);
  strata_action_types_option_json_t otherwise = strata_written_or_none(question->otherwise);
  strata_action_human_question_t raw = {
    .text = question->text,
    .schema = { schema.is_some, schema.val },
    .choices = question->choices,
    .expires_s = { question->expires_s > 0, question->expires_s },
    .default_ = { otherwise.is_some, otherwise.val },
  };
  strata_action_human_answer_t given;
  *answer = strata_json_new_null();
  STRATA_TRY(OUTCOME(strata_action_human_ask(&raw, &given, &error)));
  *answer = strata_parse_or_null((strata_action_types_option_json_t){ true, given.value });
  if (question->by_default) *question->by_default = given.source == STRATA_ACTION_HUMAN_SOURCE_DEFAULT;
  return STRATA_SUCCESS;
}
