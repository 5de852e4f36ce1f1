// Exports the action that `STRATA_ACTION` defines.
#include "../src/convert.h"
#include <stdio.h>

void *cabi_realloc(void *ptr, size_t old_size, size_t align, size_t new_size);

// The host needs the allocator to pass arguments. It is defined with the imports, which the linker would otherwise omit
// if the action does not use them.
__attribute__((used)) static void *(*const allocator)(void *, size_t, size_t, size_t) = cabi_realloc;

// The export function in the bindings. This reference makes the linker include it.
uint8_t *__wasm_export_exports_strata_action_handler_run(uint8_t *arguments);
__attribute__((used)) static uint8_t *(*const exported)(uint8_t *) = __wasm_export_exports_strata_action_handler_run;

void strata_export_handler(void) {}

static exports_strata_action_handler_option_json_t schema(const char *text) {
  return (exports_strata_action_handler_option_json_t){ text != NULL, strata_from(text) };
}

void exports_strata_action_handler_describe(exports_strata_action_handler_manifest_t *result) {
  const strata_manifest *manifest = &strata_action_manifest;
  size_t max = sizeof manifest->needs / sizeof *manifest->needs;
  strata_strs needs = { strata_alloc(sizeof(strata_str) * max), 0 };
  while (needs.len < max && manifest->needs[needs.len]) {
    needs.ptr[needs.len] = strata_from(manifest->needs[needs.len]);
    needs.len++;
  }
  *result = (exports_strata_action_handler_manifest_t){
    .name = strata_from(manifest->name),
    .version = strata_from(manifest->version ? manifest->version : "0.0.0"),
    .description = strata_from(manifest->description),
    .config_schema = schema(manifest->config_schema),
    .input_schema = schema(manifest->input_schema),
    .output_schema = schema(manifest->output_schema),
    .needs = needs,
  };
}

bool exports_strata_action_handler_run(strata_action_types_attempt_t *attempt, strata_action_types_input_t *input,
                                       strata_action_types_output_t *returned, strata_action_types_failure_t *failure) {
  strata_call call = strata_call_from(attempt, input);
  strata_output output = { 0 };
  strata_error error = strata_action_run(&call, &output);
  // Buffered output would be lost when the instance is dropped.
  fflush(NULL);
  if (error.kind != STRATA_OK) {
    *failure = strata_failure_of(error);
    return false;
  }
  *returned = (strata_action_types_output_t){
    .content = strata_utf8(output.content),
    .data = strata_written_or_none(output.data),
    .parts = output.parts,
    .to = output.to,
    .route = output.route,
  };
  return true;
}
