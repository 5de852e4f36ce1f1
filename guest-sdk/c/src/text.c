// Strings, and memory: blocks from which pieces are allocated and never freed.
#include "memory.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Small, because most actions need little memory. Larger pieces are allocated separately.
#define BLOCK_BYTES 4096
#define ALIGNMENT 16

static char *block;
static size_t block_left;

void *strata_alloc(size_t size) {
  if (size > SIZE_MAX - ALIGNMENT) strata_out_of_memory(size);
  size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (size > block_left) {
    size_t room = size > BLOCK_BYTES / 4 ? size : BLOCK_BYTES;
    char *fresh = calloc(1, room);
    if (!fresh) strata_out_of_memory(room);
    if (room == size) return fresh;
    block = fresh;
    block_left = room;
  }
  void *piece = block;
  block += size;
  block_left -= size;
  return piece;
}

strata_str strata_vformat(const char *format, va_list arguments) {
  va_list copy;
  va_copy(copy, arguments);
  int length = vsnprintf(NULL, 0, format, copy);
  va_end(copy);
  if (length < 0) return (strata_str){ 0, 0 };
  char *text = strata_alloc((size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, arguments);
  return (strata_str){ text, (size_t)length };
}

strata_str strata_format(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  strata_str text = strata_vformat(format, arguments);
  va_end(arguments);
  return text;
}

strata_str strata_from(const char *zero_terminated) {
  return (strata_str){ zero_terminated, zero_terminated ? strlen(zero_terminated) : 0 };
}

char *strata_zero_terminated(strata_str text) {
  char *copy = strata_alloc(text.len + 1);
  if (text.len) memcpy(copy, text.ptr, text.len);
  copy[text.len] = 0;
  return copy;
}

bool strata_equal(strata_str a, strata_str b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool strata_starts_with(strata_str text, strata_str prefix) {
  return text.len >= prefix.len && strata_equal((strata_str){ text.ptr, prefix.len }, prefix);
}

size_t strata_find(strata_str text, strata_str part) {
  for (size_t at = 0; at + part.len <= text.len; at++) {
    if (strata_starts_with(strata_slice(text, at, text.len), part)) return at;
  }
  return text.len;
}

strata_str strata_slice(strata_str text, size_t from, size_t to) {
  if (to > text.len) to = text.len;
  if (from > to) from = to;
  return (strata_str){ text.ptr ? text.ptr + from : NULL, to - from };
}

static bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

strata_str strata_trim(strata_str text) {
  size_t from = 0, to = text.len;
  while (from < to && is_blank(text.ptr[from])) from++;
  while (from < to && is_blank(text.ptr[to - 1])) to--;
  return strata_slice(text, from, to);
}

strata_str strata_join(strata_strs texts, strata_str between) {
  strata_buffer all = { 0 };
  for (size_t i = 0; i < texts.len; i++) {
    if (i > 0) strata_append(&all, between);
    strata_append(&all, texts.ptr[i]);
  }
  return strata_written(&all);
}

void strata_append(strata_buffer *buffer, strata_str text) {
  if (text.len > SIZE_MAX / 2 - buffer->len) strata_out_of_memory(text.len);
  if (buffer->len + text.len > buffer->room) {
    size_t room = buffer->room ? buffer->room : 64;
    while (room < buffer->len + text.len) room *= 2;
    // Not allocated from the blocks, which cannot free the previous, shorter contents.
    char *larger = realloc(buffer->ptr, room);
    if (!larger) strata_out_of_memory(room);
    buffer->ptr = larger;
    buffer->room = room;
  }
  if (text.len) memcpy(buffer->ptr + buffer->len, text.ptr, text.len);
  buffer->len += text.len;
}

void strata_appendf(strata_buffer *buffer, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  strata_append(buffer, strata_vformat(format, arguments));
  va_end(arguments);
}

strata_str strata_written(const strata_buffer *buffer) {
  return (strata_str){ buffer->ptr ? buffer->ptr : "", buffer->len };
}
