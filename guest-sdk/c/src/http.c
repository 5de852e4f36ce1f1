// Requests over HTTP and HTTPS.
#include "convert.h"
#include <string.h>

static strata_action_http_request_t to_bindings(const strata_http_request *request) {
  return (strata_action_http_request_t){
    .method = request->method,
    .url = request->url,
    .headers = request->headers,
    .body = { request->body.ptr != NULL, { (uint8_t *)request->body.ptr, request->body.len } },
    .secrets = request->secrets,
    .timeout_ms = { request->timeout_ms > 0, request->timeout_ms },
    .idempotency_key = strata_some_or_none(request->idempotency_key),
  };
}

static strata_http_response from_bindings(const strata_action_http_response_t *response) {
  strata_str body = { (const char *)response->body.ptr, response->body.len };
  return (strata_http_response){ response->status, response->headers, body };
}

strata_error strata_http_fetch(const strata_http_request *request, strata_http_response *response) {
  strata_action_types_host_error_t error;
  strata_action_http_request_t raw = to_bindings(request);
  strata_action_http_response_t result;
  *response = (strata_http_response){ 0 };
  STRATA_TRY(OUTCOME(strata_action_http_fetch(&raw, &result, &error)));
  *response = from_bindings(&result);
  return STRATA_SUCCESS;
}

strata_error strata_http_get(strata_str url, strata_http_response *response) {
  strata_http_request request = { .method = STR("GET"), .url = url };
  return strata_http_fetch(&request, response);
}

void strata_http_fetch_many(const strata_http_request *requests, size_t count, strata_http_result *results) {
  strata_action_http_request_t *raw = strata_alloc(count * sizeof *raw);
  for (size_t i = 0; i < count; i++) raw[i] = to_bindings(&requests[i]);
  strata_action_http_list_request_t list = { raw, count };
  strata_action_http_list_result_response_host_error_t result;
  strata_action_http_fetch_many(&list, &result);
  for (size_t i = 0; i < count; i++) {
    results[i] = (strata_http_result){ 0 };
    if (i >= result.len) results[i].error = strata_fail(STRATA_HOST, "sending requests: too few results");
    else if (result.ptr[i].is_err) results[i].error = strata_from_host(&result.ptr[i].val.err);
    else results[i].response = from_bindings(&result.ptr[i].val.ok);
  }
}

static char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_name(strata_str a, strata_str b) {
  if (a.len != b.len) return false;
  for (size_t i = 0; i < a.len; i++) {
    if (to_lower(a.ptr[i]) != to_lower(b.ptr[i])) return false;
  }
  return true;
}

strata_str strata_http_header(const strata_http_response *response, strata_str name) {
  for (size_t i = 0; i < response->headers.len; i++) {
    if (same_name(response->headers.ptr[i].name, name)) return response->headers.ptr[i].value;
  }
  return (strata_str){ 0, 0 };
}
