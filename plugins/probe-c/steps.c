// Carries steps out.
#include "probe.h"
#include <stdlib.h>
#include <string.h>

static const strata_str nothing;

// A value as it joins `{reads}`: texts bare, nothing as nothing, all else as JSON.
static strata_str printed(const strata_json *value) {
  if (strata_json_is_null(value)) return STR("");
  return strata_json_text(value, strata_json_write(value));
}

static strata_str text_of(const strata_json *step, const char *key) {
  return strata_json_text(strata_json_get(step, key), nothing);
}

static bool names(const strata_json *step, const char *key) {
  return !strata_json_is_null(strata_json_get(step, key));
}

static const strata_json *given(const strata_json *step, const char *key) {
  return names(step, key) ? strata_json_get(step, key) : NULL;
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

static void add_read(deeds *done, strata_str text) {
  if (done->read_count++) strata_append(&done->reads, STR(","));
  strata_append(&done->reads, text);
}

// Inserts a member into an object whose keys are sorted, as far as `count` of `keys` go.
static size_t insert_key(strata_str *keys, size_t count, strata_str key) {
  size_t at = count;
  for (; at > 0 && strcmp(strata_zero_terminated(key), strata_zero_terminated(keys[at - 1])) < 0; at--) keys[at] = keys[at - 1];
  keys[at] = key;
  return count + 1;
}

// The value with the keys of its objects sorted.
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

// Replaces `{inputs}`, `{reads}` and `{arguments}`. One pass: what is filled in is not looked at again.
static strata_str filled_in(strata_str text, const deeds *done, scene here) {
  strata_messages news = here.news;
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
      strata_append(&filled, strata_written(&done->reads));
      text = strata_slice(text, 7, text.len);
    } else if (strata_starts_with(text, STR("{arguments}"))) {
      if (here.arguments) strata_append(&filled, strata_json_write(sorted(here.arguments)));
      text = strata_slice(text, 11, text.len);
    } else if (text.len) {
      strata_append(&filled, STR("{"));
      text = strata_slice(text, 1, text.len);
    }
  }
  return strata_written(&filled);
}

// A whole number with its unit: `200ms`, `2s`, `1m`, `1h`.
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

static strata_error no_duration(strata_str text) {
  return strata_fail(STRATA_ERROR, "reading the config: `%.*s` is no duration", STR_ARG(text));
}

// How often this instance was counted: always 1, unless it lives longer than one call.
static unsigned counted;

static strata_error state_step(const strata_json *step, deeds *done, bool *known) {
  strata_str scope = strata_json_text(strata_json_get(step, "scope"), STR("role"));
  if (names(step, "set")) return strata_state_set(scope, text_of(step, "set"), strata_json_get(step, "value"));
  if (names(step, "delete")) return strata_state_delete(scope, text_of(step, "delete"));
  if (names(step, "get")) {
    strata_json *value;
    STRATA_TRY(strata_state_get(scope, text_of(step, "get"), &value));
    add_read(done, printed(value));
    return STRATA_SUCCESS;
  }
  *known = false;
  return STRATA_SUCCESS;
}

// Asks a model, with the images that were added since the last request.
static strata_error ask_model(const strata_json *step, deeds *done, strata_str *read) {
  strata_part parts[1 + sizeof done->images / sizeof *done->images] = { strata_part_text(text_of(step, "llm")) };
  for (size_t i = 0; i < done->image_count; i++) parts[i + 1] = done->images[i];
  strata_llm_message message = strata_llm_user_parts((strata_parts){ parts, done->image_count + 1 });
  done->image_count = 0;
  strata_llm_request request = {
    .messages = { &message, 1 }, .model = text_of(step, "model"), .output_schema = given(step, "schema") };
  strata_llm_reply reply;
  STRATA_TRY(strata_llm_complete(&request, &reply));
  strata_json *data = reply.data;
  if (request.output_schema && strata_json_is_null(data) && !strata_json_parse(reply.text, &data, NULL)) {
    return strata_fail(STRATA_ERROR, "reading the model's reply: it is no JSON");
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

static strata_error add_image(strata_str path, deeds *done) {
  strata_str bytes;
  if (done->image_count == sizeof done->images / sizeof *done->images) {
    return strata_fail(STRATA_ERROR, "adding the image `%.*s`: no request takes more than %zu", STR_ARG(path), done->image_count);
  }
  STRATA_TRY(strata_file_read(path, &bytes));
  done->images[done->image_count++] = strata_part_image(image_type(path), bytes);
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
    .schema = given(step, "schema"),
    .choices = texts(strata_json_get(step, "choices")),
    .otherwise = given(step, "default"),
  };
  uint64_t expires_ms = 0;
  strata_str expires = text_of(step, "expires");
  if (expires.ptr && !parse_duration(expires, &expires_ms)) return no_duration(expires);
  question.expires_s = (uint32_t)((expires_ms + 999) / 1000);
  strata_json *value;
  STRATA_TRY(strata_ask(&question, &value));
  *answer = printed(value);
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

// The steps that ask the host for something that joins `{reads}`.
static strata_error read_step(const strata_json *step, deeds *done, strata_str *read, bool *known) {
  if (names(step, "llm")) return ask_model(step, done, read);
  if (names(step, "http")) return fetch(step, read);
  if (names(step, "ask")) return ask(step, read);
  if (names(step, "random")) return random_bytes(strata_json_int(strata_json_get(step, "random"), 0), read);
  if (names(step, "read")) return strata_file_read(text_of(step, "read"), read);
  if (names(step, "getenv")) return strata_env(text_of(step, "getenv"), read);
  if (names(step, "secret")) return strata_secret(text_of(step, "secret"), read);
  *known = true;
  if (strata_json_bool(strata_json_get(step, "now"), false)) *read = strata_format("%.0f", strata_unix_time_ms());
  else if (strata_json_bool(strata_json_get(step, "count"), false)) *read = strata_format("%u", ++counted);
  else *known = false;
  return STRATA_SUCCESS;
}

static strata_error carry_out(const strata_json *step, scene here, deeds *done) {
  if (names(step, "say")) {
    done->said = true;
    done->output = (strata_output){
      .content = filled_in(text_of(step, "say"), done, here),
      .data = given(step, "data"),
      .to = texts(strata_json_get(step, "to")),
      .route = route(strata_json_get(step, "route")),
    };
    return STRATA_SUCCESS;
  }
  if (names(step, "emit")) {
    return strata_emit(&(strata_emission){
      .content = text_of(step, "emit"),
      .data = given(step, "data"),
      .to = texts(strata_json_get(step, "to")),
      .cause_by = text_of(step, "cause"),
    });
  }
  if (names(step, "sleep")) {
    uint64_t duration_ms;
    if (!parse_duration(text_of(step, "sleep"), &duration_ms)) return no_duration(text_of(step, "sleep"));
    strata_sleep(duration_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)duration_ms);
    return STRATA_SUCCESS;
  }
  if (names(step, "write")) return strata_file_write(text_of(step, "write"), text_of(step, "text"));
  if (names(step, "remove")) return strata_file_remove(text_of(step, "remove"));
  if (names(step, "image")) return add_image(text_of(step, "image"), done);
  if (names(step, "choose")) return done->choices = strata_json_get(step, "choose"), STRATA_SUCCESS;
  if (names(step, "plan")) return done->plan = strata_json_get(step, "plan"), STRATA_SUCCESS;

  bool known = true;
  STRATA_TRY(state_step(step, done, &known));
  if (known) return STRATA_SUCCESS;
  known = true;
  strata_str read = nothing;
  STRATA_TRY(read_step(step, done, &read, &known));
  if (known) add_read(done, read);
  else if (strata_json_is_null(strata_json_get(step, "now")) && strata_json_is_null(strata_json_get(step, "count"))) {
    return strata_fail(STRATA_ERROR, "reading the config: `%.*s` is no step of the probe",
                       STR_ARG(strata_json_write(step)));
  }
  return STRATA_SUCCESS;
}

static bool acts_in(const strata_json *step, uint32_t attempt) {
  const strata_json *attempts = given(step, "attempts");
  if (!attempts) return true;
  for (size_t i = 0; i < strata_json_length(attempts); i++) {
    if (strata_json_int(strata_json_at(attempts, i), 0) == attempt) return true;
  }
  return false;
}

strata_error act(const strata_json *config, scene here, deeds *done) {
  const strata_json *steps = strata_json_get(config, "steps");
  for (size_t i = 0; i < strata_json_length(steps); i++) {
    const strata_json *step = strata_json_at(steps, i);
    if (!acts_in(step, here.attempt)) continue;
    if (names(step, "fail")) {
      STRATA_TRY(commit_excess(text_of(step, "fail"), here.action, done));
      if (done->ended) return STRATA_SUCCESS;
      continue;
    }
    STRATA_TRY(carry_out(step, here, done));
  }
  return STRATA_SUCCESS;
}
