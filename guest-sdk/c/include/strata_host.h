// The functions of the host. A function returns `STRATA_DENIED` if the team file does not grant what it needs.
#ifndef STRATA_HOST_H
#define STRATA_HOST_H

#include "strata_json.h"

// The kind of an error. `STRATA_OK` is 0, so `if (error.kind)` tests for an error.
typedef enum {
  STRATA_OK,
  // The action failed, and another attempt would fail in the same way.
  STRATA_ERROR,
  // The action failed, and another attempt may succeed. The host retries it up to `limits.retries` times.
  STRATA_RETRYABLE,
  // The team file does not grant this. The message names the grant to add.
  STRATA_DENIED,
  // A call of the host failed.
  STRATA_HOST,
  // The request is not valid, e.g. it names an unknown scope or a path that is not absolute.
  STRATA_INVALID,
  // The file, directory or stored image does not exist.
  STRATA_NOT_FOUND,
  // The service that the host called failed, and so did the host's retries.
  STRATA_UPSTREAM,
  // The remaining budget of the action does not cover the call.
  STRATA_OUT_OF_BUDGET,
  // The time limit of a question passed without an answer.
  STRATA_EXPIRED,
  // The tool that the action called reported an error, or the call was rejected.
  STRATA_FAILED,
} strata_kind;

// The outcome of a function that can fail.
typedef struct {
  strata_kind kind;
  // What was attempted, and why it failed. The first line is the summary.
  strata_str message;
} strata_error;

#define STRATA_SUCCESS ((strata_error){ STRATA_OK, { 0, 0 } })

// Returns an error whose message is formatted as by printf.
strata_error strata_fail(strata_kind kind, const char *format, ...) STRATA_PRINTF(2, 3);

// Evaluates an expression of the type `strata_error`, and returns it from the calling function if it is an error.
#define STRATA_TRY(expression)                       \
  do {                                               \
    strata_error strata_tried = (expression);        \
    if (strata_tried.kind != STRATA_OK) return strata_tried; \
  } while (0)

typedef strata_action_types_message_t strata_message;
typedef strata_action_types_list_message_t strata_messages;
typedef strata_action_types_profile_t strata_profile;
typedef strata_action_types_task_t strata_task;
typedef strata_action_types_hop_t strata_hop;
typedef strata_action_types_list_hop_t strata_hops;

// A part of a message: text, an image or a file. Those that an action receives refer to bytes that the host has stored.
// They can be passed on as they are.
typedef strata_action_types_part_t strata_part;
typedef strata_action_types_list_part_t strata_parts;

// Returns a text as a part.
strata_part strata_part_text(strata_str text);

// Returns an image with these bytes. `media_type` is its media type, e.g. `image/png`.
strata_part strata_part_image(strata_str media_type, strata_str bytes);

// Returns a file that is not an image, with these bytes.
strata_part strata_part_file(strata_str media_type, strata_str bytes);

// Sets `*bytes` to the bytes of an image or a file, or to the text. Returns `STRATA_INVALID` for a URL, which the host
// does not read, and `STRATA_NOT_FOUND` if this attempt did not receive the image or file.
strata_error strata_part_load(const strata_part *part, strata_str *bytes);

// Returns the structured content of a message, or `null` if it has none.
strata_json *strata_message_data(const strata_message *message);

// A message to publish. All fields except `content` are optional.
typedef struct {
  // The text.
  strata_str content;
  // The structured content.
  const strata_json *data;
  // The images and files, in order.
  strata_parts parts;
  // The recipients: names, aliases, groups, `<all>` or `<self>`. If there are none, routes and watched labels decide.
  // `<nobody>` alone means that nobody receives it.
  strata_strs to;
  // The label. If it is absent, the name of the action.
  strata_str cause_by;
  // An itinerary that travels with the message.
  strata_hops route;
} strata_emission;

// Publishes a message when the step is committed, before the action's output. It is discarded if this attempt fails.
strata_error strata_emit(const strata_emission *emission);

// State that persists between calls. A scope is `role`, which is private to the acting role, or one that the team file
// declares under `[env.scope]`; any other name returns `STRATA_INVALID`. The writer sees its own writes at once, other
// roles after the step has been committed. The writes of a failed attempt are discarded.

// Sets `*value` to the value of a key, or to `null` if there is none.
strata_error strata_state_get(strata_str scope, strata_str key, strata_json **value);

// Sets the value of a key. In a scope with a reducer, passes the value to the reducer.
strata_error strata_state_set(strata_str scope, strata_str key, const strata_json *value);

// Deletes a key. Does nothing if it does not exist.
strata_error strata_state_delete(strata_str scope, strata_str key);

// Sets `*keys` to the keys of a scope, in sorted order.
strata_error strata_state_keys(strata_str scope, strata_strs *keys);

// The maximum number of messages, never more than 1000, and the maximum number of bytes of text and data.
typedef strata_action_memory_bounds_t strata_bounds;

// Returns the newest messages in the memory of the acting role, oldest first:
// `strata_memory_recent((strata_bounds){ 10, UINT32_MAX })`.
strata_messages strata_memory_recent(strata_bounds bounds);

// Returns the newest messages with this label, oldest first.
strata_messages strata_memory_by_label(strata_str label, strata_bounds bounds);

// Replaces the oldest `up_to` messages of the conversation in which this action is a tool call, in what the model is
// sent, by a text. It takes effect with the next request to the model, if the action succeeds. The first news and the
// newest reply with its results stay. A reply and the results of its calls are replaced together or not at all.
strata_error strata_memory_replace(uint32_t up_to, strata_str summary);

// Write a line, formatted as by printf, to the log of the action, which the operator reads.
void strata_log_debug(const char *format, ...) STRATA_PRINTF(1, 2);
void strata_log_info(const char *format, ...) STRATA_PRINTF(1, 2);
void strata_log_warn(const char *format, ...) STRATA_PRINTF(1, 2);
void strata_log_error(const char *format, ...) STRATA_PRINTF(1, 2);

// Returns the milliseconds since 1970-01-01T00:00:00Z. Readings are recorded; a repeated attempt gets the recorded
// ones.
double strata_unix_time_ms(void);

// Suspends the action. This counts toward its `timeout` limit, not toward `cpu`.
void strata_sleep(uint32_t duration_ms);

// Sets `*bytes` to random bytes, the same in a repeated attempt. Returns `STRATA_INVALID` if `length` is greater than
// 65536.
strata_error strata_random(uint32_t length, strata_str *bytes);

// Files in the directories that `allow.dirs` grants, by their paths in the guest, e.g. `/out/game.html`.

// Sets `*content` to the content of a file. Returns `STRATA_NOT_FOUND`, or `STRATA_INVALID` if it is not a regular
// file.
strata_error strata_file_read(strata_str path, strata_str *content);

// Creates or replaces a file. Missing parent directories inside the grant are created.
strata_error strata_file_write(strata_str path, strata_str content);

// Removes a file or an empty directory. Returns `STRATA_NOT_FOUND`, or `STRATA_INVALID` if the directory is not empty.
strata_error strata_file_remove(strata_str path);

// Sets `*names` to the names in a directory, in sorted order. Names of directories end in `/`.
strata_error strata_file_list(strata_str path, strata_strs *names);

// Sets `*value` to the value of an environment variable of the host. `ptr` is null if it is not set.
strata_error strata_env(strata_str name, strata_str *value);

// Sets `*placeholder` to the placeholder of a secret, which the host replaces by the value when it sends a request.
strata_error strata_secret(strata_str name, strata_str *placeholder);

typedef strata_action_tools_tool_t strata_granted_tool;
typedef strata_action_tools_list_tool_t strata_granted_tools;

// Sets `*tools` to the tools that `allow.tools` grants, in the order of the team file.
strata_error strata_tools_list(strata_granted_tools *tools);

// Calls a tool of the role, and sets `*result` to the data of its result, or else to its text. `arguments` may be null.
// The call is an attempt of its own, and is recorded: a repeated attempt of the action is served what has ended if it
// makes the same calls. Returns `STRATA_FAILED` if the tool reports an error or the call is rejected.
strata_error strata_tools_call(strata_str name, const strata_json *arguments, strata_json **result);

// A call of a tool, for `strata_tools_call_many`.
typedef struct {
  strata_str name;
  // May be null.
  const strata_json *arguments;
  // The result, if `error.kind` is `STRATA_OK`.
  strata_json *result;
  strata_error error;
} strata_tools_request;

// Makes `count` calls at the same time, at most 64, and sets the result or the error of each.
void strata_tools_call_many(strata_tools_request *calls, size_t count);

// The result of a tool of an MCP server.
typedef struct {
  // All of it as text: the texts in their order, and the structured data as JSON unless a text says the same. Images and
  // other bytes are named by their type and size.
  strata_str text;
  // The structured data, or `null`.
  strata_json *data;
  // The blocks as the server sent them: an array. Bytes are in Base64.
  strata_json *content;
  // Whether the tool says that it failed.
  bool is_error;
} strata_mcp_result;

// Calls a tool of an MCP server, which `allow.mcp` grants, and sets `*result`. `arguments` may be null. Results are
// recorded. If the answer of a call that may change something is lost, it is repeated only if that is harmless;
// otherwise the run stops until the operator has decided. Returns `STRATA_NOT_FOUND` if the server has no such tool,
// `STRATA_INVALID` if it refuses the call, and `STRATA_UPSTREAM` if there is no answer.
strata_error strata_mcp_call(strata_str server, strata_str tool, const strata_json *arguments,
                             strata_mcp_result *result);

// A question to a person. All fields except `text` are optional.
typedef struct {
  // The question, in plain text.
  strata_str text;
  // The JSON Schema of the answer.
  const strata_json *schema;
  // The allowed answers, at most 100.
  strata_strs choices;
  // The time limit in seconds. With 0, the question does not expire.
  uint32_t expires_s;
  // The answer to use when the question expires.
  const strata_json *otherwise;
  // Is set to whether `otherwise` was used.
  bool *by_default;
} strata_question;

// Asks a question, and sets `*answer`. The attempt ends at the question; when it is answered, the action is run again
// and gets the recorded results of its earlier host calls. What it computes before the question must give the same
// result each time. Returns `STRATA_EXPIRED` if the question expires and `otherwise` is not set.
strata_error strata_ask(const strata_question *question, strata_json **answer);

typedef strata_action_http_header_t strata_header;
typedef strata_action_http_list_header_t strata_headers;

// An HTTP request. All fields except `method` and `url` are optional.
typedef struct {
  strata_str method;
  strata_str url;
  strata_headers headers;
  strata_str body;
  // The names of the secrets whose placeholders the host replaces in the headers, the query and the body.
  strata_strs secrets;
  // The time limit of the whole exchange, at most 600000. 0 means 30000.
  uint32_t timeout_ms;
  // For requests other than `GET` and `HEAD`: a key by which the service recognizes a repeated request. Without a key,
  // a request whose response was lost is not repeated. Build it from the attempt's key.
  strata_str idempotency_key;
} strata_http_request;

// An HTTP response.
typedef struct {
  // The status code; 0 for a write that was in doubt and that the operator skipped.
  uint16_t status;
  // The headers, with names in lower case.
  strata_headers headers;
  strata_str body;
} strata_http_response;

// Sends a request, and sets `*response`, whatever its status is. Returns `STRATA_DENIED` if the request is not granted,
// `STRATA_INVALID` if it is not valid, and `STRATA_UPSTREAM` if there is no response, or one of more than 8 MiB.
strata_error strata_http_fetch(const strata_http_request *request, strata_http_response *response);

// Sends a `GET` request. The errors are those of `strata_http_fetch`.
strata_error strata_http_get(strata_str url, strata_http_response *response);

// The result of one of several requests: `response` is valid if `error.kind` is `STRATA_OK`.
typedef struct {
  strata_error error;
  strata_http_response response;
} strata_http_result;

// Sends several requests in parallel, at most 64. Sets `results`, an array of `count` elements, in the order of the
// requests.
void strata_http_fetch_many(const strata_http_request *requests, size_t count, strata_http_result *results);

// Returns the value of the first header with this name, in any case. `ptr` is null if there is none.
strata_str strata_http_header(const strata_http_response *response, strata_str name);

#endif
