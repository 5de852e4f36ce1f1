// The representation of JSON values. Internal to the files that parse, build and write them.
#ifndef STRATA_JSON_TREE_H
#define STRATA_JSON_TREE_H

#include "../include/strata_json.h"

// The maximum nesting depth. It limits the use of the stack.
#define MAX_DEPTH 128

struct strata_json {
  strata_json_kind kind;
  bool boolean;
  // The content of a string, or the text of a number.
  strata_str text;
  // The elements of an array or the members of an object, as a linked list.
  strata_json *first, *last, *next;
  size_t length;
  // The key, for a member of an object.
  strata_str key;
  // The child that was found last by its index, and that index.
  strata_json *seen;
  size_t seen_at;
};

strata_json *strata_json_new(strata_json_kind kind);
void strata_json_link(strata_json *parent, strata_json *child);

#endif
