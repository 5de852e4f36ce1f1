// The action that scripts run in, without what it reads a script with: a script here is a number, and chooses that.

import assert from "node:assert/strict";
import { register } from "node:module";
import { test } from "node:test";
import { fakeHost } from "../src/testing.js";

const source = (text) => `data:text/javascript,${encodeURIComponent(text)}`;
/** What stands for the modules that it imports; those of npm are not beside the SDK. */
const STANDS = {
  "@strata/action": new URL("../src/index.js", import.meta.url).href,
  "../src/trace.js": source("export const register = () => {};"),
  "./script.js": source(`
    export const translate = (name, text) => ({ code: text });
    export const load = (code) => ({ choose: () => Number(code) });
  `),
};
register(source(`
  const stands = ${JSON.stringify(STANDS)};
  export const resolve = (name, from, next) =>
    stands[name] ? { url: stands[name], shortCircuit: true } : next(name, from);
`));
const { default: interpreter } = await import("../interpreter/action.js");

const chosen = (call) => fakeHost().choose(interpreter, { config: { script: null, config: null }, ...call });

test("a thinker's script is the newest output, else the newest of the news", async () => {
  assert.equal(await chosen({ news: ["1", "2"] }), 2);
  assert.equal(await chosen({ news: "1", outputs: ["2", "So:\n```js\n3\n```"] }), 3);
});

test("a script that is not there, or not all of it, is told", async () => {
  const told = (why) => ({ kind: "error", message: `running the script of the newest message: ${why}` });
  await assert.rejects(chosen({}), told("there is no message"));
  await assert.rejects(chosen({ news: "```js\n3" }), told("its block of code has no closing fence"));
});
