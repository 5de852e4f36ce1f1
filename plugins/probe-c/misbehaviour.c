// The ways in which the probe misbehaves in a `fail` step.
//
// Each is a kind of guest that the host has to survive. Code that looks roundabout here keeps the optimiser from
// removing work without effect.
#include "probe.h"
#include <stdlib.h>
#include <string.h>

#define LOG_LINES 64
#define LOG_LINE_BYTES (64 * 1024)
#define BIG_OUTPUT_BYTES (9 * 1024 * 1024)
#define FLOOD_CALLS 100000
#define ALLOCATION_BYTES (1024 * 1024)

static volatile uint32_t sink;

// The call is not a tail call, so that it is not compiled to a loop.
__attribute__((noinline)) static uint32_t recurse(uint32_t depth) {
  if (depth == sink) return 0;
  return (recurse(depth + 1) << 3) ^ depth;
}

static strata_str repeated(size_t length, char with) {
  char *text = malloc(length + 1);
  if (!text) abort();
  memset(text, with, length);
  text[length] = 0;
  return (strata_str){ text, length };
}

// Writes to the memory that it allocates, so that the memory is really used.
static void exhaust_memory(void) {
  for (;;) {
    char *block = malloc(ALLOCATION_BYTES);
    if (!block) abort();
    memset(block, 1, ALLOCATION_BYTES);
    sink += (uint32_t)block[sink % ALLOCATION_BYTES];
  }
}

static strata_error flood_calls(void) {
  strata_json *value;
  for (int i = 0; i < FLOOD_CALLS; i++) STRATA_TRY(strata_state_get(STR("role"), STR("flood"), &value));
  return STRATA_SUCCESS;
}

strata_error misbehave(strata_str kind, strata_str action, step_results *results) {
  if (strata_equal(kind, STR("trap"))) __builtin_trap();
  if (strata_equal(kind, STR("error"))) return strata_fail(STRATA_ERROR, "the probe was told to fail");
  if (strata_equal(kind, STR("retryable"))) {
    return strata_fail(STRATA_RETRYABLE, "the probe was told to fail temporarily");
  }
  if (strata_equal(kind, STR("spin"))) for (;;) sink++;
  if (strata_equal(kind, STR("alloc"))) exhaust_memory();
  if (strata_equal(kind, STR("recurse"))) {
    sink = recurse(1);
    return STRATA_SUCCESS;
  }
  if (strata_equal(kind, STR("flood-log"))) {
    strata_str line = repeated(LOG_LINE_BYTES, 'f');
    for (int i = 0; i < LOG_LINES; i++) strata_log_info("%s", line.ptr);
    return STRATA_SUCCESS;
  }
  if (strata_equal(kind, STR("flood-calls"))) return flood_calls();
  if (strata_equal(kind, STR("invalid"))) {
    results->output = (strata_output){ .content = strata_format("%.*s ok", STR_ARG(action)),
                                    .data = strata_json_new_text(STR("no schema asks for this")) };
  } else if (strata_equal(kind, STR("big-output"))) {
    results->output = (strata_output){ .content = repeated(BIG_OUTPUT_BYTES, 'x') };
  } else {
    return strata_fail(STRATA_ERROR, "reading the config: `%.*s` is not a kind of failure",
                       STR_ARG(kind));
  }
  results->has_output = true;
  results->ended = true;
  return STRATA_SUCCESS;
}
