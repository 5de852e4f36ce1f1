// Between what the bindings speak and what an author does. For the files of the SDK.
#ifndef STRATA_BORDER_H
#define STRATA_BORDER_H

#include "../include/strata_action.h"

strata_error strata_from_host(const strata_action_types_host_error_t *error);

// What a function of the bindings came to that returns whether it went well and else sets `error`.
#define OUTCOME(call) ((call) ? STRATA_SUCCESS : strata_from_host(&error))

strata_json *strata_parse_or_null(strata_action_types_option_json_t text);
strata_action_types_option_json_t strata_written_or_none(const strata_json *value);
strata_action_option_string_t strata_some_or_none(strata_str text);

// What an action is given, of what the host hands over, and back.
strata_call strata_call_from(const strata_action_types_attempt_t *attempt, const strata_action_types_input_t *input);
strata_action_types_failure_t strata_failure_of(strata_error error);

#endif
