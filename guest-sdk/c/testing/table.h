// What the host in memory keeps: tables of texts. For its own files.
#ifndef STRATA_TESTING_TABLE_H
#define STRATA_TESTING_TABLE_H

#include "../include/strata_testing.h"

// One thing that is kept; what the parts mean is its table's business.
typedef struct {
  strata_str scope, key, value;
  // `STRATA_OK`, or the failure that is served in place of the value.
  strata_kind kind;
  uint16_t status;
  // Of a reply. One that ends in tool calls calls the tool `key`, with `value` as its arguments.
  strata_finish finish;
  // Of a vector.
  float component;
} entry;

typedef struct {
  entry *ptr;
  size_t len, room, served;
  bool granted;
} table;

// The host of the test that runs.
typedef struct {
  table replies, embeddings, blobs, responses, answers, secrets, variables, files, writable, scopes, state;
  table prompts, questions, fetched, emitted, logged;
  strata_messages memory;
  double slept_ms;
  uint32_t random;
} test_host;

extern test_host strata_test_host;

entry *table_add(table *into, entry made);
entry *table_find(table *in, strata_str scope, strata_str key);
void table_remove(table *from, entry *what);
// What comes next in order; null if nothing is left.
entry *table_next(table *from);
strata_str table_value(const table *in, size_t index);

#endif
