// Exports the action that `STRATA_ACTION` defines.
#include "../src/border.h"
#include <stdio.h>

void *cabi_realloc(void *ptr, size_t old_size, size_t align, size_t new_size);

// The imports bring the allocator that the host passes arguments with. Also an action that calls nothing needs it.
__attribute__((used)) static void *(*const allocator)(void *, size_t, size_t, size_t) = cabi_realloc;

// Where the bindings export it. Naming that has the linker take it.
uint8_t *__wasm_export_exports_strata_action_handler_run(uint8_t *arguments);
__attribute__((used)) static uint8_t *(*const exported)(uint8_t *) = __wasm_export_exports_strata_action_handler_run;

void strata_export_handler(void) {}

static exports_strata_action_handler_option_json_t schema(const char *text) {
  return (exports_strata_action_handler_option_json_t){ text != NULL, strata_from(text) };
}

void exports_strata_action_handler_describe(exports_strata_action_handler_manifest_t *described) {
  const strata_manifest *manifest = &strata_action_manifest;
  size_t most = sizeof manifest->needs / sizeof *manifest->needs;
  strata_strs needs = { strata_alloc(sizeof(strata_str) * most), 0 };
  while (needs.len < most && manifest->needs[needs.len]) {
    needs.ptr[needs.len] = strata_from(manifest->needs[needs.len]);
    needs.len++;
  }
  *described = (exports_strata_action_handler_manifest_t){
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
  // What is left in the buffers of files and of stdout would be lost with the instance.
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
