// Tests of the action with a host in memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeHost } from "@strata/action/testing";
import respond, { type Answer, type Config } from "../src/action.ts";

test("it answers and counts its words", async () => {
  const host = fakeHost({ replies: ["Blue and deep."] });
  const config: Config = { instruction: "Describe:" };
  const output = await host.run(respond, { news: "the sea", config });
  const expected: Answer = { words: 3 };
  assert.equal(output.content, "Blue and deep.");
  assert.deepEqual(output.data, expected);
  assert.deepEqual(host.prompts, ["Describe:\n\nthe sea"]);
});
