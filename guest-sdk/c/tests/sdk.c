// Tests of the SDK with the host in memory.
#include <strata_testing.h>

static strata_str parse_and_write(const char *json) {
  strata_json *value;
  strata_str problem = STR("");
  return strata_json_parse(strata_from(json), &value, &problem) ? strata_json_write(value) : problem;
}

static void json_is_read_and_written(void) {
  static const char *const cases[][2] = {
    { " { \"a\" : [ 1 , -0.5e3 , true , null ] , \"b\" : { } } ", "{\"a\":[1,-0.5e3,true,null],\"b\":{}}" },
    { "\"\\u00e4\\ud83d\\ude00\\n\\\"\\/\\u0001\"", "\"\xc3\xa4\xf0\x9f\x98\x80\\n\\\"/\\u0001\"" },
    { "12345678901234567890", "12345678901234567890" },
    { "", "expected a value, at byte 0" },
    { "[1,]", "expected a value, at byte 3" },
    { "{\"a\" 1}", "expected `:`, at byte 5" },
    { "01", "unexpected character after the value, at byte 1" },
    { "\"\\ud800\"", "unpaired surrogate in a string, at byte 7" },
    { "\"a\nb\"", "control character in a string, at byte 2" },
    { "tru", "expected a value, at byte 0" },
    { "\"open", "unterminated string, at byte 5" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) STRATA_EXPECT_TEXT(parse_and_write(cases[i][0]), cases[i][1]);
  strata_buffer deep = { 0 };
  for (int i = 0; i < 1000; i++) strata_append(&deep, STR("["));
  strata_json *value;
  strata_str problem;
  STRATA_EXPECT(!strata_json_parse(strata_written(&deep), &value, &problem));
  STRATA_EXPECT_TEXT(problem, "nested too deeply, at byte 128");
}

static void json_is_built_and_read(void) {
  strata_json *list = strata_json_push(strata_json_new_array(), strata_json_new_number(0.1));
  strata_json_push(list, strata_json_new_int(-7));
  strata_json *object = strata_json_set(strata_json_new_object(), "list", list);
  strata_json_set(object, "name", strata_json_new_text(STR("old")));
  strata_json_set(object, "name", strata_json_new_text(STR("a\tb")));
  STRATA_EXPECT_TEXT(strata_json_write(object), "{\"list\":[0.1,-7],\"name\":\"a\\tb\"}");
  STRATA_EXPECT(strata_json_int(strata_json_at(strata_json_get(object, "list"), 1), 0) == -7);
  STRATA_EXPECT(strata_json_int(strata_json_at(strata_json_get(object, "list"), 0), 5) == 5);
  STRATA_EXPECT(strata_json_is_null(strata_json_at(strata_json_get(strata_json_get(object, "x"), "y"), 9)));
  STRATA_EXPECT_TEXT(strata_json_key_at(object, 1), "name");
  STRATA_EXPECT_TEXT(strata_json_write(strata_json_new_number(1.0 / 0.0)), "null");
}

static void integers_are_exact(void) {
  static const int64_t values[] = { 0, -7, 9007199254740993, -9007199254740995, 1795384779063000000, INT64_MAX, INT64_MIN };
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    STRATA_EXPECT(strata_json_int(strata_json_new_int(values[i]), 5) == values[i]);
  }
  static const struct { const char *text; int64_t expected; } others[] = {
    { "2.0", 2 }, { "1e3", 1000 }, { "-0", 0 }, { "0.5", 5 }, { "1e300", 5 }, { "9223372036854775808", 5 }, { "true", 5 },
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    strata_json *value;
    STRATA_EXPECT(strata_json_parse(strata_from(others[i].text), &value, NULL));
    STRATA_EXPECT(strata_json_int(value, 5) == others[i].expected);
  }
}

static void invalid_utf8_is_replaced(void) {
  static const char *const cases[][2] = {
    { "a\xc3\xb1o \xe2\x82\xac \xf0\x9f\x98\x80", "a\xc3\xb1o \xe2\x82\xac \xf0\x9f\x98\x80" },
    { "a\xc3", "a\xef\xbf\xbd" },
    { "\xffz\xe2\x82", "\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd" },
    { "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" },
    { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    { "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    STRATA_EXPECT_TEXT(strata_utf8(strata_from(cases[i][0])), cases[i][1]);
  }
  strata_str cut = strata_slice(STR("a\xc3\xb1"), 0, 2);
  STRATA_EXPECT_TEXT(strata_json_write(strata_json_new_text(cut)), "\"a\xef\xbf\xbd\"");
}

static void strings_are_cut_and_joined(void) {
  STRATA_EXPECT_TEXT(strata_trim(STR(" \n a b\t")), "a b");
  STRATA_EXPECT_TEXT(strata_slice(STR("hello"), 1, 99), "ello");
  STRATA_EXPECT(strata_find(STR("hello"), STR("lo")) == 3 && strata_find(STR("hello"), STR("x")) == 5);
  strata_str parts[] = { STR("a"), STR(""), STR("c") };
  STRATA_EXPECT_TEXT(strata_join((strata_strs){ parts, 3 }, STR(",")), "a,,c");
}

static void nothing_is_granted_by_default(void) {
  strata_str text;
  strata_http_response response;
  strata_json *value;
  STRATA_EXPECT_KIND(strata_llm_ask(STR("x"), &text), STRATA_DENIED);
  STRATA_EXPECT_KIND(strata_http_get(STR("http://x/"), &response), STRATA_DENIED);
  STRATA_EXPECT_KIND(strata_file_read(STR("/in/a"), &text), STRATA_DENIED);
  STRATA_EXPECT_KIND(strata_file_write(STR("/out/a"), STR("x")), STRATA_DENIED);
  STRATA_EXPECT_KIND(strata_secret(STR("TOKEN"), &text), STRATA_DENIED);
  STRATA_EXPECT_KIND(strata_env(STR("LANG"), &text), STRATA_DENIED);
  STRATA_EXPECT_KIND(strata_state_get(STR("other"), STR("k"), &value), STRATA_INVALID);
}

static void functions_of_the_host_return_its_results(void) {
  strata_json *value;
  STRATA_EXPECT_OK(strata_state_set(STR("role"), STR("k"), strata_json_new_int(1)));
  STRATA_EXPECT_OK(strata_state_get(STR("role"), STR("k"), &value));
  STRATA_EXPECT(strata_json_int(value, 0) == 1);
  strata_strs keys;
  STRATA_EXPECT_OK(strata_state_set(STR("role"), STR("a"), value));
  STRATA_EXPECT_OK(strata_state_keys(STR("role"), &keys));
  STRATA_EXPECT_TEXT(strata_join(keys, STR(",")), "a,k");
  STRATA_EXPECT_OK(strata_state_delete(STR("role"), STR("k")));
  STRATA_EXPECT(strata_test_value("role", "k").ptr == NULL);

  strata_mcp_result called;
  strata_test_mcp("notes/list", "two notes");
  strata_test_mcp_error("notes/count", STRATA_UPSTREAM, "gone");
  STRATA_EXPECT_OK(strata_mcp_call(STR("notes"), STR("list"), NULL, &called));
  STRATA_EXPECT_TEXT(called.text, "two notes");
  STRATA_EXPECT(!called.is_error);
  STRATA_EXPECT_KIND(strata_mcp_call(STR("notes"), STR("count"), NULL, &called), STRATA_UPSTREAM);
  STRATA_EXPECT_KIND(strata_mcp_call(STR("notes"), STR("delete"), NULL, &called), STRATA_DENIED);

  strata_test_response(404, "none");
  strata_test_http_error(STRATA_UPSTREAM, "gone");
  strata_http_request requests[2] = { { .method = STR("GET"), .url = STR("http://a/") },
                                      { .method = STR("GET"), .url = STR("http://b/") } };
  strata_http_result results[2];
  strata_http_fetch_many(requests, 2, results);
  STRATA_EXPECT(results[0].response.status == 404);
  STRATA_EXPECT_TEXT(results[0].response.body, "none");
  STRATA_EXPECT_KIND(results[1].error, STRATA_UPSTREAM);
  STRATA_EXPECT_TEXT(strata_test_fetched(1), "GET http://b/");

  strata_test_writable("/out");
  STRATA_EXPECT_OK(strata_file_write(STR("/out/b/c"), STR("text")));
  STRATA_EXPECT_TEXT(strata_test_content("/out/b/c"), "text");
  STRATA_EXPECT_OK(strata_file_list(STR("/out"), &keys));
  STRATA_EXPECT_TEXT(strata_join(keys, STR(",")), "b/");

  strata_test_answer("\"yes\"");
  strata_question question = { .text = STR("sure?"), .otherwise = strata_json_new_bool(false) };
  bool by_default = true;
  question.by_default = &by_default;
  STRATA_EXPECT_OK(strata_ask(&question, &value));
  STRATA_EXPECT_TEXT(strata_json_text(value, STR("")), "yes");
  STRATA_EXPECT(!by_default);
  STRATA_EXPECT_OK(strata_ask(&question, &value));
  STRATA_EXPECT(!strata_json_bool(value, true));
  STRATA_EXPECT(by_default);
  STRATA_EXPECT_TEXT(strata_test_question(0), "sure?");
}

static void a_briefing_contains_labels_and_senders(void) {
  strata_call call = strata_test_call("a game\n", NULL);
  strata_message output = strata_test_message("Code", "<p>", "{\"n\":2}");
  output.sent_from = STR("Eve");
  call.outputs = (strata_messages){ &output, 1 };
  STRATA_EXPECT_TEXT(strata_briefing(&call), "# UserRequirement\n\na game\n\n# Code, by Eve\n\n<p>");
  STRATA_EXPECT_TEXT(strata_text(&call), "<p>");
  STRATA_EXPECT(strata_json_int(strata_json_get(strata_message_data(strata_newest(&call)), "n"), 0) == 2);
  STRATA_EXPECT(strata_labelled(&call, STR("Poem")) == NULL);
  call.role.goal = STR("win.");
  STRATA_EXPECT_TEXT(strata_persona(&call.role), "You are Tester. Your goal: win.");
}

static void memory_returns_the_newest_messages_in_order(void) {
  strata_test_remember(strata_test_message("A", "1", NULL));
  strata_test_remember(strata_test_message("B", "2", NULL));
  strata_test_remember(strata_test_message("A", "3", NULL));
  strata_messages recent = strata_memory_recent((strata_bounds){ 2, UINT32_MAX });
  STRATA_EXPECT(recent.len == 2 && strata_equal(recent.ptr[0].content, STR("2")));
  recent = strata_memory_by_label(STR("A"), (strata_bounds){ 1, UINT32_MAX });
  STRATA_EXPECT(recent.len == 1 && strata_equal(recent.ptr[0].content, STR("3")));
  recent = strata_memory_recent((strata_bounds){ 9, 2 });
  STRATA_EXPECT(recent.len == 2 && strata_equal(recent.ptr[0].content, STR("2")));
}

static void a_conversation_is_continued_with_the_reply(void) {
  strata_test_tool_call("look", "{\"at\":\"box\"}");
  strata_test_truncated_reply("a c");
  strata_llm_message messages[3] = { strata_llm_user(STR("what is in it?")) };
  strata_llm_request request = {
    .messages = { messages, 1 }, .tool_choice = STRATA_TOOLS_ONE, .tool = STR("look"), .effort = STR("low") };
  strata_llm_reply reply;
  STRATA_EXPECT_OK(strata_llm_complete(&request, &reply));
  STRATA_EXPECT(reply.finish == STRATA_FINISH_TOOL_CALLS && reply.tool_calls.len == 1);
  STRATA_EXPECT_TEXT(reply.tool_calls.ptr[0].arguments, "{\"at\":\"box\"}");
  strata_llm_tool_result result = strata_llm_result(&reply.tool_calls.ptr[0], STR("a cat"));
  messages[1] = strata_llm_assistant(&reply);
  messages[2] = strata_llm_results((strata_llm_tool_results){ &result, 1 });
  request.messages.len = 3;
  STRATA_EXPECT_OK(strata_llm_complete(&request, &reply));
  STRATA_EXPECT(reply.finish == STRATA_FINISH_LENGTH && reply.tool_calls.len == 0);
  STRATA_EXPECT_TEXT(reply.text, "a c");
  STRATA_EXPECT_TEXT(strata_test_prompt(0), "what is in it?");
  STRATA_EXPECT_TEXT(strata_test_prompt(1), "a cat");
}

static void images_and_vectors_come_from_the_test(void) {
  strata_test_blob("d1", "png");
  strata_str bytes;
  strata_part image = strata_part_image(STR("image/png"), STR("own"));
  STRATA_EXPECT_OK(strata_part_load(&image, &bytes));
  STRATA_EXPECT_TEXT(bytes, "own");
  image.val.image.source = (strata_action_types_media_source_t){
    STRATA_ACTION_TYPES_MEDIA_SOURCE_BLOB, { .blob = { STR("d1"), 3 } } };
  STRATA_EXPECT_OK(strata_part_load(&image, &bytes));
  STRATA_EXPECT_TEXT(bytes, "png");
  image.val.image.source.val.blob.digest = STR("d2");
  STRATA_EXPECT_KIND(strata_part_load(&image, &bytes), STRATA_NOT_FOUND);
  strata_str texts[] = { STR("a"), STR("b") };
  strata_llm_embed_request request = { .texts = { texts, 2 } };
  strata_llm_embeddings found;
  STRATA_EXPECT_KIND(strata_llm_embed(&request, &found), STRATA_DENIED);
  strata_test_embedding(0.5f);
  strata_test_embedding(2);
  STRATA_EXPECT_OK(strata_llm_embed(&request, &found));
  STRATA_EXPECT(found.vectors.len == 2 && found.vectors.ptr[1].ptr[0] == 2);
}

STRATA_TESTS(json_is_read_and_written, json_is_built_and_read, integers_are_exact,
             invalid_utf8_is_replaced, strings_are_cut_and_joined,
             nothing_is_granted_by_default, functions_of_the_host_return_its_results,
             a_briefing_contains_labels_and_senders, memory_returns_the_newest_messages_in_order,
             a_conversation_is_continued_with_the_reply, images_and_vectors_come_from_the_test)
