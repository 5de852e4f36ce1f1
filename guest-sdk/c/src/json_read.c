// A strict parser of JSON (RFC 8259).
#include "json_tree.h"
#include <string.h>

typedef struct {
  strata_str text;
  size_t at;
  unsigned depth;
  const char *problem;
} reader;

static strata_json *read_value(reader *in);

static strata_json *fail(reader *in, const char *problem) {
  if (!in->problem) in->problem = problem;
  return NULL;
}

// Returns the next character, or 0 at the end.
static char peek(const reader *in) {
  return in->at < in->text.len ? in->text.ptr[in->at] : 0;
}

static void skip_blanks(reader *in) {
  while (in->at < in->text.len && strchr(" \t\n\r", in->text.ptr[in->at]) && in->text.ptr[in->at]) in->at++;
}

static bool take(reader *in, char expected) {
  if (peek(in) != expected) return false;
  in->at++;
  return true;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool digits(reader *in) {
  size_t from = in->at;
  while (is_digit(peek(in))) in->at++;
  return in->at > from;
}

static strata_json *read_number(reader *in) {
  size_t from = in->at;
  take(in, '-');
  if (!take(in, '0') && !digits(in)) return fail(in, "expected a value");
  if (take(in, '.') && !digits(in)) return fail(in, "expected a digit");
  if (peek(in) == 'e' || peek(in) == 'E') {
    in->at++;
    if (!take(in, '+')) take(in, '-');
    if (!digits(in)) return fail(in, "expected a digit");
  }
  strata_json *value = strata_json_new(STRATA_JSON_NUMBER);
  value->text = strata_slice(in->text, from, in->at);
  return value;
}

static bool hex4(reader *in, uint32_t *code) {
  *code = 0;
  for (int i = 0; i < 4; i++, in->at++) {
    char c = peek(in);
    uint32_t digit;
    if (is_digit(c)) digit = (uint32_t)(c - '0');
    else if (c >= 'a' && c <= 'f') digit = (uint32_t)(c - 'a' + 10);
    else if (c >= 'A' && c <= 'F') digit = (uint32_t)(c - 'A' + 10);
    else return false;
    *code = *code * 16 + digit;
  }
  return true;
}

static void append_utf8(strata_buffer *out, uint32_t code) {
  char bytes[4];
  size_t length;
  if (code < 0x80) {
    bytes[0] = (char)code;
    length = 1;
  } else if (code < 0x800) {
    bytes[0] = (char)(0xc0 | code >> 6);
    length = 2;
  } else if (code < 0x10000) {
    bytes[0] = (char)(0xe0 | code >> 12);
    length = 3;
  } else {
    bytes[0] = (char)(0xf0 | code >> 18);
    length = 4;
  }
  for (size_t i = 1; i < length; i++) bytes[i] = (char)(0x80 | (code >> 6 * (length - 1 - i) & 0x3f));
  strata_append(out, (strata_str){ bytes, length });
}

static bool read_escape(reader *in, strata_buffer *out) {
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  char c = peek(in);
  const char *found = c ? strchr(from, c) : NULL;
  if (found) {
    in->at++;
    strata_append(out, (strata_str){ &to[found - from], 1 });
    return true;
  }
  uint32_t code, low;
  if (!take(in, 'u') || !hex4(in, &code)) return fail(in, "invalid escape in a string") != NULL;
  if (code >= 0xd800 && code < 0xdc00) {
    if (!take(in, '\\') || !take(in, 'u') || !hex4(in, &low) || low < 0xdc00 || low > 0xdfff) {
      return fail(in, "unpaired surrogate in a string") != NULL;
    }
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  } else if (code >= 0xdc00 && code < 0xe000) {
    return fail(in, "unpaired surrogate in a string") != NULL;
  }
  append_utf8(out, code);
  return true;
}

// Reads a string after its opening quote. A string without escapes is not copied.
static bool read_characters(reader *in, strata_str *text) {
  strata_buffer out = { 0 };
  size_t from = in->at;
  bool escaped = false;
  while (in->at < in->text.len) {
    unsigned char c = (unsigned char)in->text.ptr[in->at];
    if (c == '"') {
      strata_str rest = strata_slice(in->text, from, in->at++);
      if (escaped) strata_append(&out, rest);
      *text = escaped ? strata_written(&out) : rest;
      return true;
    }
    if (c < 0x20) return fail(in, "control character in a string") != NULL;
    if (c != '\\') {
      in->at++;
      continue;
    }
    escaped = true;
    strata_append(&out, strata_slice(in->text, from, in->at++));
    if (!read_escape(in, &out)) return false;
    from = in->at;
  }
  return fail(in, "unterminated string") != NULL;
}

static bool read_children(reader *in, strata_json *parent, char end) {
  skip_blanks(in);
  if (take(in, end)) return true;
  for (;;) {
    strata_str key = { 0, 0 };
    skip_blanks(in);
    if (parent->kind == STRATA_JSON_OBJECT) {
      if (!take(in, '"')) return fail(in, "expected a key") != NULL;
      if (!read_characters(in, &key)) return false;
      skip_blanks(in);
      if (!take(in, ':')) return fail(in, "expected `:`") != NULL;
    }
    strata_json *child = read_value(in);
    if (!child) return false;
    child->key = key;
    strata_json_link(parent, child);
    skip_blanks(in);
    if (take(in, end)) return true;
    if (!take(in, ',')) return fail(in, "expected `,` or the end of the array or object") != NULL;
  }
}

static strata_json *read_nested(reader *in, strata_json_kind kind, char end) {
  if (++in->depth > MAX_DEPTH) return fail(in, "nested too deeply");
  strata_json *value = strata_json_new(kind);
  in->at++;
  if (!read_children(in, value, end)) return NULL;
  in->depth--;
  return value;
}

static strata_json *read_word(reader *in, strata_str word, strata_json *value) {
  if (!strata_starts_with(strata_slice(in->text, in->at, in->text.len), word)) return fail(in, "expected a value");
  in->at += word.len;
  return value;
}

static strata_json *read_value(reader *in) {
  skip_blanks(in);
  switch (peek(in)) {
    case '{': return read_nested(in, STRATA_JSON_OBJECT, '}');
    case '[': return read_nested(in, STRATA_JSON_ARRAY, ']');
    case 't': return read_word(in, STR("true"), strata_json_new_bool(true));
    case 'f': return read_word(in, STR("false"), strata_json_new_bool(false));
    case 'n': return read_word(in, STR("null"), strata_json_new_null());
    case '"': {
      strata_json *value = strata_json_new(STRATA_JSON_TEXT);
      in->at++;
      return read_characters(in, &value->text) ? value : NULL;
    }
    default: return read_number(in);
  }
}

bool strata_json_parse(strata_str text, strata_json **value, strata_str *problem) {
  reader in = { text, 0, 0, NULL };
  strata_json *read = read_value(&in);
  if (read) skip_blanks(&in);
  if (read && in.at < text.len) read = fail(&in, "unexpected character after the value");
  *value = read ? read : strata_json_new_null();
  if (!read && problem) *problem = strata_format("%s, at byte %zu", in.problem, in.at);
  return read != NULL;
}
