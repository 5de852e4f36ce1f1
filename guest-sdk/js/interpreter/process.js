// The globals that programs for Node find: the process, its output, timers, `fetch`, and those of `web.js`.

import { env, http, log } from "@strata/action";
import { createConsole } from "../src/console.js";
import { atob, btoa, crypto, structuredClone } from "./web.js";

/** Thrown by `process.exit`, so that the script ends. */
export class Exit {
  constructor(code) {
    this.code = Number(code ?? 0);
  }
}

/** Ends the script if it has set an exit code. */
export function checkExitCode() {
  if (process.exitCode) throw new Exit(process.exitCode);
}

/** What the script wrote to its standard output and its standard error. */
const written = { info: "", warn: "" };

/** Returns what the script printed, without white space at its end. */
export const printed = () => written.info.trimEnd();
/** Returns what the script wrote to its standard error. */
export const errors = () => written.warn.trimEnd();

function stream(level) {
  return {
    isTTY: false,
    write(text) {
      written[level] += String(text);
      log[level](String(text).replace(/\n$/, ""));
      return true;
    },
  };
}

/** Returns a variable; undefined if it is not granted, as if it were not set. */
function variable(name) {
  try {
    return env.get(name);
  } catch (error) {
    if (error.kind === "denied") return undefined;
    throw error;
  }
}

const process = {
  argv: [],
  cwd: () => "/",
  env: new Proxy({}, { get: (_, name) => (typeof name === "string" ? variable(name) : undefined) }),
  exit(code) {
    throw new Exit(code ?? process.exitCode);
  },
  exitCode: undefined,
  nextTick: (job, ...args) => queueMicrotask(() => job(...args)),
  on: () => process,
  platform: "wasi",
  stderr: stream("warn"),
  stdout: stream("info"),
};

const repeated = new Map();
let lastInterval = 0;

function setInterval(job, delayMs, ...args) {
  lastInterval -= 1;
  const interval = lastInterval;
  const next = () => {
    repeated.set(interval, setTimeout(next, delayMs));
    job(...args);
  };
  repeated.set(interval, setTimeout(next, delayMs));
  return interval;
}

function clearInterval(interval) {
  clearTimeout(repeated.get(interval) ?? interval);
  repeated.delete(interval);
}

/** Makes a request with `http.fetch`, and returns a promise of the response. */
function fetch(url, { method, headers = {}, body } = {}) {
  return new Promise((resolve) => {
    const named = headers instanceof Map ? Object.fromEntries(headers) : headers;
    const response = http.fetch(String(url), { method, headers: named, body: body ?? undefined });
    resolve({
      arrayBuffer: async () => response.body.buffer,
      headers: { get: (name) => response.header(name) ?? null, has: (name) => response.header(name) !== undefined },
      json: async () => response.json(),
      ok: response.ok,
      status: response.status,
      text: async () => response.text(),
      url: String(url),
    });
  });
}

/** Defines the globals for a script with this name. */
export function defineGlobals(name) {
  process.argv = ["node", name];
  const console = createConsole((level, text) => {
    written[level === "debug" || level === "info" ? "info" : "warn"] += `${text}\n`;
    log[level](text);
  });
  const setImmediate = (job, ...args) => setTimeout(job, 0, ...args);
  const clearImmediate = (timer) => clearTimeout(timer);
  Object.assign(globalThis, {
    atob, btoa, clearImmediate, clearInterval, console, crypto, fetch, global: globalThis, process, setImmediate,
    setInterval, structuredClone,
  });
}
