// Functions that end an action prematurely. Each writes a message to the log and traps. They replace the functions of
// the C library, which would need an operating system to write messages.
#include "../include/strata_host.h"
#include "../src/memory.h"
#include <stdio.h>
#include <stdlib.h>

#define TRAP() __builtin_trap()

_Noreturn void __assert_fail(const char *expression, const char *file, int line, const char *function) {
  strata_log_error("%s:%d: %s: assertion `%s` failed", file, line, function ? function : "?", expression);
  TRAP();
}

_Noreturn void abort(void) {
  strata_log_error("the action called `abort`");
  TRAP();
}

_Noreturn void strata_out_of_memory(size_t size) {
  char text[64];
  int length = snprintf(text, sizeof text, "out of memory: cannot allocate %zu bytes", size);
  strata_str line = { text, (size_t)length };
  strata_action_log_write(STRATA_ACTION_LOG_LEVEL_ERROR, &line);
  // If the memory limit was reached, the fault states that.
  TRAP();
}

_Noreturn void _Exit(int code) {
  strata_log_error("the action called `exit` with code %d; an action ends by returning", code);
  TRAP();
}

_Noreturn void _exit(int code) {
  _Exit(code);
}
