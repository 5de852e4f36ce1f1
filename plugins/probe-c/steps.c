// Executes the steps of the probe.
#include "probe.h"
#include <stdlib.h>
#include <string.h>

static const strata_str nothing;

// Returns a value as text for `{reads}`: strings without quotes, `null` as an empty string, other values as JSON.
static strata_str text_for_reads(const strata_json *value) {
  if (strata_json_is_null(value)) return STR("");
  return strata_json_text(value, strata_json_write(value));
}

static strata_str text_of(const strata_json *step, const char *key) {
  return strata_json_text(strata_json_get(step, key), nothing);
}

static bool has(const strata_json *step, const char *key) {
  return !strata_json_is_null(strata_json_get(step, key));
}

static const strata_json *optional(const strata_json *step, const char *key) {
  return has(step, key) ? strata_json_get(step, key) : NULL;
}

static strata_strs texts(const strata_json *list) {
  strata_strs all = { strata_alloc(strata_json_length(list) * sizeof(strata_str)), strata_json_length(list) };
  for (size_t i = 0; i < all.len; i++) all.ptr[i] = strata_json_text(strata_json_at(list, i), STR(""));
  return all;
}

static strata_hops route(const strata_json *list) {
  strata_hops hops = { strata_alloc(strata_json_length(list) * sizeof(strata_hop)), strata_json_length(list) };
  for (size_t i = 0; i < hops.len; i++) {
    const strata_json *leg = strata_json_at(list, i);
    hops.ptr[i] = (strata_hop){ text_of(leg, "from"), texts(strata_json_get(leg, "to")) };
  }
  return hops;
}

static void add_read(step_results *results, strata_str text) {
  if (results->read_count++) strata_append(&results->reads, STR(","));
  strata_append(&results->reads, text);
}

// Inserts a key into an array of `count` sorted keys, and returns the new count.
static size_t insert_key(strata_str *keys, size_t count, strata_str key) {
  size_t at = count;
  for (; at > 0 && strcmp(strata_zero_terminated(key), strata_zero_terminated(keys[at - 1])) < 0; at--) keys[at] = keys[at - 1];
  keys[at] = key;
  return count + 1;
}

// Returns the value with sorted keys.
static strata_json *sorted(const strata_json *value) {
  size_t length = strata_json_length(value);
  if (strata_json_kind_of(value) == STRATA_JSON_ARRAY) {
    strata_json *list = strata_json_new_array();
    for (size_t i = 0; i < length; i++) strata_json_push(list, sorted(strata_json_at(value, i)));
    return list;
  }
  if (strata_json_kind_of(value) != STRATA_JSON_OBJECT) return (strata_json *)value;
  strata_str *keys = strata_alloc(length * sizeof *keys);
  size_t count = 0;
  for (size_t i = 0; i < length; i++) count = insert_key(keys, count, strata_json_key_at(value, i));
  strata_json *object = strata_json_new_object();
  for (size_t i = 0; i < count; i++) {
    const char *key = strata_zero_terminated(keys[i]);
    strata_json_set(object, key, sorted(strata_json_get(value, key)));
  }
  return object;
}

// Replaces `{inputs}`, `{reads}` and `{arguments}`. Replaced text is not searched for placeholders again.
static strata_str replace_placeholders(strata_str text, const step_results *results, step_context context) {
  strata_messages news = context.news;
  strata_buffer filled = { 0 };
  while (text.len) {
    size_t at = strata_find(text, STR("{"));
    strata_append(&filled, strata_slice(text, 0, at));
    text = strata_slice(text, at, text.len);
    if (strata_starts_with(text, STR("{inputs}"))) {
      for (size_t i = 0; i < news.len; i++) {
        if (i > 0) strata_append(&filled, STR(","));
        strata_append(&filled, news.ptr[i].content);
      }
      text = strata_slice(text, 8, text.len);
    } else if (strata_starts_with(text, STR("{reads}"))) {
      strata_append(&filled, strata_written(&results->reads));
      text = strata_slice(text, 7, text.len);
    } else if (strata_starts_with(text, STR("{arguments}"))) {
      if (context.arguments) strata_append(&filled, strata_json_write(sorted(context.arguments)));
      text = strata_slice(text, 11, text.len);
    } else if (text.len) {
      strata_append(&filled, STR("{"));
      text = strata_slice(text, 1, text.len);
    }
  }
  return strata_written(&filled);
}

// Parses an integer with its unit: `200ms`, `2s`, `1m`, `1h`.
static bool parse_duration(strata_str text, uint64_t *duration_ms) {
  static const struct { const char *unit; uint64_t ms; } units[] = {
    { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };
  size_t digits = 0;
  while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9') digits++;
  if (digits == 0 || digits > 12) return false;
  uint64_t number = strtoull(strata_zero_terminated(strata_slice(text, 0, digits)), NULL, 10);
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strata_equal(strata_slice(text, digits, text.len), strata_from(units[i].unit))) {
      *duration_ms = number * units[i].ms;
      return true;
    }
  }
  return false;
}

static strata_error invalid_duration(strata_str text) {
  return strata_fail(STRATA_ERROR, "reading the config: `%.*s` is not a duration", STR_ARG(text));
}

// The number of `count` steps of this instance. It exceeds 1 only if an instance is used for several calls.
static unsigned counter;

static strata_error state_step(const strata_json *step, step_results *results, bool *known) {
  strata_str scope = strata_json_text(strata_json_get(step, "scope"), STR("role"));
  if (has(step, "set")) return strata_state_set(scope, text_of(step, "set"), strata_json_get(step, "value"));
  if (has(step, "delete")) return strata_state_delete(scope, text_of(step, "delete"));
  if (has(step, "memory")) {
    uint32_t up_to = (uint32_t)strata_json_number(strata_json_get(step, "up_to"), 0);
    return strata_memory_replace(up_to, text_of(step, "memory"));
  }
  if (has(step, "get")) {
    strata_json *value;
    STRATA_TRY(strata_state_get(scope, text_of(step, "get"), &value));
    add_read(results, text_for_reads(value));
    return STRATA_SUCCESS;
  }
  *known = false;
  return STRATA_SUCCESS;
}

// Calls a model, with the images that were added since the last request.
static strata_error ask_model(const strata_json *step, step_results *results, strata_str *read) {
  strata_part parts[1 + sizeof results->images / sizeof *results->images] = { strata_part_text(text_of(step, "llm")) };
  for (size_t i = 0; i < results->image_count; i++) parts[i + 1] = results->images[i];
  strata_llm_message message = strata_llm_user_parts((strata_parts){ parts, results->image_count + 1 });
  results->image_count = 0;
  strata_llm_request request = {
    .messages = { &message, 1 }, .model = text_of(step, "model"), .output_schema = optional(step, "schema") };
  strata_llm_reply reply;
  STRATA_TRY(strata_llm_complete(&request, &reply));
  strata_json *data = reply.data;
  if (request.output_schema && strata_json_is_null(data) && !strata_json_parse(reply.text, &data, NULL)) {
    return strata_fail(STRATA_ERROR, "reading the model's reply: it is not JSON");
  }
  *read = request.output_schema ? strata_json_write(sorted(data)) : reply.text;
  return STRATA_SUCCESS;
}

static strata_str image_type(strata_str path) {
  static const struct { const char *end, *type; } types[] = {
    { ".jpg", "image/jpeg" }, { ".jpeg", "image/jpeg" }, { ".gif", "image/gif" }, { ".webp", "image/webp" } };
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    strata_str end = strata_from(types[i].end);
    if (path.len > end.len && strata_equal(strata_slice(path, path.len - end.len, path.len), end)) {
      return strata_from(types[i].type);
    }
  }
  return STR("image/png");
}

static strata_error add_image(strata_str path, step_results *results) {
  strata_str bytes;
  if (results->image_count == sizeof results->images / sizeof *results->images) {
    return strata_fail(STRATA_ERROR, "adding the image `%.*s`: a request may have at most %zu", STR_ARG(path), results->image_count);
  }
  STRATA_TRY(strata_file_read(path, &bytes));
  results->images[results->image_count++] = strata_part_image(image_type(path), bytes);
  return STRATA_SUCCESS;
}

static strata_error fetch(const strata_json *step, strata_str *body) {
  strata_http_request request = {
    .method = strata_json_text(strata_json_get(step, "method"), STR("GET")),
    .url = text_of(step, "http"),
    .body = text_of(step, "body"),
    .idempotency_key = text_of(step, "key"),
  };
  strata_str secret = text_of(step, "secret");
  strata_header bearer = { .name = STR("authorization") };
  if (secret.ptr) {
    strata_str placeholder;
    STRATA_TRY(strata_secret(secret, &placeholder));
    bearer.value = strata_format("Bearer %.*s", STR_ARG(placeholder));
    request.headers = (strata_headers){ &bearer, 1 };
    request.secrets = (strata_strs){ &secret, 1 };
  }
  strata_http_response response;
  STRATA_TRY(strata_http_fetch(&request, &response));
  *body = response.body;
  return STRATA_SUCCESS;
}

static strata_error ask(const strata_json *step, strata_str *answer) {
  strata_question question = {
    .text = text_of(step, "ask"),
    .schema = optional(step, "schema"),
    .choices = texts(strata_json_get(step, "choices")),
    .otherwise = optional(step, "default"),
  };
  uint64_t expires_ms = 0;
  strata_str expires = text_of(step, "expires");
  if (expires.ptr && !parse_duration(expires, &expires_ms)) return invalid_duration(expires);
  question.expires_s = (uint32_t)((expires_ms + 999) / 1000);
  strata_json *value;
  STRATA_TRY(strata_ask(&question, &value));
  *answer = text_for_reads(value);
  return STRATA_SUCCESS;
}

static strata_error random_bytes(int64_t length, strata_str *hex) {
  strata_str bytes;
  STRATA_TRY(strata_random((uint32_t)length, &bytes));
  strata_buffer text = { 0 };
  for (size_t i = 0; i < bytes.len; i++) strata_appendf(&text, "%02x", (unsigned char)bytes.ptr[i]);
  *hex = strata_written(&text);
  return STRATA_SUCCESS;
}

// Executes a step that reads a value from the host.
static strata_error read_step(const strata_json *step, step_results *results, strata_str *read, bool *known) {
  if (has(step, "llm")) return ask_model(step, results, read);
  if (has(step, "http")) return fetch(step, read);
  if (has(step, "ask")) return ask(step, read);
  if (has(step, "random")) return random_bytes(strata_json_int(strata_json_get(step, "random"), 0), read);
  if (has(step, "read")) return strata_file_read(text_of(step, "read"), read);
  if (has(step, "getenv")) return strata_env(text_of(step, "getenv"), read);
  if (has(step, "secret")) return strata_secret(text_of(step, "secret"), read);
  *known = true;
  if (strata_json_bool(strata_json_get(step, "now"), false)) *read = strata_format("%.0f", strata_unix_time_ms());
  else if (strata_json_bool(strata_json_get(step, "count"), false)) *read = strata_format("%u", ++counter);
  else *known = false;
  return STRATA_SUCCESS;
}

static strata_error execute_step(const strata_json *step, step_context context, step_results *results) {
  if (has(step, "say")) {
    results->has_output = true;
    results->output = (strata_output){
      .content = replace_placeholders(text_of(step, "say"), results, context),
      .data = optional(step, "data"),
      .to = texts(strata_json_get(step, "to")),
      .route = route(strata_json_get(step, "route")),
    };
    return STRATA_SUCCESS;
  }
  if (has(step, "emit")) {
    return strata_emit(&(strata_emission){
      .content = text_of(step, "emit"),
      .data = optional(step, "data"),
      .to = texts(strata_json_get(step, "to")),
      .cause_by = text_of(step, "cause"),
    });
  }
  if (has(step, "sleep")) {
    uint64_t duration_ms;
    if (!parse_duration(text_of(step, "sleep"), &duration_ms)) return invalid_duration(text_of(step, "sleep"));
    strata_sleep(duration_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)duration_ms);
    return STRATA_SUCCESS;
  }
  if (has(step, "write")) return strata_file_write(text_of(step, "write"), text_of(step, "text"));
  if (has(step, "remove")) return strata_file_remove(text_of(step, "remove"));
  if (has(step, "image")) return add_image(text_of(step, "image"), results);
  if (has(step, "choose")) return results->choices = strata_json_get(step, "choose"), STRATA_SUCCESS;
  if (has(step, "plan")) return results->plan = strata_json_get(step, "plan"), STRATA_SUCCESS;

  bool known = true;
  STRATA_TRY(state_step(step, results, &known));
  if (known) return STRATA_SUCCESS;
  known = true;
  strata_str read = nothing;
  STRATA_TRY(read_step(step, results, &read, &known));
  if (known) add_read(results, read);
  else if (strata_json_is_null(strata_json_get(step, "now")) && strata_json_is_null(strata_json_get(step, "count"))) {
    return strata_fail(STRATA_ERROR, "reading the config: `%.*s` is not a step of the probe",
                       STR_ARG(strata_json_write(step)));
  }
  return STRATA_SUCCESS;
}

static bool applies_to(const strata_json *step, uint32_t attempt) {
  const strata_json *attempts = optional(step, "attempts");
  if (!attempts) return true;
  for (size_t i = 0; i < strata_json_length(attempts); i++) {
    if (strata_json_int(strata_json_at(attempts, i), 0) == attempt) return true;
  }
  return false;
}

strata_error execute_steps(const strata_json *config, step_context context, step_results *results) {
  const strata_json *steps = strata_json_get(config, "steps");
  for (size_t i = 0; i < strata_json_length(steps); i++) {
    const strata_json *step = strata_json_at(steps, i);
    if (!applies_to(step, context.attempt)) continue;
    if (has(step, "fail")) {
      STRATA_TRY(misbehave(text_of(step, "fail"), context.action, results));
      if (results->ended) return STRATA_SUCCESS;
      continue;
    }
    STRATA_TRY(execute_step(step, context, results));
  }
  return STRATA_SUCCESS;
}
