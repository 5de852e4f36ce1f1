// Tests of the SDK with the host in memory.

import assert from "node:assert/strict";
import { test } from "node:test";
import { action, codeBlock, emit, env, Failure, file, files, HostError, http, human, image, llm, log, mcp, media, memory, random,
  secrets, state }
  from "../src/index.js";
import { numbers, uniform } from "../src/environment.js";
import { install } from "../src/host.js";
import { failure, serve } from "../src/serve.js";
import { TextDecoder as OwnDecoder, TextEncoder as OwnEncoder } from "../src/text.js";
import { fakeHost } from "../src/testing.js";

const runWith = (run, call, given) => fakeHost(given).run(action({ run }), call);
const refusal = (kind, message) => ({ kind, message });

test("what an action returns becomes an output", async () => {
  const whole = (output) => ({ data: undefined, parts: [], to: [], route: [], ...output });
  const cases = [
    ["text", whole({ content: "text" })],
    [7, whole({ content: "7" })],
    [undefined, whole({ content: "" })],
    [{ data: { n: 1 } }, whole({ content: '{"n":1}', data: { n: 1 } })],
    [{ content: null, data: [1] }, whole({ content: "[1]", data: [1] })],
    [{ content: 7n }, whole({ content: "7" })],
    [{ content: false }, whole({ content: "false" })],
    [{ content: "x", to: ["B"], route: [{ from: "B", to: ["C"] }] },
      whole({ content: "x", to: ["B"], route: [{ from: "B", to: ["C"] }] })],
  ];
  for (const [returned, expected] of cases) {
    assert.deepEqual(await runWith(() => returned), expected);
    assert.deepEqual(await runWith(async () => returned), expected);
  }
});

class Answer {
  constructor(content) {
    this.content = content;
  }
}

test("an output with unknown keys is rejected", async () => {
  const form = "a string, or an object with the keys `content`, `data`, `parts`, `to` and `route`";
  const hint = "put structured content in `data`";
  const cases = [
    [{ contents: "x" }, `an output has no key \`contents\`; it is ${form}; ${hint}`],
    [{ content: "x", total: undefined }, `an output has no key \`total\`; it is ${form}; ${hint}`],
    [["x"], `expected ${form}, found an array; ${hint}`],
    [new Map([["content", "x"]]), `expected ${form}, found an object of \`Map\`; ${hint}`],
    [new Date(0), `expected ${form}, found an object of \`Date\`; ${hint}`],
    [Uint8Array.of(1), `expected ${form}, found an object of \`Uint8Array\`; ${hint}`],
    [() => "x", `expected ${form}, found a function; ${hint}`],
    [Symbol("x"), `expected ${form}, found the symbol \`Symbol(x)\`; ${hint}`],
  ];
  for (const [returned, message] of cases) {
    await assert.rejects(runWith(() => returned), refusal("error", `TypeError: what \`run\` returned: ${message}`));
  }
  const accepted = [[new Answer("x"), "x"], [Object.assign(Object.create(null), { content: "x" }), "x"], [{}, ""], [null, ""],
    [true, "true"], [0, "0"]];
  for (const [returned, content] of accepted) assert.equal((await runWith(() => returned)).content, content);
});

test("an emission with unknown keys is rejected", async () => {
  const form = "a string, or an object with the keys `content`, `data`, `parts`, `to`, `causeBy` and `route`";
  const hint = "; put structured content in `data`";
  const cases = [
    [{ content: "x", cause: "Count" }, `emit: an emission has no key \`cause\`; it is ${form}${hint}`],
    [[1], `emit: expected ${form}, found an array${hint}`],
    [7, `emit: expected ${form}, found the number \`7\`${hint}`],
    [Promise.resolve("x"), `emit: expected ${form}, found a promise${hint}`],
    [null, `emit: expected ${form}, found null`],
    [undefined, `emit: expected ${form}, found undefined`],
    [{ content: { a: 1 } }, "emit: `content`: expected a string, found an object"],
  ];
  const host = fakeHost();
  await host.run(action({
    run() {
      for (const [emission, message] of cases) assert.throws(() => emit(emission), { name: "TypeError", message });
      emit(new Answer("accepted"));
    },
  }));
  assert.deepEqual(host.emitted.map(({ content }) => content), ["accepted"]);
});

test("an absent config is an empty object if the action has a schema", async () => {
  const seen = async (definition, call, method = "run") => {
    let config;
    const see = (cx) => {
      config = cx.config;
      return [];
    };
    const silent = (cx) => void see(cx);
    await fakeHost()[method](action({ run: silent, plan: see, choose: silent, ...definition }), call);
    return config;
  };
  const declared = { configSchema: { type: "object" } };
  assert.deepEqual(await seen(declared), {});
  assert.deepEqual(await seen(declared, {}, "plan"), {});
  assert.deepEqual(await seen(declared, { config: { big: true } }), { big: true });
  // The schema describes the action's config. The config of a thinker is another one.
  assert.equal(await seen(declared, {}, "choose"), null);
  assert.equal(await seen({}), null);
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
    await assert.rejects(runWith(() => { throw thrown; }), expected);
  }
});

test("a failure contains the stack of the error", () => {
  const told = failure(new RangeError("too far"), () => ["    at f (src/action.ts:3:1)"]);
  assert.deepEqual(told, refusal("error", "RangeError: too far\n    at f (src/action.ts:3:1)"));
});

test("a context has a newest message, a persona and a briefing", async () => {
  const call = {
    role: { name: "Ann", profile: "Architect", goal: "win." },
    task: "paint",
    news: ["a house\n", { content: "red", causeBy: "Colour", sentFrom: "Bob", data: { hex: "f00" } }],
    config: { big: true },
  };
  await runWith((cx) => {
    assert.deepEqual(cx.config, { big: true });
    assert.equal(cx.text, "a house\n\n\nred");
    assert.deepEqual(cx.data, { hex: "f00" });
    assert.equal(cx.labelled("Colour").sentFrom, "Bob");
    assert.equal(cx.labelled("Poem"), undefined);
    assert.equal(cx.persona(), "You are Ann, Architect. Your goal: win.");
    assert.equal(cx.briefing(), "# Task\n\npaint\n\n# UserRequirement\n\na house\n\n# Colour, by Bob\n\nred");
  }, call);
  await runWith((cx) => assert.equal(cx.text, "c"), { news: "a", outputs: "c" });
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

test("a choice can read but has no effects", async () => {
  const host = fakeHost({ state: { role: { n: 1 } }, files: { "/in/a": "x" }, writable: ["/in"] });
  const message = "nothing can be emitted or written here: a choice changes nothing";
  const changes = [() => emit("x"), () => state.role.set("n", 2), () => state.role.delete("n"),
    () => files.write("/in/a", "y"), () => files.remove("/in/a")];
  const choose = () => {
    for (const change of changes) assert.throws(change, { kind: "invalid", message });
    return state.role.get("n") + files.list("/in").length;
  };
  assert.equal(await host.choose(action({ run: () => "", choose })), 2);
  assert.deepEqual([host.emitted, host.state.role, host.files.get("/in/a")], [[], { n: 1 }, "x"]);
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
      assert.deepEqual(memory.recent(5, 7).map((message) => message.content), ["old", "plan"]);
      assert.deepEqual(memory.recent(5, 6).map((message) => message.content), ["plan"]);
      assert.deepEqual([memory.recent(1).length, memory.recent(0), memory.labelled("Plan", 0)], [1, [], []]);
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

test("a request to a model may be only a prompt", async () => {
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
  assert.deepEqual(host.requests[1].messages.map(({ tag }) => tag), ["system", "user"]);
  await assert.rejects(runWith(() => llm.ask("x")), { kind: "denied" });
});

test("a tool of a server is called if it is granted", async () => {
  const count = { text: "two", data: { count: 2 }, content: [{ type: "text", text: "two" }], isError: true };
  const granted = { "notes/list": ({ of }) => `notes of ${of}`, "notes/count": () => count };
  const host = fakeHost({ mcp: granted });
  await host.run(action({
    run() {
      assert.equal(mcp.call("notes", "list", { of: "today" }).text, "notes of today");
      assert.deepEqual(mcp.call("notes", "count"), count);
      assert.throws(() => mcp.call("notes", "delete"), { kind: "denied" });
      assert.throws(() => mcp.call("notes"), TypeError);
    },
  }));
  assert.deepEqual(host.mcpCalls, [["notes", "list", { of: "today" }], ["notes", "count", {}]]);
});

test("a conversation is continued with the reply as it was received", async () => {
  const look = { id: "1", name: "look", arguments: { at: "box" } };
  const host = fakeHost({ replies: [{ text: "I look", toolCalls: [look] }, { text: "cut", finish: "length" }] });
  await host.run(action({
    run() {
      const messages = [{ speaker: "user", content: ["what?", image("image/png", "png")] }];
      const tools = [{ name: "look", description: "Looks." }];
      const reply = llm.ask({ messages, tools, toolChoice: { tool: "look" }, effort: "low" });
      assert.deepEqual([reply.text, reply.finish, reply.toolCalls[0].arguments], ["I look", "tool-calls", '{"at":"box"}']);
      const results = [llm.result(reply.toolCalls[0], { found: 2 }), llm.result(look, "none", { isError: true })];
      messages.push(reply.message, { speaker: "assistant", content: [{ type: "opaque", provider: "p", model: "m", data: [1],
        reasoning: "" }] }, { speaker: "tool", content: results });
      assert.equal(llm.ask({ messages }).finish, "length");
    },
  }));
  const [first, second] = host.requests;
  assert.deepEqual([first.toolChoice, first.effort], [{ tag: "tool", val: "look" }, "low"]);
  const picture = { mediaType: "image/png", name: null, source: { tag: "bytes", val: new TextEncoder().encode("png") } };
  assert.deepEqual(first.messages, [{ tag: "user", val: [{ tag: "text", val: "what?" }, { tag: "image", val: picture }] }]);
  assert.deepEqual(second.messages.slice(1), [
    { tag: "assistant", val: [{ tag: "text", val: "I look" },
      { tag: "tool-call", val: { id: "1", name: "look", arguments: '{"at":"box"}' } }] },
    { tag: "assistant", val: [{ tag: "opaque", val: { provider: "p", model: "m", data: "[1]", reasoning: "" } }] },
    { tag: "tool-results", val: [
      { call: "1", tool: "look", content: [{ tag: "text", val: '{"found":2}' }], isError: false },
      { call: "1", tool: "look", content: [{ tag: "text", val: "none" }], isError: true }] },
  ]);
  assert.deepEqual(host.prompts, ["what?", '{"found":2}none']);
});

test("images, vectors and arguments come from the host", async () => {
  const digest = "d1";
  const host = fakeHost({ replies: [], embeddings: [[[0.5, 1]]], blobs: { [digest]: Uint8Array.of(1, 2) } });
  const show = action({
    inputSchema: { type: "object" },
    run(cx) {
      const [part] = cx.newest.parts;
      assert.deepEqual(media.load(part), Uint8Array.of(1, 2));
      assert.deepEqual(media.load(file("text/csv", "1")), new TextEncoder().encode("1"));
      assert.throws(() => media.load({ ...part, digest: "d2" }), { kind: "not-found" });
      assert.throws(() => media.load({ type: "image", mediaType: "image/png", url: "https://a.example/" }), { kind: "invalid" });
      assert.deepEqual(llm.embed(["a"]).vectors, [[0.5, 1]]);
      assert.deepEqual([cx.attempt.turn, cx.attempt.call, cx.attempt.deadlineMs], [0, 0, undefined]);
      return { content: cx.arguments.name, parts: [part] };
    },
  });
  const part = { type: "image", mediaType: "image/png", name: "a.png", digest, size: 2 };
  const output = await host.run(show, { news: { content: "see", parts: [part] }, arguments: { name: "box" } });
  assert.deepEqual([output.content, output.parts], ["box", [part]]);
  assert.equal(await runWith((cx) => String(cx.arguments)).then(({ content }) => content), "undefined");
});

test("requests contain json, bearer tokens and idempotency keys", async () => {
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

test("secrets in headers are listed without duplicates", async () => {
  const host = fakeHost({ responses: ["", ""], secrets: ["A", "B"] });
  await host.run(action({
    run() {
      const [a, b] = [secrets.named("A"), secrets.named("B")];
      http.fetch("https://a.example/", { headers: { "x-api-key": a, accept: "*/*" }, bearer: b, secrets: [b, "A"] });
      http.fetch("https://a.example/", { headers: { "x-api-key": a } });
      assert.throws(() => http.fetch("https://a.example/", { secrets: ["C"] }), { kind: "denied" });
    },
  }));
  const [{ headers, secrets: named }, { secrets: alone }] = host.requests;
  assert.deepEqual(headers[0], { name: "x-api-key", value: "{{secret:A}}" });
  assert.deepEqual([named, alone], [["B", "A"], ["A"]]);
});

test("a JSON body has the content type of the author", async () => {
  const host = fakeHost({ responses: ["", ""] });
  await host.run(action({
    run() {
      http.fetch("https://a.example/", { json: [], headers: { "Content-Type": "application/ld+json" } });
      http.fetch("https://a.example/", { json: [] });
    },
  }));
  assert.deepEqual(host.requests.map(({ headers }) => headers),
    [[{ name: "Content-Type", value: "application/ld+json" }], [{ name: "content-type", value: "application/json" }]]);
});

test("a time limit of less than a second is rounded up", () => {
  const asked = [];
  const ask = ({ expiresS }) => {
    asked.push(expiresS);
    return { value: "1", source: "person" };
  };
  const before = install({ human: { ask } });
  for (const expiresS of [0.5, 0, 2, undefined]) human.ask({ text: "?", expiresS });
  install(before);
  assert.deepEqual(asked, [1, 0, 2, null]);
});

test("files are readable and writable only in granted directories", async () => {
  const host = fakeHost({ files: { "/in/a": "x", "/in/d/b": "" }, writable: ["/out/"] });
  const hint = "give a directory that contains it, in `writable`, to `fakeHost`";
  await host.run(action({
    run() {
      for (const path of ["/etc/passwd", "/in/a", "/outer", "/out/../in/a"]) {
        const message = `writing \`${path}\` is not granted: ${hint}`;
        assert.throws(() => files.write(path, ""), { kind: "denied", message });
      }
      for (const path of ["/etc/a", "/in/../etc/a"]) assert.throws(() => files.read(path), { kind: "denied" });
      for (const path of ["/etc", "/out/.."]) assert.throws(() => files.list(path), { kind: "denied" });
      for (const path of ["/in/z", "/out/z"]) assert.throws(() => files.read(path), { kind: "not-found" });
      assert.throws(() => files.remove("/in/a"), { kind: "denied" });
      assert.throws(() => files.remove("/out/a"), { kind: "not-found" });
      assert.deepEqual([files.list("/in/"), files.list("/out"), files.list("/out/new")], [["a", "d/"], [], []]);
      files.write("/out/new/a", "");
      assert.deepEqual(files.list("/out"), ["new/"]);
      files.remove("/out/new/a");
    },
  }));
  assert.deepEqual([...host.files.keys()], ["/in/a", "/in/d/b"]);
});

test("written content is unchanged, and a string if it is UTF-8", async () => {
  const host = fakeHost({ writable: ["/out"] });
  const photo = Uint8Array.of(0xff, 0xd8);
  await host.run(action({
    run() {
      files.write("/out/photo", photo);
      files.write("/out/marked", "\ufeffä");
      assert.deepEqual(files.read("/out/photo"), photo);
      assert.equal(files.readText("/out/marked"), "\ufeffä");
      const message = "reading `/out/photo`: it is not UTF-8 text";
      assert.throws(() => files.readText("/out/photo"), { name: "Failure", kind: "error", message });
    },
  }));
  assert.deepEqual([host.files.get("/out/photo"), host.files.get("/out/marked")], [photo, "\ufeffä"]);
});

test("random bytes differ between calls and are the same in every test", async () => {
  const drawn = async () => {
    let bytes;
    await runWith(() => {
      bytes = [random.bytes(8), random.bytes(8), random.bytes(65536)];
      const message = "cannot return 65537 random bytes; the maximum is 65536";
      assert.throws(() => random.bytes(65537), { kind: "invalid", message });
    });
    return bytes;
  };
  const [first, second, many] = await drawn();
  assert.notDeepEqual(first, second);
  assert.equal(new Set(many).size, 256);
  assert.deepEqual(await drawn(), [first, second, many]);
});

test("questions, files, environment variables and random bytes", async () => {
  const given = { files: { "/in/a": "ä", "/in/d/b": "" }, writable: ["/out"], env: { LANG: "C" } };
  const host = fakeHost({ answers: ["yes"], ...given });
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

test("the first code block in a text is found", () => {
  const cases = [
    ["Look:\n```js\nlet a;\n```\nand ```more```", { language: "js", code: "let a;\n", closed: true }],
    ["~~~\r\na\r\n~~~\r\n", { language: "", code: "a\n", closed: true }],
    ["~~~\n```\n~~~", { language: "", code: "```\n", closed: true }],
    ["  ````md a=1\n```\nx\n`````", { language: "md a=1", code: "```\nx\n", closed: true }],
    ["```inline``` text\n```py\n1\n```python\n```", { language: "py", code: "1\n```python\n", closed: true }],
    ["1. so:\n   ```py\n   if x:\n     y\n z\n   ```", { language: "py", code: "if x:\n  y\nz\n", closed: true }],
    ["```c\ncut off", { language: "c", code: "cut off\n", closed: false }],
    ["```c\r\ncut\r\n", { language: "c", code: "cut\n", closed: false }],
    ["```", { language: "", code: "", closed: false }],
    ["no code", undefined],
    ["", undefined],
    ["```inline```", undefined],
  ];
  for (const [text, expected] of cases) assert.deepEqual(codeBlock(text), expected);
});

test("text is encoded and decoded as by the platform", () => {
  for (const bytes of [[65], [0xc3, 0xa4], [0xf0, 0x9f, 0x98, 0x80], [0xff, 65], [0xe2, 0x82], [0xef, 0xbb, 0xbf, 65]]) {
    const content = Uint8Array.from(bytes);
    for (const ignoreBOM of [false, true]) {
      const [own, platform] = [OwnDecoder, TextDecoder].map((Decoder) => new Decoder("utf-8", { ignoreBOM }));
      assert.equal(own.decode(content), platform.decode(content));
    }
  }
  assert.deepEqual(new OwnEncoder().encode("aä😀\ud800"), new TextEncoder().encode("aä😀\ud800"));
  assert.throws(() => new OwnDecoder("utf-8", { fatal: true }).decode(Uint8Array.of(0xff)), TypeError);
});

test("Math.random calls the host once", () => {
  install(undefined);
  assert.equal(uniform(), 0.5, "no seed is drawn while a component is built");
  const asked = [];
  install({ random: { bytes: (length) => Uint8Array.from({ length }, () => asked.push(length)) } });
  const drawn = Array.from({ length: 5000 }, uniform);
  install(undefined);
  assert.equal(asked.length, 16);
  assert.ok(drawn.every((number) => number >= 0 && number < 1));
  assert.equal(new Set(drawn).size, drawn.length);
  const tenths = Array.from({ length: 10 }, (_, tenth) => drawn.filter((number) => Math.floor(number * 10) === tenth).length);
  assert.ok(tenths.every((count) => count > 400 && count < 600), `${tenths}`);
});

test("random numbers depend on the whole seed", () => {
  const first = (seed) => {
    const next = numbers(seed);
    return [next(), next()];
  };
  const seed = Array(16).fill(0);
  const seeds = [seed, ...seed.map((_, at) => seed.with(at, 1))];
  assert.deepEqual(first(seed), first(Uint8Array.from(seed)));
  assert.equal(new Set(seeds.flatMap(first)).size, 2 * seeds.length);
});

/** Loads a module that replaces globals of node, returns the replacements, and restores the globals. */
async function loadIsolated(load) {
  const { clearTimeout, Promise, queueMicrotask, setTimeout } = globalThis;
  try {
    const { finish, settle } = await load();
    const { clearTimeout, Promise, queueMicrotask, setTimeout } = globalThis;
    return { finish, settle, clearTimeout, Promise, queueMicrotask, setTimeout };
  } finally {
    Object.assign(globalThis, { clearTimeout, Promise, queueMicrotask, setTimeout });
  }
}

const timers = await loadIsolated(() => import("../src/timers.js"));

test("jobs that are left when an action returns are run, or reported", () => {
  const { finish, ...own } = timers;
  install({ clock: { unixTimeMs: () => 0 } });
  const done = [];
  own.queueMicrotask(() => {
    done.push("first");
    own.queueMicrotask(() => done.push("second"));
    throw new Error("thrown");
  });
  assert.deepEqual(finish((error) => done.push(error.message)), []);
  assert.deepEqual(done, ["first", "thrown", "second"]);

  const begun = [own.setTimeout(() => done.push("timer")), own.setTimeout(() => done.push("timer"))];
  assert.deepEqual(finish(), ["the action returned while 2 timers were pending; await them"]);
  own.clearTimeout(begun[0]);
  assert.deepEqual(finish(), ["the action returned while 1 timer was pending; await it"]);
  own.clearTimeout(begun[1]);
  assert.deepEqual(finish(), []);

  let continues = true;
  const forever = () => continues && own.queueMicrotask(forever);
  forever();
  assert.deepEqual(finish(), ["the action returned while jobs of its promises were pending; await them"]);
  continues = false;
  assert.deepEqual(finish(), []);
  assert.equal(done.length, 3, "no timer was run");
  install(undefined);
});

test("settle receives a function that formats errors", () => {
  const about = { name: "a", version: "1", description: "", exports: [] };
  const formatted = [];
  const settle = (value, describe) => {
    formatted.push(describe(new RangeError("too far")));
    return value;
  };
  const { handler } = serve(action({ run: () => "x" }), about, { settle, trace: () => ["    at f (src/action.ts:3:1)"] });
  const call = { role: {}, action: "A", index: 0, config: "null", news: [], outputs: [], task: null };
  assert.equal(handler.run({}, call).content, "x");
  assert.deepEqual(formatted, ["RangeError: too far\n    at f (src/action.ts:3:1)"]);
});

/** The module of promises; undefined if the package promise-polyfill is not available. */
const promises = await loadIsolated(() => import("../src/promises.js")).catch((error) => {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
});
const skip = !promises && "promise-polyfill is not available";

test("an unhandled rejection is logged and does not make the call fail", { skip }, () => {
  const { settle, Promise } = promises;
  const settled = (run) => {
    const logged = [];
    install({ clock: { unixTimeMs: () => 0, sleep() {} }, log: { write: (level, text) => logged.push(`${level}: ${text}`) } });
    try {
      return [settle(run(), String), logged];
    } catch (error) {
      return [error.message, logged];
    } finally {
      install(undefined);
    }
  };
  const rejected = (of) => `warn: a promise was rejected without a handler: ${of}`;
  const broken = () => Promise.reject(new Error("x"));
  const later = () => new Promise((resolve) => timers.setTimeout(resolve, 1));
  const cases = [
    [() => void broken(), [undefined, [rejected("Error: x")]]],
    [() => Promise.resolve("done", broken()), ["done", [rejected("Error: x")]]],
    // The original promise is handled by the derived one.
    [() => void broken().then(() => 1), [undefined, [rejected("Error: x")]]],
    [() => void Promise.resolve().then(() => Promise.resolve()).then(() => null.x).finally(() => 1),
      [undefined, [rejected("TypeError: Cannot read properties of null (reading 'x')")]]],
    [() => void Promise.reject({ toString: null }), [undefined, [rejected("an error that cannot be converted to a string")]]],
    // Handled at once, later, by the caller that awaits it, and by a promise that adopts it.
    [() => void broken().catch(() => 1), [undefined, []]],
    [() => {
      const one = broken();
      return later().then(() => one).catch(({ message }) => message);
    }, ["x", []]],
    [() => {
      const one = broken();
      return later().then(() => one.then(undefined, () => "late"));
    }, ["late", []]],
    [() => Promise.allSettled([broken(), broken()]).then(({ length }) => length), [2, []]],
    // The error that ends the action is its failure. Other errors are logged, because they may be the reason.
    [broken, ["x", []]],
    [() => new Promise(() => void broken()),
      ["awaiting a promise that cannot be settled: no jobs or timers are left", [rejected("Error: x")]]],
    [() => Promise.all([broken(), Promise.reject(new Error("y"))]), ["x", []]],
    [() => Promise.resolve("done").finally(() => void Array.from({ length: 12 }, broken)),
      ["done", [...Array(10).fill(rejected("Error: x")), rejected("2 more")]]],
  ];
  for (const [run, expected] of cases) assert.deepEqual(settled(run), expected, String(run));
});

test("without a host, the error says what to do", () => {
  install(undefined);
  assert.throws(() => log.info("x"), /in a test use `@strata\/action\/testing`/);
});
