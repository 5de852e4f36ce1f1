// Tests of the action with a host in memory.
#include <strata_testing.h>

static void it_answers_and_counts_its_words(void) {
  strata_test_reply("Blue and deep.");
  strata_call call = strata_test_call("the sea", "{\"instruction\":\"Describe:\"}");
  strata_output output = { 0 };
  STRATA_EXPECT_OK(strata_action_run(&call, &output));
  STRATA_EXPECT_TEXT(output.content, "Blue and deep.");
  STRATA_EXPECT_TEXT(strata_json_write(output.data), "{\"words\":3}");
  STRATA_EXPECT_TEXT(strata_test_prompt(0), "Describe:\n\nthe sea");
}

static void without_an_instruction_it_fails(void) {
  strata_call call = strata_test_call("the sea", NULL);
  strata_output output = { 0 };
  STRATA_EXPECT_KIND(strata_action_run(&call, &output), STRATA_ERROR);
}

STRATA_TESTS(it_answers_and_counts_its_words, without_an_instruction_it_fails)
