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
  "./directory.js": source(`
    export const translate = ({ files }) => files.map(({ text }) => ({ code: text }));
    export const load = ({ translation }) => ({ run: () => "ran " + translation.map(({ code }) => code).join("+") });
    export const entryText = ({ files }) => files[0].text;
    export const locator = () => undefined;
  `),
  // Its globals are those of Node itself.
  "./process.js": source(`
    export class Exit {}
    export const [checkExitCode, defineGlobals, errors, printed] = Array(4).fill(() => {});
  `),
  "./script.js": source(`
    export const javaScriptOf = (name, text) => text;
    export const translate = (name, text) => {
      if (text === "(") throw Object.assign(new Error("odd"), { syntaxError: { line: 1 } });
      if (text === "types" && !name.endsWith(".ts")) throw new SyntaxError("types");
      return { code: text };
    };
    export const locator = () => undefined;
    export const load = ({ code }) => ({ run: () => "ran " + code, choose: () => Number(code) });
    export const whenSettled = (value, use) => use(value);
  `),
};
register(source(`
  const replacements = ${JSON.stringify(REPLACEMENTS)};
  export const resolve = (name, from, next) =>
    replacements[name] ? { url: replacements[name], shortCircuit: true } : next(name, from);
`));
const { default: interpreter } = await import("../interpreter/action.js");
const { findCode } = await import("../interpreter/code_block.js");
const web = await import("../interpreter/web.js");
const { path } = await import("../interpreter/path.js");
const { assert: ownAssert } = await import("../interpreter/assert.js");

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

test("a directory is translated, described and run as a whole", async () => {
  const run = (config) => fakeHost().run(interpreter, { config });
  const directory = { name: "a", module: "a.js", files: [{ name: "a.js", text: "1" }, { name: "b.js", text: "2" }] };
  assert.deepEqual((await run({ translate: directory })).data, [{ code: "1" }, { code: "2" }]);
  assert.equal((await run({ script: directory, config: null })).content, "ran 1+2");
  assert.deepEqual((await run({ describe: directory })).data, { description: "1", exports: ["run"] });
});

test("a script is described, and its syntax error is not a failure", async () => {
  const data = async (config) => (await fakeHost().run(interpreter, { config })).data;
  const script = { name: "a.js", text: "1", translation: { code: "1" } };
  assert.deepEqual(await data({ describe: script }), { description: "1", exports: ["run", "choose"] });
  assert.deepEqual(await data({ translate: { name: "a.js", text: "(" } }), { error: { line: 1 } });
});

test("a script that is missing or incomplete is reported", async () => {
  const failure = (message) => ({ kind: "error", message });
  await assert.rejects(choose({}), failure("running the script of the newest message: there is no message"));
  await assert.rejects(choose({ news: "```js\n3" }), failure("finding the code in a text: its code block has no closing fence"));
  const others = "its code blocks are in `sh`, `python`, and none is in `js`";
  await assert.rejects(choose({ news: "```sh\n1\n```\n```python\n2\n```" }), failure(`finding the code in a text: ${others}`));
});

test("a script that a call brings along may be in TypeScript without saying so", async () => {
  const run = (script) => fakeHost().run(interpreter, { config: { script, config: null } });
  assert.equal((await run({ name: "code.js", text: "types", passed: true })).content, "ran types");
  await assert.rejects(run({ name: "code.js", text: "types" }), { message: /types/ });
});

test("code is found by its language", () => {
  for (const [text, expected, ending = "js"] of [
    ["return 5", "return 5"],
    ["```js\nreturn 5\n```", "return 5\n"],
    ["First:\n```bash\nnpm i\n```\n~~~ JavaScript title=a.js\n1\n~~~\n```js\n2\n```", "1\n"],
    ["```\n1\n```\n```json\n{}\n```", "1\n"],
    ["```ts\nlet a: A\n```", "let a: A\n", "ts"],
  ]) {
    assert.deepEqual(findCode(text, "js"), { text: expected, ending });
  }
});

test("values are copied, encoded and drawn as elsewhere", () => {
  for (const text of ["", "a", "ab", "abc", "\u00ff\u0000\u0080"]) {
    assert.equal(web.btoa(text), btoa(text));
    assert.equal(web.atob(btoa(text)), text);
  }
  assert.throws(() => web.atob("a"), /not Base64/);
  const value = { list: [1, [2]], map: new Map([["a", { b: 1 }]]), set: new Set([1]), date: new Date(5), bytes: new Uint8Array([1]) };
  value.self = value;
  const copy = web.structuredClone(value);
  assert.deepEqual(copy, value);
  assert.ok(copy.self === copy && copy.list !== value.list && copy.map.get("a") !== value.map.get("a"));
  assert.throws(() => web.structuredClone({ f() {} }), /a function cannot be copied/);
});

test("replacements for modules of Node act like these", () => {
  for (const [found, expected] of [
    [path.join("/a", "../b/", "./c.txt"), "/b/c.txt"],
    [path.resolve("/a", "b/", "../c/"), "/a/c"],
    [path.resolve("data.csv"), "/data.csv"],
    [path.normalize("../a//b/."), "../a/b"],
    [path.basename("/a/b.txt", ".txt"), "b"],
    [path.extname("a/.b") + path.extname("a.b.c"), ".c"],
    [path.dirname("/a") + path.dirname("a") + path.dirname("/a/b/c"), "/./a/b"],
  ]) {
    assert.equal(found, expected);
  }
  const own = ownAssert;
  own(true);
  own.deepEqual({ a: [1, new Date(0), new Set([1])] }, { a: [1, new Date(0), new Set([1])] });
  own.throws(() => own.deepEqual({ a: 1 }, { a: 2 }), /{"a":1} does not equal {"a":2}/);
  own.throws(() => own.strictEqual(1, "1"), /1 !== 1/);
  own.equal(1, "1");
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
