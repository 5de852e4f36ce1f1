// What crosses to the host, as the types that its interfaces ask for. The engine ends a call at a value of another
// type: nothing can catch that, and nothing says where it came from. So every argument and every result passes here
// first, with every host, and what does not fit is a TypeError in the author's own call.

/** What does not fit, on its way out of the types below. Only who throws the TypeError is on its stack. */
class Misfit {
  constructor(at, expected, found, hint = "") {
    this.told = `${at && `\`${at}\`: `}expected ${expected}, found ${shown(found)}${hint}`;
  }
}

function shown(value) {
  if (value === undefined || value === null) return String(value);
  if (typeof value === "string") return `the text ${quoted(value)}`;
  if (typeof value === "function") return "a function";
  if (typeof value === "object") return Array.isArray(value) ? "a list" : shownObject(value);
  return `the ${typeof value} \`${String(value)}\``;
}

function shownObject(value) {
  if (typeof value.then === "function") return "a promise";
  return kindOf(value) === "Object" ? "an object" : `an object of \`${kindOf(value)}\``;
}

/** What the language itself calls an object: `Date`, `Map`, or `Object` where it is none of its own. */
export const kindOf = (value) => Object.prototype.toString.call(value).slice("[object ".length, -1);
const quoted = (value) => JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);

/** A type: what its values are called, one and many of them, and what takes one, or throws a Misfit. */
const type = (one, many, take) => ({ one, many, take });

const text = type("a text", "texts", (value, at) => {
  if (typeof value !== "string") throw new Misfit(at, "a text", value);
  // Half a character, as cutting a text can leave it, is no text to the host.
  return value.toWellFormed();
});

const between = (least, most, round = Math.trunc) => {
  const one = `a number from ${least} to ${most}`;
  return type(one, "numbers", (value, at) => {
    if (typeof value !== "number" || !(value >= least && value <= most)) throw new Misfit(at, one, value);
    return round(value);
  });
};
const count = between(0, 2 ** 32 - 1);
// A part of a second is time, too: nothing is over at once that was given some.
const seconds = between(0, 2 ** 32 - 1, Math.ceil);

const number = type("a number", "numbers", (value, at) => {
  if (!Number.isFinite(value)) throw new Misfit(at, "a number", value);
  return value;
});

const bytes = type("a text or bytes", "bytes", (value, at) => {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  const isByte = (part) => Number.isInteger(part) && part >= 0 && part <= 255;
  if (!Array.isArray(value) || !value.every(isByte)) throw new Misfit(at, "a text or bytes", value);
  return Uint8Array.from(value);
});

const option = ({ one, many, take }) =>
  type(one, many, (value, at) => (value === undefined || value === null ? null : take(value, at)));

const oneOf = (...names) => {
  const one = names.map((name) => `"${name}"`).join(" or ");
  return type(one, one, (value, at) => {
    if (!names.includes(value)) throw new Misfit(at, one, value);
    return value;
  });
};

const list = ({ many, take }) =>
  type(`a list of ${many}`, "lists", (value, at) => {
    // A text is a list of letters to much of JavaScript: one name would become as many.
    const hint = typeof value === "string" ? `; write \`[${quoted(value)}]\`` : "";
    if (!Array.isArray(value)) throw new Misfit(at, `a list of ${many}`, value, hint);
    return value.map((part, index) => take(part, `${at}[${index}]`));
  });

const record = (fields) =>
  type("an object", "objects", (value, at) => {
    if (typeof value !== "object" || value === null) throw new Misfit(at, "an object", value);
    const parts = Object.entries(fields);
    return Object.fromEntries(parts.map(([name, { take }]) => [name, take(value[name], at ? `${at}.${name}` : name)]));
  });

/** One of several cases, each a `tag` with its `val`, which authors have in the field `name` if there is one. */
const variant = (one, many, cases, name) =>
  type(one, many, (value, at) => {
    const found = Object.hasOwn(cases, value?.tag ?? "") ? cases[value.tag] : undefined;
    if (found === undefined) throw new Misfit(at, one, value);
    return { tag: value.tag, val: found.take(value.val, name ? `${at}.${name}` : at) };
  });
/** What a case has that carries nothing. */
const nothing = type("nothing", "nothing", () => undefined);

const SOURCE = variant("one of `data`, `url` and `digest`", "sources", {
  bytes,
  blob: record({ digest: text, size: count }),
  url: text,
});
const MEDIA = record({ mediaType: text, name: option(text), source: SOURCE });
const PART = variant("a text, an image or a file", "texts, images and files", { text, image: MEDIA, file: MEDIA });
const IMAGE_OR_FILE = variant("an image or a file", "images and files", { image: MEDIA, file: MEDIA });
const HOP = record({ from: text, to: list(text) });
const CALL = record({ id: text, name: text, arguments: text });
const OPAQUE = record({ provider: text, model: text, data: text, reasoning: text });
const ASSISTANT_PART = variant("a part of a reply", "parts of a reply", {
  text,
  media: MEDIA,
  "tool-call": CALL,
  opaque: OPAQUE,
});
const RESULT = record({ call: text, tool: text, content: list(PART), isError: type("a truth", "truths", Boolean) });
const CHAT_MESSAGES = {
  system: text,
  user: list(PART),
  assistant: list(ASSISTANT_PART),
  "tool-results": list(RESULT),
};
const CHAT_MESSAGE = variant("a message with a `speaker` and its `content`", "messages", CHAT_MESSAGES, "content");
const CHOICE = variant('"auto", "required", "none" or `{ tool }`', "choices", {
  auto: nothing,
  required: nothing,
  none: nothing,
  tool: text,
});
const PROMPT = record({
  model: option(text),
  messages: list(CHAT_MESSAGE),
  tools: list(record({ name: text, description: text, parameters: text })),
  toolChoice: CHOICE,
  outputSchema: option(text),
  effort: option(text),
  temperature: option(number),
  maxTokens: option(count),
  stop: list(text),
  seed: option(count),
});
const TEXTS = record({ model: option(text), texts: list(text), dimensions: option(count) });
const BOUNDS = record({ messages: count, bytes: count });
const REQUEST = record({
  method: text,
  url: text,
  headers: list(record({ name: text, value: text })),
  body: option(bytes),
  secrets: list(text),
  timeoutMs: option(count),
  idempotencyKey: option(text),
});
const QUESTION = record({
  text,
  schema: option(text),
  choices: list(text),
  expiresS: option(seconds),
  default: option(text),
});
const BODY = { content: text, data: option(text), parts: list(IMAGE_OR_FILE), to: list(text), route: list(HOP) };
const EMISSION = record({ ...BODY, causeBy: option(text) });

/** What host functions take: the name of each argument, and its type. What a name says already has none. */
const CALLS = {
  "clock.sleep": [["durationMs", count]],
  "clock.unixTimeMs": [],
  "env.get": [["name", text]],
  "environment.emit": [["", EMISSION]],
  "files.list": [["path", text]],
  "files.read": [["path", text]],
  "files.remove": [["path", text]],
  "files.write": [["path", text], ["content", bytes]],
  "http.fetch": [["", REQUEST]],
  "http.fetchMany": [["requests", list(REQUEST)]],
  "human.ask": [["", QUESTION]],
  "llm.complete": [["", PROMPT]],
  "llm.completeMany": [["requests", list(PROMPT)]],
  "llm.embed": [["", TEXTS]],
  "log.write": [["level", oneOf("debug", "info", "warn", "error")], ["text", text]],
  "media.load": [["digest", text]],
  "memory.byLabel": [["causeBy", text], ["bounds", BOUNDS]],
  "memory.recent": [["bounds", BOUNDS]],
  "random.bytes": [["length", count]],
  "secrets.placeholder": [["name", text]],
  "state.delete": [["scope", text], ["key", text]],
  "state.get": [["scope", text], ["key", text]],
  "state.keys": [["scope", text]],
  "state.set": [["scope", text], ["key", text], ["value", text]],
};
/** Those that authors know by another name. */
const KNOWN_AS = {
  "environment.emit": "emit",
  "llm.complete": "llm.ask",
  "llm.completeMany": "llm.askMany",
  "memory.byLabel": "memory.labelled",
  "secrets.placeholder": "secrets.named",
};

/** What an action hands over itself. */
const KINDS = ["error", "retryable", "denied", "host"];
const RESULTS = {
  choice: between(-(2 ** 31), 2 ** 31 - 1),
  failure: oneOf(...KINDS),
  manifest: record({
    name: text,
    version: text,
    description: text,
    configSchema: option(text),
    inputSchema: option(text),
    outputSchema: option(text),
    needs: list(text),
  }),
  output: record(BODY),
  plan: list(record({ text, action: option(text) })),
};

/** The arguments of a host function, as it takes them. */
export function checked(called, args) {
  try {
    return CALLS[called].map(([name, { take }], index) => take(args[index], name));
  } catch (error) {
    throw typeError(error, KNOWN_AS[called] ?? called);
  }
}

/** What an action hands over, as the host takes it; `what` is how errors call it. */
export function result(kind, value, what) {
  try {
    return RESULTS[kind].take(value, "");
  } catch (error) {
    throw typeError(error, what);
  }
}

/** What an author may write in place of a text: an object that has no keys but these. Others would be lost unseen. */
export function keyed(value, keys, { what, one }) {
  const names = keys.map((key) => `\`${key}\``);
  const form = `a text, or an object of ${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
  const hint = value === undefined || value === null ? "" : "; what is to be its data goes below `data`";
  const own = isFilled(value, keys) ? Object.keys(value) : undefined;
  if (!own) throw new TypeError(`${what}: expected ${form}, found ${shown(value)}${hint}`);
  const odd = own.find((key) => !keys.includes(key));
  if (odd !== undefined) throw new TypeError(`${what}: ${one} has no \`${odd}\`; it is ${form}${hint}`);
  return value;
}

/** Whether it is an object that was made to be filled with keys, be it of a class of the author's. */
function isFilled(value, keys) {
  if (typeof value !== "object" || value === null || Array.isArray(value) || typeof value.then === "function") return false;
  const own = Object.keys(value);
  return kindOf(value) === "Object" || (own.length > 0 && own.every((key) => keys.includes(key)));
}

/** A failure as the host takes it, whatever was made of it: there is nobody left to tell. */
export function failed({ kind, message }) {
  return { kind: KINDS.includes(kind) ? kind : "error", message: String(message).toWellFormed() };
}

function typeError(error, what) {
  return error instanceof Misfit ? new TypeError(`${what}: ${error.told}`) : error;
}
