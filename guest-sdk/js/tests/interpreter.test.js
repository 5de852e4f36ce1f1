// Tests of the interpreter, with replacements for the modules that load scripts: here a script is a number, the index that
// it chooses.

import assert from "node:assert/strict";
import { register } from "node:module";
import { test } from "node:test";
import { readComment } from "../interpreter/jsdoc.js";
import { fakeHost } from "../src/testing.js";

const source = (text) => `data:text/javascript,${encodeURIComponent(text)}`;
/** Replacements for imported modules. Packages of npm are not available here. */
const REPLACEMENTS = {
  "@strata/action": new URL("../src/index.js", import.meta.url).href,
  "strata:interpreter/script@0.1.0": source("export default { lineReached() {} };"),
  "../src/trace.js": source("export const register = () => {};"),
  "./describe.js": source("export const describe = (text, load) => ({ description: text, exports: Object.keys(load()) });"),
  "./script.js": source(`
    export const translate = (name, text) => {
      if (text === "(") throw Object.assign(new Error("odd"), { syntaxError: { line: 1 } });
      return { code: text };
    };
    export const locator = () => undefined;
    export const load = (code) => ({ run: () => "ran " + code, choose: () => Number(code) });
    export const whenSettled = (value, use) => use(value);
  `),
};
register(source(`
  const replacements = ${JSON.stringify(REPLACEMENTS)};
  export const resolve = (name, from, next) =>
    replacements[name] ? { url: replacements[name], shortCircuit: true } : next(name, from);
`));
const { default: interpreter } = await import("../interpreter/action.js");

const choose = (call) => fakeHost().choose(interpreter, { config: { script: null, config: null }, ...call });

test("a thinker's script is the newest output, else the newest of the news", async () => {
  assert.equal(await choose({ news: ["1", "2"] }), 2);
  assert.equal(await choose({ news: "1", outputs: ["2", "So:\n```js\n3\n```"] }), 3);
});

test("a script is translated in one call and run in others", async () => {
  const run = (config) => fakeHost().run(interpreter, { config });
  const text = { name: "a.js", text: "1" };
  assert.deepEqual((await run({ translate: text })).data, { code: "1" });
  assert.equal((await run({ script: text, config: null })).content, "ran 1");
  assert.equal((await run({ script: { ...text, translation: { code: "2" } }, config: null })).content, "ran 2");
});

test("a script is described, and its syntax error is not a failure", async () => {
  const data = async (config) => (await fakeHost().run(interpreter, { config })).data;
  const script = { name: "a.js", text: "1", translation: { code: "1" } };
  assert.deepEqual(await data({ describe: script }), { description: "1", exports: ["run", "choose"] });
  assert.deepEqual(await data({ translate: { name: "a.js", text: "(" } }), { error: { line: 1 } });
});

test("a script that is missing or incomplete is reported", async () => {
  const failure = (why) => ({ kind: "error", message: `running the script of the newest message: ${why}` });
  await assert.rejects(choose({}), failure("there is no message"));
  await assert.rejects(choose({ news: "```js\n3" }), failure("its code block has no closing fence"));
});

test("a comment describes a script and its arguments", () => {
  const text = `Adds
two numbers.

And more.
@param {import("@strata/action").Context} cx
@param {number} cx.arguments.zeta - The
  first.
@param {integer} [args.alpha=2] The second.
@param {("up"|'down')=} way
@param {Array<{name: string, size?: number}>} parts
@param {?string} [note="a"]
@param {object} part
@param {string[]} part.names - All of them.
@returns {number} The sum.`;
  const { description, inputSchema } = readComment(text);
  assert.equal(description, "Adds two numbers.");
  assert.deepEqual(inputSchema, {
    type: "object",
    properties: {
      zeta: { type: "number", description: "The first." },
      alpha: { type: "integer", description: "The second.", default: 2 },
      way: { enum: ["up", "down"] },
      parts: {
        type: "array",
        items: { type: "object", properties: { name: { type: "string" }, size: { type: "number" } }, required: ["name"] },
      },
      note: { anyOf: [{ type: "string" }, { type: "null" }], default: "a" },
      part: {
        type: "object",
        properties: { names: { type: "array", items: { type: "string" }, description: "All of them." } },
        required: ["names"],
      },
    },
    required: ["zeta", "parts", "part"],
    additionalProperties: false,
  });
  assert.deepEqual(readComment("Counts.\n@param cx The context."), { description: "Counts.", inputSchema: undefined });
  assert.deepEqual(readComment("@param {"), { description: "", inputSchema: undefined });
});
