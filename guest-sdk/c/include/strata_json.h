// JSON: parsing, reading, building and writing of values.
//
// An absent value is a `null` value, never a null pointer, so look-ups can be nested:
// `strata_json_text(strata_json_get(strata_json_get(config, "style"), "tone"), STR("plain"))`.
#ifndef STRATA_JSON_H
#define STRATA_JSON_H

#include "strata_text.h"

// The type of a value.
typedef enum {
  STRATA_JSON_NULL,
  STRATA_JSON_BOOL,
  STRATA_JSON_NUMBER,
  STRATA_JSON_TEXT,
  STRATA_JSON_ARRAY,
  STRATA_JSON_OBJECT,
} strata_json_kind;

// A value.
typedef struct strata_json strata_json;

// Parses a document and sets `*value`. Returns false if the text is not JSON or is nested deeper than 128 levels. In
// this case `*value` is `null`, and `*problem`, unless `problem` is a null pointer, describes the error and its
// position.
bool strata_json_parse(strata_str text, strata_json **value, strata_str *problem);

// Returns the value as JSON without white space.
strata_str strata_json_write(const strata_json *value);

// Returns the type of a value.
strata_json_kind strata_json_kind_of(const strata_json *value);

// Returns whether a value is `null`.
bool strata_json_is_null(const strata_json *value);

// Returns the member of an object with this key, or `null` if there is none or the value is not an object.
strata_json *strata_json_get(const strata_json *value, const char *key);

// Returns the number of elements of an array or of members of an object, or 0 for any other value.
size_t strata_json_length(const strata_json *value);

// Returns the element of an array or the member of an object at this index, or `null` beyond the end.
strata_json *strata_json_at(const strata_json *value, size_t index);

// Returns the key of the member of an object at this index, or an empty string beyond the end.
strata_str strata_json_key_at(const strata_json *value, size_t index);

// Return the value as a C type, or `otherwise` if it has another type.
strata_str strata_json_text(const strata_json *value, strata_str otherwise);
double strata_json_number(const strata_json *value, double otherwise);
// Returns `otherwise` also if the number is not an integer or does not fit into the type.
int64_t strata_json_int(const strata_json *value, int64_t otherwise);
bool strata_json_bool(const strata_json *value, bool otherwise);

// Return a new value.
strata_json *strata_json_new_null(void);
strata_json *strata_json_new_bool(bool value);
// JSON has no infinities and no NaN: these become `null`.
strata_json *strata_json_new_number(double value);
strata_json *strata_json_new_int(int64_t value);
strata_json *strata_json_new_text(strata_str text);
strata_json *strata_json_new_array(void);
strata_json *strata_json_new_object(void);

// The following functions add a copy of `value`, so later changes of `value` have no effect: call `push(list, x)`
// before `set(object, "list", list)`.

// Appends an element to an array, and returns the array.
strata_json *strata_json_push(strata_json *array, strata_json *value);

// Sets the member of an object with this key, and returns the object.
strata_json *strata_json_set(strata_json *object, const char *key, strata_json *value);

#endif
