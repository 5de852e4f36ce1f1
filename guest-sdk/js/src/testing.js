// A host in memory for tests of actions. Limits are not enforced, and JSON is not validated against schemas.

import { Context, Situation } from "./action.js";
import { numbers } from "./environment.js";
import { HostError } from "./errors.js";
import { install } from "./host.js";
import { lowerPart, raisePart } from "./media.js";
import { choice, failure, output, plan } from "./serve.js";

/** The maximum number of random bytes per call. */
const MAX_RANDOM_BYTES = 65536;
const NO_USAGE = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
const PROFILE = { name: "Tester", profile: "", goal: "", constraints: "", desc: "" };

/** Returns a host in memory that grants and answers what it is given. */
export function fakeHost(given = {}) {
  return new FakeHost(given);
}

/** Returns a message in the form of the host's interface, with defaults for absent fields. */
export function message(fields) {
  const { data, parts = [], ...rest } = typeof fields === "string" ? { content: fields } : fields;
  const whole = { id: "m", content: "", causeBy: "UserRequirement", sentFrom: "", sendTo: ["<all>"], ...rest };
  return { ...whole, data: data === undefined ? null : JSON.stringify(data), parts: parts.map(lowerPart) };
}

class FakeHost {
  prompts = [];
  requests = [];
  questions = [];
  toolCalls = [];
  mcpCalls = [];
  emitted = [];
  replaced = [];
  logged = [];
  sleptMs = 0;

  #draw = numbers(Array(16).fill(0));

  constructor({ replies, responses, answers = [], state = {}, files = {}, now = 0, ...given }) {
    Object.assign(this, { replies: replies && [...replies], responses: responses && [...responses] });
    Object.assign(this, { answers: [...answers], files: new Map(Object.entries(files)), now });
    this.state = { role: {}, ...structuredClone(state) };
    const { writable = [], secrets = [], tools = {}, mcp = {}, env = {}, memory = [], blobs = {}, embeddings = [] } = given;
    this.given = {
      writable, secrets, tools, mcp, env, memory: memory.map(message), blobs, embeddings: [...embeddings],
    };
  }

  async run(action, call = {}) {
    return this.#called(async () => {
      return read(output(await action.run(new Context(attempt(call), input(call), action))));
    });
  }

  async plan(action, call = {}) {
    return this.#called(async () => {
      const planned = plan(await action.plan(new Context(attempt(call), input(call), action)));
      return planned.map(({ text, action: by }) => (by === null ? text : { text, action: by }));
    });
  }

  async choose(action, call = {}) {
    const { round = 0, candidates = [] } = call;
    const known = candidates.map((candidate) =>
      typeof candidate === "string" ? { name: candidate, description: "" } : candidate);
    const situation = { ...input(call), round, candidates: known };
    const choose = async () => choice(await action.choose(new Situation(attempt(call), situation)));
    return this.#called(choose, withoutEffects(this.#interfaces()));
  }

  async #called(work, interfaces = this.#interfaces()) {
    const before = install(interfaces);
    try {
      return await work();
    } catch (error) {
      const { kind, message } = failure(error, () => []);
      throw Object.assign(new Error(message, { cause: error }), { kind });
    } finally {
      install(before);
    }
  }

  #interfaces() {
    return {
      environment: { emit: (emission) => void this.emitted.push(read(emission)) },
      state: this.#scopes(),
      memory: {
        recent: (bounds) => newest(this.given.memory, bounds),
        byLabel: (label, bounds) => newest(this.given.memory.filter(({ causeBy }) => causeBy === label), bounds),
        replace: (upTo, summary) => {
          if (upTo === 0 || summary.trim() === "") {
            throw new HostError("invalid", "replacing messages: there is nothing to replace, or no text");
          }
          this.replaced.push({ upTo, summary });
        },
      },
      media: {
        load: (digest) => {
          if (digest in this.given.blobs) return this.given.blobs[digest];
          throw new HostError("not-found", `loading \`${digest}\`: no part with this digest was received`);
        },
      },
      log: { write: (level, text) => void this.logged.push({ level, text }) },
      clock: {
        unixTimeMs: () => this.now,
        sleep: (durationMs) => {
          this.now += durationMs;
          this.sleptMs += durationMs;
        },
      },
      tools: {
        list: () => Object.keys(this.given.tools).map((name) => ({ name, description: "", inputSchema: '{"type":"object"}' })),
        call: (made) => this.#callTool(made),
        callMany: (calls) => calls.map((made) => result(() => this.#callTool(made))),
      },
      mcp: { callTool: (server, tool, args) => this.#callServer(server, tool, args) },
      random: { bytes: (length) => this.#random(length) },
      llm: {
        complete: (request) => this.#complete(request),
        completeMany: (requests) => requests.map((request) => result(() => this.#complete(request))),
        embed: (request) => this.#embed(request),
      },
      http: {
        fetch: (request) => this.#fetch(request),
        fetchMany: (requests) => requests.map((request) => result(() => this.#fetch(request))),
      },
      human: { ask: (question) => this.#ask(question) },
      files: this.#directories(),
      secrets: {
        placeholder: (name) => {
          this.#checkSecret(name);
          return `{{secret:${name}}}`;
        },
      },
      env: {
        get: (name) => {
          if (!(name in this.given.env)) throw denied(`variable \`${name}\``);
          return this.given.env[name] ?? null;
        },
      },
    };
  }

  #scopes() {
    const scope = (name) => {
      const found = this.state[name];
      if (!found) throw new HostError("invalid", `there is no scope \`${name}\``);
      return found;
    };
    return {
      get: (name, key) => (key in scope(name) ? JSON.stringify(scope(name)[key]) : null),
      set: (name, key, value) => void (scope(name)[key] = JSON.parse(value)),
      delete: (name, key) => void delete scope(name)[key],
      keys: (name) => Object.keys(scope(name)).sort(),
    };
  }

  /** The directories that contain a file are readable, and so are the writable ones. */
  #directories() {
    const isWritable = (path) => this.given.writable.some((directory) => isBelow(path, directory));
    const isReadable = (path) => [...this.files.keys()].some((file) => isBelow(path, file.replace(/[^/]*$/, "")));
    const change = (path, verb) => {
      if (!isWritable(path)) throw denied(`${verb} \`${path}\``, "a directory that contains it, in `writable`,");
    };
    return {
      read: (path) => {
        const content = this.files.get(path);
        if (content !== undefined) return typeof content === "string" ? new TextEncoder().encode(content) : content;
        if (isWritable(path) || isReadable(path)) throw new HostError("not-found", `reading \`${path}\``);
        throw denied(`reading \`${path}\``);
      },
      write: (path, content) => {
        change(path, "writing");
        this.files.set(path, textOrBytes(content));
      },
      remove: (path) => {
        change(path, "removing");
        if (!this.files.delete(path)) throw new HostError("not-found", `removing \`${path}\``);
      },
      list: (path) => {
        const inside = `${path.replace(/\/+$/, "")}/`;
        const below = [...this.files.keys()].filter((file) => file.startsWith(inside));
        if (below.length === 0 && !isWritable(inside)) throw denied(`listing \`${path}\``);
        const names = below.map((file) => file.slice(inside.length).replace(/\/.*/, "/"));
        return [...new Set(names)].sort();
      },
    };
  }

  /** Returns other bytes at each call, but the same ones in every test. */
  #random(length) {
    if (length > MAX_RANDOM_BYTES) {
      throw new HostError("invalid", `cannot return ${length} random bytes; the maximum is ${MAX_RANDOM_BYTES}`);
    }
    return Uint8Array.from({ length }, () => this.#draw() * 256);
  }

  #callTool({ name, arguments: text }) {
    if (!Object.hasOwn(this.given.tools, name)) throw denied(`tool \`${name}\``);
    const given = JSON.parse(text);
    this.toolCalls.push([name, given]);
    return JSON.stringify(this.given.tools[name](given) ?? null);
  }

  #callServer(server, tool, text) {
    const name = `${server}/${tool}`;
    if (!Object.hasOwn(this.given.mcp, name)) throw denied(`tool \`${name}\``);
    const args = JSON.parse(text);
    this.mcpCalls.push([server, tool, args]);
    const returned = this.given.mcp[name](args);
    const result = typeof returned === "string" ? { text: returned } : returned;
    const { text: shown = "", data, content = [], isError = false } = result;
    const written = data === undefined ? null : JSON.stringify(data);
    return { text: shown, data: written, content: JSON.stringify(content), isError };
  }

  #checkSecret(name) {
    if (!this.given.secrets.includes(name)) throw denied(`secret \`${name}\``);
  }

  #complete(request) {
    this.requests.push(request);
    this.prompts.push(textOf(request.messages.at(-1)));
    const reply = next(this.replies, "llm");
    const { text = "", data, toolCalls = [], ...rest } = typeof reply === "string" ? { text: reply } : reply;
    const parts = text === "" ? [] : [{ tag: "text", val: text }];
    for (const { id, name, arguments: given = "{}" } of toolCalls) {
      const json = typeof given === "string" ? given : JSON.stringify(given);
      parts.push({ tag: "tool-call", val: { id, name, arguments: json } });
    }
    const { finish = toolCalls.length > 0 ? "tool-calls" : "stop" } = rest;
    const structured = data === undefined ? null : JSON.stringify(data);
    return { parts, text, data: structured, finish, model: "scripted", usage: { ...NO_USAGE } };
  }

  #embed(request) {
    this.requests.push(request);
    if (!this.replies) throw denied("`llm`");
    return { vectors: next(this.given.embeddings, "llm"), model: "scripted", inputTokens: 0 };
  }

  #fetch(request) {
    this.requests.push(request);
    request.secrets.forEach((name) => this.#checkSecret(name));
    const given = next(this.responses, "http");
    const { status = 200, headers = {}, body = "" } = typeof given === "string" ? { body: given } : given;
    const sent = Object.entries(headers).map(([name, value]) => ({ name: name.toLowerCase(), value }));
    return { status, headers: sent, body: typeof body === "string" ? new TextEncoder().encode(body) : body };
  }

  #ask(question) {
    this.questions.push(question.text);
    if (this.answers.length > 0) return { value: JSON.stringify(this.answers.shift()), source: "person" };
    if (question.default !== null) return { value: question.default, source: "default" };
    throw new HostError("expired", "nobody answered, and the question has no `default`");
  }
}

function denied(what, it = "it") {
  return new HostError("denied", `${what} is not granted: give ${it} to \`fakeHost\``);
}

/** Returns the interfaces for a thinker, which must not have effects. */
function withoutEffects({ environment, state, memory, files, ...rest }) {
  const refuse = () => {
    throw new HostError("invalid", "nothing can be emitted or written here: a choice changes nothing");
  };
  return {
    ...rest,
    environment: { ...environment, emit: refuse },
    state: { ...state, set: refuse, delete: refuse },
    memory: { ...memory, replace: refuse },
    files: { ...files, write: refuse, remove: refuse },
  };
}

function newest(messages, bounds) {
  let left = bounds.bytes;
  const size = ({ content, data }) => new TextEncoder().encode(content + (data ?? "")).length;
  const newestFirst = (bounds.messages > 0 ? messages.slice(-bounds.messages) : []).reverse();
  const first = newestFirst.findIndex((message) => (left -= size(message)) < 0);
  return newestFirst.slice(0, first < 0 ? undefined : first).reverse();
}

/** Returns the concatenated texts of a message. */
function textOf(message) {
  if (typeof message?.val === "string") return message.val;
  const parts = (message?.val ?? []).flatMap((part) => part.content ?? [part]);
  return parts.map(({ tag, val }) => (tag === "text" ? val : "")).join("");
}

function isBelow(path, directory) {
  return !path.split("/").includes("..") && path.startsWith(`${directory.replace(/\/+$/, "")}/`);
}

/** Returns written content as a string if it is UTF-8. A byte order mark is part of it. */
function textOrBytes(content) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    return Uint8Array.from(content);
  }
}

/** Removes and returns the next scripted result. Throws it if it is an error. */
function next(script, topic) {
  if (!script) throw denied(`\`${topic}\``);
  if (script.length === 0) throw new HostError("upstream", `\`${topic}\`: the test has no more results for it`);
  const first = script.shift();
  if (first instanceof Error) throw first;
  return first;
}

function result(work) {
  try {
    return { tag: "ok", val: work() };
  } catch (error) {
    return { tag: "err", val: error };
  }
}

function read({ data, parts, ...rest }) {
  return { ...rest, data: data === null ? undefined : JSON.parse(data), parts: parts.map(raisePart) };
}

function attempt({ attempt: number = 1, idempotencyKey, arguments: given }) {
  const called = given === undefined ? { turn: null, call: null } : { turn: 0, call: 0 };
  const key = given === undefined ? "test/0/Tester/0" : "test/0/Tester/0/0";
  return { number, idempotencyKey: idempotencyKey ?? key, ...called, deadlineMs: null };
}

function input(call) {
  const { role = {}, action = "Test", index = 0, config = null, news = [], outputs = [], task = null } = call;
  return {
    role: { ...PROFILE, ...role },
    action,
    index,
    config: JSON.stringify(config),
    news: [news].flat().map(message),
    outputs: [outputs].flat().map(message),
    task: typeof task === "string" ? { text: task } : task,
    arguments: call.arguments === undefined ? null : JSON.stringify(call.arguments),
  };
}
