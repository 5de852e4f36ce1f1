// Actions for strata-host, in C.
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
//     STRATA_ACTION(greet, .name = "greet", .version = "0.1.0", .description = "Greets whoever the news is about")
//
// Here is what an author defines; what may be called is in strata_host.h and strata_llm.h, texts are in strata_text.h,
// JSON in strata_json.h.
#ifndef STRATA_ACTION_H
#define STRATA_ACTION_H

#include "strata_llm.h"

// What an action says about itself.
typedef struct {
  // A short name, e.g. `write-code`.
  const char *name;
  // A semantic version.
  const char *version;
  // One or two sentences: what it does, when to choose it. A model may read it to choose an action.
  const char *description;
  // JSON Schema of the `config` it understands; may be left out.
  const char *config_schema;
  // JSON Schema of the arguments it takes when a model calls it as a tool: an object; may be left out.
  const char *input_schema;
  // JSON Schema of the `data` it returns; may be left out.
  const char *output_schema;
  // The capabilities it cannot work without: of `env`, `files`, `http`, `llm`, `secrets`. A team that does not grant
  // them is refused before it runs.
  const char *needs[8];
} strata_manifest;

// Everything a call is about. All but `attempt` is the same in every attempt of the same call.
typedef struct {
  // Counts tries of this call from 1, across resumes of the run.
  uint32_t attempt;
  // Stable over all attempts of the call; pass it on to services that remove duplicates by key.
  strata_str idempotency_key;
  // The acting role.
  strata_profile role;
  // The action's name in the team file, and its index in its role.
  strata_str action;
  uint32_t index;
  // The action's `config`; `null` where there is none.
  strata_json *config;
  // The messages this activation handles, oldest first.
  strata_messages news;
  // What earlier actions of this activation returned, oldest first.
  strata_messages outputs;
  // The planned task this call carries out; a null pointer outside of `plan_and_act` roles.
  const strata_task *task;
  // The arguments of a tool call; `null` where the action is not called as a tool.
  strata_json *arguments;
  // For a tool call: the number of the model's reply that asks for it, and its position in that reply, from 0.
  strata_action_option_u32_t turn, tool_call;
  // When the time of this attempt is over, in milliseconds since 1970, if it has such a limit.
  strata_action_option_f64_t deadline_ms;
} strata_call;

// The result of an action. It starts out empty.
typedef struct {
  strata_str content;
  // Structured content; a null pointer for none.
  const strata_json *data;
  // Images and files, in order.
  strata_parts parts;
  // Names, aliases, groups, `<all>`, `<self>`; none leaves it to the team file.
  strata_strs to;
  // An itinerary that travels with the message.
  strata_hops route;
} strata_output;

typedef exports_strata_action_thinker_candidate_t strata_candidate;
typedef exports_strata_action_thinker_list_candidate_t strata_candidates;

// What is known when the next action of a `react` role is chosen.
typedef struct {
  uint32_t attempt;
  strata_str idempotency_key;
  strata_profile role;
  // The `config` of the role's `think` entry.
  strata_json *config;
  // How many choices were made in this activation before this one.
  uint32_t round;
  // The role's actions, by index.
  strata_candidates candidates;
  strata_messages news;
  // What the actions chosen so far returned, oldest first.
  strata_messages outputs;
} strata_situation;

// A plan, as it is made: tasks in the order in which they are to be carried out.
typedef struct {
  strata_task *ptr;
  size_t len;
  size_t room;
} strata_plan;

// Adds a task; without an action (`(strata_str){ 0 }`) the host takes the workers in turn.
void strata_plan_add(strata_plan *plan, strata_str text, strata_str action);

// The text to work upon: of the newest output if there is one, else of all news, separated by blank lines.
strata_str strata_text(const strata_call *call);
// The newest message there is to work upon: the last output, else the last of the news; null if there is none.
const strata_message *strata_newest(const strata_call *call);
// The newest message with this label, among outputs first and then news; null if there is none.
const strata_message *strata_labelled(const strata_call *call, strata_str cause_by);
// The role in words, to open a prompt with.
strata_str strata_persona(const strata_profile *role);
// Task, news and outputs as Markdown for a prompt, each below a heading that says where it comes from.
strata_str strata_briefing(const strata_call *call);

// Exports `function` as the action: `strata_error function(const strata_call *, strata_output *)`. The rest is its
// manifest: `STRATA_ACTION(greet, .name = "greet", .version = "0.1.0", .description = "Greets")`.
#define STRATA_ACTION(function, ...)                                              \
  const strata_manifest strata_action_manifest = { __VA_ARGS__ };                 \
  strata_error strata_action_run(const strata_call *given, strata_output *made) { \
    return function(given, made);                                                 \
  }                                                                               \
  STRATA_EXPORT(handler)

// Exports `function` as thinker: `strata_error function(const strata_situation *, int32_t *index)`, where the index of
// -1 ends the activation.
#define STRATA_THINKER(function)                                                     \
  strata_error strata_thinker_choose(const strata_situation *given, int32_t *made) { \
    return function(given, made);                                                    \
  }                                                                                  \
  STRATA_EXPORT(thinker)

// Exports `function` as planner: `strata_error function(const strata_call *, strata_plan *)`.
#define STRATA_PLANNER(function)                                                  \
  strata_error strata_planner_plan(const strata_call *given, strata_plan *made) { \
    return function(given, made);                                                 \
  }                                                                               \
  STRATA_EXPORT(planner)

// What the three define. Tests call them; nobody else has to.
extern const strata_manifest strata_action_manifest;
strata_error strata_action_run(const strata_call *call, strata_output *output);
strata_error strata_thinker_choose(const strata_situation *situation, int32_t *index);
strata_error strata_planner_plan(const strata_call *call, strata_plan *plan);

// Naming the glue of an interface has the linker take it, and so the component exports what its author defined.
#if defined(__wasm__)
#define STRATA_EXPORT(interface)        \
  void strata_export_##interface(void); \
  __attribute__((used)) void (*const strata_exports_##interface)(void) = strata_export_##interface;
#else
#define STRATA_EXPORT(interface) extern const strata_manifest strata_action_manifest;
#endif

#endif
