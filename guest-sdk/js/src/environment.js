// Emissions, state, memory, the log, the clock, random values, environment variables and files.

import { message } from "./action.js";
import { Failure } from "./errors.js";
import { call, hasHost } from "./host.js";
import { body, parse, write } from "./json.js";
import { lowerParts } from "./media.js";
import { checkKeys, recipients } from "./validate.js";

const KEYS = ["content", "data", "parts", "to", "causeBy", "route"];
/** The names of an emission in errors. */
const NAMES = { what: "emit", one: "an emission" };

/** Publishes a message when the step is committed. */
export function emit(emission) {
  const { content, data, parts = [], to, causeBy = null, route = [] } =
    typeof emission === "string" ? { content: emission } : checkKeys(emission, KEYS, NAMES);
  const sent = { ...body(content, data, "an emission's data"), parts: lowerParts(parts) };
  call("environment", "emit", { ...sent, to: recipients(to), causeBy, route });
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

/** The largest bound that the interface allows. */
const ANY_SIZE = 2 ** 32 - 1;
const bounds = (messages, bytes = ANY_SIZE) => ({ messages, bytes });

export const memory = {
  recent: (limit, maxBytes) => call("memory", "recent", bounds(limit, maxBytes)).map(message),
  labelled: (causeBy, limit, maxBytes) => call("memory", "byLabel", causeBy, bounds(limit, maxBytes)).map(message),
  replace: (upTo, summary) => call("memory", "replace", upTo, summary),
};

const line = (level) => (text) => call("log", "write", level, String(text));
export const log = { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };

export const clock = {
  now: () => call("clock", "unixTimeMs"),
  sleep: (durationMs) => call("clock", "sleep", durationMs),
};

export const random = { bytes: (length) => Uint8Array.from(call("random", "bytes", length)) };

/**
 * Returns a generator of numbers from 0 to 1 with a seed of 16 bytes: sfc32 by Chris Doty-Humphrey, with two rounds per
 * number.
 */
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
  // These rounds mix each bit of the seed into the whole state.
  for (let first = 0; first < 12; first += 1) round();
  return () => ((round() >>> 5) * 2 ** 26 + (round() >>> 6)) / 2 ** 53;
}

let nextNumber;

/** The implementation of `Math.random`. It calls the host only once, because the number of host calls is limited. */
export function uniform() {
  // There is no host while a component is built, and a seed drawn then would be used in every call.
  if (!hasHost()) return 0.5;
  nextNumber ??= numbers(random.bytes(16));
  return nextNumber();
}

export const env = { get: (name) => call("env", "get", name) ?? undefined };

export const files = {
  read: (path) => Uint8Array.from(call("files", "read", path)),
  readText: (path) => decodeText(files.read(path), path),
  write: (path, content) => call("files", "write", path, bytes(content)),
  remove: (path) => call("files", "remove", path),
  list: (path) => call("files", "list", path),
};

/** Decodes UTF-8. Throws a Failure for other content, which would change if it were decoded and written back. */
function decodeText(content, path) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  } catch {
    throw new Failure("error", `reading \`${path}\`: it is not UTF-8 text`);
  }
}

/** Returns a string as UTF-8, and any other value unchanged. */
export function bytes(content) {
  return typeof content === "string" ? new TextEncoder().encode(content) : content;
}
