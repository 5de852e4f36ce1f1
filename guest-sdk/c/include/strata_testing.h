// Native tests of actions, with a host in memory and without WebAssembly.
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
// As with the real host, nothing is available unless it is granted. Limits are not enforced, and JSON is not validated
// against the schemas of a team file.
#ifndef STRATA_TESTING_H
#define STRATA_TESTING_H

#include "strata_action.h"

// Resets the host: nothing is granted, `role` is the only scope, and the time is 0. The time advances only when the
// action sleeps. Called before each test.
void strata_test_begin(void);

// Returns a call with one message as news, and a config as JSON. Either may be a null pointer. Other fields, such as
// `arguments`, can be set in the returned call.
strata_call strata_test_call(const char *news, const char *config);

// Returns a message, for news, outputs or the memory. `data` is JSON or a null pointer.
strata_message strata_test_message(const char *cause_by, const char *content, const char *data);

// Grant the llm, and add a reply: a text, a call of a tool, a truncated text, or an error. Replies are used in order.
void strata_test_reply(const char *text);
void strata_test_tool_call(const char *tool, const char *arguments);
void strata_test_truncated_reply(const char *text);
void strata_test_llm_error(strata_kind kind, const char *message);

// Grants the llm, and adds the vector of the next text to embed, which has one component.
void strata_test_embedding(float component);

// Adds the bytes of a received image or file, by its digest.
void strata_test_blob(const char *digest, const char *bytes);

// Grant http, and add a response or an error. Responses are used in order.
void strata_test_response(uint16_t status, const char *body);
void strata_test_http_error(strata_kind kind, const char *message);

// Adds the answer of a person, as JSON. With a null pointer, the question expires.
void strata_test_answer(const char *json);

// Grant a tool, and set what all calls of it return, as JSON; or the error that they return.
void strata_test_tool(const char *name, const char *json);
void strata_test_tool_error(const char *name, const char *message);

// Grant a tool of an MCP server, `SERVER/TOOL`, and set the text that all calls of it return; or the error.
void strata_test_mcp(const char *name, const char *text);
void strata_test_mcp_error(const char *name, strata_kind kind, const char *message);

// Grant a secret; an environment variable; reading the directory of a file; writing in a directory.
void strata_test_secret(const char *name);
void strata_test_variable(const char *name, const char *value);
void strata_test_file(const char *path, const char *content);
void strata_test_writable(const char *directory);

// Declares a scope.
void strata_test_scope(const char *name);

// Sets a value in a scope, as JSON.
void strata_test_state(const char *scope, const char *key, const char *json);

// Adds a message to the memory of the role.
void strata_test_remember(strata_message message);

// Return what the action did: the prompt, question, HTTP request, emission, replacement (the number of messages, a space
// and the text) or log line with this index, from 0. `ptr` is null if there are not so many.
strata_str strata_test_prompt(size_t index);
strata_str strata_test_question(size_t index);
strata_str strata_test_fetched(size_t index);
strata_str strata_test_emitted(size_t index);
strata_str strata_test_replaced(size_t index);
strata_str strata_test_logged(size_t index);

// Returns the current value of a key, as JSON. `ptr` is null if there is none.
strata_str strata_test_value(const char *scope, const char *key);

// Returns the current content of a file. `ptr` is null if there is none.
strata_str strata_test_content(const char *path);

// Returns the total of the milliseconds slept.
double strata_test_slept_ms(void);

// Check a condition. If it is false, the position is printed and the test fails, but continues.
#define STRATA_EXPECT(condition) strata_test_expect((condition), #condition, __FILE__, __LINE__)
#define STRATA_EXPECT_TEXT(text, expected) strata_test_expect_text((text), (expected), __FILE__, __LINE__)
#define STRATA_EXPECT_OK(error) strata_test_expect_kind((error), STRATA_OK, __FILE__, __LINE__)
#define STRATA_EXPECT_KIND(error, kind) strata_test_expect_kind((error), (kind), __FILE__, __LINE__)

void strata_test_expect(bool holds, const char *condition, const char *file, int line);
void strata_test_expect_text(strata_str text, const char *expected, const char *file, int line);
void strata_test_expect_kind(strata_error error, strata_kind kind, const char *file, int line);

// Defines a `main` that runs these tests.
#define STRATA_TESTS(...)                                                        \
  int main(void) {                                                               \
    void (*const tests[])(void) = { __VA_ARGS__ };                               \
    return strata_test_run(tests, sizeof tests / sizeof *tests, #__VA_ARGS__);   \
  }
int strata_test_run(void (*const tests[])(void), size_t count, const char *names);

#endif
