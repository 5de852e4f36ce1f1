// Validation of the values that are passed to the host. A component traps if it passes a value of the wrong type to
// one of the host's interfaces. A trap cannot be caught and has no stack. All arguments and results are therefore
// validated here first, with every host, and a value of the wrong type throws a TypeError in the author's call.

/** A value of the wrong type. The exported functions convert it to a TypeError, whose stack is then shorter. */
class Mismatch {
  constructor(name, expected, found, hint = "") {
    this.message = `${name && `\`${name}\`: `}expected ${expected}, found ${describe(found)}${hint}`;
  }
}

function describe(value) {
  if (value === undefined || value === null) return String(value);
  if (typeof value === "string") return `the string ${quoted(value)}`;
  if (typeof value === "function") return "a function";
  if (typeof value === "object") return Array.isArray(value) ? "an array" : describeObject(value);
  return `the ${typeof value} \`${String(value)}\``;
}

function describeObject(value) {
  if (typeof value.then === "function") return "a promise";
  return kindOf(value) === "Object" ? "an object" : `an object of \`${kindOf(value)}\``;
}

/** Returns the name of the built-in class of an object, e.g. `Date` or `Map`, or `Object` if it has none. */
export const kindOf = (value) => Object.prototype.toString.call(value).slice("[object ".length, -1);
const quoted = (value) => JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);

/**
 * Returns a type. `one` and `many` are the names of its values in errors. `check` returns a value in the form that the
 * host takes, or throws a Mismatch.
 */
const type = (one, many, check) => ({ one, many, check });

const string = type("a string", "strings", (value, name) => {
  if (typeof value !== "string") throw new Mismatch(name, "a string", value);
  // The host takes only valid Unicode. Cutting a string can leave an unpaired surrogate.
  return value.toWellFormed();
});

const between = (least, most, round = Math.trunc) => {
  const one = `a number from ${least} to ${most}`;
  return type(one, "numbers", (value, name) => {
    if (typeof value !== "number" || !(value >= least && value <= most)) throw new Mismatch(name, one, value);
    return round(value);
  });
};
const count = between(0, 2 ** 32 - 1);
// Rounded up, so that less than a second does not become 0.
const seconds = between(0, 2 ** 32 - 1, Math.ceil);

const number = type("a number", "numbers", (value, name) => {
  if (!Number.isFinite(value)) throw new Mismatch(name, "a number", value);
  return value;
});

const bytes = type("a string or bytes", "bytes", (value, name) => {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  const isByte = (part) => Number.isInteger(part) && part >= 0 && part <= 255;
  if (!Array.isArray(value) || !value.every(isByte)) throw new Mismatch(name, "a string or bytes", value);
  return Uint8Array.from(value);
});

const option = ({ one, many, check }) =>
  type(one, many, (value, name) => (value === undefined || value === null ? null : check(value, name)));

const oneOf = (...choices) => {
  const one = choices.map((choice) => `"${choice}"`).join(" or ");
  return type(one, one, (value, name) => {
    if (!choices.includes(value)) throw new Mismatch(name, one, value);
    return value;
  });
};

const list = ({ many, check }) =>
  type(`an array of ${many}`, "arrays", (value, name) => {
    // A single string in place of an array is a common mistake.
    const hint = typeof value === "string" ? `; write \`[${quoted(value)}]\`` : "";
    if (!Array.isArray(value)) throw new Mismatch(name, `an array of ${many}`, value, hint);
    return value.map((part, index) => check(part, `${name}[${index}]`));
  });

const record = (fields) =>
  type("an object", "objects", (value, name) => {
    if (typeof value !== "object" || value === null) throw new Mismatch(name, "an object", value);
    const path = (key) => (name ? `${name}.${key}` : key);
    const parts = Object.entries(fields);
    return Object.fromEntries(parts.map(([key, { check }]) => [key, check(value[key], path(key))]));
  });

/** A type with several cases: an object with `tag` and `val`. In errors, `field` is the name of the `val`. */
const variant = (one, many, cases, field) =>
  type(one, many, (value, name) => {
    const found = Object.hasOwn(cases, value?.tag ?? "") ? cases[value.tag] : undefined;
    if (found === undefined) throw new Mismatch(name, one, value);
    return { tag: value.tag, val: found.check(value.val, field ? `${name}.${field}` : name) };
  });
/** The type of a case without a value. */
const nothing = type("nothing", "nothing", () => undefined);

const SOURCE = variant("one of `data`, `url` and `digest`", "sources", {
  bytes,
  blob: record({ digest: string, size: count }),
  url: string,
});
const MEDIA = record({ mediaType: string, name: option(string), source: SOURCE });
const PART = variant("a string, an image or a file", "strings, images and files", {
  text: string,
  image: MEDIA,
  file: MEDIA,
});
const IMAGE_OR_FILE = variant("an image or a file", "images and files", { image: MEDIA, file: MEDIA });
const HOP = record({ from: string, to: list(string) });
const CALL = record({ id: string, name: string, arguments: string });
const OPAQUE = record({ provider: string, model: string, data: string, reasoning: string });
const ASSISTANT_PART = variant("a part of a reply", "parts of a reply", {
  text: string,
  media: MEDIA,
  "tool-call": CALL,
  opaque: OPAQUE,
});
const boolean = type("a boolean", "booleans", Boolean);
const RESULT = record({ call: string, tool: string, content: list(PART), isError: boolean });
const CHAT_MESSAGES = {
  system: string,
  user: list(PART),
  assistant: list(ASSISTANT_PART),
  "tool-results": list(RESULT),
};
const CHAT_MESSAGE = variant("a message with a `speaker` and its `content`", "messages", CHAT_MESSAGES, "content");
const CHOICE = variant('"auto", "required", "none" or `{ tool }`', "choices", {
  auto: nothing,
  required: nothing,
  none: nothing,
  tool: string,
});
const PROMPT = record({
  model: option(string),
  messages: list(CHAT_MESSAGE),
  tools: list(record({ name: string, description: string, parameters: string })),
  toolChoice: CHOICE,
  outputSchema: option(string),
  effort: option(string),
  temperature: option(number),
  maxTokens: option(count),
  stop: list(string),
  seed: option(count),
});
const TEXTS = record({ model: option(string), texts: list(string), dimensions: option(count) });
const BOUNDS = record({ messages: count, bytes: count });
const REQUEST = record({
  method: string,
  url: string,
  headers: list(record({ name: string, value: string })),
  body: option(bytes),
  secrets: list(string),
  timeoutMs: option(count),
  idempotencyKey: option(string),
});
const QUESTION = record({
  text: string,
  schema: option(string),
  choices: list(string),
  expiresS: option(seconds),
  default: option(string),
});
const TOOL_CALL = record({ name: string, arguments: string });
const BODY = { content: string, data: option(string), parts: list(IMAGE_OR_FILE), to: list(string), route: list(HOP) };
const EMISSION = record({ ...BODY, causeBy: option(string) });

/** The parameters of the host functions: their types, and their names in errors, which may be empty. */
const CALLS = {
  "clock.sleep": [["durationMs", count]],
  "clock.unixTimeMs": [],
  "env.get": [["name", string]],
  "environment.emit": [["", EMISSION]],
  "files.list": [["path", string]],
  "files.read": [["path", string]],
  "files.remove": [["path", string]],
  "files.write": [["path", string], ["content", bytes]],
  "http.fetch": [["", REQUEST]],
  "http.fetchMany": [["requests", list(REQUEST)]],
  "human.ask": [["", QUESTION]],
  "llm.complete": [["", PROMPT]],
  "llm.completeMany": [["requests", list(PROMPT)]],
  "llm.embed": [["", TEXTS]],
  "log.write": [["level", oneOf("debug", "info", "warn", "error")], ["text", string]],
  "mcp.callTool": [["server", string], ["tool", string], ["arguments", string]],
  "media.load": [["digest", string]],
  "memory.byLabel": [["causeBy", string], ["bounds", BOUNDS]],
  "memory.recent": [["bounds", BOUNDS]],
  "memory.replace": [["upTo", count], ["summary", string]],
  "random.bytes": [["length", count]],
  "secrets.placeholder": [["name", string]],
  "state.delete": [["scope", string], ["key", string]],
  "state.get": [["scope", string], ["key", string]],
  "state.keys": [["scope", string]],
  "state.set": [["scope", string], ["key", string], ["value", string]],
  "tools.call": [["", TOOL_CALL]],
  "tools.callMany": [["calls", list(TOOL_CALL)]],
  "tools.list": [],
};
/** The public names of host functions, where they differ. */
const PUBLIC_NAMES = {
  "environment.emit": "emit",
  "llm.complete": "llm.ask",
  "llm.completeMany": "llm.askMany",
  "mcp.callTool": "mcp.call",
  "memory.byLabel": "memory.labelled",
  "secrets.placeholder": "secrets.named",
};

/** The kinds of failures. */
const KINDS = ["error", "retryable", "denied", "host"];
/** The types of the results of an action. */
const RESULTS = {
  choice: between(-(2 ** 31), 2 ** 31 - 1),
  failure: oneOf(...KINDS),
  manifest: record({
    name: string,
    version: string,
    description: string,
    configSchema: option(string),
    inputSchema: option(string),
    outputSchema: option(string),
    needs: list(string),
  }),
  output: record(BODY),
  plan: list(record({ text: string, action: option(string) })),
};

/** Returns the arguments of a host function in the form that it takes. Throws a TypeError if one has the wrong type. */
export function checkArguments(called, args) {
  try {
    return CALLS[called].map(([name, { check }], index) => check(args[index], name));
  } catch (error) {
    throw typeError(error, PUBLIC_NAMES[called] ?? called);
  }
}

/**
 * Returns a result of an action in the form that the host takes. Throws a TypeError if it has the wrong type. `what` is
 * its name in errors.
 */
export function checkResult(kind, value, what) {
  try {
    return RESULTS[kind].check(value, "");
  } catch (error) {
    throw typeError(error, what);
  }
}

/** Returns recipients as the host knows them, for which an empty list means that none are named. */
export function recipients(to) {
  if (to === undefined) return [];
  return Array.isArray(to) && to.length === 0 ? ["<nobody>"] : to;
}

/**
 * Returns the value if it is an object without other keys than `keys`. Otherwise throws a TypeError, because unknown
 * keys would be ignored. `what` and `one` are the names of the value in errors.
 */
export function checkKeys(value, keys, { what, one }) {
  const names = keys.map((key) => `\`${key}\``);
  const form = `a string, or an object with the keys ${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  const hint = value === undefined || value === null ? "" : "; put structured content in `data`";
  const own = isKeyed(value, keys) ? Object.keys(value) : undefined;
  if (!own) throw new TypeError(`${what}: expected ${form}, found ${describe(value)}${hint}`);
  const odd = own.find((key) => !keys.includes(key));
  if (odd !== undefined) throw new TypeError(`${what}: ${one} has no key \`${odd}\`; it is ${form}${hint}`);
  return value;
}

/** Returns whether the value is a plain object, or an instance of an author's class with only these keys. */
function isKeyed(value, keys) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  if (typeof value.then === "function") return false;
  const own = Object.keys(value);
  return kindOf(value) === "Object" || (own.length > 0 && own.every((key) => keys.includes(key)));
}

/** Returns a failure in the form that the host takes. Never throws; invalid fields are replaced. */
export function validFailure({ kind, message }) {
  return { kind: KINDS.includes(kind) ? kind : "error", message: String(message).toWellFormed() };
}

function typeError(error, what) {
  return error instanceof Mismatch ? new TypeError(`${what}: ${error.message}`) : error;
}
