// The imports of the bindings, implemented by the host in memory.
#include "../src/memory.h"
#include "table.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef strata_action_types_host_error_t host_error;

static const strata_str none;

static bool fail(host_error *error, strata_action_types_host_error_kind_t kind, strata_str message) {
  *error = (host_error){ kind, message };
  return false;
}

static bool denied(host_error *error, const char *what, strata_str name) {
  strata_str message = strata_format("%s `%.*s`: the test does not grant it", what, STR_ARG(name));
  return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_DENIED, message);
}

// Sets the error of an entry.
static bool fail_with_entry(host_error *error, const entry *served) {
  static const strata_action_types_host_error_kind_t kinds[] = {
    [STRATA_DENIED] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_DENIED,
    [STRATA_INVALID] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_INVALID,
    [STRATA_NOT_FOUND] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_NOT_FOUND,
    [STRATA_ERROR] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_UPSTREAM,
    [STRATA_RETRYABLE] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_UPSTREAM,
    [STRATA_HOST] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_UPSTREAM,
    [STRATA_UPSTREAM] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_UPSTREAM,
    [STRATA_OUT_OF_BUDGET] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_OUT_OF_BUDGET,
    [STRATA_EXPIRED] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_EXPIRED,
    [STRATA_FAILED] = STRATA_ACTION_TYPES_HOST_ERROR_KIND_FAILED,
  };
  return fail(error, kinds[served->kind], served->value);
}

// Returns a copy, because the action may change the string later.
static strata_str copied(strata_str text) {
  return strata_format("%.*s", STR_ARG(text));
}

bool strata_action_environment_emit(strata_action_environment_emission_t *emission, host_error *error) {
  (void)error;
  table_add(&strata_test_host.emitted, (entry){ .value = copied(emission->content) });
  return true;
}

static bool check_scope(strata_str scope, host_error *error) {
  if (table_find(&strata_test_host.scopes, none, scope)) return true;
  strata_str message = strata_format("using the scope `%.*s`: the test does not declare it", STR_ARG(scope));
  return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_INVALID, message);
}

bool strata_action_state_get(strata_str *scope, strata_str *key, strata_action_state_option_json_t *found,
                             host_error *error) {
  if (!check_scope(*scope, error)) return false;
  entry *value = table_find(&strata_test_host.state, *scope, *key);
  *found = (strata_action_state_option_json_t){ value != NULL, value ? value->value : none };
  return true;
}

bool strata_action_state_set(strata_str *scope, strata_str *key, strata_str *value, host_error *error) {
  if (!check_scope(*scope, error)) return false;
  entry *before = table_find(&strata_test_host.state, *scope, *key);
  if (before) before->value = copied(*value);
  else {
    entry added = { .scope = copied(*scope), .key = copied(*key), .value = copied(*value) };
    table_add(&strata_test_host.state, added);
  }
  return true;
}

bool strata_action_state_delete(strata_str *scope, strata_str *key, host_error *error) {
  if (!check_scope(*scope, error)) return false;
  entry *before = table_find(&strata_test_host.state, *scope, *key);
  if (before) table_remove(&strata_test_host.state, before);
  return true;
}

static bool less(strata_str a, strata_str b) {
  int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
  return order < 0 || (order == 0 && a.len < b.len);
}

static void insert_sorted(strata_strs *into, strata_str text) {
  size_t at = into->len++;
  for (; at > 0 && less(text, into->ptr[at - 1]); at--) into->ptr[at] = into->ptr[at - 1];
  into->ptr[at] = text;
}

bool strata_action_state_keys(strata_str *scope, strata_strs *keys, host_error *error) {
  if (!check_scope(*scope, error)) return false;
  const table *state = &strata_test_host.state;
  *keys = (strata_strs){ strata_alloc(state->len * sizeof(strata_str)), 0 };
  for (size_t i = 0; i < state->len; i++) {
    if (strata_equal(state->ptr[i].scope, *scope)) insert_sorted(keys, state->ptr[i].key);
  }
  return true;
}

static void find_messages(const strata_str *label, strata_bounds bounds, strata_action_memory_list_message_t *found) {
  strata_messages memory = strata_test_host.memory;
  // Finds the oldest message within the bounds, starting with the newest, and then copies the messages in order.
  size_t first = memory.len, left = bounds.bytes, count = 0;
  for (size_t i = memory.len; i > 0 && count < bounds.messages; i--) {
    const strata_message *message = &memory.ptr[i - 1];
    if (label && !strata_equal(message->cause_by, *label)) continue;
    size_t size = message->content.len + (message->data.is_some ? message->data.val.len : 0);
    if (size > left) break;
    left -= size;
    first = i - 1;
    count++;
  }
  *found = (strata_action_memory_list_message_t){ strata_alloc(count * sizeof(strata_message)), 0 };
  for (size_t i = first; i < memory.len; i++) {
    if (label && !strata_equal(memory.ptr[i].cause_by, *label)) continue;
    found->ptr[found->len++] = memory.ptr[i];
  }
}

void strata_action_memory_recent(strata_bounds *bounds, strata_action_memory_list_message_t *found) {
  find_messages(NULL, *bounds, found);
}

void strata_action_memory_by_label(strata_str *label, strata_bounds *bounds,
                                   strata_action_memory_list_message_t *found) {
  find_messages(label, *bounds, found);
}

bool strata_action_memory_replace(uint32_t up_to, strata_str *summary, host_error *error) {
  if (up_to == 0 || summary->len == 0) {
    strata_str message = strata_format("replacing messages: there is nothing to replace, or no text");
    return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_INVALID, message);
  }
  table_add(&strata_test_host.replaced, (entry){ .value = strata_format("%u %.*s", (unsigned)up_to, STR_ARG(*summary)) });
  return true;
}

bool strata_action_media_load(strata_str *digest, strata_action_list_u8_t *bytes, host_error *error) {
  entry *found = table_find(&strata_test_host.blobs, none, *digest);
  if (!found) {
    strata_str message = strata_format("loading `%.*s`: it was not received", STR_ARG(*digest));
    return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_NOT_FOUND, message);
  }
  *bytes = (strata_action_list_u8_t){ (uint8_t *)found->value.ptr, found->value.len };
  return true;
}

_Noreturn void strata_out_of_memory(size_t size) {
  fprintf(stderr, "out of memory: cannot allocate %zu bytes\n", size);
  abort();
}

void strata_action_log_write(strata_action_log_level_t level, strata_str *message) {
  (void)level;
  table_add(&strata_test_host.logged, (entry){ .value = copied(*message) });
}

double strata_action_clock_unix_time_ms(void) {
  return strata_test_host.slept_ms;
}

void strata_action_clock_sleep(uint32_t duration_ms) {
  strata_test_host.slept_ms += duration_ms;
}

bool strata_action_random_bytes(uint32_t length, strata_action_list_u8_t *bytes, host_error *error) {
  if (length > 65536) return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_INVALID, STR("more than 65536 bytes"));
  *bytes = (strata_action_list_u8_t){ strata_alloc(length), length };
  // A generator that gives the same bytes in each test.
  for (uint32_t i = 0; i < length; i++) {
    strata_test_host.random = strata_test_host.random * 1664525 + 1013904223;
    bytes->ptr[i] = (uint8_t)(strata_test_host.random >> 24);
  }
  return true;
}

static void append_texts(strata_buffer *text, strata_action_llm_list_part_t parts) {
  for (size_t i = 0; i < parts.len; i++) {
    if (parts.ptr[i].tag == STRATA_ACTION_TYPES_PART_TEXT) strata_append(text, parts.ptr[i].val.text);
  }
}

// Returns the concatenated texts of a message.
static strata_str text_of(const strata_llm_message *message) {
  strata_buffer text = { 0 };
  strata_llm_tool_results results = message->val.tool_results;
  strata_llm_parts parts = message->val.assistant;
  switch (message->tag) {
    case STRATA_ACTION_LLM_CHAT_MESSAGE_SYSTEM:
      return message->val.system;
    case STRATA_ACTION_LLM_CHAT_MESSAGE_USER:
      append_texts(&text, message->val.user);
      break;
    case STRATA_ACTION_LLM_CHAT_MESSAGE_ASSISTANT:
      for (size_t i = 0; i < parts.len; i++) {
        if (parts.ptr[i].tag == STRATA_ACTION_LLM_ASSISTANT_PART_TEXT) strata_append(&text, parts.ptr[i].val.text);
      }
      break;
    default:
      for (size_t i = 0; i < results.len; i++) append_texts(&text, results.ptr[i].content);
  }
  return strata_written(&text);
}

bool strata_action_llm_complete(strata_action_llm_request_t *request, strata_action_llm_reply_t *reply,
                                host_error *error) {
  strata_llm_messages messages = request->messages;
  strata_str prompt = messages.len ? text_of(&messages.ptr[messages.len - 1]) : none;
  table_add(&strata_test_host.prompts, (entry){ .value = copied(prompt) });
  if (!strata_test_host.replies.granted) return denied(error, "using the", STR("llm"));
  entry *served = table_next(&strata_test_host.replies);
  if (!served) return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_UPSTREAM, STR("the test has no more replies"));
  if (served->kind != STRATA_OK) return fail_with_entry(error, served);
  strata_llm_part *part = strata_alloc(sizeof *part);
  *reply = (strata_action_llm_reply_t){
    .parts = { part, 1 }, .finish = (uint8_t)served->finish, .model = STR("scripted") };
  if (served->finish == STRATA_FINISH_TOOL_CALLS) {
    strata_llm_tool_call call = { STR("call-1"), served->key, served->value };
    *part = (strata_llm_part){ STRATA_ACTION_LLM_ASSISTANT_PART_TOOL_CALL, { .tool_call = call } };
  } else {
    *part = (strata_llm_part){ STRATA_ACTION_LLM_ASSISTANT_PART_TEXT, { .text = served->value } };
    reply->text = served->value;
  }
  return true;
}

bool strata_action_llm_embed(strata_action_llm_embed_request_t *request, strata_llm_embeddings *embeddings,
                             host_error *error) {
  table *vectors = &strata_test_host.embeddings;
  if (!vectors->granted) return denied(error, "using the", STR("llm"));
  size_t count = request->texts.len;
  *embeddings = (strata_llm_embeddings){
    .vectors = { strata_alloc(count * sizeof(strata_action_list_f32_t)), count }, .model = STR("scripted") };
  for (size_t i = 0; i < count; i++) {
    entry *served = table_next(vectors);
    if (!served) return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_UPSTREAM, STR("the test has no more vectors"));
    embeddings->vectors.ptr[i] = (strata_action_list_f32_t){ &served->component, 1 };
  }
  return true;
}

void strata_action_llm_complete_many(strata_action_llm_list_request_t *requests,
                                     strata_action_llm_list_result_reply_host_error_t *results) {
  *results = (strata_action_llm_list_result_reply_host_error_t){
    strata_alloc(requests->len * sizeof *results->ptr), requests->len };
  for (size_t i = 0; i < requests->len; i++) {
    strata_action_llm_reply_t reply;
    host_error error;
    results->ptr[i].is_err = !strata_action_llm_complete(&requests->ptr[i], &reply, &error);
    if (results->ptr[i].is_err) results->ptr[i].val.err = error;
    else results->ptr[i].val.ok = reply;
  }
}

// Returns whether a path is in the directory of an added file or in a writable directory.
static bool readable(strata_str path) {
  const table *files = &strata_test_host.files, *writable = &strata_test_host.writable;
  for (size_t i = 0; i < files->len; i++) {
    strata_str directory = files->ptr[i].key;
    while (directory.len && directory.ptr[directory.len - 1] != '/') directory.len--;
    if (directory.len && strata_starts_with(path, directory)) return true;
  }
  for (size_t i = 0; i < writable->len; i++) {
    if (strata_starts_with(path, strata_format("%.*s/", STR_ARG(writable->ptr[i].key)))) return true;
  }
  return false;
}

bool strata_action_files_read(strata_str *path, strata_action_list_u8_t *content, host_error *error) {
  if (!readable(*path)) return denied(error, "reading", *path);
  entry *found = table_find(&strata_test_host.files, none, *path);
  if (!found) {
    strata_str message = strata_format("reading `%.*s`: there is no such file", STR_ARG(*path));
    return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_NOT_FOUND, message);
  }
  *content = (strata_action_list_u8_t){ (uint8_t *)found->value.ptr, found->value.len };
  return true;
}

static bool may_write(strata_str path) {
  const table *writable = &strata_test_host.writable;
  bool granted = false;
  for (size_t i = 0; i < writable->len; i++) {
    granted |= strata_starts_with(path, strata_format("%.*s/", STR_ARG(writable->ptr[i].key)));
  }
  return granted;
}

bool strata_action_files_write(strata_str *path, strata_action_list_u8_t *content, host_error *error) {
  if (!may_write(*path)) return denied(error, "writing", *path);
  char *copy = strata_alloc(content->len + 1);
  if (content->len) memcpy(copy, content->ptr, content->len);
  entry *before = table_find(&strata_test_host.files, none, *path);
  if (!before) before = table_add(&strata_test_host.files, (entry){ .key = copied(*path) });
  before->value = (strata_str){ copy, content->len };
  return true;
}

bool strata_action_files_remove(strata_str *path, host_error *error) {
  if (!may_write(*path)) return denied(error, "removing", *path);
  entry *found = table_find(&strata_test_host.files, none, *path);
  if (!found) {
    strata_str message = strata_format("removing `%.*s`: there is no such file", STR_ARG(*path));
    return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_NOT_FOUND, message);
  }
  table *files = &strata_test_host.files;
  *found = files->ptr[--files->len];
  return true;
}

bool strata_action_files_list(strata_str *path, strata_strs *names, host_error *error) {
  strata_str directory = strata_format("%.*s/", STR_ARG(*path));
  if (!readable(directory)) return denied(error, "listing", *path);
  const table *files = &strata_test_host.files;
  *names = (strata_strs){ strata_alloc(files->len * sizeof(strata_str)), 0 };
  for (size_t i = 0; i < files->len; i++) {
    strata_str file = files->ptr[i].key;
    if (!strata_starts_with(file, directory)) continue;
    strata_str name = strata_slice(file, directory.len, file.len);
    size_t end = strata_find(name, STR("/"));
    name = strata_slice(name, 0, end < name.len ? end + 1 : end);
    bool known = false;
    for (size_t j = 0; j < names->len; j++) known |= strata_equal(names->ptr[j], name);
    if (!known) insert_sorted(names, name);
  }
  return true;
}

bool strata_action_human_ask(strata_action_human_question_t *question, strata_action_human_answer_t *answer,
                             host_error *error) {
  table_add(&strata_test_host.questions, (entry){ .value = copied(question->text) });
  entry *served = table_next(&strata_test_host.answers);
  if (served && served->value.ptr) {
    *answer = (strata_action_human_answer_t){ served->value, STRATA_ACTION_HUMAN_SOURCE_PERSON };
    return true;
  }
  if (question->default_.is_some) {
    *answer = (strata_action_human_answer_t){ question->default_.val, STRATA_ACTION_HUMAN_SOURCE_DEFAULT };
    return true;
  }
  return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_EXPIRED, STR("nobody answered in time"));
}

bool strata_action_http_fetch(strata_action_http_request_t *request, strata_action_http_response_t *response,
                              host_error *error) {
  strata_str line = strata_format("%.*s %.*s", STR_ARG(request->method), STR_ARG(request->url));
  table_add(&strata_test_host.fetched, (entry){ .value = line });
  if (!strata_test_host.responses.granted) return denied(error, "fetching", request->url);
  entry *served = table_next(&strata_test_host.responses);
  if (!served) return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_UPSTREAM, STR("the test has no more responses"));
  if (served->kind != STRATA_OK) return fail_with_entry(error, served);
  *response = (strata_action_http_response_t){
    .status = served->status, .body = { (uint8_t *)served->value.ptr, served->value.len } };
  return true;
}

void strata_action_http_fetch_many(strata_action_http_list_request_t *requests,
                                   strata_action_http_list_result_response_host_error_t *results) {
  *results = (strata_action_http_list_result_response_host_error_t){
    strata_alloc(requests->len * sizeof *results->ptr), requests->len };
  for (size_t i = 0; i < requests->len; i++) {
    strata_action_http_response_t response;
    host_error error;
    results->ptr[i].is_err = !strata_action_http_fetch(&requests->ptr[i], &response, &error);
    if (results->ptr[i].is_err) results->ptr[i].val.err = error;
    else results->ptr[i].val.ok = response;
  }
}

bool strata_action_secrets_placeholder(strata_str *name, strata_str *placeholder, host_error *error) {
  if (!table_find(&strata_test_host.secrets, none, *name)) return denied(error, "naming the secret", *name);
  *placeholder = strata_format("{{secret:%.*s}}", STR_ARG(*name));
  return true;
}

bool strata_action_tools_list(strata_action_tools_list_tool_t *tools, host_error *error) {
  table *granted = &strata_test_host.tools;
  if (!granted->len) return denied(error, "listing tools", STR(""));
  *tools = (strata_action_tools_list_tool_t){ strata_alloc(granted->len * sizeof *tools->ptr), granted->len };
  for (size_t i = 0; i < granted->len; i++) {
    tools->ptr[i] = (strata_action_tools_tool_t){ granted->ptr[i].key, STR(""), STR("{\"type\":\"object\"}") };
  }
  return true;
}

bool strata_action_tools_call(strata_action_tools_tool_call_t *call, strata_str *result, host_error *error) {
  entry *found = table_find(&strata_test_host.tools, none, call->name);
  if (!found) return denied(error, "calling the tool", call->name);
  if (found->kind != STRATA_OK) return fail(error, STRATA_ACTION_TYPES_HOST_ERROR_KIND_FAILED, found->value);
  *result = found->value;
  return true;
}

void strata_action_tools_call_many(strata_action_tools_list_tool_call_t *calls,
                                   strata_action_tools_list_result_json_host_error_t *results) {
  *results = (strata_action_tools_list_result_json_host_error_t){
    strata_alloc(calls->len * sizeof *results->ptr), calls->len };
  for (size_t i = 0; i < calls->len; i++) {
    strata_str result;
    host_error error;
    results->ptr[i].is_err = !strata_action_tools_call(&calls->ptr[i], &result, &error);
    if (results->ptr[i].is_err) results->ptr[i].val.err = error;
    else results->ptr[i].val.ok = result;
  }
}

bool strata_action_mcp_call_tool(strata_str *server, strata_str *tool, strata_str *arguments,
                                 strata_action_mcp_tool_result_t *result, host_error *error) {
  (void)arguments;
  strata_str name = strata_format("%.*s/%.*s", STR_ARG(*server), STR_ARG(*tool));
  entry *found = table_find(&strata_test_host.servers, none, name);
  if (!found) return denied(error, "calling the tool", name);
  if (found->kind != STRATA_OK) return fail_with_entry(error, found);
  *result = (strata_action_mcp_tool_result_t){ .text = found->value, .content = STR("[]") };
  return true;
}

bool strata_action_env_get(strata_str *name, strata_action_option_string_t *value, host_error *error) {
  entry *found = table_find(&strata_test_host.variables, none, *name);
  if (!found) return denied(error, "reading the variable", *name);
  *value = (strata_action_option_string_t){ found->value.ptr != NULL, found->value };
  return true;
}
