// The WIT package as C, written by `bindgen`; do not edit.
//
// wit fingerprint: 8e9ed261d40601ca
#include "bindings.h"
#include <stdlib.h>

__attribute__((__aligned__(sizeof(void*))))
static uint8_t RET_AREA[(14*sizeof(void*))];

__attribute__((__export_name__("strata:action/planner@0.1.0#plan")))
uint8_t * __wasm_export_exports_strata_action_planner_plan(uint8_t * arg) {
  strata_action_types_option_task_t option2;
  switch ((int32_t) *((uint8_t*) (arg + (22*sizeof(void*))))) {
    case 0: {
      option2.is_some = false;
      break;
    }
    case 1: {
      option2.is_some = true;
      strata_action_option_string_t option1;
      switch ((int32_t) *((uint8_t*) (arg + (25*sizeof(void*))))) {
        case 0: {
          option1.is_some = false;
          break;
        }
        case 1: {
          option1.is_some = true;
          option1.val = (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (26*sizeof(void*))))), (*((size_t*) (arg + (27*sizeof(void*))))) };
          break;
        }
      }

      option2.val = (strata_action_types_task_t) {
        (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (23*sizeof(void*))))), (*((size_t*) (arg + (24*sizeof(void*))))) },
        (strata_action_option_string_t) option1,
      };
      break;
    }
  }
  exports_strata_action_planner_attempt_t arg3 = (strata_action_types_attempt_t) {
    (uint32_t) (uint32_t) (*((int32_t*) (arg + 0))),
    (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + sizeof(void*)))), (*((size_t*) (arg + (2*sizeof(void*))))) },
  };
  exports_strata_action_planner_input_t arg4 = (strata_action_types_input_t) {
    (strata_action_types_profile_t) (strata_action_types_profile_t) {
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (3*sizeof(void*))))), (*((size_t*) (arg + (4*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (5*sizeof(void*))))), (*((size_t*) (arg + (6*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (7*sizeof(void*))))), (*((size_t*) (arg + (8*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (9*sizeof(void*))))), (*((size_t*) (arg + (10*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (11*sizeof(void*))))), (*((size_t*) (arg + (12*sizeof(void*))))) },
    },
    (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (13*sizeof(void*))))), (*((size_t*) (arg + (14*sizeof(void*))))) },
    (uint32_t) (uint32_t) (*((int32_t*) (arg + (15*sizeof(void*))))),
    (strata_action_types_json_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (16*sizeof(void*))))), (*((size_t*) (arg + (17*sizeof(void*))))) },
    (strata_action_types_list_message_t) (strata_action_types_list_message_t) { (strata_action_types_message_t*)(*((uint8_t **) (arg + (18*sizeof(void*))))), (*((size_t*) (arg + (19*sizeof(void*))))) },
    (strata_action_types_list_message_t) (strata_action_types_list_message_t) { (strata_action_types_message_t*)(*((uint8_t **) (arg + (20*sizeof(void*))))), (*((size_t*) (arg + (21*sizeof(void*))))) },
    (strata_action_types_option_task_t) option2,
  };
  exports_strata_action_planner_result_list_task_failure_t ret;
  exports_strata_action_planner_list_task_t ok;
  exports_strata_action_planner_failure_t err;
  ret.is_err = !exports_strata_action_planner_plan(&arg3, &arg4, &ok, &err);
  if (ret.is_err) {
    ret.val.err = err;
  }
  if (!ret.is_err) {
    ret.val.ok = ok;
  }
  free(arg);
  uint8_t *ptr = (uint8_t *) &RET_AREA;
  if ((ret).is_err) {
    const exports_strata_action_planner_failure_t *payload7 = &(ret).val.err;*((int8_t*)(ptr + 0)) = 1;
    *((int8_t*)(ptr + sizeof(void*))) = (int32_t) (*payload7).kind;
    *((size_t*)(ptr + (3*sizeof(void*)))) = ((*payload7).message).len;
    *((uint8_t **)(ptr + (2*sizeof(void*)))) = (uint8_t *) ((*payload7).message).ptr;
  } else {
    const exports_strata_action_planner_list_task_t *payload = &(ret).val.ok;*((int8_t*)(ptr + 0)) = 0;
    *((size_t*)(ptr + (2*sizeof(void*)))) = (*payload).len;
    *((uint8_t **)(ptr + sizeof(void*))) = (uint8_t *) (*payload).ptr;
  }
  return ptr;
}
