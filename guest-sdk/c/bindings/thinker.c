// The WIT package as C, written by `bindgen`; do not edit.
//
// wit fingerprint: 7ea711a882615cd0
#include "bindings.h"
#include <stdlib.h>

__attribute__((__aligned__(sizeof(void*))))
static uint8_t RET_AREA[(17*sizeof(void*))];

__attribute__((__export_name__("strata:action/thinker@0.2.0#choose")))
uint8_t * __wasm_export_exports_strata_action_thinker_choose(uint8_t * arg) {
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
  exports_strata_action_thinker_attempt_t arg13 = (strata_action_types_attempt_t) {
    (uint32_t) (uint32_t) (*((int32_t*) (arg + 0))),
    (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + sizeof(void*)))), (*((size_t*) (arg + (2*sizeof(void*))))) },
    (strata_action_option_u32_t) option,
    (strata_action_option_u32_t) option0,
    (strata_action_option_f64_t) option1,
  };
  exports_strata_action_thinker_situation_t arg14 = (exports_strata_action_thinker_situation_t) {
    (exports_strata_action_thinker_profile_t) (strata_action_types_profile_t) {
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+2*sizeof(void*))))), (*((size_t*) (arg + (40+3*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+4*sizeof(void*))))), (*((size_t*) (arg + (40+5*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+6*sizeof(void*))))), (*((size_t*) (arg + (40+7*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+8*sizeof(void*))))), (*((size_t*) (arg + (40+9*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+10*sizeof(void*))))), (*((size_t*) (arg + (40+11*sizeof(void*))))) },
    },
    (exports_strata_action_thinker_json_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (40+12*sizeof(void*))))), (*((size_t*) (arg + (40+13*sizeof(void*))))) },
    (uint32_t) (uint32_t) (*((int32_t*) (arg + (40+14*sizeof(void*))))),
    (exports_strata_action_thinker_list_candidate_t) (exports_strata_action_thinker_list_candidate_t) { (exports_strata_action_thinker_candidate_t*)(*((uint8_t **) (arg + (40+15*sizeof(void*))))), (*((size_t*) (arg + (40+16*sizeof(void*))))) },
    (exports_strata_action_thinker_list_message_t) (exports_strata_action_thinker_list_message_t) { (exports_strata_action_thinker_message_t*)(*((uint8_t **) (arg + (40+17*sizeof(void*))))), (*((size_t*) (arg + (40+18*sizeof(void*))))) },
    (exports_strata_action_thinker_list_message_t) (exports_strata_action_thinker_list_message_t) { (exports_strata_action_thinker_message_t*)(*((uint8_t **) (arg + (40+19*sizeof(void*))))), (*((size_t*) (arg + (40+20*sizeof(void*))))) },
  };
  exports_strata_action_thinker_result_s32_failure_t ret;
  int32_t ok;
  exports_strata_action_thinker_failure_t err;
  ret.is_err = !exports_strata_action_thinker_choose(&arg13, &arg14, &ok, &err);
  if (ret.is_err) {
    ret.val.err = err;
  }
  if (!ret.is_err) {
    ret.val.ok = ok;
  }
  free(arg);
  uint8_t *ptr = (uint8_t *) &RET_AREA;
  if ((ret).is_err) {
    const exports_strata_action_thinker_failure_t *payload15 = &(ret).val.err;*((int8_t*)(ptr + 0)) = 1;
    *((int8_t*)(ptr + sizeof(void*))) = (int32_t) (*payload15).kind;
    *((size_t*)(ptr + (3*sizeof(void*)))) = ((*payload15).message).len;
    *((uint8_t **)(ptr + (2*sizeof(void*)))) = (uint8_t *) ((*payload15).message).ptr;
  } else {
    const int32_t *payload = &(ret).val.ok;*((int8_t*)(ptr + 0)) = 0;
    *((int32_t*)(ptr + sizeof(void*))) = *payload;
  }
  return ptr;
}
