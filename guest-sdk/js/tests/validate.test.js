// Values of wrong types throw an error in the author's call, with the host in memory as with the real one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { action, clock, emit, env, Failure, files, http, human, llm, log, memory, random, secrets, state }
  from "../src/index.js";
import { failure, serve } from "../src/serve.js";
import { fakeHost } from "../src/testing.js";

const GRANTED = { replies: [], responses: [], answers: [], secrets: ["A"], env: { A: "" } };
const SURROGATE = "\ud83d";
const runWith = (run) => fakeHost(GRANTED).run(action({ run }));

test("a value of a wrong type throws a type error", async () => {
  const cases = [
    [() => state.role.set(3, 1), "state.set: `key`: expected a string, found the number `3`"],
    [() => state.scope({}).get("k"), "state.get: `scope`: expected a string, found an object"],
    [() => llm.ask({ prompt: 5 }),
      "llm.ask: `messages[0].content`: expected an array of strings, images and files, found the number `5`"],
    [() => llm.ask(["x", 5]), "llm.ask: `messages[0].content[1]`: expected a string, an image or a file, found the number `5`"],
    [() => llm.ask([{ type: "image", mediaType: "image/png", data: "x", url: "y" }]),
      "llm.ask: `messages[0].content[0].source`: expected one of `data`, `url` and `digest`, found an array"],
    [() => llm.ask({ prompt: "x", toolChoice: "some" }),
      'llm.ask: `toolChoice`: expected "auto", "required", "none" or `{ tool }`, found an object'],
    [() => llm.embed("x"), "llm.embed: `texts`: expected an array of strings, found undefined"],
    [() => llm.ask({ prompt: "x", maxTokens: "many" }),
      'llm.ask: `maxTokens`: expected a number from 0 to 4294967295, found the string "many"'],
    [() => llm.ask({ prompt: "x", stop: "." }), 'llm.ask: `stop`: expected an array of strings, found the string "."; write `["."]`'],
    [() => llm.ask({ messages: [{ speaker: "me" }] }),
      "llm.ask: `messages[0]`: expected a message with a `speaker` and its `content`, found an object"],
    [() => llm.askMany([{ prompt: "x", temperature: NaN }]),
      "llm.askMany: `requests[0].temperature`: expected a number, found the number `NaN`"],
    [() => files.write("/out/a", 3), "files.write: `content`: expected a string or bytes, found the number `3`"],
    [() => files.read(["a"]), "files.read: `path`: expected a string, found an array"],
    [() => human.ask({ text: "?", choices: "ab" }),
      'human.ask: `choices`: expected an array of strings, found the string "ab"; write `["ab"]`'],
    [() => human.ask(3), "human.ask: `text`: expected a string, found the number `3`"],
    [() => emit({ content: "x", to: "Bob" }), 'emit: `to`: expected an array of strings, found the string "Bob"; write `["Bob"]`'],
    [() => emit({ content: "x", route: [{ from: "A", to: "B" }] }),
      'emit: `route[0].to`: expected an array of strings, found the string "B"; write `["B"]`'],
    [() => http.fetch("https://a.example/", { secrets: "A" }),
      'http.fetch: `secrets`: expected an array of strings, found the string "A"; write `["A"]`'],
    [() => http.fetch("https://a.example/", { body: {} }), "http.fetch: `body`: expected a string or bytes, found an object"],
    [() => secrets.named(undefined), "secrets.named: `name`: expected a string, found undefined"],
    [() => memory.recent(-1), "memory.recent: `bounds.messages`: expected a number from 0 to 4294967295, found the number `-1`"],
    [() => clock.sleep("1"), 'clock.sleep: `durationMs`: expected a number from 0 to 4294967295, found the string "1"'],
    [() => random.bytes(null), "random.bytes: `length`: expected a number from 0 to 4294967295, found null"],
    [() => env.get(() => 1), "env.get: `name`: expected a string, found a function"],
    [() => new Failure("sad", "x"),
      'the kind of a failure: expected "error" or "retryable" or "denied" or "host", found the string "sad"'],
  ];
  for (const [call, message] of cases) {
    await runWith(() => assert.throws(call, { name: "TypeError", message }));
  }
});

test("invalid outputs, plans and choices are reported", async () => {
  const outputs = [
    [{ content: "x", to: "B" }, 'what `run` returned: `to`: expected an array of strings, found the string "B"; write `["B"]`'],
    [{ content: "x", route: [{ to: ["B"] }] }, "what `run` returned: `route[0].from`: expected a string, found undefined"],
    [{ data: () => 1 }, "writing the output's data: a function cannot be represented in JSON"],
    [{ content: { a: 1 } }, "what `run` returned: `content`: expected a string, found an object"],
    [{ content: Promise.resolve("x"), data: 1 }, "what `run` returned: `content`: expected a string, found a promise"],
    [{ content: ["x"] }, "what `run` returned: `content`: expected a string, found an array"],
    [{ data: NaN }, "writing the output's data: NaN cannot be represented in JSON"],
    [{ data: { list: [{ n: -Infinity }] } }, "writing `n` of the output's data: -Infinity cannot be represented in JSON"],
    [{ data: { seen: new Set([1]) } }, "writing `seen` of the output's data: a Set cannot be represented in JSON; write `[...set]`"],
    [{ data: { f() {} } }, "writing `f` of the output's data: a function cannot be represented in JSON"],
    [{ data: [Symbol("s")] }, "writing `0` of the output's data: a symbol cannot be represented in JSON"],
    [{ data: { b: Uint8Array.of(1) } }, "writing `b` of the output's data: an object of `Uint8Array` " +
      "cannot be represented in JSON; write `[...bytes]`, or a string in base64"],
    [{ data: new ArrayBuffer(1) }, "writing the output's data: an object of `ArrayBuffer` " +
      "cannot be represented in JSON; write `[...bytes]`, or a string in base64"],
    [{ data: new Map() }, "writing the output's data: a Map cannot be represented in JSON; write `Object.fromEntries(map)`"],
  ];
  for (const [returned, message] of outputs) {
    await assert.rejects(runWith(() => returned), { kind: "error", message: `TypeError: ${message}` });
  }
  const other = (methods) => action({ run: () => "", ...methods });
  await assert.rejects(fakeHost().plan(other({ plan: () => "paint" })),
    { message: 'TypeError: what `plan` returned: expected an array of objects, found the string "paint"; write `["paint"]`' });
  await assert.rejects(fakeHost().plan(other({ plan: () => [{ action: "A" }] })),
    { message: "TypeError: what `plan` returned: `[0].text`: expected a string, found undefined" });
  await assert.rejects(fakeHost().choose(other({ choose: () => "1" })), { message: /^TypeError: what `choose` returned: / });
  const about = { name: "a", version: "1", description: "", exports: [] };
  assert.throws(() => serve(other({ needs: "llm" }), about, {}),
    { message: 'declaring an action: `needs`: expected an array of strings, found the string "llm"; write `["llm"]`' });
});

test("an unpaired surrogate is replaced", async () => {
  const host = fakeHost(GRANTED);
  const output = await host.run(action({
    run(cx) {
      log.info(cx.text.slice(0, 3));
      state.role.set("k", { [SURROGATE]: [SURROGATE, "\\ud83d", "😀"] });
      emit(SURROGATE);
      return { content: SURROGATE, data: SURROGATE, to: [SURROGATE] };
    },
  }), { news: "ab😀" });
  assert.deepEqual(host.logged, [{ level: "info", text: "ab\ufffd" }]);
  assert.deepEqual(host.state.role, { k: { "\ufffd": ["\ufffd", "\\ud83d", "😀"] } });
  assert.equal(host.emitted[0].content, "\ufffd");
  assert.deepEqual(output, { content: "\ufffd", data: "\ufffd", parts: [], to: ["\ufffd"], route: [] });
});

test("any thrown value becomes a failure", () => {
  const circular = {};
  circular.self = circular;
  const cases = [
    [Object.assign(new Failure("error", ""), { kind: "odd", message: SURROGATE }), { kind: "error", message: "\ufffd" }],
    [circular, { kind: "error", message: "thrown: [object Object]" }],
    [{ n: 1n }, { kind: "error", message: "thrown: [object Object]" }],
    [Symbol("s"), { kind: "error", message: "thrown: Symbol(s)" }],
  ];
  for (const [thrown, expected] of cases) assert.deepEqual(failure(thrown, () => []), expected);
});
