// What surrounds an action: messages, state, memory, files, the clock, randomness, variables, the log.

import { message } from "./action.js";
import { call } from "./host.js";
import { body, parse, write } from "./json.js";

/** Publishes one more message, when the step commits. */
export function emit(emission) {
  const { content, data, to = [], causeBy = null, route = [] } =
    typeof emission === "string" ? { content: emission } : emission;
  call("environment", "emit", { ...body(content, data, "an emission's data"), to, causeBy, route });
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

export const memory = {
  recent: (limit) => call("memory", "recent", limit).map(message),
  labelled: (causeBy, limit) => call("memory", "byLabel", causeBy, limit).map(message),
};

const line = (level) => (text) => call("log", "write", level, String(text));
export const log = { debug: line("debug"), info: line("info"), warn: line("warn"), error: line("error") };

export const clock = {
  now: () => call("clock", "unixTimeMs"),
  sleep: (durationMs) => call("clock", "sleep", durationMs),
};

export const random = { bytes: (length) => Uint8Array.from(call("random", "bytes", length)) };

export const env = { get: (name) => call("env", "get", name) ?? undefined };

export const files = {
  read: (path) => Uint8Array.from(call("files", "read", path)),
  readText: (path) => new TextDecoder().decode(files.read(path)),
  write: (path, content) => call("files", "write", path, bytes(content)),
  remove: (path) => call("files", "remove", path),
  list: (path) => call("files", "list", path),
};

/** Texts as UTF-8; anything else as it is. */
export function bytes(content) {
  return typeof content === "string" ? new TextEncoder().encode(content) : content;
}
