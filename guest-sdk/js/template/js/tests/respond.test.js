// Tests of the action with a host in memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeHost } from "@strata/action/testing";
import respond from "../src/action.js";

test("it answers and counts its words", async () => {
  const host = fakeHost({ replies: ["Blue and deep."] });
  const output = await host.run(respond, { news: "the sea", config: { instruction: "Describe:" } });
  assert.equal(output.content, "Blue and deep.");
  assert.deepEqual(output.data, { words: 3 });
  assert.deepEqual(host.prompts, ["Describe:\n\nthe sea"]);
});
