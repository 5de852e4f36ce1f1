// What the host does for an action. What the team file does not grant fails with `STRATA_DENIED`.
#ifndef STRATA_HOST_H
#define STRATA_HOST_H

#include "strata_json.h"

// What came of something that can fail. `STRATA_OK` is 0: `if (error.kind)` asks whether it failed.
typedef enum {
  STRATA_OK,
  // It failed, and trying again unchanged would fail again.
  STRATA_ERROR,
  // It failed in passing: the host may try the action again, within its `retries`.
  STRATA_RETRYABLE,
  // Not granted in the team file; the message names what to write there.
  STRATA_DENIED,
  // A limit of the host, or something behind it that failed.
  STRATA_HOST,
  // The request makes no sense: bad JSON, an unknown scope, a bad path.
  STRATA_INVALID,
  // The file does not exist.
  STRATA_NOT_FOUND,
  // The service behind the host failed, also after its retries.
  STRATA_UPSTREAM,
  // The action's own budget does not cover the call.
  STRATA_OUT_OF_BUDGET,
  // Nobody answered in time.
  STRATA_EXPIRED,
} strata_kind;

typedef struct {
  strata_kind kind;
  // What was attempted, and why it failed. The first line is the summary.
  strata_str message;
} strata_error;

#define STRATA_SUCCESS ((strata_error){ STRATA_OK, { 0, 0 } })

// An error with a message like that of printf.
strata_error strata_fail(strata_kind kind, const char *format, ...) STRATA_PRINTF(2, 3);

// Returns from the calling function if something failed.
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

// A piece of a message: a text, an image or a file. Those that an action receives refer to bytes that the host has
// stored; they can be passed on as they are.
typedef strata_action_types_part_t strata_part;
typedef strata_action_types_list_part_t strata_parts;

strata_part strata_part_text(strata_str text);
// An image or a file, from its media type (`image/png`) and its bytes.
strata_part strata_part_image(strata_str media_type, strata_str bytes);
strata_part strata_part_file(strata_str media_type, strata_str bytes);
// The bytes of an image or a file, or the text. `STRATA_INVALID` for an address, which the host does not read;
// `STRATA_NOT_FOUND` if this call did not receive it.
strata_error strata_part_load(const strata_part *part, strata_str *bytes);

// The structured content of a message; `null` where it has none.
strata_json *strata_message_data(const strata_message *message);

// A message to publish before the action's output, when the step commits. All but `content` may be left out.
typedef struct {
  strata_str content;
  const strata_json *data;
  // Images and files, in order.
  strata_parts parts;
  // Names, aliases, groups, `<all>`, `<self>`; none leaves it to the team file.
  strata_strs to;
  // The label; none takes the action's name.
  strata_str cause_by;
  // An itinerary that travels with the message.
  strata_hops route;
} strata_emission;

strata_error strata_emit(const strata_emission *emission);

// What lasts between calls. A scope is `role` (private to the acting role) or one that the team file declares.
// `value` becomes `null` where the key is absent.
strata_error strata_state_get(strata_str scope, strata_str key, strata_json **value);
strata_error strata_state_set(strata_str scope, strata_str key, const strata_json *value);
strata_error strata_state_delete(strata_str scope, strata_str key);
strata_error strata_state_keys(strata_str scope, strata_strs *keys);

// How many of the newest messages are wanted: at most `messages` and never more than 1000, and at most `bytes` of text
// and data.
typedef strata_action_memory_bounds_t strata_bounds;

// What the acting role remembers, oldest first: `strata_memory_recent((strata_bounds){ 10, UINT32_MAX })`.
strata_messages strata_memory_recent(strata_bounds bounds);
strata_messages strata_memory_by_label(strata_str label, strata_bounds bounds);

// Lines for the operator.
void strata_log_debug(const char *format, ...) STRATA_PRINTF(1, 2);
void strata_log_info(const char *format, ...) STRATA_PRINTF(1, 2);
void strata_log_warn(const char *format, ...) STRATA_PRINTF(1, 2);
void strata_log_error(const char *format, ...) STRATA_PRINTF(1, 2);

// Milliseconds since 1970, from the host: a repeated attempt is served the recorded readings.
double strata_unix_time_ms(void);
// Waits in the host. That takes no CPU time of the action's.
void strata_sleep(uint32_t duration_ms);

// Random bytes from the host, at most 65536, the same in a repeated attempt.
strata_error strata_random(uint32_t length, strata_str *bytes);

// Files below the granted directories, by their guest path.
strata_error strata_file_read(strata_str path, strata_str *content);
// Creates or replaces a file, with the directories above it.
strata_error strata_file_write(strata_str path, strata_str content);
// Removes a file or an empty directory.
strata_error strata_file_remove(strata_str path);
// The names in a directory, sorted; those of directories end in `/`.
strata_error strata_file_list(strata_str path, strata_strs *names);

// A variable of the host's environment; its `ptr` is null where the host has none of that name.
strata_error strata_env(strata_str name, strata_str *value);

// The text that stands for a secret in a request. The host puts the secret in where the request leaves it.
strata_error strata_secret(strata_str name, strata_str *placeholder);

// What a person is asked. All but `text` may be left out.
typedef struct {
  strata_str text;
  // JSON Schema that the answer must follow.
  const strata_json *schema;
  // Texts one of which must be the answer.
  strata_strs choices;
  // Seconds there are for an answer; 0 waits for ever.
  uint32_t expires_s;
  // The answer that is taken when the time is over.
  const strata_json *otherwise;
  // Where it is put whether `otherwise` was taken.
  bool *by_default;
} strata_question;

// Asks a person, and returns with the answer, be it days later: the call ends here and is made again, served what it
// had got from the host before. What comes before a question must come out the same again.
strata_error strata_ask(const strata_question *question, strata_json **answer);

typedef strata_action_http_header_t strata_header;
typedef strata_action_http_list_header_t strata_headers;

// A request. All but `method` and `url` may be left out.
typedef struct {
  strata_str method;
  strata_str url;
  strata_headers headers;
  strata_str body;
  // Names of secrets whose placeholders the host replaces in headers, query and body.
  strata_strs secrets;
  // How long the exchange may take; 0 takes 30 seconds.
  uint32_t timeout_ms;
  // For writes: the service knows a repetition by this key, so that the request can be made again when its response
  // was lost. Build it from the attempt's key.
  strata_str idempotency_key;
} strata_http_request;

// What came back. Any status is a response; 0 stands for a write in doubt that the operator skipped.
typedef struct {
  uint16_t status;
  // Names in lower case.
  strata_headers headers;
  strata_str body;
} strata_http_response;

strata_error strata_http_fetch(const strata_http_request *request, strata_http_response *response);
// The body of whatever a `GET` answers.
strata_error strata_http_get(strata_str url, strata_http_response *response);

// What one of several requests came to: `response` is set if `error.kind` is `STRATA_OK`.
typedef struct {
  strata_error error;
  strata_http_response response;
} strata_http_result;

// Makes several requests at once, at most 64. `results` has room for as many.
void strata_http_fetch_many(const strata_http_request *requests, size_t count, strata_http_result *results);

// The first header with this name, in any case; its `ptr` is null where there is none.
strata_str strata_http_header(const strata_http_response *response, strata_str name);

#endif
