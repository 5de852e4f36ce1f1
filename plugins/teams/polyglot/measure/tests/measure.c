// The action against a host in memory.
#include <strata_testing.h>

static void it_measures(void) {
  strata_call call = strata_test_call("", NULL);
  strata_str readings = STR("{\"readings\":[{\"day\":\"a\",\"temperature\":1},{\"day\":\"b\",\"temperature\":3}]}");
  call.news.ptr[0].data = (strata_action_types_option_json_t){ true, readings };
  strata_output output = { 0 };
  STRATA_EXPECT_OK(strata_action_run(&call, &output));
  STRATA_EXPECT_TEXT(output.content, "2.0 °C on average, +2.00 a day");
}

static void without_readings_it_says_so(void) {
  strata_call call = strata_test_call("", NULL);
  strata_output output = { 0 };
  STRATA_EXPECT_KIND(strata_action_run(&call, &output), STRATA_ERROR);
}

STRATA_TESTS(it_measures, without_readings_it_says_so)
