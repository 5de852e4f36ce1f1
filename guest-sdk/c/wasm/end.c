// How a C program ends before its time: each way says so to the operator, in C's own terms, and then traps. These stand
// in place of the C library's, which would need an operating system to speak through.
#include "../include/strata_host.h"
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

_Noreturn void _Exit(int code) {
  strata_log_error("the action called `exit` with code %d; an action ends by returning", code);
  TRAP();
}

_Noreturn void _exit(int code) {
  _Exit(code);
}
