// What surrounds an action: messages, state, memory, files, the clock, randomness, variables, the log.

import { message } from "./action.js";
import { keyed } from "./border.js";
import { Failure } from "./errors.js";
import { call, hasHost } from "./host.js";
import { body, parse, write } from "./json.js";
import { lowerParts } from "./media.js";

const KEYS = ["content", "data", "parts", "to", "causeBy", "route"];

/** Publishes one more message, when the step commits. */
export function emit(emission) {
  const { content, data, parts = [], to = [], causeBy = null, route = [] } =
    typeof emission === "string" ? { content: emission } : keyed(emission, KEYS, { what: "emit", one: "an emission" });
  const told = { ...body(content, data, "an emission's data"), parts: lowerParts(parts) };
  call("environment", "emit", { ...told, to, causeBy, route });
}

class Scope {
  #name;

  constructor(name) {
    this.#name = name;
  }

  get(key) {
    return parse(call("state", "get", this.#name, key), `\`${key}\` of scope \`${this.#name}\``);
  }

  set(key, value) {
    call("state", "set", this.#name, key, write(value ?? null, `\`${key}\` of scope \`${this.#name}\``));
  }

  delete(key) {
    call("state", "delete", this.#name, key);
  }

  keys() {
    return call("state", "keys", this.#name);
  }
}

export const state = { role: new Scope("role"), scope: (name) => new Scope(name) };

/** As many bytes as the host can count. */
const ANY_SIZE = 2 ** 32 - 1;
const bounds = (messages, bytes = ANY_SIZE) => ({ messages, bytes });

export const memory = {
  recent: (limit, maxBytes) => call("memory", "recent", bounds(limit, maxBytes)).map(message),
  labelled: (causeBy, limit, maxBytes) => call("memory", "byLabel", causeBy, bounds(limit, maxBytes)).map(message),
};

const line = (level) => (text) => call("log", "write", level, String(text));
export const log = { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };

export const clock = {
  now: () => call("clock", "unixTimeMs"),
  sleep: (durationMs) => call("clock", "sleep", durationMs),
};

export const random = { bytes: (length) => Uint8Array.from(call("random", "bytes", length)) };

/** Numbers from 0 to 1 that follow from 16 bytes: Chris Doty-Humphrey's sfc32, two rounds for each. */
export function numbers(seed) {
  let [a, b, c, count] = new Int32Array(Uint8Array.from(seed).buffer);
  const round = () => {
    const drawn = (((a + b) | 0) + count) | 0;
    count = (count + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + drawn) | 0;
    return drawn >>> 0;
  };
  // Until each bit of the seed has had its effect on all of the state.
  for (let first = 0; first < 12; first += 1) round();
  return () => ((round() >>> 5) * 2 ** 26 + (round() >>> 6)) / 2 ** 53;
}

let drawn;

/** `Math.random`. The host is asked once: a loop that draws would soon use up its calls. */
export function uniform() {
  // While a component is made there is no host to ask, and a seed from then would be in every call.
  if (!hasHost()) return 0.5;
  drawn ??= numbers(random.bytes(16));
  return drawn();
}

export const env = { get: (name) => call("env", "get", name) ?? undefined };

export const files = {
  read: (path) => Uint8Array.from(call("files", "read", path)),
  readText: (path) => decoded(files.read(path), path),
  write: (path, content) => call("files", "write", path, bytes(content)),
  remove: (path) => call("files", "remove", path),
  list: (path) => call("files", "list", path),
};

/** A text as it is in a file. Others would not be the same when they are written back. */
function decoded(content, path) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    throw new Failure("error", `reading \`${path}\`: it is not UTF-8 text`);
  }
}

/** Texts as UTF-8; anything else as it is. */
export function bytes(content) {
  return typeof content === "string" ? new TextEncoder().encode(content) : content;
}
