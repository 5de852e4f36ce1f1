// JSON: building and reading values.
#include "json_tree.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static strata_json null_value;

strata_json *strata_json_new(strata_json_kind kind) {
  strata_json *value = strata_alloc(sizeof *value);
  value->kind = kind;
  return value;
}

void strata_json_link(strata_json *parent, strata_json *child) {
  if (parent->last) parent->last->next = child;
  else parent->first = child;
  parent->last = child;
  parent->length++;
}

strata_json_kind strata_json_kind_of(const strata_json *value) {
  return value ? value->kind : STRATA_JSON_NULL;
}

bool strata_json_is_null(const strata_json *value) {
  return strata_json_kind_of(value) == STRATA_JSON_NULL;
}

static strata_json *member(const strata_json *value, strata_str key) {
  if (strata_json_kind_of(value) != STRATA_JSON_OBJECT) return NULL;
  strata_json *found = NULL;
  // If a key occurs several times, the last one counts, as in most parsers.
  for (strata_json *child = value->first; child; child = child->next) {
    if (strata_equal(child->key, key)) found = child;
  }
  return found;
}

strata_json *strata_json_get(const strata_json *value, const char *key) {
  strata_json *found = member(value, strata_from(key));
  return found ? found : &null_value;
}

size_t strata_json_length(const strata_json *value) {
  return value ? value->length : 0;
}

strata_json *strata_json_at(const strata_json *value, size_t index) {
  if (index >= strata_json_length(value)) return &null_value;
  // The last position is stored, so that a loop over all elements takes linear time.
  strata_json *parent = (strata_json *)value;
  if (!parent->seen || index < parent->seen_at) {
    parent->seen = parent->first;
    parent->seen_at = 0;
  }
  while (parent->seen_at < index) {
    parent->seen = parent->seen->next;
    parent->seen_at++;
  }
  return parent->seen;
}

strata_str strata_json_key_at(const strata_json *value, size_t index) {
  return strata_json_at(value, index)->key;
}

strata_str strata_json_text(const strata_json *value, strata_str otherwise) {
  return strata_json_kind_of(value) == STRATA_JSON_TEXT ? value->text : otherwise;
}

double strata_json_number(const strata_json *value, double otherwise) {
  if (strata_json_kind_of(value) != STRATA_JSON_NUMBER) return otherwise;
  return strtod(strata_zero_terminated(value->text), NULL);
}

int64_t strata_json_int(const strata_json *value, int64_t otherwise) {
  if (strata_json_kind_of(value) != STRATA_JSON_NUMBER) return otherwise;
  const char *text = strata_zero_terminated(value->text);
  if (!text[strcspn(text, ".eE")]) {
    errno = 0;
    long long integer = strtoll(text, NULL, 10);
    return errno ? otherwise : integer;
  }
  // 1e3 and 2.0 are integers as well.
  double number = strtod(text, NULL);
  // Beyond 2^53, not every integer is a double.
  if (number != number || number != floor(number) || fabs(number) > 9007199254740992.0) return otherwise;
  return (int64_t)number;
}

bool strata_json_bool(const strata_json *value, bool otherwise) {
  return strata_json_kind_of(value) == STRATA_JSON_BOOL ? value->boolean : otherwise;
}

strata_json *strata_json_new_null(void) {
  return strata_json_new(STRATA_JSON_NULL);
}

strata_json *strata_json_new_bool(bool value) {
  strata_json *made = strata_json_new(STRATA_JSON_BOOL);
  made->boolean = value;
  return made;
}

static strata_str shortest(double value) {
  // The shortest text that is parsed as the same number: 0.1, not 0.10000000000000001.
  for (int digits = 15; digits < 17; digits++) {
    strata_str text = strata_format("%.*g", digits, value);
    if (strtod(text.ptr, NULL) == value) return text;
  }
  return strata_format("%.17g", value);
}

strata_json *strata_json_new_number(double value) {
  if (!isfinite(value)) return strata_json_new_null();
  strata_json *made = strata_json_new(STRATA_JSON_NUMBER);
  made->text = shortest(value);
  return made;
}

strata_json *strata_json_new_int(int64_t value) {
  strata_json *made = strata_json_new(STRATA_JSON_NUMBER);
  made->text = strata_format("%lld", (long long)value);
  return made;
}

strata_json *strata_json_new_text(strata_str text) {
  strata_json *made = strata_json_new(STRATA_JSON_TEXT);
  made->text = text;
  return made;
}

strata_json *strata_json_new_array(void) {
  return strata_json_new(STRATA_JSON_ARRAY);
}

strata_json *strata_json_new_object(void) {
  return strata_json_new(STRATA_JSON_OBJECT);
}

// Returns a copy that shares the children, because a value can be linked to one parent only.
static strata_json *copy_to_link(strata_json *value) {
  strata_json *copy = strata_alloc(sizeof *copy);
  if (value) *copy = *value;
  copy->next = NULL;
  return copy;
}

strata_json *strata_json_push(strata_json *array, strata_json *value) {
  if (strata_json_kind_of(array) == STRATA_JSON_ARRAY) strata_json_link(array, copy_to_link(value));
  return array;
}

strata_json *strata_json_set(strata_json *object, const char *key, strata_json *value) {
  if (strata_json_kind_of(object) != STRATA_JSON_OBJECT) return object;
  strata_json *made = copy_to_link(value);
  strata_json *before = member(object, strata_from(key));
  if (before) {
    made->key = before->key;
    made->next = before->next;
    *before = *made;
    return object;
  }
  made->key = strata_format("%s", key);
  strata_json_link(object, made);
  return object;
}
