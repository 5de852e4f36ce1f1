// The SDK for actions of strata-host in C.
//
//     #include <strata_action.h>
//
//     static strata_error greet(const strata_call *call, strata_output *output) {
//       strata_str language = strata_json_text(strata_json_get(call->config, "language"), STR("English"));
//       strata_str prompt = strata_format("Greet in %.*s: %.*s", STR_ARG(language), STR_ARG(strata_text(call)));
//       STRATA_TRY(strata_llm_ask(prompt, &output->content));
//       return STRATA_SUCCESS;
//     }
//
//     STRATA_ACTION(greet, .name = "greet", .version = "0.1.0", .description = "Greets people")
//
// This header declares what an author defines. The functions of the host are in strata_host.h and strata_llm.h, strings
// in strata_text.h, JSON in strata_json.h.
#ifndef STRATA_ACTION_H
#define STRATA_ACTION_H

#include "strata_llm.h"

// The description of an action. All fields are optional.
typedef struct {
  // The name, e.g. `write-code`.
  const char *name;
  // The semantic version.
  const char *version;
  // What the action does and when to choose it, in one or two sentences. A model may read it to choose an action.
  const char *description;
  // The JSON Schema of `config`.
  const char *config_schema;
  // The JSON Schema of the arguments of a tool call, which are an object. Only needed if a model may call the action.
  const char *input_schema;
  // The JSON Schema of the data of the output.
  const char *output_schema;
  // The capabilities that the action requires: `env`, `files`, `http`, `llm` or `secrets`. A team that does not grant
  // them is rejected before it runs.
  const char *needs[8];
} strata_manifest;

// The input of an action or a planner. Except for `attempt` and `deadline_ms`, it is the same in all attempts of a
// call.
typedef struct {
  // The number of the attempt, from 1. It keeps counting when the run is resumed.
  uint32_t attempt;
  // A key that is the same in all attempts of the call, for services that remove duplicates by a key.
  strata_str idempotency_key;
  // The profile of the acting role.
  strata_profile role;
  // The name of the action in the team file, and its index in its role, from 0.
  strata_str action;
  uint32_t index;
  // The action's `config` from the team file, or `null`.
  strata_json *config;
  // The messages that this activation handles, oldest first.
  strata_messages news;
  // The outputs of earlier actions of this activation, oldest first.
  strata_messages outputs;
  // The task that this call carries out, in roles with `react = "plan_and_act"`; otherwise a null pointer.
  const strata_task *task;
  // The arguments of a tool call, or `null` if the action is not called as a tool.
  strata_json *arguments;
  // For a tool call: the index of the model's reply in this activation, and the index of the call in that reply, from
  // 0.
  strata_action_option_u32_t turn, tool_call;
  // The time at which this attempt is stopped, in milliseconds since 1970, if it has a time limit.
  strata_action_option_f64_t deadline_ms;
} strata_call;

// The output of an action. It is passed to the action with all fields empty.
typedef struct {
  // The text.
  strata_str content;
  // The structured content, or a null pointer.
  const strata_json *data;
  // The images and files, in order.
  strata_parts parts;
  // The recipients: names, aliases, groups, `<all>` or `<self>`. If there are none, routes and watched labels decide.
  // `<nobody>` alone means that nobody receives it.
  strata_strs to;
  // An itinerary that travels with the message.
  strata_hops route;
} strata_output;

// An action that a thinker can choose.
typedef exports_strata_action_thinker_candidate_t strata_candidate;
typedef exports_strata_action_thinker_list_candidate_t strata_candidates;

// The input of a thinker, which chooses the next action of a role with `react = "react"`.
typedef struct {
  uint32_t attempt;
  strata_str idempotency_key;
  strata_profile role;
  // The `config` of the role's `think` entry, or `null`.
  strata_json *config;
  // The number of choices made earlier in this activation.
  uint32_t round;
  // The actions of the role, in order. The thinker chooses an index into this array.
  strata_candidates candidates;
  strata_messages news;
  // The outputs of the actions chosen so far, oldest first.
  strata_messages outputs;
} strata_situation;

// A plan: the tasks, in order.
typedef struct {
  strata_task *ptr;
  size_t len;
  // The number of tasks for which memory is allocated.
  size_t room;
} strata_plan;

// Adds a task. `action` is the name of the action that carries it out. With `(strata_str){ 0 }`, the host assigns the
// role's actions except the first in turn.
void strata_plan_add(strata_plan *plan, strata_str text, strata_str action);

// Returns the content of the newest output of this activation, or else of all news, separated by empty lines.
strata_str strata_text(const strata_call *call);

// Returns the newest output of this activation, or else the newest of the news. Returns a null pointer if there is
// neither.
const strata_message *strata_newest(const strata_call *call);

// Returns the newest message with this label, or a null pointer if there is none.
const strata_message *strata_labelled(const strata_call *call, strata_str cause_by);

// Returns the profile of the role as the text of a system prompt.
strata_str strata_persona(const strata_profile *role);

// Returns the task, the news and the outputs as one Markdown text for a model. The heading of each message contains its
// label and its sender.
strata_str strata_briefing(const strata_call *call);

// Exports a function as the action: `strata_error function(const strata_call *, strata_output *)`. The other arguments
// are fields of its `strata_manifest`:
// `STRATA_ACTION(greet, .name = "greet", .version = "0.1.0", .description = "Greets")`.
#define STRATA_ACTION(function, ...)                                                              \
  const strata_manifest strata_action_manifest = { __VA_ARGS__ };                                 \
  strata_error strata_action_run(const strata_call *strata_input, strata_output *strata_result) { \
    return function(strata_input, strata_result);                                                 \
  }                                                                                               \
  STRATA_EXPORT(handler)

// Exports a function as the thinker: `strata_error function(const strata_situation *, int32_t *index)`. It sets `*index`;
// -1 ends the activation.
#define STRATA_THINKER(function)                                                                     \
  strata_error strata_thinker_choose(const strata_situation *strata_input, int32_t *strata_result) { \
    return function(strata_input, strata_result);                                                    \
  }                                                                                                  \
  STRATA_EXPORT(thinker)

// Exports a function as the planner: `strata_error function(const strata_call *, strata_plan *)`.
#define STRATA_PLANNER(function)                                                                  \
  strata_error strata_planner_plan(const strata_call *strata_input, strata_plan *strata_result) { \
    return function(strata_input, strata_result);                                                 \
  }                                                                                               \
  STRATA_EXPORT(planner)

// The functions that these macros define, for tests.
extern const strata_manifest strata_action_manifest;
strata_error strata_action_run(const strata_call *call, strata_output *output);
strata_error strata_thinker_choose(const strata_situation *situation, int32_t *index);
strata_error strata_planner_plan(const strata_call *call, strata_plan *plan);

// A reference to the export function of an interface makes the linker include it, so the component exports exactly the
// interfaces that its author defined.
#if defined(__wasm__)
#define STRATA_EXPORT(interface)        \
  void strata_export_##interface(void); \
  __attribute__((used)) void (*const strata_exports_##interface)(void) = strata_export_##interface;
#else
#define STRATA_EXPORT(interface) extern const strata_manifest strata_action_manifest;
#endif

#endif
