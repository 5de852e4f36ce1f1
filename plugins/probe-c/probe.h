// Declarations that the files of the probe share.
#ifndef PROBE_H
#define PROBE_H

#include <strata_action.h>

// The call for which steps are executed.
typedef struct {
  strata_str action;
  uint32_t attempt;
  strata_messages news;
  // The arguments of a tool call; otherwise a null pointer.
  const strata_json *arguments;
} step_context;

// The results of the steps.
typedef struct {
  // Whether there is an output, and whether it ends the action.
  bool has_output, ended;
  strata_output output;
  // The choices of a thinker and the tasks of a planner; null pointers if no step sets them.
  const strata_json *choices, *plan;
  // The values read so far, as text.
  strata_buffer reads;
  size_t read_count;
  // The images for the next request to a model.
  strata_part images[8];
  size_t image_count;
} step_results;

// Executes the steps that apply to this attempt, in order.
strata_error execute_steps(const strata_json *config, step_context context, step_results *results);

// Misbehaves in a way that a `fail` step names.
strata_error misbehave(strata_str kind, strata_str action, step_results *results);

#endif
