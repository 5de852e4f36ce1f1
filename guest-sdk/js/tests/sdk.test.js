// The SDK against the host in memory: what actions see, and what becomes of what they return or throw.

import assert from "node:assert/strict";
import { test } from "node:test";
import { action, codeBlock, emit, env, Failure, files, HostError, http, human, llm, log, memory, random, secrets, state }
  from "../src/index.js";
import { install } from "../src/host.js";
import { failure } from "../src/serve.js";
import { TextDecoder as OwnDecoder, TextEncoder as OwnEncoder } from "../src/text.js";
import { fakeHost } from "../src/testing.js";

const running = (run, call, given) => fakeHost(given).run(action({ run }), call);
const refusal = (kind, message) => ({ kind, message });

test("what an action returns becomes an output", async () => {
  const whole = (output) => ({ data: undefined, to: [], route: [], ...output });
  const cases = [
    ["text", whole({ content: "text" })],
    [7, whole({ content: "7" })],
    [undefined, whole({ content: "" })],
    [{ data: { n: 1 } }, whole({ content: '{"n":1}', data: { n: 1 } })],
    [{ content: "x", to: ["B"], route: [{ from: "B", to: ["C"] }] },
      whole({ content: "x", to: ["B"], route: [{ from: "B", to: ["C"] }] })],
  ];
  for (const [returned, expected] of cases) {
    assert.deepEqual(await running(() => returned), expected);
    assert.deepEqual(await running(async () => returned), expected);
  }
});

test("what an action throws becomes a failure", async () => {
  const cases = [
    [new Failure("retryable", "later"), refusal("retryable", "later")],
    [new HostError("denied", "no"), refusal("denied", "no")],
    [new HostError("upstream", "down"), refusal("host", "down")],
    [new HostError("not-found", "gone"), refusal("error", "gone")],
    [new TypeError("x is no y"), refusal("error", "TypeError: x is no y")],
    [new Error("a", { cause: new Error("b") }), refusal("error", "Error: a\ncaused by: Error: b")],
    [{ odd: true }, refusal("error", 'thrown: {"odd":true}')],
  ];
  for (const [thrown, expected] of cases) {
    await assert.rejects(running(() => { throw thrown; }), expected);
  }
});

test("an error is told with the stack that it is given", () => {
  const told = failure(new RangeError("too far"), () => ["    at f (src/action.ts:3:1)"]);
  assert.deepEqual(told, refusal("error", "RangeError: too far\n    at f (src/action.ts:3:1)"));
});

test("a context offers what came last, a persona and a briefing", async () => {
  const call = {
    role: { name: "Ann", profile: "Architect", goal: "win." },
    task: "paint",
    news: ["a house\n", { content: "red", causeBy: "Colour", sentFrom: "Bob", data: { hex: "f00" } }],
    config: { big: true },
  };
  await running((cx) => {
    assert.deepEqual(cx.config, { big: true });
    assert.equal(cx.text, "a house\n\n\nred");
    assert.deepEqual(cx.data, { hex: "f00" });
    assert.equal(cx.labelled("Colour").sentFrom, "Bob");
    assert.equal(cx.labelled("Poem"), undefined);
    assert.equal(cx.persona(), "You are Ann, Architect. Your goal: win.");
    assert.equal(cx.briefing(), "# Task\n\npaint\n\n# UserRequirement\n\na house\n\n# Colour, by Bob\n\nred");
  }, call);
  await running((cx) => assert.equal(cx.text, "c"), { news: "a", outputs: "c" });
});

test("thinkers choose and planners plan", async () => {
  const both = action({
    run: () => "",
    choose: ({ round, candidates }) => (round < candidates.length ? round : undefined),
    plan: async () => ["t1", { text: "t2", action: "work" }],
  });
  assert.equal(await fakeHost().choose(both, { round: 1, candidates: ["a", "b"] }), 1);
  assert.equal(await fakeHost().choose(both, { round: 2, candidates: ["a", "b"] }), -1);
  assert.deepEqual(await fakeHost().plan(both), ["t1", { text: "t2", action: "work" }]);
});

test("state, memory, messages and the log go through the host", async () => {
  const host = fakeHost({ state: { tracking: { n: 1 } }, memory: ["old", { content: "plan", causeBy: "Plan" }] });
  await host.run(action({
    run() {
      const tracking = state.scope("tracking");
      tracking.set("n", tracking.get("n") + 1);
      state.role.set("k", null);
      state.role.delete("gone");
      assert.deepEqual(state.role.keys(), ["k"]);
      assert.equal(tracking.get("absent"), undefined);
      assert.deepEqual(memory.recent(5).map((message) => message.content), ["old", "plan"]);
      assert.equal(memory.labelled("Plan", 1)[0].content, "plan");
      emit("more");
      emit({ content: "data", data: [1], to: ["B"], causeBy: "Count" });
      emit({ data: { n: 1 } });
      log.warn("careful");
      assert.throws(() => state.scope("nowhere").get("k"), { name: "HostError", kind: "invalid" });
    },
  }));
  assert.deepEqual(host.state, { role: { k: null }, tracking: { n: 2 } });
  assert.deepEqual(host.emitted.map(({ content, data, causeBy }) => [content, data, causeBy]),
    [["more", undefined, null], ["data", [1], "Count"], ['{"n":1}', { n: 1 }, null]]);
  assert.deepEqual(host.logged, [{ level: "warn", text: "careful" }]);
});

test("models are asked with as little as a prompt", async () => {
  const host = fakeHost({ replies: ["fine", { data: { ok: true } }, new HostError("upstream", "down")] });
  await host.run(action({
    run() {
      assert.equal(llm.ask("how?").text, "fine");
      const [reply, error] = llm.askMany([{ system: "be brief", prompt: "and?", outputSchema: {}, maxTokens: 9 }, "so?"]);
      assert.deepEqual(reply.data, { ok: true });
      assert.equal(error.kind, "upstream");
    },
  }));
  assert.deepEqual(host.prompts, ["how?", "and?", "so?"]);
  assert.deepEqual(host.requests[1].messages.map(({ speaker }) => speaker), ["system", "user"]);
  await assert.rejects(running(() => llm.ask("x")), { kind: "denied" });
});

test("requests carry json, bearers and keys", async () => {
  const host = fakeHost({ responses: [{ status: 201, headers: { "X-Id": "7" }, body: '{"id":7}' }], secrets: ["TOKEN"] });
  await host.run(action({
    run() {
      const bearer = secrets.named("TOKEN");
      const response = http.fetch("https://a.example/b", { method: "post", json: { n: 1 }, bearer, idempotencyKey: "k" });
      assert.deepEqual([response.status, response.ok, response.header("x-id"), response.json()], [201, true, "7", { id: 7 }]);
    },
  }));
  const [{ method, headers, body, secrets: named, idempotencyKey }] = host.requests;
  assert.deepEqual([method, named, idempotencyKey], ["POST", ["TOKEN"], "k"]);
  assert.equal(headers.find(({ name }) => name === "authorization").value, "Bearer {{secret:TOKEN}}");
  assert.equal(new TextDecoder().decode(body), '{"n":1}');
});

test("people, files, variables and randomness", async () => {
  const host = fakeHost({ answers: ["yes"], files: { "/in/a": "ä", "/in/d/b": "" }, env: { LANG: "C" } });
  await host.run(action({
    run() {
      assert.deepEqual(human.ask("sure?"), { value: "yes", source: "person" });
      assert.deepEqual(human.ask({ text: "and now?", default: 3 }), { value: 3, source: "default" });
      assert.equal(files.readText("/in/a"), "ä");
      assert.deepEqual(files.list("/in"), ["a", "d/"]);
      files.write("/out/b", "text");
      assert.equal(env.get("LANG"), "C");
      assert.equal(random.bytes(3).length, 3);
      assert.throws(() => env.get("HOME"), { kind: "denied" });
    },
  }));
  assert.deepEqual(host.questions, ["sure?", "and now?"]);
  assert.equal(host.files.get("/out/b"), "text");
});

test("the first block of code in a text is found", () => {
  const cases = [
    ["Look:\n```js\nlet a;\n```\nand ```more```", { language: "js", code: "let a;\n" }],
    ["~~~\na\n~~~", { language: "", code: "a\n" }],
    ["no code", undefined],
  ];
  for (const [text, expected] of cases) assert.deepEqual(codeBlock(text), expected);
});

test("text is encoded and decoded as the platform does it", () => {
  for (const bytes of [[65], [0xc3, 0xa4], [0xf0, 0x9f, 0x98, 0x80], [0xff, 65], [0xe2, 0x82], [0xef, 0xbb, 0xbf, 65]]) {
    const content = Uint8Array.from(bytes);
    assert.equal(new OwnDecoder().decode(content), new TextDecoder().decode(content));
  }
  assert.deepEqual(new OwnEncoder().encode("aä😀\ud800"), new TextEncoder().encode("aä😀\ud800"));
  assert.throws(() => new OwnDecoder("utf-8", { fatal: true }).decode(Uint8Array.of(0xff)), TypeError);
});

test("without a host an action says what to do", () => {
  install(undefined);
  assert.throws(() => log.info("x"), /in a test use `@strata\/action\/testing`/);
});
