// Exports the thinker that `STRATA_THINKER` defines.
#include "../src/convert.h"
#include <stdio.h>

// The export function in the bindings. This reference makes the linker include it.
uint8_t *__wasm_export_exports_strata_action_thinker_choose(uint8_t *arguments);
__attribute__((used)) static uint8_t *(*const exported)(uint8_t *) = __wasm_export_exports_strata_action_thinker_choose;

void strata_export_thinker(void) {}

bool exports_strata_action_thinker_choose(strata_action_types_attempt_t *attempt,
                                          exports_strata_action_thinker_situation_t *given, int32_t *index,
                                          strata_action_types_failure_t *failure) {
  strata_situation situation = {
    .attempt = attempt->number,
    .idempotency_key = attempt->idempotency_key,
    .role = given->role,
    .config = strata_parse_or_null((strata_action_types_option_json_t){ true, given->config }),
    .round = given->round,
    .candidates = given->candidates,
    .news = { given->news.ptr, given->news.len },
    .outputs = { given->outputs.ptr, given->outputs.len },
  };
  // A thinker that does not set the index ends the activation.
  *index = -1;
  strata_error error = strata_thinker_choose(&situation, index);
  fflush(NULL);
  if (error.kind == STRATA_OK) return true;
  *failure = strata_failure_of(error);
  return false;
}
