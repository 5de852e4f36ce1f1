// Calls: their conversion from the types of the bindings, and the functions that read them.
#include "convert.h"

strata_call strata_call_from(const strata_action_types_attempt_t *attempt, const strata_action_types_input_t *input) {
  return (strata_call){
    .attempt = attempt->number,
    .idempotency_key = attempt->idempotency_key,
    .role = input->role,
    .action = input->action,
    .index = input->index,
    .config = strata_parse_or_null((strata_action_types_option_json_t){ true, input->config }),
    .news = input->news,
    .outputs = input->outputs,
    .task = input->task.is_some ? &input->task.val : NULL,
    .arguments = strata_parse_or_null(input->arguments),
    .turn = attempt->turn,
    .tool_call = attempt->call,
    .deadline_ms = attempt->deadline_ms,
  };
}

strata_action_types_failure_t strata_failure_of(strata_error error) {
  static const strata_action_types_failure_kind_t kinds[] = {
    [STRATA_OK] = STRATA_ACTION_TYPES_FAILURE_KIND_ERROR,
    [STRATA_ERROR] = STRATA_ACTION_TYPES_FAILURE_KIND_ERROR,
    [STRATA_RETRYABLE] = STRATA_ACTION_TYPES_FAILURE_KIND_RETRYABLE,
    [STRATA_DENIED] = STRATA_ACTION_TYPES_FAILURE_KIND_DENIED,
    [STRATA_HOST] = STRATA_ACTION_TYPES_FAILURE_KIND_HOST,
    [STRATA_INVALID] = STRATA_ACTION_TYPES_FAILURE_KIND_ERROR,
    [STRATA_NOT_FOUND] = STRATA_ACTION_TYPES_FAILURE_KIND_ERROR,
    [STRATA_UPSTREAM] = STRATA_ACTION_TYPES_FAILURE_KIND_HOST,
    [STRATA_OUT_OF_BUDGET] = STRATA_ACTION_TYPES_FAILURE_KIND_HOST,
    [STRATA_EXPIRED] = STRATA_ACTION_TYPES_FAILURE_KIND_ERROR,
    [STRATA_FAILED] = STRATA_ACTION_TYPES_FAILURE_KIND_ERROR,
  };
  return (strata_action_types_failure_t){ kinds[error.kind], strata_utf8(error.message) };
}

void strata_plan_add(strata_plan *plan, strata_str text, strata_str action) {
  if (plan->len == plan->room) {
    size_t room = plan->room ? 2 * plan->room : 8;
    strata_task *larger = strata_alloc(room * sizeof *larger);
    for (size_t i = 0; i < plan->len; i++) larger[i] = plan->ptr[i];
    plan->ptr = larger;
    plan->room = room;
  }
  plan->ptr[plan->len++] = (strata_task){ text, strata_some_or_none(action) };
}

const strata_message *strata_newest(const strata_call *call) {
  if (call->outputs.len) return &call->outputs.ptr[call->outputs.len - 1];
  return call->news.len ? &call->news.ptr[call->news.len - 1] : NULL;
}

static const strata_message *newest_labelled(strata_messages messages, strata_str cause_by) {
  for (size_t i = messages.len; i > 0; i--) {
    if (strata_equal(messages.ptr[i - 1].cause_by, cause_by)) return &messages.ptr[i - 1];
  }
  return NULL;
}

const strata_message *strata_labelled(const strata_call *call, strata_str cause_by) {
  const strata_message *found = newest_labelled(call->outputs, cause_by);
  return found ? found : newest_labelled(call->news, cause_by);
}

strata_str strata_text(const strata_call *call) {
  if (call->outputs.len) return strata_newest(call)->content;
  strata_buffer all = { 0 };
  for (size_t i = 0; i < call->news.len; i++) {
    if (i > 0) strata_append(&all, STR("\n\n"));
    strata_append(&all, call->news.ptr[i].content);
  }
  return strata_written(&all);
}

static void add_sentence(strata_buffer *text, const char *lead, strata_str part) {
  while (part.len && part.ptr[part.len - 1] == '.') part.len--;
  if (part.len) strata_appendf(text, " %s%.*s.", lead, STR_ARG(part));
}

strata_str strata_persona(const strata_profile *role) {
  strata_buffer text = { 0 };
  strata_appendf(&text, "You are %.*s", STR_ARG(role->name));
  if (role->profile.len && !strata_equal(role->profile, role->name)) {
    strata_appendf(&text, ", %.*s", STR_ARG(role->profile));
  }
  strata_append(&text, STR("."));
  add_sentence(&text, "", role->desc);
  add_sentence(&text, "Your goal: ", role->goal);
  add_sentence(&text, "Your constraints: ", role->constraints);
  return strata_written(&text);
}

static void add_part(strata_buffer *text, strata_str title, strata_str by, strata_str content) {
  if (text->len) strata_append(text, STR("\n\n"));
  strata_appendf(text, "# %.*s", STR_ARG(title));
  if (by.len) strata_appendf(text, ", by %.*s", STR_ARG(by));
  strata_append(text, STR("\n\n"));
  strata_append(text, strata_trim(content));
}

strata_str strata_briefing(const strata_call *call) {
  strata_buffer text = { 0 };
  if (call->task) add_part(&text, STR("Task"), (strata_str){ 0, 0 }, call->task->text);
  for (size_t i = 0; i < call->news.len + call->outputs.len; i++) {
    size_t output = i - call->news.len;
    const strata_message *message = i < call->news.len ? &call->news.ptr[i] : &call->outputs.ptr[output];
    add_part(&text, message->cause_by, message->sent_from, message->content);
  }
  return strata_written(&text);
}
