// The WIT package as C, written by `bindgen`; do not edit.
//
// wit fingerprint: 7ea711a882615cd0
#include "bindings.h"
#include <stdlib.h>

__attribute__((__aligned__(sizeof(void*))))
static uint8_t RET_AREA[(17*sizeof(void*))];

__attribute__((__export_name__("strata:action/planner@0.2.0#plan")))
uint8_t * __wasm_export_exports_strata_action_planner_plan(uint8_t * arg) {
  strata_action_option_u32_t option;
  switch ((int32_t) *((uint8_t*) (arg + (3*sizeof(void*))))) {
    case 0: {
      option.is_some = false;
      break;
    }
    case 1: {
      option.is_some = true;
      option.val = (uint32_t) (*((int32_t*) (arg + (4+3*sizeof(void*)))));
      break;
    }
  }
  strata_action_option_u32_t option0;
  switch ((int32_t) *((uint8_t*) (arg + (8+3*sizeof(void*))))) {
    case 0: {
      option0.is_some = false;
      break;
    }
    case 1: {
      option0.is_some = true;
      option0.val = (uint32_t) (*((int32_t*) (arg + (12+3*sizeof(void*)))));
      break;
    }
  }
  strata_action_option_f64_t option1;
  switch ((int32_t) *((uint8_t*) (arg + (24+2*sizeof(void*))))) {
    case 0: {
      option1.is_some = false;
      break;
    }
    case 1: {
      option1.is_some = true;
      option1.val = *((double*) (arg + (32+2*sizeof(void*))));
      break;
    }
  }
  strata_action_types_option_task_t option14;
  switch ((int32_t) *((uint8_t*) (arg + (40+21*sizeof(void*))))) {
    case 0: {
      option14.is_some = false;
      break;
    }
    case 1: {
      option14.is_some = true;
      strata_action_option_string_t option13;
      switch ((int32_t) *((uint8_t*) (arg + (40+24*sizeof(void*))))) {
        case 0: {
          option13.is_some = false;
          break;
        }
        case 1: {
          option13.is_some = true;
          option13.val = (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+25*sizeof(void*))))), (*((size_t*) (arg + (40+26*sizeof(void*))))) };
          break;
        }
      }

      option14.val = (strata_action_types_task_t) {
        (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+22*sizeof(void*))))), (*((size_t*) (arg + (40+23*sizeof(void*))))) },
        (strata_action_option_string_t) option13,
      };
      break;
    }
  }
  strata_action_types_option_json_t option15;
  switch ((int32_t) *((uint8_t*) (arg + (40+27*sizeof(void*))))) {
    case 0: {
      option15.is_some = false;
      break;
    }
    case 1: {
      option15.is_some = true;
      option15.val = (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+28*sizeof(void*))))), (*((size_t*) (arg + (40+29*sizeof(void*))))) };
      break;
    }
  }
  exports_strata_action_planner_attempt_t arg16 = (strata_action_types_attempt_t) {
    (uint32_t) (uint32_t) (*((int32_t*) (arg + 0))),
    (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + sizeof(void*)))), (*((size_t*) (arg + (2*sizeof(void*))))) },
    (strata_action_option_u32_t) option,
    (strata_action_option_u32_t) option0,
    (strata_action_option_f64_t) option1,
  };
  exports_strata_action_planner_input_t arg17 = (strata_action_types_input_t) {
    (strata_action_types_profile_t) (strata_action_types_profile_t) {
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+2*sizeof(void*))))), (*((size_t*) (arg + (40+3*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+4*sizeof(void*))))), (*((size_t*) (arg + (40+5*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+6*sizeof(void*))))), (*((size_t*) (arg + (40+7*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+8*sizeof(void*))))), (*((size_t*) (arg + (40+9*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+10*sizeof(void*))))), (*((size_t*) (arg + (40+11*sizeof(void*))))) },
    },
    (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+12*sizeof(void*))))), (*((size_t*) (arg + (40+13*sizeof(void*))))) },
    (uint32_t) (uint32_t) (*((int32_t*) (arg + (40+14*sizeof(void*))))),
    (strata_action_types_json_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+15*sizeof(void*))))), (*((size_t*) (arg + (40+16*sizeof(void*))))) },
    (strata_action_types_list_message_t) (strata_action_types_list_message_t) { (strata_action_types_message_t*)(*((uint8_t **) (arg + (40+17*sizeof(void*))))), (*((size_t*) (arg + (40+18*sizeof(void*))))) },
    (strata_action_types_list_message_t) (strata_action_types_list_message_t) { (strata_action_types_message_t*)(*((uint8_t **) (arg + (40+19*sizeof(void*))))), (*((size_t*) (arg + (40+20*sizeof(void*))))) },
    (strata_action_types_option_task_t) option14,
    (strata_action_types_option_json_t) option15,
  };
  exports_strata_action_planner_result_list_task_failure_t ret;
  exports_strata_action_planner_list_task_t ok;
  exports_strata_action_planner_failure_t err;
  ret.is_err = !exports_strata_action_planner_plan(&arg16, &arg17, &ok, &err);
  if (ret.is_err) {
    ret.val.err = err;
  }
  if (!ret.is_err) {
    ret.val.ok = ok;
  }
  free(arg);
  uint8_t *ptr = (uint8_t *) &RET_AREA;
  if ((ret).is_err) {
    const exports_strata_action_planner_failure_t *payload20 = &(ret).val.err;*((int8_t*)(ptr + 0)) = 1;
    *((int8_t*)(ptr + sizeof(void*))) = (int32_t) (*payload20).kind;
    *((size_t*)(ptr + (3*sizeof(void*)))) = ((*payload20).message).len;
    *((uint8_t **)(ptr + (2*sizeof(void*)))) = (uint8_t *) ((*payload20).message).ptr;
  } else {
    const exports_strata_action_planner_list_task_t *payload = &(ret).val.ok;*((int8_t*)(ptr + 0)) = 0;
    *((size_t*)(ptr + (2*sizeof(void*)))) = (*payload).len;
    *((uint8_t **)(ptr + sizeof(void*))) = (uint8_t *) (*payload).ptr;
  }
  return ptr;
}
