// Exports the planner that `STRATA_PLANNER` defines.
#include "../src/convert.h"
#include <stdio.h>

// The export function in the bindings. This reference makes the linker include it.
uint8_t *__wasm_export_exports_strata_action_planner_plan(uint8_t *arguments);
__attribute__((used)) static uint8_t *(*const exported)(uint8_t *) = __wasm_export_exports_strata_action_planner_plan;

void strata_export_planner(void) {}

bool exports_strata_action_planner_plan(strata_action_types_attempt_t *attempt, strata_action_types_input_t *input,
                                        exports_strata_action_planner_list_task_t *tasks,
                                        strata_action_types_failure_t *failure) {
  strata_call call = strata_call_from(attempt, input);
  strata_plan plan = { 0 };
  strata_error error = strata_planner_plan(&call, &plan);
  fflush(NULL);
  if (error.kind != STRATA_OK) {
    *failure = strata_failure_of(error);
    return false;
  }
  *tasks = (exports_strata_action_planner_list_task_t){ plan.ptr, plan.len };
  return true;
}
