// Validation of UTF-8. The host accepts only valid UTF-8.
#include "../include/strata_text.h"

static bool is_continuation(unsigned char byte) {
  return (byte & 0xc0) == 0x80;
}

// Returns the number of bytes of the first character, or 0 if it is invalid.
static size_t character_length(const unsigned char *at, size_t left) {
  unsigned char first = at[0];
  if (first < 0x80) return 1;
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || left < length) return 0;
  for (size_t i = 1; i < length; i++) {
    if (!is_continuation(at[i])) return 0;
  }
  // Overlong encodings, surrogates, and code points beyond U+10FFFF.
  if (first == 0xe0 && at[1] < 0xa0) return 0;
  if (first == 0xed && at[1] > 0x9f) return 0;
  if (first == 0xf0 && at[1] < 0x90) return 0;
  if (first == 0xf4 && at[1] > 0x8f) return 0;
  return length;
}

strata_str strata_utf8(strata_str text) {
  strata_buffer valid = { 0 };
  size_t from = 0, at = 0;
  while (at < text.len) {
    size_t length = character_length((const unsigned char *)text.ptr + at, text.len - at);
    if (length == 0) {
      strata_append(&valid, strata_slice(text, from, at));
      strata_append(&valid, STR("\xef\xbf\xbd"));
      from = ++at;
    }
    at += length;
  }
  if (from == 0) return text;
  strata_append(&valid, strata_slice(text, from, text.len));
  return strata_written(&valid);
}
