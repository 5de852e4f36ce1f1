// The WIT package as C, written by `bindgen`; do not edit.
//
// wit fingerprint: 8e9ed261d40601ca
#include "bindings.h"
#include <stdlib.h>

__attribute__((__aligned__(sizeof(void*))))
static uint8_t RET_AREA[(14*sizeof(void*))];

__attribute__((__export_name__("strata:action/thinker@0.1.0#choose")))
uint8_t * __wasm_export_exports_strata_action_thinker_choose(uint8_t * arg) {
  exports_strata_action_thinker_attempt_t arg1 = (strata_action_types_attempt_t) {
    (uint32_t) (uint32_t) (*((int32_t*) (arg + 0))),
    (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + sizeof(void*)))), (*((size_t*) (arg + (2*sizeof(void*))))) },
  };
  exports_strata_action_thinker_situation_t arg2 = (exports_strata_action_thinker_situation_t) {
    (exports_strata_action_thinker_profile_t) (strata_action_types_profile_t) {
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (3*sizeof(void*))))), (*((size_t*) (arg + (4*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (5*sizeof(void*))))), (*((size_t*) (arg + (6*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (7*sizeof(void*))))), (*((size_t*) (arg + (8*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (9*sizeof(void*))))), (*((size_t*) (arg + (10*sizeof(void*))))) },
      (strata_action_string_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (11*sizeof(void*))))), (*((size_t*) (arg + (12*sizeof(void*))))) },
    },
    (exports_strata_action_thinker_json_t) (strata_action_string_t) { (uint8_t*)(*((uint8_t **) (arg + (13*sizeof(void*))))), (*((size_t*) (arg + (14*sizeof(void*))))) },
    (uint32_t) (uint32_t) (*((int32_t*) (arg + (15*sizeof(void*))))),
    (exports_strata_action_thinker_list_candidate_t) (exports_strata_action_thinker_list_candidate_t) { (exports_strata_action_thinker_candidate_t*)(*((uint8_t **) (arg + (16*sizeof(void*))))), (*((size_t*) (arg + (17*sizeof(void*))))) },
    (exports_strata_action_thinker_list_message_t) (exports_strata_action_thinker_list_message_t) { (exports_strata_action_thinker_message_t*)(*((uint8_t **) (arg + (18*sizeof(void*))))), (*((size_t*) (arg + (19*sizeof(void*))))) },
    (exports_strata_action_thinker_list_message_t) (exports_strata_action_thinker_list_message_t) { (exports_strata_action_thinker_message_t*)(*((uint8_t **) (arg + (20*sizeof(void*))))), (*((size_t*) (arg + (21*sizeof(void*))))) },
  };
  exports_strata_action_thinker_result_s32_failure_t ret;
  int32_t ok;
  exports_strata_action_thinker_failure_t err;
  ret.is_err = !exports_strata_action_thinker_choose(&arg1, &arg2, &ok, &err);
  if (ret.is_err) {
    ret.val.err = err;
  }
  if (!ret.is_err) {
    ret.val.ok = ok;
  }
  free(arg);
  uint8_t *ptr = (uint8_t *) &RET_AREA;
  if ((ret).is_err) {
    const exports_strata_action_thinker_failure_t *payload3 = &(ret).val.err;*((int8_t*)(ptr + 0)) = 1;
    *((int8_t*)(ptr + sizeof(void*))) = (int32_t) (*payload3).kind;
    *((size_t*)(ptr + (3*sizeof(void*)))) = ((*payload3).message).len;
    *((uint8_t **)(ptr + (2*sizeof(void*)))) = (uint8_t *) ((*payload3).message).ptr;
  } else {
    const int32_t *payload = &(ret).val.ok;*((int8_t*)(ptr + 0)) = 0;
    *((int32_t*)(ptr + sizeof(void*))) = *payload;
  }
  return ptr;
}
