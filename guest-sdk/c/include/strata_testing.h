// Native tests of actions: a host in memory. No WebAssembly is involved.
//
//     static void it_greets(void) {
//       strata_test_reply("Salve, Ann");
//       strata_call call = strata_test_call("Ann", "{\"language\":\"Latin\"}");
//       strata_output output = { 0 };
//       STRATA_EXPECT_OK(strata_action_run(&call, &output));
//       STRATA_EXPECT_TEXT(output.content, "Salve, Ann");
//       STRATA_EXPECT_TEXT(strata_test_prompt(0), "Greet in Latin: Ann");
//     }
//
//     STRATA_TESTS(it_greets)
//
// As with the real host nothing is granted that was not granted: without a reply the llm is denied, and so are requests
// without a response and files outside of the directories that were granted. Limits are not played; neither are the
// schemas of a team file.
#ifndef STRATA_TESTING_H
#define STRATA_TESTING_H

#include "strata_action.h"

// A host that grants nothing, knows no scope but `role`, and whose clock stands at 1970 and moves only when the action
// sleeps. Each test begins with one.
void strata_test_begin(void);

// A call with this news and config; null for none. The rest may be set in what is returned, such as the `arguments`.
strata_call strata_test_call(const char *news, const char *config);
// A message, to be put among the news, the outputs or what is remembered.
strata_message strata_test_message(const char *cause_by, const char *content, const char *data);

// Grants the llm and adds a reply, or a failure in place of one. They are served in order.
void strata_test_reply(const char *text);
// Adds a reply that calls a tool with these arguments, and one that was truncated.
void strata_test_tool_call(const char *tool, const char *arguments);
void strata_test_truncated_reply(const char *text);
// Grants the llm and adds the vector of the next text to embed, of one component.
void strata_test_embedding(float component);
// Adds bytes that the action has received as an image or a file, by their digest.
void strata_test_blob(const char *digest, const char *bytes);
void strata_test_llm_error(strata_kind kind, const char *message);
// Grants http and adds a response, or a failure in place of one.
void strata_test_response(uint16_t status, const char *body);
void strata_test_http_error(strata_kind kind, const char *message);
// Adds a person's answer, as JSON; null lets the time pass without one.
void strata_test_answer(const char *json);
// Grants a secret, a variable of the environment, reading a file's directory, writing below a directory.
void strata_test_secret(const char *name);
void strata_test_variable(const char *name, const char *value);
void strata_test_file(const char *path, const char *content);
void strata_test_writable(const char *directory);
// Declares a scope, sets a value in it (as JSON), adds to what the role remembers.
void strata_test_scope(const char *name);
void strata_test_state(const char *scope, const char *key, const char *json);
void strata_test_remember(strata_message message);

// What the action did, each counted from 0; a text whose `ptr` is null where it did not do so much.
strata_str strata_test_prompt(size_t index);
strata_str strata_test_question(size_t index);
strata_str strata_test_fetched(size_t index);
strata_str strata_test_emitted(size_t index);
strata_str strata_test_logged(size_t index);
// A value as JSON, and the content of a file, as they are now.
strata_str strata_test_value(const char *scope, const char *key);
strata_str strata_test_content(const char *path);
double strata_test_slept_ms(void);

// Checks that say where they failed, and let the test go on.
#define STRATA_EXPECT(condition) strata_test_expect((condition), #condition, __FILE__, __LINE__)
#define STRATA_EXPECT_TEXT(text, expected) strata_test_expect_text((text), (expected), __FILE__, __LINE__)
#define STRATA_EXPECT_OK(error) strata_test_expect_kind((error), STRATA_OK, __FILE__, __LINE__)
#define STRATA_EXPECT_KIND(error, kind) strata_test_expect_kind((error), (kind), __FILE__, __LINE__)

void strata_test_expect(bool holds, const char *condition, const char *file, int line);
void strata_test_expect_text(strata_str text, const char *expected, const char *file, int line);
void strata_test_expect_kind(strata_error error, strata_kind kind, const char *file, int line);

// Defines `main`, which runs these tests.
#define STRATA_TESTS(...)                                                        \
  int main(void) {                                                               \
    void (*const tests[])(void) = { __VA_ARGS__ };                               \
    return strata_test_run(tests, sizeof tests / sizeof *tests, #__VA_ARGS__);   \
  }
int strata_test_run(void (*const tests[])(void), size_t count, const char *names);

#endif
