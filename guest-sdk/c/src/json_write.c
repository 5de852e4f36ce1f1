// Writing of JSON without white space.
#include "json_tree.h"

static void write_text(strata_buffer *out, strata_str text) {
  strata_append(out, STR("\""));
  size_t from = 0;
  for (size_t at = 0; at < text.len; at++) {
    unsigned char c = (unsigned char)text.ptr[at];
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    strata_append(out, strata_slice(text, from, at));
    from = at + 1;
    switch (c) {
      case '"': strata_append(out, STR("\\\"")); break;
      case '\\': strata_append(out, STR("\\\\")); break;
      case '\n': strata_append(out, STR("\\n")); break;
      case '\r': strata_append(out, STR("\\r")); break;
      case '\t': strata_append(out, STR("\\t")); break;
      default: strata_appendf(out, "\\u%04x", c);
    }
  }
  strata_append(out, strata_slice(text, from, text.len));
  strata_append(out, STR("\""));
}

static void write_value(strata_buffer *out, const strata_json *value) {
  switch (strata_json_kind_of(value)) {
    case STRATA_JSON_NULL: strata_append(out, STR("null")); break;
    case STRATA_JSON_BOOL: strata_append(out, value->boolean ? STR("true") : STR("false")); break;
    case STRATA_JSON_NUMBER: strata_append(out, value->text); break;
    case STRATA_JSON_TEXT: write_text(out, value->text); break;
    case STRATA_JSON_ARRAY:
    case STRATA_JSON_OBJECT: {
      bool object = value->kind == STRATA_JSON_OBJECT;
      strata_append(out, object ? STR("{") : STR("["));
      for (const strata_json *child = value->first; child; child = child->next) {
        if (child != value->first) strata_append(out, STR(","));
        if (object) {
          write_text(out, child->key);
          strata_append(out, STR(":"));
        }
        write_value(out, child);
      }
      strata_append(out, object ? STR("}") : STR("]"));
      break;
    }
  }
}

strata_str strata_json_write(const strata_json *value) {
  strata_buffer out = { 0 };
  write_value(&out, value);
  return strata_utf8(strata_written(&out));
}
