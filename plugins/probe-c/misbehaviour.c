// The ways in which the probe misbehaves when it is told to `fail`.
//
// Each shows the host one kind of guest it has to survive. What looks roundabout here keeps the optimiser from seeing
// that the work is for nothing.
#include "probe.h"
#include <stdlib.h>
#include <string.h>

#define LOG_LINES 64
#define LOG_LINE_BYTES (64 * 1024)
#define BIG_OUTPUT_BYTES (9 * 1024 * 1024)
#define FLOOD_CALLS 100000
#define ALLOCATION_BYTES (1024 * 1024)

static volatile uint32_t turns;

// No tail call, so that no loop can be made of it.
__attribute__((noinline)) static uint32_t recurse(uint32_t depth) {
  if (depth == turns) return 0;
  return (recurse(depth + 1) << 3) ^ depth;
}

static strata_str filled(size_t length, char with) {
  char *text = malloc(length + 1);
  if (!text) abort();
  memset(text, with, length);
  text[length] = 0;
  return (strata_str){ text, length };
}

// Touches what it takes, so that the memory is not only promised.
static void take_all_memory(void) {
  for (;;) {
    char *taken = malloc(ALLOCATION_BYTES);
    if (!taken) abort();
    memset(taken, 1, ALLOCATION_BYTES);
    turns += (uint32_t)taken[turns % ALLOCATION_BYTES];
  }
}

static strata_error flood_calls(void) {
  strata_json *value;
  for (int i = 0; i < FLOOD_CALLS; i++) STRATA_TRY(strata_state_get(STR("role"), STR("flood"), &value));
  return STRATA_SUCCESS;
}

strata_error commit_excess(strata_str excess, strata_str action, deeds *done) {
  if (strata_equal(excess, STR("trap"))) __builtin_trap();
  if (strata_equal(excess, STR("error"))) return strata_fail(STRATA_ERROR, "the probe was told to fail");
  if (strata_equal(excess, STR("retryable"))) {
    return strata_fail(STRATA_RETRYABLE, "the probe was told to fail in passing");
  }
  if (strata_equal(excess, STR("spin"))) for (;;) turns++;
  if (strata_equal(excess, STR("alloc"))) take_all_memory();
  if (strata_equal(excess, STR("recurse"))) {
    turns = recurse(1);
    return STRATA_SUCCESS;
  }
  if (strata_equal(excess, STR("flood-log"))) {
    strata_str line = filled(LOG_LINE_BYTES, 'f');
    for (int i = 0; i < LOG_LINES; i++) strata_log_info("%s", line.ptr);
    return STRATA_SUCCESS;
  }
  if (strata_equal(excess, STR("flood-calls"))) return flood_calls();
  if (strata_equal(excess, STR("invalid"))) {
    done->output = (strata_output){ .content = strata_format("%.*s ok", STR_ARG(action)),
                                    .data = strata_json_new_text(STR("no schema asks for this")) };
  } else if (strata_equal(excess, STR("big-output"))) {
    done->output = (strata_output){ .content = filled(BIG_OUTPUT_BYTES, 'x') };
  } else {
    return strata_fail(STRATA_ERROR, "reading the config: `fail = \"%.*s\"` is nothing the probe can do",
                       STR_ARG(excess));
  }
  done->said = true;
  done->ended = true;
  return STRATA_SUCCESS;
}
