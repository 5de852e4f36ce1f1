// Strings, and memory.
//
// Memory is never freed: each call runs in its own instance, whose memory is released when the call ends.
#ifndef STRATA_TEXT_H
#define STRATA_TEXT_H

#include "../bindings/bindings.h"
#include <stdarg.h>

// A string: `ptr` and `len`, the number of bytes. It is not terminated by a null byte. Text is UTF-8. `ptr` is null if
// the string is absent.
typedef strata_action_string_t strata_str;

// An array of strings.
typedef strata_action_list_string_t strata_strs;

// A string literal as a `strata_str`.
#define STR(literal) ((strata_str){ (literal), sizeof(literal) - 1 })

// The arguments for `%.*s` in a format: `printf("%.*s", STR_ARG(name))`.
#define STR_ARG(text) (int)(text).len, (text).ptr ? (text).ptr : ""

#if defined(__GNUC__)
#define STRATA_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define STRATA_PRINTF(text, first)
#endif

// Returns `size` bytes of memory, filled with zeros and aligned for any type. If there is not enough memory, the action
// ends with a trap.
void *strata_alloc(size_t size);

// Returns a new string, formatted as by printf.
strata_str strata_format(const char *format, ...) STRATA_PRINTF(1, 2);
strata_str strata_vformat(const char *format, va_list arguments);

// Returns a null-terminated string as a `strata_str`, without copying it.
strata_str strata_from(const char *zero_terminated);

// Returns a null-terminated copy of a string.
char *strata_zero_terminated(strata_str text);

// Returns whether two strings have the same bytes.
bool strata_equal(strata_str a, strata_str b);

// Returns whether `text` begins with `prefix`.
bool strata_starts_with(strata_str text, strata_str prefix);

// Returns the index of the first occurrence of `part` in `text`, or `text.len` if there is none.
size_t strata_find(strata_str text, strata_str part);

// Returns the bytes from index `from` up to, but not including, index `to`, without copying them. Indices beyond the
// end are replaced by `text.len`.
strata_str strata_slice(strata_str text, size_t from, size_t to);

// Returns the string with each invalid byte replaced by U+FFFD, or the string itself if it is valid UTF-8. A slice may
// contain part of a character. The host accepts only UTF-8; outputs, emissions, JSON, prompts, failures and log lines
// are converted automatically.
strata_str strata_utf8(strata_str text);

// Returns the string without white space at its beginning and its end.
strata_str strata_trim(strata_str text);

// Returns a new string that contains all `texts`, separated by `between`.
strata_str strata_join(strata_strs texts, strata_str between);

// A string that is built incrementally. Initialize it with zeros.
typedef struct {
  char *ptr;
  size_t len;
  // The number of bytes that are allocated.
  size_t room;
} strata_buffer;

// Appends a string.
void strata_append(strata_buffer *buffer, strata_str text);

// Appends a string that is formatted as by printf.
void strata_appendf(strata_buffer *buffer, const char *format, ...) STRATA_PRINTF(2, 3);

// Returns the content of the buffer. It is valid until more is appended.
strata_str strata_written(const strata_buffer *buffer);

#endif
