// Texts, and the memory they lie in.
//
// Nothing is ever freed: a call runs in an instance of its own, which is dropped whole when the call ends.
#ifndef STRATA_TEXT_H
#define STRATA_TEXT_H

#include "../bindings/bindings.h"
#include <stdarg.h>

// Bytes with a length, UTF-8 where they are a text; no zero ends them. `ptr` is null where there is none.
typedef strata_action_string_t strata_str;

// Several texts.
typedef strata_action_list_string_t strata_strs;

// A literal as a text.
#define STR(literal) ((strata_str){ (literal), sizeof(literal) - 1 })

// A text as arguments of `%.*s`: `printf("%.*s", STR_ARG(name))`.
#define STR_ARG(text) (int)(text).len, (text).ptr ? (text).ptr : ""

#if defined(__GNUC__)
#define STRATA_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define STRATA_PRINTF(text, first)
#endif

// Memory that lasts as long as the call, aligned for anything, filled with zeros.
void *strata_alloc(size_t size);

// A text like that of printf.
strata_str strata_format(const char *format, ...) STRATA_PRINTF(1, 2);
strata_str strata_vformat(const char *format, va_list arguments);

// The text that a zero ends. It is not copied.
strata_str strata_from(const char *zero_terminated);

// A copy that a zero ends, for functions of the C library.
char *strata_zero_terminated(strata_str text);

bool strata_equal(strata_str a, strata_str b);
bool strata_starts_with(strata_str text, strata_str prefix);

// Where `part` begins in `text` first; `text.len` if nowhere.
size_t strata_find(strata_str text, strata_str part);

// The bytes from `from` up to `to`, both cut to what there is. They are not copied.
strata_str strata_slice(strata_str text, size_t from, size_t to);

// With U+FFFD in place of each byte that belongs to no character of UTF-8; the text itself where there is none. Slices
// may cut characters. The host takes UTF-8 alone; outputs, emissions, JSON, prompts, failures and log lines go through this.
strata_str strata_utf8(strata_str text);

// Without white space at both ends.
strata_str strata_trim(strata_str text);

// All of them, with `between` between each two.
strata_str strata_join(strata_strs texts, strata_str between);

// A text that is written piece by piece. Begin with one filled with zeros.
typedef struct {
  char *ptr;
  size_t len;
  size_t room;
} strata_buffer;

void strata_append(strata_buffer *buffer, strata_str text);
void strata_appendf(strata_buffer *buffer, const char *format, ...) STRATA_PRINTF(2, 3);

// What was written so far. Valid until more is written.
strata_str strata_written(const strata_buffer *buffer);

#endif
