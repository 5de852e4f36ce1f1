// What a JSON value is made of. For the files that read, build and write it.
#ifndef STRATA_JSON_TREE_H
#define STRATA_JSON_TREE_H

#include "../include/strata_json.h"

// Deeper documents are refused, so that reading one cannot use up the stack.
#define MOST_DEPTH 128

struct strata_json {
  strata_json_kind kind;
  bool boolean;
  // The characters of a text; a number as it was written.
  strata_str text;
  // Elements of an array and members of an object, first to last.
  strata_json *first, *last, *next;
  size_t length;
  // In an object: the member's name.
  strata_str key;
  // In the list that `next` makes: where the last look-up by place was.
  strata_json *seen;
  size_t seen_at;
};

strata_json *strata_json_new(strata_json_kind kind);
void strata_json_link(strata_json *parent, strata_json *child);

#endif
