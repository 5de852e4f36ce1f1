// The state of the host in memory. Internal to its files.
#ifndef STRATA_TESTING_TABLE_H
#define STRATA_TESTING_TABLE_H

#include "../include/strata_testing.h"

// An entry of a table. The meaning of the fields depends on the table.
typedef struct {
  strata_str scope, key, value;
  // `STRATA_OK`, or the kind of the error to return instead of the value.
  strata_kind kind;
  uint16_t status;
  // For a reply. If it is `STRATA_FINISH_TOOL_CALLS`, the reply calls the tool `key` with the arguments `value`.
  strata_finish finish;
  // For a vector.
  float component;
} entry;

typedef struct {
  entry *ptr;
  size_t len, room, served;
  bool granted;
} table;

// The host of the current test.
typedef struct {
  table replies, embeddings, blobs, responses, answers, secrets, tools, servers, variables, files, writable, scopes, state;
  table prompts, questions, fetched, emitted, replaced, logged;
  strata_messages memory;
  double slept_ms;
  uint32_t random;
} test_host;

extern test_host strata_test_host;

// Adds an entry, and marks the table as granted.
entry *table_add(table *into, entry added);
// Returns the entry with this scope and key, or a null pointer.
entry *table_find(table *in, strata_str scope, strata_str key);
void table_remove(table *from, entry *what);
// Returns the next entry in order, or a null pointer if none is left.
entry *table_next(table *from);
// Returns the value of the entry at this index. `ptr` is null beyond the end.
strata_str table_value(const table *in, size_t index);

#endif
