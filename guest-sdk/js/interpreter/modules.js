// The modules that a script can import: the SDK, and small replacements for modules of Node. For others, an error says what
// to use instead.

import * as sdk from "@strata/action";
import { format, inspect } from "../src/console.js";
import { assert } from "./assert.js";
import { path } from "./path.js";
import { crypto } from "./web.js";

const SDK = "@strata/action";

const { files } = sdk;
const read = (file) => files.read(path.resolve(file));
const fs = {
  appendFileSync: (file, content) => fs.writeFileSync(file, (fs.existsSync(file) ? fs.readFileSync(file, "utf8") : "") + content),
  existsSync(file) {
    try {
      read(file);
      return true;
    } catch (error) {
      // A directory exists, but is not a file that can be read.
      if (error.kind === "invalid" || error.kind === "not-found") return error.kind === "invalid";
      throw error;
    }
  },
  // Directories are created with the files in them.
  mkdirSync() {},
  readFileSync: (file, options) => (options ? new TextDecoder().decode(read(file)) : read(file)),
  readdirSync: (directory) => files.list(path.resolve(directory)).map((name) => name.replace(/\/$/, "")),
  unlinkSync: (file) => files.remove(path.resolve(file)),
  writeFileSync: (file, content) => files.write(path.resolve(file), content),
};
const later = (call) => (...args) => new Promise((resolve) => resolve(call(...args)));
fs.promises = Object.fromEntries(Object.entries(fs).map(([name, call]) => [name.replace("Sync", ""), later(call)]));

const util = {
  format,
  inspect,
  promisify: (call) => (...args) =>
    new Promise((resolve, reject) => call(...args, (error, value) => (error ? reject(error) : resolve(value)))),
};

const modules = new Map(Object.entries({
  assert,
  "assert/strict": assert,
  crypto: { ...crypto, webcrypto: crypto },
  fs,
  "fs/promises": fs.promises,
  path,
  perf_hooks: { performance: globalThis.performance },
  "timers/promises": { setTimeout: (delayMs, value) => new Promise((resolve) => setTimeout(resolve, delayMs, value)) },
  util,
}));

const NETWORK = `there are no sockets in the sandbox; use \`http\` of \`${SDK}\`, with a grant in \`allow.http\``;
const PROGRAMS = "there are no other programs and no threads in the sandbox";
const INSTEAD = {
  child_process: PROGRAMS, cluster: PROGRAMS, dgram: NETWORK,
  dns: NETWORK, http: NETWORK, http2: NETWORK, https: NETWORK, net: NETWORK,
  readline: `there is no standard input; use \`cx.text\` or \`cx.arguments\`, or ask a person with \`human.ask\` of \`${SDK}\``,
  tls: NETWORK, worker_threads: PROGRAMS,
};
/** The other modules of Node. */
const OF_NODE =
  "async_hooks buffer constants diagnostics_channel domain events module os process punycode querystring repl stream " +
  "string_decoder sys timers tty url v8 vm wasi zlib";

/** Returns whether a script can import a module. */
export function isAvailable(name) {
  return name === SDK || modules.has(name.replace(/^node:/, "")) || isProcess(name);
}

const isProcess = (name) => name.replace(/^node:/, "") === "process";

/** Returns a module. Throws an Error if there is none. */
export function importModule(name) {
  if (name === SDK) return sdk;
  if (isProcess(name)) return withDefault(globalThis.process);
  const module = modules.get(name.replace(/^node:/, ""));
  if (module === undefined) throw new Error(`Cannot find module '${name}': ${instead(name)}`);
  return withDefault(module);
}

/** Returns the members of a module, which are also its default export. */
function withDefault(module) {
  return Object.assign(typeof module === "function" ? module : { ...module }, { default: module });
}

/** Returns what to use instead of a module that is not available. */
export function instead(name) {
  const [base] = name.replace(/^node:/, "").split("/");
  if (Object.hasOwn(INSTEAD, base)) return INSTEAD[base];
  if (name.startsWith("node:") || OF_NODE.split(" ").includes(base)) return `\`${base}\` of Node is not available in the sandbox`;
  return `a script can import \`${SDK}\` and ${[...modules.keys()].join(", ")} of Node; for HTTP use \`http\` of \`${SDK}\`, and for ` +
    "packages an action in JavaScript that lists them in its package.json, or an MCP server";
}
