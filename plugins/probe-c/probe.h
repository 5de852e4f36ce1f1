// What the files of the probe share.
#ifndef PROBE_H
#define PROBE_H

#include <strata_action.h>

// What the steps are carried out for.
typedef struct {
  strata_str action;
  uint32_t attempt;
  strata_messages news;
  // The arguments of a tool call; a null pointer outside of one.
  const strata_json *arguments;
} scene;

// What came of the steps.
typedef struct {
  // Whether there is an output, and whether it ends the action.
  bool said, ended;
  strata_output output;
  // The answers of a thinker and the tasks of a planner; null pointers where no step names them.
  const strata_json *choices, *plan;
  // The values read so far, as they print.
  strata_buffer reads;
  size_t read_count;
  // The images for the next request to a model.
  strata_part images[8];
  size_t image_count;
} deeds;

// Carries out the steps that act in this attempt, in order.
strata_error act(const strata_json *config, scene here, deeds *done);

// Misbehaves as it is told.
strata_error commit_excess(strata_str excess, strata_str action, deeds *done);

#endif
