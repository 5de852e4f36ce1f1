// The probe in C: an action, thinker and planner that executes the steps in its config.
#include "probe.h"

static strata_str default_text(strata_str action) {
  return strata_format("%.*s ok", STR_ARG(action));
}

static step_context context_of(const strata_call *call) {
  const strata_json *arguments = strata_json_is_null(call->arguments) ? NULL : call->arguments;
  return (step_context){ call->action, call->attempt, call->news, arguments };
}

static strata_error run(const strata_call *call, strata_output *output) {
  step_results results = { 0 };
  STRATA_TRY(execute_steps(call->config, context_of(call), &results));
  if (results.has_output) *output = results.output;
  else output->content = default_text(call->action);
  return STRATA_SUCCESS;
}

// Without a `choose` step, the first action is chosen once.
static strata_error choose(const strata_situation *situation, int32_t *index) {
  step_results results = { 0 };
  STRATA_TRY(execute_steps(situation->config, (step_context){ STR("think"), situation->attempt, situation->news, NULL }, &results));
  if (results.choices) *index = (int32_t)strata_json_int(strata_json_at(results.choices, situation->round), -1);
  else *index = situation->round == 0 ? 0 : -1;
  if (*index < 0) *index = -1;
  return STRATA_SUCCESS;
}

// Without a `plan` step, there is one task, whose text is the output of the action.
static strata_error plan(const strata_call *call, strata_plan *tasks) {
  step_results results = { 0 };
  STRATA_TRY(execute_steps(call->config, context_of(call), &results));
  if (!results.plan) {
    strata_plan_add(tasks, results.has_output ? results.output.content : default_text(call->action), (strata_str){ 0 });
    return STRATA_SUCCESS;
  }
  for (size_t i = 0; i < strata_json_length(results.plan); i++) {
    const strata_json *task = strata_json_at(results.plan, i);
    strata_str text = strata_json_text(task, strata_json_text(strata_json_get(task, "text"), STR("")));
    strata_plan_add(tasks, text, strata_json_text(strata_json_get(task, "action"), (strata_str){ 0 }));
  }
  return STRATA_SUCCESS;
}

STRATA_ACTION(run, .name = "probe", .version = "0.1.0",
              .description = "Executes the steps in its config, for trying teams, limits and recovery")
STRATA_THINKER(choose)
STRATA_PLANNER(plan)
