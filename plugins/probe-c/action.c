// The probe in C: does what its config says, step by step. As an action, thinker and planner.
#include "probe.h"

static strata_str says_ok(strata_str action) {
  return strata_format("%.*s ok", STR_ARG(action));
}

static scene scene_of(const strata_call *call) {
  const strata_json *arguments = strata_json_is_null(call->arguments) ? NULL : call->arguments;
  return (scene){ call->action, call->attempt, call->news, arguments };
}

static strata_error run(const strata_call *call, strata_output *output) {
  deeds done = { 0 };
  STRATA_TRY(act(call->config, scene_of(call), &done));
  if (done.said) *output = done.output;
  else output->content = says_ok(call->action);
  return STRATA_SUCCESS;
}

// Without a `choose` step the first action is chosen, once.
static strata_error choose(const strata_situation *situation, int32_t *index) {
  deeds done = { 0 };
  STRATA_TRY(act(situation->config, (scene){ STR("think"), situation->attempt, situation->news, NULL }, &done));
  if (done.choices) *index = (int32_t)strata_json_int(strata_json_at(done.choices, situation->round), -1);
  else *index = situation->round == 0 ? 0 : -1;
  if (*index < 0) *index = -1;
  return STRATA_SUCCESS;
}

// Without a `plan` step there is one task, which says what the action would have said.
static strata_error plan(const strata_call *call, strata_plan *tasks) {
  deeds done = { 0 };
  STRATA_TRY(act(call->config, scene_of(call), &done));
  if (!done.plan) {
    strata_plan_add(tasks, done.said ? done.output.content : says_ok(call->action), (strata_str){ 0 });
    return STRATA_SUCCESS;
  }
  for (size_t i = 0; i < strata_json_length(done.plan); i++) {
    const strata_json *task = strata_json_at(done.plan, i);
    strata_str text = strata_json_text(task, strata_json_text(strata_json_get(task, "text"), STR("")));
    strata_plan_add(tasks, text, strata_json_text(strata_json_get(task, "action"), (strata_str){ 0 }));
  }
  return STRATA_SUCCESS;
}

STRATA_ACTION(run, .name = "probe", .version = "0.1.0",
              .description = "Does what its config says, step by step: for trying teams, limits and recovery")
STRATA_THINKER(choose)
STRATA_PLANNER(plan)
