// The functions of strata_testing.h: grants, scripted results, and what the action did.
#include "table.h"
#include <stdio.h>
#include <string.h>

test_host strata_test_host;
static int failures;

entry *table_add(table *into, entry added) {
  if (into->len == into->room) {
    size_t room = into->room ? 2 * into->room : 8;
    entry *larger = strata_alloc(room * sizeof *larger);
    if (into->len) memcpy(larger, into->ptr, into->len * sizeof *larger);
    into->ptr = larger;
    into->room = room;
  }
  into->granted = true;
  into->ptr[into->len] = added;
  return &into->ptr[into->len++];
}

entry *table_find(table *in, strata_str scope, strata_str key) {
  for (size_t i = 0; i < in->len; i++) {
    if (strata_equal(in->ptr[i].scope, scope) && strata_equal(in->ptr[i].key, key)) return &in->ptr[i];
  }
  return NULL;
}

void table_remove(table *from, entry *what) {
  size_t at = (size_t)(what - from->ptr);
  memmove(what, what + 1, (--from->len - at) * sizeof *what);
}

entry *table_next(table *from) {
  return from->served < from->len ? &from->ptr[from->served++] : NULL;
}

strata_str table_value(const table *in, size_t index) {
  return index < in->len ? in->ptr[index].value : (strata_str){ 0, 0 };
}

void strata_test_begin(void) {
  strata_test_host = (test_host){ 0 };
  strata_test_scope("role");
}

strata_message strata_test_message(const char *cause_by, const char *content, const char *data) {
  return (strata_message){
    .id = strata_from("test"),
    .content = strata_from(content),
    .data = { data != NULL, strata_from(data) },
    .cause_by = strata_from(cause_by),
  };
}

strata_call strata_test_call(const char *news, const char *config) {
  strata_call call = { .attempt = 1, .idempotency_key = STR("run/0/Tester/0"), .action = STR("Test"),
                       .arguments = strata_json_new_null() };
  strata_str problem;
  call.role.name = STR("Tester");
  if (!strata_json_parse(config ? strata_from(config) : STR("null"), &call.config, &problem)) {
    strata_test_expect(false, strata_zero_terminated(problem), "the config of a call", 0);
  }
  if (news) {
    call.news.ptr = strata_alloc(sizeof(strata_message));
    call.news.ptr[0] = strata_test_message("UserRequirement", news, NULL);
    call.news.len = 1;
  }
  return call;
}

void strata_test_reply(const char *text) {
  table_add(&strata_test_host.replies, (entry){ .value = strata_from(text) });
}

void strata_test_tool_call(const char *tool, const char *arguments) {
  entry added = { .key = strata_from(tool), .value = strata_from(arguments), .finish = STRATA_FINISH_TOOL_CALLS };
  table_add(&strata_test_host.replies, added);
}

void strata_test_truncated_reply(const char *text) {
  table_add(&strata_test_host.replies, (entry){ .value = strata_from(text), .finish = STRATA_FINISH_LENGTH });
}

void strata_test_embedding(float component) {
  table_add(&strata_test_host.embeddings, (entry){ .component = component });
}

void strata_test_blob(const char *digest, const char *bytes) {
  table_add(&strata_test_host.blobs, (entry){ .key = strata_from(digest), .value = strata_from(bytes) });
}

void strata_test_llm_error(strata_kind kind, const char *message) {
  table_add(&strata_test_host.replies, (entry){ .value = strata_from(message), .kind = kind });
}

void strata_test_response(uint16_t status, const char *body) {
  table_add(&strata_test_host.responses, (entry){ .value = strata_from(body), .status = status });
}

void strata_test_http_error(strata_kind kind, const char *message) {
  table_add(&strata_test_host.responses, (entry){ .value = strata_from(message), .kind = kind });
}

void strata_test_answer(const char *json) {
  table_add(&strata_test_host.answers, (entry){ .value = strata_from(json) });
}

void strata_test_tool(const char *name, const char *json) {
  table_add(&strata_test_host.tools, (entry){ .key = strata_from(name), .value = strata_from(json) });
}

void strata_test_tool_error(const char *name, const char *message) {
  table_add(&strata_test_host.tools,
            (entry){ .key = strata_from(name), .value = strata_from(message), .kind = STRATA_FAILED });
}

void strata_test_mcp(const char *name, const char *text) {
  table_add(&strata_test_host.servers, (entry){ .key = strata_from(name), .value = strata_from(text) });
}

void strata_test_mcp_error(const char *name, strata_kind kind, const char *message) {
  table_add(&strata_test_host.servers,
            (entry){ .key = strata_from(name), .value = strata_from(message), .kind = kind });
}

void strata_test_secret(const char *name) {
  table_add(&strata_test_host.secrets, (entry){ .key = strata_from(name) });
}

void strata_test_variable(const char *name, const char *value) {
  table_add(&strata_test_host.variables, (entry){ .key = strata_from(name), .value = strata_from(value) });
}

void strata_test_file(const char *path, const char *content) {
  table_add(&strata_test_host.files, (entry){ .key = strata_from(path), .value = strata_from(content) });
}

void strata_test_writable(const char *directory) {
  table_add(&strata_test_host.writable, (entry){ .key = strata_from(directory) });
}

void strata_test_scope(const char *name) {
  table_add(&strata_test_host.scopes, (entry){ .key = strata_from(name) });
}

void strata_test_state(const char *scope, const char *key, const char *json) {
  strata_test_scope(scope);
  entry added = { .scope = strata_from(scope), .key = strata_from(key), .value = strata_from(json) };
  table_add(&strata_test_host.state, added);
}

void strata_test_remember(strata_message message) {
  strata_messages *memory = &strata_test_host.memory;
  strata_message *larger = strata_alloc((memory->len + 1) * sizeof *larger);
  if (memory->len) memcpy(larger, memory->ptr, memory->len * sizeof *larger);
  larger[memory->len] = message;
  *memory = (strata_messages){ larger, memory->len + 1 };
}

strata_str strata_test_prompt(size_t index) {
  return table_value(&strata_test_host.prompts, index);
}

strata_str strata_test_question(size_t index) {
  return table_value(&strata_test_host.questions, index);
}

strata_str strata_test_fetched(size_t index) {
  return table_value(&strata_test_host.fetched, index);
}

strata_str strata_test_emitted(size_t index) {
  return table_value(&strata_test_host.emitted, index);
}

strata_str strata_test_replaced(size_t index) {
  return table_value(&strata_test_host.replaced, index);
}

strata_str strata_test_logged(size_t index) {
  return table_value(&strata_test_host.logged, index);
}

strata_str strata_test_value(const char *scope, const char *key) {
  entry *found = table_find(&strata_test_host.state, strata_from(scope), strata_from(key));
  return found ? found->value : (strata_str){ 0, 0 };
}

strata_str strata_test_content(const char *path) {
  entry *found = table_find(&strata_test_host.files, (strata_str){ 0, 0 }, strata_from(path));
  return found ? found->value : (strata_str){ 0, 0 };
}

double strata_test_slept_ms(void) {
  return strata_test_host.slept_ms;
}

void strata_test_expect(bool holds, const char *condition, const char *file, int line) {
  if (holds) return;
  failures++;
  fprintf(stderr, "%s:%d: expected %s\n", file, line, condition);
}

void strata_test_expect_text(strata_str text, const char *expected, const char *file, int line) {
  if (strata_equal(text, strata_from(expected))) return;
  failures++;
  fprintf(stderr, "%s:%d: expected `%s`, got `%.*s`\n", file, line, expected, STR_ARG(text));
}

void strata_test_expect_kind(strata_error error, strata_kind kind, const char *file, int line) {
  if (error.kind == kind) return;
  failures++;
  const char *format = "%s:%d: expected an outcome of kind %d, got %d: %.*s\n";
  fprintf(stderr, format, file, line, (int)kind, (int)error.kind, STR_ARG(error.message));
}

int strata_test_run(void (*const tests[])(void), size_t count, const char *names) {
  for (size_t i = 0; i < count; i++) {
    size_t length = strcspn(names, ", ");
    int before = failures;
    strata_test_begin();
    tests[i]();
    printf("%s %.*s\n", failures == before ? "ok    " : "FAILED", (int)length, names);
    names += length;
    names += strspn(names, ", ");
  }
  return failures ? 1 : 0;
}
