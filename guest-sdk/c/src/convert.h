// Conversion between the types of the bindings and those of authors. Internal to the SDK.
#ifndef STRATA_BORDER_H
#define STRATA_BORDER_H

#include "../include/strata_action.h"

// Converts an error of the host.
strata_error strata_from_host(const strata_action_types_host_error_t *error);

// The outcome of a function of the bindings. Such a function returns false and sets `error` if it fails.
#define OUTCOME(call) ((call) ? STRATA_SUCCESS : strata_from_host(&error))

// Returns the parsed text, or `null` if it is absent.
strata_json *strata_parse_or_null(strata_action_types_option_json_t text);

// Returns the value as text, or an absent text for a null pointer.
strata_action_types_option_json_t strata_written_or_none(const strata_json *value);

// Returns a string as an option, which is absent if `ptr` is null.
strata_action_option_string_t strata_some_or_none(strata_str text);

// Converts the parameters of a call.
strata_call strata_call_from(const strata_action_types_attempt_t *attempt, const strata_action_types_input_t *input);

// Converts an error to a failure of the action.
strata_action_types_failure_t strata_failure_of(strata_error error);

#endif
