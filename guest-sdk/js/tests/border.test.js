// Values that the host does not take: an error in the author's own call, with a host in memory as with the real one.

import assert from "node:assert/strict";
import { test } from "node:test";
import { action, clock, emit, env, Failure, files, http, human, llm, log, memory, random, secrets, state }
  from "../src/index.js";
import { failure, serve } from "../src/serve.js";
import { fakeHost } from "../src/testing.js";

const GRANTED = { replies: [], responses: [], answers: [], secrets: ["A"], env: { A: "" } };
const HALF = "\ud83d";
const running = (run) => fakeHost(GRANTED).run(action({ run }));

test("what a host function does not take is a type error that can be caught", async () => {
  const cases = [
    [() => state.role.set(3, 1), "state.set: `key`: expected a text, found the number `3`"],
    [() => state.scope({}).get("k"), "state.get: `scope`: expected a text, found an object"],
    [() => llm.ask({ prompt: 5 }),
      "llm.ask: `messages[0].content`: expected a list of texts, images and files, found the number `5`"],
    [() => llm.ask(["x", 5]), "llm.ask: `messages[0].content[1]`: expected a text, an image or a file, found the number `5`"],
    [() => llm.ask([{ type: "image", mediaType: "image/png", data: "x", url: "y" }]),
      "llm.ask: `messages[0].content[0].source`: expected one of `data`, `url` and `digest`, found a list"],
    [() => llm.ask({ prompt: "x", toolChoice: "some" }),
      'llm.ask: `toolChoice`: expected "auto", "required", "none" or `{ tool }`, found an object'],
    [() => llm.embed("x"), "llm.embed: `texts`: expected a list of texts, found undefined"],
    [() => llm.ask({ prompt: "x", maxTokens: "many" }),
      'llm.ask: `maxTokens`: expected a number from 0 to 4294967295, found the text "many"'],
    [() => llm.ask({ prompt: "x", stop: "." }), 'llm.ask: `stop`: expected a list of texts, found the text "."; write `["."]`'],
    [() => llm.ask({ messages: [{ speaker: "me" }] }),
      "llm.ask: `messages[0]`: expected a message with a `speaker` and its `content`, found an object"],
    [() => llm.askMany([{ prompt: "x", temperature: NaN }]),
      "llm.askMany: `requests[0].temperature`: expected a number, found the number `NaN`"],
    [() => files.write("/out/a", 3), "files.write: `content`: expected a text or bytes, found the number `3`"],
    [() => files.read(["a"]), "files.read: `path`: expected a text, found a list"],
    [() => human.ask({ text: "?", choices: "ab" }),
      'human.ask: `choices`: expected a list of texts, found the text "ab"; write `["ab"]`'],
    [() => human.ask(3), "human.ask: `text`: expected a text, found the number `3`"],
    [() => emit({ content: "x", to: "Bob" }), 'emit: `to`: expected a list of texts, found the text "Bob"; write `["Bob"]`'],
    [() => emit({ content: "x", route: [{ from: "A", to: "B" }] }),
      'emit: `route[0].to`: expected a list of texts, found the text "B"; write `["B"]`'],
    [() => http.fetch("https://a.example/", { secrets: "A" }),
      'http.fetch: `secrets`: expected a list of texts, found the text "A"; write `["A"]`'],
    [() => http.fetch("https://a.example/", { body: {} }), "http.fetch: `body`: expected a text or bytes, found an object"],
    [() => secrets.named(undefined), "secrets.named: `name`: expected a text, found undefined"],
    [() => memory.recent(-1), "memory.recent: `bounds.messages`: expected a number from 0 to 4294967295, found the number `-1`"],
    [() => clock.sleep("1"), 'clock.sleep: `durationMs`: expected a number from 0 to 4294967295, found the text "1"'],
    [() => random.bytes(null), "random.bytes: `length`: expected a number from 0 to 4294967295, found null"],
    [() => env.get(() => 1), "env.get: `name`: expected a text, found a function"],
    [() => new Failure("sad", "x"),
      'the kind of a failure: expected "error" or "retryable" or "denied" or "host", found the text "sad"'],
  ];
  for (const [call, message] of cases) {
    await running(() => assert.throws(call, { name: "TypeError", message }));
  }
});

test("what is no output, no plan and no choice is told", async () => {
  const outputs = [
    [{ content: "x", to: "B" }, 'what `run` returned: `to`: expected a list of texts, found the text "B"; write `["B"]`'],
    [{ content: "x", route: [{ to: ["B"] }] }, "what `run` returned: `route[0].from`: expected a text, found undefined"],
    [{ data: () => 1 }, "writing the output's data: a function is no JSON"],
    [{ content: { a: 1 } }, "what `run` returned: `content`: expected a text, found an object"],
    [{ content: Promise.resolve("x"), data: 1 }, "what `run` returned: `content`: expected a text, found a promise"],
    [{ content: ["x"] }, "what `run` returned: `content`: expected a text, found a list"],
    [{ data: NaN }, "writing the output's data: NaN is no JSON"],
    [{ data: { list: [{ n: -Infinity }] } }, "writing `n` of the output's data: -Infinity is no JSON"],
    [{ data: { n: 1n } }, "writing `n` of the output's data: the bigint 1 is no JSON"],
    [{ data: { seen: new Set([1]) } }, "writing `seen` of the output's data: a Set (make it a list: `[...set]`) is no JSON"],
    [{ data: { f() {} } }, "writing `f` of the output's data: a function is no JSON"],
    [{ data: [Symbol("s")] }, "writing `0` of the output's data: a symbol is no JSON"],
    [{ data: { b: Uint8Array.of(1) } }, "writing `b` of the output's data: an object of `Uint8Array` " +
      "(make it a list: `[...bytes]`, or a text in base64) is no JSON"],
    [{ data: new ArrayBuffer(1) }, "writing the output's data: an object of `ArrayBuffer` " +
      "(make it a list: `[...bytes]`, or a text in base64) is no JSON"],
    [{ data: new Map() }, "writing the output's data: a Map (make it an object: `Object.fromEntries(map)`) is no JSON"],
  ];
  for (const [returned, told] of outputs) {
    await assert.rejects(running(() => returned), { kind: "error", message: `TypeError: ${told}` });
  }
  const other = (methods) => action({ run: () => "", ...methods });
  await assert.rejects(fakeHost().plan(other({ plan: () => "paint" })),
    { message: 'TypeError: what `plan` returned: expected a list of objects, found the text "paint"; write `["paint"]`' });
  await assert.rejects(fakeHost().plan(other({ plan: () => [{ action: "A" }] })),
    { message: "TypeError: what `plan` returned: `[0].text`: expected a text, found undefined" });
  await assert.rejects(fakeHost().choose(other({ choose: () => "1" })), { message: /^TypeError: what `choose` returned: / });
  const about = { name: "a", version: "1", description: "", exports: [] };
  assert.throws(() => serve(other({ needs: "llm" }), about, {}),
    { message: 'declaring an action: `needs`: expected a list of texts, found the text "llm"; write `["llm"]`' });
});

test("half a character becomes the one that stands for what is none", async () => {
  const host = fakeHost(GRANTED);
  const output = await host.run(action({
    run(cx) {
      log.info(cx.text.slice(0, 3));
      state.role.set("k", { [HALF]: [HALF, "\\ud83d", "😀"] });
      emit(HALF);
      return { content: HALF, data: HALF, to: [HALF] };
    },
  }), { news: "ab😀" });
  assert.deepEqual(host.logged, [{ level: "info", text: "ab\ufffd" }]);
  assert.deepEqual(host.state.role, { k: { "\ufffd": ["\ufffd", "\\ud83d", "😀"] } });
  assert.equal(host.emitted[0].content, "\ufffd");
  assert.deepEqual(output, { content: "\ufffd", data: "\ufffd", parts: [], to: ["\ufffd"], route: [] });
});

test("whatever is thrown is told", () => {
  const ring = {};
  ring.ring = ring;
  const cases = [
    [Object.assign(new Failure("error", ""), { kind: "odd", message: HALF }), { kind: "error", message: "\ufffd" }],
    [ring, { kind: "error", message: "thrown: [object Object]" }],
    [{ n: 1n }, { kind: "error", message: "thrown: [object Object]" }],
    [Symbol("s"), { kind: "error", message: "thrown: Symbol(s)" }],
  ];
  for (const [thrown, expected] of cases) assert.deepEqual(failure(thrown, () => []), expected);
});
