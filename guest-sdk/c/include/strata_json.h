// JSON: a tree that is read from text, or built and written as text.
//
// What is not there is `null`, never a null pointer, so that one may look deep into a document without asking at each
// step: `strata_json_text(strata_json_get(strata_json_get(config, "style"), "tone"), STR("plain"))`.
#ifndef STRATA_JSON_H
#define STRATA_JSON_H

#include "strata_text.h"

typedef enum {
  STRATA_JSON_NULL,
  STRATA_JSON_BOOL,
  STRATA_JSON_NUMBER,
  STRATA_JSON_TEXT,
  STRATA_JSON_ARRAY,
  STRATA_JSON_OBJECT,
} strata_json_kind;

typedef struct strata_json strata_json;

// Reads a document. False if the text is none; `problem` then says why, and at which byte. Deeper than 128 is none.
bool strata_json_parse(strata_str text, strata_json **value, strata_str *problem);

// Writes a value in the least space.
strata_str strata_json_write(const strata_json *value);

strata_json_kind strata_json_kind_of(const strata_json *value);
bool strata_json_is_null(const strata_json *value);

// A member of an object; `null` if there is none, and if the value is no object.
strata_json *strata_json_get(const strata_json *value, const char *key);

// How many elements or members it has; 0 if it is no array and no object.
size_t strata_json_length(const strata_json *value);

// An element of an array or a member of an object, by its place; `null` beyond the end.
strata_json *strata_json_at(const strata_json *value, size_t index);

// The key of a member, by its place.
strata_str strata_json_key_at(const strata_json *value, size_t index);

// The value as what it is taken for, or `otherwise` if it is something else.
strata_str strata_json_text(const strata_json *value, strata_str otherwise);
double strata_json_number(const strata_json *value, double otherwise);
// Exact. Also `otherwise` if it is no whole number, or too large for the type.
int64_t strata_json_int(const strata_json *value, int64_t otherwise);
bool strata_json_bool(const strata_json *value, bool otherwise);

strata_json *strata_json_new_null(void);
strata_json *strata_json_new_bool(bool value);
// Infinity and what is not a number have no JSON: they become `null`.
strata_json *strata_json_new_number(double value);
strata_json *strata_json_new_int(int64_t value);
strata_json *strata_json_new_text(strata_str text);
strata_json *strata_json_new_array(void);
strata_json *strata_json_new_object(void);

// What is put into an array or an object is copied there as it is then: fill it first, `push(list, x)` before
// `set(object, "list", list)`.

// Appends to an array, and returns the array.
strata_json *strata_json_push(strata_json *array, strata_json *value);

// Sets a member of an object, in place of the one of that name, and returns the object.
strata_json *strata_json_set(strata_json *object, const char *key, strata_json *value);

#endif
